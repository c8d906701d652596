"""Does the encoder answer by what it has seen before?"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Check, Encoder, HoldfastError, Images, Observation, Passes, Reps, Rng, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.numerics.geometry.spread import rounding, spread
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class Remembers(Check):
    """Compares the encoder, once it has seen some images, with itself before its first pass, on points around these.

    Both have the same weights. Points lie at distances from a grey level on; the unused encoder meets them in another
    order. And the encoder meets points around images that it has not seen, mixtures of two, before and after these.

    Attributes:
        examined: images around which points are drawn.
        radii: how far each pixel of a point is from that of its image, in pixels of a [0, 1] image.
        fail: difference, as a share of the spread of clean representations, above which it remembers.
    """

    doubt = "answers depend on earlier images"
    invariant = EVERY

    examined: int = 8
    radii: tuple[float, ...] = (1 / 255, 4 / 255, 16 / 255)
    fail: float = 1e-2

    consequence = "void"
    place = 14

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations."""
        return (Clean(),)

    def own_passes(self, population: int, attacked: int) -> Passes:
        """Images and mixtures once; points around images and around mixtures twice each."""
        return Passes(2 + 4 * len(self.radii)) * min(self.examined, population)

    def judge(self, subject: Subject) -> Verdict:
        """Represent points twice: by whoever has seen what they are near, and by whoever has not."""
        encoder = subject.encoder
        x = subject.batch(0, min(self.examined, subject.population))
        clean = Clean.of(subject)
        unit = max(spread(clean), float(rounding(clean).max()), 1e-30)
        # Mixtures of two images: like images, and yet nobody has shown them to the encoder
        points, mixed = self._around(x, subject.seed), (x + x.roll(1, 0)) / 2
        near_mixed = self._around(mixed, subject.seed)
        with torch.no_grad():
            # The order matters: between `before` and `after` the encoder sees nothing but the mixtures.
            # Then it sees the images themselves once more, and points around them.
            before = _encode_in_batches(encoder, near_mixed, len(x))
            encoder(mixed)
            after = _encode_in_batches(encoder, near_mixed, len(x))
            encoder(x)
            used = _encode_in_batches(encoder, points, len(x))
            try:
                # In the opposite order, so that answers by the point before differ, too
                unused = self._afresh(encoder, points.flip(0), len(x)).flip(0)
            except HoldfastError as error:
                meaning = "Whether it answers by what it has seen before was not found out."
                return Verdict("skip", str(error), meaning)
        apart = max(_apart(used, unused), _apart(before, after)) / unit
        details = {"difference": apart}
        finding = "its answers are those of a fresh copy that has seen no image"
        if apart:
            finding = f"answers differ from those of a fresh copy that has seen no image by {apart:.1e} of the spread"
        # Two unused networks that differ as much are random; that is no memory
        if not apart <= self.fail and not self._noise(encoder, points, len(x)) > self.fail * unit:  # NaN too
            meaning = (
                "It answers for an image by what it has seen before, so that attacks and distances measure its memory; "
                "audit the network without what it keeps between passes."
            )
            return Verdict("fail", finding, meaning, details, called="Remembers")
        return Verdict("pass", finding, "What it has seen before does not change its answers.", details)

    def _noise(self, encoder: Encoder, points: Images, size: int) -> float:
        """Return how far apart two networks are that have seen nothing: random ones, which the check *frozen* tells."""
        first, second = (self._afresh(encoder, points, size) for _ in range(2))
        return _apart(first, second)

    @torch.no_grad()
    def _afresh(self, encoder: Encoder, points: Images, size: int) -> Reps:
        with encoder.use_pristine_network():
            return _encode_in_batches(encoder, points, size)

    def _around(self, x: Images, seed: int) -> Float[Tensor, "points channel height width"]:
        """Return points around each image, those of all distances in a row."""
        rng = Rng(seed, ("remembers",), tuple(str(image) for image in range(len(x))))
        # One pattern for all distances, so that points of an image lie on one line
        signs = torch.where(rng.uniform(*x.shape[1:]).to(x) < 0.5, -1.0, 1.0)
        return torch.cat([(x + radius * signs).clamp(0, 1) for radius in self.radii])


def _encode_in_batches(encoder: Encoder, x: Images, size: int) -> Float[Tensor, "batch dim"]:
    """Return the representations of images, so many at a time."""
    return torch.cat([encoder(part) for part in x.split(size)])


def _apart(first: Reps, second: Reps) -> float:
    return float((first - second).norm(dim=1).max())
