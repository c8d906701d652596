"""Breaking radius: how far an image may move before the encoder takes it for another one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from typing_extensions import override

from holdfast.core import Ball, Failure, InWords, Measure, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Chart, Curves
from holdfast.numerics.statistics.broken_median import BrokenMedian
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.shared.bracket import in_order
from holdfast.parts.measures.shared.robustness_curve import curve_difference, robustness_curve
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.everyday_changes import EverydayChanges
from holdfast.parts.observations.nearest_image import NearestImage
from holdfast.parts.observations.proved_radii import ProvedRadii
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.digits import ends, number
from holdfast.runtime.sizes import size_in_words

HOLDS = "holds at {}"
"""Name of the score of a landmark."""

ANY_ENCODER = "of any encoder"
"""Name of the score that bounds those of all encoders."""


@dataclass(frozen=True)
class BreakingRadius(Measure):
    """r(x) = min ||x' - x|| over the images x' that fail: by default, that are taken for another image.

    No ε is chosen, and no label read. Of each image a search finds one that fails, so r(x) is at most its distance,
    `broken`; where a certifier reaches, no image nearer than `proved` fails, so r(x) is at least that. The share of
    images with r(x) > ε, the robustness at ε, is read from the same radii for every ε.

    Another image of the population is what an image is taken for: radii fall as the population grows, so only those
    of equal populations can be compared. Images that look alike to the encoder are not told apart, and are no failure.

    The scale: an encoder that answers at random takes every changed image for another one, r(x) = 0. At another image
    x_j itself every encoder that tells the two apart takes it for x_j: r(x) <= min_j ||x_j - x||, the score `of any
    encoder`, which other failures do not have.

    Table, one row for each attacked image, radii in pixels: `broken`; `halfway`, what was known after half of the
    passes; `proved`, NaN where nothing was tried or where no certifier reaches; `apart`, the distance from the nearest
    other image; `level`, the size of a change of every pixel by one grey level; `jpeg`, `noise` and `visible`, the
    sizes of the image's `everyday_changes`; `population`, how many images there are.

    Attributes:
        ball: the norm of the radius; its own radius is not read.
        failure: what counts as broken.
        steps: passes of the search for each image.
        certifier: what proves the other side.
        certified: how many images, the first ones, are certified at most; 0: none, which costs nothing.
        tolerance: of the proof's search, in pixels.
        first: how many images; None: all that the audit attacks.
        queries: forward passes of a search without gradients, in the place of `steps`, for any encoder.
        only_ranks: whether a query says no more than which image is nearest, not how near.
    """

    ball: Ball = Linf()
    failure: Failure = Nearest()
    steps: int = 100
    certifier: Propagation = Crown()
    certified: int = 8
    tolerance: float = 2e-5
    first: Count | None = field(default=None, kw_only=True)
    queries: Count | None = field(default=None, kw_only=True)
    only_ranks: bool = field(default=False, kw_only=True)

    answers = True
    better = "higher"
    of_any_radius = True
    in_brief = True
    unit = "pixels"
    question = "How large a change does it take before an image is taken for another one?"
    how_to_read = (
        "A change of this size breaks half of the images: in ℓ∞, n/255 means that no pixel changes by more than n of "
        "255 grey levels; in other norms it is in pixels of a [0, 1] image. An attack gives an upper bound: a better "
        "attack may need less, but never less than what is proved. Compare it only between audits with the same "
        "number of images."
    )
    reference = (
        "the event of Eq. 1 of Petrov & Kwiatkowska (2022), without its ε; Definition 4 of Wang & Liu (2023) for the "
        "proved side"
    )

    def __post_init__(self) -> None:
        for needed in self.observations():
            needed.key()  # builds them, which refuses what they cannot do

    @property
    def needs_labels(self) -> bool:
        """Whether the failure reads labels."""
        return self.failure.needs_labels

    @property
    @override
    def gloss(self) -> str:
        return f"half {self.failure.clause} at{'' if self.ball.is_box else f' ({self.ball.norm})'}"

    @property
    def column(self) -> str:
        """The radius that was found."""
        return "broken"

    @property
    def attack_side(self) -> BreakingRadii:
        """The attack's side."""
        return BreakingRadii(self.ball, self.failure, self.steps, self.queries, self.only_ranks, first=self.first)

    @property
    def nearest(self) -> NearestImage:
        """What no encoder holds beyond."""
        return NearestImage(self.ball, first=self.first)

    @property
    def everyday(self) -> EverydayChanges:
        """Changes that people know, in the same norm."""
        return EverydayChanges(self.ball, first=self.first)

    @property
    def certificate_side(self) -> ProvedRadii | None:
        """The certificate's side; None where nothing is to be proved."""
        if not self.certified or not self.failure.provable:
            return None
        most = self.certified if self.first is None else min(self.first, self.certified)
        return ProvedRadii(self.certifier, self.ball, self.failure, self.tolerance, first=most)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the smallest changes, everyday ones, the nearest other images, and what is proved."""
        # Thumbnails come first, by which the nearest other images are found
        nearest = (*self.nearest.prerequisites(), self.nearest)
        return (Clean(), self.attack_side, self.everyday, *nearest, *self.optional)

    @property
    def optional(self) -> tuple[Observation, ...]:
        """What is proved."""
        return () if self.certificate_side is None else (self.certificate_side,)

    def observe(self, subject: Subject) -> Table:
        """Return both radii of every attacked image."""
        broken = subject.read(self.attack_side)
        radius = broken["radius"]
        proved = torch.full_like(radius, torch.nan)
        # Encoders that no certifier reaches have no proved side, and the measure is still of use
        if self.certificate_side is not None and not subject.refusal(self.certificate_side):
            certified = subject.read(self.certificate_side)["radius"]
            # The search for a proof ends within its tolerance, so that is how far the two may cross
            in_order(subject.ids, certified, radius[: len(certified)], self.tolerance)
            proved[: len(certified)] = certified
        population = torch.full_like(radius, float(subject.population))
        radii = {"broken": radius, "halfway": broken["halfway"], "proved": proved, "population": population}
        return radii | subject.read(self.nearest) | subject.read(self.everyday)

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the shares that hold at the landmarks; medians: of any encoder, proved, known halfway, and broken."""
        radius = table["broken"]
        condition = f"given this population of {int(table['population'][0])} images"
        reduced = {
            # The robustness at ε, from the same radii for every ε
            HOLDS.format(name): Share((radius > at).double(), condition=condition).say("share")
            for at, name in self.ball.landmarks
        }
        if self.failure.at_others:
            # r(x) <= ||x_j - x||, whatever the encoder; only failures that every image has
            # at another one know this limit
            reduced[ANY_ENCODER] = BrokenMedian(table["apart"], condition=condition).say(better="neither")
        if self.certificate_side is not None:
            reduced["proved"] = BrokenMedian(table["proved"], condition=condition)
        return reduced | {
            "with half the passes": BrokenMedian(table["halfway"], condition=condition),
            "median": BrokenMedian(radius, condition=condition),
        }

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search; what is proved, and what holds for any encoder, relies on none."""
        return () if score in ("proved", ANY_ENCODER) else super().relies_on(score)

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the robustness curve: the share of images that hold against the size of the change."""
        curve = robustness_curve(table, self.ball, self.in_words(table, scores).text)
        return () if curve is None else (curve,)

    def contrast(self, tables: tuple[Table, Table], names: tuple[str, str]) -> Curves | None:
        """Return the difference of two robustness curves."""
        return curve_difference(tables, names, self.ball)

    def in_words(self, table: Table, scores: Mapping[str, Score]) -> InWords:
        """Return how far half of the images may move, and what is proved."""
        median, proved = scores["median"], scores.get("proved")
        images, definition = f"half of {median.n} images {self.failure.clause}", self.failure.definition
        further = () if proved is None or proved.value is None else (f"Proved: {self._describe_certificate(proved)}.",)
        if self.queries is not None:
            asked = "which only say what is nearest" if self.only_ranks else "without a gradient"
            further += (f"Found by {self.queries:,} queries for each image, {asked}: it may take less.",)
        if median.value is None:
            return InWords(f"no change was found after which {images}", definition, further)
        size, interval = self._size(median), _between(median, self.ball.is_box)
        if not self.ball.is_box:  # a length says little by itself
            interval += f"; a change of every pixel by one tone is {size_in_words(float(table['level'].min()), False)}"
        return InWords(
            f"{images} after a change of {size} ({interval})", definition, further, is_number=self.queries is None
        )

    def _describe_certificate(self, proved: Score) -> str:
        """Return what is proved."""
        assert proved.value is not None
        if proved.value == 0:
            return f"nothing for half of {proved.n} images"
        interval = _between(proved, self.ball.is_box)
        return f"half of {proved.n} images hold up to {self._size(proved)} ({interval})"

    def _size(self, score: Score) -> str:
        """Return a radius as tables have it: in grey levels where every pixel may move so far, else with its norm."""
        scale = 255 if self.ball.is_box else 1
        low, high = (None if end is None else end * scale for end in (score.low, score.high))
        size = number(None if score.value is None else score.value * scale, self.unit, low, high)
        return f"{size}/255" if self.ball.is_box else f"{size} in {self.ball.norm}"


def _between(score: Score, levels: bool) -> str:
    """Return an interval in words, with the digits that tables have."""
    value, low, high = (
        None if end is None else end * (255 if levels else 1) for end in (score.value, score.low, score.high)
    )
    pair = ends(value, low, high)
    return f"{100 * score.confidence:g} %: {pair[0]} to {pair[1]}" if pair else "no interval"
