"""Which value of a network is worth splitting: what its relaxations may cost a bound, and where its range is cut."""

from collections.abc import Mapping

import torch
from torch import Tensor

from holdfast.numerics.bounds.activations import Relu, Smooth
from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.products import Bilinear
from holdfast.numerics.bounds.relaxation import Curved, LinearRelaxation

SHARE = 0.2
"""Of a range, that a cut where an activation bends leaves on either side."""

NARROW = 1e-6
"""A range is not cut any more once it is this narrow, next to the larger of 1 and its ends."""


def splittable(network: Network) -> tuple[int, ...]:
    """Return the nodes whose ranges may be split: what activations and products read.

    Example:
        >>> from holdfast.numerics.bounds.network import Node
        >>> splittable(Network((Node(None, (), (1,), "z"), Node(Relu(), (0,), (1,), "relu"))))
        (0,)
    """
    readers = (network.nodes[i] for i in network.nonaffine_nodes)
    return tuple(sorted({s for n in readers if isinstance(n.operation, (Curved, Bilinear)) for s in n.inputs}))


def cut(network: Network, source: int, box: Box) -> tuple[Tensor, Tensor]:
    """Return where the ranges of a node would be cut, and whether that is worth it; [B, *shape] each.

    At 0 where a ReLU reads a value of either sign, for ReLU is exact on both sides of it; where an activation bends, if
    that is not near an end; else in the middle.

    Example:
        >>> from holdfast.numerics.bounds.network import Node
        >>> network = Network((Node(None, (), (1,), "z"), Node(Relu(), (0,), (1,), "relu")))
        >>> place, worth = cut(network, 0, (torch.tensor([[-1.0], [1.0]]), torch.tensor([[3.0], [2.0]])))
        >>> place.flatten().tolist(), worth.flatten().tolist()
        ([0.0, 1.5], [True, False])
    """
    # Halved before they are added: the sum of two large ends may overflow
    low, high = box
    middle = low / 2 + high / 2
    either = (low < 0) & (high > 0)
    for operation in network.range_readers[source]:
        # At a bend that is not near an end the function is convex on one side and concave on the other
        for bend in operation.bends if isinstance(operation, Smooth) else ():
            inside = (bend > low + SHARE * (high - low)) & (bend < high - SHARE * (high - low))
            middle = torch.where(inside, bend, middle)
    if any(isinstance(operation, Relu) for operation in network.range_readers[source]):
        middle = torch.where(either, 0.0, middle)
    # Where nothing but ReLUs read it, a value of a known sign is exact already
    if network.sign_alone(source):
        return middle, either
    # Other functions gain from any cut, until a range is narrow; one without ends cannot be halved
    size = torch.maximum(low.abs(), high.abs()).clamp_min(1)
    return middle, torch.isfinite(size) & (high - low > NARROW * size)


def costs(
    network: Network,
    ranges: Mapping[int, Box],
    relaxations: Mapping[int, LinearRelaxation],
    trail: Mapping[int, Tensor],
) -> dict[int, Tensor]:
    """Return what the relaxations of what reads a node may cost at most, [B, *shape] for each node of `splittable`.

    Of an activation: |a| times the distance from σ to the line on the side of the coefficient a of its output, the
    largest at the ends of the range and where it would be cut. Of a product: |a| times the half-widths of both ranges.

    Args:
        network: the network.
        ranges: of the inputs of curved nodes.
        relaxations: of activations.
        trail: coefficients of one row on the outputs of curved nodes, [B, 1, *shape], see `backward`.

    Source: Bunel et al. (2020), "Branch and bound for piecewise linear neural network verification" (BaBSR), for ReLU.

    Example:
        >>> from holdfast.numerics.bounds.backward import standard_relaxations
        >>> from holdfast.numerics.bounds.network import Node
        >>> network = Network((Node(None, (), (1,), "z"), Node(Relu(), (0,), (1,), "relu")))
        >>> ranges = {0: (torch.tensor([[-1.0]]), torch.tensor([[3.0]]))}
        >>> costs(network, ranges, standard_relaxations(network, ranges), {1: torch.tensor([[[-2.0]]])})[0].item()
        1.5
    """
    total: dict[int, Tensor] = {}

    def add(source: int, cost: Tensor) -> None:
        total[source] = total[source] + cost if source in total else cost

    for index in network.nonaffine_nodes:
        node, operation = network.nodes[index], network.nodes[index].operation
        # The row does not read this node
        if index not in trail:
            continue
        coefs = trail[index][:, 0]  # [B, *shape], of the only row
        if isinstance(operation, Curved):
            (source,) = node.inputs
            low, high = ranges[source]
            line = relaxations[index]
            # σ less the line below it, and the line above less σ, where either may be largest
            below, above = torch.zeros_like(low), torch.zeros_like(low)
            for z in (low, cut(network, source, (low, high))[0], high):
                value = operation(z)
                below = torch.maximum(below, value - line.below_slope * z - (0.0 if line.below is None else line.below))
                above = torch.maximum(above, line.above_slope * z + line.above - value)
            # A positive coefficient takes the line below, a negative one the line above
            add(source, coefs.clamp_min(0) * below + coefs.clamp_max(0).abs() * above)
        elif isinstance(operation, Bilinear):
            # |a| w_x w_y of every product, added up for each value that enters it
            wide = [(ranges[i][1] - ranges[i][0]) / 2 for i in node.inputs]
            parts = operation.adjoint(trail[index].abs(), *wide)
            for source, half, part in zip(node.inputs, wide, parts, strict=True):
                add(source, half * part[:, 0])
    return total
