"""Noisy representations: one stream of draws f(x + σ z) per image, read by all certificates that share σ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Encoder, Head, Images, LinearProbe, Observation, Passes, Reps, Rng, Shard
from holdfast.core.registry import part_name
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.smoothing.shared.certificate import Anchor, Certificate
from holdfast.parts.smoothing.shared.readers import Readers
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import NotFinite, no_labels

TOGETHER = 16
"""Images that draw at a time, each number once for all of them."""
KEPT = 2**26
"""Numbers that certificates may hold on to at a time, so that fewer images draw together."""


@dataclass(frozen=True)
class Smoothed(Observation):
    """What certificates conclude from draws f(x + σ z), as `CERTIFICATE.result` [M, ...]; see `results`.

    Noise is Gaussian in pixels, before the encoder's normalisation. With `clip` noisy pixels are brought back to
    [0, 1], which makes the clipping a part of the encoder: certificates are about f(clip(·)), as sound as about f, and
    never show f what lies outside [0, 1]. Every certificate reads the draws from the first one on, so company changes
    nothing for it; drawing ends when all are done.

    Attributes:
        sigma: σ of the noise, in pixels.
        certificates: who reads the draws.
        first: draw only for the first images; None: for all that the audit attacks.
        clip: whether the encoder is that of clipped pixels.
    """

    sigma: float = 0.25
    certificates: tuple[Certificate, ...] = (PairProbability(),)
    first: Count | None = None
    clip: bool = False

    def __post_init__(self) -> None:
        _ = self.noise  # refuses a σ that is none
        for certificate in self.certificates:
            certificate.check(self.sigma)

    @property
    def needs_labels(self) -> bool:
        """Whether a certificate reads a head that is learned from labels."""
        return any(certificate.probe is not None for certificate in self.certificates)

    def key(self) -> Observation:
        """Certificates and images do not change an image's draws.

        One that reads a head is apart from the others: where nothing can be learned, these still have their draws.
        """
        # What needs labels keeps a key of its own
        apart = tuple(certificate for certificate in self.certificates if certificate.probe is not None)
        return replace(self, certificates=apart, first=None)

    def join(self, twin: Observation) -> Observation:
        """Let all certificates of both read one stream, on as many images as the larger one needs."""
        assert isinstance(twin, Smoothed)  # equal keys
        certificates = tuple(dict.fromkeys((*self.certificates, *twin.certificates)))
        first = None if self.first is None or twin.first is None else max(self.first, twin.first)
        return replace(self, certificates=certificates, first=first)

    def images(self, population: int, attacked: int) -> int:
        """The images that the audit attacks, or the first ones of them."""
        return attacked if self.first is None else min(self.first, attacked)

    @property
    @override
    def title(self) -> str:
        readers = " and ".join(dict.fromkeys(map(part_name, self.certificates))).replace("_", " ")
        clipped = ", clipped" if self.clip else ""
        return f"Gaussian noise, σ {self.sigma:g}{clipped}, at most {self.passes.forward:,} draws: {readers}"

    @property
    def noise(self) -> Gaussian:
        """What is drawn, and what a probe learns under."""
        return Gaussian(self.sigma, clamped=self.clip)

    @property
    def adaptive(self) -> bool:
        """Certificates end when they know their answer."""
        return True

    @property
    def passes(self) -> Passes:
        """The most that the greediest certificate may need; certificates that stop early cost less."""
        return Passes(forward=max((certificate.budget for certificate in self.certificates), default=0))

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Draw for the images of one shard, some at a time.

        Raises:
            HoldfastError: a representation of a noisy image that is not finite.
        """
        assert shard.clean is not None  # clean representations are always observed first
        clean = shard.clean.to(shard.x.device)
        # Heads are learned once, for all images
        heads = {certificate: self._head(shard, certificate.probe) for certificate in self.certificates}
        kept = max((certificate.kept for certificate in self.certificates), default=0) * clean.shape[1]
        # Certificates that hold on to draws need memory for each image that is open
        together = max(1, min(TOGETHER, KEPT // max(kept, 1)))
        samples: dict[Certificate, list[dict[str, Tensor]]] = {certificate: [] for certificate in self.certificates}
        for first in range(0, len(shard.x), together):
            rows = slice(first, first + together)
            # By id: an image's draws do not depend on who is drawn beside it
            rng, positions = shard.rng.at(shard.rng.ids[rows]), shard.positions[rows].tolist()
            readers = [
                Readers(
                    {
                        certificate: Anchor(self.sigma, position, clean, rng.at((image,)), head)
                        for certificate, head in heads.items()
                    }
                )
                for position, image in zip(positions, rng.ids, strict=True)
            ]
            self._read(shard.encoder, shard.x[rows], rng, readers)
            # Certificate by certificate, images in order, as `conclude` takes them
            for certificate, image in product(self.certificates, readers):
                samples[certificate].append(image.results[certificate])
        return {
            f"{certificate}.{name}": value
            for certificate, images in samples.items()
            for name, value in certificate.conclude(_stack(images), self.sigma).items()
        }

    def _head(self, shard: Shard, probe: LinearProbe | None) -> Head | None:
        """Return what a probe learns from training images under the very noise that certificates draw."""
        if probe is None:
            return None
        if shard.head is None:
            raise no_labels("certificates of a probe", "the source of images")
        return shard.head(probe, self.noise)

    def _read(self, encoder: Encoder, x: Images, rng: Rng, readers: Sequence[Readers]) -> None:
        """Draw block by block for the images of which some certificate is not done."""
        with torch.no_grad():
            # RVCL, Algorithm 2, line 13, with draws that all certificates read and
            # that end when the last one is done
            for around in self.noise.draws(x, rng, block_size(x)):
                for image, reader in enumerate(readers):
                    if reader.useful:
                        # No more draws than are of use; what a block has
                        # beyond them is not represented
                        reader.read(_represent(encoder, around(image)[: reader.useful], self.sigma, rng.ids[image]))
                if not any(reader.useful for reader in readers):
                    break


def results(observed: dict[str, Tensor], certificate: Certificate) -> dict[str, Tensor]:
    """Return what one certificate concluded, from all that a `Smoothed` observed; see its `conclude`."""
    start = f"{certificate}."
    return {key.removeprefix(start): value for key, value in observed.items() if key.startswith(start)}


def block_size(x: Images) -> int:
    """Return how many draws make one encoder pass: enough to keep it busy, at most 2^22 pixel values on a CPU.

    The draws are looked at after every block, so it depends on nothing but the image's size and the kind of device.
    """
    # At most 16 MiB of float32 pixels on a CPU; an accelerator wants more to be busy
    values, most = (2**22, 256) if x.device.type == "cpu" else (2**24, 1024)
    return max(8, min(most, values // math.prod(x.shape[1:])))


def _represent(encoder: Encoder, noisy: Images, sigma: float, image: str) -> Reps:
    reps = encoder(noisy)
    # the sum of what is not finite is not finite; where it overflows, every number is looked at
    if not math.isfinite(reps.sum()) and not bool(reps.isfinite().all()):
        raise NotFinite(
            f"encoder {encoder.name!r}: the representation of a noisy image is NaN or infinite (sigma {sigma:g}, image "
            f"{image}); an encoder that cannot take pixels outside [0, 1] is smoothed with clip=true"
        )
    return reps.float()


def _stack(images: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([image[name] for image in images]) for name in images[0]}
