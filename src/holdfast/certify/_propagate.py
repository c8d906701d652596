"""Bound propagation: boxes forwards, linear forms backwards, and the bounds of a whole network from both."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.certify._affine import Affine
from holdfast.certify._curved import Box, Curved, Lines, MaxPool, Relu
from holdfast.certify._forms import Dense, Form, Patches
from holdfast.certify._network import Network
from holdfast.core import Ball

CHUNK = 2**24
"""Coefficients that one backward pass holds at a time, about (64 MiB in float32)."""


@dataclass(frozen=True, eq=False)
class Region:
    """Where the images may be: a ball of its own radius around each, inside its box.

    Attributes:
        ball: which norm; its own radius is not read.
        x: [B, C, H, W].
        radii: [B].
        box: lowest and highest value of every pixel, [B, C, H, W] each.
    """

    ball: Ball
    x: Tensor
    radii: Tensor
    box: Box

    @classmethod
    def around(cls, ball: Ball, x: Tensor, radii: Tensor) -> "Region":
        """Return the region of balls around x."""
        return cls(ball, x, radii, ball.box(x, radii))

    def part(self, images: list[int] | Tensor) -> "Region":
        """Return the region of some images."""
        return Region(self.ball, self.x[images], self.radii[images], (self.box[0][images], self.box[1][images]))

    def least(self, form: Form) -> Tensor:
        """Return the minimum of linear forms on the image, [B, R]."""
        coefs, low = form.windows(self.box[0])
        _, high = form.windows(self.box[1])
        _, x = form.windows(self.x)
        radii = self.radii.view(-1, *[1] * (low.ndim - 2)).expand(low.shape[:-1])
        return form.rows(self.ball.least(coefs, x, (low, high), radii))


def boxes(network: Network, region: Region, known: Mapping[int, Box] | None = None) -> dict[int, Box]:
    """Return the range of every node by interval arithmetic, going forward; `known` ranges are taken over."""
    found: dict[int, Box] = {0: region.box}
    for index, node in enumerate(network.nodes[1:], 1):
        inputs = [found[i] for i in node.inputs]
        if isinstance(node.operation, Affine):
            centre = node.operation(*((low + high) / 2 for low, high in inputs))
            width = node.operation.spread(*((high - low) / 2 for low, high in inputs))
            found[index] = (centre - width, centre + width)
        else:
            assert node.operation is not None
            found[index] = node.operation.box(inputs[0])
        if known is not None and index in known:
            found[index] = meet(found[index], known[index])
    return found


def meet(a: Box, b: Box) -> Box:
    """Return the intersection of two boxes that hold the same values."""
    return torch.maximum(a[0], b[0]), torch.minimum(a[1], b[1])


def backward(
    network: Network,
    start: int,
    form: Form,
    region: Region,
    ranges: Mapping[int, Box],
    lines: Mapping[int, Lines],
    prices: Mapping[int, Tensor] | None = None,
    stop: bool = False,
) -> Tensor:
    """Return lower bounds of linear forms on a node over the region, [B, R].

    Going backwards, every affine operation passes the forms on, every curved one replaces σ by the line that
    is on the safe side of the coefficient's sign: a⁺ (below) + a⁻ (above).

    Args:
        network: the network.
        start: the node that the forms read.
        form: the rows.
        region: where the image may be.
        ranges: the range of the input of each curved node (and, with `stop`, of its output).
        lines: the lines of each curved node that takes one.
        prices: β-CROWN: what is added to the coefficients of each curved node's input, [B, R, *shape].
        stop: end at the first curved nodes, at their ranges (interval arithmetic, the last layers joined).

    Source: Zhang et al. (2018), CROWN, Theorem 3.2; Wang et al. (2021), β-CROWN, Theorem 3.1.
    """
    pending: dict[int, Form] = {start: form}
    total: Tensor | float = 0.0
    for index in range(start, -1, -1):
        here = pending.pop(index, None)
        if here is None:
            continue
        node = network.nodes[index]
        operation = node.operation
        if operation is None:
            return total + region.least(here)
        if isinstance(operation, Affine):
            if operation.constant is not None:
                total = total + here.dot(operation.constant)
            passed = here.through(operation)
        elif stop:
            total = total + _least_in_box(here, ranges[index])
            continue
        elif isinstance(operation, MaxPool):
            relaxed, constant = here.pooled(*operation.choose(ranges[node.inputs[0]]), operation)
            total, passed = total + constant, [relaxed]
        else:
            relaxed, constant = here.relaxed(lines[index])
            if prices is not None and index in prices:
                assert isinstance(relaxed, Dense)
                relaxed = Dense(relaxed.coefs + prices[index])
            total, passed = total + constant, [relaxed]
        for source, part in zip(node.inputs, passed, strict=True):
            pending[source] = pending[source] + part if source in pending else part
    assert isinstance(total, Tensor)
    return total


def _least_in_box(form: Form, box: Box) -> Tensor:
    coefs, low = form.windows(box[0])
    _, high = form.windows(box[1])
    centre, half = (low + high) / 2, (high - low) / 2
    return form.rows((coefs @ centre[..., None] - coefs.abs() @ half[..., None]).squeeze(-1))


def standard_lines(network: Network, ranges: Mapping[int, Box]) -> dict[int, Lines]:
    """Return the lines of all curved nodes for the ranges of their inputs."""
    return {
        index: operation.lines(ranges[network.nodes[index].inputs[0]])
        for index in network.curved
        if isinstance(operation := network.nodes[index].operation, Curved)
    }


def ranges_by_crown(network: Network, region: Region, known: Mapping[int, Box] | None = None) -> dict[int, Box]:
    """Return the ranges of the inputs of all curved nodes, each by CROWN from those before it.

    Ranges of one matrix over a box are exact by interval arithmetic. Elsewhere both are computed and the better end
    of each is kept.

    Args:
        network: the network.
        region: where the images may be.
        known: ranges that are known to hold, such as those over a larger region.
    """
    found: dict[int, Box] = {}
    intervals = boxes(network, region, known)
    lines: dict[int, Lines] = {}
    exact = network.boxed if type(region.ball).__name__ == "Linf" else frozenset()
    for index in network.curved:
        node = network.nodes[index]
        source = node.inputs[0]
        if source not in found:
            found[source] = intervals[source]
            if source not in exact:
                matters = _sign_is_open(found[source]) if isinstance(node.operation, Relu) else None
                tight = _box_of(network, source, matters, region, found, lines)
                found[source] = meet(found[source], tight)
        if isinstance(node.operation, Curved):
            lines[index] = node.operation.lines(found[source])
    return found


def _sign_is_open(box: Box) -> Tensor:
    """Return which values of a node may have either sign in some image of the batch: ReLU is exact for the others."""
    return ((box[0] < 0) & (box[1] > 0)).any(0)


def _box_of(
    network: Network,
    node: int,
    matters: Tensor | None,
    region: Region,
    ranges: Mapping[int, Box],
    lines: Mapping[int, Lines],
) -> Box:
    """Return the range of the values of a node that matter, (-inf, inf) elsewhere, in pieces that fit in memory."""
    shape = network.nodes[node].shape
    like = region.box[0]
    low = like.new_full((len(like), *shape), -torch.inf)
    high = -low
    largest = max(torch.Size(n.shape).numel() for n in network.nodes[: node + 1])
    for form, index in _units(shape, matters, like, max(1, CHUNK // (2 * largest * len(like)))):
        ends = backward(network, node, form, region, ranges, lines).unflatten(1, (-1, 2))
        low[(slice(None), *index)], high[(slice(None), *index)] = ends[..., 0], -ends[..., 1]
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


WINDOW = 8
"""How many times smaller than all values a window is, about."""
