"""Probabilistic verification of pairs: near x⁺, the smoothed encoder does not take x⁺ for x⁻."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.negatives import draw_negatives
from holdfast.numerics.statistics import betting, sequential
from holdfast.parts.smoothing.shared.certificate import Anchor, Certificate, Sampling, radius
from holdfast.runtime.errors import BadValue

NEAREST = 2.0**-53
"""How near to 0 and 1 a plain mean may come: a logistic function is neither, but float64 rounds it to them."""


@dataclass(frozen=True)
class PairProbability(Certificate):
    """R = σ Φ⁻¹(p̲), where p̲ is a lower 1-α confidence bound of the mean of p(x⁺ + σz) over z ~ N(0, I).

    p(x') = 1 / (1 + exp((ρ(f(x⁻), f(x')) - ρ(f(x⁺), f(x'))) / τ)) is how probable x' is a positive sample of x⁺;
    ρ is the cosine, 0 where a representation is zero. Closer to x⁺ than R (ℓ2, pixels) the mean stays above ½: a
    statement about the smoothed encoder. Each of the K pairs' statements holds at 1-α on its own; with
    `simultaneous` all K of an image do. An x⁻ with the representation of x⁺ has p = ½ exactly, never certified.

    Sampling ends before `draws` once every pair of the image is settled: shown to be below ½, or above ½ with a radius
    at most `precision` σ below the plug-in one, or below the largest that `draws` can show. The bound holds at any
    stopping time.

    Attributes:
        draws: N, noisy versions of each image at most.
        negatives: K, other images that x⁺ is compared with, drawn by the seed.
        temperature: τ; 0 counts votes, 1[ρ⁺ > ρ⁻].
        alpha: α, the chance that a pair's bound is too high.
        simultaneous: spend α/K on each pair.
        precision: how near to these a radius settles a pair, in units of σ.
        convention: "sound", or "paper": p̲ is the plain mean of all draws, so that R is an *estimate*, no certificate,
            and is negative where the mean is below ½.

    Source: Wang & Liu (2023), theorem 7 and Algorithm 2; the bound is `betting.lower`.

    Example:
        >>> PairProbability(negatives=10, simultaneous=True).level
        0.0001
    """

    draws: int = 1000
    negatives: int = 10
    temperature: float = 0.1
    alpha: float = 0.001
    simultaneous: bool = False
    precision: float = 0.2
    convention: str = "sound"

    def __post_init__(self) -> None:
        betting.check_level(self.alpha, "pair_probability")
        if self.convention not in ("sound", "paper"):
            raise BadValue(f"pair_probability convention: expected 'sound' or 'paper', got {self.convention!r}")
        if self.draws < 1 or self.negatives < 1:
            raise BadValue(
                f"pair_probability: expected at least 1 draw and 1 negative, got {self.draws} and {self.negatives}"
            )
        if not 0 <= self.temperature < float("inf") or not 0 <= self.precision < float("inf"):
            raise BadValue(
                f"pair_probability: expected a temperature and a precision of 0 or more, got {self.temperature} and "
                f"{self.precision}"
            )
        # the paper's estimate must stay below 1; a bound needs so many draws that p̲ can pass ½
        if self.convention == "paper":
            if self.temperature == 0:
                raise BadValue(
                    "pair_probability: the paper's plain mean of votes can be 1, an infinite radius; expected a "
                    "temperature above 0, got 0; raise it or take the convention 'sound'"
                )
            return
        fewest = betting.fewest_draws(self.level)
        if self.draws < fewest:
            raise BadValue(
                f"pair_probability: {self.draws} draws can never certify at alpha {self.level:g}; take {fewest} or more"
            )

    @property
    def level(self) -> float:
        """The chance of error that one pair gets."""
        return self.alpha / self.negatives if self.simultaneous else self.alpha

    @property
    def budget(self) -> int:
        """N."""
        return self.draws

    def check(self, sigma: float) -> None:
        """Every σ will do."""

    def sample(self, anchor: Anchor) -> Sampling:
        """Tally p for every negative until all are settled or the draws are spent."""
        # x⁻ come from the image's own random numbers: other images change nothing
        own = torch.tensor([anchor.position])
        chosen = draw_negatives(anchor.rng, own, len(anchor.clean), self.negatives)[0]
        # One difference of unit vectors, so that the margin of a twin is exactly zero.
        apart = unit(anchor.clean[own.to(anchor.clean.device)]) - unit(anchor.clean[chosen.to(anchor.clean.device)])
        twin = (apart == 0).all(1).cpu()
        # tally sigmoid((z⁺ - z⁻) · f(x + σz) / T) of every negative, block by block
        # Algorithm 2 of RVCL, line 14, with a tally in place of a sum: bounds need more than that
        counts = torch.zeros(self.negatives, len(betting.LEVELS), dtype=torch.float64)
        drawn = 0
        while drawn < self.draws and not (drawn and self._should_stop(counts, twin)):
            reps = yield self.draws - drawn
            drawn += len(reps)
            # ρ⁺ - ρ⁻ of each draw, [draws, K], by one product with the differences
            counts += betting.tally(self._probability((unit(reps) @ apart.T).cpu().double()))
        return {"counts": counts, "negatives": chosen, "draws": torch.tensor(drawn)}

    def _probability(self, margin: Float[Tensor, "draws negatives"]) -> Float[Tensor, "draws negatives"]:
        if self.temperature == 0:
            # The limit τ → 0 of Eq. 15 (Remark 6); a tie counts half
            return (margin.sign() + 1) / 2
        # Eq. 15
        return torch.sigmoid(margin / self.temperature)

    def _should_stop(self, counts: Float[Tensor, "negatives levels"], twin: Bool[Tensor, "negatives"]) -> bool:
        if self.convention == "paper":
            return False
        # p of a twin is ½ exactly, so it would never settle
        return sequential.all_settled(counts[~twin], self.precision, self.level, self.draws)

    def conclude(self, results: Mapping[str, Tensor], sigma: float) -> dict[str, Tensor]:
        """Return bounds and radii of all pairs.

        `lower`, p̲, and `mean`, the plain mean of p; `radius` in pixels, 0 where the pair is not certified (in the
        paper's convention negative); `negatives`, positions of x⁻; all [B, K]. `draws`, how many were used, [B].
        """
        counts = results["counts"]
        mean = betting.empirical_mean(counts)
        if self.convention == "paper":
            # Algorithm 2, line 15: the plain mean in place of the expectation of Eq. 17
            bound, pixels = mean.clone(), sigma * torch.special.ndtri(mean.clamp(NEAREST, 1 - NEAREST))
        else:
            bound = betting.lower(counts, self.level, self.draws)
            pixels = radius(bound, sigma)
        bounds = {"lower": bound, "mean": mean, "radius": pixels}
        return bounds | {"negatives": results["negatives"], "draws": results["draws"]}
