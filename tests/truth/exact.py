"""The exact minimum of a linear function of a small piecewise linear network over a ball, without the certifiers.

Every layer's value is an affine expression of the variables: the moved pixels and one variable for each ReLU whose sign
is open (Tjeng et al., 2019). All of it is in float64, and every variable is scaled to [-1, 1], so that a solver's
tolerance means the same at every radius.
"""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp, minimize
from torch import Tensor, nn

from holdfast.core import Encoder

GAP = 3e-6
"""What may lie between the program's bound and the value found, as a share of the margin's range over the ball."""

ROUNDS = 200


class Residual(nn.Module):
    """x' = body(x) + shortcut(x)."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None):
        super().__init__()
        self.body, self.shortcut = body, shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


@dataclass(frozen=True)
class Optimum:
    """The minimum, from both sides.

    Attributes:
        bound: no image of the ball has a smaller margin, up to the solver's tolerance.
        value: the margin at `image`, in float64: no certificate may be above it.
        image: where it is reached, [C, H, W], inside the ball and the box.
    """

    bound: float
    value: float
    image: Tensor


def exact_minimum(network: nn.Module, weights: Tensor, bias: float, x: Tensor, radius: float, norm: str) -> Optimum:
    """Return min over ‖x' - x‖ <= radius, x' in [0, 1]^n, of weights · network(x') + bias."""
    return Program(network, x, radius, norm).minimum(weights, bias)


@lru_cache(maxsize=4096)
def affine_map(layer: nn.Module, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return A [outputs, inputs], b and the shape of layer(x) = A x + b, by pushing a basis through the layer."""
    layer = copy.deepcopy(layer).double().eval()
    size = math.prod(shape)
    with torch.no_grad():
        origin = layer(torch.zeros(1, *shape, dtype=torch.float64))
        columns = layer(torch.eye(size, dtype=torch.float64).view(size, *shape)) - origin
        probe = torch.linspace(-3, 5, size, dtype=torch.float64).view(1, *shape)
        shift, matrix = origin.flatten(), columns.flatten(1).T
        if not torch.allclose(layer(probe).flatten(), matrix @ probe.flatten() + shift, rtol=1e-9, atol=1e-9):
            raise ValueError(f"{layer} is neither affine nor piecewise linear of a known kind")
    return matrix.numpy(), shift.numpy(), tuple(origin.shape[1:])


@dataclass
class Expression:
    """matrix · variables + constant, one row per entry of a layer; later variables have coefficient 0."""

    matrix: np.ndarray
    constant: np.ndarray

    def wide(self, columns: int) -> np.ndarray:
        return np.pad(self.matrix, ((0, 0), (0, columns - self.matrix.shape[1])))

    def __add__(self, other: "Expression") -> "Expression":
        columns = max(self.matrix.shape[1], other.matrix.shape[1])
        return Expression(self.wide(columns) + other.wide(columns), self.constant + other.constant)

    def __mul__(self, factor: float) -> "Expression":
        return Expression(self.matrix * factor, self.constant * factor)

    def __sub__(self, other: "Expression") -> "Expression":
        return self + other * -1

    def through(self, matrix: np.ndarray, shift: np.ndarray | float = 0.0) -> "Expression":
        return Expression(matrix @ self.matrix, matrix @ self.constant + shift)


def unit(step: np.ndarray) -> list[np.ndarray]:
    """Return where the tangent at a step touches the unit ball; nowhere for no step at all."""
    return [step / np.linalg.norm(step)] if step.any() else []


class Program:
    """The network over one ball; `minimum` may be asked for many margins."""

    def __init__(self, network: nn.Module, x: Tensor, radius: float, norm: str):
        self.network = copy.deepcopy(network).double().eval()
        self.x, self.radius, self.norm, self.shape = x.double().flatten().numpy(), radius, norm, tuple(x.shape)
        self.pixels = len(self.x)
        self.low = np.maximum(-1, -self.x / radius)
        self.high = np.minimum(1, (1 - self.x) / radius)
        self.integer = np.zeros(self.pixels)
        self.gates: list[tuple[int, np.ndarray, float]] = []  # column of z, its input's coefficients, and constant
        self.rows: list[tuple[np.ndarray, float]] = []  # coefficients · variables <= limit
        self.output = self._walk(network, Expression(radius * np.eye(self.pixels), self.x), self.shape)[0]

    def _walk(self, layer: nn.Module, at: Expression, shape: tuple[int, ...]) -> tuple[Expression, tuple[int, ...]]:
        if isinstance(layer, Encoder):
            mean, std = (
                v.double().expand(1, *shape).flatten().numpy()
                for v in (layer.normalisation.mean, layer.normalisation.std)
            )
            return self._walk(layer.module, at.through(np.diag(1 / std), -mean / std), shape)
        if isinstance(layer, nn.Sequential):
            for child in layer:
                at, shape = self._walk(child, at, shape)
            return at, shape
        if isinstance(layer, Residual):
            body, after = self._walk(layer.body, at, shape)
            return body + self._walk(layer.shortcut, at, shape)[0], after
        if isinstance(layer, nn.ReLU):
            return self._relu(at), shape
        if isinstance(layer, nn.LeakyReLU):
            return at * layer.negative_slope + self._relu(at) * (1 - layer.negative_slope), shape
        if isinstance(layer, nn.ReLU6):
            return self._relu(at) - self._relu(Expression(at.matrix, at.constant - 6)), shape
        if isinstance(layer, nn.MaxPool2d):
            return self._max_pool(layer, at, shape)
        matrix, shift, after = affine_map(layer, shape)
        return at.through(matrix, shift), after

    def _range(self, at: Expression) -> tuple[np.ndarray, np.ndarray]:
        matrix = at.wide(len(self.low))
        low, high = self._spread(matrix[:, : self.pixels], slice(None, self.pixels))
        if self.norm == "l2":
            reach = np.linalg.norm(matrix[:, : self.pixels], axis=1)
            low, high = np.maximum(low, -reach), np.minimum(high, reach)
        gates = self._spread(matrix[:, self.pixels :], slice(self.pixels, None))
        low, high = low + gates[0], high + gates[1]
        rounding = 1e-13 * (np.abs(matrix) @ np.maximum(np.abs(self.low), np.abs(self.high)) + np.abs(at.constant))
        return low + at.constant - rounding, high + at.constant + rounding

    def _spread(self, matrix: np.ndarray, at: slice) -> tuple[np.ndarray, np.ndarray]:
        up, down = matrix.clip(0), matrix.clip(None, 0)
        return up @ self.low[at] + down @ self.high[at], up @ self.high[at] + down @ self.low[at]

    def _relu(self, at: Expression) -> Expression:
        """max(at, 0): `at` or 0 where the sign is known, else u · z with z <= a, 0 <= u z - at <= -l (1 - a)."""
        low, high = self._range(at)
        open_ = np.flatnonzero((low < 0) & (high > 0))
        start, count = len(self.low), len(open_)
        total = start + 2 * count
        matrix = at.wide(total)
        result = matrix * (low >= 0)[:, None]
        for number, entry in enumerate(open_):
            z, a = start + number, start + count + number
            below, above = low[entry], high[entry]
            span = above - below
            gap = -matrix[entry]
            gap[z] = above
            result[entry, z] = above
            not_under = -gap / span
            not_over = gap / span
            not_over[a] = -below / span
            gate = np.zeros(total)
            gate[z], gate[a] = 1, -1
            constant = at.constant[entry]
            self.rows += [(not_under, -constant / span), (not_over, (constant - below) / span), (gate, 0.0)]
            self.gates.append((z, matrix[entry] / above, constant / above))
        self.low = np.concatenate([self.low, np.zeros(2 * count)])
        self.high = np.concatenate([self.high, np.ones(2 * count)])
        self.integer = np.concatenate([self.integer, np.zeros(count), np.ones(count)])
        return Expression(result, at.constant * (low >= 0))

    def _max_pool(self, layer: nn.MaxPool2d, at: Expression, shape: tuple[int, ...]) -> tuple[Expression, tuple]:
        """max(a, b) = a + ReLU(b - a), one place of the window after the other."""
        numbers = torch.arange(1.0, math.prod(shape) + 1).view(1, *shape)
        places = torch.nn.functional.unfold(numbers, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
        windows = places.view(shape[0], -1, places.shape[-1]).transpose(1, 2).flatten(0, 1).long().numpy() - 1
        windows = np.where(windows < 0, windows.max(1, keepdims=True), windows)  # padding never wins

        def pick(place: np.ndarray) -> Expression:
            return Expression(at.matrix[place], at.constant[place])

        best = pick(windows[:, 0])
        for place in windows.T[1:]:
            best = best + self._relu(pick(place) - best)
        with torch.no_grad():
            return best, tuple(layer(torch.zeros(1, *shape)).shape[1:])

    def minimum(self, weights: Tensor, bias: float = 0.0) -> Optimum:
        """Return the minimum of weights [D] · network(x') + bias."""
        goal = self.output.through(weights.double().numpy()[None], bias)
        costs, constant = goal.wide(len(self.low))[0], float(goal.constant[0])
        scale = float(np.abs(costs) @ (self.high - self.low))
        best = self._reach(self.x, weights, bias)
        if scale == 0:
            return Optimum(constant, best.value, best.image)
        bound, cuts = -np.inf, []
        if self.norm == "l2":
            cuts = [tangent for step in self._descend(costs / scale, scale, weights, bias) for tangent in unit(step)]
        for self.rounds in range(1, ROUNDS + 1):
            found = self._solve(costs / scale, cuts, self.integer)
            bound = max(bound, (found.fun if not self.integer.any() else found.mip_dual_bound) * scale + constant)
            step = found.x[: self.pixels].clip(*self._box(self.pixels))
            candidates = [step]
            if self.norm == "l2":
                candidates = [step / max(1.0, np.linalg.norm(step)), self._inside_piece(costs / scale, found.x)]
                cuts += [tangent for candidate in candidates for tangent in unit(candidate)]
            for candidate in candidates:
                reached = self._reach(self.x + self.radius * candidate, weights, bias)
                best = min(best, reached, key=lambda optimum: optimum.value)
            if best.value < bound - GAP * scale:
                raise RuntimeError(f"the program says {bound}, but the network reaches {best.value}")
            if best.value - bound <= GAP * scale:
                return Optimum(bound, best.value, best.image)
        raise RuntimeError(f"no optimum after {ROUNDS} programs: between {bound} and {best.value}")

    def _descend(self, costs: np.ndarray, scale: float, weights: Tensor, bias: float) -> Iterator[np.ndarray]:
        """Yield steps that go down from piece to piece, until the network itself no longer falls."""
        step, value = np.zeros(self.pixels), np.inf
        while (now := self._reach(self.x + self.radius * step, weights, bias).value) < value - GAP * scale:
            value, step = now, self._inside_piece(costs, self._variables(step * (1 + 1e-6)))
            yield step

    def _variables(self, step: np.ndarray) -> np.ndarray:
        variables = np.zeros(len(self.low))
        variables[: self.pixels] = step
        for z, row, constant in self.gates:
            variables[z] = max(0.0, row @ variables[: len(row)] + constant)
        return variables

    def _box(self, columns: int) -> tuple[Any, Any]:
        """Return the ranges of the first variables."""
        return self.low[:columns], self.high[:columns]

    def _solve(self, costs: np.ndarray, cuts: list[np.ndarray], integer: np.ndarray):
        """Return the program's optimum, the ball being cut by tangents: unit · step <= 1."""
        columns = len(self.low)
        rows = [*self.rows, *((np.pad(unit, (0, columns - self.pixels)), 1.0) for unit in cuts)]
        constraints: Any = ()
        if rows:
            matrix = np.stack([np.pad(row, (0, columns - len(row))) for row, _ in rows])
            limits: Any = np.array([limit for _, limit in rows])
            constraints = LinearConstraint(matrix, ub=limits)
        box = Bounds(*self._box(columns))
        found = milp(costs, integrality=integer, bounds=box, constraints=constraints, options={"mip_rel_gap": 0.0})
        if found.x is None or found.status != 0:
            raise RuntimeError(f"the program was not solved: {found.message}")
        return found

    def _inside_piece(self, costs: np.ndarray, variables: np.ndarray) -> np.ndarray:
        """Return the best step of the ball within the linear piece that the program chose; its tangent proves it."""
        whole, base = np.zeros((len(self.low), self.pixels)), np.zeros(len(self.low))
        whole[: self.pixels] = np.eye(self.pixels)
        signs, limits = [np.zeros((0, self.pixels))], [np.zeros(0)]
        for z, row, constant in self.gates:
            slope, offset = row @ whole[: len(row)], float(row @ base[: len(row)] + constant)
            on = row @ variables[: len(row)] + constant > 0
            if on:
                whole[z], base[z] = slope, offset
            signs.append((slope if on else -slope)[None])
            limits.append(np.array([offset if on else -offset]))
        matrix, shift, cost = np.concatenate(signs), np.concatenate(limits), costs @ whole
        constraints = [{"type": "ineq", "fun": lambda d: 1 - d @ d, "jac": lambda d: -2 * d}]
        if len(matrix):
            constraints.append({"type": "ineq", "fun": lambda d: matrix @ d + shift, "jac": lambda d: matrix})
        start = variables[: self.pixels] / max(1.0, np.linalg.norm(variables[: self.pixels]))
        low, high = self._box(self.pixels)
        found = minimize(
            lambda d: cost @ d,
            start.clip(low, high),
            jac=lambda d: cost,
            bounds=Bounds(low, high),
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 200},
        )
        step = found.x.clip(low, high)
        return step / max(1.0, float(np.linalg.norm(step)))

    def _reach(self, flat: np.ndarray, weights: Tensor, bias: float) -> Optimum:
        """Return the margin of one image, as the network itself computes it in float64."""
        image = torch.from_numpy(flat.clip(0, 1)).view(self.shape)
        with torch.no_grad():
            value = float(weights.double() @ self.network(image[None])[0]) + bias
        return Optimum(-np.inf, value, image)
