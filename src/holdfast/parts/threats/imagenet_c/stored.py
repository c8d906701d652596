"""Images that were corrupted once for everybody: those of CIFAR-10-C and ImageNet-C, by the ids of the clean ones."""

from pathlib import Path

import numpy as np
import torch

from holdfast.core import Images, Rng
from holdfast.runtime.errors import Mismatch
from holdfast.sources.data.shared.corrupted import load_severity, pictures
from holdfast.sources.data.shared.geometry import render
from holdfast.sources.data.shared.pictures import decode

ENOUGH = 8
"""Images from which on they are compared with what is said to be them."""


def load_stored(x: Images, rng: Rng, folder: str, corruption: str, severity: int) -> Images:
    """Return the stored versions of images: of CIFAR-10-C by their positions, of ImageNet-C by "synset/file".

    Args:
        x: clean images, [B, C, H, W].
        rng: bound to their ids.
        folder: of the benchmark.
        corruption: which one.
        severity: 1 to 5.

    Raises:
        HoldfastError: ids that have no stored version, images of another size, or that look like others than theirs.
    """
    if (Path(folder) / f"{corruption}.npy").exists():
        held = load_severity(folder, corruption, severity)
        # An id that is no number is as wrong as one that is too large, and is told below
        places = [int(name) if name.isdecimal() else len(held) for name in rng.ids]
        if strange := [name for name, place in zip(rng.ids, places, strict=True) if place >= len(held)]:
            raise Mismatch(
                f"{corruption} of {folder!r}: expected images whose ids are their positions in the test set, 0 to "
                f"{len(held) - 1}, got {strange[0]!r}; give the whole test set in its own order"
            )
        out = [torch.from_numpy(np.array(held[place])).permute(2, 0, 1).float() / 255 for place in places]
    else:
        inside = pictures(folder, corruption, severity)
        out = [render(decode(inside / name, name), None) for name in rng.ids]
    for name, image in zip(rng.ids, out, strict=True):
        if image.shape != x.shape[1:]:
            sizes = ["x".join(map(str, shape)) for shape in (image.shape, x.shape[1:])]
            raise Mismatch(
                f"{corruption} of {folder!r}, image {name!r}: the stored one has {sizes[0]} pixels, the clean one "
                f"{sizes[1]}; expected the same: ImageNet-C's are 3x224x224, as photographs are for an encoder of that "
                'size (resolution = "encoder")'
            )
    together = torch.stack(out).to(x)
    _check_alike(x, together, f"{corruption} of {folder!r}")
    return together


def _check_alike(x: Images, corrupted: Images, name: str) -> None:
    """Raise where images are less like their own corrupted versions than like those of others, on average."""
    if len(x) < ENOUGH:
        return
    # Correlation of pixels: what corruptions do to brightness and contrast does not count
    a, b = (each.flatten(1) - each.flatten(1).mean(1, keepdim=True) for each in (x, corrupted))
    a, b = (each / each.norm(dim=1, keepdim=True).clamp_min(1e-6) for each in (a, b))
    # Rolled by one, every image stands beside another image's corrupted version
    own, others = float((a * b).sum(1).mean()), float((a * b.roll(1, 0)).sum(1).mean())
    if own <= others:
        raise Mismatch(
            f"{name}: expected corrupted versions of these images, got others (their correlation is {own:.2f}, "
            f"{others:.2f} with each other's); give the clean test set that the benchmark is made of"
        )
