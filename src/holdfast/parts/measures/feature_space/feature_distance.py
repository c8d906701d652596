"""Feature distance: how far classes are apart, against how wide they are."""

from dataclasses import dataclass, replace

from holdfast.core import Score, Subject, Table
from holdfast.numerics.geometry import feature_space
from holdfast.numerics.geometry.directions import unit
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.statistics.jackknife import over_classes
from holdfast.numerics.statistics.ratios import Ratio
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.measures.shared.shape import SHOWN, ShapeMeasure
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class FeatureDistance(ShapeMeasure):
    """d(c, c') = E ||f(x) - f(x')||² over images x of class c and x' of c'; between classes / within them.

    Pairs of an image with itself are left out of d(c, c), and classes count alike.

    Table, one row per image: `within` and `between`, what it contributes to both means; `own`, to the mean of its own
    class within; `label`.

    Attributes:
        normalised: compare unit vectors, so that encoders can be compared; else the paper's, in squared units of the
            representation.
    """

    invariant = DIRECTIONS

    normalised: bool = True

    reads_labels = True
    better = "higher"
    unit = "ratio"
    question = "How much farther apart are images of different classes than images of the same class?"
    how_to_read = (
        "1 means that the classes do not form clusters. The ratio also grows when a class shrinks and loses its "
        "variety, so read it beside class uniformity."
    )
    reference = "Zhong et al. (2022), section 4 (feature distance) and Figure 3"

    @property
    def column(self) -> str:
        """What each image contributes to the mean distance between classes."""
        return "between"

    def observe(self, subject: Subject) -> Table:
        """Return what every image contributes to the distances within and between classes.

        Raises:
            HoldfastError: images of one class only.
        """
        labels, reps = labels_of(subject), Clean.of(subject).double()
        reps = unit(reps) if self.normalised else reps
        # Contributions to d(c, c) of each class, and to the mean over pairs of different classes
        own = feature_space.within(reps, labels)
        between = over_classes(feature_space.between(reps, labels), labels)
        return {"within": over_classes(own, labels), "between": between, "own": own, "label": labels}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the mean distance within each class, within all, between them, and the ratio."""
        own, label = table["own"], table["label"]
        classes = label.unique().tolist()
        each = (
            {f"within class {c}": self.mean(own, among=label == c).say(better="lower") for c in classes}
            if len(classes) <= SHOWN
            else {}
        )
        inside, across = self.mean(table["within"]), self.mean(table["between"])
        # Both distances are of the same images: without their correlation the interval
        # would be that of unrelated ones.
        # The ratio's interval is for scores that are never negative, as squared distances are
        quotient = Ratio(across.restate(_positive), inside.restate(_positive))
        return each | {
            "within classes": inside.say(better="lower"),
            "between classes": across,
            "between / within": quotient,
        }


def _positive(score: Score) -> Score:
    """Return a score of squared distances without the part of its interval that is below 0."""
    return replace(score, low=None if score.low is None else max(score.low, 0.0))
