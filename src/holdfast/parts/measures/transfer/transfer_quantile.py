"""Transfer quantile: how far an attack moves a representation that was made on another encoder."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Subject, Table
from holdfast.numerics.statistics import universal
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.all_pairs import OfAllPairs
from holdfast.parts.measures.shared.transfer_measure import TransferMeasure
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class TransferQuantile(OfAllPairs, TransferMeasure):
    """q(x) = P_{x',x''}[ d(f(x'), f(x'')) <= d(f(x̂_s), f(x)) ], x̂_s attacked on a surrogate f_s; median over images.

    See `UniversalQuantile` for the distribution, and `TransferRate` for the sources; for any surrogate d is the largest
    of all.

    Table, one row per image of the population: `drift@SOURCE`, `quantile@SOURCE`, NaN where x was not attacked, and
    `near@SOURCE`, the share of the pairs with x that lie at or below the median drift; `same@SURROGATE`.

    Attributes:
        divergence: how representations are compared.
    """

    divergence: AnyDivergence = L2()

    per_image = "quantile"
    question = "How far does somebody move representations who attacks another encoder, and never runs yours?"
    how_to_read = (
        "1 % means that the attacked image stays closer to its original than 99 % of image pairs are to each other. "
        "Where no image is broken this still tells encoders apart."
    )
    reference = "Petrov & Kwiatkowska (2022), section 5 (universal quantiles), with the attack made on another encoder"

    def __post_init__(self) -> None:
        super().__post_init__()

    def harm(self, subject: Subject, reps: Float[Tensor, "attacked dim"]) -> Float[Tensor, "attacked"]:
        """Return the drift."""
        clean = Clean.of(subject).double()
        return self.divergence(reps, clean[: len(reps)])

    def columns(self, subject: Subject, harm: Mapping[str, Float[Tensor, "attacked"]]) -> Table:
        """Return drifts, quantiles, and what every image's pairs say."""
        # [sources, attacked]; the worst surrogate's drift is placed like any other
        clean, drifts = Clean.of(subject).double(), torch.stack(list(harm.values()))
        quantiles, near, _ = self.place(subject, clean, drifts, self.divergence)
        columns = {"drift": universal.pad_to_population(drifts, len(clean)), "quantile": quantiles, "near": near}
        return {
            f"{name}@{source}": row for name, rows in columns.items() for source, row in zip(harm, rows, strict=True)
        }

    def reduce_source(self, table: Table, source: str) -> Statistic:
        """Return the median quantile."""
        return self.median_quantile(table[f"quantile@{source}"], table[f"near@{source}"])
