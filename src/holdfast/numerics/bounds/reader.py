"""Reads an exported graph into a network; the operations are in `operations.py`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_aggregate

from holdfast.numerics.bounds.activations import Curved, MaxPool
from holdfast.numerics.bounds.affine import Affine, Conv, Matrix, Route, Scale
from holdfast.numerics.bounds.network import Network, Node
from holdfast.runtime.errors import NotCertified

EXAMPLES = 2
"""Images in the example batch; any number but 1, which torch.export treats specially."""


REMEDY = (
    "certify a convolutional or fully connected encoder, an earlier layer (?layer=), or use the sampled certificates, "
    "which take any encoder"
)
"""What to do where a network cannot be bounded."""


def place(path: str, kind: str) -> str:
    """Module of an encoder, for messages: "LayerNorm at blocks.0.norm1".

    Example:
        >>> place("module.blocks.0.norm1", "LayerNorm")
        'LayerNorm at blocks.0.norm1'
    """
    path = ".".join(part for part in path.split(".") if part not in ("module", "network")) or "its top level"
    return f"{kind} at {path}"


class Value(int):
    """The number of a node; a type of its own, because whole numbers are constants of the graph too."""


class Reader:
    """Builds nodes from an exported graph; values that do not depend on the image are computed at once."""

    def __init__(self, program: torch.export.ExportedProgram, encoder: str):
        self._program, self._encoder = program, encoder
        self.nodes: list[Node] = []
        self.values: dict[fx.Node, int | Tensor] = {}
        self.normalised: str | None = None
        self.at: fx.Node | None = None

    def network(self) -> Network:
        """Return the network that ends in the program's output, without nodes that it does not need."""
        signature = self._program.graph_signature
        tensors = {**self._program.state_dict, **self._program.constants}
        targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        targets |= signature.inputs_to_lifted_tensor_constants
        for node in self._program.graph.nodes:
            self.at = node
            if node.op == "placeholder" and node.name in targets:
                self.values[node] = tensors[targets[node.name]].detach()
            elif node.op == "placeholder":
                self.values[node] = self.append(None, ())
            elif node.op == "output":
                return self._finish(node.args[0][0])
            else:
                self.values[node] = self._call(node)
        raise self.refuse("a graph without output")

    def _finish(self, output: fx.Node) -> Network:
        last = self.values[output]
        if not isinstance(last, int):
            raise NotCertified(f"not certified: the output of encoder {self._encoder!r} does not depend on the image")
        needed, order = {last}, []
        for index in range(last, -1, -1):
            if index in needed:
                order.append(index)
                needed |= set(self.nodes[index].inputs)
        order.reverse()
        place = {old: new for new, old in enumerate(order)}
        nodes = [self.nodes[old] for old in order]
        return Network(
            tuple(Node(n.operation, tuple(place[i] for i in n.inputs), n.shape, n.name) for n in nodes),
            self.normalised,
        )

    # --- reading the graph ---

    def where(self, node: fx.Node | None = None) -> str:
        """Module that a node of the graph belongs to: "LayerNorm at blocks.0.norm1"."""
        node = node or self.at
        stack = node.meta.get("nn_module_stack") if node is not None else None
        if not stack:
            return "the encoder"
        path, kind = list(stack.values())[-1]
        return place(path, str(kind).rpartition(".")[2])

    def refuse(self, operation: str) -> NotCertified:
        """Return the error that says where an operation is that cannot be bounded."""
        return NotCertified(
            f"not certified: {self.where()} of encoder {self._encoder!r}: {operation} cannot be bounded; {REMEDY}"
        )

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the current value, without its batch."""
        assert self.at is not None
        shape = tuple(self.at.meta["val"].shape)
        if not shape or shape[0] != EXAMPLES:
            raise self.refuse("an operation that mixes the images of a batch")
        return shape[1:]

    def append(self, operation: Affine | Curved | MaxPool | None, inputs: tuple[int, ...]) -> int:
        """Append an operation on earlier values; return the number of its own value."""
        shape = self.shape()
        previous = self.nodes[inputs[0]] if inputs else None
        if isinstance(operation, Scale) and previous is not None and self._alone(inputs[0]):
            folded = _folded(previous.operation, operation)
            if folded is not None:
                self.nodes.append(Node(folded, previous.inputs, shape, previous.name))
                return Value(len(self.nodes) - 1)
        self.nodes.append(Node(operation, inputs, shape, self.where()))
        return Value(len(self.nodes) - 1)

    def _alone(self, index: int) -> bool:
        """Whether a value has one reader."""
        readers = (len(n.users) for n, value in self.values.items() if isinstance(value, int) and value == index)
        return sum(readers) == 1

    def _call(self, node: fx.Node) -> int | Tensor:
        def value(argument: Any) -> Any:
            return self.values[argument] if isinstance(argument, fx.Node) else argument

        arguments: Any = map_aggregate(node.args, value)
        options: Any = map_aggregate(node.kwargs, value)
        if not any(isinstance(self.values.get(n), int) for n in node.all_input_nodes):
            return node.target(*arguments, **options)  # pyright: ignore[reportCallIssue]
        name = str(node.target).removeprefix("aten.").partition(".")[0].rstrip("_")
        handler: Callable[..., int] | None = getattr(self, f"_op_{name}", None)
        if handler is None:
            raise self.refuse(name if name != "<built-in function getitem>" else "an operation with several outputs")
        return handler(*arguments, **options)

    def constant_of(self, value: Tensor | float) -> Tensor:
        """Return something that does not depend on the image, in the shape of this node's value."""
        shape = self.shape()
        tensor = torch.as_tensor(value, dtype=torch.float64)
        tensor = tensor.to(self.at.meta["val"].dtype).expand(EXAMPLES, *shape)  # type: ignore[union-attr]
        if not torch.equal(tensor[0], tensor[1]):
            raise self.refuse("a constant that differs between the images of a batch")
        return tensor[0]

    def depends(self, *values: Any) -> list[bool]:
        """Whether each value depends on the image."""
        return [isinstance(value, Value) for value in values]

    def route(self, x: int, function: Callable[[Tensor], Tensor]) -> int:
        """Append an operation that only moves values from place to place."""
        inner = self.nodes[x].shape
        constant = function(torch.zeros(1, *inner, dtype=self.at.meta["val"].dtype))[0]  # type: ignore[union-attr]
        return self.append(Route(function, inner, constant if constant.any() else None), (x,))


def _folded(before: Any, scale: Scale) -> Affine | None:
    """Return one operation for a convolution or a matrix with a scale after it; None where there is none."""
    shift = 0 if scale.constant is None else scale.constant
    constant = (
        shift if before is None or getattr(before, "constant", None) is None else before.constant * scale.factor + shift
    )
    constant = constant if isinstance(constant, Tensor) else None
    if isinstance(before, Conv):
        factor = scale.factor[:, 0, 0]
        if torch.equal(factor[:, None, None].expand_as(scale.factor), scale.factor):
            return replace(before, weight=before.weight * factor[:, None, None, None], constant=constant)
    if isinstance(before, Matrix) and scale.factor.ndim == 1:
        return replace(before, weight=before.weight * scale.factor[:, None], constant=constant)
    return None
