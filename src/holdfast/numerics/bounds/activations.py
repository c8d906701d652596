"""The activations by name: each with its slope, and where it changes between convex and concave."""

from functools import lru_cache
from math import pi, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.max_pool import MaxPool
from holdfast.numerics.bounds.relaxation import Choice, Curved, LinearRelaxation
from holdfast.numerics.bounds.relu import Relu
from holdfast.numerics.bounds.smooth import Smooth

__all__ = ["Box", "Choice", "Curved", "LinearRelaxation", "MaxPool", "Relu", "Smooth"]


def _gelu_slope(z: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(z / sqrt(2))) + z * torch.exp(-z.square() / 2) / sqrt(2 * pi)


def _gelu_tanh_slope(z: Tensor) -> Tensor:
    bent = torch.tanh(sqrt(2 / pi) * (z + 0.044715 * z**3))
    return 0.5 * (1 + bent) + 0.5 * z * (1 - bent.square()) * sqrt(2 / pi) * (1 + 3 * 0.044715 * z.square())


def _silu_slope(z: Tensor) -> Tensor:
    share = torch.sigmoid(z)
    return share * (1 + z * (1 - share))


def _mish_slope(z: Tensor) -> Tensor:
    bent = torch.tanh(F.softplus(z))
    return bent + z * torch.sigmoid(z) * (1 - bent.square())


def _logistic_slope(z: Tensor) -> Tensor:
    return torch.sigmoid(z) * torch.sigmoid(-z)


# Convex up to 0 and concave from there on; TANHSHRINK, which is z less tanh z, the other way round
TANH = Smooth(torch.tanh, lambda z: 1 - torch.tanh(z).square(), True, (0.0,))
SIGMOID = Smooth(torch.sigmoid, _logistic_slope, True, (0.0,))
ERF = Smooth(torch.erf, lambda z: 2 / sqrt(pi) * torch.exp(-z.square()), True, (0.0,))
SOFTSIGN = Smooth(F.softsign, lambda z: 1 / (1 + z.abs()).square(), True, (0.0,))
TANHSHRINK = Smooth(F.tanhshrink, lambda z: torch.tanh(z).square(), False, (0.0,))

# Concave, convex and concave again: the roots of σ'', and the valley, the root of σ', to the last digit
GELU = Smooth(F.gelu, _gelu_slope, False, (-sqrt(2), sqrt(2)), -0.7517915246935645)
GELU_TANH = Smooth(
    lambda z: F.gelu(z, approximate="tanh"),
    _gelu_tanh_slope,
    False,
    (-1.4185040087908284, 1.4185040087908284),
    -0.7524614220710163,
)
SILU = Smooth(F.silu, _silu_slope, False, (-2.3993572805154677, 2.3993572805154677), -1.2784645427610738)
MISH = Smooth(F.mish, _mish_slope, False, (-2.2563763963607931, 1.4905711794854285), -1.1924312145154952)
# A parabola between two kinks, which count as inflections
HARDSWISH = Smooth(
    F.hardswish,
    lambda z: torch.where(z <= -3, 0.0, torch.where(z >= 3, 1.0, (2 * z + 3) / 6)),
    False,
    (-3.0, 3.0),
    -1.5,
)

SOFTPLUS = Smooth(F.softplus, torch.sigmoid, departs=2.2e-9)  # torch takes z for it above 20

# With unit 0 values near 0 are as exact, in relation to themselves, as large ones
EXP = Smooth(torch.exp, torch.exp, unit=0.0)
LOG = Smooth(torch.log, torch.reciprocal, convex=False)
SQRT = Smooth(torch.sqrt, lambda z: 0.5 * torch.rsqrt(z), convex=False, unit=0.0)
RSQRT = Smooth(torch.rsqrt, lambda z: -0.5 * torch.rsqrt(z) / z, unit=0.0)
RECIPROCAL = Smooth(torch.reciprocal, lambda z: -1 / z.square(), False, (0.0,), pole=0.0, unit=0.0)
SQUARE = Smooth(torch.square, lambda z: 2 * z, valley=0.0, unit=0.0)


@lru_cache
def power(exponent: float) -> Smooth:
    """Return z to a power >= 2, or to a fraction of any sign, which is not defined below 0.

    Example:
        >>> [bound.item() for bound in power(3).box((torch.tensor([-1.0]), torch.tensor([2.0])))]
        [-1.0, 8.0]
    """
    # Odd powers bend at 0; even ones have their valley there; of fractions only those in (0, 1) are concave
    whole = float(exponent).is_integer()
    odd = whole and exponent % 2 == 1
    return Smooth(
        lambda z: z**exponent,
        lambda z: exponent * z ** (exponent - 1),
        convex=not odd and not 0 < exponent < 1,
        bends=(0.0,) if odd else (),
        valley=0.0 if whole and not odd else None,
        unit=0.0,
    )


@lru_cache
def elu(alpha: float = 1.0, scale: float = 1.0, steepness: float = 1.0) -> Smooth:
    """Return scale · z above 0, and scale · alpha · (exp(steepness · z) - 1) below it: ELU, CELU, SELU.

    Example:
        >>> elu(alpha=2.0)(torch.tensor([-1.0, 1.0]))
        tensor([-1.2642,  1.0000])
    """

    def function(z: Tensor) -> Tensor:
        # Clamped, for `where` computes both: exp of a large z is infinite, and its gradient NaN
        return scale * torch.where(z > 0, z, alpha * torch.expm1(steepness * z.clamp_max(0)))

    def slope(z: Tensor) -> Tensor:
        below = alpha * steepness * torch.exp(steepness * z.clamp_max(0))
        return scale * torch.where(z > 0, torch.ones_like(z), below)

    # A branch that is steeper than 1 at 0 makes a kink there, at which the function bends down
    return Smooth(function, slope, True, (0.0,) if alpha * steepness > 1 else ())


ELU = elu()
SELU = elu(1.6732632423543772848170429916717, 1.0507009873554804934193349852946)
