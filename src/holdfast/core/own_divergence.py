"""A divergence that is a function of a user's own, of two representations."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core.function_part import FunctionPart, name_function, part_of, require_repeated
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.blocks import Side, rows_in_memory
from holdfast.numerics.geometry.divergence import Bank, Divergence, PerPair, Queries, Vectors
from holdfast.runtime.checked import check_arguments, describe_value
from holdfast.runtime.errors import BadValue, Failed
from holdfast.runtime.foreign import forbid_mutation, foreign

Function = Callable[..., Any]

UNNAMED = "own_divergence"
"""What a lambda is called."""

ALIKE = 1e-9
"""Share of the largest value by which two must differ to be told apart, where it is asked whether a claim holds."""


@dataclass(frozen=True)
class OwnDivergence(FunctionPart, Divergence):
    """A function of (a, b), vectors [*, D] each, with one value [*] for each pair.

    Attributes:
        code: the fingerprint of the function.
    """

    code: str = ""

    symmetric: ClassVar[bool] = True
    signed: ClassVar[bool] = False

    def __str__(self) -> str:
        """Return the name alone."""
        return part_name(self)

    def floor(self, reps: Queries, bank: Bank) -> float:
        """Return a little: what is close is computed again, whatever the function subtracts."""
        return 1e-12

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the function's values.

        Raises:
            HoldfastError: no value for each pair, NaN, values below 0 of what is not `signed`, no gradient where an
                attack follows it, or other values for the same vectors.
        """
        # The function sees rows alone, so that it is the same for one pair and for a block of all
        a, b = torch.broadcast_tensors(a, b)
        rows = [side.reshape(-1, side.shape[-1]) for side in (a, b)]
        values = self._values(*rows)
        if torch.is_grad_enabled() and a.requires_grad and not values.requires_grad:
            raise Failed(
                f"{part_name(self)}: expected values with a gradient, for attacks follow it, got some without; compute "
                "them with torch, without .detach(), .item(), .numpy(), rounding or comparing; or let another "
                "divergence be pursued, objective=untargeted[divergence=l2]"
            )
        return values.reshape(a.shape[:-1])

    def _values(self, a: Float[Tensor, "pairs dim"], b: Float[Tensor, "pairs dim"]) -> Float[Tensor, "pairs"]:
        name = part_name(self)
        called = f"the function {name}"
        # Called twice, since a function that is random in itself would make numbers that nobody can repeat
        with foreign(called, "run", wrap=True, alone=True), forbid_mutation(called, a, b):
            values = type(self).function(a, b)
            with torch.no_grad():
                again = type(self).function(a, b)
        if not isinstance(values, Tensor) or values.shape != a.shape[:1] or values.is_complex():
            came = describe_value(values)
            if isinstance(values, Tensor):
                came = f"{values.dtype} of the shape {list(values.shape)}"
            raise Failed(
                f"{name}: expected a tensor of one number for each pair of vectors, of shape {list(a.shape[:1])}, got "
                f"{came}; reduce over the last dimension alone: .sum(-1), not .sum()"
            )
        if bool(values.isnan().any()):
            raise Failed(
                f"{name}: expected a number for each pair of vectors, got NaN for {int(values.isnan().sum())} of "
                f"{len(values)}; look for a division by 0, a logarithm or a root"
            )
        require_repeated(self, values.detach(), again)
        if not self.signed and bool((values < 0).any()):
            raise Failed(
                f"{name}: expected a distance, which is never below 0, got {float(values.min()):.4g}; if it is none, "
                "say signed=True"
            )
        return values if values.is_floating_point() else values.to(a.dtype)

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return the function's values of all pairs, some at a time.

        Raises:
            HoldfastError: a function whose value of a pair depends on other pairs, or that says it is symmetric and is
                not.
        """
        a, b = rows.reps, columns.reps
        # Rows of pairs, of which both vectors are copied
        whole = torch.cat([self(part[:, None], b[None]) for part in a.split(4 * rows_in_memory(b.numel()))]).double()
        self._try_claims(a, b, whole)
        return whole

    def _try_claims(
        self, a: Float[Tensor, "rows dim"], b: Float[Tensor, "columns dim"], whole: Float[Tensor, "rows columns"]
    ) -> None:
        """Ask a few pairs again, in other company and in the other order, whether they have the values of a block."""
        # Each vector with the next one: with itself all would be 0, where both sides are the same images
        few = torch.arange(min(len(a), 16))
        other = (few + 1) % len(b)
        there, among = self(a[few], b[other]).double(), whole[few, other]
        nearly = ALIKE * float(among.abs().max())
        if not torch.allclose(among, there, rtol=ALIKE, atol=nearly):
            raise Failed(
                f"{part_name(self)}: expected a value of each pair by itself, got others among other pairs, by up to "
                f"{float((among - there).abs().max()):.4g}; reduce over the last dimension alone, not over pairs"
            )
        # Each pair is compared in one order alone where both are said to be the same
        if self.symmetric:
            back = self(b[other], a[few]).double()
            if not torch.allclose(there, back, rtol=ALIKE, atol=nearly):
                raise Failed(
                    f"{part_name(self)}: expected d(a, b) = d(b, a), got numbers that differ by up to "
                    f"{float((there - back).abs().max()):.4g}; if it depends on the order, say symmetric=False"
                )


@overload
def divergence(
    function: Function, *, name: str | None = None, symmetric: bool = True, signed: bool = False
) -> OwnDivergence: ...
@overload
def divergence(
    function: None = None, *, name: str | None = None, symmetric: bool = True, signed: bool = False
) -> Callable[[Function], OwnDivergence]: ...
@check_arguments
def divergence(
    function: Function | None = None, *, name: str | None = None, symmetric: bool = True, signed: bool = False
) -> Any:
    """Return a function as a divergence: how far representations are apart, wherever one can be named.

        @holdfast.divergence
        def weighted(a, b):
            return ((a - b).abs() * weights).sum(-1)

        holdfast.audit(model, images, measures={"name": "breakaway_risk", "divergence": weighted})

    It is registered under its name, for `breakaway_risk[divergence=weighted]`, and its fingerprint is part of whatever
    is stored, so that other code makes other shards. Comparisons of all pairs call it with many pairs at once.

    Args:
        function: maps two tensors of vectors [*, D], in float32 or float64, to one value for each pair [*]; the first
            is a query or a disturbed image, the second one of an index or clean. Attacks follow its gradient.
        name: of the divergence; that of the function where None, "own_divergence" for a lambda.
        symmetric: whether d(a, b) = d(b, a).
        signed: whether it may be below 0, as a negated similarity is.

    Raises:
        HoldfastError: a function of other arguments, or a name that is taken.
    """
    if function is None:
        return lambda function: divergence(function, name=name, symmetric=symmetric, signed=signed)
    called = name_function(function, name, UNNAMED)
    _require_two(function, called)
    return part_of("divergences", OwnDivergence, function, called, symmetric=symmetric, signed=signed)()


def _require_two(function: Function, name: str) -> None:
    """Refuse a function that does not take two vectors by position."""
    # Before it is called, where an error would be that of its code
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        raise BadValue(
            f"{name}: expected a function of (a, b), vectors [*, D], got {inspect.signature(function)}"
        ) from None
    except ValueError:  # of C, which does not say
        pass
