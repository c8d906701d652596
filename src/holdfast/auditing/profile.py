"""What a ready-made plan fixes."""

from dataclasses import dataclass

from holdfast.core import Measure, Threat
from holdfast.parts.threats.common import CORRUPTIONS, Common

COMMON: tuple[Threat, ...] = tuple(Common(name, 3) for name in CORRUPTIONS)
"""The fifteen corruptions of ImageNet-C at their middle severity."""


@dataclass(frozen=True)
class Profile:
    """What a profile fixes: the measures, how many images, and how thoroughly they are checked.

    Attributes:
        description: one line for the command line's help.
        measures: the questions.
        images: size of the population at most.
        attacked: how many of them are attacked at most.
        examined: images on which the checks that cost passes are made.
        queries: budget of the gradient-free attack that looks for masked gradients.
        shared_searches: whether what any search met counts for every measure, see `Plan`.
    """

    description: str
    measures: tuple[Measure, ...]
    images: int
    attacked: int
    examined: int
    queries: int
    shared_searches: bool = True
