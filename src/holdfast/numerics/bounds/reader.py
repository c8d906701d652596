"""Reads an exported graph into a network; the handlers of its operations are in the files `read_*`.

The graph is that of one image, so that its batch axis may go anywhere: to the middle in an attention, into the number
of heads. The values of a network have no batch axis; each is a tensor of the graph without a first axis of length 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_aggregate

from holdfast.numerics.bounds.affine import Affine, Conv, Matrix, Reshape, Route, Scale
from holdfast.numerics.bounds.network import ANY, Network, Node, Operation, keep_needed
from holdfast.runtime.errors import NotCertified

REMEDY = (
    "replace it by an operation that docs/certificates.md lists, certify an earlier layer (?layer=), or use the "
    "sampled certificates, which take any encoder"
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


VIEWS = {
    "T", "adjoint", "alias", "chunk", "contiguous", "detach", "diagonal", "expand", "expand_as", "flatten", "getitem",
    "mT", "movedim", "narrow", "numpy_T", "permute", "reshape", "select", "slice", "split", "split_with_sizes",
    "squeeze", "swapaxes", "t", "to", "transpose", "unbind", "unflatten", "unfold", "unsqueeze", "view", "view_as",
}  # fmt: skip
"""Operations whose result may be the same memory."""


class Value(int):
    """The number of a node; a type of its own, because whole numbers are constants of the graph too.

    Attributes:
        shape: of the tensor in the graph, where the network's value has no first axis of length 1.
    """

    shape: tuple[int, ...]

    def __new__(cls, number: int, shape: tuple[int, ...]) -> "Value":
        """Return the number with the shape."""
        value = super().__new__(cls, number)
        value.shape = shape
        return value


@dataclass(frozen=True)
class Several:
    """The outputs of an operation with several, each a function of one value; `getitem` takes them.

    Attributes:
        value: of which they are functions.
        function: from it to all of them.
        extreme: whether the first is a maximum or minimum, and the second its place, which cannot be bounded.
    """

    value: Value
    function: Callable[[Tensor], Any]
    extreme: bool = False


def without_batch(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its first axis where that has length 1.

    Example:
        >>> without_batch((1, 3, 8, 8)), without_batch((4, 1, 16))
        ((3, 8, 8), (4, 1, 16))
    """
    return shape[1:] if shape[:1] == (1,) else shape


class Reader:
    """Builds nodes from an exported graph; values that do not depend on the image are computed at once."""

    def __init__(
        self, program: torch.export.ExportedProgram, encoder: str, weights: Mapping[str, Tensor] | None = None
    ):
        self._program, self._encoder, self._weights = program, encoder, weights or {}
        self.nodes: list[Node] = []
        self.values: dict[fx.Node, int | Tensor | Several] = {}
        self.normalised: str | None = None
        self.at: fx.Node | None = None

    def network(self) -> Network:
        """Return the network that ends in the program's output, without nodes that it does not need."""
        # Parameters, buffers and constants are inputs of the graph, known by name
        signature = self._program.graph_signature
        tensors = {**self._program.state_dict, **self._program.constants}
        tensors = {name: value.detach() for name, value in tensors.items() if isinstance(value, Tensor)}
        tensors |= self._weights  # these keep their gradients
        targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        targets |= signature.inputs_to_lifted_tensor_constants
        for node in self._program.graph.nodes:
            self.at = node
            if node.op == "placeholder" and node.name in targets:
                self.values[node] = tensors[targets[node.name]]
            elif node.op == "placeholder":  # the image
                self.values[node] = self.append(None, ())
            elif node.op == "output":
                return self._finish(node.args[0])
            elif operation(node) != "_assert_tensor_metadata":  # which has no value, and was true when exported
                self.values[node] = self._call(node)
                # In place, such as aten.relu_.default: from here on the value is what came out
                if str(node.target).partition(".")[2].partition(".")[0].endswith("_"):
                    self._change(node.args[0], node)
        raise self.refuse("a graph without output")

    def _change(self, changed: Any, by: fx.Node) -> None:
        """Let what reads a value after an operation in place read what that gave; refuse parts of values."""
        # The memory that changes: what all views go back to, and every other view of it
        root = changed
        while root.op == "call_function" and operation(root) in VIEWS:
            root = root.all_input_nodes[0]
        shared = [root]
        for node in shared:
            shared += [user for user in node.users if user is not by and operation(user) in VIEWS]
        # Who reads it later by another name would have to see a part of it changed, which is not kept track of
        others = [user for node in shared if node is not changed for user in node.users if operation(user) not in VIEWS]
        if any(user not in self.values and user is not by for user in others):
            raise self.refuse(f"{operation(by)} in place on a part of a value")
        self.values[changed] = self.values[by]

    def _finish(self, outputs: tuple[fx.Node, ...]) -> Network:
        if len(outputs) != 1:
            raise NotCertified(
                f"not certified: encoder {self._encoder!r} gives {len(outputs)} outputs, expected one: take a layer of "
                "it (?layer=)"
            )
        last = self.values[outputs[0]]
        if not isinstance(last, int):
            raise NotCertified(f"not certified: the output of encoder {self._encoder!r} does not depend on the image")
        # What nothing needs (such as what was folded) is left out
        return Network(keep_needed(last, self.nodes), self.normalised)

    # --- reading the graph ---

    def where(self, node: fx.Node | None = None) -> str:
        """Module that a node of the graph belongs to: "LayerNorm at blocks.0.norm1"."""
        node = node or self.at
        stack = node.meta.get("nn_module_stack") if node is not None else None
        if not stack:
            return "the encoder"
        path, kind = list(stack.values())[-1]  # the innermost module
        return place(path, str(kind).rpartition(".")[2])

    def refuse(self, operation: str) -> NotCertified:
        """Return the error that says where an operation is that cannot be bounded."""
        return NotCertified(
            f"not certified: {self.where()} of encoder {self._encoder!r}: {operation} cannot be bounded; {REMEDY}"
        )

    def full_shape(self) -> tuple[int, ...]:
        """Return the shape of the current tensor of the graph."""
        assert self.at is not None
        return tuple(self.at.meta["val"].shape)

    def shape(self) -> tuple[int, ...]:
        """Return the shape of the current value, without its batch."""
        return without_batch(self.full_shape())

    def picture(self, x: int) -> tuple[int, int, int]:
        """Return the shape of a value that is [channels, height, width]."""
        shape = self.nodes[x].shape
        if len(shape) != 3:
            raise self.refuse(f"this operation on {list(shape)} (expected channels, height, width)")
        return shape[0], shape[1], shape[2]

    def then(self, operation: Operation, *inputs: int, known: tuple[float, float] = ANY) -> Value:
        """Append one of several operations that make up a node of the graph, with a shape of its own."""
        # Values do not matter: the operation itself tells the shape
        zeros = (torch.zeros(1, *self.nodes[i].shape, dtype=torch.float64) for i in inputs)
        shape = tuple(operation(*zeros).shape[1:])
        self.nodes.append(Node(operation, inputs, shape, self.where(), known))
        return Value(len(self.nodes) - 1, shape)

    def reshape_to(self, x: int, shape: tuple[int, ...]) -> Value:
        """Return the same values in another shape."""
        inner = self.nodes[x].shape
        return Value(x, shape) if inner == shape else self.then(Reshape(inner, shape), x)

    def append(self, operation: Operation | None, inputs: Sequence[int], full: tuple[int, ...] | None = None) -> Value:
        """Append an operation on earlier values; return the number of its own value.

        Args:
            operation: on the network's values.
            inputs: their numbers.
            full: the shape of the graph's tensor; None: that of the current one.
        """
        full = self.full_shape() if full is None else full
        shape = without_batch(full)
        previous = self.nodes[inputs[0]] if inputs else None
        # BatchNorm goes into the weights before it, unless something else reads what these give
        if isinstance(operation, Scale) and previous is not None and self._alone(inputs[0]):
            folded = fold_scale(previous.operation, operation)
            if folded is not None:
                self.nodes.append(Node(folded, previous.inputs, shape, previous.name))
                return Value(len(self.nodes) - 1, full)
        self.nodes.append(Node(operation, tuple(inputs), shape, self.where()))
        return Value(len(self.nodes) - 1, full)

    def _alone(self, index: int) -> bool:
        """Whether a value has one reader."""
        # A value has several names in the graph where it was reshaped; the readers of all of them count
        readers = (len(n.users) for n, value in self.values.items() if isinstance(value, int) and value == index)
        return sum(readers) == 1

    def _call(self, node: fx.Node) -> int | Tensor | Several:
        def value(argument: Any) -> Any:
            return self.values[argument] if isinstance(argument, fx.Node) else argument

        arguments: Any = map_aggregate(node.args, value)
        options: Any = map_aggregate(node.kwargs, value)
        # Made of constants alone, so it is a constant itself, computed once and for all
        if not any(isinstance(self.values.get(n), (int, Several)) for n in node.all_input_nodes):
            return node.target(*arguments, **options)  # pyright: ignore[reportCallIssue]
        name = operation(node)
        handler: Callable[..., int | Several] | None = getattr(self, f"_op_{name}", None)
        result = handler(*arguments, **options) if handler is not None else self.read_other(name, *arguments, **options)
        return result if isinstance(result, Several) else Value(result, self.full_shape())

    def read_other(self, name: str, *arguments: Any, **options: Any) -> int | Several:
        """Append an operation that has no handler of its own."""
        raise self.refuse(name)

    def constant_of(self, value: Tensor | float) -> Tensor:
        """Return something that does not depend on the image, in the shape of this node's value."""
        tensor = torch.as_tensor(value, dtype=torch.float64)
        tensor = tensor.to(self.at.meta["val"].dtype)  # type: ignore[union-attr]
        if not tensor.isfinite().all():
            raise self.refuse("a constant that is NaN or infinite")
        # Scalars and broadcast axes are written out: constants have the shape of their value
        return tensor.expand(self.full_shape()).reshape(self.shape())

    def depends(self, *values: Any) -> list[bool]:
        """Whether each value depends on the image."""
        return [isinstance(value, Value) for value in values]

    def scale(self, x: int, factor: Tensor | float, shift: Tensor | float) -> int:
        """Append factor · value + shift."""
        constant = self.constant_of(shift)
        # A shift that is learned is kept at 0, too, for its gradient
        kept = constant if constant.requires_grad or constant.any() else None
        return self.append(Scale(self.constant_of(factor), kept), (x,))

    def route(self, x: Value, function: Callable[[Tensor], Tensor]) -> Value:
        """Append a function of the graph's tensor that moves values, or adds them up with weights >= 0."""
        before, inner = x.shape, self.nodes[x].shape
        # No two of these numbers are equal, so what becomes of them tells what the function does
        values = torch.rand(before, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        moved = function(values)
        full, outer = tuple(moved.shape), without_batch(tuple(moved.shape))
        if torch.equal(moved.flatten(), values.flatten()):  # only another shape
            same = inner == outer
            return Value(x, full) if same else self.append(Reshape(inner, outer), (x,), full)
        # What zeros become is the constant; its precision is that of the graph's tensor, the first of several
        value = self.at.meta["val"]  # type: ignore[union-attr]
        dtype = (value if isinstance(value, Tensor) else value[0]).dtype
        constant = function(torch.zeros(before, dtype=dtype)).reshape(outer)
        # The graph is that of one image, and the function may have its sizes: then it is mapped over rows
        rows = function if _image_by_image(function, values, moved) else _for_each_row(function, before, outer)
        return self.append(Route(rows, inner, constant if constant.any() else None), (x,), full)


def _image_by_image(function: Callable[[Tensor], Tensor], values: Tensor, moved: Tensor) -> bool:
    """Whether a function of one image does for several what it does for each."""
    if values.shape[:1] != (1,) or moved.shape[:1] != (1,):
        return False
    try:
        # Three images that differ, against each by itself
        several = function(torch.cat([values, 2 * values, -values]))
    except (RuntimeError, IndexError):  # sizes that are those of one image
        return False
    return torch.equal(several, torch.cat([moved, function(2 * values), function(-values)]))


def _for_each_row(
    function: Callable[[Tensor], Tensor], before: tuple[int, ...], outer: tuple[int, ...]
) -> Callable[[Tensor], Tensor]:
    """Return a function of one tensor of the graph as one of rows of values."""
    return torch.func.vmap(lambda z: function(z.reshape(before)).reshape(outer))


def operation(node: fx.Node) -> str:
    """Return the name of a node's operation, without the overload and the _ of those in place.

    Example:
        >>> operation(fx.Graph().call_function(torch.ops.aten.relu_.default))
        'relu'
    """
    return getattr(node.target, "__name__", str(node.target)).removeprefix("aten.").partition(".")[0].rstrip("_")


def two(value: Any) -> tuple[int, int]:
    """Return a pair from a number, a list of one or a pair.

    Example:
        >>> two(3), two([1, 2])
        ((3, 3), (1, 2))
    """
    values = [value] if isinstance(value, int) else list(value)
    return values[0], values[-1]


def fold_scale(before: Any, scale: Scale) -> Affine | None:
    """Return one operation for a convolution, matrix or scale with a scale after it; None where there is none.

    Example:
        >>> fold_scale(Scale(torch.ones(1), torch.ones(1)), Scale(2 * torch.ones(1), None)).constant
        tensor([2.])
    """
    shift = 0 if scale.constant is None else scale.constant
    # The constant of factor · (L x + c) + shift, of which c or shift may be missing
    constant = (
        shift if before is None or getattr(before, "constant", None) is None else before.constant * scale.factor + shift
    )
    constant = constant if isinstance(constant, Tensor) else None
    if isinstance(before, Conv):
        # All positions of a channel share weights, so only one factor a channel can be folded
        factor = scale.factor[:, 0, 0]
        if torch.equal(factor[:, None, None].expand_as(scale.factor), scale.factor):
            return replace(before, weight=before.weight * factor[:, None, None, None], constant=constant)
    if isinstance(before, Scale):
        return Scale(before.factor * scale.factor, constant)
    # A matrix on the last of several axes has one weight for all rows, whose factors may differ
    if isinstance(before, Matrix) and scale.factor.ndim == 1:
        return replace(before, weight=before.weight * scale.factor[:, None], constant=constant)
    return None
