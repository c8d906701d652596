"""Smoothed accuracy: how often an image under noise, moved a little, provably still finds itself among all images."""

from dataclasses import dataclass

import torch

from holdfast.core import Subject, Table
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.parts.measures.shared.smoothed_share import SmoothedShare
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class SmoothedAccuracy(SmoothedShare):
    """Share of images that the smoothed instance classifier gets right within a radius; see `Classifier`.

    The class of a representation is the image of the population whose clean representation is nearest, the right
    one is the image itself: no labels. An image whose certificate abstains is not right.

    Table, one row per image: `found`, 1 where the certified class is the image itself; `radius` in pixels (ℓ2), 0
    where it abstained; `abstained`, 1 or 0.
    """

    invariant = EVERY

    condition = "given this population of images"
    question = "What share of images does the smoothed encoder provably still recognise among all images?"
    how_to_read = (
        "100 % means that every image under Gaussian noise is provably nearest to itself more often than not; the "
        "shares 'within r' say for how many this still holds after any change of up to r pixels (ℓ2). It is a "
        "guarantee for the smoothed encoder, averaged over noise, not for the encoder itself."
    )
    reference = "Cohen et al. (2019), with instances instead of classes; appendix C.9 of Petrov & Kwiatkowska (2022)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.certificate, Classifier) and self.certificate.probe is not None:
            raise BadValue(f"{part_name(self)}: expected instances, got a probe; see smoothed_probe_accuracy")

    def observe(self, subject: Subject) -> Table:
        """Return what is certified of every image."""
        certified = self.conclusions(subject)
        # The class of an image is its own position
        itself = certified["vote"] == torch.arange(len(certified["vote"]))
        abstained = certified["abstained"]
        return {"found": (itself & (abstained == 0)).double(), "radius": certified["radius"], "abstained": abstained}
