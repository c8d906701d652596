"""The ranges of the values inside a network: layer by layer, each from those before it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from holdfast.numerics.bounds.activations import Box, Curved, LinearRelaxation, Relu
from holdfast.numerics.bounds.backward import Region, boxes, meet
from holdfast.numerics.bounds.effort import Effort
from holdfast.numerics.bounds.forms import Dense, Form, Patches
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.optimise import Ascent, Problem, optimise

AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
"""Coefficients that one backward pass holds at a time, about: on a CPU what stays in its caches."""

STEP = 3
"""Propagations that one step of ascent is worth, with its gradient."""

WINDOW = 8
"""How many times smaller than all values a window is, about."""


def ranges_inside(
    network: Network,
    region: Region,
    held: Mapping[int, Box] | None = None,
    ascent: Ascent | None = None,
    intervals: bool = True,
) -> dict[int, Box]:
    """Return the ranges of the inputs of all curved nodes.

    Ranges of one matrix over a box are exact by interval arithmetic. Elsewhere CROWN is met with interval arithmetic,
    and then, with an `ascent`, the slopes below earlier ReLUs are chosen for each end of each range. In front of a
    ReLU only values whose sign is open are worth an effort: for the others it is exact.

    Args:
        network: the network.
        region: where the images may be.
        held: ranges that hold besides, such as those over a larger region.
        ascent: how to look for α; None: the usual slopes.
        intervals: False for CROWN alone, which is met with nothing, `held` included.

    Raises:
        NotCertified: a network so large that this would not end, see `Effort`.

    Example:
        >>> from holdfast.numerics.bounds.network import Node
        >>> from holdfast.parts.threats.linf import Linf
        >>> network = Network((Node(None, (), (1, 1, 1), "x"), Node(Relu(), (0,), (1, 1, 1), "relu")))
        >>> region = Region.around(Linf(0.25), torch.full((1, 1, 1, 1), 0.5), torch.tensor([0.25]).double())
        >>> [round(float(end), 6) for end in ranges_inside(network, region)[0]]
        [0.25, 0.75]
    """
    ranges: dict[int, Box] = {}
    relaxations: dict[int, LinearRelaxation] = {}
    exact = network.boxed if region.ball.is_box else frozenset()
    before = boxes(network, region, held if intervals else None)
    if not intervals:
        before = {k: box if k in exact else _anything(box) for k, box in before.items()}
    sources = {network.nodes[index].inputs[0]: network.nodes[index].operation for index in network.curved}
    effort = Effort(
        network,
        {k: _values(network, k, before[k], kind) for k, kind in sources.items() if k not in exact},
        1 if ascent is None else 1 + STEP * ascent.steps,
        region.x.device.type,
    )
    for index in network.curved:
        node = network.nodes[index]
        source, relu = node.inputs[0], isinstance(node.operation, Relu)
        if source not in ranges:
            ranges[source] = before[source]
            if source not in exact:
                # CROWN first, which settles most signs; then α-CROWN for those still open
                for climb in (None, ascent) if ascent is not None and relaxations else (None,):
                    matters = _sign_is_open(ranges[source]) if relu else None
                    tighter = _box_of(network, source, matters, region, ranges, relaxations, climb, effort)
                    ranges[source] = meet(ranges[source], tighter)
        if isinstance(node.operation, Curved):
            relaxations[index] = node.operation.relax(ranges[source])
    return ranges


def _anything(box: Box) -> Box:
    return torch.full_like(box[0], -torch.inf), torch.full_like(box[1], torch.inf)


def _values(network: Network, node: int, box: Box, operation: object) -> int:
    """Number of values of a node that matter."""
    count = torch.Size(network.nodes[node].shape).numel()
    return int(_sign_is_open(box).sum()) if isinstance(operation, Relu) else count


def _sign_is_open(box: Box) -> Tensor:
    """Values of a node that may have either sign in some image of the batch."""
    return ((box[0] < 0) & (box[1] > 0)).any(0)


def _box_of(
    network: Network,
    node: int,
    matters: Tensor | None,
    region: Region,
    ranges: Mapping[int, Box],
    relaxations: Mapping[int, LinearRelaxation],
    ascent: Ascent | None,
    effort: Effort,
) -> Box:
    """Return the range of the values of a node that matter, (-inf, inf) elsewhere, in pieces that fit in memory."""
    shape = network.nodes[node].shape
    x = region.x
    low = x.new_full((len(x), *shape), -torch.inf)
    high = -low
    largest = max(torch.Size(n.shape).numel() for n in network.nodes[: node + 1])
    # pieces: as many images, and as many rows of each, as the memory of one backward pass allows
    room = AT_ONCE.get(x.device.type, AT_ONCE["cuda"]) // (2 * largest)
    many = torch.Size(shape).numel() if matters is None else int(matters.sum())
    images = max(1, room * WINDOW // max(1, many))
    for first in range(0, len(x), images):
        batch = slice(first, first + images)
        batched = Problem(network, node, Dense(x), region, ranges, relaxations).part(batch)
        for form, index in _units(shape, matters, x, max(1, room)):
            problem = replace(batched, form=form)
            parameters = None if ascent is None else optimise(problem.single(), ascent)[1].to(x.dtype)
            with torch.no_grad():
                ends = problem.bound(parameters).unflatten(1, (-1, 2))
            low[(batch, *index)], high[(batch, *index)] = ends[..., 0], -ends[..., 1]
            effort.add(node, 2 * len(index[0]) * len(batched.region.x) / len(x))
    return low, high


def _units(
    shape: tuple[int, ...], matters: Tensor | None, x: Tensor, at_once: int
) -> Iterator[tuple[Form, tuple[Tensor, ...]]]:
    """Give the forms +value and -value of the values that matter, some at a time, each time with their indices.

    Values of [C, H, W] are read as patches. Where half of them matter, all channels of a position go together and
    share its windows.
    """
    kind = {"dtype": x.dtype, "device": x.device}
    places = (torch.ones(shape, device=x.device) if matters is None else matters).nonzero()
    if not len(places):
        return
    # all channels of a position together: one window serves their rows
    if len(shape) == 3 and 2 * len(places) > torch.Size(shape).numel():
        channels, _, width = shape
        eye = torch.eye(channels, **kind)
        positions = torch.arange(shape[1] * width, device=x.device)
        for piece in positions.split(max(1, at_once * WINDOW // channels)):
            at = torch.stack([piece // width, piece % width], 1)
            unit = torch.stack([eye, -eye], 1).view(1, 1, 2 * channels, channels, 1, 1)
            channel = torch.arange(channels, device=x.device).repeat(len(piece))
            index = (channel, *at.repeat_interleave(channels, 0).unbind(1))
            yield Patches(unit, at, (1, 1), 0, 0, (shape[0], shape[1], shape[2])), index
    elif len(shape) == 3:
        # single values, each a window of its own
        for piece in places.split(at_once * WINDOW):
            channel = torch.eye(shape[0], **kind)[piece[:, 0]]
            unit = torch.stack([channel, -channel], 1).view(1, len(piece), 2, shape[0], 1, 1)
            yield Patches(unit, piece[:, 1:], (1, 1), 0, 0, (shape[0], shape[1], shape[2])), piece.unbind(1)
    else:
        for piece in places.split(at_once):
            flat = torch.zeros(len(piece), *shape, **kind)
            flat[(torch.arange(len(piece)), *piece.unbind(1))] = 1
            yield Dense(torch.stack([flat, -flat], 1).flatten(0, 1)[None]), piece.unbind(1)
