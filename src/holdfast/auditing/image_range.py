"""Images of a set, one after the other, on the encoder's device: those observed, and those that probes learn from."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor, nn

from holdfast.core import Encoder, Images, Positions, Rng, Threat
from holdfast.core.ids import Ids
from holdfast.runtime.waiting import move_to
from holdfast.sources.data import ImageSet


@dataclass(frozen=True)
class ImageRange:
    """Some images of a set, one after the other.

    Attributes:
        images: the set.
        places: where these stand in it.
        device: where they are read to, as torch names it.
        memory_format: how they lie there, see `memory_format`.
    """

    images: ImageSet
    places: range
    device: str
    memory_format: torch.memory_format

    def __len__(self) -> int:
        return len(self.places)

    def __str__(self) -> str:
        return str(self.images)

    @cached_property  # every shard asks, and there may be a million images
    def ids(self) -> Ids:
        """The ids of these images."""
        return self.images.ids[self.places.start : self.places.stop]

    @cached_property
    def labels(self) -> Int[Tensor, "images"] | None:
        """The classes of these images; None unless the source knows them all."""
        labels = self.images.labels
        return None if labels is None else torch.tensor(labels[self.places.start : self.places.stop], dtype=torch.int64)

    def batch(self, start: int, stop: int) -> Images:
        """Return images start to stop (excluded) of these."""
        return move_to_device(self._read(start, stop), self.device, self.memory_format)

    def at(self, positions: Positions) -> Images:
        """Return the images at some places; those that follow each other are read together."""
        places = positions.cpu()
        runs = places.tensor_split((places.diff() != 1).nonzero()[:, 0] + 1)
        x = torch.cat([self._read(int(run[0]), int(run[-1]) + 1) for run in runs])
        return move_to_device(x, self.device, self.memory_format)

    def disturb(self, x: Images, positions: Positions, threat: Threat, rng: Rng) -> Images:
        """Return the images at some places, which are x for the encoder, under a threat; see `ImageSet.disturb`."""
        return self.images.disturb(x, [self.places.start + place for place in positions.tolist()], threat, rng)

    def _read(self, start: int, stop: int) -> Images:
        return self.images.batch(self.places.start + start, self.places.start + stop)


def move_to_device(x: Images, device: str, memory_format: torch.memory_format) -> Images:
    """Return images on a device, to which they are copied beside the passes before."""
    return move_to(x, device).contiguous(memory_format=memory_format)


def memory_format(encoder: Encoder) -> torch.memory_format:
    """Return channels_last for convolutional networks (a tenth faster or more), else the usual format."""
    convolutions = sum(
        isinstance(module, nn.Conv2d) or getattr(module, "convolves", False) for module in encoder.modules()
    )
    return torch.channels_last if convolutions > 1 else torch.contiguous_format  # one: a transformer's patches
