"""What is left of a graph for a pass: what is known, what grows with the batch, and steps that compute the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from holdfast.sources.onnx.graph import Node
from holdfast.sources.onnx.operator import Operator


@dataclass(frozen=True)
class Known:
    """A value that depends on no image.

    Attributes:
        value: a tensor, or a list of tensors.
    """

    value: Any


@dataclass(frozen=True)
class Growing:
    """Whole numbers that depend on the number of images N alone: base + each · N.

    Attributes:
        base: at N = 0.
        each: for each image.
    """

    base: Tensor
    each: Tensor

    def at(self, images: int) -> Tensor:
        """Return the numbers for so many images."""
        return self.base + self.each * images

    def to_numbers(self, images: Any) -> Any:
        """Return them as a number or a list, of a number of images that may be a symbol."""
        if self.base.ndim == 0:
            # One number, where the shape is one
            return _plus(int(self.base), int(self.each), images)
        pairs = zip(self.base.flatten().tolist(), self.each.flatten().tolist(), strict=True)
        return [_plus(base, each, images) for base, each in pairs]


def _plus(base: int, each: int, images: Any) -> Any:
    # Only what grows is multiplied: a symbol stays out of the rest
    return base + each * images if each else base


@dataclass(frozen=True)
class Live:
    """A value that a pass computes.

    Attributes:
        samples: tensors without values, for each of two numbers of images.
    """

    samples: tuple[Any, ...]


Value = Known | Growing | Live
"""Of a graph: one of the three."""


@dataclass(frozen=True)
class Argument:
    """What a step is given at one place.

    Attributes:
        live: name of a value of the pass.
        stored: name of a tensor that the network stores.
        plain: numbers, or None.
        growing: numbers that grow with the number of images, as a list or, with `tensor`, as a tensor.
    """

    live: str = ""
    stored: str = ""
    plain: Any = None
    growing: Growing | None = None
    tensor: bool = False


@dataclass(frozen=True)
class Step:
    """One operation of a pass.

    Attributes:
        node: what it is of.
        operator: how that is computed.
        arguments: what it is given.
        keywords: attributes, and what else the operator asks for and is known.
        frees: names of values that nobody reads after it.
    """

    node: Node
    operator: Operator
    arguments: tuple[Argument, ...]
    keywords: Mapping[str, Any]
    frees: tuple[str, ...] = ()


@dataclass
class Specialised:
    """What is left of a graph for a pass.

    Attributes:
        source: name of the images.
        output: name of the representation.
        steps: in their order.
        stored: tensors that steps read, by name.
        weights: names of those that can be learned.
        grows: whether a shape depends on the number of images.
        straight: whether the gradient passes roundings by a scale that is computed from the image.
    """

    source: str
    output: str
    steps: list[Step] = field(default_factory=list)
    stored: dict[str, Tensor] = field(default_factory=dict)
    weights: set[str] = field(default_factory=set)
    grows: bool = False
    straight: bool = False
