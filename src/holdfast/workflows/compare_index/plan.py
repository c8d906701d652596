"""What a comparison of two encoders of one index is made of."""

from dataclasses import dataclass

from holdfast.core import HoldfastError
from holdfast.numerics.geometry.divergences import divergence
from holdfast.runtime.checked import Checked, Count

RATE = 1e-3
"""False positives that a threshold is set at where nobody says otherwise, a share of the pairs of different images."""


@dataclass(frozen=True)
class IndexPlan(metaclass=Checked):
    """What is compared, and how.

    Attributes:
        old: spec, or name, of the encoder behind the index.
        new: of the one that is to replace it.
        data: images of the index.
        images: how many of them; None: all.
        k: how many neighbours are looked at.
        divergence: how representations are compared, a symmetric one.
        rate: false positives of the old threshold, a share of the pairs of different images; None: `RATE`, unless a
            threshold is given.
        threshold: the old threshold, in the old encoder's distances; None: the one of the rate.
        canaries: a CSV file of pairs that must match, or must not; None: there are none.
        edits: whether edited copies are searched and matched as well, with as many passes for each edit again.
        seed: which of the images.
        device: where the encoders run, as torch names it.
        batch_size: images per encoder pass; None: by their size.
        skip_corrupt: leave out files that cannot be read.
    """

    old: str
    new: str
    data: str
    images: int | None = None
    k: tuple[Count, ...] = (1, 5, 10)
    divergence: str = "l2"
    rate: float | None = None
    threshold: float | None = None
    canaries: str | None = None
    edits: bool = False
    seed: int = 0
    device: str = "cpu"
    batch_size: Count | None = None
    skip_corrupt: bool = False

    def __post_init__(self) -> None:
        divergence(self.divergence)
        if self.divergence == "kl":
            raise HoldfastError("divergence: expected a symmetric one for pairs of images, got 'kl'; take l2 or cosine")
        if self.images is not None and self.images < 3:
            raise HoldfastError(f"images: expected at least 3, for lists of neighbours, got {self.images}")
        if not self.k or len(set(self.k)) < len(self.k):
            raise HoldfastError(f"k: expected one number of neighbours or more, each once, got {list(self.k)}")
        if self.rate is not None and self.threshold is not None:
            raise HoldfastError(
                "rate and threshold: expected one of them, for each says what the other is, got both; leave one out"
            )
        if self.rate is not None and not 0 < self.rate < 1:
            raise HoldfastError(f"rate: expected a share of pairs in (0, 1), got {self.rate:g}")
        if self.threshold is not None and not self.threshold > 0:
            raise HoldfastError(f"threshold: expected a distance above 0, got {self.threshold:g}")
