"""Smoothed radius: how far an image may move before the smoothed encoder may take it for another one."""

from dataclasses import dataclass

from holdfast.core import Subject, Table
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.statistics import betting
from holdfast.numerics.statistics.drawn_pairs import DrawnMean
from holdfast.numerics.statistics.statistic import Mean, Share, Statistic
from holdfast.parts.measures.shared.bracket import in_both_roles
from holdfast.parts.measures.shared.smoothed_measure import SmoothedMeasure
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.smoothing.shared.certificate import Certificate


@dataclass(frozen=True)
class SmoothedRadius(SmoothedMeasure):
    """ACR_CL by sampling: the mean over images of the mean over K negatives of R = σ Φ⁻¹(p̲); see `PairProbability`.

    A pair that is not certified counts as 0; in the paper's convention, an estimate, with its negative number.

    Table, one row per image of the population, NaN where it was not certified: `radius`, mean over its negatives, and
    `least`, the smallest, in pixels (ℓ2); `certified`, the share of its negatives; `probability`, the mean over
    negatives of the plain mean of p; `draws`; and as `... contributes` what
    each image contributes to the means of `radius`, `certified` and `probability`, also as a negative of others.
    """

    invariant = DIRECTIONS

    sigma: float = 0.1
    certificate: Certificate = PairProbability()

    better = "higher"
    in_brief = True
    unit = "pixels"
    question = "How far (ℓ2) can an image move before the smoothed encoder may take it for another image?"
    how_to_read = (
        "Within this Euclidean distance (pixels of a [0, 1] image, averaged over pairs of images) the image under "
        "Gaussian noise still matches itself more often than the other image. 0 means that nothing could be certified. "
        "It is a guarantee for the smoothed encoder, averaged over noise, not for the encoder itself."
    )
    reference = "Wang & Liu (2023), theorem 7, Algorithm 2 and Eq. 18"

    @property
    def column(self) -> str:
        """The mean radius."""
        return "radius"

    def observe(self, subject: Subject) -> Table:
        """Return the radii of every image."""
        conclusions = self.conclusions(subject)
        # RVCL, Eq. 17 by a lower bound of the expectation (Algorithm 2 takes its mean), [M, K]
        radius = conclusions["radius"]
        certified = (radius > 0).double()
        table = {
            "radius": radius.mean(1),
            "least": radius.amin(1),
            "certified": certified.mean(1),
            "probability": conclusions["mean"].mean(1),
            "draws": conclusions["draws"].double(),
        }
        pairs = {"radius": radius, "certified": certified, "probability": conclusions["mean"]}
        # Eq. 18 averages over pairs, in which an image has two roles
        return in_both_roles(subject, table, pairs)

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the share of pairs with a radius, the mean of each image's smallest, and the mean radius.

        In the paper's convention also the share of images whose mean is above 0, and the mean probability.
        """
        # what a radius promises by its convention, and the largest that the draws can show
        certificate = self.certificate
        assert isinstance(certificate, PairProbability)
        estimated = certificate.convention == "paper"
        if estimated:
            word, promise, most = "estimated ", "an estimate by the plain mean of draws, no certificate", None
        else:
            word = "certified "
            scope = "all pairs of an image together" if certificate.simultaneous else "each pair's radius on its own"
            promise = f"{scope} at confidence {1 - certificate.alpha:g}"
            most = self.sigma * betting.highest_radius(certificate.draws, certificate.level)
        # what pairs without a radius count as; what all draws cost
        radii = table["radius"]
        pairs = certificate.negatives * int((~radii.isnan()).sum())
        failed = round(float((1 - table["certified"]).nansum()) * certificate.negatives)
        count = "with its negative number" if estimated else "as 0"
        counted = f"{failed:,} of {pairs:,} pairs not {word}to have one, counted {count}"
        spent = f"{float(table['draws'].nanmean()):,.0f} draws per image"
        # intervals over images: each pair counts in both of its roles, the nearest negative in one
        condition = "given this population, from which the negatives come"
        share = DrawnMean(table["certified"], table["certified contributes"], most=1.0)
        tested = ~table["least"].isnan()
        least = Mean(table["least"], condition=condition, most=most, among=tested)
        radius = DrawnMean(radii, table["radius contributes"], most=most)
        reduced = {f"pairs with {word}radius": self.about(share, promise, unit="share")}
        if estimated:
            images = Share((radii > 0).double(), condition=condition, among=tested)
            probability = DrawnMean(table["probability"], table["probability contributes"], most=1.0)
            reduced |= {
                "images with estimated radius": self.about(images, promise, unit="share"),
                "probability, mean": self.about(probability, promise, unit="share"),
            }
        return reduced | {
            f"{word}radius, nearest negative": self.about(least, promise),
            f"{word}radius, mean": self.about(radius, promise, counted, spent),
        }
