"""Radius and likeness: is the image that is more similar to a negative also easier to take for it?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import Ball, Chart, Measure, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Curves, Line, numbers
from holdfast.numerics.geometry.directions import cosine
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.measures.certified.margin_distribution import margin_distances
from holdfast.parts.measures.shared.bracket import in_order
from holdfast.parts.measures.shared.weibull import joint
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.common_negative_radii import CommonNegativeRadii
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue

READ = (
    "Each point is an image and one of the negatives that all have in common: across, Ψ_neg, the probability that the "
    "image lies in the negative's own margin; upwards, the smallest change found that makes it more similar to the "
    "negative. Theorem 18 of RVCL says that points of one negative fall from left to right."
)


@dataclass(frozen=True)
class RadiusLikeness(Measure):
    """Share of pairs of images that refute ρ(f(x₁⁺), f(x⁻)) >= ρ(f(x₂⁺), f(x⁻)) => R_CL(x₁⁺, x⁻) <= R_CL(x₂⁺, x⁻).

    True radii are not known, but each lies between a proof and an attack: a pair is refuted where the attack on the
    less similar image is below the proof of the more similar one, shown where the proof of the less similar one is not
    below the attack on the more similar one, and open else. "as attacked" compares the smallest changes found.

    Ψ_neg(x; x⁻) = exp(-((1 - ρ(f(x), f(x⁻))) / s)^a), a and s fitted to the λ smallest D_i⁻ of x⁻ as in
    `margin_distribution`. For one x⁻ it orders images as ρ does, so the theorem is about it as well.

    Table, one row per attacked image: `refuted`, `shown` and `as attacked`, shares of its pairs with the other attacked
    images over all negatives; and for each negative `likeness@NUMBER`, Ψ_neg, and `radius@NUMBER`, pixels, as attacked.

    Attributes:
        certifier: how to bound.
        ball: the norm of the radius; its own radius is not read.
        negatives: images that all are compared with, the last ones of the population.
        tail: λ.
        steps: of each search for the smallest change.
        tolerance: of the search for a proved radius, in pixels.
        first: only the first images; None: all that the audit attacks.
    """

    invariant = DIRECTIONS

    certifier: Propagation = Crown()
    ball: Ball = Linf()
    negatives: int = 5
    tail: int = 20
    steps: int = 40
    tolerance: float = 1e-5
    first: Count | None = None

    of_any_radius = True
    better: Literal["lower", "higher"] = "lower"
    unit: Literal["share", "ratio", "similarity", "pixels"] = "share"
    question = "Of two images, how often is the one less similar to a negative easier to turn into it?"
    how_to_read = (
        "0 % means that no pair refutes the claim that radii shrink as similarity grows; pairs that are neither "
        "refuted nor shown stay open. A share above 0 says that similarity alone does not order the radii, although "
        "the model of distances assumes it."
    )
    reference = "Wang & Liu (2023), Theorem 18 and Eq. 40"

    def __post_init__(self) -> None:
        self.radii.key()  # builds it, which refuses what it cannot do
        if self.tail < 3:
            raise BadValue(f"radius_likeness: expected tail of at least 3 images, got {self.tail}")

    @property
    def column(self) -> str:
        """Refuted pairs."""
        return "refuted"

    @property
    def radii(self) -> CommonNegativeRadii:
        """The radii of all images against the common negatives, from both sides."""
        return CommonNegativeRadii(
            certifier=self.certifier, ball=self.ball, negatives=self.negatives, steps=self.steps,
            tolerance=self.tolerance, first=self.first,
        )  # fmt: skip

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and the radii."""
        return Clean(), self.radii

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Nothing that is refuted or shown relies on how strong a search was: a weaker one leaves more open."""
        return ()

    def observe(self, subject: Subject) -> Table:
        """Return how the radii of every image compare with those of the others."""
        bounds, clean = subject.read(self.radii), Clean.of(subject)
        proved, attacked = bounds["certificate"], bounds["attack"]
        in_order(subject.ids, proved, attacked, 1e-6)
        # Never more distances than a small population has
        images, tail = len(proved), min(self.tail, len(clean) - 2)
        places = torch.arange(len(clean) - self.negatives, len(clean))
        # 1 - ρ(f(x⁺), f(x⁻)) of each image and each negative, [M, Q]: larger is less similar
        far = torch.stack([cosine(clean[:images], clean[place].expand(images, -1)) for place in places.tolist()], 1)
        # each ordered pair of images (less similar, more similar) of each negative
        table: Table = {}
        # [M, M, Q]: entry (i, j) holds where i is the less similar one,
        # whose radius should not be smaller
        less = far[:, None] > far[None]
        events = {
            "refuted": attacked[:, None] < proved[None],
            "shown": proved[:, None] >= attacked[None],
            "as attacked": attacked[:, None] >= attacked[None],
        }
        for name, event in events.items():
            table[name] = _share(event, less)
        # Ψ_neg of each image for each negative
        fit = joint(margin_distances(clean, places, tail))
        for number in range(self.negatives):
            # RVCL, Eq. 40: shape and scale are those of the distances around x⁻, read at each image
            psi = (-((far[:, number].double() / fit.scale[number]) ** fit.shape[number])).exp()
            radius = attacked[:, number].masked_fill(attacked[:, number].isinf(), torch.nan)
            table |= {f"likeness@{number}": psi, f"radius@{number}": radius}
        return table

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the shares of pairs that are shown, ordered as attacked, and refuted."""
        condition = "given this population and its negatives"
        shares = {
            name: Mean(table[name], condition=condition, most=1.0) for name in ("shown", "as attacked", "refuted")
        }
        # What holds of more pairs is better, what is refuted of fewer
        return {name: share if name == "refuted" else share.say(better="higher") for name, share in shares.items()}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return radii against Ψ_neg, negative by negative."""
        lines = []
        for number in range(self.negatives):
            x, y = table[f"likeness@{number}"], table[f"radius@{number}"]
            kept = x.isfinite() & y.isfinite()
            if kept.any():
                points = tuple(x[kept].tolist()), numbers(y[kept])
                lines.append(Line(*points, name=f"negative {number + 1}", style="points"))
        if not lines:
            return ()
        chart = Curves(
            heading="Radii and likeness to a negative", how_to_read=READ, lines=tuple(lines),
            across="Ψ_neg, likeness to the negative", label="radius against it", unit="pixels",
            summary="the smallest change that takes an image for a negative, against how like it is",
        )  # fmt: skip
        return (chart,)


def _share(event: Bool[Tensor, "n n q"], less: Bool[Tensor, "n n q"]) -> Float[Tensor, "n"]:
    """Return for each image the share of its comparisons, in either role, that show an event."""
    both = (event & less).double()
    taken = less.double()
    # An image is in pairs as the less similar one (rows) and as the more similar one (columns)
    hits, count = (part.sum((1, 2)) + part.sum((0, 2)) for part in (both, taken))
    return torch.where(count > 0, hits / count.clamp_min(1), torch.nan)
