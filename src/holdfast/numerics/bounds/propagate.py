"""Bound propagation: boxes forwards, linear forms backwards, and the bounds of a whole network from both."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import Ball, HoldfastError
from holdfast.core.threat import least_in_box
from holdfast.numerics.bounds.affine import Affine
from holdfast.numerics.bounds.curved import Box, Curved, Lines, MaxPool
from holdfast.numerics.bounds.forms import Dense, Form
from holdfast.numerics.bounds.network import Network


@dataclass(frozen=True, eq=False)
class Region:
    """Where the images may be: a ball of its own radius around each, inside its box. Made by `around`.

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
        """Return the region of balls around x, in float64 and rounded outward; the one place where boxes are made.

        A radius becomes the next number above it in its own precision, so the region holds the ball of every real
        number that was rounded to it.
        """
        if radii.dtype not in (torch.float32, torch.float64):
            raise HoldfastError(f"certifiers take radii in float64, got {radii.dtype}: give dtype=torch.float64")
        x, reach = x.double(), torch.nextafter(radii, torch.full_like(radii, torch.inf)).double()
        low, high = ball.box(x, reach)
        low, high = torch.nextafter(low, low - 1).clamp_min(0), torch.nextafter(high, high + 1).clamp_max(1)
        return cls(ball, x, reach, (low, high))

    def part(self, images: list[int] | slice) -> "Region":
        """Return the region of some images."""
        return Region(self.ball, self.x[images], self.radii[images], (self.box[0][images], self.box[1][images]))

    def to(self, dtype: torch.dtype) -> "Region":
        """Return the region in another precision: one to search in, for in float32 its ends are rounded either way."""
        box = (self.box[0].to(dtype), self.box[1].to(dtype))
        return Region(self.ball, self.x.to(dtype), self.radii.to(dtype), box)

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


def in_precision(ranges: Mapping[int, Box], dtype: torch.dtype) -> dict[int, Box]:
    """Return ranges in another precision."""
    return {k: (low.to(dtype), high.to(dtype)) for k, (low, high) in ranges.items()}


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
    slopes: MutableMapping[int, Tensor] | None = None,
    prices: Mapping[int, Tensor] | None = None,
    stop: bool = False,
    trail: MutableMapping[int, Tensor] | None = None,
) -> Tensor:
    """Return lower bounds of linear forms on a node over the region, [B, R].

    Going backwards, every affine operation passes the forms on, every curved one replaces σ by the line that
    is on the safe side of the coefficient's sign: a⁺ (below) + a⁻ (above).

    Args:
        network: the network.
        start: the node that the forms read.
        form: the rows.
        region: where the image may be.
        ranges: the range of the input of each curved node.
        lines: the lines of each curved node that takes one.
        slopes: α-CROWN: the slope below each ReLU whose sign is open, for each row; those that are missing are
            entered as they are usual.
        prices: β-CROWN: what is added to the coefficients of each curved node's input, [B, R, *shape].
        trail: receives the coefficients of dense forms on the image and on the outputs of curved nodes.
        stop: end at the first curved nodes, at the ranges of their outputs (interval arithmetic, last layers joined).

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
        if trail is not None and not isinstance(operation, Affine) and isinstance(here, Dense):
            trail[index] = here.coefs
        if operation is None:
            return total + region.least(here)
        if isinstance(operation, Affine):
            if operation.constant is not None:
                total = total + here.dot(operation.constant)
            passed = here.through(operation)
        elif stop:
            total = total + _least_in_box(here, operation.box(ranges[node.inputs[0]]))
            continue
        elif isinstance(operation, MaxPool):
            relaxed, constant = here.pooled(*operation.choose(ranges[node.inputs[0]]), operation)
            total, passed = total + constant, [relaxed]
        else:
            free = slopes is not None and lines[index].free is not None
            if slopes is not None and free and index not in slopes:
                usual = here.lined(lines[index]).below_slope
                slopes[index] = usual.expand(torch.broadcast_shapes(usual.shape, here.coefs.shape)).clone()
            relaxed, constant = here.relaxed(lines[index], slopes[index] if slopes is not None and free else None)
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
    return form.rows(least_in_box(coefs, low, high))


def standard_lines(network: Network, ranges: Mapping[int, Box]) -> dict[int, Lines]:
    """Return the lines of all curved nodes for the ranges of their inputs."""
    return {
        index: operation.lines(ranges[network.nodes[index].inputs[0]])
        for index in network.curved
        if isinstance(operation := network.nodes[index].operation, Curved)
    }
