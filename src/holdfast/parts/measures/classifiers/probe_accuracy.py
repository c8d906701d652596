"""Probe accuracy: how often a classifier on the frozen representation is right."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import Observation, Subject, Table, Threat
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.measures.shared.tested import TestedMeasure
from holdfast.runtime.errors import Missing

FEW, MANY = 20, 100
"""Classes of fewer than 20 training images are low-shot, of more than 100 many-shot."""

SHOWN = 20
"""Classes of which each has a score; of more, the table has the images."""


@dataclass(frozen=True)
class ProbeAccuracy(TestedMeasure):
    """E_x 1[fewer than n other classes score at least as high as y(x)], n = 1 (top-1) and 5 (top-5).

    Also for each class and, where classes differ in it, for those with few, some and many training images.

    Table, one row per image: `right`, 1 or 0; `rank`, how many classes come before its own; `label`; `shots`, training
    images of its class; `taught`, how many images the probe learned from.

    Attributes:
        threat: what befalls the tested images; None: nothing.
    """

    threat: Threat | None = None

    better = "higher"
    in_brief = True
    unit = "share"
    question = "How accurate is a simple classifier trained on the frozen representation?"
    how_to_read = (
        "A linear probe tests whether a hyperplane separates the classes, a kNN probe whether neighbours share a "
        "class. The class with the lowest accuracy is picked after looking at all of them, so its interval is narrower "
        "than it should be."
    )
    reference = (
        "linear evaluation as in Chen et al. (2020a); weighted kNN of Wu et al. (2018); shots of Liu et al. (2019), "
        "Table 5 of Zhong et al. (2022)"
    )

    def __post_init__(self) -> None:
        if self.consistent and self.threat is None:
            raise Missing("probe_accuracy: consistent: expected a threat that befalls training images as well")

    @property
    def column(self) -> str:
        """Whether each image is classified rightly."""
        return "right"

    def observations(self) -> tuple[Observation, ...]:
        """Representations of tested and of training images."""
        return self.looks(self.threat)

    def observe(self, subject: Subject) -> Table:
        """Return how every image is classified."""
        ranks = self.ranks(subject, self.threat)
        labels = labels_of(subject)[: len(ranks)]
        counts = torch.zeros_like(labels)
        if self.probe.trains:
            classes, sizes = subject.bank().labels.unique(return_counts=True)
            counts = sizes[torch.searchsorted(classes, labels)]  # every class is there: the probe has learned it
        taught = torch.full_like(labels, self.count_training_images(subject))
        return {"right": (ranks == 0).double(), "rank": ranks, "label": labels, "shots": counts, "taught": taught}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the shares of each class, by shots, of the lowest class, within the first five, and right."""
        right, rank, label, shots = table["right"], table["rank"], table["label"], table["shots"]
        classes = label.unique().tolist()
        shares: dict[str, Statistic] = {}
        for name, rows in {
            f"low-shot (< {FEW} images)": shots < FEW,
            "medium-shot": (shots >= FEW) & (shots <= MANY),
            f"many-shot (> {MANY} images)": shots > MANY,
        }.items():
            # Where all classes are of one kind the score would repeat the headline
            if shots.any() and rows.any() and not rows.all():
                shares[name] = self._share(right, rows)
        each = {f"class {name}": self._share(right, label == name) for name in classes}
        if len(classes) > SHOWN:
            # Of equal accuracies the first name, so that the choice is the same in every run
            lowest = min(each, key=lambda name: (each[name].score().value or 0.0, name))
            each = {f"lowest: {lowest}": each[lowest]}
        shares |= each
        # Of five classes all are among the first five
        if len(classes) > 5:
            shares["top-5"] = self._share((rank < 5).double())
        return shares | {"top-1": self.annotate(self._share(right), table)}

    def _share(self, hits: Float[Tensor, "images"], among: Bool[Tensor, "images"] | None = None) -> Statistic:
        return Share(hits, condition=self.condition, among=among)
