"""Some images of a set: those that are observed, and those that probes learn from."""

from dataclasses import dataclass

import torch
from torch import nn

from holdfast.core import Encoder, Images, Positions
from holdfast.sources.data import ImageSet


@dataclass(frozen=True)
class Stretch:
    """Some images of a set, one after the other."""

    images: ImageSet
    places: range

    def __str__(self) -> str:
        return str(self.images)

    @property
    def ids(self) -> list[str]:
        """The ids of these images."""
        return self.images.ids[self.places.start : self.places.stop]

    @property
    def labels(self) -> list[int] | None:
        """The classes of these images; None unless the source knows them all."""
        labels = self.images.labels
        return None if labels is None else labels[self.places.start : self.places.stop]

    def batch(self, start: int, stop: int) -> Images:
        """Return images start to stop (excluded) of these."""
        return self.images.batch(self.places.start + start, self.places.start + stop)

    def at(self, positions: Positions) -> Images:
        """Return the images at some places; those that follow each other are read together."""
        places = positions.cpu()
        runs = places.tensor_split((places.diff() != 1).nonzero()[:, 0] + 1)
        return torch.cat([self.batch(int(run[0]), int(run[-1]) + 1) for run in runs])


def on_device(x: Images, device: str) -> Images:
    """Return images on a device; to CUDA from pinned memory, so that the copy runs beside the passes before it."""
    return x.pin_memory().to(device, non_blocking=True) if device.startswith("cuda") else x.to(device)


def memory_format(encoder: Encoder) -> torch.memory_format:
    """Return channels_last for convolutional networks (a tenth faster or more), else the usual format."""
    convolutions = sum(isinstance(module, nn.Conv2d) for module in encoder.modules())
    return torch.channels_last if convolutions > 1 else torch.contiguous_format  # one: a transformer's patches
