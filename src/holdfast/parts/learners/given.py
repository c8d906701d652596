"""A perturbation from a file: what an audit has learned on one encoder, for another to be judged under."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Encoder, Event, HoldfastError, Images, Passes, Reps, Rng, registry
from holdfast.parts.learners.shared.learner import LearnedPerturbation, Learner
from holdfast.runtime.doors import open_tensors
from holdfast.runtime.errors import BadData, Mismatch, Missing, first_line

KEY, DELTA = "ball", "delta"
"""What a file says beside its one tensor: the ball in which that was learned, as plain data."""

CLOSE = 1e-6
"""How far rounding may have carried a pixel out of the ball."""


@dataclass(frozen=True)
class Given(Learner):
    """The δ in a file, the same for every encoder: nothing is learned, all attacked images are judged.

    A perturbation that was learned on one encoder and breaks another transfers: its attacker need not know the encoder.
    Every audit that learns one leaves it in its folder as `perturbations/ENCODER/NUMBER.safetensors`.

    Attributes:
        path: a safetensors file with the tensor `delta`, [C, H, W], in pixels; `save` and every audit write it.

    Source: Moosavi-Dezfooli et al. (2017), section 4 (across networks).

    Example:
        >>> Given("delta.safetensors").passes
        Passes(forward=0, backward=0, bounds=0)
    """

    path: str = ""

    algorithm: ClassVar[str] = "given"
    title: ClassVar[str] = "given"
    adaptive: ClassVar[bool] = False

    @property
    def images(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One, of which the shape alone is read."""
        return 1

    @property
    @override
    def passes(self) -> Passes:
        return Passes()

    def learn(
        self,
        encoder: Encoder,
        x: Images,
        clean: Reps,
        event: Event,
        labels: Int[Tensor, "batch"] | None,
        ball: Ball,
        rng: Rng,
    ) -> LearnedPerturbation:
        """Return what the file holds.

        Raises:
            HoldfastError: no file, one that holds no perturbation, or one for images of another shape or another ball.
        """
        # It must fit the images and lie in the ball that is judged, or the number would be another one's
        delta, learned_in = read(self.path)
        file = f"perturbation file {self.path!r}"
        if delta.shape != x.shape[1:]:
            own, wanted = (" x ".join(map(str, shape)) for shape in (delta.shape, x.shape[1:]))
            raise Mismatch(
                f"{file}: expected a perturbation of {wanted}, the shape of the images, got {own}; give one that was "
                "learned on images of this shape, or resize= in the spec of the data"
            )
        if learned_in is not None and not ball.contains(learned_in):
            # The ball as people give it on the command line
            _, name, *fields = registry.spec(learned_in).items()
            own = f"{name[1]}[{','.join(f'{key}={value}' for key, value in fields)}]"
            raise Mismatch(
                f"{file} was learned in another ball, {learned_in.title}, than that in which it is judged, "
                f"{ball.title}; give the measure ball={own}"
            )
        if not bool(((ball.project(delta[None])[0] - delta).abs() <= CLOSE).all()):
            raise Mismatch(f"{file}: its perturbation lies outside the ball {ball.title}; give it a larger one")
        # Nothing was learned: no images, no epochs, no share
        return LearnedPerturbation(
            0, torch.zeros(0, dtype=torch.float64), delta.to(x), math.nan, torch.zeros(0, dtype=torch.long), clean[:0]
        )


def save(delta: Float[Tensor, "channel height width"], ball: Ball, path: str | Path) -> Given:
    """Write a perturbation and its ball to a safetensors file, and return what reads it."""
    # On the CPU, so that a machine without a GPU can read it
    save_file({DELTA: delta.detach().cpu().contiguous()}, path, {KEY: json.dumps(registry.spec(ball))})
    return Given(str(path))


def read(path: str | Path) -> tuple[Float[Tensor, "channel height width"], Ball | None]:
    """Return the perturbation in a file, and the ball in which it was learned; None where the file does not say.

    Raises:
        HoldfastError: no file, a file of another format, or one that holds something else.
    """
    if not os.path.exists(path):  # also of no name
        raise Missing(
            f"perturbation file {str(path)!r} does not exist; give path=, a file below perturbations/ of a run folder"
        )
    try:
        with open_tensors(path) as file:
            described = (file.metadata() or {}).get(KEY)
            delta = file.get_tensor(DELTA) if DELTA in file.keys() else None  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise BadData(
            f"perturbation file {str(path)!r} is not a whole safetensors file ({first_line(error)})"
        ) from error
    if delta is None or delta.ndim != 3 or not delta.is_floating_point() or not bool(delta.isfinite().all()):
        raise BadData(
            f"perturbation file {str(path)!r}: expected a tensor 'delta' of channels x height x width finite numbers"
        )
    try:
        ball = None if described is None else registry.build(json.loads(described))
    except (HoldfastError, json.JSONDecodeError) as error:
        raise BadData(f"perturbation file {str(path)!r} names no ball: {first_line(error)}") from error
    if ball is not None and not isinstance(ball, Ball):
        raise BadData(f"perturbation file {str(path)!r} names no ball: {described}")
    return delta.to(torch.float32), ball
