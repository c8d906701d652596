"""What is asked about images: a last linear layer of the network, and which of its outputs are unsafe."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Head, Margin, Reps, Rng, registry
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.numerics.geometry.negatives import draw_negatives
from holdfast.runtime.errors import no_labels


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked about one image x': can the outputs weights · f(x') + bias be unsafe?

    Attributes:
        network: name of the network that computes them; questions of one name share it.
        weights: [m, D].
        bias: [m].
        unsafe: the ways in which they are, see `Query`.
        outputs: what each output is, in words, [m].
    """

    network: str
    weights: Float[Tensor, "outputs dim"]
    bias: Float[Tensor, "outputs"]
    unsafe: tuple[Margin, ...]
    outputs: tuple[str, ...]


def about_pairs(
    chosen: Sequence[int], clean: Reps, ids: Sequence[str], seed: int, negatives: int, divergence: LinearDivergence
) -> list[Question]:
    """Return for each image whether f(x') can be as near to f(x⁻) as to f(x), for one of its negatives x⁻."""
    positions = torch.tensor(list(chosen))
    rng = Rng(seed, ids=tuple(ids[number] for number in chosen))
    drawn = draw_negatives(rng, positions, len(clean), negatives)
    margin = divergence.between(clean[positions], clean[drawn])
    unsafe = tuple(_at_most_zero(row) for row in torch.eye(negatives).double())
    return [
        Question(
            f"image-{number}",
            margin.weights[i],
            margin.bias[i],
            unsafe,
            tuple(f"margin against {ids[other]}" for other in drawn[i].tolist()),
        )
        for i, number in enumerate(chosen)
    ]


def about_classes(
    chosen: Sequence[int], clean: Reps, path: str | os.PathLike[str], labels: Sequence[int] | None, label: bool
) -> list[Question]:
    """Return for each image whether a linear head can give x' another class."""
    if label and labels is None:
        raise no_labels("label", "the source of images")
    none = torch.zeros(1, dtype=torch.long)
    head: Head = registry.part("probes", "trained", path=os.fspath(path)).fit(clean[:1], none)
    own = head.numbers(torch.tensor(labels)) if label else head.scores(clean).argmax(1)
    return [
        Question(
            "classifier",
            head.weights.double(),
            head.bias.double(),
            _another(own[number], len(head.classes)),
            tuple(f"logit of class {value}" for value in head.classes.tolist()),
        )
        for number in chosen
    ]


def _another(own: Int[Tensor, ""], classes: int) -> tuple[Margin, ...]:
    """Return the ways in which another logit is as large as one's own."""
    units = torch.eye(classes).double()
    return tuple(_at_most_zero(units[own] - units[j]) for j in range(classes) if j != own)


def _at_most_zero(row: Float[Tensor, "outputs"]) -> Margin:
    return Margin(row[None, None], torch.zeros(1, 1, dtype=torch.float64))
