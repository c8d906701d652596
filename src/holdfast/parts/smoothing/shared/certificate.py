"""What certificates by sampling have in common: they read draws of f(x + σ z), one image at a time."""

from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Head, LinearProbe, Rng
from holdfast.runtime.checked import Checked

Sampling = Generator[int, Tensor, dict[str, Tensor]]
"""The certification of one image: yields how many more draws it can use now, is sent some of these, [1 ... , D]
representations in a buffer that is used again, and returns what it saw."""


@dataclass(frozen=True)
class Anchor:
    """The image around which noise is drawn, and what it is compared with.

    Attributes:
        sigma: σ of the noise, in pixels.
        position: where the image stands in the population.
        clean: clean representations of the whole population, on the encoder's device, [N, D].
        rng: random numbers bound to the image's id.
        head: a linear classifier on representations, where there is one.
    """

    sigma: float
    position: int
    clean: Float[Tensor, "population dim"]
    rng: Rng
    head: Head | None = None


class Certificate(metaclass=Checked):
    """What is said about the *smoothed* encoder near an image, from draws of f(x + σ z); a frozen dataclass.

    Certificates with the same σ read the same draws. Each one's statement holds at its own confidence; that all
    of them hold at once has at least 1 minus the sum of their alphas.
    """

    probe: LinearProbe | None = None
    """Whose linear head it reads; None: it reads no labels."""
    kept: int = 0
    """Representations that it holds on to at a time."""

    @property
    @abstractmethod
    def budget(self) -> int:
        """Draws that it reads at most."""

    @abstractmethod
    def check(self, sigma: float) -> None:
        """Raise where this certificate could never say anything at this σ."""

    @abstractmethod
    def sample(self, anchor: Anchor) -> Sampling:
        """Certify one image; see `Sampling`. Draws may be looked at whenever they come."""

    @abstractmethod
    def conclude(self, results: Mapping[str, Tensor], sigma: float) -> dict[str, Tensor]:
        """Turn what `sample` saw on several images, stacked, into results, one row per image."""


def radius(p: Float[Tensor, "*shape"], sigma: float) -> Float[Tensor, "*shape"]:
    """Return R = σ Φ⁻¹(p), in pixels; 0, which certifies nothing, where p is ½ or less.

    Φ⁻¹ of the expectation of a [0, 1] function under N(x, σ²I) changes by at most ||x' - x||_2 / σ, so if it is p or
    more at x it stays above ½ closer than R. It is ∫_{1-p}^{1/2} dt / Φ(t) of Yang et al., with their Φ, how fast a set
    of measure t grows at most when it moves, of a half space.

    Source: Cohen et al. (2019), theorem 1; Salman et al. (2019), lemma 2, for functions that are not 0/1; Yang et al.
    (2020), as Lemma 24 of Wang & Liu (2023).
    """
    # In float64: near 1, where Φ⁻¹ is steep, float32 has steps of 6e-8
    return torch.where(p > 0.5, sigma * torch.special.ndtri(p.double().clamp_min(0.5)), 0.0)
