"""A function of a user's own as a part: a frozen dataclass around it, registered under its name."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, make_dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from holdfast.core import registry
from holdfast.core.function_fingerprint import fingerprint
from holdfast.runtime.checked import derive_name, describe_value
from holdfast.runtime.errors import BadValue, Failed, Mismatch, Unsupported
from holdfast.runtime.foreign import forbid_mutation, foreign

Base = TypeVar("Base", bound="FunctionPart")

DECORATORS = {
    "measures": "measure", "quantities": "quantity", "objectives": "loss", "divergences": "divergence",
}  # fmt: skip
"""By what of `holdfast` a function becomes a part, by its kind."""

WRITTEN = {"written": True}
"""Metadata of a field whose default a user has written, so that an audit's ball does not take its place."""


class FunctionPart:
    """What parts around functions have in common; a dataclass below it has the field `code`.

    Attributes:
        function: the function.
        code: its fingerprint, so that records tell what was run; "" for that of the function as it is.
    """

    function: ClassVar[Callable[..., Any]]
    code: str

    def __post_init__(self) -> None:
        own = fingerprint(type(self).function, derive_name(type(self)))
        if self.code not in ("", own):
            raise Mismatch(
                f"{derive_name(type(self))}: expected the function with the code {self.code}, got {own}; it, or what "
                "it reads, has changed since"
            )
        object.__setattr__(self, "code", own)  # it is frozen, and still being made

    def __reduce__(self) -> tuple[Any, ...]:
        """Send its name and its fields to other processes, which must know the function."""
        return _rebuild_part, (type(self).__module__, registry.spec(self))


def _rebuild_part(module: str, spec: Any) -> Any:
    """Return a part in another process."""
    # Importing the module registers the function; that of a notebook cannot be imported
    with suppress(ImportError):
        importlib.import_module(module)
    if spec["name"] not in registry.names(spec["kind"]):
        raise Unsupported(
            f"{spec['name']}: expected a function that worker processes know, got one of this session alone; write it "
            "to a file and name that with --parts, or in the variable HOLDFAST_PARTS, or leave workers out"
        )
    return registry.build(spec)


def name_function(function: Callable[..., Any], name: str | None, unnamed: str) -> str:
    """Return what a part around a function is called: as somebody says, or as the function is; a lambda is `unnamed`.

    Example:
        >>> name_function(abs, None, "own"), name_function(lambda: 0, None, "own"), name_function(abs, "size", "own")
        ('abs', 'own', 'size')
    """
    # "<lambda>" could not be written in a command
    called = name or str(getattr(function, "__name__", ""))
    return unnamed if called == "<lambda>" else called


def part_of(
    kind: str,
    base: type[Base],
    function: Callable[..., Any],
    name: str | None,
    fields: Sequence[tuple[str, Any, Any]] = (),
    **attributes: Any,
) -> type[Base]:
    """Return a registered dataclass around a function.

    Args:
        kind: of the part.
        base: the class above it.
        function: the function.
        name: of the part; that of the function where None or "".
        fields: name, type and default of fields that begin otherwise than in the base.
        attributes: of the class.

    Raises:
        HoldfastError: a name that cannot be written in commands, or that a part of another kind of code has.
    """
    name = name or str(getattr(function, "__name__", ""))
    if not name.isidentifier():
        decorator = f"holdfast.{DECORATORS[kind]}"
        raise BadValue(
            f"{decorator}: expected a function with a name, got {describe_value(function)}; name it: "
            f"{decorator}(..., name='my_name')"
        )
    place = getattr(function, "__module__", None) or "__main__"
    # The class stands where the function does
    namespace = {"function": staticmethod(function), "__module__": place, **attributes}
    defaults = [(key, kind_, field(default=value, metadata=WRITTEN)) for key, kind_, value in fields]
    cls: Any = make_dataclass(name, defaults, bases=(base,), namespace=namespace, frozen=True)
    cls.__doc__ = inspect.getdoc(function) or f"The function {name}."
    cls()  # refuses what does not go together, before it is known
    return registry.register(kind)(cls)


def takes_target(function: Callable[..., Any], name: str, first: str, second: str) -> tuple[bool, bool]:
    """Return whether a function of two representations takes a third one, that of a target, and whether it must get it.

    Args:
        function: the function.
        name: of the part.
        first: what its first argument is.
        second: what its second argument is.

    Raises:
        HoldfastError: it takes another number of arguments.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of C, which does not say
        return False, False
    # Representations are given by position; what has no default and cannot be given so is refused
    ordered = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    most = 3 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(ordered)
    if most < 2 or len(needed) > 3 or needed != ordered[: len(needed)]:
        raise BadValue(
            f"{name}: expected a function of ({first}, {second}), or of ({first}, {second}, target), representations "
            f"[N, D], got {inspect.signature(function)}"
        )
    # A third argument with a default is taken for the target where it is called so
    return len(needed) == 3 or ordered[2:3] == ["target"], len(needed) == 3


def require_repeated(part: FunctionPart, values: Tensor, again: Tensor) -> None:
    """Refuse a function that gave other values when it was called again, which nobody could repeat."""
    if not torch.equal(values, again):
        raise Failed(
            f"{registry.part_name(part)}: expected the same values each time, got others; seed what is random in it"
        )


def value_per_image(part: FunctionPart, reps: Sequence[Tensor | None], **named: Tensor) -> Tensor:
    """Return what the function of a part makes of representations: one finite number for each image, [N].

    Raises:
        HoldfastError: anything else; an exception of the function is one line.
    """
    name = registry.part_name(part)
    # Without a target the third is None
    rows = len(next(tensor for tensor in reps if tensor is not None))
    # Alone: it need not be made for threads
    with foreign(f"the function {name}", "run", wrap=True, alone=True):
        # What is not compared image by image goes by name
        values = type(part).function(*reps, **named)
    # Would be broadcast over the images without a word
    if not isinstance(values, Tensor) or values.shape != (rows,):
        came = f"the shape {list(values.shape)}" if isinstance(values, Tensor) else describe_value(values)
        raise Failed(
            f"{name}: expected a tensor of one value per image, of shape [{rows}], got {came}; reduce over the "
            "dimensions of the representation alone: .sum(1), not .sum()"
        )
    if values.is_complex():
        raise Failed(f"{name}: expected real values, got {values.dtype}; return .abs() or .real of them")
    if not (finite := values.isfinite()).all():
        raise Failed(
            f"{name}: expected finite values, got NaN or infinity for {int((~finite).sum())} of {rows} images; look "
            "for a division by 0, a logarithm or a root"
        )
    return values


def measure_values(part: FunctionPart, reps: Sequence[Tensor], statistic: str, unit: str, **named: Tensor) -> Tensor:
    """Return what the function of a measure or a quantity makes of representations, in float64, [N].

    Args:
        part: the measure or the quantity.
        reps: what it is called with, [N, D] each.
        statistic: a "share" is of values 0 and 1.
        unit: a "share" lies between them.
        named: what is not compared image by image.

    Raises:
        HoldfastError: as of `value_per_image`; other values when it is called again, or none that are shares.
    """
    name = registry.part_name(part)
    # Called twice, since a function that is random in itself would make
    # a score that nobody can repeat
    with torch.no_grad(), forbid_mutation(f"the function {name}", *reps, *named.values()):
        values, again = (value_per_image(part, reps, **named).double() for _ in range(2))
    require_repeated(part, values, again)
    came = f"got values from {float(values.min()):.4g} to {float(values.max()):.4g}"
    if statistic == "share" and not ((values == 0) | (values == 1)).all():
        raise Failed(f"{name}: expected 0 or 1 for each image, {came}; take the mean, statistic='mean'")
    if unit == "share" and not ((values >= 0) & (values <= 1)).all():
        raise Failed(f"{name}: expected shares from 0 to 1, {came}; if they are none, say unit='ratio'")
    return values
