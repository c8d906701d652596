"""Weibull distributions of the smallest of many distances: two likelihoods and their goodness of fit, row by row."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

REPETITIONS = 9999
"""Simulated samples behind a p value: at .05 its standard error is .002."""

_BLOCK = 2**22  # values in memory at a time
_FLAT = 1e-6  # logarithms that spread less are of one value, up to rounding

Samples = Float[Tensor, "samples draws"]
PerSample = Float[Tensor, "samples"]


@dataclass(frozen=True)
class Fit:
    """exp(-(t/s)^a), one a and s for each sample; NaN where the likelihood has no maximum.

    Attributes:
        shape: a, without unit.
        scale: s, in the unit of the values.
        residuals: what would be independent draws of a standard exponential variable if the model and its
            parameters were true.
    """

    shape: PerSample
    scale: PerSample
    residuals: Samples

    def survival(self, values: PerSample) -> PerSample:
        """Return exp(-(t/s)^a) at one value for each sample; 1 at 0."""
        return (-((values.double() / self.scale) ** self.shape)).exp()


def joint(values: Samples) -> Fit:
    """Fit the *smallest* of all distances, from the λ smallest D_1 <= ... <= D_λ of very many.

    If P[D_1 > t] -> exp(-(t/s)^a), then the small distances are a Poisson process that has (t/s)^a points below t, and
    the λ smallest have the joint density (a/s)^λ Π (D_i/s)^(a-1) exp(-(D_λ/s)^a). Given D_λ, the λ - 1 values
    log(D_λ / D_i) are independent exponential variables of mean 1/a, whatever s is. Maximum likelihood gives

        1/a = 1/(λ-1) Σ log(D_λ / D_i) from these, and then s = D_λ λ^(-1/a).

    (Both at once would divide by λ; that is biased, at λ = 20 by .04 in exp(-(t/s)^a) at the median.)

    Args:
        values: the λ smallest distances, in any order, one sample per row, [S, λ].

    Source: Hill (1975); Weissman (1978); Coles (2001), section 3.5 (Wang & Liu (2023), Theorem 23).
    """
    # D_λ, and log(D_λ / D_i) in rising order; the first of them is 0, of D_λ itself
    last = values.double().amax(-1, keepdim=True)
    gaps = (last / values.double()).log().sort(-1).values
    gaps = gaps[:, 1:]  # without that of D_λ itself
    # No fit where a distance is 0 (a twin), or where all are equal
    valid = gaps.isfinite().all(-1) & (gaps[:, -1] > _FLAT)
    shape = torch.where(valid, 1 / gaps.mean(-1), torch.nan)
    # s = D_λ λ^(-1/a); the gaps times a are standard exponential where the model is true
    return Fit(shape, last.squeeze(-1) * values.shape[-1] ** (-1 / shape), shape[:, None] * gaps)


def independent(values: Samples) -> Fit:
    """Fit P[T > t] = exp(-(t/s)^a) to independent draws T_1, ..., T_n.

    With y = log t, a is the one root of g(a) = Σ e^{ay} y / Σ e^{ay} - 1/a - mean(y), and s^a = mean(t^a). g rises
    from -∞ to max(y) - mean(y); Newton's steps are kept inside the interval where its sign changes.

    Args:
        values: one sample per row, [S, n].
    """
    # y = log t, shifted to max(y) = 0 so that e^{ay} does not overflow; samples without a spread have no fit
    logs = values.double().log()
    top = logs.amax(-1, keepdim=True)
    y = logs - top
    valid = y.isfinite().all(-1) & (y.amin(-1) < -_FLAT)
    y = torch.where(valid[:, None], y, torch.linspace(-1, 0, y.shape[-1], dtype=y.dtype))
    mean = y.mean(-1)
    # Newton's steps for g(a) = 0, bisected where they leave (low, high), in which g changes its sign
    low, high = -1 / mean, torch.full_like(mean, torch.inf)  # g(low) <= 0, since y <= 0
    shape = low
    for _ in range(100):
        # Σ e^{ay} y / Σ e^{ay} as a weighted mean, and its derivative as the weighted variance
        weights = (shape[:, None] * y).softmax(-1)
        first = (weights * y).sum(-1)
        slope = (weights * (y - first[:, None]).square()).sum(-1) + shape**-2
        value = first - 1 / shape - mean
        low, high = torch.where(value < 0, shape, low), torch.where(value < 0, high, shape)
        step = shape - value / slope
        # Doubled until the sign has changed once, then halved
        middle = torch.where(high.isinf(), 2 * low, (low + high) / 2)
        step = torch.where((step > low) & (step < high), step, middle)
        moved, shape = (step - shape).abs() / shape, step
        if not (moved > 1e-13).any():
            break
    # s^a = mean(t^a); the residuals (t/s)^a are exponential where the fit is right
    log_mean = (shape[:, None] * y).exp().mean(-1).log()
    residuals = (shape[:, None] * y - log_mean[:, None]).exp()
    shape = torch.where(valid, shape, torch.nan)
    return Fit(shape, (top.squeeze(-1) + log_mean / shape).exp(), residuals)


FITS: dict[str, Callable[[Samples], Fit]] = {f.__name__: f for f in (joint, independent)}


def anderson_darling(residuals: Samples) -> PerSample:
    """Return A² = -n - 1/n Σ (2i-1) (log F(r_i) + log(1 - F(r_{n+1-i}))), r_1 <= ... <= r_n, F(r) = 1 - e^-r."""
    r = residuals.sort(-1).values
    # expm1, since 1 - e^-r would lose all digits of small r; log(1 - F) is -r itself
    below = (-torch.expm1(-r)).clamp_min(torch.finfo(torch.float64).tiny).log()
    odd = torch.arange(1, 2 * r.shape[-1], 2, dtype=torch.float64)
    return -r.shape[-1] - (odd * (below - r.flip(-1))).mean(-1)


def p_values(fit: Fit, likelihood: str) -> PerSample:
    """Return how often true samples fit as badly or worse, (1 + #{A²* >= A²}) / (1 + R); NaN without a fit.

    Fitted parameters make A² smaller than tables for known ones say, so A²* is simulated and fitted alike (the
    parametric bootstrap). Both fits follow every change of a and s, which only stretch and shift log t, so A²* depends
    on n alone: one simulation serves all rows, and p values are exact up to its `REPETITIONS`. A² rather than the
    Kolmogorov-Smirnov distance, because it looks at both tails and has more power (Stephens 1974).

    Args:
        fit: what `FITS[likelihood]` returned.
        likelihood: a key of `FITS`.

    Source: Stephens (1977), "Goodness of fit for the extreme value distribution".
    """
    null = _null(likelihood, fit.residuals.shape[-1])
    # How many simulated A² are at least as large
    worse = len(null) - torch.searchsorted(null, anderson_darling(fit.residuals).nan_to_num(0.0))
    return torch.where(fit.shape.isnan(), torch.nan, (1 + worse.double()) / (1 + len(null)))


@cache
def _null(likelihood: str, n: int) -> Float[Tensor, "repetitions"]:
    """Return A² of `REPETITIONS` true samples with n residuals, sorted."""
    # A seed of its own: the same p values in every audit
    random = torch.Generator().manual_seed(n)
    a_squared = []
    for rows in torch.arange(REPETITIONS).split(max(1, _BLOCK // n)):
        draws = torch.empty(len(rows), n, dtype=torch.float64).exponential_(generator=random)
        if likelihood == "joint":  # given the largest, 1, the others are powers of uniform draws
            draws = torch.cat([(-draws).exp(), torch.ones(len(rows), 1, dtype=torch.float64)], 1)
        a_squared.append(anderson_darling(FITS[likelihood](draws).residuals))
    return torch.cat(a_squared).sort().values
