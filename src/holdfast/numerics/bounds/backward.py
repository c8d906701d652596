"""Bound propagation: intervals forwards, linear forms backwards, as in CROWN."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from holdfast.numerics.bounds.affine import Affine, Clamp, Scale
from holdfast.numerics.bounds.axes import Total
from holdfast.numerics.bounds.ball import Ball
from holdfast.numerics.bounds.box import Box, least_in_box
from holdfast.numerics.bounds.forms import Dense, Form, Patches
from holdfast.numerics.bounds.max_pool import MaxPool
from holdfast.numerics.bounds.network import ANY, Network, Node
from holdfast.numerics.bounds.products import Bilinear
from holdfast.numerics.bounds.relaxation import Curved, LinearRelaxation
from holdfast.runtime.errors import BadValue

Alphas = MutableMapping[tuple[int, str], Tensor]
"""α for each row, [B, R, *shape], of the lines "below" or "above" each node, or of a product's "plane"."""


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
            raise BadValue(f"certifiers take radii in float64, got {radii.dtype}: give dtype=torch.float64")
        x, reach = x.double(), torch.nextafter(radii, torch.full_like(radii, torch.inf)).double()
        low, high = ball.box(x, reach)
        # Outward by one last digit, but not out of [0, 1], where all pixels are
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
        # A radius for each window (of dense forms: for each image)
        radii = self.radii.view(-1, *[1] * (low.ndim - 2)).expand(low.shape[:-1])
        # what is no picture, such as a row of numbers, counts as one pixel high
        picture = self.x.ndim == 4
        window = shape = (1, 1, low.shape[-1])
        if picture:
            _, channels, height, width = self.x.shape
            window, shape = form.coefs.shape[-3:], (channels, height, width)
        # Balls such as patches ask where in the picture a window lies
        coefs, x, low, high = (values.unflatten(-1, window) for values in (coefs, x, low, high))
        return form.rows(self.ball.least_on(coefs, x, (low, high), radii, shape))


def boxes(network: Network, region: Region, held: Mapping[int, Box] | None = None) -> dict[int, Box]:
    """Return the range of every node by interval arithmetic, layer by layer, met with ranges that hold besides.

    Example:
        >>> from holdfast.numerics.bounds.activations import Relu
        >>> from holdfast.numerics.bounds.network import Node
        >>> from holdfast.parts.threats.linf import Linf
        >>> network = Network((Node(None, (), (1, 1, 1), "x"), Node(Relu(), (0,), (1, 1, 1), "relu")))
        >>> region = Region.around(Linf(0.25), torch.full((1, 1, 1, 1), 0.5), torch.tensor([0.25]).double())
        >>> [round(float(end), 6) for end in boxes(network, region)[1]]
        [0.25, 0.75]
    """
    ranges: dict[int, Box] = {0: region.box}
    for index, node in enumerate(network.nodes[1:], 1):
        ranges[index] = box_of(node, [ranges[i] for i in node.inputs])
        if held is not None and index in held:
            ranges[index] = meet(ranges[index], held[index])
    return ranges


def box_of(node: Node, inputs: Sequence[Box]) -> Box:
    """Return the range of a node from those of its inputs: interval arithmetic, met with what is known of any image.

    Example:
        >>> from holdfast.numerics.bounds.activations import Relu
        >>> box_of(Node(Relu(), (0,), (1,), "relu"), [(torch.tensor([-1.0]), torch.tensor([2.0]))])
        (tensor([0.]), tensor([2.]))
    """
    assert node.operation is not None
    if isinstance(node.operation, Affine) and not isinstance(node.operation, Clamp):
        # Centre and half-width make two passes, where ends would take one for each sign of the weights
        centre = node.operation(*((low + high) / 2 for low, high in inputs))
        width = node.operation.spread(*((high - low) / 2 for low, high in inputs))
        low, high = (centre - width, centre + width)
    else:
        low, high = node.operation.box(*inputs)
    # what overflowed, such as the exponentials of attention over all images, says nothing but what is known
    low, high = low.nan_to_num(-inf, inf, -inf), high.nan_to_num(inf, inf, -inf)
    return (low.clamp(*node.known), high.clamp(*node.known)) if node.known != ANY else (low, high)


def in_precision(ranges: Mapping[int, Box], dtype: torch.dtype) -> dict[int, Box]:
    """Return ranges in another precision.

    Example:
        >>> in_precision({0: (torch.zeros(1), torch.ones(1))}, torch.float64)[0][1].dtype
        torch.float64
    """
    return {k: (low.to(dtype), high.to(dtype)) for k, (low, high) in ranges.items()}


def meet(a: Box, b: Box) -> Box:
    """Return the intersection of two boxes that hold the same values; an end that is NaN says nothing.

    Example:
        >>> meet((torch.tensor([0.0]), torch.tensor([2.0])), (torch.tensor([1.0]), torch.tensor([3.0])))
        (tensor([1.]), tensor([2.]))
    """
    return torch.fmax(a[0], b[0]), torch.fmin(a[1], b[1])


def backward(
    network: Network,
    start: int,
    form: Form,
    region: Region,
    ranges: Mapping[int, Box],
    relaxations: Mapping[int, LinearRelaxation],
    alphas: Alphas | None = None,
    betas: Mapping[int, tuple[Tensor, Tensor]] | None = None,
    stop: bool = False,
    trail: MutableMapping[int, Tensor] | None = None,
) -> Tensor:
    """Return lower bounds of linear forms on a node over the region, [B, R].

    Going backwards, every affine operation passes the forms on, every activation σ is replaced by the line that
    is on the safe side of the coefficient's sign: a⁺ (below) + a⁻ (above).

    Args:
        network: the network.
        start: the node that the forms read.
        form: the rows.
        region: where the image may be.
        ranges: the range of the input of each curved node.
        relaxations: the linear relaxation of each activation.
        alphas: α-CROWN: which line to take of those below or above each activation, for each row; those that are
            missing are entered as they are usual.
        betas: β-CROWN: γ and z₀ of constraints γ (z - z₀) <= 0 on values of some nodes, [B, R, *shape] each, which are
            added to the forms.
        trail: receives the coefficients of dense forms on the image and on the outputs of curved nodes.
        stop: end at the first curved nodes and clamps, at the ranges of their outputs (interval arithmetic, last layers
            joined).

    Source: Zhang et al. (2018), CROWN, Theorem 3.2; Wang et al. (2021), β-CROWN, Theorem 3.1.

    Example:
        >>> from holdfast.numerics.bounds.activations import Relu
        >>> from holdfast.numerics.bounds.network import Node
        >>> from holdfast.parts.threats.linf import Linf
        >>> network = Network((Node(None, (), (1, 1, 1), "x"), Node(Relu(), (0,), (1, 1, 1), "relu")))
        >>> region = Region.around(Linf(0.25), torch.full((1, 1, 1, 1), 0.5), torch.tensor([0.25]).double())
        >>> ranges, row = boxes(network, region), Dense(torch.ones(1, 1, 1, 1, 1).double())
        >>> round(float(backward(network, 1, row, region, ranges, standard_relaxations(network, ranges))), 6)
        0.25
    """
    # the coefficients Λ of each node that is still to be passed, from the output back to the image
    # With α every row has lines of its own, so positions cannot share coefficients any more
    pending: dict[int, Form] = {start: form.each() if isinstance(form, Patches) and alphas is not None else form}
    total: Tensor | float = 0.0
    for index in range(start, -1, -1):
        current = pending.pop(index, None)
        if current is None:
            continue
        node = network.nodes[index]
        operation = node.operation
        if betas is not None and index in betas:
            # (49) of RVCL: P β on the coefficients, and qᵀβ beside them; γ (z - z₀) <= 0, so
            # any β >= 0 leaves a lower bound
            factor, place = betas[index]
            current = Dense(current.dense().coefs + factor)
            total = total - (factor * place).reshape(*factor.shape[:2], -1).sum(2)  # a node may be a single number
        if trail is not None and not isinstance(operation, Affine) and isinstance(current, Dense):
            trail[index] = current.coefs
        if operation is None:
            # (48) of RVCL: of c·x + c₀, c has come to the image, and c₀ is the total
            return total + region.least(current)  # concretise: the minimum over the ball
        if isinstance(operation, Scale) and not node.inputs[0] and not pending and region.ball.is_box and trail is None:
            return total + _least_in_box(current, operation.box(region.box))  # normalised pixels fill a box, too
        if stop and isinstance(operation, Clamp):  # whose range is that of its first ReLU
            first = network.nodes[node.inputs[0]]
            rising = box_of(first, [ranges[i] for i in first.inputs])
            total = total + _least_in_box(current, box_of(node, [rising, rising]))
            continue
        if isinstance(operation, Affine):
            if operation.constant is not None:
                total = total + current.dot(operation.constant)
            passed = current.through(operation)
        elif stop:  # concretise early, on the range of this activation
            total = total + _least_in_box(current, box_of(node, [ranges[i] for i in node.inputs]))
            continue
        elif isinstance(operation, Bilinear):
            x, y = (ranges[i] for i in node.inputs)
            coefs = current.dense().coefs
            if alphas is not None and (index, "plane") not in alphas:
                alphas[index, "plane"] = operation.usual(coefs, x[0], y[0])
            # The planes of McCormick that α chooses; without α those at the centre
            *relaxed, constant = operation.relax_forms(coefs, x, y, None if alphas is None else alphas[index, "plane"])
            total, passed = total + constant, [Dense(part) for part in relaxed]
        elif isinstance(operation, Total):
            # What is known of a sum is used as a Lagrange multiplier
            coefs, constant = operation.subtract_medians(current.dense().coefs, ranges[node.inputs[0]])
            total, passed = total + constant, [Dense(coefs)]
        elif isinstance(operation, MaxPool):
            # Which input stands for a maximum depends on the ranges alone, so there is nothing for α to choose
            relaxed, constant = current.relax_max_pool(operation.choose(ranges[node.inputs[0]]), operation)
            total, passed = total + constant, [relaxed]
        else:  # Λ⁺ takes the line below and Λ⁻ the one above; α chooses among lines
            lower, upper = _alphas(alphas, index, relaxations[index], current)
            relaxed, constant = current.relax(relaxations[index], lower, upper)
            total, passed = total + constant, [relaxed]
        # branches that join (residual connections) add up
        for source, part in zip(node.inputs, passed, strict=True):
            pending[source] = pending[source] + part if source in pending else part
    assert isinstance(total, Tensor)
    return total


def _alphas(
    alphas: Alphas | None, index: int, relaxation: LinearRelaxation, form: Form
) -> tuple[Tensor | None, Tensor | None]:
    """Return the α of the lines below and above a node; those that are missing are entered."""
    if alphas is None:
        return None, None
    for side, choice in (("below", relaxation.lower), ("above", relaxation.upper)):
        if choice is not None and (index, side) not in alphas:
            # Each row begins at the usual line; a clone, since the ascent moves it
            usual = form.spread(choice.usual)
            alphas[index, side] = usual.expand(torch.broadcast_shapes(usual.shape, form.coefs.shape)).clone()
    return alphas.get((index, "below")), alphas.get((index, "above"))


def _least_in_box(form: Form, box: Box) -> Tensor:
    coefs, low = form.windows(box[0])
    _, high = form.windows(box[1])
    return form.rows(least_in_box(coefs, low, high))


def standard_relaxations(network: Network, ranges: Mapping[int, Box]) -> dict[int, LinearRelaxation]:
    """Return the linear relaxations of all activations for the ranges of their inputs.

    Example:
        >>> from holdfast.numerics.bounds.activations import Relu
        >>> from holdfast.numerics.bounds.network import Node
        >>> network = Network((Node(None, (), (1,), "z"), Node(Relu(), (0,), (1,), "relu")))
        >>> chord = standard_relaxations(network, {0: (torch.tensor([[-1.0]]), torch.tensor([[3.0]]))})[1]
        >>> chord.above_slope.item(), chord.above.item(), chord.below_slope.item()
        (0.75, 0.75, 1.0)
    """
    return {
        index: operation.relax(ranges[network.nodes[index].inputs[0]])
        for index in network.nonaffine_nodes
        if isinstance(operation := network.nodes[index].operation, Curved)
    }
