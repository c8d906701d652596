"""Edited images: the smallest strength of an edit, among those that were looked at, at which an image fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Album, Failure, Images, Passes, Reps, Shard
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.breaking_radii import CLEARLY
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.noisy import evaluate_clean, represent
from holdfast.parts.observations.shared.smallest_changes import pack_first_changes, smallest_changes
from holdfast.parts.threats.edit import Edit
from holdfast.runtime.errors import BadValue

Strengths = Float[Tensor, "rows"]

KEPT = 32
"""Images of the population, the first ones, of which the edited picture is kept."""

SHOWN = 2
"""Of them so many are shown for each edit."""

RISE = 1e-3
"""By how much the value of a failure must stand out between two others, for its peak to be looked for."""


@dataclass(frozen=True)
class Edited(OfFirst):
    """The smallest strength looked at whose edit makes an image fail, as `strength` [M] in [0, 1]; inf where none does.

    1. A grid of `strengths` from mild (0) to heavy (1): every image is looked at at all of them.
    2. A peak: where the value of the failure rises and falls again over the strengths at which an image holds, at the
       vertex of the parabola through the highest of these points and those beside it.
    3. `halvings` of the interval between the smallest strength that failed and the largest one below that held.

    So an image fails at `strength`, and holds at `held` [M], the largest strength below it that was looked at (NaN
    where it fails at the mildest), and at the grid's points below. Between them nothing is known: failing need not grow
    with the strength, and the smallest strength of all may lie below.

    Also `values` [M, strengths], the value of the failure on the grid, above 0 where it fails; `wrong` [M], whether the
    image fails as it is, which counts as failing at 0; `rival` [M], the position of the image that it is taken for at
    `strength`, -1 for none; and of some images the edited picture, see `pack_first_changes`.

    Attributes:
        edit: the family of threats.
        failure: what counts as broken.
        strengths: points of the grid, 2 or more.
        halvings: passes that narrow the first failure down.
    """

    edit: Edit = Edit()
    failure: Failure = Nearest()
    strengths: int = 8
    halvings: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strengths < 2:
            raise BadValue(f"edited: expected strengths >= 2, mild and heavy, got {self.strengths}")
        if self.halvings > 20:
            raise BadValue(f"edited: expected at most 20 halvings, a millionth of the range, got {self.halvings}")

    @property
    @override
    def title(self) -> str:
        return f"edited: {self.edit.title}, {self.strengths} strengths: {self.failure.title}"

    @property
    def passes(self) -> Passes:
        """The grid, a peak, and the halvings."""
        return Passes(forward=self.strengths + 1 + self.halvings)

    @property
    def adaptive(self) -> bool:
        """Most images have no peak, and where nothing fails nothing is halved."""
        return True

    @property
    def steps(self) -> int:
        """Into how many steps the range is divided at the finest: every strength that is looked at is a multiple."""
        return (self.strengths - 1) * 2**self.halvings

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Look at one shard.

        Raises:
            HoldfastError: an edit that these images do not fit, or a representation that is not finite.
        """
        with shard.encoder.exactly():  # every pass decides whether an image fails
            walk = _Walk(self, shard)
            walk.grid()
            walk.peaks()
            walk.halve()
        return walk.results()

    @property
    def shows(self) -> Literal["", "changes"]:
        """Images at the smallest strength that breaks them."""
        return "changes"

    def pictures(self, results: Mapping[str, Tensor], album: Album) -> list[dict[str, Any]]:
        """Leave pictures of some images after the edit that breaks them, from the mildest to the heaviest."""

        def words(strength: float) -> dict[str, Any]:
            return {"edit": self.edit.at(strength).title, "norm": "", "levels": None}

        return smallest_changes(dict(results) | {"radius": results["strength"]}, album, words, SHOWN)


class _Walk:
    """What is known of the images of a shard: places are whole steps of the range, so that sums do not round."""

    def __init__(self, asks: Edited, shard: Shard):
        self.asks, self.shard = asks, shard
        self.event = asks.failure.bind(shard)
        count = len(shard.x)
        # Points of the grid in the finest steps that halvings can reach
        self.points = torch.arange(asks.strengths) * 2**asks.halvings
        self.values = torch.zeros(count, asks.strengths, dtype=torch.float64)
        # the smallest place that fails, `none` where there is none; the largest below it that holds, -1 for none
        self.none = asks.steps + 1
        self.fails, self.holds = torch.full((count,), self.none), torch.full((count,), -1)
        self.images = shard.x.clone()
        self.reps: Reps | None = None

    def look(self, rows: Int[Tensor, "rows"], places: Int[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """Return the value of the failure of some images at one place each; keep what fails at a smaller place."""
        # Sorted by place, so that images of one strength stand together
        order = places.argsort(stable=True)
        rows, places = rows[order], places[order]
        # images of one strength together, all strengths in one encoder pass
        edited: list[Images] = []
        for place in places.unique().tolist():
            part = self.shard.select(rows[places == place])
            threat = self.asks.edit.at(place / self.asks.steps)
            # The same stream at every strength: what an edit draws for an
            # image does not change along the way
            edited.append(part.disturb(threat, part.rng.child("edited")))
        x = torch.cat(edited)
        # `cat` gives the usual layout, whatever the parts had
        if self.shard.x.is_contiguous(memory_format=torch.channels_last):
            x = x.contiguous(memory_format=torch.channels_last)
        reps = represent(self.shard.select(rows), x)
        value = self.event(reps[:, None].double(), rows).squeeze(1).cpu()
        # what is kept
        failed = value > CLEARLY
        # Only a failure at a smaller place than any before is kept,
        # with its image and representation
        smaller = failed & (places < self.fails[rows])
        self.fails[rows[smaller]] = places[smaller]
        self.images[rows[smaller].to(x.device)] = x[smaller.to(x.device)]
        if self.reps is None:
            self.reps = reps.clone()
        self.reps[rows[smaller].to(reps.device)] = reps[smaller.to(reps.device)]
        # The inverse of the sorting: back in the order that was asked
        return value[order.argsort()]

    def grid(self) -> None:
        """Look at all images at every point of the grid."""
        every = torch.arange(len(self.shard.x))
        for number, place in enumerate(self.points.tolist()):
            self.values[:, number] = self.look(every, torch.full_like(every, place))
        # Every point below the first failure holds; the largest of them is what halving begins from
        below = self.points[None] < self.fails[:, None]
        self.holds = torch.where(below, self.points, -1).amax(1)

    def peaks(self) -> None:
        """Look once where the value of an image that holds may stand highest between the points of the grid."""
        if self.asks.strengths < 3 or not self.asks.halvings:
            return
        left, middle, right = self.values[:, :-2], self.values[:, 1:-1], self.values[:, 2:]
        # The second difference: negative where the value is highest in the middle
        bend = left - 2 * middle + right
        stands_out = (middle >= left) & (middle >= right) & (bend < -RISE)
        stands_out &= self.points[None, 1:-1] < self.fails[:, None]  # images that have not failed before
        # the vertex of the parabola through the three, in steps of the grid from the middle one
        shift = ((left - right) / (2 * torch.where(stands_out, bend, -1.0))).clamp(-0.5, 0.5)
        # The parabola's value at its vertex, f(0) - (f(-1) - f(1)) shift / 4; one
        # place is looked at for each image
        height = torch.where(stands_out, middle - (left - right) * shift / 4, -torch.inf)
        best = height.argmax(1)
        rows = torch.arange(len(best))
        places = self.points[1:-1][best] + (shift[rows, best] * 2**self.asks.halvings).round().long()
        # A vertex at the middle point itself has been seen already
        tried = stands_out.any(1) & (places != self.points[1:-1][best])
        if not tried.any():
            return
        rows, places = rows[tried], places[tried]
        failed = self.look(rows, places) > CLEARLY
        # What broke at the peak held at the point of the grid below it
        below = torch.where(self.points[None] < places[:, None], self.points, -1).amax(1)
        self.holds[rows[failed]] = below[failed]

    def halve(self) -> None:
        """Halve the interval between what holds and what fails, of images that have both."""
        for _ in range(self.asks.halvings):
            rows = self._open().nonzero().flatten()
            if not len(rows):
                return
            # Whole steps of the finest grid; after a peak the two may
            # be an odd number of them apart
            places = (self.holds[rows] + self.fails[rows]) // 2
            held = self.look(rows, places) <= CLEARLY
            self.holds[rows[held]] = places[held]

    def _open(self) -> Bool[Tensor, "images"]:
        return (self.fails < self.none) & (self.holds >= 0) & (self.fails - self.holds > 1)

    def results(self) -> dict[str, Tensor]:
        """Return what was seen; what fails as it is need not be edited."""
        shard, steps = self.shard, self.asks.steps
        assert self.reps is not None  # the grid has looked
        wrong = evaluate_clean(shard, self.event) > 0
        strength = torch.where(self.fails < self.none, self.fails.double() / steps, torch.inf)
        held = torch.where(self.holds >= 0, self.holds.double() / steps, torch.nan)
        taken_for = self.asks.failure.identify(shard, self.reps)
        # No edit breaks these, or none is needed: there is no picture to keep
        lost = strength.isinf() | wrong
        rival = torch.full((len(strength),), -1) if taken_for is None else taken_for.cpu().masked_fill(lost, -1)
        delta = torch.where(lost.to(shard.x.device).view(-1, 1, 1, 1), 0.0, self.images - shard.x)
        return {
            "strength": torch.where(wrong, 0.0, strength),
            "held": held.masked_fill(wrong, torch.nan),
            "values": self.values,
            "wrong": wrong.double(),
            "rival": rival,
            **pack_first_changes(delta, shard.positions, KEPT),
        }
