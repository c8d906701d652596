"""Patch drift: how far an attack moves the tokens of an image's patches."""

from dataclasses import dataclass

import torch

from holdfast.core import Search, Subject, Table
from holdfast.core.divergence import require_distance
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.measures.shared.patches import PatchMeasure, bank
from holdfast.parts.measures.shared.usual_distance import UNIT, InUnits
from holdfast.runtime.checked import Count

WORST = "worst patch of each image"


@dataclass(frozen=True)
class PatchDrift(PatchMeasure):
    """r(x) = 1/P Σ_p d(t_p(x̂), t_p(x)) / median d(t, t'), t and t' patches of different images; the mean over images.

    The attack maximises the mean over patches; the worst patch of each image is told beside it.

    The interval holds the error of the median too, see `usual_distance`.

    Table, one row per image of the population, NaN where it was not attacked: `drift@STEP`, r(x); `worst@STEP`, the
    same of the patch that moved farthest; `unit`, the median, and `unit moved by`, what each image has to do with it.

    Attributes:
        bank: clean patches whose distances are the scale; see `parts/measures/shared/patches.py`.
    """

    bank: Count = 2000

    usual = (5, 10, 30, 50)
    per_image = "drift"
    better = "lower"
    in_brief = True
    unit = "ratio"
    question = (
        "How far does an attack move the tokens of an image's patches, compared with patches of different images?"
    )
    how_to_read = (
        "At 1 the tokens of an attacked image are on average as far from what they were as patches of different images "
        "are from each other. The worst patch of an image says whether a few places take most of the harm."
    )
    reference = "drift of Petrov & Kwiatkowska (2022), section 5, for each patch of an image"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_distance(self.divergence, "patch_drift")

    def observe(self, subject: Subject) -> Table:
        """Return the drift of every attacked image's patches: their mean and their largest.

        Raises:
            HoldfastError: an encoder without patches.
        """
        clean, attacked = self.tokens(subject)
        table = bank(subject, clean, self.bank).usual_distance(len(clean), self.divergence)
        for step, moved in attacked.items():
            pairs = zip(moved, clean, strict=False)
            # [attacked, P], each patch against what it was; image by
            # image, to spare copies in float64
            drifts = torch.stack([self.divergence(m.double(), c.double()) for m, c in pairs])
            # In units of the median distance between patches of different images
            drifts = drifts / table[UNIT][: len(drifts), None]
            columns = {f"drift@{step}": drifts.mean(1), f"worst@{step}": drifts.amax(1)}
            table |= {name: pad_to_population(values, len(clean)) for name, values in columns.items()}
        return table

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the worst patch at the last read-out, and the mean over patches at every one."""
        return {WORST: InUnits(table, f"worst@{self.steps[-1]}")} | super().reduce(table)

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the mean over images, in units of the usual distance."""
        return InUnits(table, column)

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search, for every score."""
        return self.searches
