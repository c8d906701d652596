"""Matching radius: how far an image may move before it leaves its own copies, or becomes one of another image."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Ball, Measure, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Chart, Curves, Line, numbers
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.numerics.statistics.survival import survival
from holdfast.numerics.statistics.thresholds import MedianAtRate
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.failures.collided import Collided
from holdfast.parts.failures.shared.thresholds import ENDS, End
from holdfast.parts.failures.unmatched import Unmatched
from holdfast.parts.measures.retrieval.matching import STYLES
from holdfast.parts.measures.shared.matched import CONDITION
from holdfast.parts.measures.shared.robustness_curve import across, sizes
from holdfast.parts.observations.attacked import pair_of
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count

FAILURES = {"evasion": Unmatched, "collision": Collided}
"""What is searched for, by the names of the scores."""


@dataclass(frozen=True)
class MatchingRadius(Measure):
    """evasion = min{ ||x' - x|| : d(f(x'), f(x)) >= t }; collision = min{ ||x' - x|| : d(f(x'), f(y)) < t }.

    The smallest changes after which a copy of x is no longer found, and after which x is taken for a copy of its
    partner y, another image; t, the partners and which images are left out are those of `Matching`. No ε is chosen. The
    scores are the medians over images: each radius belongs to an image that a search found, so it is an upper bound.

    The threshold is an estimate, and what breaks an image at another one takes another search: so both are searched at
    t and at the thresholds of both ends of its rate's interval, and the intervals of the medians hold its error.
    What evades a larger threshold evades a smaller one, and what collides at a smaller one collides at a larger one.

    Table, one row per image of the population, NaN where it was not attacked: `evasion` and `collision`, in pixels;
    `evasion@low`, `evasion@high` and so on at the thresholds `low` and `high`; `pair`; `near`, the share of an image's
    own pairs below the threshold; `threshold`, `allowed`, `pairs`, `rate low` and `rate high`.

    Attributes:
        rate: of false positives, a share of the pairs of different images.
        ball: the norm of the radius; its own radius is not read.
        steps: passes of each of the six searches for each image.
        divergence: how representations are compared.
        negatives: which pairs are different: "images", all that do not look alike, or "classes", those of two classes,
            which reads labels.
        first: how many images; None: all that the audit attacks.
    """

    rate: float = 1e-3
    ball: Ball = Linf()
    steps: int = 100
    divergence: AnyDivergence = field(default=Unmatched().divergence, kw_only=True)
    negatives: Literal["images", "classes"] = field(default="images", kw_only=True)
    first: Count | None = field(default=None, kw_only=True)

    better = "higher"
    of_any_radius = True
    unit = "pixels"
    question = "How large a change does it take before a copy is not found, or an image taken for a copy of another?"
    how_to_read = (
        "An evasion of 2/255 means that half of the images are no longer recognised as copies of themselves after a "
        "change of that size; a collision of 8/255 that half can be made to match another image, given for each. A "
        "better attack may need less. The note gives the threshold and its false-positive rate: a lower rate makes "
        "evasion easier and collision harder."
    )
    reference = "Jain et al. (2022) for evasion; Struppek et al. (2022) for collision"

    def __post_init__(self) -> None:
        for needed in self.observations():
            needed.key()  # builds them, which refuses what they cannot do

    @property
    def needs_labels(self) -> bool:
        """Whether classes say which pairs are different."""
        return self.negatives == "classes"

    @property
    def learns(self) -> bool:
        """Labels only say which pairs are different."""
        return False

    @property
    def column(self) -> str:
        """The smallest change after which an image evades."""
        return "evasion"

    def search(self, name: str, end: End = "") -> BreakingRadii:
        """Return what is observed for a score, at the threshold or at an end of its interval."""
        failure = FAILURES[name](self.rate, self.divergence, negatives=self.negatives, end=end)
        return BreakingRadii(self.ball, failure, self.steps, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, and both smallest changes at three thresholds."""
        return Clean(), *(self.search(name, end) for name in FAILURES for end in ENDS)

    @property
    def searches(self) -> tuple[Search, ...]:
        """Those at the threshold itself: at the ends the same search says how far its error reaches."""
        return tuple(search for name in FAILURES for search in self.relies_on(name))

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search for evasion, or for collision."""
        return self.search(score).searches

    def observe(self, subject: Subject) -> Table:
        """Return both radii of every attacked image at three thresholds."""
        known, population = subject.read(self.search("evasion").failure.reads[-1]), subject.population
        # What holds for all images stands in every row, so that the table alone tells the scores
        table: Table = {name: column[0].expand(population) for name, column in known.items()}
        table |= {"pair": pair_of(torch.arange(population))}
        for name in FAILURES:
            found = {end: subject.read(self.search(name, end))["radius"] for end in ENDS}
            # Evading is harder the larger the threshold is, colliding is easier: what was found for a harder one counts
            from_harder = ("high", "", "low") if name == "evasion" else ("low", "", "high")
            best = torch.stack([found[end] for end in from_harder]).cummin(0).values
            for end, radii in zip(from_harder, best, strict=True):
                # Images that match their partners as they are collide with nothing
                radii = radii.masked_fill(radii == 0, torch.nan)
                table[f"{name}@{end}" if end else name] = pad_to_population(radii, population)
        return table

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the median radii of collision and of evasion."""
        # What the threshold is stands in every row; whose pairs lie below it, and who is whose partner, in its own
        near, pair = (table[name] for name in ("near", "pair"))
        names = ("threshold", "allowed", "pairs", "rate low", "rate high")
        limit, allowed, pairs, low, high = (float(table[name][0]) for name in names)
        words = (
            f"threshold {limit:.4g} in {self.divergence}: {allowed:,.0f} of {pairs:,.0f} pairs of {len(near)} images"
        )

        def tell(score: Score) -> Score:
            return replace(score, note="; ".join(filter(None, [f"{words} match", score.note])))

        def find_median(name: str) -> Statistic:
            at = {low: table[f"{name}@low"], self.rate: table[name], high: table[f"{name}@high"]}
            # Collisions come in pairs, each attacked in both directions; evasions do not
            units = pair if name == "collision" else None
            return MedianAtRate(at, near, self.rate, pairs, units=units, condition=CONDITION).restate(tell)

        return {name: find_median(name) for name in reversed(FAILURES)}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the shares of images that evade and collide against the size of the change."""
        radii = {name: table[name][~table[name].isnan()] for name in FAILURES}
        at = sizes(list(radii.values()), {})
        if at is None:
            return ()
        # Every partner may match as it is, which leaves no collision to draw
        lines = [_line(radii[name], at, STYLES[name]) for name in FAILURES if len(radii[name])]
        return (
            Curves(
                heading="Evasion and collision against the size of the change",
                short="matching-radius",
                how_to_read=(
                    "Solid: the share of images that some change of a given size takes from their copies. Dashed: the "
                    "share that it makes match another image. A better attack could only raise both. Bands cover the "
                    "whole curve with 95 % confidence, given this threshold."
                ),
                lines=tuple(lines),
                across=across(self.ball),
                label="images",
                unit="share",
                scale="log",
                in_255ths=self.ball.is_box,
                summary=f"Evasion (solid) and collision (dashed) at {100 * self.rate:g} % of false positives.",
                note=f"Solid: evasion. Dashed: collision. At {100 * self.rate:g} % of false positives.",
            ),
        )


def _line(radii: Float[Tensor, "images"], at: Float[Tensor, "places"], style: Literal["solid", "dashed"]) -> Line:
    """Return the share of images that a change of each size breaks, with its band."""
    # Of those that hold the share that does not: the band's ends change places
    share, low, high = (numbers(1 - values) for values in survival(radii, at))
    return Line(tuple(at.tolist()), share, high, low, style=style)
