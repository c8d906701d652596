"""What the certified accuracies of smoothed classifiers have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from holdfast.core import Chart, Score, Table
from holdfast.core.registry import part_name
from holdfast.numerics.statistics.statistic import Mean, Share, Statistic
from holdfast.parts.measures.shared.reach import chart_certificates
from holdfast.parts.measures.shared.smoothed_measure import SmoothedMeasure
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.smoothing.shared.certificate import Certificate
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class SmoothedShare(SmoothedMeasure):
    """A share of images that a smoothed classifier provably gets right within a radius; see `Classifier`.

    Table, one row per image: `found`, 1 where the certified class is the right one; `radius` in pixels (ℓ2), 0 where it
    abstained; `abstained`, 1 or 0.

    Attributes:
        radii: distances, in pixels, at which the share is stated besides 0; the share at 0 is the headline.
    """

    certificate: Certificate = Classifier()
    radii: tuple[float, ...] = (0.1, 0.25, 0.5)

    condition: ClassVar[str]
    better = "higher"
    unit = "share"

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not 0 < radius < float("inf") for radius in self.radii):
            raise BadValue(f"{part_name(self)} radii: expected positive distances in pixels, got {self.radii}")

    @property
    def column(self) -> str:
        """Whether the image is certified to be right."""
        return "found"

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return abstentions, average radii, and the certified accuracy at every radius, at 0 last."""
        certificate = self.certificate
        assert isinstance(certificate, Classifier)
        correct, radius = table["found"], table["radius"]
        promise = f"each image's certificate on its own at confidence {1 - certificate.alpha:g}"
        condition = self.condition
        most = self.sigma * certificate.highest_radius
        # ACR as in appendix C.9: images that are not found count as 0
        everyone = Mean(radius * correct, condition=condition, most=most)
        # The other usual average: over the images that are found alone
        right = Mean(radius.where(correct == 1, torch.nan), condition=condition, most=most)
        abstained = Share(table["abstained"], condition=condition)
        found = {
            "abstained": self.about(abstained).say(better="lower"),
            "average radius": self.about(everyone, promise, "images that are not found count as 0", unit="pixels"),
            "average radius of those found": self.about(right, promise, unit="pixels"),
        }
        # From the farthest to 0, so that the headline comes last
        for at in sorted(self.radii, reverse=True):
            within = Share((correct * (radius > at)).double(), condition=condition)
            found[f"within {at:g}"] = self.about(within, promise)
        counted = f"{int(table['abstained'].sum())} of {len(correct)} abstained, counted as not found"
        return found | {"found": self.about(Share(correct, condition=condition), promise, counted)}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return the certified accuracy against the radius, and how `column` spreads over the images."""
        return chart_certificates(table["found"], table["radius"]), *super().charts(table, scores)
