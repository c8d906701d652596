"""Class uniformity: how evenly the images of one class cover the part of the sphere that they have."""

from dataclasses import dataclass, replace

import torch

from holdfast.core import Measure, Score, Subject, Table
from holdfast.numerics.geometry import feature_space
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.statistics import sampled_pairs
from holdfast.numerics.statistics.jackknife import over_classes
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.all_pairs import OfAllPairs
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.measures.shared.shape import SHOWN, ShapeMeasure
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class ClassUniformity(OfAllPairs, ShapeMeasure):
    """U_c = -log E exp(-2 ||z - z'||²) over pairs of different images of class c; the score is the mean over classes.

    Table, one row per image: `own`, what it contributes to its class's U_c; `uniformity`, to their mean; `label`. Of
    each class `pairs_of` limits the pairs on their own.
    """

    invariant = DIRECTIONS

    reads_labels = True
    better = "higher"
    unit = "ratio"
    question = "How much of the variety within a class does the representation keep?"
    how_to_read = (
        "0 means that a class has collapsed to one direction. That helps a classifier of these classes, but nothing is "
        "left to tell images of the class apart. The paper reports that it falls in supervised training and rises in "
        "contrastive training."
    )
    reference = "Zhong et al. (2022), section 4 and Figure 3"

    @property
    def column(self) -> str:
        """What each image contributes to the mean over classes."""
        return "uniformity"

    def observe(self, subject: Subject) -> Table:
        """Return what every image contributes to its class, and to the mean over classes."""
        labels, reps = labels_of(subject), Clean.of(subject)
        # What each image contributes to the uniformity of its class
        own = torch.empty(len(reps), dtype=torch.float64)
        # Pairs within a class alone, from a circle of its own where there are too many
        for images in (labels == c for c in labels.unique()):
            own[images] = feature_space.uniformity(reps[images], self.circle(subject, int(images.sum())))
        return {"own": own, "uniformity": over_classes(own, labels), "label": labels}

    def pairs(self, images: int) -> int:
        """Return 0: classes are not known yet, and have far fewer pairs."""
        return 0

    def shrink_for_timing(self, subject: Subject) -> tuple[Measure, float]:
        """Return itself on fewer pairs, and how many times as long all pairs of the largest class take."""
        return self._limit_pairs(int(labels_of(subject).bincount().max()))

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the uniformity of each class, and their mean."""
        own, label = table["own"], table["label"]
        classes = label.unique().tolist()
        # Of many classes the mean alone: the table has all images
        of_class = {f"class {c}": label == c for c in classes} if len(classes) <= SHOWN else {}
        each = {name: self.mean(own, self.partners(int(rows.sum())), rows) for name, rows in of_class.items()}
        return each | {"mean over classes": self._over_classes(table)}

    def _over_classes(self, table: Table) -> Statistic:
        """Return the mean over classes; where not all pairs of a class were compared, it says of which and how many."""
        # The largest class is compared on the smallest share of its pairs, so it speaks for all
        sizes = table["label"].unique(return_counts=True)[1].tolist()
        largest = max(sizes)

        def describe(score: Score) -> Score:
            kind = sampled_pairs.describe_interval(score.interval, largest, self.partners(largest))
            return replace(score, interval=kind)

        return self.mean(table["uniformity"]).restate(describe)
