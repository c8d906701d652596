"""Some training images of each class, drawn by chance."""

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import Rng
from holdfast.parts.probes.shared.training import classes_of
from holdfast.runtime.errors import NotEnough


def draw_shots(labels: Int[Tensor, "bank"], shots: int, rng: Rng) -> Int[Tensor, "some"]:
    """Positions of `shots` images of each class, class by class, [C · shots].

    Each class has a random order of its own, whose first images are taken: more shots keep those of fewer, and what is
    drawn of one class depends on no other.

    Raises:
        HoldfastError: one class only, or a class with fewer images.
    """
    classes, _ = classes_of(labels)
    places = []
    for name in classes.tolist():
        own = (labels == name).nonzero()[:, 0]
        if len(own) < shots:
            raise NotEnough(
                f"expected at least {shots} training images of each class, got {len(own)} of class {name}; ask for "
                "fewer shots, or give more training images"
            )
        # The order is named by the class, so it depends on no other class, and not on how many shots
        places.append(own[torch.randperm(len(own), generator=rng.child("shots", name).generator())[:shots]])
    return torch.cat(places)
