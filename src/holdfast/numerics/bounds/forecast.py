"""How many values inside a network will have to be bounded: told from a few of each layer, before it is done."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from holdfast.numerics.bounds.backward import Region, backward, box_of, meet
from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.network import Network
from holdfast.numerics.bounds.relaxation import Curved, LinearRelaxation
from holdfast.numerics.bounds.units import units

SAMPLE = 6
"""Values of each layer that are bounded."""


@torch.no_grad()
def forecast(
    network: Network, region: Region, ranges: Mapping[int, Box], signs: Mapping[int, bool]
) -> Iterator[tuple[int, int, int]]:
    """Give nodes, how many of their values will be bounded, and how many of these stay open, about, layer by layer.

    A few of the values of each layer that matter, evenly through it, are bounded as all of them will be. By how much
    that is tighter than one step of interval arithmetic shrinks the ranges of the others that matter, so that what is
    foretold of a layer serves the next one. These guesses prove nothing: they count.

    Args:
        network: the network.
        region: around one image.
        ranges: of all nodes, by interval arithmetic.
        signs: nodes that are to be bounded, and whether only those of their values matter whose sign is open.

    Example:
        >>> from holdfast.numerics.bounds.affine import Matrix
        >>> from holdfast.numerics.bounds.backward import boxes
        >>> from holdfast.numerics.bounds.network import Node
        >>> from holdfast.numerics.bounds.relu import Relu
        >>> from holdfast.parts.threats.linf import Linf
        >>> matrix = Matrix(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), None)
        >>> nodes = (Node(None, (), (2,), "x"), Node(matrix, (0,), (2,), "matrix"), Node(Relu(), (1,), (2,), "relu"))
        >>> x = torch.full((1, 2), 0.5)
        >>> region = Region(Linf(0.25), x, torch.tensor([0.25]), (x - 0.25, x + 0.25))
        >>> network = Network(nodes)
        >>> list(forecast(network, region, boxes(network, region), {1: True}))  # the sum is positive
        [(1, 1, 1)]
    """
    guessed: dict[int, Box] = {0: ranges[0]}
    clean: dict[int, Tensor] = {0: region.x}
    relaxations: dict[int, LinearRelaxation] = {}
    last = max(signs, default=0)
    for index, node in enumerate(network.nodes[: last + 1]):
        operation = node.operation
        if operation is None:
            continue
        # The value at the image itself, towards which ranges shrink
        clean[index] = operation(*(clean[i] for i in node.inputs))
        # one step of interval arithmetic from what was guessed before
        step = meet(box_of(node, [guessed[i] for i in node.inputs]), ranges[index])
        guessed[index] = step
        if isinstance(operation, Curved):
            relaxations[index] = operation.relax(guessed[node.inputs[0]])
        # how much tighter CROWN is, by a few values
        if index in signs:
            matters = _open(step) if signs[index] else torch.ones_like(step[0], dtype=torch.bool)
            places = matters[0].flatten().nonzero().flatten()
            if len(places):
                # Evenly through the layer, each once
                few = places[torch.linspace(0, len(places) - 1, min(SAMPLE, len(places))).long()].unique()
                share = _share(network, index, few, region, guessed, relaxations)
                low, high = (torch.where(matters, clean[index] + share * (end - clean[index]), end) for end in step)
                guessed[index] = (low, high)
            # What is still open after CROWN is what an ascent would be made for
            yield index, len(places), int(_open(guessed[index]).sum()) if signs[index] else len(places)


def _open(box: Box) -> Tensor:
    return (box[0] < 0) & (box[1] > 0)


def _share(
    network: Network,
    node: int,
    places: Tensor,
    region: Region,
    ranges: Mapping[int, Box],
    relaxations: Mapping[int, LinearRelaxation],
) -> float:
    """Return how wide the ranges of some values are by CROWN, as a share of those given; 1 at most."""
    matters = torch.zeros(network.nodes[node].shape, dtype=torch.bool, device=places.device)
    matters.view(-1)[places] = True
    before = (ranges[node][1] - ranges[node][0])[0][matters].sum()
    after = sum(
        -backward(network, node, form, region, ranges, relaxations).sum()  # each value's greatest less its least
        for form, _ in units(matters.shape, matters, region.x, SAMPLE)
    )
    return float((after / before).clamp(0, 1)) if before > 0 else 1.0
