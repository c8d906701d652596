"""What failures by comparison with the population have in common: its representations, and scores of nearness."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import HoldfastError, Shard
from holdfast.numerics.geometry.divergences import unit


@dataclass(frozen=True)
class Scores:
    """How well each image of the population fits representations: weights · (f' - middle) + bias.

    Attributes:
        weights: a row for each image of the population, [N, D].
        bias: [N].
        middle: [D].
    """

    weights: Float[Tensor, "population dim"]
    bias: Float[Tensor, "population"]
    middle: Float[Tensor, "dim"]

    def __call__(self, reps: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch population"]:
        """Return the scores of representations in float64."""
        # [*, D] @ [D, N]: all images of the population by one matrix product
        return (reps.double() - self.middle) @ self.weights.T + self.bias


def bank_of(shard: Shard, name: str) -> tuple[Float[Tensor, "population dim"], Int[Tensor, "batch"]]:
    """Return the clean representations of the population in float64, and where the images of the shard stand there.

    Raises:
        HoldfastError: a population of one image.
    """
    assert shard.clean is not None  # clean representations are always observed first
    # float64, or near representations would be told apart by rounding
    bank = shard.clean.to(shard.x.device).double()
    if len(bank) < 2:
        raise HoldfastError(f"the failure {name} compares images with each other: expected at least 2, got 1")
    return bank, shard.positions.to(shard.x.device)


def scores_of(bank: Float[Tensor, "population dim"], divergence: str) -> Scores:
    """Return what scores representations against all images, linearly: the nearest one scores highest."""
    if divergence == "cosine":
        return Scores(unit(bank), bank.new_zeros(len(bank)), torch.zeros_like(bank[0]))
    # -||f' - f_j||² without ||f'||², around the middle of the population: less cancels
    middle = bank.mean(0)
    return Scores(2 * (bank - middle), -(bank - middle).square().sum(1), middle)
