"""A network as bound propagation sees it: affine and curved operations in the order in which they run."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from holdfast.numerics.bounds.activations import Curved, MaxPool
from holdfast.numerics.bounds.affine import Affine, Conv, Matrix, Reshape, Scale

Operation = Affine | Curved | MaxPool

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
    """

    operation: Operation | None
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    name: str


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
    def curved(self) -> tuple[int, ...]:
        """The nodes whose operation is not affine."""
        return tuple(i for i, node in enumerate(self.nodes) if isinstance(node.operation, (Curved, MaxPool)))

    @cached_property
    def boxed(self) -> frozenset[int]:
        """Nodes whose range over a box is found exactly by interval arithmetic: at most one matrix from the image."""
        matrices: dict[int, int] = {0: 0}
        for i, node in enumerate(self.nodes):
            if isinstance(node.operation, (Conv, Matrix, Reshape, Scale)) and node.inputs[0] in matrices:
                matrices[i] = matrices[node.inputs[0]] + isinstance(node.operation, (Conv, Matrix))
        return frozenset(i for i, count in matrices.items() if count <= 1)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of its weights."""
        weights = (value for node in self.nodes for value in vars(node.operation or object).values())
        return next((value.dtype for value in weights if isinstance(value, Tensor)), torch.get_default_dtype())

    @cached_property
    def double(self) -> "Network":
        """The network in float64."""
        return self._to(torch.float64)

    @cached_property
    def single(self) -> "Network":
        """The network in float32."""
        return self._to(torch.float32)

    def _to(self, dtype: torch.dtype) -> "Network":
        if self.dtype == dtype:
            return self
        kept = [n.operation.to(dtype) if isinstance(n.operation, Affine) else n.operation for n in self.nodes]
        nodes = (replace(node, operation=operation) for node, operation in zip(self.nodes, kept, strict=True))
        return Network(tuple(nodes), self.normalised)
