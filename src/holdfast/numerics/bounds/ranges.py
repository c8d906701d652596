"""The ranges of the values inside a network: layer by layer, each from those before it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from holdfast.numerics.bounds.curved import Box, Curved, Lines, Relu
from holdfast.numerics.bounds.effort import Effort
from holdfast.numerics.bounds.forms import Dense, Form, Patches
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import Ascent, Problem, optimise
from holdfast.numerics.bounds.propagate import Region, boxes, meet

AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
"""Coefficients that one backward pass holds at a time, about: on a CPU what stays in its caches."""

STEP = 3
"""Propagations that one step of ascent is worth, with its gradient."""

WINDOW = 8
"""How many times smaller than all values a window is, about."""


def ranges_inside(
    network: Network, region: Region, known: Mapping[int, Box] | None = None, ascent: Ascent | None = None
) -> dict[int, Box]:
    """Return the ranges of the inputs of all curved nodes.

    Ranges of one matrix over a box are exact by interval arithmetic. Elsewhere CROWN is met with interval arithmetic,
    and then, with an `ascent`, the slopes below earlier ReLUs are chosen for each end of each range. In front of a
    ReLU only values whose sign is open are worth an effort: for the others it is exact.

    Args:
        network: the network.
        region: where the images may be.
        known: ranges that are known to hold, such as those over a larger region.
        ascent: how to look for slopes; None: the usual ones.

    Raises:
        NotCertified: a network so large that this would not end, see `Effort`.
    """
    found: dict[int, Box] = {}
    lines: dict[int, Lines] = {}
    intervals = boxes(network, region, known)
    exact = network.boxed if region.ball.is_box else frozenset()
    sources = {network.nodes[index].inputs[0]: network.nodes[index].operation for index in network.curved}
    effort = Effort(
        network,
        {k: _values(network, k, intervals[k], kind) for k, kind in sources.items() if k not in exact},
        1 if ascent is None else 1 + STEP * ascent.steps,
        region.x.device.type,
    )
    for index in network.curved:
        node = network.nodes[index]
        source, relu = node.inputs[0], isinstance(node.operation, Relu)
        if source not in found:
            found[source] = intervals[source]
            if source not in exact:
                for how in (None, ascent) if ascent is not None and lines else (None,):
                    matters = _sign_is_open(found[source]) if relu else None
                    tighter = _box_of(network, source, matters, region, found, lines, how, effort)
                    found[source] = meet(found[source], tighter)
        if isinstance(node.operation, Curved):
            lines[index] = node.operation.lines(found[source])
    return found


def _values(network: Network, node: int, box: Box, operation: object) -> int:
    """Return how many values of a node matter."""
    whole = torch.Size(network.nodes[node].shape).numel()
    return int(_sign_is_open(box).sum()) if isinstance(operation, Relu) else whole


def _sign_is_open(box: Box) -> Tensor:
    """Return which values of a node may have either sign in some image of the batch."""
    return ((box[0] < 0) & (box[1] > 0)).any(0)


def _box_of(
    network: Network,
    node: int,
    matters: Tensor | None,
    region: Region,
    ranges: Mapping[int, Box],
    lines: Mapping[int, Lines],
    ascent: Ascent | None,
    effort: Effort,
) -> Box:
    """Return the range of the values of a node that matter, (-inf, inf) elsewhere, in pieces that fit in memory."""
    shape = network.nodes[node].shape
    like = region.x
    low = like.new_full((len(like), *shape), -torch.inf)
    high = -low
    largest = max(torch.Size(n.shape).numel() for n in network.nodes[: node + 1])
    room = AT_ONCE.get(like.device.type, AT_ONCE["cuda"]) // (2 * largest)
    many = torch.Size(shape).numel() if matters is None else int(matters.sum())
    images = max(1, room * WINDOW // max(1, many))
    for first in range(0, len(like), images):
        some = slice(first, first + images)
        here = Problem(network, node, Dense(like), region, ranges, lines).part(some)
        for form, index in _units(shape, matters, like, max(1, room)):
            problem = replace(here, form=form)
            relaxation = None if ascent is None else optimise(problem.single(), ascent)[1].to(like.dtype)
            with torch.no_grad():
                ends = problem.bound(relaxation).unflatten(1, (-1, 2))
            low[(some, *index)], high[(some, *index)] = ends[..., 0], -ends[..., 1]
            effort.add(node, 2 * len(index[0]) * len(here.region.x) / len(like))
    return low, high


def _units(
    shape: tuple[int, ...], matters: Tensor | None, like: Tensor, at_once: int
) -> Iterator[tuple[Form, tuple[Tensor, ...]]]:
    """Give the forms +value and -value of the values that matter, some at a time, each time with their indices.

    Values of [C, H, W] are read as patches. Where half of them matter, all channels of a position go together and
    share its windows.
    """
    kind = {"dtype": like.dtype, "device": like.device}
    places = (torch.ones(shape, device=like.device) if matters is None else matters).nonzero()
    if not len(places):
        return
    if len(shape) == 3 and 2 * len(places) > torch.Size(shape).numel():
        channels, _, width = shape
        eye = torch.eye(channels, **kind)
        positions = torch.arange(shape[1] * width, device=like.device)
        for some in positions.split(max(1, at_once * WINDOW // channels)):
            at = torch.stack([some // width, some % width], 1)
            unit = torch.stack([eye, -eye], 1).view(1, 1, 2 * channels, channels, 1, 1)
            channel = torch.arange(channels, device=like.device).repeat(len(some))
            index = (channel, *at.repeat_interleave(channels, 0).unbind(1))
            yield Patches(unit, at, (1, 1), 0, 0, (shape[0], shape[1], shape[2])), index
    elif len(shape) == 3:
        for some in places.split(at_once * WINDOW):
            one = torch.eye(shape[0], **kind)[some[:, 0]]
            unit = torch.stack([one, -one], 1).view(1, len(some), 2, shape[0], 1, 1)
            yield Patches(unit, some[:, 1:], (1, 1), 0, 0, (shape[0], shape[1], shape[2])), some.unbind(1)
    else:
        for some in places.split(at_once):
            flat = torch.zeros(len(some), *shape, **kind)
            flat[(torch.arange(len(some)), *some.unbind(1))] = 1
            yield Dense(torch.stack([flat, -flat], 1).flatten(0, 1)[None]), some.unbind(1)
