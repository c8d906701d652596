"""Whether the attack of a training still finds what a finer one finds, and what is done where it does not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.core import Ball
from holdfast.training.adversary import Adversary

COARSE, GROWN = 1.5, 1.3
"""An attack has become too coarse where a finer one finds so many times as much, and this is so many times the least
that there was: before training, three large steps find half of what many small ones do on some networks, which is no
reason to change anything."""

USELESS = 3.0
"""How many times as much a finer attack finds where an attack was too coarse from the beginning."""

MENDS = 3
"""How often an attack is made finer: by then it has eight times the steps."""

SLOWER = 0.5
"""What the rate is multiplied by whenever the attack is made finer."""

IMAGES = 32
"""How many images both attacks are tried on."""


@dataclass(frozen=True)
class Coarseness:
    """A comparison of the attack of a training with a finer one.

    Attributes:
        step: of the training.
        ratio: how much more the finer one finds, see `Adversary.measure_coarseness`.
        coarse: whether the attack is too coarse.
        mended: whether a finer attack follows.
    """

    step: int
    ratio: float
    coarse: bool
    mended: bool


def judge(ratio: float, step: int, before: Sequence[float], adversary: Adversary, mends: int) -> Coarseness:
    """Return what a comparison says.

    Args:
        ratio: see `Adversary.measure_coarseness`.
        step: of the training.
        before: what the ratio was at earlier steps.
        adversary: of the training.
        mends: how often its attack has been made finer.
    """
    coarse = ratio > USELESS or (ratio > COARSE and ratio > GROWN * min([ratio, *before]))
    return Coarseness(step, ratio, coarse, coarse and adversary.mend and mends < MENDS)


def refine(adversary: Adversary, times: int) -> Adversary:
    """Return the adversary with its attack made finer so many times."""
    for _ in range(times):
        assert isinstance(adversary.threat, Ball)
        adversary = replace(adversary, attack=adversary.attack.refine(adversary.threat))
    return adversary
