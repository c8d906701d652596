"""GELU, which ONNX files spell out as x (1 + erf(x / sqrt 2)) / 2, as the one operation that torch has for it."""

import math
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn

_SPELLED = 4
"""Products at most between the sum and the result."""

Factors = tuple[float, list[fx.Node]]
"""A product: of numbers, and of what is computed."""


def with_gelus(graph: fx.GraphModule) -> fx.GraphModule:
    """Return a converted graph with `nn.GELU` wherever that is what it computes: it is faster, and can be certified."""
    for node in list(graph.graph.nodes):
        if _kind(graph, node) == "OnnxErf":
            scale, inner = _factors(graph, node.args[0])
            top = _top(graph, node, inner[0]) if len(inner) == 1 and _near(scale, math.sqrt(0.5)) else None
            if top is not None:
                graph.set_submodule(str(top.target), nn.GELU())
                top.args, top.kwargs = (inner[0],), {}
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _top(graph: fx.GraphModule, erf: fx.Node, x: fx.Node) -> fx.Node | None:
    """Return the node that gives x (1 + erf) / 2, where there is one."""
    above = list(_alone(erf))
    if not above or _kind(graph, above[0]) != "add" or 1.0 not in [_number(graph, arg) for arg in above[0].args]:
        return None
    for node in above[1:]:
        scale, factors = _factors(graph, node)
        if _near(scale, 0.5) and sorted(map(str, factors)) == sorted(map(str, (x, above[0]))):
            return node
    return None


def _alone(node: fx.Node) -> Iterator[fx.Node]:
    """Yield what reads a node, as long as nothing else does."""
    for _ in range(_SPELLED):
        if len(node.users) != 1:
            return
        node = next(iter(node.users))
        yield node


def _factors(graph: fx.GraphModule, node: Any, root: bool = True) -> Factors:
    """Return a node as a product, taken apart down to what others read too."""
    if (number := _number(graph, node)) is not None:
        return number, []
    kind = _kind(graph, node) if root or len(node.users) == 1 else ""
    if kind == "mul":
        (a, first), (b, second) = (_factors(graph, arg, False) for arg in node.args)
        return a * b, first + second
    if kind == "_onnx_div" and (divisor := _number(graph, node.args[1])):
        scale, factors = _factors(graph, node.args[0], False)
        return scale / divisor, factors
    return 1.0, [node]


def _number(graph: fx.GraphModule, node: Any) -> float | None:
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return None
    value = attrgetter(str(node.target))(graph)
    return float(value) if isinstance(value, Tensor) and value.numel() == 1 and torch.is_floating_point(value) else None


def _kind(graph: fx.GraphModule, node: Any) -> str:
    """Return the name of a module's class, or of its arithmetic."""
    if not isinstance(node, fx.Node) or node.op != "call_module":
        return ""
    module = graph.get_submodule(str(node.target))
    arithmetic = getattr(module, "math_op_function", None)
    return type(module).__name__ if arithmetic is None else arithmetic.__name__


def _near(value: float, expected: float) -> bool:
    return math.isclose(value, expected, rel_tol=1e-6)
