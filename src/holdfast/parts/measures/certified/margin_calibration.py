"""Margin calibration: do the distributions of RVCL's margins, fitted to some images, hold for others?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Chart, Measure, Observation, Score, Subject, Table
from holdfast.core.chart import Curves, Line, numbers
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.statistics.statistic import Mean, Share, Statistic
from holdfast.parts.measures.certified.margin_distribution import margin_distances
from holdfast.parts.measures.shared.weibull import FITS, Fit
from holdfast.parts.observations.clean import Clean
from holdfast.runtime.errors import BadValue, NotEnough

READ = (
    "How often the k-th nearest of images that were not fitted lies where the fitted distribution says. It holds for "
    "them on the diagonal; a line below the diagonal says that they lie nearer, one above it that they lie farther."
)


@dataclass(frozen=True)
class MarginCalibration(Measure):
    """The mean over images x⁺ of Ψ_CL(D'^(1); k=1) for nearest distances D'^(1) that were not fitted: ½ where Ψ holds.

    Ψ_CL(D; k) = e^(-τ) Σ_{s<k} τ^s / s!  with τ = (D / s)^a is how probably the k-th nearest image lies farther than D
    (Eq. 36); for k = 1 it is Ψ of Theorem 14, and Ψ_neg (Eq. 40) of x⁺ as the negative, since D is symmetric. The other
    images of the population are parted at random; a and s are fitted to the λ smallest distances to one half, and
    Ψ_CL(D'^(k); k) is read at the k-th smallest to the other. Were the distribution true, these values would be uniform
    in [0, 1], apart from the error of the fit: mean ½, 5 % of them below .05, half of them below ½.

    Table, one row per attacked image: `psi@K`, Ψ_CL(D'^(k); k), for each of the orders.

    Attributes:
        orders: the k.
        tail: λ.
        likelihood: "joint" or "independent", see `margin_distribution`.
    """

    invariant = DIRECTIONS

    orders: tuple[int, ...] = (5, 2, 1)
    tail: int = 20
    likelihood: Literal["joint", "independent"] = "joint"

    better: Literal["lower", "higher"] = "lower"
    unit: Literal["share", "ratio", "similarity", "pixels"] = "share"
    question = "Do margin distributions fitted to some images hold for other images?"
    how_to_read = (
        "50 % means that nearest images left out of the fit are as far away as the fitted distribution predicts. Above "
        "50 % they are closer, below it farther; in both cases do not trust Ψ."
    )
    reference = "Wang & Liu (2023), Theorem 14 and Eq. 36 and 40"

    def __post_init__(self) -> None:
        if not self.orders or min(self.orders) < 1 or max(self.orders) > self.tail or self.tail < 3:
            raise BadValue(
                f"margin_calibration: expected a tail of at least 3 and orders from 1 to it, got {self.tail} and "
                f"{self.orders}"
            )
        if self.likelihood not in FITS:
            raise BadValue(f"margin_calibration: expected joint or independent, got {self.likelihood!r}")

    @property
    def column(self) -> str:
        """Of the last order."""
        return f"psi@{self.orders[-1]}"

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations."""
        return (Clean(),)

    def observe(self, subject: Subject) -> Table:
        """Return Ψ_CL of every attacked image at distances that were not fitted."""
        clean = Clean.of(subject)
        if len(clean) < 2 * self.tail + 2:
            raise NotEnough(
                f"margin_calibration: expected at least {2 * self.tail + 2} images, got {len(clean)}; use more or a "
                "smaller tail"
            )
        # Step 1: part the population at random, the same way for every encoder
        parted = torch.randperm(len(clean), generator=torch.Generator().manual_seed(subject.seed))
        halves = parted.chunk(2)
        # Step 2: the λ smallest D to each half, [images, λ], in rising order
        fitted, fresh = (self._distances(clean, half, subject.attacked) for half in halves)
        # Step 3: shape and scale of each image from the one half
        # (Theorem 14), to be read at the other
        fit = FITS[self.likelihood](fitted)
        # halves are of different sizes by one image at most: a sparser half is as much farther in τ
        ratio = len(halves[1]) / len(halves[0])
        return {f"psi@{k}": beyond(fit, fresh[:, k - 1], k, ratio) for k in self.orders}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return for each order the share of values below .05, and then the means."""
        condition = "given this population and how it was parted"
        below: dict[str, Statistic] = {}
        for k in self.orders:
            psi = table[f"psi@{k}"]
            # NaN where an image has no fit: it is left out of the
            # share, and not counted as above .05
            low = torch.where(psi.isnan(), torch.nan, (psi < 0.05).double())
            below[f"below .05, k = {k}"] = Share(low, condition=condition).say(better="neither")
        means = {f"k = {k}": Mean(table[f"psi@{k}"], condition=condition, most=1.0) for k in self.orders}
        return below | means

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return how the values of each order spread, against the diagonal."""
        at = torch.linspace(0, 1, 51, dtype=torch.float64)
        lines = []
        for k in self.orders:
            psi = table[f"psi@{k}"]
            psi = psi[psi.isfinite()]
            if len(psi):
                # The empirical distribution function of Ψ, which is the
                # diagonal where the fitted one is true
                lines.append(Line(tuple(at.tolist()), numbers((psi[:, None] <= at).double().mean(0)), name=f"k = {k}"))
        if not lines:
            return ()
        lines.append(Line((0.0, 1.0), (0.0, 1.0), name="true", style="dashed"))
        chart = Curves(
            heading="Margins fitted and not fitted", how_to_read=READ, lines=tuple(lines),
            across="Ψ at images that were not fitted", label="images at most so", unit="share",
            summary="how the fitted probabilities of images that were not fitted spread",
        )  # fmt: skip
        return (chart,)

    def _distances(self, clean: Tensor, half: Tensor, images: int) -> Float[Tensor, "images tail"]:
        """Return the λ smallest distances of each attacked image to the others of a half."""
        rows = []
        for image in range(images):
            # An image is no neighbour of itself, in whichever half it stands
            others = half[half != image]
            sample = torch.cat([clean[image][None], clean[others]])
            rows.append(margin_distances(sample, torch.zeros(1, dtype=torch.long), self.tail))
        return torch.cat(rows)


def beyond(fit: Fit, values: Float[Tensor, "images"], order: int, ratio: float = 1.0) -> Float[Tensor, "images"]:
    """Return P[the k-th smallest distance > t] = e^(-τ) Σ_{s<k} τ^s / s!, τ = ratio · (t / scale)^shape; RVCL, Eq. 36.

    Args:
        fit: of the smallest of some number of distances.
        values: t, one for each sample.
        order: k.
        ratio: how many times as many distances there are.
    """
    tau = ratio * (values.double() / fit.scale) ** fit.shape
    # [k, images]: the Poisson probabilities of fewer than k points up to
    # t, without their common factor
    terms = torch.stack([tau**s / math.factorial(s) for s in range(order)])
    return (-tau).exp() * terms.sum(0)
