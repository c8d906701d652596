"""What the measures of matching have in common: two images count as the same where their distance is small."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Observation, Score, Subject, Table
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.matching import LEAST, Matches, images_needed, matches, matches_of_copies
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.numerics.statistics.thresholds import AtRate
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.all_pairs import OfAllPairs
from holdfast.parts.measures.shared.edits import EDITS
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.thumbnails import Thumbnails
from holdfast.runtime.errors import BadValue

CONDITION = "given this threshold"


@dataclass(frozen=True)
class Matched(OfAllPairs):
    """A measure that asks whether a distance is below a threshold t with a rate of false positives.

    t is the smallest distance that more than `rate` of all pairs of different clean images reach: a plug-in estimate
    from the population, see `matches`. Pairs that look alike are left out; with classes, so are those of one class. Of
    more than 100,000 images not all pairs are compared, see `pairs_of`.

    With `misses`, t is instead the distance that this share of everyday edited copies are from their originals, or
    farther: what a team sets that may not lose copies. The notes say what share of different images then match.

    A distance is told by its quantile, the share of those pairs (copies) at or below it: no match is a quantile above
    the `level`.

    Attributes:
        rate: of false positives, a share of the pairs of different images.
        divergence: how representations are compared.
        negatives: which pairs are different: "images", all that do not look alike, or "classes", those of two classes,
            which reads labels.
        misses: share of edited copies that may be missed, instead of a rate; one pass more for each edit and image.
    """

    rate: float = 1e-3
    divergence: AnyDivergence = L2()
    negatives: Literal["images", "classes"] = field(default="images", kw_only=True)
    misses: float | None = field(default=None, kw_only=True)

    @property
    def needs_labels(self) -> bool:
        """Whether classes say which pairs are different."""
        return self.negatives == "classes"

    @property
    def learns(self) -> bool:
        """Labels only say which pairs are different."""
        return False

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise BadValue(f"{part_name(self)}: rate: expected a share of pairs in (0, 1), got {self.rate:g}")
        if self.misses is not None and not 0 < self.misses < 1:
            raise BadValue(f"{part_name(self)}: misses: expected a share of copies in (0, 1), got {self.misses:g}")

    @property
    def level(self) -> float:
        """The share of the pairs, or of the copies, that lie below the threshold."""
        return self.rate if self.misses is None else 1 - self.misses

    @property
    def set_at(self) -> str:
        """What the threshold is set at, in a few words."""
        if self.misses is None:
            return f"a false-positive rate of {100 * self.rate:g} %"
        return f"{100 * self.misses:g} % of edited copies missed"

    @property
    def copies(self) -> tuple[Represented, ...]:
        """The edited copies that the threshold is estimated from."""
        return () if self.misses is None else tuple(Represented(threat=edit) for edit in EDITS)

    def threshold_observations(self) -> tuple[Observation, ...]:
        """What the threshold is estimated from: clean representations, thumbnails to know look-alikes by, copies."""
        return Clean(), Thumbnails(), *self.copies

    def compute_quantiles(
        self, subject: Subject, pairs: list[tuple[Float[Tensor, "images dim"], Float[Tensor, "images dim"]]]
    ) -> tuple[list[Float[Tensor, "population"]], Table]:
        """Return the quantiles of distances, NaN where there is no threshold, and the columns that tell what it is.

        Args:
            subject: the encoder that was observed.
            pairs: representations whose distances are meant, row by row, of the first images.
        """
        clean = Clean.of(subject).double()
        # [pairs, images]: every distance that is held against the threshold
        apart = torch.stack([self.divergence(a.double(), b.double()) for a, b in pairs])
        numbers: dict[str, float] = {}
        if self.misses is None:
            result = self._matches(subject, clean, apart)
            # With fewer pairs than this below it, single pairs would decide the threshold
            limit = math.nan if result.allowed < LEAST else result.threshold
        else:
            result = matches_of_copies(
                self._compare_copies(subject, clean), apart, self.level, len(clean), self.divergence.signed
            )
            limit = math.nan if result.pairs - result.allowed < LEAST else result.threshold
            at = torch.tensor([limit], dtype=torch.float64)
            # What a threshold that was set by copies lets through among different images
            numbers["false positives"] = float(self._matches(subject, clean, at).quantiles[0])
        # Without a threshold nothing matches or fails to match
        quantiles = torch.full_like(result.quantiles, torch.nan) if math.isnan(limit) else result.quantiles
        numbers |= {"threshold": limit, "allowed": float(result.allowed), "pairs": float(result.pairs)}
        # What holds for all images stands in every row, so that the table alone tells the scores
        columns = {name: torch.full_like(result.near, number) for name, number in numbers.items()}
        return list(pad_to_population(quantiles, len(clean))), {"near": result.near, **columns}

    def _matches(
        self, subject: Subject, clean: Float[Tensor, "population dim"], apart: Float[Tensor, "*shape"]
    ) -> Matches:
        """Return the threshold of the pairs that are compared, and where distances lie among these."""
        thumbnails = subject.read(Thumbnails())["thumbnails"]
        labels = labels_of(subject) if self.needs_labels else None
        circle = self.circle(subject)
        return matches(clean, thumbnails, apart, self.rate, self.divergence, labels, circle)

    def _compare_copies(
        self, subject: Subject, clean: Float[Tensor, "population dim"]
    ) -> Float[Tensor, "edits images"]:
        """Return how far copies are from their originals."""
        # Every edit counts alike: a copy is a row of one edit
        edited = [subject.read(copy)["reps"].double() for copy in self.copies]
        return torch.stack([self.divergence(reps, clean[: len(reps)]) for reps in edited])

    def at_rate(
        self,
        table: Table,
        values: Callable[[float], Float[Tensor, "population"]],
        reduce: Callable[[Float[Tensor, "population"]], Score],
    ) -> Statistic:
        """Return the mean of values that depend on the rate, with a note of what the threshold is."""
        near = table["near"]
        by_rate = AtRate(values, near, self.level, float(table["pairs"][0]), self.partners(len(near)), reduce)
        return by_rate.restate(lambda score: self._annotate(score, table))

    def _annotate(self, score: Score, table: Table) -> Score:
        """Return a score that says what its threshold is, or why there is none."""
        limit, allowed, pairs = (float(table[name][0]) for name in ("threshold", "allowed", "pairs"))
        if self.misses is not None:
            return self._annotate_copies(score, table, self.misses)
        images = len(table["near"])
        of = f"{pairs:,.0f} pairs of {images} images"
        if not math.isnan(limit):
            words = f"threshold {limit:.4g} in {self.divergence}: {allowed:,.0f} of {of} match"
            return replace(score, note="; ".join(filter(None, [words, score.note])))
        if allowed < LEAST:
            words = f"a rate of {self.rate:g} leaves {allowed:.0f} of {of}, and a threshold needs {LEAST}"
            more = f"{images_needed(self.rate)} images{' (pairs_of)' if self.partners(images) < images - 1 else ''}"
            return replace(score, note=f"undefined: {words}; use {more} or a larger rate")
        return replace(score, note=f"undefined: more than a share of {self.rate:g} of {of} are equal to this encoder")

    def _annotate_copies(self, score: Score, table: Table, misses: float) -> Score:
        limit, kept, copies = (float(table[name][0]) for name in ("threshold", "allowed", "pairs"))
        if math.isnan(limit):
            words = f"to miss a share of {misses:g} leaves {copies - kept:.0f} of {copies:,.0f} edited copies"
            return replace(score, note=f"undefined: {words}, and a threshold needs {LEAST}; use more images")
        false = 100 * float(table["false positives"][0])
        words = f"threshold {limit:.4g} in {self.divergence}: {kept:,.0f} of {copies:,.0f} edited copies match"
        return replace(
            score, note="; ".join(filter(None, [f"{words}, and {false:.2g} % of different images", score.note]))
        )


def above(quantiles: Float[Tensor, "images"], rate: float) -> Float[Tensor, "images"]:
    """Return 1 where a distance does not match, 0 where it does; NaN where it is undefined."""
    exceeds = quantiles > rate * (1 + 1e-12)  # as many match as `matches` allows
    return torch.where(quantiles.isnan(), torch.nan, exceeds.double())
