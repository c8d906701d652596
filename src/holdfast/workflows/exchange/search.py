"""Search for an input of a box at which a network's output is unsafe."""

import math
import time
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Encoder, Images, Margin, PerImage, Reps, Rng, registry
from holdfast.storage.vnnlib import Query
from holdfast.workflows.exchange.cube import OnCube, inward

AT_ONCE = 64
"""Ways to be unsafe that are searched together."""


class _OutOfTime(Exception):
    """An attack has no time left."""


def attack_on(encoder: Encoder, shape: tuple[int, int, int]) -> str:
    """Return by which attack unsafe inputs are searched: APGD, or Square where a network has no gradient."""
    with torch.enable_grad():
        return "apgd" if encoder(torch.full((1, *shape), 0.5, requires_grad=True)).requires_grad else "square"


def unsafe_inputs(
    encoder: Encoder, query: Query, shape: tuple[int, int, int], by: str, steps: int, seed: int, until: float = math.inf
) -> Iterator[Float[Tensor, "inputs"]]:
    """Yield inputs of the box, in float32, whose outputs the encoder finds unsafe: for each way what an attack ends at.

    Each way is pursued by itself: the goal is that its largest row falls to 0. Of some ways that are searched together
    the worst comes first.
    """
    assert isinstance(encoder.module, OnCube)
    attack, ball = (
        registry.part("attacks", by, steps=steps, restarts=2),
        registry.part("threats", "linf", radius=0.5),
    )
    low, high = inward(query)
    for first in range(0, len(query.unsafe), AT_ONCE):
        margin = _stack_margins(query.unsafe[first : first + AT_ONCE])

        def goal(images: Images, margin: Margin = margin) -> tuple[PerImage, Reps]:
            if time.monotonic() > until:
                raise _OutOfTime
            reps = encoder(images)
            return -margin(reps).amax(1), reps

        ids = tuple(f"way {first + i}" for i in range(len(margin.bias)))
        try:
            search = attack(goal, torch.full((len(ids), *shape), 0.5), ball, Rng(seed, ids=ids))
        except _OutOfTime:
            return
        values, images = search.values[-1], search.images[steps]
        for i in values.argsort(descending=True).tolist():
            if values[i] >= 0:
                yield encoder.module.point(images[i].detach()).flatten().clamp(low, high)


def _stack_margins(ways: tuple[Margin, ...]) -> Margin:
    """Return a margin of one image for each way, in float32; of a way with few rows the last is repeated."""
    rows = max(way.bias.shape[1] for way in ways)
    places = [torch.arange(rows).clamp_max(way.bias.shape[1] - 1) for way in ways]
    weights = [way.weights[:, place] for way, place in zip(ways, places, strict=True)]
    bias = [way.bias[:, place] for way, place in zip(ways, places, strict=True)]
    return Margin(torch.cat(weights), torch.cat(bias)).to(torch.float32)
