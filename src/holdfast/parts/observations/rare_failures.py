"""Probabilities of failure that are too small to count, image by image."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Failure, Noise, Passes, Shard
from holdfast.parts.estimators.splitting import Splitting
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.shared.noisy import OfNoise, apply_noise, noise_of, values, wrong
from holdfast.parts.observations.smoothed import block_size
from holdfast.parts.observations.worst_noise import WorstNoise
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class RareFailures(OfNoise):
    """P[x' fails] of each image under a noise, as `probability`, `low`, `high` ... [M]; see `Splitting.estimate`.

    Also `wrong` [M]: whether the image fails without a disturbance.

    Attributes:
        failure: what counts as a failure.
        estimator: how rare events are reached.
    """

    failure: Failure = Nearest()
    estimator: Splitting = Splitting()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.noise, (Noise, WorstNoise)):
            raise BadValue(
                "rare_failures: expected a noise (uniform, laplace, rotation, ...), got a "
                f"{type(self.noise).__name__}: the estimator moves the normal numbers that a draw is made of"
            )

    @property
    @override
    def title(self) -> str:
        return f"rare failures: {self.noise.title}: {self.failure.title}"

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The one."""
        return (self.failure,)

    @property
    def adaptive(self) -> bool:
        """Images that fail often need few levels."""
        return True

    @property
    def passes(self) -> Passes:
        """The most that an image may need, for the smallest probability that is pursued."""
        e = self.estimator
        # Each level leaves a share 1 - killed / particles of the probability,
        # down to the least that is pursued
        killed = min(max(1, round(e.kill * e.particles)), e.particles - 1)
        levels = math.ceil(math.log(e.least) / math.log1p(-killed / e.particles))
        return Passes(forward=e.runs * (e.particles + levels * killed * e.moves))

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Estimate for the images of one shard."""
        event, noise = self.failure.bind(shard), noise_of(shard, self.noise)
        assert isinstance(noise, Noise)  # checked above, and what is learned is one
        block = block_size(shard.x)

        def value(z: Float[Tensor, "draws numbers"], images: Int[Tensor, "draws"]) -> Float[Tensor, "draws"]:
            event_values = torch.empty(len(z), dtype=torch.float64)
            # Draws of many images come mixed, but a noise is bound to one image at a time
            for image in images.unique().tolist():
                draws = (images == image).nonzero().squeeze(1)
                row = torch.tensor([image])
                for part in draws.split(block):
                    # [1, draws, numbers] -> the event's value for each draw
                    event_values[part.cpu()] = values(
                        shard, [event], row, apply_noise(shard, noise, row, z[part][None])
                    )[0][0]
            return event_values.to(z)

        with torch.no_grad():
            estimates = self.estimator.estimate(value, noise.numbers(shard.x), shard.rng, shard.x.device)
        return estimates | {"wrong": wrong(shard, event)}
