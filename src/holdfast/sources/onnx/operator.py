"""What an operator of ONNX is here: a function of torch tensors, and what it must know before any image is seen."""

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

STANDARD = ""
"""The domain of ONNX's own operators, also written "ai.onnx"."""

MICROSOFT = "com.microsoft"
"""The domain of what ONNX Runtime fuses."""


class NotRead(Exception):
    """Something of a file that is not read here; the text says what."""


@dataclass(frozen=True)
class Operator:
    """How an operator is computed.

    Attributes:
        compute: takes the inputs in their order (None where one is left out), then attributes by name, and whichever of
            these it names: `op`, the operator's name; `version`, of its definition; `outputs`, how many are read;
            `real`, the type of real numbers in this pass; `device`, where it is made. It gives a tensor, or
            several.
        numbers: places of inputs that are sizes, axes and the like: numbers or lists of them, known before any image.
        scalars: places of inputs that are given as a number where they are one and known -> axes that it may have.
        formerly: attribute of older versions -> the place of the input that it has become.
        weights: places of inputs that can be learned.
        keeps: whether the output has the shape and type of the first input, where the others are numbers.
        keywords: names of what `compute` takes beside inputs.
    """

    compute: Callable[..., Any]
    numbers: frozenset[int]
    scalars: Mapping[int, int]
    formerly: Mapping[str, int]
    weights: frozenset[int]
    keeps: bool
    keywords: frozenset[str]


OPERATORS: dict[tuple[str, str], Operator] = {}
"""(domain, name) -> how it is computed."""


def operator(
    *names: str,
    domain: str = STANDARD,
    numbers: Collection[int] = (),
    scalars: Mapping[int, int] | None = None,
    formerly: Mapping[str, int] | None = None,
    weights: Collection[int] = (),
    keeps: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function compute operators of these names; see `Operator`."""

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(compute).parameters.values()
        # Keyword-only arguments are attributes and what the operator asks to know
        keywords = frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)
        made = Operator(compute, frozenset(numbers), scalars or {}, formerly or {}, frozenset(weights), keeps, keywords)
        for name in names:
            OPERATORS[domain, name] = made
        return compute

    return register


def axes_of(axes: int | Sequence[int] | None, rank: int) -> list[int]:
    """Return axes as numbers from 0 to rank - 1; all of them for None.

    Example:
        >>> axes_of([-1, 1], 4), axes_of(None, 2)
        ([3, 1], [0, 1])
    """
    if axes is None:
        return list(range(rank))
    listed = [axes] if isinstance(axes, int) else list(axes)
    if any(not -rank <= axis < max(rank, 1) for axis in listed):
        raise NotRead(f"axes {listed} of a tensor with {rank}")
    # A scalar takes axis 0 and -1, as if it had one
    return [axis % max(rank, 1) for axis in listed]


def single(value: Any) -> Any:
    """Return the number in a list of one, or the number.

    Example:
        >>> single([3]), single(3)
        (3, 3)
    """
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise NotRead(f"{len(value)} numbers where one is expected")
        return single(value[0])
    return value


def product(sizes: Sequence[int]) -> int:
    """Return the product of sizes, which may be symbols of a traced batch."""
    return math.prod(sizes)


def is_real(x: Tensor) -> bool:
    """Whether a tensor holds real numbers."""
    return x.is_floating_point()


TYPES: dict[int, torch.dtype | None] = {
    1: None, 2: torch.uint8, 3: torch.int8, 4: torch.int32, 5: torch.int16, 6: torch.int32, 7: torch.int64,
    9: torch.bool, 10: None, 11: None, 12: torch.int64, 13: torch.int64, 16: None,
}  # fmt: skip
"""ONNX's number of a type -> torch's; None for real numbers, which all have the type of the pass. Unsigned integers of
16 and more bits, with which torch hardly computes, have the next larger type."""


def type_of(number: int, real: torch.dtype) -> torch.dtype:
    """Return torch's type for ONNX's number of one.

    Raises:
        NotRead: strings, complex numbers, and those of 8 bits or less with a point.
    """
    if number not in TYPES:
        raise NotRead(f"numbers of ONNX's type {number}")
    return TYPES[number] or real
