"""Whether two builds stay the same encoder where images are disturbed: by everyday edits, and by noise."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Observation, registry
from holdfast.numerics.geometry.directions import cosine
from holdfast.storage.index_upgrade import DISTURBED, IndexMeasure
from holdfast.workflows.compare_index.cosines import median_cosine

FIRST = 40
"""Images that are disturbed, the first ones."""

NOISES = {"noise of 1/255": 1 / 255, "noise of 8/255": 8 / 255}
"""Uniform noise in ℓ∞ balls as large as changes that break encoders, of the usual ones and of hardened ones."""

ALL = "all"
"""The score of all disturbances together."""


def disturbances(first: int | None) -> dict[str, Observation]:
    """Return what is observed of disturbed images, by title.

    Args:
        first: how many images are disturbed, the first ones; None: all.
    """
    edits = registry.build({"kind": "measures", "name": "edited_retrieval", "first": first}).representations
    return edits | {title: _noise(radius, first) for title, radius in NOISES.items()}


def _noise(radius: float, first: int | None) -> Observation:
    uniform = {"name": "uniform", "ball": {"name": "linf", "radius": radius}}
    return registry.build({"kind": "observations", "name": "represented", "threat": uniform, "first": first})


def of_disturbed(
    old: Mapping[str, Float[Tensor, "images dim"]], new: Mapping[str, Float[Tensor, "images dim"]]
) -> dict[str, IndexMeasure]:
    """Return how alike both vectors of one disturbed image are, for each disturbance; nothing of other lengths."""
    alike = {
        title: 1 - cosine(old[title].double(), new[title].double())
        for title in old
        if old[title].shape == new[title].shape
    }
    # Vectors of other lengths have no cosine
    if not alike:
        return {}
    # An image counts once: by its mean over the disturbances
    scores = {ALL: median_cosine(torch.stack([*alike.values()]).mean(0))}
    scores |= {title: median_cosine(values) for title, values in alike.items()}
    return {
        DISTURBED: IndexMeasure(
            title="cosine of old and new vectors, disturbed images, median",
            scores=scores,
            headline=ALL,
            unit="similarity",
            better="higher",
            how_to_read=(
                "Both encoders see the same edited or noisy image. Two builds that agree on clean images and not on "
                "these part where images are not as those that the build was calibrated on."
            ),
        )
    }
