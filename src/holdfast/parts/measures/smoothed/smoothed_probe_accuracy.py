"""Smoothed probe accuracy: how often a linear classifier under noise is provably right, and how far."""

from dataclasses import dataclass

from holdfast.core import Observation, Subject, Table
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.invariance import AXES
from holdfast.parts.measures.shared.probe import labels_of
from holdfast.parts.measures.shared.smoothed_share import SmoothedShare
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.training import Training
from holdfast.parts.probes.linear import Linear
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.smoothing.shared.certificate import Certificate
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class SmoothedProbeAccuracy(SmoothedShare):
    """Share of images that the smoothed linear probe gets right within a radius; see `Classifier`.

    The probe learns from training images under the same noise. An image whose certificate abstains is not right. The
    average radius is over all images, the others counting as 0; that of the images found is what Cohen et al. average.

    Table, one row per image: `found`, 1 where the certified class is the label; `radius` in pixels (ℓ2), 0 where it
    abstained; `abstained`, 1 or 0.
    """

    invariant = AXES

    certificate: Certificate = Classifier(probe=Linear())

    condition = "given what the probe learned"
    reads_labels = True
    question = "What share of images does a smoothed linear classifier provably classify correctly?"
    how_to_read = (
        "For this share of images the probe under Gaussian noise provably predicts the correct class more often than "
        "any other; the shares 'within r' say for how many this still holds after any change of up to r pixels (ℓ2). "
        "It is a guarantee for the smoothed classifier, averaged over noise, not for the classifier itself."
    )
    reference = "Cohen et al. (2019); appendix C.9 and Figures 3, 6 and 10 of Petrov & Kwiatkowska (2022)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.certificate, Classifier) and self.certificate.probe is None:
            raise BadValue(f"{part_name(self)}: expected a certificate with a probe; see smoothed_accuracy")

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, training images under the noise, and draws."""
        return Clean(), Training(self.draws.noise), self.draws

    def observe(self, subject: Subject) -> Table:
        """Return what is certified of every image."""
        certified = self.conclusions(subject)
        # A wrong class that is certified is still wrong
        right = certified["vote"] == labels_of(subject)[: len(certified["vote"])]
        return {
            "found": (right & (certified["abstained"] == 0)).double(),
            "radius": certified["radius"],
            "abstained": certified["abstained"],
        }
