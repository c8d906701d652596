"""Smoothed accuracy: how often an image under noise, moved a little, provably still finds itself among all images."""

from dataclasses import dataclass

import torch

from holdfast import statistics
from holdfast.core import HoldfastError, Score, Subject, Table
from holdfast.measures._smoothed_measure import SmoothedMeasure
from holdfast.smoothing._certificate import Certificate
from holdfast.smoothing.classifier import Classifier


@dataclass(frozen=True)
class SmoothedAccuracy(SmoothedMeasure):
    """Share of images that the smoothed instance classifier gets right within a radius; see `Classifier`.

    The class of a representation is the image of the population whose clean representation is nearest, the right
    one is the image itself: no labels. An image whose certificate abstains is not right.

    Table, one row per image: `found`, 1 where the certified class is the image itself; `radius` in pixels (ℓ2), 0
    where it abstained; `abstained`, 1 or 0.

    Attributes:
        radii: distances, in pixels, at which the share is stated besides 0; the share at 0 is the headline.
    """

    certificate: Certificate = Classifier()
    radii: tuple[float, ...] = (0.1, 0.25, 0.5)

    better = "higher"
    unit = "share"
    question = "How many images does the smoothed encoder provably still recognise, among all images, as themselves?"
    how_to_read = (
        "100 % means that under Gaussian noise every image is provably still nearest to itself more often than not; "
        "the shares 'within r' say how many stay so when the image moves by any r pixels (ℓ2). It is a promise "
        "about the encoder averaged over noise, not about the encoder itself."
    )
    reference = "Cohen et al. (2019), with instances in place of classes; appendix C.9 of " + (
        "Robustness of unsupervised representation learning without labels"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not 0 < radius < float("inf") for radius in self.radii):
            raise HoldfastError(f"smoothed_accuracy radii: expected positive distances in pixels, got {self.radii}")

    @property
    def column(self) -> str:
        """Whether the image is certified to be found."""
        return "found"

    def observe(self, subject: Subject) -> Table:
        """Return what is certified of every image."""
        seen = self.seen(subject)
        itself = seen["vote"] == torch.arange(len(seen["vote"]))
        abstained = seen["abstained"]
        return {"found": (itself & (abstained == 0)).double(), "radius": seen["radius"], "abstained": abstained}

    def score(self, table: Table) -> dict[str, Score]:
        """Return abstentions, average radii, and the certified accuracy at every radius, at 0 last."""
        certificate = self.certificate
        assert isinstance(certificate, Classifier)
        found, radius = table["found"], table["radius"]
        promise = f"each image's certificate on its own at confidence {1 - certificate.alpha:g}"
        given = "given this population of images"
        most = self.sigma * certificate.highest_radius
        everyone = statistics.mean(radius * found, given=given, most=most)
        right = statistics.mean(radius.where(found == 1, torch.nan), given=given, most=most)
        abstained = statistics.share(table["abstained"], given=given)
        scores = {
            "abstained": self.about(abstained),
            "average radius": self.about(everyone, promise, "images that are not found count as 0", unit="pixels"),
            "average radius of those found": self.about(right, promise, unit="pixels"),
        }
        for at in sorted(self.radii, reverse=True):
            within = statistics.share((found * (radius > at)).double(), given=given)
            scores[f"within {at:g}"] = self.about(within, promise)
        counted = f"{int(table['abstained'].sum())} of {len(found)} abstained, counted as not found"
        return scores | {"found": self.about(statistics.share(found, given=given), promise, counted)}
