"""Reads activations that are curved, by their names in torch or as the products and quotients that exporters write."""

import math
from typing import Any

from holdfast.numerics.bounds.activations import (
    ERF,
    EXP,
    GELU,
    GELU_TANH,
    HARDSWISH,
    LOG,
    MISH,
    RECIPROCAL,
    RSQRT,
    SELU,
    SIGMOID,
    SILU,
    SOFTPLUS,
    SOFTSIGN,
    SQRT,
    SQUARE,
    TANH,
    TANHSHRINK,
    elu,
    power,
)
from holdfast.numerics.bounds.affine import Add, Scale
from holdfast.numerics.bounds.read_piecewise import PiecewiseHandlers
from holdfast.numerics.bounds.read_products import ProductHandlers
from holdfast.numerics.bounds.reader import Value
from holdfast.numerics.bounds.relaxation import Curved
from holdfast.numerics.bounds.relu import Relu

CURVES = {
    "erf": ERF, "exp": EXP, "hardswish": HARDSWISH, "log": LOG, "mish": MISH, "reciprocal": RECIPROCAL, "rsqrt": RSQRT,
    "selu": SELU, "sigmoid": SIGMOID, "silu": SILU, "sqrt": SQRT, "square": SQUARE, "tanh": TANH,
}  # fmt: skip
"""Activations without parameters, by their names in torch."""

POWERS = {2.0: SQUARE, 0.5: SQRT, -0.5: RSQRT, -1.0: RECIPROCAL}
"""Powers that have a name."""

Line = tuple[int, float, float]
"""A value as (number of a node, factor, shift)."""


class ActivationHandlers(PiecewiseHandlers, ProductHandlers):
    """Handlers of activations, see `Operations`."""

    def _curve(self, x: int, curve: Curved) -> int:
        return self.append(curve, (x,))

    def read_other(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Append an activation without parameters."""
        if name in CURVES and len(arguments) == 1:
            return self._curve(arguments[0], CURVES[name])
        return super().read_other(name, *arguments, **options)

    # --- with parameters ---

    def _op_gelu(self, x, approximate="none") -> int:
        return self._curve(x, GELU_TANH if approximate == "tanh" else GELU)

    def _op_elu(self, x, alpha=1.0, scale=1.0, input_scale=1.0) -> int:
        if alpha < 0 or scale <= 0 or input_scale <= 0:
            raise self.refuse("an ELU whose parameters are negative")
        return self._curve(x, elu(float(alpha), float(scale), float(input_scale)))

    def _op_celu(self, x, alpha=1.0) -> int:
        return self._op_elu(x, alpha, 1.0, 1.0 / alpha)

    def _op_softplus(self, x, beta=1.0, threshold=20.0) -> int:
        # Above its threshold torch returns z itself, from 20 on no more than 2.2e-9 away (see SOFTPLUS)
        if beta <= 0 or threshold < 20:
            raise self.refuse("a softplus with beta <= 0, or with a threshold below 20")
        return self.scale(self._curve(self.scale(x, float(beta), 0.0), SOFTPLUS), 1.0 / beta, 0.0)

    def _op_glu(self, x: Value, dim: int = -1) -> int:
        """The first half times the sigmoid of the second."""
        half = x.shape[dim] // 2
        value, gate = (self.route(x, lambda z, first=first: z.narrow(dim, first, half)) for first in (0, half))
        return self.elementwise(value, Value(self.then(SIGMOID, gate), gate.shape))

    def _op_log_sigmoid(self, x) -> int:
        # Log sigmoid(z) is -softplus(-z)
        return self.scale(self._curve(self.scale(x, -1.0, 0.0), SOFTPLUS), -1.0, 0.0)

    def _op_expm1(self, x) -> int:
        return self.scale(self._curve(x, EXP), 1.0, -1.0)

    def _op_log1p(self, x) -> int:
        return self._curve(self.scale(x, 1.0, 1.0), LOG)

    def _op_pow(self, x: Any, exponent: Any) -> int:
        match self.depends(x, exponent):
            case [True, False] if isinstance(exponent, (int, float)) and exponent not in (0, 1):
                if float(exponent) in POWERS:
                    return self._curve(x, POWERS[float(exponent)])
                # 1 / z^k: values below 0 have a whole power, and the reciprocal knows its pole
                if exponent < 0 and float(exponent).is_integer():
                    return self._curve(self._curve(x, power(-exponent)), RECIPROCAL)
                return self._curve(x, power(float(exponent)))
            case [False, True] if isinstance(x, (int, float)) and x > 0:
                # b^z = exp(z log b)
                return self._curve(self.scale(exponent, math.log(x), 0.0), EXP)
        raise self.refuse("a power whose base and exponent are not one value and one number (not 0 or 1)")

    # --- as exporters write them ---

    def _op_mul(self, a: Any, b: Any) -> int:
        if all(self.depends(a, b)) and self.nodes[a].shape == self.nodes[b].shape:
            # z · g(z), as exporters write activations: as one function it is far tighter than a
            # product of two values
            for value, gate in ((a, b), (b, a)):
                result = self._fuse_gate(value, gate)
                if result is not None:
                    return result
        return super()._op_mul(a, b)

    def _fuse_gate(self, x: int, gate: int) -> int | None:
        """Return z · sigmoid(z), z · (1 + erf(z / √2)) or z · hardsigmoid(z), times a factor, as one activation."""
        for inner, factor, shift in self._lines(gate):
            operation, inputs = self.nodes[inner].operation, self.nodes[inner].inputs
            # x is `by` times `source`; the gate is `factor` times `inner`, plus `shift`
            for source, by, beside in self._lines(x):
                if beside or not factor:
                    continue
                # SiLU: z · sigmoid(z)
                if operation is SIGMOID and shift == 0 and inputs == (source,):
                    return self.scale(self._curve(source, SILU), by * factor, 0.0)
                # GELU: z · (1 + erf(z / √2)) is twice GELU; `halved` are the values of
                # which erf reads a multiple
                halved = [(s, f) for s, f, c in self._lines(inputs[0]) if c == 0] if operation is ERF else []
                if shift == factor and any(s == source and math.isclose(f * f, 0.5) and f > 0 for s, f in halved):
                    return self.scale(self._curve(source, GELU), 2 * by * factor, 0.0)
                # Hardswish: z · clamp(z + 3, 0, 6) is six times Hardswish
                if self._match_clip(inner) == source and abs(shift) <= 1e-15 * abs(factor):
                    return self.scale(self._curve(source, HARDSWISH), 6 * by * factor, 0.0)
        return None

    def _match_clip(self, difference: int) -> int | None:
        """Return the z of max(z + 3, 0) - max(z - 3, 0), which is clamp(z, -3, 3) + 3; None for other differences."""
        sources = []
        for relu in self.nodes[difference].inputs if self._is_difference(difference) else ():
            if self.nodes[relu].operation != Relu():
                return None
            sources.append(self._lines(self.nodes[relu].inputs[0]))
        if len(sources) != 2:
            return None
        for z, up, more in sources[0]:
            for other, down, less in sources[1]:
                if z == other and up == down == 1 and (more, less) == (3.0, -3.0):
                    return z
        return None

    def _op_div(self, a: Any, b: Any, rounding_mode: str | None = None) -> int:
        # Softsign, z / (1 + |z|), where |z| was read as 2 max(z, 0) - z
        if all(self.depends(a, b)) and any(
            (factor, shift) == (1, 1) and self._absolute(inner) == a for inner, factor, shift in self._lines(b)
        ):
            return self._curve(a, SOFTSIGN)
        return super()._op_div(a, b, rounding_mode)

    def _absolute(self, difference: int) -> int | None:
        """Return the z of 2 max(z, 0) - z; None for other differences."""
        if not self._is_difference(difference):
            return None
        twice, z = self.nodes[difference].inputs
        for inner, factor, shift in self._lines(twice):
            if (factor, shift) == (2, 0) and self.nodes[inner].operation == Relu():
                return z if self.nodes[inner].inputs == (z,) else None
        return None

    def _op_sub(self, a: Any, b: Any, alpha: Any = 1) -> int:
        # Tanhshrink, z - tanh z
        both = all(self.depends(a, b)) and alpha == 1
        if both and self.nodes[b].operation is TANH and self.nodes[b].inputs == (a,):
            return self._curve(a, TANHSHRINK)
        return super()._op_sub(a, b, alpha)

    def _is_difference(self, index: int) -> bool:
        operation = self.nodes[index].operation
        return isinstance(operation, Add) and operation.sign == -1

    def _lines(self, index: int) -> list[Line]:
        """Return a value as itself, and as a factor times, and a shift beside, the value before it."""
        lines: list[Line] = [(index, 1.0, 0.0)]
        operation = self.nodes[index].operation
        if isinstance(operation, Scale):
            factors, shift = operation.factor, operation.constant
            shifts = factors.new_zeros(1) if shift is None else shift
            # One factor and one shift for all values
            if bool((factors == factors.flatten()[0]).all() and (shifts == shifts.flatten()[0]).all()):
                lines.append((self.nodes[index].inputs[0], float(factors.flatten()[0]), float(shifts.flatten()[0])))
        return lines
