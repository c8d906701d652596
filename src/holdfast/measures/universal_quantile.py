"""Universal quantile: how far an attack moves a representation, on the scale of the distances between images."""

from dataclasses import dataclass

import torch

from holdfast import neighbours
from holdfast.core import Subject, Table
from holdfast.divergences import divergence
from holdfast.measures._attack_measure import PAPER, AttackMeasure


@dataclass(frozen=True)
class UniversalQuantile(AttackMeasure):
    """q(x) = P_{x',x''}[ d(f(x'), f(x'')) <= d(f(x̂), f(x)) ]; the score is the median over images.

    The distribution is the exact empirical one of *all* pairs of clean representations of the population.

    Table: `drift@STEP`, d(f(x̂), f(x)), and `quantile@STEP`, one row per attacked image.
    """

    usual = (5, 10, 30, 50)
    per_image = "quantile"
    statistic = "median"
    given = "given the pairs of this population (plug-in)"
    better = "lower"
    unit = "share"
    question = "How large is the drift that an attack causes, among the distances between different images?"
    how_to_read = (
        "At 1 % the attacked image stays closer to itself than 99 % of image pairs are to each other; at 100 % the "
        "attack moves it farther than any two images are apart."
    )
    reference = f"{PAPER}, section 5 (universal quantiles)"

    def observe(self, subject: Subject) -> Table:
        """Return drift and quantile of every attacked image."""
        clean, attacked = self.reps(subject)
        drifts = {step: divergence(self.divergence)(reps, clean[: len(reps)]) for step, reps in attacked.items()}
        quantiles = neighbours.share_below(clean, torch.stack(list(drifts.values())), self.divergence)
        table = {f"drift@{step}": drift for step, drift in drifts.items()}
        return table | {f"quantile@{step}": row for step, row in zip(drifts, quantiles, strict=True)}
