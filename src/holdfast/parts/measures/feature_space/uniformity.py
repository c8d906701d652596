"""Uniformity: how evenly representations cover the unit sphere."""

from dataclasses import dataclass

from holdfast.core import Observation, Subject, Table, Threat
from holdfast.numerics.geometry import feature_space
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.all_pairs import OfAllPairs
from holdfast.parts.measures.shared.shape import ShapeMeasure
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.represented import Represented


@dataclass(frozen=True)
class Uniformity(OfAllPairs, ShapeMeasure):
    """U = -log E exp(-2 ||z - z'||²) over all pairs of different images, z = f(x) / ||f(x)||.

    Table, one row per image: `uniformity`, what it contributes to U; the mean of the column is U.

    Attributes:
        threat: what befalls the images, those that the audit attacks; None: nothing, and all images count.
    """

    invariant = DIRECTIONS

    threat: Threat | None = None

    better = "higher"
    unit = "ratio"
    question = "How evenly do representations cover the unit sphere?"
    how_to_read = (
        "0 if all images point in the same direction, 4 if all are orthogonal; evenly spread over the sphere in 16 "
        "dimensions gives 3.51. When it is low, even a small drift reaches other images."
    )
    reference = "Wang & Isola (2020); with the sign of Zhong et al. (2022), section 4, Figure 3 and Table A.2"

    @property
    def column(self) -> str:
        """What each image contributes."""
        return "uniformity"

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, and those of disturbed images."""
        return Clean(), *((Represented(threat=self.threat),) if self.threat else ())

    def observe(self, subject: Subject) -> Table:
        """Return what every image contributes."""
        observation = Represented(threat=self.threat) if self.threat else Clean()
        # Under a threat only the images that the audit attacks are represented
        reps = subject.read(observation)["reps"]
        return {"uniformity": feature_space.uniformity(reps, self.circle(subject, len(reps)))}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the uniformity of all images together."""
        values = table["uniformity"]
        return {"uniformity": self.mean(values, self.partners(len(values)))}
