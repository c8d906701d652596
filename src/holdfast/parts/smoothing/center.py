"""Center smoothing: how far the smoothed representation can move when the image moves by a given distance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Reps
from holdfast.numerics.geometry.directions import unit

# REST ['l2']
from holdfast.numerics.geometry.enclosing import BLOCK_BYTES, small_ball
from holdfast.numerics.statistics import betting
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.smoothing.shared.certificate import Anchor, Certificate, Sampling
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Center(Certificate):
    """ε_out = (1 + β) R: every x' with ||x' - x||_2 <= ε_in has a smoothed representation within ε_out of that of x.

    The smoothed representation is the centre of a ball that holds half of the draws: of n draws the one with the
    smallest median distance r to all n. With `frac` the share of n fresh draws within r of it, it is accepted if
    max(δ₁, δ₂) <= Δ, δ₁ = √(ln(2/α₁) / 2n), δ₂ = ½ - (frac - δ₁); else the certificate abstains. R is the ⌈qm⌉-th
    smallest of m fresh distances to the centre, q = Φ(Φ⁻¹(½+Δ) + ε_in/σ) + √(ln(1/α₂) / 2m): an order statistic, not
    interpolated, so never below the quantile that Hoeffding's inequality vouches for. Holds with confidence 1-α₁-α₂.

    Why 1 + β: near x, the ball of radius R holds the share ½+Δ of what is drawn at x' (R covers q of it at x). So the
    smallest ball with ½+Δ at x' has a radius ρ <= R, and with probability 1-α₁/2 it holds half of the n draws at x'.
    If the ball found there has a radius r <= β ρ, and holds the share ½-Δ, both balls meet: the centres are at most
    R + r <= (1 + β) R apart. A ball around the best of the draws has β = 2.

    With the convention "tight" the centre need not be a draw, and β is `ratio`: the certificate also abstains unless r
    is at most `ratio` times a lower bound of the radius of any ball with half of the n draws (`small_ball`), so never
    where `ratio` is 2. So does the smoothed encoder at x', of which nothing is said where it abstains.

    Attributes:
        radius: ε_in in pixels, ℓ2.
        draws: n, draws for the centre, and as many to test it.
        distances: m, draws for the distances.
        slack: Δ.
        alpha_centre: α₁, the chance that a centre is wrongly accepted.
        alpha_distance: α₂, the chance that R is too small.
        normalised: whether distances are those of unit vectors, √(2 - 2 cos), instead of the representations.
        convention: "paper", β = 2 and a draw as the centre; or "tight".
        ratio: β where it is "tight", from 1 to 2; lower is tighter, and abstains more often.

    Raises:
        HoldfastError: n that always abstains (1,198 at the defaults), or parameters out of range.

    Source: Kumar & Goldstein (2021).

    Example:
        >>> Center(radius=0.25).budget, Center(radius=0.25).quantile(0.25) < 1
        (30000, True)
    """

    radius: float = 0.25
    draws: int = 10_000
    distances: int = 10_000
    slack: float = 0.05
    alpha_centre: float = 0.005
    alpha_distance: float = 0.005
    normalised: bool = False
    convention: str = "paper"
    ratio: float = 1.5

    def __post_init__(self) -> None:
        betting.check_level(self.alpha_centre, "center alpha_centre")
        betting.check_level(self.alpha_distance, "center alpha_distance")
        if self.convention not in ("paper", "tight"):
            raise BadValue(f"center convention: expected 'paper' or 'tight', got {self.convention!r}")
        if not 1 <= self.ratio <= 2:
            raise BadValue(f"center ratio: expected a number from 1 to 2, got {self.ratio}")
        if not 0 < self.radius < float("inf") or not 0 < self.slack < 0.5:
            raise BadValue(
                f"center: expected a positive radius in pixels and a slack between 0 and 0.5, got {self.radius} and "
                f"{self.slack}"
            )
        # δ₁ depends on n alone and must not be above Δ
        fewest = math.ceil(math.log(2 / self.alpha_centre) / (2 * self.slack**2))
        if self.draws < fewest:
            raise BadValue(
                f"center: with {self.draws} draws it always abstains at alpha_centre {self.alpha_centre:g} and slack "
                f"{self.slack:g}; take {fewest} or more"
            )
        if self.distances < 1:
            raise BadValue(f"center: expected at least 1 draw for the distances, got {self.distances}")

    @property
    def budget(self) -> int:
        """2 n + m."""
        return 2 * self.draws + self.distances

    @property
    def kept(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The first n."""
        return self.draws

    def quantile(self, sigma: float) -> float:
        """Return q, the share of the m distances that R has to cover; above 1 where nothing can be said."""
        return self._minimum_quantile(sigma) + math.sqrt(math.log(1 / self.alpha_distance) / (2 * self.distances))

    def _minimum_quantile(self, sigma: float) -> float:
        # What holds this share of the draws at x holds ½ + Δ of those at every x' within ε_in
        return float(scipy.special.ndtr(scipy.special.ndtri(0.5 + self.slack) + self.radius / sigma))

    def check(self, sigma: float) -> None:
        """Raise where q > 1, so that it would always abstain."""
        if self.quantile(sigma) > 1:
            # The m at which Hoeffding's term fits between the share and 1
            room = 1 - self._minimum_quantile(sigma)
            enough = math.log(1 / self.alpha_distance) / (2 * room**2) if room > 1e-6 else math.inf
            more = f"distances={math.ceil(enough)}, or " if enough < 1e9 else ""
            raise BadValue(
                f"center: with {self.distances} distances it always abstains at radius {self.radius:g} and sigma "
                f"{sigma:g}; take {more}a smaller radius or a larger sigma"
            )

    def sample(self, anchor: Anchor) -> Sampling:
        """Find a centre, test it on fresh draws, and measure fresh distances to it."""
        # 1. the smoothed representation: centre of the smallest ball that holds half of n draws
        points: list[Tensor] = []
        while (drawn := sum(map(len, points))) < self.draws:
            points.append(self._normalise((yield self.draws - drawn)).clone())  # the buffer of draws is used again
        abstains = {"spread": torch.tensor(torch.nan, dtype=torch.float64)}
        if self.convention == "tight":
            # Half of the draws, rounded up
            centre, reach, least = small_ball(torch.cat(points), -(-self.draws // 2))
            if reach > self.ratio * least:
                return {**abstains, "draws": torch.tensor(self.draws)}
        else:
            centre, reach = _centre(torch.cat(points))
        # n x D numbers, which the test does not read
        del points
        # 2. test it on n fresh draws, and abstain unless max(δ₁, δ₂) <= Δ
        inside = drawn = 0
        while drawn < self.draws:
            reps = yield self.draws - drawn
            drawn += len(reps)
            # By the same function as the radius, so that rounding is the same on both sides of <=
            inside += int((_distances(self._normalise(reps), centre) <= reach).sum())
        deviation = math.sqrt(math.log(2 / self.alpha_centre) / (2 * self.draws))
        short = 0.5 - (inside / self.draws - deviation)
        if max(deviation, short) > self.slack:
            return {**abstains, "draws": torch.tensor(2 * self.draws)}
        # 3. R: the order statistic of m fresh distances that covers the share q
        distances: list[Tensor] = []
        while (drawn := sum(map(len, distances))) < self.distances:
            distances.append(_distances(self._normalise((yield self.distances - drawn)), centre).cpu().double())
        # At most m, for `check` has refused q > 1
        rank = math.ceil(self.quantile(anchor.sigma) * self.distances)
        spread = torch.cat(distances).kthvalue(rank).values
        return {"spread": spread, "draws": torch.tensor(self.budget)}

    def _normalise(self, reps: Reps) -> Reps:
        return unit(reps) if self.normalised else reps

    def conclude(self, results: Mapping[str, Tensor], sigma: float) -> dict[str, Tensor]:
        """The certificate of every image, [B].

        `radius`, ε_out, in the units of the representation, NaN where it `abstained` (1 or 0); and `draws`, how many
        were used.
        """
        radius = (1 + (self.ratio if self.convention == "tight" else 2)) * results["spread"]
        return {"radius": radius, "abstained": radius.isnan().double(), "draws": results["draws"]}


def _centre(points: Float[Tensor, "draws dim"]) -> tuple[Float[Tensor, "dim"], Float[Tensor, ""]]:
    """Return the point with the smallest median distance to all points, and that distance (the upper median)."""
    # All n² distances at once would take too much memory
    rows = max(1, BLOCK_BYTES // (points.element_size() * len(points)))
    rank = len(points) // 2 + 1
    around = points - points[0]  # squares of distances then lose few digits
    medians = torch.cat([torch.cdist(part, around).kthvalue(rank, 1).values for part in around.split(rows)])
    best = int(medians.argmin())
    # The radius anew from differences: cdist takes products, which lose digits
    return points[best], _distances(points, points[best]).kthvalue(rank).values


def _distances(points: Reps, centre: Float[Tensor, "dim"]) -> Float[Tensor, "batch"]:
    return L2()(points.to(centre), centre.expand_as(points))
