"""What a linear form on one value of a network reads on its way back to the image: its work and its memory."""

from dataclasses import dataclass

import torch

from holdfast.numerics.bounds.affine import Add, Conv, Matrix, Scale
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.relaxation import Curved

HELD = 12
"""Numbers in float64 that are held of every value of the network while an image is bounded, about."""

ROWS = 2**24
"""Coefficients that rows of a margin have at a time, on the node where they have most."""

Window = tuple[int, int] | None
"""Height and width of what a form reads of a value [C, H, W]; None: all of it."""


@dataclass(frozen=True)
class Footprint:
    """What one form takes.

    Attributes:
        coefficients: on all nodes that it passes.
        products: multiplications of coefficients with weights.
        widest: coefficients on the node where it has most.
        image: coefficients on the image.
    """

    coefficients: int
    products: int
    widest: int
    image: int


def footprint(network: Network, start: int) -> Footprint:
    """Return the footprint of a form that reads one value of a node.

    Windows grow with each convolution, and stay as they are through activations and sums; all else makes forms dense.

    Example:
        >>> from holdfast.numerics.bounds.network import Node
        >>> conv = Conv(torch.ones(1, 1, 3, 3), None, (1, 9, 9), (1, 1), (1, 1, 1, 1), (1, 1), 1)
        >>> footprint(Network((Node(None, (), (1, 9, 9), "x"), Node(conv, (0,), (1, 9, 9), "conv"))), 1)
        Footprint(coefficients=10, products=9, widest=9, image=9)
    """
    pending: dict[int, Window] = {start: (1, 1) if len(network.nodes[start].shape) == 3 else None}
    coefficients = products = widest = size = 0
    for index in range(start, -1, -1):
        if index not in pending:
            continue
        # coefficients on this node; a window as large as the image saves nothing
        node, window = network.nodes[index], pending.pop(index)
        if window is not None and window[0] * window[1] >= torch.Size(node.shape[1:]).numel():
            window = None
        size = torch.Size(node.shape).numel() if window is None else node.shape[0] * window[0] * window[1]
        coefficients, widest = coefficients + size, max(widest, size)
        # and what they become on its inputs
        operation, passed = node.operation, None
        if isinstance(operation, Conv):
            products += size * operation.weight[0].numel()
            passed = window and _through(operation, window)
        elif isinstance(operation, Matrix):
            products += size * operation.weight.shape[1]
        elif isinstance(operation, (Curved, Scale, Add)):
            passed = window
        for source in node.inputs:
            # Where one of two paths is dense, so is their sum
            both = pending.get(source, passed)
            pending[source] = both and passed and (max(both[0], passed[0]), max(both[1], passed[1]))
    return Footprint(coefficients, products, widest, size)  # the image comes last


def memory(network: Network, images: int = 1, rows: int = 256) -> int:
    """Return how many bytes it takes to bound some images together, about, beyond the network and the images.

    Args:
        network: the network.
        images: bounded together.
        rows: of each image's margin.

    Example:
        >>> from holdfast.numerics.bounds.network import Node
        >>> memory(Network((Node(None, (), (3, 100, 100), "x"),)), rows=1)  # 12 numbers a value, 4 of the row
        3840000
    """
    values = sum(torch.Size(node.shape).numel() for node in network.nodes)
    widest = max(torch.Size(node.shape).numel() for node in network.nodes)
    return 8 * (HELD * values * images + 4 * min(ROWS, rows * widest * images))


def _through(conv: Conv, window: tuple[int, int]) -> tuple[int, int]:
    """Return the window that a convolution's window reads of its input."""
    (high, wide), (down, across), (rows, columns) = window, conv.stride, conv.dilation
    kernel = conv.weight.shape[2:]
    return (high - 1) * down + (kernel[0] - 1) * rows + 1, (wide - 1) * across + (kernel[1] - 1) * columns + 1
