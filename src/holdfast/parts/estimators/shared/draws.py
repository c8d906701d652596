"""How many draws an image gets, and in which blocks they come."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import BadValue

FIRST, LARGEST = 32, 1024
"""Draws in the first block of an image, and in the largest one."""

MOST = 100_000
"""Draws that an image may get; every one of them is stored."""


@dataclass(frozen=True)
class Draws(metaclass=Checked):
    """How many draws of a noise an image gets; a frozen dataclass.

    Attributes:
        most: draws for one image at most.
    """

    most: int

    def __post_init__(self) -> None:
        if not 1 <= self.most <= MOST:
            raise BadValue(
                f"{type(self).__name__.lower()}: expected from 1 to {MOST} draws for each image, got {self.most}; the "
                "measure failure_probability estimates what is too rare for that"
            )

    @property
    def adaptive(self) -> bool:
        """Whether an image may get fewer than `most`."""
        return True

    @property
    def common(self) -> int:
        """How many draws every image gets, whatever they show: their mean over images has no bias from stopping."""
        return min(FIRST, self.most)

    @abstractmethod
    def should_stop(self, failed: Int[Tensor, "images"], draws: int) -> Bool[Tensor, "images"]:
        """Return which images need no more than `draws` draws, of which so many failed."""

    def count_until_stop(
        self, outcome: Int[Tensor, "images drawn"]
    ) -> tuple[Int[Tensor, "images"], Int[Tensor, "images"]]:
        """Draws that failed, and draws made, up to the first look at which an image's answer is known.

        Args:
            outcome: 1 for a draw that failed, 0 for one that held; what comes after an answer is not read.
        """
        failed = torch.zeros(len(outcome), dtype=torch.long)
        drawn, decided = torch.zeros_like(failed), torch.zeros(len(outcome), dtype=torch.bool)
        for _, stop in looks(self.most):
            # Only draws up to the look count, also where more were made for others
            left = (~decided).nonzero().squeeze(1)
            failed[left], drawn[left] = outcome[left, :stop].long().sum(1), stop
            decided[left] = self.should_stop(failed[left], stop)
            if bool(decided.all()):
                break
        return failed, drawn


def looks(most: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last (exclusive) draw of every block: 32 draws, as many again, then twice as many, ...

    Answers are looked at after a block, so they do not depend on who else reads the draws, nor on the batch size.
    """
    # Early looks are close together for images that decide at once; later ones are rarer
    start, size = 0, FIRST
    while start < most:
        yield start, min(start + size, most)
        start += size
        # As many as there are already, up to the largest block
        size = min(max(FIRST, start), LARGEST)
