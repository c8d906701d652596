"""The mean over images of what lists of neighbours have in common, where every image is also in the lists of others."""

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics import jackknife
from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.means import degrees_of_freedom
from holdfast.numerics.statistics.proportions import clopper_pearson, effective_trials
from holdfast.numerics.statistics.score import Score

TRIPLE = 3
"""Images that decide whether a list changes: its own, one that leaves it and one that comes in."""


def list_mean(
    values: Float[Tensor, "images"],
    without: Float[Tensor, "images"],
    depth: int,
    confidence: float = 0.95,
    drawn: bool = False,
) -> Score:
    """Mean of a value in [0, 1] of each image's lists, with an interval over images in both roles.

    The variance v is the jackknife's: each image in turn is taken out, as one that has lists and as one that is in
    those of others (`compare_lists`). It is on the safe side (Efron and Stein). v gives the number of independent
    trials that the sample is worth (see `pair_mean`), and their binomial interval. Its ends are moved out to where they
    would be if all images of a share 1 - (α/2)^(1/N), which N images miss with probability α/2, had lists without
    anything in common (or with all).

    Where all lists are alike there is nothing to resample. A list changes where three images come together, its own,
    one that leaves it and one that comes in: N images hold N / 3 such triples that share none, which are as many
    trials, for the exact limit of a sample without exception.

    Images that are drawn from an index, which stays as it is, decide by their own lists alone: they are trials each.

    Args:
        values: of each image, [N].
        without: the mean where each image is taken out, [N].
        depth: places of the lists.
        confidence: level of the interval.
        drawn: whether the interval is about all images of one index, of which these are drawn.

    Source: Efron & Stein (1981), "The jackknife estimate of variance"; Korn & Graubard (1998), see `effective_size`.

    Example:
        >>> score = list_mean(torch.tensor([1.0] * 44), torch.tensor([1.0] * 44), depth=10)
        >>> print(f"{score.value:.0f} in [{score.low:.2f}, {score.high:.0f}]: {score.interval}")
        1 in [0.78, 1]: exact limit for a sample without exception
    """
    n, value, tail = len(values), float(values.double().mean()), (1 - level(confidence)) / 2
    about = ", drawn from this index" if drawn else ""
    if bool((values == 0).all()) or bool((values == 1).all()):
        # q^n = α/2 for n independent trials; n images in both roles are worth n / 3
        limit = tail ** (1 / n if drawn else TRIPLE / n)
        low, high = (0.0, 1 - limit) if value == 0 else (limit, 1.0)
        return Score(value, low, high, n, f"exact limit for a sample without exception{about}", confidence)
    # The jackknife's variance, and the independent trials it is worth
    parts = jackknife.of_function(value, without.double())
    centred = parts - parts.mean()
    variance = float(centred.square().sum()) / n / max(n - 1, 1)
    size = effective_trials(value, variance, max(degrees_of_freedom(centred), 1.0), float(n * depth), confidence)
    low, high = clopper_pearson(value * size, size, confidence)
    # Room for images that n images miss with probability α/2
    unmet = 1 - tail ** (1 / n)
    low, high = min(low, (1 - unmet) * value), max(high, value + unmet * (1 - value))
    kind = "binomial with effective size from the jackknife over images"
    kind += about or ", each in both of its roles"
    return Score(value, low, high, n, kind, confidence)
