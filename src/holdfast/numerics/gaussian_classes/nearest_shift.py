"""How an adversary moves the mean of a Gaussian class: the point of a ball nearest to it, in units of the noise.

Everything is in float64 and vectorised over radii and problems: no convex solver is called.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.runtime.errors import BadValue, Unsupported

Rows = Float[Tensor, "rows k"]
PerRow = Float[Tensor, "rows"]

_SMALLEST = 1e-100
_STEPS, _TOLERANCE, _WORST = 20_000, 1e-10, 1e-6


def nearest_shift(
    mu: Float[Tensor, "*batch k"],
    values: Float[Tensor, "*#batch k"],
    radius: Float[Tensor, "*#batch"],
    norm: float = 2.0,
) -> Float[Tensor, "*batch k"]:
    """Return z_Λ(μ) = argmin Σ (μ_i - z_i)² / λ_i over ||z||_p <= ε, in float64.

    z = μ inside the ball. Outside, |z| + t λ |z|^(p-1) = |μ| with one t > 0 that puts z on the sphere: for p = 2 a
    Newton iteration on 1 / ||z||, which is concave in t, so that every step stays below the root; for p = 1 one on
    Σ |z|, which is convex and piecewise linear; for p = ∞ z is μ clipped; for other p two nested ones in logarithms.

    Args:
        mu: μ, in the coordinates in which the noise is independent.
        values: λ > 0, the noise's variances in them, in squared units of μ.
        radius: ε >= 0, in units of μ; below 1e-100 ||μ|| it counts as 0.
        norm: p >= 1 of the ball in the same coordinates; infinity too.

    Raises:
        HoldfastError: p < 1, variances that are not positive, a radius below 0, or numbers that are not finite.

    Source: "SynBench", Results 2.4 and C.3. For p = 2 it is the trust-region problem of Moré & Sorensen (1983).

    Example:
        >>> shift = nearest_shift(torch.tensor([3.0, 4.0]), torch.ones(2), torch.tensor(1.0))
        >>> [round(v, 6) for v in shift.tolist()]
        [0.6, 0.8]
    """
    check_norm(norm)
    mu, values, radius = mu.double(), values.double(), radius.double()
    if not bool(mu.isfinite().all() and values.isfinite().all()) or bool((values <= 0).any()):
        raise BadValue("nearest shift: expected a finite mean and positive finite variances; drop other directions")
    if not bool((radius >= 0).all()):
        raise BadValue(f"nearest shift: expected radii >= 0, got {float(radius.min())}")
    if norm == math.inf:
        return mu.clamp(-radius[..., None], radius[..., None])
    size = length(mu, norm)
    # The radius in units of ||μ||_p: z is μ itself from 1 on, 0 at 0, and else on the sphere
    part = torch.where(size > 0, radius.expand(size.shape) / size, 1.0)
    cut = (part < 1) & (part > _SMALLEST)
    z = torch.where((part >= 1)[..., None], mu, 0.0)
    if bool(cut.any()):
        # μ of length 1 and variances of at most 1, so that nothing overflows; z does not depend on
        # the unit of λ
        sizes, scales = size[cut][:, None], values.expand(mu.shape)[cut]
        inside = _on_sphere(mu[cut].abs() / sizes, scales / scales.amax(1, keepdim=True), part[cut], norm)
        z[cut] = inside * sizes * mu[cut].sign()
    return z


def weights_along(
    half: Float[Tensor, "k"],
    vectors: Float[Tensor, "dim k"],
    values: Float[Tensor, "k"],
    radius: PerRow,
    norm: float,
) -> Rows:
    """Return w = Λ⁻¹(μ̃ - Fᵀδ) for the δ that minimises (μ̃ - Fᵀδ)ᵀ Λ⁻¹ (μ̃ - Fᵀδ) over ||δ||_p <= ε, for each ε.

    The ball is that of the original space, where F has its columns; in the eigen-coordinates it is another body unless
    p = 2 or the columns are coordinate axes. Appendix C of the paper puts the p-ball on the eigen-coordinates, whose
    classifier is not optimal. Where F is not square, what is minimised is over all that reads Fᵀx only.

    ADMM: one step solves the quadratic in the eigenbasis, the other projects on the ball (`nearest_shift` of variance
    1). No w has a larger robust margin (wᵀμ̃ - ε ||Fw||_q) / ||w||_Λ than the minimum's root, and that of any δ is at
    least as large; so it stops where the two differ by 1e-10 of themselves. Where the root is below 1e-6 of the one
    without an adversary, δ reaches μ̃ and w is 0.

    Args:
        half: μ̃ = Fᵀμ.
        vectors: F, orthonormal columns.
        values: λ > 0.
        radius: ε >= 0, in units of the original space.
        norm: p >= 1; infinity too.

    Raises:
        HoldfastError: as `nearest_shift`, or margins that differ by more than 1e-6 after 20,000 steps.

    Example:
        >>> half, vectors = torch.tensor([2.0, 0.0]).double(), torch.eye(2).double()
        >>> w = weights_along(half, vectors, torch.ones(2).double(), torch.tensor([0.5]).double(), math.inf)
        >>> [round(v, 6) + 0.0 for v in w[0].tolist()]
        [1.5, 0.0]
    """
    check_norm(norm)
    dual, precision = dual_norm(norm), 1 / values
    clean = (half.square() * precision).sum().sqrt()
    # All radii at once; the weight begins at the geometric mean of the precisions
    move = half.new_zeros(len(radius), len(vectors))
    multiplier, weight = move, half.new_full((len(radius), 1), float(precision.log().mean().exp()))
    ones = torch.ones_like(move[:1])
    # ADMM on δ (target) and its copy in the ball (move), with a scaled multiplier and one weight for each radius
    for step in range(1, _STEPS + 1):
        target = move - multiplier
        change = (half - target @ vectors) * precision / (precision + weight)
        # Between 1.5 and 1.8 is usual
        best = 1.6 * (target + change @ vectors.T) - 0.6 * move  # over-relaxed
        # project on the ball; the multiplier takes up what is left
        before, move = move, nearest_shift(best + multiplier, ones, radius, norm)
        multiplier = multiplier + best - move
        if step % 25 and step < _STEPS:
            continue
        # duality gap between the robust margin of w and the minimum's root
        weights = weight * change  # Λ⁻¹(μ̃ - Fᵀδ) before over-relaxation, without its cancellation
        spread = (weights.square() * values).sum(1)
        # Any w gives a lower bound of the root, any δ in the ball an upper one
        margin = weights @ half - radius * length(weights @ vectors.T, dual)
        most = ((half - move @ vectors).square() * precision).sum(1).sqrt()
        vain = most <= 1e-6 * clean
        gap = (1 - margin / (spread.sqrt() * most)).masked_fill(vain, 0.0)
        if bool((gap <= _TOLERANCE).all()) or (step == _STEPS and bool((gap <= _WORST).all())):
            # Scaled to what Λ⁻¹(μ̃ - Fᵀδ) has at the optimum, where wᵀΛw is the robust margin of w
            return (weights * (margin / spread)[:, None]).masked_fill(vain[:, None], 0.0)
        if (step // 25).bit_count() == 1:  # ever more rarely: otherwise it may never settle
            weight, multiplier = _balance_residuals(weight, multiplier, best, before, move)
    raise Unsupported(
        f"robust Bayes classifiers: expected the margin for norm {norm:g} to be known to {_WORST:g} of itself after "
        f"{_STEPS:,} steps, got one that is not; the variances are too far apart: use ledoit_wolf, or norm 2"
    )


def length(rows: Float[Tensor, "*batch k"], norm: float) -> Float[Tensor, "*batch"]:
    """Return ||x||_p of every row; unlike `torch.linalg.vector_norm` it does not overflow where p is large.

    Example:
        >>> length(torch.tensor([3.0, 4.0]), 2.0).item()
        5.0
    """
    # Powers of numbers of at most 1
    largest = rows.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    return torch.linalg.vector_norm(rows / largest, norm, dim=-1) * largest[..., 0]


def dual_norm(norm: float) -> float:
    """Return q with 1/p + 1/q = 1.

    Example:
        >>> dual_norm(1), dual_norm(2), dual_norm(3)
        (inf, 2.0, 1.5)
    """
    return math.inf if norm == 1 else 1.0 if norm == math.inf else norm / (norm - 1)


def check_norm(norm: float) -> None:
    """Refuse what is no norm.

    Raises:
        HoldfastError: p < 1 or NaN.

    Example:
        >>> check_norm(math.inf)
    """
    if not norm >= 1:
        raise BadValue(f"norm: expected p >= 1 (or infinity), got {norm}; 2 is usual")


def _balance_residuals(
    weight: Tensor, multiplier: Tensor, best: Tensor, before: Tensor, move: Tensor
) -> tuple[Tensor, Tensor]:
    """Return ADMM's weight, and prices in its units, such that both of its residuals shrink alike."""

    def size(rows: Tensor) -> Tensor:
        return rows.norm(dim=1, keepdim=True).clamp_min(1e-300)

    # Relative: each residual against what it is a residual of
    primal, dual = size(best - move) / size(move), size(move - before) / size(multiplier)
    change = (primal / dual).sqrt()
    # Only where they are far apart, and not too much at once
    change = torch.where((change > 3) | (change < 1 / 3), change.clamp(0.01, 100), 1.0)
    after = (weight * change).clamp(1e-50, 1e50)  # a radius of 0 asks for ever more
    return after, multiplier * weight / after


def _on_sphere(mu: Rows, values: Rows, radius: PerRow, norm: float) -> Rows:
    """Return z of norm `radius` < 1 for μ >= 0 of norm 1 and variances of at most 1."""
    if norm in (1, 2):
        z = _climb((_shrunk if norm == 2 else _soft_threshold)(mu, values, radius), radius)
    else:
        z = _by_logarithms(mu, values, radius, norm)
    return z * (radius / length(z, norm))[:, None]  # to the last bit


def _climb(at: Callable[[Tensor], tuple[Rows, PerRow]], radius: PerRow) -> Rows:
    """Return z(t) where Newton's steps from t = 0, none of which overshoots, no longer move t."""
    t = torch.zeros_like(radius)
    while True:
        z, step = at(t[:, None])
        later = t + step.clamp_min(0.0)
        if not bool((later > t * (1 + 2.0**-50)).any()):
            return z
        t = later


def _shrunk(mu: Rows, values: Rows, radius: PerRow) -> Callable[[Tensor], tuple[Rows, PerRow]]:
    def at(t: Tensor) -> tuple[Rows, PerRow]:
        # Newton on 1 / ||z||: (1/r - 1/||z||) over its derivative, both times ||z||
        z = mu / (1 + t * values)
        length = z.norm(dim=1)
        slope = ((z / length[:, None]).square() * values / (1 + t * values)).sum(1)
        return z, (length / radius - 1) / slope

    return at


def _soft_threshold(mu: Rows, values: Rows, radius: PerRow) -> Callable[[Tensor], tuple[Rows, PerRow]]:
    def at(t: Tensor) -> tuple[Rows, PerRow]:
        # Σ z falls by Σ λ over the coordinates that are not 0 yet
        z = (mu - t * values).clamp_min(0.0)
        return z, (z.sum(1) - radius) / values.where(z > 0, 0.0).sum(1)

    return at


def _by_logarithms(mu: Rows, values: Rows, radius: PerRow, norm: float) -> Rows:
    """Solve for log t by Newton steps in the logarithm of ||z||, kept in a bracket that always holds the root."""
    r, goal = norm - 1, radius.log()
    logs, scales = mu.clamp_min(1e-300).log(), values.log()
    # Without its first term z is too large, so where that has the length wanted, t is too large
    high = r * (torch.logsumexp((logs - scales) * (norm / r), 1) / norm - goal)
    # ||μ - z|| >= 1 - ε and t λ z^(p-1) <= t ε^(p-1), so t is at least (1 - ε) / (ε^(p-1) K^(1/p))
    low = (1 - radius).log() - r * goal - math.log(mu.shape[1]) / norm
    s, z = high, logs
    for _ in range(200):
        z, slope = _inner(logs, scales + s[:, None], r)
        size = torch.logsumexp(norm * z, 1) / norm
        slope = (torch.softmax(norm * z, 1) * slope).sum(1)
        # ||z|| falls as t grows
        low, high = torch.where(size >= goal, s, low), torch.where(size >= goal, high, s)
        newton = s - (size - goal) / slope
        # A step that leaves the bracket is halving instead
        after = torch.where((newton >= low) & (newton <= high), newton, (low + high) / 2)
        done = (size - goal).abs() <= 1e-14 * (1 + goal.abs())
        if bool((done | ((after - s).abs() <= 1e-15 * (1 + s.abs()))).all()):
            break
        s = torch.where(done, s, after)
    # Where μ is 0, so is z, whatever stood for log 0
    return torch.where(mu > 0, z.exp(), 0.0)


def _inner(logs: Rows, offsets: Rows, r: float) -> tuple[Rows, Rows]:
    """Return ℓ = log z where z + e^a z^r = μ, and dℓ/da.

    log(e^ℓ + e^(a + rℓ)) is convex and increasing in ℓ; Newton's steps from the right of the root stay there, and
    min(log μ, (log μ - a) / r) is to its right by at most log 2 of that function.
    """
    z = torch.minimum(logs, (logs - offsets) / r)
    for _ in range(20):
        # The share of the second term in the sum, for derivatives of its logarithm
        part = torch.sigmoid(offsets + (r - 1) * z)
        step = (torch.logaddexp(z, offsets + r * z) - logs) / (1 - part + r * part)
        z = z - step
        if bool((step <= 1e-14 * (1 + z.abs())).all()):  # below 0 from rounding only
            break
    part = torch.sigmoid(offsets + (r - 1) * z)
    return z, -part / (1 - part + r * part)
