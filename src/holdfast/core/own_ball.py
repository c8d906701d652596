"""Balls of a user's own: whether all of their methods mean the same ball."""

import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core.encoder import Images
from holdfast.core.registry import part_name
from holdfast.core.threat import Ball, Shape
from holdfast.numerics.rng import Rng
from holdfast.runtime.errors import Failed

IMAGES = 4
"""How many random images and changes are tried."""

ALIKE = 1e-5
"""How far a change may lie from where `project` brings it, in pixels: rounding."""


def is_ours(part: object) -> bool:
    """Return whether a part is one of Holdfast's, whose contracts have tests."""
    return type(part).__module__.startswith("holdfast.")


def balls_of(part: Any) -> Iterator[Ball]:
    """Yield the balls that a part is made with."""
    if isinstance(part, Ball):
        yield part
    elif isinstance(part, tuple | list):
        for inner in part:
            yield from balls_of(inner)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            yield from balls_of(getattr(part, field.name))


def require_one_ball(ball: Ball, shape: Shape) -> None:
    """Refuse a ball of a user's own whose methods mean different balls.

    Attacks go by `ascend`, `project`, `squash` and `sample`, certificates by `box` and `least_on`. Where one of them
    means another ball than `project`, an attack finds images that may not be, or a proof leaves out images that may.

    Args:
        ball: any; Holdfast's own are known to be right.
        shape: of the images.

    Raises:
        HoldfastError: a ball whose methods disagree; it names the method.
    """
    # Before what is remembered, which holds what the ball is made with
    if not is_ours(ball):
        _try_methods(ball, shape)


@lru_cache(64)
def _try_methods(ball: Ball, shape: Shape) -> None:
    """Try the methods of a ball on random changes of random images."""
    # In float64, so that what is found is a disagreement and no rounding
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(IMAGES, *shape, generator=draw, dtype=torch.float64)
    x[0] = x[0].round()  # at the edges of [0, 1]
    wild = torch.randn(IMAGES, *shape, generator=draw, dtype=torch.float64)
    # The breaking radius searches balls of every radius, which must look alike
    half = torch.full((IMAGES,), ball.radius / 2, dtype=torch.float64)
    changes = {
        "project": ball.project(2 * ball.radius * wild),
        "ascend": ball.radius * ball.ascend(wild),
        "squash": ball.squash(3 * wild),
        "sample": ball.sample(x, Rng(0, ids=tuple(map(str, range(IMAGES))))) - x,
        "inside": ball.inside(x, ball.radius * wild, half) - x,
    }
    for method, delta in changes.items():
        _require_kept(ball, method, delta)
    for method, still in (("ascend", ball.ascend(torch.zeros_like(x))), ("squash", ball.squash(torch.zeros_like(x)))):
        if bool(still.any()):
            raise _disagree(ball, method, "moves where it is given 0")
    _require_bounds(ball, x, wild, list(changes.values()))


def _require_kept(ball: Ball, method: str, delta: Images) -> None:
    """Refuse changes that are outside what `project` or `size` means."""
    if (off := float((ball.project(delta) - delta).abs().max())) > ALIKE:
        raise _disagree(ball, method, f"leaves what `project` keeps to, by up to {off:.3g}")
    if (size := float(ball.size(delta).max())) > ball.radius + ALIKE:
        raise _disagree(ball, "size", f"calls a change by `{method}` {size:.3g}, the radius is {ball.radius:.3g}")


def _require_bounds(ball: Ball, x: Images, slopes: Images, changes: list[Images]) -> None:
    """Refuse what certificates go by where it leaves out images of the ball."""
    radii = torch.full((len(x),), ball.radius, dtype=x.dtype)
    low, high = ball.box(x, radii)
    least = ball.least_on(slopes[:, None], x, (low, high), radii, (x.shape[1], x.shape[2], x.shape[3]))[:, 0]
    # Where each image is taken as far down the slopes as the ball lets it, the bound is tight
    for delta in [*changes, -ball.radius * ball.ascend(slopes), ball.project(-ball.radius * slopes.sign())]:
        at = ball.around(x, x + ball.project(delta))
        if (off := float(torch.maximum(low - at, at - high).max())) > ALIKE:
            raise _disagree(ball, "box", f"leaves out images of the ball, by up to {off:.3g}")
        found: Float[Tensor, "images"] = (slopes * at).flatten(1).sum(1)
        if bool((found < least - ALIKE * slopes.flatten(1).abs().sum(1)).any()):
            raise _disagree(ball, "least", "is above what images of the ball reach")


def _disagree(ball: Ball, method: str, how: str) -> Failed:
    return Failed(
        f"ball {part_name(ball)}: expected all of its methods to mean one ball, but `{method}` {how}; write `{method}` "
        "for it, too"
    )


def require_kept(part: object, ball: Ball, x: Images, attacked: Images) -> None:
    """Refuse images that an attack of a user's own, or one in such a ball, has carried out of the ball.

    Args:
        part: the attack.
        ball: where it was to search.
        x: clean images.
        attacked: what it found.

    Raises:
        HoldfastError: images outside the ball or [0, 1].
    """
    if is_ours(part) and is_ours(ball):
        return
    with torch.no_grad():
        # What lies inside stays where it is
        off = float((ball.around(x, attacked) - attacked).abs().max()) if attacked.numel() else 0.0
    if not off <= ALIKE:  # NaN is no image
        raise Failed(
            f"attack {part_name(part)}: expected images inside the ball {ball.title} and [0, 1], got some that are "
            f"outside by up to {off:.3g}; bring them back by ball.around(x, moved)"
        )
