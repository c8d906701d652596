"""What failures by comparison with the population have in common: its representations."""

from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Shard
from holdfast.runtime.errors import NotEnough


def bank_of(shard: Shard, name: str) -> tuple[Float[Tensor, "population dim"], Int[Tensor, "batch"]]:
    """Return the clean representations of the population in float64, and where the images of the shard stand there.

    Raises:
        HoldfastError: a population of one image.
    """
    assert shard.clean is not None  # clean representations are always observed first
    # float64, or near representations would be told apart by rounding
    bank = shard.clean.to(shard.x.device).double()
    if len(bank) < 2:
        raise NotEnough(f"the failure {name} compares images with each other: expected at least 2, got 1")
    return bank, shard.positions.to(shard.x.device)
