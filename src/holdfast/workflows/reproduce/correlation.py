"""How numbers of a table go together: the errors of two, which images have in common, and two columns over rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.comparison.records import Run
from holdfast.core import Score, registry
from holdfast.numerics import statistics
from holdfast.numerics.statistics.correlations import pearson, pearson_given
from holdfast.runtime.errors import pick
from holdfast.storage.record import MeasureEntry


@dataclass(frozen=True)
class Estimate:
    """A score of an encoder, and what each image moves it by.

    Attributes:
        score: the score.
        images: ids of the images that it is of; none where their influences are not known.
        influence: of each of them on the score, up to a factor.
    """

    score: Score
    images: tuple[str, ...] = ()
    influence: Float[Tensor, "images"] | None = None

    @property
    def error(self) -> float | None:
        """The standard error: a 95 % interval reaches 1.96 of them to either side; None without an interval."""
        low, high = self.score.low, self.score.high
        return None if low is None or high is None else (high - low) / (2 * 1.96)

    def correlation(self, other: "Estimate") -> float:
        """Return how strongly the errors of two scores go together: that of the images which both are of.

        Images that only one is of make its error its own, so the correlation falls with their share.
        """
        if self is other:
            return 1.0
        # The rows of both that are of one image
        places = {image: place for place, image in enumerate(self.images)}
        pairs = [(places[image], place) for place, image in enumerate(other.images) if image in places]
        if self.influence is None or other.influence is None or len(pairs) < 2:
            return 0.0
        mine, theirs = (list(rows) for rows in zip(*pairs, strict=True))
        rho = statistics.correlation(self.influence[mine], other.influence[theirs])
        return rho * len(pairs) / math.sqrt(len(self.images) * len(other.images))


def estimate(run: Run, measure: MeasureEntry, name: str | list[str] | None) -> Estimate:
    """Return a score of a measure, its headline where none is named; of several names, the one that it has."""
    names = name if isinstance(name, list) else [name or measure.headline]
    name = next((each for each in names if each in measure.scores), str(names[0]))
    score = pick("score", name, measure.scores)
    if measure.table is None:
        return Estimate(score)
    ids, table = run.table(measure.table)
    influence = registry.build(measure.part).influence(table, name)
    return Estimate(score, tuple(ids), influence) if len(ids) == len(influence) else Estimate(score)


def correlate(first: Sequence[Estimate], second: Sequence[Estimate]) -> Score:
    """Return Pearson's correlation of two columns over some rows, with an interval over images, given the encoders.

    Few encoders are no sample of all that there could be; and those of a paper are the ones that it is about.
    """
    estimates = [*first, *second]
    x, y = torch.tensor([each.score.value for each in estimates], dtype=torch.float64).chunk(2)
    # Without intervals there is no error to weigh, and points count as a sample
    errors = [each.error for each in estimates if each.error is not None]
    if len(errors) < len(estimates):
        return pearson(x, y)
    # Covariance of all errors: encoders see the same images, so theirs go together
    rho = torch.tensor([[one.correlation(other) for other in estimates] for one in estimates], dtype=torch.float64)
    sizes = torch.tensor(errors, dtype=torch.float64)
    covariance = sizes[:, None] * rho * sizes
    return pearson_given(x, y, covariance, min(each.score.n for each in estimates))
