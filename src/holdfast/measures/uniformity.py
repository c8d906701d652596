"""Uniformity: how evenly representations cover the unit sphere."""

from dataclasses import dataclass

from holdfast import feature_space
from holdfast.core import Score, Subject, Table
from holdfast.measures._disturbed import CONTRASTIVE
from holdfast.measures._shape import ISOLA, ShapeMeasure
from holdfast.observations.clean import Clean


@dataclass(frozen=True)
class Uniformity(ShapeMeasure):
    """U = -log E exp(-2 ||z - z'||²) over all pairs of different images, z = f(x) / ||f(x)||.

    Table, one row per image: `uniformity`, what it contributes to U; the mean of the column is U.
    """

    better = "higher"
    unit = "ratio"
    question = "How evenly do representations cover the unit sphere?"
    how_to_read = (
        "0 where all images point in one direction, 4 where all are orthogonal; evenly spread over the sphere of a "
        "16-dimensional space is 3.51. Little of it means that a small drift already reaches other images."
    )
    reference = f"{ISOLA}; with the sign of {CONTRASTIVE} (Zhong et al., 2022), section 4 and Figure 3"

    @property
    def column(self) -> str:
        """What each image contributes."""
        return "uniformity"

    def observe(self, subject: Subject) -> Table:
        """Return what every image contributes."""
        return {"uniformity": feature_space.uniformity(subject.read(Clean())["reps"])}

    def score(self, table: Table) -> dict[str, Score]:
        """Return the uniformity of all images together."""
        return {"uniformity": self.mean(table["uniformity"])}
