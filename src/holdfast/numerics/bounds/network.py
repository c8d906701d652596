"""A network as bound propagation sees it: affine and curved operations in the order in which they run."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from holdfast.numerics.bounds.activations import Curved, MaxPool, Relu
from holdfast.numerics.bounds.affine import Affine, Conv, Matrix, Reshape, Route, Scale
from holdfast.numerics.bounds.axes import Differences, Total
from holdfast.numerics.bounds.products import Bilinear

Operation = Affine | Curved | MaxPool | Bilinear | Total

ANY = (-math.inf, math.inf)
"""What is known of values of which nothing is known."""

PAIRS = 2**12
"""Differences of one softmax that are bounded one by one, at most; of more, the scores are, and differences follow."""

SMALLEST_NORM = 1e-6
"""Normalised heads may divide by this instead of a norm that is smaller (torch: by 1e-12)."""


@dataclass(frozen=True, eq=False)
class Node:
    """One value of the network.

    Attributes:
        operation: how it is computed; None for the image.
        inputs: from which nodes.
        shape: of the value, without the batch.
        name: the module that computes it, for messages.
        known: lowest and highest value that it can have for any image, such as 0 and 1 of a softmax.
    """

    operation: Operation | None
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    name: str
    known: tuple[float, float] = ANY


@dataclass(frozen=True, eq=False)
class Network:
    """Nodes in the order in which they run: the first is the image, the last the representation.

    Attributes:
        nodes: as above.
        normalised: whether the encoder divides the last node by its ℓ2 norm. That does not change the sign of a
            margin without bias, so it is left out; other margins cannot be bounded.
    """

    nodes: tuple[Node, ...]
    normalised: str | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return the representation: what the encoder computes (without a final normalisation)."""
        values = [x]
        for node in self.nodes[1:]:
            assert node.operation is not None
            values.append(node.operation(*(values[i] for i in node.inputs)))
        return values[-1]

    @cached_property
    def nonaffine_nodes(self) -> tuple[int, ...]:
        """The nodes whose operation is not affine: they need the ranges of their inputs."""
        return tuple(i for i, n in enumerate(self.nodes) if n.inputs and not isinstance(n.operation, Affine))

    @cached_property
    def range_readers(self) -> dict[int, tuple[Operation, ...]]:
        """The nodes whose ranges are needed, in order, and the operations that need them."""
        readers: dict[int, list[Operation]] = {}
        for index in self.nonaffine_nodes:
            node = self.nodes[index]
            assert node.operation is not None
            # One node may be read by several: its range must be good enough for all of them
            for source in node.inputs:
                readers.setdefault(source, []).append(node.operation)
                if self._many_pairs(source):  # whose ranges then follow from those of what is subtracted
                    readers.setdefault(self.nodes[source].inputs[0], []).append(node.operation)
        # In the order of the network, for each range is found from those before it
        return {source: tuple(readers[source]) for source in sorted(readers)}

    def _many_pairs(self, index: int) -> bool:
        """Whether a node is more differences of scores than are worth a range of their own."""
        node = self.nodes[index]
        return isinstance(node.operation, Differences) and torch.Size(node.shape).numel() > PAIRS

    @cached_property
    def following(self) -> frozenset[int]:
        """Nodes whose range is exactly what interval arithmetic makes of ranges that are known anyway.

        That of an activation follows from the range of its input, and moving or scaling values changes nothing.
        """
        tight = {i for i in self.range_readers if not self.sign_alone(i)}  # all its values are ranged with effort
        follows: set[int] = set()
        for i, node in enumerate(self.nodes):
            # Each of these is one value of the input, moved or scaled, so that intervals lose nothing
            moved = isinstance(node.operation, (Reshape, Scale, Total))
            moved |= self._many_pairs(i)
            moved |= isinstance(node.operation, Route) and node.operation.moves
            # The input of an activation has a range in any case; that of a moved value must have one
            if isinstance(node.operation, Curved) or (moved and node.inputs[0] in follows | tight):
                follows.add(i)
        return frozenset(follows)

    def sign_alone(self, index: int) -> bool:
        """Whether nothing but ReLUs needs a node's range: where a sign is known they are exact."""
        return all(isinstance(operation, Relu) for operation in self.range_readers[index])

    @cached_property
    def exact_nodes(self) -> frozenset[int]:
        """Nodes whose range over a box is found exactly by interval arithmetic: at most one matrix from the image."""
        # How many matrices lie between the image and each node, where nothing is curved and no paths join
        matrices: dict[int, int] = {0: 0}
        for i, node in enumerate(self.nodes):
            if isinstance(node.operation, (Conv, Matrix, Reshape, Scale)) and node.inputs[0] in matrices:
                matrices[i] = matrices[node.inputs[0]] + isinstance(node.operation, (Conv, Matrix))
        # A second matrix adds up values that depend on each other, which intervals do not know
        return frozenset(i for i, count in matrices.items() if count <= 1)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of its weights."""
        return next((value.dtype for value in self._weights()), torch.get_default_dtype())

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next((value.device for value in self._weights()), torch.device("cpu"))

    def _weights(self) -> Iterator[Tensor]:
        # The image has no operation: `vars(object)` stands for it and holds no tensor
        values = (value for node in self.nodes for value in vars(node.operation or object).values())
        return (value for value in values if isinstance(value, Tensor))

    @cached_property
    def double(self) -> "Network":
        """The network in float64."""
        return self if self.dtype == torch.float64 else self._to(torch.float64)

    @cached_property
    def single(self) -> "Network":
        """The network in float32."""
        return self if self.dtype == torch.float32 else self._to(torch.float32)

    def on(self, device: torch.device) -> "Network":
        """Return the network on a device."""
        return self._to(device)

    def _to(self, where: torch.dtype | torch.device) -> "Network":
        # Only affine operations hold tensors
        kept = [n.operation.to(where) if isinstance(n.operation, Affine) else n.operation for n in self.nodes]
        nodes = (replace(node, operation=operation) for node, operation in zip(self.nodes, kept, strict=True))
        return Network(tuple(nodes), self.normalised)


def keep_needed(last: int, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes that one of them needs, in their order and with new numbers; the last is itself.

    Example:
        >>> image, unused, last = Node(None, (), (1,), "x"), Node(None, (0,), (1,), "y"), Node(None, (0,), (1,), "z")
        >>> [node.name for node in keep_needed(2, (image, unused, last))]
        ['x', 'z']
    """
    needed, order = {last}, list[int]()
    for index in range(last, -1, -1):
        if index in needed:
            order.append(index)
            needed.update(nodes[index].inputs)
    order.reverse()
    # New numbers, in the order in which they run
    place = {old: new for new, old in enumerate(order)}
    return tuple(replace(nodes[old], inputs=tuple(place[i] for i in nodes[old].inputs)) for old in order)
