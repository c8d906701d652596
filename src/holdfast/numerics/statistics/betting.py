"""One-sided confidence bounds for the mean of a [0, 1] variable, from draws that arrive in chunks.

Two of them: Clopper-Pearson's, exact for 0/1 variables and a number of draws fixed beforehand; and a betting one, for
any [0, 1] variable, that holds however the number of draws was chosen. The latter's choice is argued in `lower`.
"""

import math
from functools import cache

import scipy
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from holdfast.runtime.errors import BadValue

Counts = Float[Tensor, "*shape levels"]
PerVariable = Float[Tensor, "*shape"]


def _levels() -> Tensor:
    """The grid on which values are tallied: steps of 1/32, and geometric ones towards both ends."""
    # Each step doubles away from 0 and from 1, so that means near them keep their relative accuracy
    ends = 2.0 ** -torch.arange(6, 21, dtype=torch.float64)
    inner = torch.arange(1, 32, dtype=torch.float64) / 32
    return torch.cat([torch.tensor([0.0]), ends.flip(0), inner, 1 - ends, torch.tensor([1.0])])


LEVELS = _levels()
"""Values at which draws are tallied, [levels]; 0, ½ and 1 are among them, and 1 - LEVELS is LEVELS reversed."""
GAPS = LEVELS.diff()

HALVINGS = 34
NEWTON = 12
"""Steps of Newton's method at most; from the smallest mean that halving meets on it takes four to eight."""
NEAR = 1e-13
"""How near to each other, relatively, the means are that it ends with: halving stops at 6e-11."""
LOG_ROUNDING = 1e-10
"""Of a logarithm per draw, generously; demanded in excess before a mean is ruled out."""


def tally(values: Float[Tensor, "draws *shape"]) -> Counts:
    """Number of draws at each level; a value between two levels is shared among them so that its mean is kept.

    log(1 + λ(x - m)) is concave in x, so what the shares gain in `log_capital` is never more than what x itself
    would: bounds from tallies are on the safe side, and exact for 0/1 variables.

    Args:
        values: draws of every variable, in [0, 1].

    Returns:
        Counts in float64, to be added up over chunks, [*shape, levels].

    Raises:
        HoldfastError: a value that is NaN or outside [0, 1].

    Example:
        >>> counts = tally(torch.tensor([0.0, 1.0, 1.0, 0.75]))
        >>> counts.sum().item(), empirical_mean(counts).item()
        (4.0, 0.6875)
    """
    values = values.double().cpu()
    least, most = values.aminmax()
    if not 0 <= float(least) <= float(most) <= 1:
        raise BadValue(
            f"draws of a mean: expected numbers in [0, 1], got {float(least)} to {float(most)}; "
            "NaN comes from an encoder that fails on noisy images"
        )
    # each value is shared between the two levels beside it, so that its mean is kept
    below = torch.bucketize(values, LEVELS).sub_(1).clamp_min_(0)
    share = ((values - LEVELS.take(below)) / GAPS.take(below)).flatten()
    variables = values[0].numel()
    # A number for each (variable, level), so that one histogram serves all variables
    place = (below.view(len(values), -1) + len(LEVELS) * torch.arange(variables)).flatten()
    size = variables * len(LEVELS)
    counts = place.bincount(1 - share, size) + (place + 1).bincount(share, size)
    return counts.view(*values.shape[1:], len(LEVELS))


def tally_votes(hits: Shaped[Tensor, "*shape"], draws: Shaped[Tensor, "*shape"]) -> Counts:
    """Tally of 0/1 variables, of which `hits` out of `draws` were 1.

    Example:
        >>> empirical_mean(tally_votes(torch.tensor(3), torch.tensor(4))).item()
        0.75
    """
    counts = torch.zeros(*hits.shape, len(LEVELS), dtype=torch.float64)
    counts[..., 0], counts[..., -1] = draws - hits, hits
    return counts


def empirical_mean(counts: Counts) -> PerVariable:
    """Plain mean of the tallied draws.

    Example:
        >>> empirical_mean(tally(torch.tensor([0.5, 1.0]))).item()
        0.75
    """
    return counts @ LEVELS / counts.sum(-1)


@cache
def bets(alpha: float, budget: int) -> Float[Tensor, "bets"]:
    """Fractions c of the capital that are put at stake, from the smallest that `budget` draws may need up.

    The bound holds for any grid; this one, even in log c / (1 - c), contains nearly the best c for every variance.

    Example:
        >>> stakes = bets(alpha=0.001, budget=1000)
        >>> print(f"{len(stakes)} stakes from {stakes[0]:.3f} to {stakes[-1]:.0f}")
        18 stakes from 0.118 to 1
    """
    least = min(0.5, math.sqrt(2 * math.log(1 / alpha) / budget))
    start = math.log(least / (1 - least))
    return torch.cat([torch.sigmoid(torch.arange(start, 6.0, 0.5, dtype=torch.float64)), torch.ones(1).double()])


def log_capital(counts: Counts, mean: PerVariable, alpha: float, budget: int) -> PerVariable:
    """Log K(m), the log of the capital won by betting that the mean exceeds m > 0.

    K(m) = 1/|C| Σ_{c in C} Π_i (1 - c + c x_i / m). If the mean is m or less, no factor's expectation exceeds 1, so K
    is a non-negative supermartingale that starts at 1: the chance that it ever reaches 1/α is at most α (Ville).
    K falls as m grows.

    Example:
        >>> won = tally_votes(torch.tensor(20), torch.tensor(20))
        >>> log_capital(won, torch.tensor(0.5).double(), alpha=0.05, budget=20).item() > math.log(1 / 0.05)
        True
    """
    stake = bets(alpha, budget)
    # Levels without draws say nothing, and 0 log 0 would be NaN; [*shape, levels, bets] summed over levels
    gain = torch.where(counts[..., None] > 0, _factors(mean, stake).log() * counts[..., None], 0.0).sum(-2)
    # The mean over bets: each begins with an equal part of the capital
    return gain.logsumexp(-1) - math.log(len(stake))


def _factors(mean: PerVariable, stake: Float[Tensor, "bets"]) -> Float[Tensor, "*shape levels bets"]:
    """Return what each bet makes of the capital at a draw of each level."""
    return 1 - stake + stake * (LEVELS[:, None] / mean[..., None, None])


def exceeds(counts: Counts, mean: PerVariable, alpha: float, budget: int) -> Bool[Tensor, "*shape"]:
    """Whether the draws prove, at confidence 1 - α, that the mean is above `mean`.

    Example:
        >>> won = tally_votes(torch.tensor(20), torch.tensor(20))
        >>> [bool(exceeds(won, torch.tensor(mean), alpha=0.05, budget=20)) for mean in (0.5, 0.99)]
        [True, False]
    """
    won = log_capital(counts, mean.clamp_min(1e-12), alpha, budget)
    return (mean <= 0) | (won >= _compute_log_threshold(counts, alpha))


def _compute_log_threshold(counts: Counts, alpha: float) -> PerVariable:
    """Return the log of the capital at which a mean is ruled out."""
    return math.log(1 / alpha) + LOG_ROUNDING * counts.sum(-1)


def stays_below(counts: Counts, mean: PerVariable, alpha: float, budget: int) -> Bool[Tensor, "*shape"]:
    """Whether the draws prove, at confidence 1 - α, that the mean is below `mean`.

    Example:
        >>> lost = tally_votes(torch.tensor(0), torch.tensor(20))
        >>> bool(stays_below(lost, torch.tensor(0.5), alpha=0.05, budget=20))
        True
    """
    return exceeds(counts.flip(-1), 1 - mean, alpha, budget)


def lower(counts: Counts, alpha: float, budget: int) -> PerVariable:
    """Lower 1 - α confidence bound of the mean of each variable: the largest m that `exceeds` rules out.

    Found by bisection, which ends on an m that is itself ruled out, so the result is never above the true root.

    Why betting: Hoeffding's bound knows neither variance nor the nearness of 1, and the empirical Bernstein bound
    knows the first but pays 7 log(2/α) / 3(n-1) in every case. At α .001, n 1000 and draws that are all 1 they give
    .941 and .982, this one .992 (Clopper-Pearson .993); for Beta(20, 2), mean .909, .850, .884 and .900. Neither may be
    looked at twice, while this one holds at every stopping time, so that sampling may end early. The mixture over
    constant bets, rather than bets that follow the draws (Waudby-Smith & Ramdas's predictable plug-in, within .003
    of it in these cases), does not depend on the order of draws: a tally is all it needs, in constant memory.

    Args:
        counts: see `tally`.
        alpha: the chance of a bound above the mean, in (0, 1).
        budget: draws at which the bound should be best; it holds at any number.

    Source: Waudby-Smith & Ramdas (2024), "Estimating means of bounded random variables by betting"; for mixtures of
    constant bets Cover (1991), "Universal portfolios", and Orabona & Jun (2024), "Tight concentrations and confidence
    sequences from the regret of universal portfolio".

    Example:
        >>> won = tally_votes(torch.tensor(1000), torch.tensor(1000))
        >>> print(f"{lower(won, alpha=0.001, budget=1000):.3f}")
        0.992
    """
    low, high = torch.zeros(counts.shape[:-1], dtype=torch.float64), empirical_mean(counts).double()
    out_below, in_above = _around_root(counts, high, alpha, budget)
    # K falls as m grows: bisect for the largest m that is ruled out, and look only where that is not known yet
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        # Newton has told of nearly all means on which side of the root they lie
        out, unknown = middle <= out_below, (middle > out_below) & (middle < in_above)
        if bool(unknown.any()):
            out |= unknown & exceeds(counts, middle, alpha, budget)
        low, high = torch.where(out, middle, low), torch.where(out, high, middle)
    return low


def _around_root(counts: Counts, mean: PerVariable, alpha: float, budget: int) -> tuple[PerVariable, PerVariable]:
    """Return a mean that the draws rule out (or 0) and one that they do not (or infinity), close to each other.

    Newton's method in log m, where log K is convex and nearly straight. Both means are looked at in the end: where it
    went astray they are far apart, and nothing else is lost.
    """
    stake, demanded = bets(alpha, budget), _compute_log_threshold(counts, alpha)
    # From the left, where log K is a convex, falling function of log m: steps stay on that side of the root
    at = (mean * 2.0**-HALVINGS).clamp_min(1e-12)
    draws, row = counts.sum(-1, keepdim=True), counts[..., None, :]
    for _ in range(NEWTON):
        factors = _factors(at, stake).clamp_min(1e-200)  # a lost capital gets a logarithm
        # [..., 1, levels] @ [..., levels, bets]
        gain = (row @ factors.log()).squeeze(-2)
        rate = draws - (1 - stake) * (row @ factors.reciprocal()).squeeze(-2)  # how fast it rises as log m falls
        step = (gain.logsumexp(-1) - math.log(len(stake)) - demanded) / (gain.softmax(-1) * rate).sum(-1)
        at = at * step.exp()
        if bool((step.abs() < 1e-7).all()):
            break
    # Not taken on trust: both sides of where it ended are looked at
    below, above = at * (1 - NEAR), at * (1 + NEAR)
    out, left = exceeds(counts, below, alpha, budget), above.isfinite() & ~exceeds(counts, above, alpha, budget)
    return torch.where(out, below, 0.0), torch.where(left, above, torch.inf)


@cache
def fewest_draws(alpha: float) -> int:
    """Fewest draws with which `lower` can exceed ½: those that do when every one of them is 1.

    Example:
        >>> fewest_draws(0.001)
        11
    """
    draws = fewest_trials(alpha)
    while not bool(exceeds(_all_ones(draws), torch.tensor(0.5).double(), alpha, draws)):
        draws += 1
    return draws


def near_mean(counts: Counts, precision: float, alpha: float, budget: int) -> PerVariable:
    """Φ(max(min(Φ⁻¹(plain mean), `highest_radius`) - precision, 0)): the bound that more draws hardly raise.

    Example:
        >>> held = tally_votes(torch.tensor(900), torch.tensor(1000))
        >>> print(f"{near_mean(held, precision=0.2, alpha=0.001, budget=1000):.3f}")
        0.860
    """
    most = highest_radius(budget, alpha)
    plain = torch.special.ndtri(empirical_mean(counts).clamp(0, 1))
    return torch.special.ndtr((plain.clamp_max(most) - precision).clamp_min(0))


@cache
def highest_radius(draws: int, alpha: float) -> float:
    """Φ⁻¹ of the largest bound that `lower` can give: that of draws which are all 1.

    Example:
        >>> print(f"{highest_radius(1000, alpha=0.001):.2f}")
        2.43
    """
    return float(scipy.special.ndtri(float(lower(_all_ones(draws), alpha, draws))))


def _all_ones(draws: int) -> Float[Tensor, "levels"]:
    return tally_votes(torch.tensor(draws), torch.tensor(draws))


def fewest_trials(alpha: float) -> int:
    """Fewest trials with which `clopper_pearson_lower` can exceed ½: the smallest n with α^(1/n) > ½.

    Example:
        >>> fewest_trials(0.001), 0.001 ** (1 / 10) > 0.5, 0.001 ** (1 / 9) > 0.5
        (10, True, False)
    """
    return math.floor(math.log2(1 / alpha)) + 1


def clopper_pearson_lower(
    successes: Shaped[Tensor, "*shape"], trials: int | Shaped[Tensor, "*shape"], alpha: float
) -> PerVariable:
    """Beta⁻¹(α; k, n - k + 1), the exact lower 1 - α bound of a share; 0 at k = 0.

    Holds for a number of trials that was fixed beforehand only. The inverse is accurate to about 1e-14; ten times as
    much is taken off, so that rounding never raises the bound.

    Args:
        successes: k, one count per variable.
        trials: n, one for all or one per variable.
        alpha: the chance of a bound above the share, in (0, 1).

    Source: Clopper & Pearson (1934), one-sided.

    Example:
        >>> print(f"{clopper_pearson_lower(torch.tensor(1000), 1000, alpha=0.001):.4f}")
        0.9931
    """
    k = torch.as_tensor(successes).double()
    n = torch.as_tensor(trials).double().expand_as(k)
    root = torch.as_tensor(scipy.special.betaincinv(k.clamp_min(1).numpy(), (n - k + 1).numpy(), alpha)).double()
    return torch.where(k > 0, root.reshape(k.shape) * (1 - 1e-13), 0.0)


def check_level(alpha: float, name: str) -> None:
    """Raise unless alpha is a chance of error strictly between 0 and ½.

    Example:
        >>> check_level(0.001, "smoothing")
    """
    if not 0 < alpha < 0.5:
        raise BadValue(f"{name}: expected an alpha between 0 and 0.5 (0.001 is usual), got {alpha}")
