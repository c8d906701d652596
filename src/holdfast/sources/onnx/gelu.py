"""GELU, which files spell out as x (1 + erf(x / sqrt 2)) / 2, as the one operation that torch has for it.

It is faster, and can be certified. No other function is taken for it.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from holdfast.sources.onnx.graph import Graph, Node
from holdfast.sources.onnx.operator import STANDARD

SPELLED = 4
"""Products at most between the sum and the result."""

VERSION = 20
"""Of the operator Gelu."""

Factors = tuple[float, list[str]]
"""A product: of numbers, and of tensors by name."""


def with_gelus(graph: Graph) -> Graph:
    """Return a graph with the operator Gelu wherever that is what it computes."""
    reading = _Reading(graph)
    tops = {
        top.name: x for node in graph.nodes if node.op == "Erf" if (found := reading.gelu(node)) for top, x in [found]
    }
    if not tops:
        return graph
    nodes = [
        Node("Gelu", STANDARD, node.name, VERSION, (tops[node.name],), node.outputs, {"approximate": "none"})
        if node.name in tops
        else node
        for node in graph.nodes
    ]
    # What was between is read by nobody now
    return replace(graph, nodes=tuple(nodes)).computing(graph.outputs[0])


class _Reading:
    def __init__(self, graph: Graph):
        self._constants = graph.constants
        self._makers = {name: node for node in graph.nodes for name in node.outputs}
        self._readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.reads:
                self._readers.setdefault(name, []).append(node)
        self._uses = Counter({name: len(nodes) for name, nodes in self._readers.items()})
        # Outputs are read as well, though by no node
        self._uses.update(graph.outputs)

    def gelu(self, erf: Node) -> tuple[Node, str] | None:
        """Return the node that gives x (1 + erf) / 2, and the name of x, where there is one."""
        # erf(x / √2): one factor and the number √(1/2)
        scale, inner = self._factors(erf.inputs[0])
        above = list(self._alone(erf))
        if len(inner) != 1 or not _near(scale, math.sqrt(0.5)) or not above or above[0].op != "Add":
            return None
        # 1 + erf
        if 1.0 not in [self._number(name) for name in above[0].inputs]:
            return None
        wanted = sorted((inner[0], above[0].outputs[0]))
        # From the sum upwards, the first product that is half of x (1 + erf)
        for node in above[1:]:
            half, factors = self._factors(node.outputs[0])
            if _near(half, 0.5) and sorted(factors) == wanted:
                return node, inner[0]
        return None

    def _alone(self, node: Node) -> Iterator[Node]:
        """Yield what reads a node's value, as long as nothing else does."""
        for _ in range(SPELLED):
            # A value that others read too must stay, so that nothing is gained
            if self._uses[node.outputs[0]] != 1 or node.outputs[0] not in self._readers:
                return
            (node,) = self._readers[node.outputs[0]]
            yield node

    def _factors(self, name: str, root: bool = True) -> Factors:
        """Return a value as a product, taken apart down to what others read too."""
        if (number := self._number(name)) is not None:
            return number, []
        node = self._makers.get(name)
        # Factors that others read are not taken apart, since they are computed anyway
        if node is None or not (root or self._uses[name] == 1):
            return 1.0, [name]
        if node.op == "Mul":
            (a, first), (b, second) = (self._factors(part, False) for part in node.inputs)
            return a * b, first + second
        if node.op == "Div" and (divisor := self._number(node.inputs[1])):
            scale, factors = self._factors(node.inputs[0], False)
            return scale / divisor, factors
        return 1.0, [name]

    def _number(self, name: str) -> float | None:
        value = self._constants.get(name)
        return float(value) if value is not None and value.numel() == 1 and value.is_floating_point() else None


def _near(value: float, expected: float) -> bool:
    return math.isclose(value, expected, rel_tol=1e-6)
