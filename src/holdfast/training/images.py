"""The images of a training: all in memory where they fit, else read when they are asked for."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Geometry, Images, ImageSource, Rng, Threat
from holdfast.runtime.errors import NotEnough
from holdfast.runtime.waiting import move_to
from holdfast.sources.data import ImageSet, open_images

IN_MEMORY = 2**31
"""Bytes of images that are kept in memory."""

BLOCK = 512


class TrainingImages:
    """Images with their ids and classes, in a fixed order; those that fit are kept as 8-bit numbers or floats.

    Args:
        spec: data spec, see `holdfast.sources.data`, or a source.
        geometry: how pictures become pixels, from the encoder.
        images: how many of them; all where None.
        seed: which.
        device: where batches go.
        corruption: what befalls every image before anything else; None: nothing.
        leave_out: images that are not learned from, whatever they are called there.

    Raises:
        HoldfastError: images that cannot be read, or none that are left.
    """

    def __init__(
        self,
        spec: str | ImageSource,
        *,
        geometry: Geometry | None,
        images: int | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        corruption: Threat | None = None,
        leave_out: Sequence[ImageSet] = (),
    ):
        # Pictures of mixed shapes get one size, for batches are tensors
        opened = open_images(spec, images=images, seed=seed, geometry=geometry)
        self.images: ImageSet = opened.with_geometry(geometry or opened.common_geometry)
        self.ids, self._device = self.images.ids, device
        self._corruption, self._rng = corruption, Rng(seed, ("corruption",))
        self._kept: Tensor | None = None
        # As float32, the most that they may take
        if 4 * math.prod(self.images.shape) * len(self.ids) <= IN_MEMORY:
            self.images.note()  # what is read here is not read again for the fingerprint, or for what is held out
            self._kept = self._all_images()
        for held in leave_out:
            self._without(held, spec)
        labels = self.images.labels
        # Losses number classes from 0, whatever the data call them
        self.classes = sorted(set(labels)) if labels is not None else None
        numbers = {label: number for number, label in enumerate(self.classes or ())}
        self.labels = None if labels is None else torch.tensor([numbers[label] for label in labels])

    def _without(self, held: ImageSet, spec: str | ImageSource) -> None:
        if (count := self.images.leave_out(held)) and len(self.images) < 2:
            raise NotEnough(
                f"{spec}: expected images to learn from beside the {len(held)} that are held out, got "
                f"{len(self.images)}, for {count} are among them (different pictures: {held.different}); give more "
                "images that differ"
            )
        # The set forgets the images itself; the rows in memory must follow
        left = set(self.images.ids)
        if self._kept is not None:
            self._kept = self._kept[[place for place, name in enumerate(self.ids) if name in left]]
        self.ids = self.images.ids

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, places: Int[Tensor, "batch"]) -> Images:
        """Return some images on the device, [B, C, H, W] in [0, 1]."""
        if self._kept is None:
            return move_to(self._read(places.tolist()), self._device)
        x = move_to(self._kept[places], self._device)
        return x.float() / 255 if x.dtype == torch.uint8 else x

    def _read(self, places: Sequence[int]) -> Images:
        x = self.images.pick(places)
        if self._corruption is None:
            return x
        # Drawn by the image's id, so that the corruption is the same in every epoch
        return self.images.disturb(x, places, self._corruption, self._rng.at([self.ids[place] for place in places]))

    def _all_images(self) -> Tensor:
        """Return all images; as 8-bit numbers where that loses nothing."""
        blocks = [self._read(range(at, min(at + BLOCK, len(self)))) for at in range(0, len(self), BLOCK)]
        # A quarter of the memory, where bytes give back the very same floats
        small = [(block * 255).round().to(torch.uint8) for block in blocks]
        same = all(bool((few.float() / 255 == block).all()) for few, block in zip(small, blocks, strict=True))
        return torch.cat(small if same else blocks)
