"""What a noise does to the images of a shard, and which of its draws fail."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Draws, Event, Failure, Images, Noise, Reps, Shard, Threat
from holdfast.parts.estimators.shared.draws import FIRST
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.smoothed import block_size
from holdfast.parts.observations.worst_noise import WorstNoise
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import NotFinite

UNIT = FIRST
"""Draws that are made together, of which every look takes whole ones; their numbers depend on the seed, the image's id
and the unit's number alone."""

Values = Float[Tensor, "rows draws"]


@dataclass(frozen=True)
class OfNoise(OfFirst):
    """An observation of what a noise does to the first images of an audit.

    Attributes:
        noise: where the draws come from: a threat, or an observation that learns it first.
    """

    noise: Threat | WorstNoise = Uniform()

    @property
    @abstractmethod
    def failures(self) -> tuple[Failure, ...]:
        """What is looked for, each failure once."""

    @property
    def needs_labels(self) -> bool:
        """Whether a failure, or the noise, reads labels."""
        noise = isinstance(self.noise, (Noise, WorstNoise)) and self.noise.needs_labels
        return noise or any(failure.needs_labels for failure in self.failures)

    def images(self, population: int, attacked: int) -> int:
        """The images that the audit attacks, or the first ones of them; none from which the noise was learned."""
        # A noise that was learned is judged on images that it has not seen
        own = self.noise.count_held_out(population, attacked) if isinstance(self.noise, WorstNoise) else attacked
        return super().images(population, own)


def noise_of(shard: Shard, noise: Threat | WorstNoise) -> Threat:
    """Return the noise itself where it was learned first."""
    return noise.read_from(shard) if isinstance(noise, WorstNoise) else noise


def represent(shard: Shard, x: Images) -> Reps:
    """Return the representations of disturbed images of a shard, in its order.

    Raises:
        HoldfastError: representations that are not finite; the error names the first image.
    """
    with torch.no_grad():
        reps = shard.encoder(x).float()
    bad = (~reps.isfinite().all(1)).nonzero().flatten().tolist()
    if bad:
        raise NotFinite(
            f"encoder {shard.encoder.name!r}: the representation of {len(bad)} disturbed images is NaN or infinite "
            f"(first: {shard.rng.ids[bad[0]]}); such images have no answer that could be counted"
        )
    return reps


def spans(shard: Shard, rows: list[int], start: int, stop: int) -> Iterator[tuple[Int[Tensor, "rows"], int, int]]:
    """Yield (images, first draw, last draw) for one encoder pass after the other; `start` begins a unit."""
    # Draws that make one pass, in whole units; where an image needs
    # fewer, several images share a pass
    room = max(1, block_size(shard.x) // UNIT) * UNIT
    together = max(1, room // (stop - start))
    for first in range(0, len(rows), together):
        images = torch.tensor(rows[first : first + together])
        for begin in range(start, stop, room):
            yield images, begin, min(begin + room, stop)


def draw_noisy_images(shard: Shard, noise: Threat, rows: Int[Tensor, "rows"], start: int, stop: int) -> Draws:
    """Return draws `start` to `stop` (exclusive) of some images of the shard; `start` begins a unit."""
    ids, rng = [shard.rng.ids[row] for row in rows.tolist()], shard.rng.child("noise")
    if not isinstance(noise, Noise):  # a threat that only samples: one stream for every draw
        # Each draw is a stream of its own: how many are made together changes none of them
        names = [f"{image} draw {draw}" for image in ids for draw in range(start, stop)]
        x, positions = (values[rows].repeat_interleave(stop - start, 0) for values in (shard.x, shard.positions))
        return shard.disturb(noise, rng.at(names), x, positions).unflatten(0, (len(rows), stop - start))
    # Whole units are drawn, and what lies beyond `stop` is dropped, so a draw's
    # number alone decides what it is
    numbers, units = noise.numbers(shard.x), range(start // UNIT, -(-stop // UNIT))
    z = torch.cat([rng.child(unit).at(ids).normal_on(shard.x.device, UNIT, numbers) for unit in units], 1)
    return apply_noise(shard, noise, rows, z[:, : stop - start])


def apply_noise(shard: Shard, noise: Noise, rows: Int[Tensor, "rows"], z: Float[Tensor, "rows draws numbers"]) -> Draws:
    """Return the disturbed images that some numbers stand for."""
    assert shard.clean is not None  # clean representations are always observed first
    at = shard.positions[rows]
    labels = None if shard.labels is None else shard.labels[at]
    x = shard.x[rows]
    # Bound to these images, where the noise depends on them
    return noise.at(shard.clean[at].to(x.device), labels).push(x, z.to(x))


def values(shard: Shard, events: Sequence[Event], rows: Int[Tensor, "rows"], images: Draws) -> list[Values]:
    """Return the value of every event for every draw, on the CPU: one forward pass for each draw.

    Raises:
        HoldfastError: a representation that is not finite.
    """
    flat = images.flatten(0, 1)
    # `flatten` of [B, S] gives the usual layout, which the encoder would convert
    if shard.x.is_contiguous(memory_format=torch.channels_last):
        flat = flat.contiguous(memory_format=torch.channels_last)
    reps = shard.encoder(flat)
    if not bool(torch.isfinite(reps).all()):
        # Draws of one image follow each other: the quotient is its row
        bad = int((~torch.isfinite(reps).all(1)).nonzero()[0]) // images.shape[1]
        raise NotFinite(
            f"encoder {shard.encoder.name!r}: the representation of a disturbed image is NaN or infinite (image "
            f"{shard.rng.ids[int(rows[bad])]}); failures cannot be counted"
        )
    # [B · S, D] -> [B, S, D]
    reps = reps.double().unflatten(0, images.shape[:2])
    return [event(reps, rows).cpu() for event in events]


def evaluate_clean(shard: Shard, event: Event) -> Float[Tensor, "images"]:
    """Return the value of an event for each image as it is."""
    assert shard.clean is not None
    clean = shard.clean[shard.positions].to(shard.x.device).double()
    return event(clean[:, None], torch.arange(len(clean))).squeeze(1).cpu()


def wrong(shard: Shard, event: Event) -> Float[Tensor, "images"]:
    """Return which images fail without any disturbance, 1 or 0."""
    return (evaluate_clean(shard, event) > 0).double()
