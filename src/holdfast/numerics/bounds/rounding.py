"""What bounds set aside for rounding in float64."""

from collections.abc import Mapping

import torch
from torch import Tensor

from holdfast.numerics.bounds.affine import Affine
from holdfast.numerics.bounds.backward import Region, box_of
from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.margin import Margin
from holdfast.numerics.bounds.network import Network

SLACK = 2.0**-34
"""Share of the sum of magnitudes that is set aside for rounding in float64 (whose unit is 2⁻⁵³)."""


@torch.no_grad()
def rounding(network: Network, margin: Margin, region: Region, ranges: Mapping[int, Box]) -> Tensor:
    """Return what to set aside for rounding in float64, [B, R]: 2⁻³⁴ times the magnitudes of the margin's terms.

    These are the products and constants that the margin sums up, from the last activations on: Σ |w| Π |W| |a| +
    |bias|, where |a| is the largest magnitude of an activation in its range. That allows for some 2¹⁹ roundings of
    float64 in one direction; larger terms that cancel before the last activations are not looked for.

    Example:
        >>> from holdfast.numerics.bounds.affine import Matrix
        >>> from holdfast.numerics.bounds.network import Node
        >>> from holdfast.parts.threats.linf import Linf
        >>> matrix = Node(Matrix(torch.tensor([[3.0, -1.0]]).double(), None), (0,), (1,), "3 x - y")
        >>> network = Network((Node(None, (), (2,), "x"), matrix))
        >>> region = Region.around(Linf(0.5), torch.full((1, 2), 0.5), torch.tensor([0.5]).double())
        >>> margin = Margin(torch.ones(1, 1, 1).double(), torch.zeros(1, 1).double())
        >>> float(rounding(network, margin, region, {})) / SLACK  # of 3 · 1 + 1 · 1
        4.0
    """
    sizes: dict[int, Tensor] = {}
    for index in sorted(_last_stretch(network)):
        node = network.nodes[index]
        if isinstance(node.operation, Affine):
            constant = node.operation.constant
            # |W| |a| + |b| of this node, from the magnitudes of its inputs
            sizes[index] = node.operation.spread(*(sizes[i] for i in node.inputs))
            sizes[index] = sizes[index] if constant is None else sizes[index] + constant.abs()
        else:
            # Where the stretch begins: the largest magnitude in the range of an activation, or of a pixel
            low, high = region.box if node.operation is None else box_of(node, [ranges[i] for i in node.inputs])
            sizes[index] = torch.maximum(low.abs(), high.abs())
    magnitude = (margin.weights.abs() @ sizes[len(network.nodes) - 1][..., None]).squeeze(-1)
    return SLACK * (magnitude + margin.bias.abs())


def _last_stretch(network: Network) -> set[int]:
    """Return the last node and, back to the first that are not affine, those that it is computed from."""
    stretch, todo = set[int](), [len(network.nodes) - 1]
    while todo:
        index = todo.pop()
        if index not in stretch and isinstance(network.nodes[index].operation, Affine):
            todo += network.nodes[index].inputs
        stretch.add(index)
    return stretch
