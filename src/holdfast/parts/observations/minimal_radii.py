"""Minimal adversarial radii: the smallest change found that confuses an image with a negative."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Images, Margin, Passes, Search, Shard
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.minimal import minimal_radius, passes
from holdfast.parts.attacks.shared.smallest import Breaks
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.objectives.pair_margin import PairMargin
from holdfast.parts.observations.shared.first import OfAnyRadius
from holdfast.parts.observations.shared.margins import OfMargins, clean_of, confusion, last_digits, nearest_rows, row
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Missing


@dataclass(frozen=True)
class MinimalRadii(OfAnyRadius, OfMargins):
    """min ||x' - x|| over the images x' with m(x') < 0 that were found, as `radius` [M, K] in pixels; inf where none.

    The search begins from the negative itself as well, which is confused with itself. Every radius belongs to a real
    image whose margin is below zero by more than rounding, so the true radius is at most this. Where a negative has the
    representation of the image itself, the margin is zero everywhere and the radius 0. With a linear head there is one
    column: the smallest change of class.

    Also `size` [M, T] and `reps` [M, T, D], the radii of all searches and the representations of their images; where
    they are kept, `image` [M, T, C, H, W].

    Attributes:
        ball: the norm; its radius is not read.
        steps: gradient steps of each search; where images are kept, 0 looks along the way to the negative alone, which
            needs no gradient.
        keep: whether the images are kept, whose pixels are many.
    """

    ball: Ball = Linf()
    steps: int = 40
    keep: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < (0 if self.keep else 1) or not isinstance(self.negatives, int):
            raise BadValue(
                f"minimal_radii: expected steps >= 1 and a number of negatives, got steps={self.steps}, "
                f"negatives={self.negatives}"
            )

    @property
    @override
    def title(self) -> str:
        return f"smallest attacks, {self.rows}: {self.steps} steps, {self.ball.norm}"

    @property
    def searches(self) -> tuple[Search, ...]:
        """The one that it makes for each negative, or class."""
        sought = PairMargin(self.divergence) if self.probe is None else Misclassified(self.probe)
        return (Search(MinimumNorm(self.steps), self.ball, sought),)

    def collect_points(self, ball: Ball, results: Mapping[str, Tensor]) -> Float[Tensor, "images points dim"] | None:
        """Return the representations of the broken images that lie in the ball."""
        if ball.of_usual_radius != self.ball.of_usual_radius:
            return None
        outside = (results["size"] > ball.radius)[..., None]
        return results["reps"].masked_fill(outside, torch.nan)

    @property
    def passes(self) -> Passes:
        """Those of one search for each negative, or class; at most so many where there are fewer classes."""
        return (passes(self.steps, self.probe is None) + Pgd().choosing(self.ball)) * (self.comparisons or 1)

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        margin = self.margins(shard)
        # The nearest classes are searched for one by one; the smallest change
        # of class is the least of these
        if self.probe is not None:
            classes = nearest_rows(margin, clean_of(shard)[shard.positions], self.comparisons or 1)
            searches = [self._search(shard, row(margin, numbers), None) for numbers in classes.unbind(1)]
            least = torch.stack([size for size, *_ in searches], 1).amin(1, keepdim=True)
            return {"radius": least, **_side_by_side(searches)}
        if shard.others is None:
            raise Missing("minimal_radii: the search begins at the negatives, and their images cannot be had")
        searches = []
        for number, others in enumerate(self.others(shard).unbind(1)):
            rows = torch.full_like(others, number)
            # The negative's own image is confused with itself: a
            # search may begin there and come back
            searches.append(self._search(shard, row(margin, rows), shard.others(others)))
        return {"radius": torch.stack([size for size, *_ in searches], 1), **_side_by_side(searches)}

    def _search(self, shard: Shard, margin: Margin, broken: Images | None) -> tuple[Tensor, ...]:
        goal, breaks = confusion(shard.encoder, margin, shard.x), breaks_of(margin)
        with shard.encoder.exactly():  # every pass decides whether an image breaks
            (ball,) = Pgd().at_places(goal, shard.x, self.ball, shard.rng)
            radius, image, reps = minimal_radius(goal, breaks, shard.x, ball, self.steps, broken)
        found = radius.double().cpu(), reps.float().cpu()
        # Pixels are many: only where somebody asks for them
        return (*found, image.detach().cpu()) if self.keep else found


def _side_by_side(searches: list[tuple[Tensor, ...]]) -> dict[str, Tensor]:
    """Return what several searches found, a column for each."""
    columns = (torch.stack(found, 1) for found in zip(*searches, strict=True))
    return dict(zip(("size", "reps", "image"), columns, strict=False))


def breaks_of(margin: Margin) -> Breaks:
    """Return what counts as broken: a margin of one row below zero by more than rounding."""

    def breaks(reps: Tensor) -> Tensor:
        exact = reps.double()
        # float64, and below zero by more than what the representation's own rounding can make
        return (margin(exact) <= -last_digits(margin, exact)).squeeze(1)

    return breaks
