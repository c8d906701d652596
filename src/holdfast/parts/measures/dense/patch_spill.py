"""Patch spill: how much of the effect of one covered patch lies outside it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from holdfast.core import AnyDivergence, Measure, Observation, Score, Subject, Table
from holdfast.core.chart import Chart, Curves, Line, numbers
from holdfast.core.divergence import require_distance
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.patches import bank, grid_of
from holdfast.parts.measures.shared.usual_distance import UNIT, InUnits, strip_padding
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.covered import Covered
from holdfast.runtime.checked import Count

INSIDE = "drift of the covered patch"


@dataclass(frozen=True)
class PatchSpill(Measure):
    """s(x) = Σ_{q≠p} d_q / Σ_q d_q with d_q = d(t_q(x'), t_q(x)), x' is x with patch p grey; the mean over images.

    Table, one row per image of the population, NaN where none of its patches was covered: `spill`, s(x), undefined
    where no token moved; `away@K`, the mean drift of the patches K steps away from p (the larger of rows and columns; 0
    is p itself), in units of the median distance between patches of different images; NaN where there are none; `unit`,
    that median, and `unit moved by`, see `usual_distance`.

    Attributes:
        divergence: how tokens are compared.
        bank: clean patches whose distances are the unit, see `parts/measures/shared/patches.py`.
        first: how many images; None: all that the audit attacks.
    """

    divergence: AnyDivergence = L2()
    bank: Count = 2000
    first: Count | None = None

    better = "lower"
    unit = "share"
    question = "When one patch of an image is covered, what share of all drift of tokens lies in the other patches?"
    how_to_read = (
        "0 % means that tokens depend on their own patch alone. If a change were felt everywhere alike, all but one "
        "patch in P of it would lie outside: 98 % in a grid of 7 × 7."
    )
    reference = "covering as in Zeiler & Fergus (2014), for patches"

    @property
    def column(self) -> str:
        """The share outside."""
        return "spill"

    @property
    def occlusion(self) -> Covered:
        """The covered images."""
        return Covered(first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, and those of covered images."""
        return Clean(), self.occlusion

    def __post_init__(self) -> None:
        require_distance(self.divergence, "patch_spill")

    def observe(self, subject: Subject) -> Table:
        """Return how much of every image's drift lies outside, and how far from the covered patch.

        Raises:
            HoldfastError: an encoder without patches.
        """
        grid, observed = grid_of(self, subject), subject.read(self.occlusion)
        clean, moved = grid.tokens(Clean.of(subject)), grid.tokens(observed["reps"])
        place = observed["place"]
        pairs = zip(moved, clean, strict=False)
        # d_q, [M, P]
        drift = torch.stack([self.divergence(m.double(), c.double()) for m, c in pairs])
        # Without the covered patch itself; NaN (0 / 0) where no token moved
        outside = drift.scatter(1, place[:, None], 0.0).sum(1) / drift.sum(1)
        # how far every patch is from the covered one
        patch = torch.arange(grid.patches)
        # [M, P]: patches are numbered row by row
        rows = (patch // grid.columns - (place // grid.columns)[:, None]).abs()
        columns = (patch % grid.columns - (place % grid.columns)[:, None]).abs()
        steps = rows.maximum(columns)
        table = bank(subject, clean, self.bank).usual_distance(len(clean), self.divergence)
        # The share above has no unit; drifts by distance do
        drift = drift / table[UNIT][: len(drift), None]
        away = {
            # Near the image's edge some distances have few patches, or none
            f"away@{step}": drift.masked_fill(steps != step, torch.nan).nanmean(1)
            for step in range(max(grid.rows, grid.columns))
        }
        columns = {"spill": outside} | away
        return {name: pad_to_population(values, len(clean)) for name, values in columns.items()} | table

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return how far the covered patch moves, and the share of all drift outside it."""
        condition = "given one patch of each image"
        # Rows after those of the attacked images only pad the column
        spill = table["spill"]
        attacked = torch.arange(len(spill)) < len(strip_padding(spill))
        return {
            INSIDE: InUnits(table, "away@0").say("ratio"),
            "outside": Mean(table["spill"], condition=condition, most=1.0, among=attacked),
        }

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return drift against the distance from the covered patch, and how the share spreads over the images."""
        known = [
            (float(name.removeprefix("away@")), InUnits(table, name).score())
            for name, values in table.items()
            if name.startswith("away@") and not bool(values.isnan().all())
        ]
        ends = ([getattr(score, end) for _, score in known] for end in ("value", "low", "high"))
        value, low, high = (
            numbers(torch.tensor([torch.nan if number is None else number for number in end])) for end in ends
        )
        curves = Curves(
            heading="Drift of patches around a covered one",
            how_to_read=(
                "The mean drift of patches so many steps from the covered one, in units of the median distance between "
                "patches of different images. Bands are 95 % intervals."
            ),
            lines=(Line(tuple(at for at, _ in known), value, low, high),),
            across="steps from the covered patch",
            label="drift",
            summary="Drift of patches against their distance from the covered one.",
        )
        return (curves, *super().charts(table, scores)) if known else super().charts(table, scores)
