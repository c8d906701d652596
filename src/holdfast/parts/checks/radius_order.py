"""Order of radii: an image should be harder to take for another image than for another class."""

from dataclasses import dataclass

from holdfast.core import Check, Examination, Observation, Subject, Verdict
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.certified.linear_radius import LinearRadius


@dataclass(frozen=True)
class RadiusOrder(Check):
    """ACR_CL >= ACR_LE, on the same images: the mean certified radius of pairs and that of a linear head.

    Attributes:
        pairs: the measure of radii between images.
        classes: the measure of radii of classes.

    Source: Wang & Liu (2023), Theorem 15 (R_CL >= R_LE for the true radii, under its assumptions on the negatives).
    """

    pairs: CertifiedRadius = CertifiedRadius()
    classes: LinearRadius = LinearRadius()

    doubt = "radii out of order"
    place = 32

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Audits that measure both kinds of radii."""
        pairs = [measure for measure in audit.measures if isinstance(measure, CertifiedRadius)]
        classes = [measure for measure in audit.measures if isinstance(measure, LinearRadius)]
        return (cls(pairs[0], classes[0]),) if pairs and classes else ()

    def observations(self) -> tuple[Observation, ...]:
        """Those of both measures."""
        return *self.pairs.observations(), *self.classes.observations()

    def judge(self, subject: Subject) -> Verdict:
        """Compare both means."""
        pairs, classes = self.pairs.observe(subject)["certificate"], self.classes.observe(subject)["certificate"]
        # The first images are certified, for pairs and for classes: the means are over those of both
        images = min(int((~pairs.isnan()).sum()), len(classes))
        between, for_classes = float(pairs[:images].mean()), float(classes[:images].mean())
        finding = f"{between:.3g} between images, {for_classes:.3g} for classes, in pixels, on {images} images"
        details = {"between images": between, "for classes": for_classes}
        if between >= for_classes:
            return Verdict("pass", finding, "Images are harder to confuse than classes, as they should be.", details)
        return Verdict(
            "warn",
            finding,
            "The class is certified to a larger radius than the image itself: the negatives are unusually similar to "
            "their images, or one of the two bounds is much looser.",
            details,
        )
