"""Margin distribution: is an attacked image still a positive sample of itself, by extreme value theory?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Score, Subject, Table
from holdfast.core.chart import Chart, Curves, Line, numbers
from holdfast.numerics.geometry.directions import cosine
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.geometry.nearest import nearest
from holdfast.numerics.statistics.statistic import Median, Share, Statistic
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.measures.shared.weibull import FITS, p_values
from holdfast.parts.smoothing.shared.certificate import radius
from holdfast.runtime.checked import Positive
from holdfast.runtime.errors import BadValue, NotEnough

USUAL, FEWEST = 20, 3
REJECTED = 0.05
SHARE = 0.25
"""Of a population that may be attacked for medians to have an interval: that of order statistics, which takes images as
independent given the population, held the truth in 94 to 98 % of simulations then, and in 79 to 95 % where all were."""


@dataclass(frozen=True)
class MarginDistribution(AttackMeasure):
    """Ψ(x̂) = exp(-((1 - ρ(f(x̂), f(x⁺))) / s)^a); the score is its median over images. ρ is the cosine.

    D_i = (1 - ρ(f(x⁺), f(x_i⁻))) / 2 over the other images of the population; a and s are fitted, for each image x⁺, to
    the λ smallest D_i by maximum likelihood. Then Ψ(x) estimates P[1 - ρ(f(x), f(x⁺)) < min_i D_i], Eq. 30:
    x is less than *half* as far from x⁺ as the nearest other image of such a population, so it lies on its own side.

    The ½: the paper puts it into D_i, to which (a, s) are fitted, and not into the argument of Ψ. Eq. 30 is
    consistent with this (Ψ decides at half of the way), but its text and Eq. 35 call 1 - ρ itself "the margin
    distance". We take Theorem 14 by its letter; with 1 - ρ in both places s would double, and Ψ decide at the whole
    distance.

    The likelihood: the λ smallest D_i are not λ independent draws of the smallest. "joint" (see `_weibull.joint`) is
    the likelihood of Theorem 23 and fits the distribution of the minimum, as Eq. 30 asks. "independent" is the paper's
    reading: it fits the λ nearest themselves, so that s, hence Ψ, grows with λ (for an encoder of 2,000 MNIST images
    from .042 at λ = 10 to .090 at λ = 100, where "joint" gives .027 and .021), and its fit is rejected for 26 % of
    the images at λ = 20 ("joint": 7 %).

    With `sigma` the median of Ψ is also given as a radius, σ times its normal quantile: what Lemma 24 makes of a
    probability under Gaussian noise, and the step from Ψ to radii in the proof of Theorem 15 (Eq. 38). It is an
    estimate by the paper's model, and no certificate: Ψ is fitted to distances between images, not counted over draws.

    Medians have an interval, given the population, where at most a quarter of it is attacked.

    Left out (counted) are images whose fit does not exist: another image has the same representation, or all λ
    are equally far. The other scores: the medians of a and s, and the share of images whose fit is rejected at .05 (by
    chance alone, 5 % are).

    Table, one row per attacked image: `shape` a, `scale` s (of D, in [0, 1]), `p` of the fit, `tail` λ,
    `population`, how many images it has, `distance@STEP`, 1 - ρ in [0, 2], and `positive@STEP`, Ψ. `divergence` is not
    used: the comparison is the cosine.

    Attributes:
        tail: λ, how many nearest images are fitted; None: 20, or a quarter of the others where these are fewer than
            80, at least 3. With fewer the shape is noisier (its relative error is about 1/√λ), with more they are no
            longer the tail, which the share of rejected fits shows.
        likelihood: "joint" or "independent".
        sigma: of the Gaussian noise by which Ψ is read as an ℓ2 radius, in pixels; None: it is not.
    """

    invariant = DIRECTIONS

    tail: int | None = None
    likelihood: Literal["joint", "independent"] = "joint"
    sigma: Positive | None = None

    usual = (5, 10, 30, 50)
    per_image = "positive"
    statistic = "median"
    condition = "given this population of images"
    better = "higher"
    unit = "share"
    question = (
        "How likely is it that an attacked image has covered less than half of the way to the nearest other image?"
    )
    how_to_read = (
        "100 % means that the attacked image certainly still counts as a positive sample of its original, 0 % that it "
        "is lost among other images. Shape and scale describe the distances to the nearest images. If many fits are "
        "rejected, do not trust the probabilities."
    )
    reference = "Wang & Liu (2023), section 5 and Theorem 14; radii of Ψ: Lemma 24, Yang et al. (2020)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.likelihood not in FITS:
            raise BadValue(f"margin_distribution: expected likelihood joint or independent, got {self.likelihood}")
        if self.tail is not None and self.tail < FEWEST:
            raise BadValue(f"margin_distribution: expected tail of at least {FEWEST} images, got {self.tail}")

    def observe(self, subject: Subject) -> Table:
        """Return the fit of every attacked image and Ψ after the attack."""
        clean, attacked = self.reps(subject)
        tail = self._tail(len(clean))
        # RVCL, section 5: a and s are fitted for each x⁺ to its λ nearest other images
        own = torch.arange(subject.attacked)
        fit = FITS[self.likelihood](margin_distances(clean, own, tail))
        table: Table = {
            "shape": fit.shape,
            "scale": fit.scale,
            "p": p_values(fit, self.likelihood),
            "tail": torch.full_like(own, tail),
            "population": torch.full_like(own, len(clean)),
        }
        for step, reps in attacked.items():
            # Theorem 14 at x̂: 1 - ρ(f(x̂), f(x⁺)), without the ½ that is in D_i
            distance = cosine(reps, clean[own])
            table |= {f"distance@{step}": distance, f"positive@{step}": fit.survival(distance)}
        return table

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return medians of the fit, the share of rejected ones, and the median of Ψ at every read-out."""
        # Images without a fit are left out, and count neither way
        rejected = torch.where(table["p"].isnan(), torch.nan, (table["p"] < REJECTED).double())
        # Shape and scale are no shares, as Ψ is
        fits = {
            name: Median(table[name], condition=self.condition).say("ratio", "neither") for name in ("shape", "scale")
        }
        medians = fits | super().reduce(table)
        # Images near each other are fitted to the same neighbours, and where most are attacked these are among them
        population = table["population"]
        if not len(population) or len(population) > SHARE * int(population[0]):
            medians = {name: median.restate(_without_interval) for name, median in medians.items()}
        # Parameters first, then the share of rejected fits, and Ψ at each
        # read-out last, as the headline
        first = {name: medians.pop(name) for name in fits}
        if self.sigma is not None:
            as_radius = partial(_as_radius, sigma=self.sigma)
            first |= {f"radius of Ψ, {name}": median.restate(as_radius) for name, median in medians.items()}
        return first | {"fit rejected": Share(rejected, condition=self.condition).say(better="neither")} | medians

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return Ψ of three images with the attacked ones on their own curves, then what an attack measure draws."""
        return *_curves(table, f"distance@{self.steps[-1]}"), *super().charts(table, scores)

    def _tail(self, population: int) -> int:
        others = population - 1
        # A quarter of few images: beyond it they are no longer the tail
        tail = max(FEWEST, min(USUAL, others // 4)) if self.tail is None else self.tail
        if tail > others:
            raise NotEnough(
                f"margin_distribution: expected at least {tail} other images to fit, got {others}; use more images"
                + (" or a smaller tail" if tail > FEWEST else "")
            )
        return tail


def _curves(table: Table, column: str) -> tuple[Chart, ...]:
    """Return Ψ(d) = exp(-(d/s)^a) of the image of median width, of the narrowest and of the widest; none without fits.

    An image is as wide as the distance where its Ψ is one half, s (log 2)^(1/a).
    """
    # Ψ of each image is one half at s (log 2)^(1/a), its width
    fitted = torch.stack([table[name].double() for name in ("shape", "scale", column)])
    shape, scale, distance = fitted[:, fitted.isfinite().all(0)]
    if not len(shape):
        return ()
    half = scale * math.log(2) ** (1 / shape)
    order, most = half.argsort(), 1.5 * float(half.max())
    # the curves of three images by width, then each attacked image on its own curve
    lines = []
    for image in (order[len(order) // 2], order[0], order[-1]):
        end = scale[image] * math.log(200) ** (1 / shape[image])  # where Ψ is 0.5 %
        d = torch.linspace(0, float(end.clamp_min(most)), 100, dtype=torch.float64)
        psi = (-((d / scale[image]) ** shape[image])).exp()
        lines.append(Line(tuple(d.tolist()), numbers(psi), style="dashed" if lines else "solid"))
    attacked = (-((distance / scale) ** shape)).exp()
    lines.append(Line(tuple(distance.tolist()), numbers(attacked), style="points"))
    chart = Curves(
        heading="Up to where an image counts as itself",
        how_to_read=(
            "The probability Ψ that a representation at some distance is still a positive sample of an image, fitted "
            "to the distances of the nearest other images (extreme value theory). The line is the image of median "
            "width, dashed are the narrowest and the widest; points are attacked images, each on its own curve."
        ),
        lines=tuple(lines),
        across="distance to the original, 1 - cosine (farther points at the edge)",
        label="still a positive sample",
        unit="share",
        most=most,
        summary="the probability of being a positive sample against the distance to the original",
    )
    return (chart,)


def _as_radius(score: Score, sigma: float) -> Score:
    """Return a median of Ψ as one of radii: their order is that of the probabilities, so ranks stay what they are."""
    # A Ψ that rounds to 1 has the radius of the next number below it
    most = math.nextafter(1.0, 0.0)
    value, low, high = (
        None if end is None else float(radius(torch.tensor(min(end, most), dtype=torch.float64), sigma))
        for end in (score.value, score.low, score.high)
    )
    return replace(score, value=value, low=low, high=high, unit="pixels")


def _without_interval(score: Score) -> Score:
    """Return a median of fits without an interval: the fits share their population, which moves them all alike."""
    words = (
        "no interval: images are fitted to each other, so their fits err alike; it takes a population of four times as "
        "many images as are attacked"
    )
    note = "; ".join(filter(None, [score.note, words]))
    return replace(score, low=None, high=None, interval="none: fits share their population", note=note)


def margin_distances(
    clean: Float[Tensor, "population dim"], own: Int[Tensor, "images"], tail: int
) -> Float[Tensor, "images tail"]:
    """Return the smallest D_i = (1 - ρ) / 2 of some images to the others of a population, increasing.

    Args:
        clean: representations, [N, D].
        own: positions of the images, [M].
        tail: how many, at most N - 1.
    """
    # One more than λ, as the image itself is among its nearest
    near = nearest(clean[own], clean, tail + 1, Cosine())
    others = near != own[:, None]
    others[others.all(1), -1] = False  # more twins than places: the image itself is not among them
    near = near[others].view(len(own), tail)
    # D_i = (1 - ρ) / 2, [images, λ], with the paper's ½
    return cosine(clean[own, None].expand(-1, tail, -1), clean[near]) / 2
