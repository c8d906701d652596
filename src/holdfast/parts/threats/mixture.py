"""A learned noise from a file: a Gaussian mixture that makes an encoder fail as often as noise in a ball can."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from holdfast.core import Ball, Draws, HoldfastError, Images, Noise, Reps
from holdfast.parts.threats.shared.learned import LearnedNoise, describe, restore
from holdfast.runtime.doors import open_tensors
from holdfast.runtime.errors import BadData, Missing, first_line

KEY = "mixture"


@dataclass(frozen=True)
class Mixture(Noise):
    """x' = clamp(x + squash(upsample(u))), u ~ Σ_k π_k N(μ_k, L_k L_kᵀ); what a learner found and `save` wrote.

    Attributes:
        path: a safetensors file that `save` wrote.

    Source: Wang et al. (2025), section 4.

    Example:
        >>> Mixture().ball is None  # without a file there is nothing to draw
        True
    """

    path: str = ""

    @cached_property
    def noise(self) -> LearnedNoise:
        """The noise in the file, read when it is first asked for.

        Raises:
            HoldfastError: no file, a file of another format, or one that holds something else.
        """
        if not os.path.exists(self.path):  # also of no name
            raise Missing(f"mixture file {self.path!r} does not exist; give path=, a file that a learner saved")
        try:
            with open_tensors(self.path) as file:
                # The metadata tell what tensors cannot: the design of the network and the ball
                described = (file.metadata() or {}).get(KEY, "")
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise BadData(
                f"mixture file {self.path!r} is not a whole safetensors file ({first_line(error)}); save it again"
            ) from error
        if not described:
            raise BadData(f"mixture file {self.path!r} holds no mixture; give a file that a learner saved")
        try:
            return restore(described, state)
        except HoldfastError as error:
            raise error.retell(f"mixture file {self.path!r}: {error}") from error

    @property
    def ball(self) -> Ball | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where every draw lies; None without a path, where there is nothing to draw."""
        return self.noise.ball if self.path else None

    @property
    def needs_labels(self) -> bool:
        """Whether its weights depend on classes."""
        return bool(self.path) and self.noise.needs_labels

    def numbers(self, x: Images) -> int:
        """Return 1 + the length of the latent vector."""
        return self.noise.numbers(x)

    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        """Return the disturbed images that some numbers stand for, inside the ball and [0, 1].

        Raises:
            HoldfastError: a mixture that depends on the images, before `at`.
        """
        return self.noise.push(x, z)

    def at(self, reps: Reps, labels: Int[Tensor, "batch"] | None) -> LearnedNoise:
        """Return the noise that these images meet."""
        return self.noise.at(reps, labels)


def save(noise: LearnedNoise, path: str | Path) -> Mixture:
    """Write a learned noise to a safetensors file, and return the threat that reads it."""
    state = {name: value.detach().cpu().contiguous() for name, value in noise.generator.state_dict().items()}
    save_file(state, path, {KEY: describe(noise)})
    return Mixture(str(path))
