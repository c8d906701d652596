"""The mean over images of a value against drawn others, in which every image of the population has both roles.

One image is a negative of several others. Were only those counted that have negatives, an interval would hold for this
population as the source of negatives, and for no other.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics import statistics
from holdfast.numerics.statistics.rows import constant
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Influence, Statistic


def contributions(
    values: Float[Tensor, "images count"], negatives: Int[Tensor, "images count"], population: int
) -> Float[Tensor, "population"]:
    """Contributions of each image of the population to the mean of values against drawn others.

    θ + N I_i, with I_i = Σ_k (v_ik - θ) / (MK) over the negatives of image i, plus the same over the pairs in which
    it is the negative. What is each pair's own is counted twice, on the safe side.

    Args:
        values: v of each image against each of its negatives; a row with a NaN is left out, [M, K].
        negatives: their positions in the population, [M, K].
        population: N.

    Source: Owen (2007), "The pigeonhole bootstrap", for the variance; as for `statistics.pair_mean`.

    Example:
        >>> values, negatives = torch.tensor([[0.0], [1.0]]), torch.tensor([[1], [0]])
        >>> contributions(values, negatives, population=2).mean().item()
        0.5
    """
    defined = ~values.isnan().any(1)
    value = values[defined].double().mean()
    # What each pair adds to the mean beyond θ; it counts for the image and for its negative
    excess = (values.double() - value)[defined] / max(int(defined.sum()) * values.shape[1], 1)
    moves = torch.zeros(population, dtype=torch.float64)
    # The slice is a view, so the sum goes into `moves` itself
    moves[: len(defined)][defined] += excess.sum(1)
    moves.index_add_(0, negatives[defined].flatten(), excess.flatten())
    return value + population * moves


def mean(
    means: Float[Tensor, "images"],
    parts: Float[Tensor, "population"],
    condition: str = "",
    confidence: float = 0.95,
    most: float | None = None,
) -> Score:
    """Mean over images of their means over negatives; its interval is that of their contributions.

    Args:
        means: of each image over its negatives, NaN where it has none, [M] or [N].
        parts: `contributions`, [N].
        condition: what the interval is conditional on.
        confidence: level of the interval.
        most: the largest value possible, where one is known.

    Example:
        >>> values, negatives = torch.tensor([[0.0], [1.0], [1.0]]), torch.tensor([[1], [2], [0]])
        >>> score = mean(values.mean(1), contributions(values, negatives, population=3), most=1.0)
        >>> print(f"{score.value:.2f} from {score.n} images")
        0.67 from 3 images
    """
    defined = means[~means.isnan()]
    # Equal values: their exact limit is about images, and contributions have no spread to add
    alone = statistics.mean(defined, None, condition, confidence, most)
    if constant(defined):
        return alone
    both = statistics.mean(parts, None, condition, confidence)
    low, high = both.low, both.high
    if low is None or high is None:
        return alone
    low = max(low, 0.0) if float(defined.min()) >= 0 else low
    high = high if most is None else min(high, most)
    return replace(both, value=alone.value, low=low, high=high, n=alone.n, note=alone.note)


@dataclass(frozen=True, eq=False)
class DrawnMean(Statistic):
    """The mean over images of their means over drawn negatives, see `mean`.

    Attributes:
        means: of each image over its negatives, NaN where it has none, [M] or [N].
        parts: `contributions`, [N].
        condition: what the interval is conditional on.
        most: the largest value possible, where one is known.
    """

    means: Float[Tensor, "images"]
    parts: Float[Tensor, "population"]
    condition: str = ""
    most: float | None = None

    def score(self) -> Score:
        """Return the mean."""
        return mean(self.means, self.parts, self.condition, most=self.most)

    def influence(self) -> Influence:
        """Return the influence of each image of the population, in both of its roles."""
        # Contributions hold both roles: of an image's own negatives, and as a negative of others
        return statistics.influence_of_mean(self.parts)
