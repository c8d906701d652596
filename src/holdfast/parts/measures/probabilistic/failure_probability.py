"""Failure probability: how likely an image is to fail under a noise, however rare that is."""

from dataclasses import dataclass, replace

import torch

from holdfast.core import Observation, Score, Subject, Table, Threat
from holdfast.core.registry import part_name
from holdfast.numerics import statistics
from holdfast.numerics.statistics.statistic import Influence, Share, ShareOfDraws, Statistic
from holdfast.parts.estimators.splitting import Splitting
from holdfast.parts.measures.shared.chance import ChanceMeasure
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.rare_failures import RareFailures
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import BadValue

MANY = 10**12
"""Draws that an estimate is taken to be worth at most."""


@dataclass(frozen=True)
class FailureProbability(ChanceMeasure):
    """P_{x' ~ noise(x)}[x' fails] of each image by adaptive multilevel splitting; its median and mean over images.

    Counting sees nothing of a probability of 1e-6 in 100 draws; splitting reaches it with thousands of passes. An image
    for which no population reached a failure counts as 0, and its interval says what remains possible.

    Table, one row per image: `probability`, `low` and `high` (its 95 % interval), `relative_variance`, `levels` (0:
    plain sampling), `passes`, `wrong` (1 where the image fails without a disturbance).

    Attributes:
        noise: any noise: uniform, truncated_gaussian, laplace, rotation, mixture, ...
        estimator: how rare events are reached.
    """

    noise: Threat = Uniform()
    estimator: Splitting = Splitting()

    better = "lower"
    in_brief = True
    question = "How likely is an image to fail under this noise, even if failures are rare?"
    how_to_read = (
        "The median is the probability that a typical image fails at one draw of the noise. The mean is the "
        "probability for a random image; it depends mostly on the few images that fail often. The table has an "
        "interval for each image."
    )
    reference = "Webb et al. (2019)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.estimator, Splitting):
            raise BadValue(f"failure_probability: expected the estimator splitting, got {part_name(self.estimator)}")
        _ = self.estimates  # refuses threats that only sample

    @property
    def column(self) -> str:
        """Each image's probability."""
        return "probability"

    @property
    def estimates(self) -> RareFailures:
        """The estimates that it reads."""
        return RareFailures(self.noise, self.failure, self.estimator, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and estimates."""
        return Clean(), self.estimates

    def observe(self, subject: Subject) -> Table:
        """Return every image's probability of failing."""
        estimates = dict(subject.read(self.estimates))
        return estimates | {"probability": self.exclude_wrong(estimates["probability"], estimates["wrong"])}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return how many images were never seen to fail, and the mean and the median probability."""
        values = table["probability"]
        # NaN where an image is left out
        unseen = torch.where(values.isnan(), torch.nan, (values == 0).double())
        most = float(table["high"][values == 0].max()) if bool((values == 0).any()) else 0.0
        unseen_note = (
            f"images without a failure count as 0; their own intervals end at {most:.2g} at most" if most else ""
        )
        condition = "given each image's estimate"
        return {
            "no failure reached": self.annotate(table, Share(unseen).say(better="higher")),
            # An estimate by splitting is worth many draws: only the spread over images counts
            "mean": self.annotate(table, ShareOfDraws(values, condition=condition, draws=MANY), unseen_note),
            "median": self.annotate(table, _MedianOfOwn(table), unseen_note),
        }


@dataclass(frozen=True, eq=False)
class _MedianOfOwn(Statistic):
    """The median, with ends that are those of the images' own: so that 0 means "below what was reached"."""

    table: Table

    def score(self) -> Score:
        # Medians of the lower ends, the estimates and the upper ends of the images' own intervals
        low, middle, high = (
            statistics.median(self.table[column].where(~self.table["probability"].isnan(), torch.nan))
            for column in ("low", "probability", "high")
        )
        kind = "order statistics of the lower, and of the upper, ends of the images' own intervals"
        start = low.value if low.low is None else low.low  # ends that are all alike have none of their own
        end = high.value if high.high is None else high.high
        return replace(middle, low=start, high=end, interval=kind)

    def influence(self) -> Influence:
        return statistics.influence_of_median(self.table["probability"])
