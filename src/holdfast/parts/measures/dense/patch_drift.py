"""Patch drift: how far an attack moves the tokens of an image's patches."""

from dataclasses import dataclass

import torch

from holdfast.core import Score, Search, Subject, Table
from holdfast.numerics import statistics
from holdfast.numerics.geometry.divergences import divergence
from holdfast.parts.measures.shared.patches import PatchMeasure, bank
from holdfast.runtime.checked import Count

WORST = "worst patch of each image"


@dataclass(frozen=True)
class PatchDrift(PatchMeasure):
    """r(x) = 1/P Σ_p d(t_p(x̂), t_p(x)) / median d(t, t'), t and t' patches of different images; the mean over images.

    The attack maximises the mean over patches; the worst patch of each image is told beside it.

    Table, one row per attacked image: `drift@STEP`, r(x); `worst@STEP`, the same of the patch that moved farthest.

    Attributes:
        bank: clean patches whose distances are the scale; see `parts/measures/shared/patches.py`.
    """

    bank: Count = 2000

    usual = (5, 10, 30, 50)
    per_image = "drift"
    condition = "given the distances between patches of these images"
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

    def observe(self, subject: Subject) -> Table:
        """Return the drift of every attacked image's patches: their mean and their largest.

        Raises:
            HoldfastError: an encoder without patches.
        """
        clean, attacked = self.tokens(subject)
        apart = bank(subject, clean, self.bank).apart(self.divergence)
        scale = float(apart.median()) if len(apart) else 0.0
        table: Table = {}
        for step, moved in attacked.items():
            pairs = zip(moved, clean, strict=False)
            drifts = torch.stack([divergence(self.divergence)(m.double(), c.double()) for m, c in pairs])
            drifts = drifts / scale if scale > 0 else torch.full_like(drifts, torch.nan)
            table |= {f"drift@{step}": drifts.mean(1), f"worst@{step}": drifts.amax(1)}
        return table

    def score(self, table: Table) -> dict[str, Score]:
        """Return the worst patch at the last read-out, and the mean over patches at every one."""
        worst = statistics.mean(table[f"worst@{self.steps[-1]}"], condition=self.condition)
        return {WORST: worst} | super().score(table)

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search, for every score."""
        return self.searches
