"""VNN-LIB 1.0, in which verifiers of networks are asked: a box of inputs, and outputs that must not occur."""

import os
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Margin
from holdfast.runtime.errors import NotFinite
from holdfast.storage.outputs import write_text


@dataclass(frozen=True, eq=False)
class Query:
    """Is there an input X in a box whose output Y is unsafe? "unsat" where there is none, "sat" where there is one.

    Attributes:
        low: the least value of each input, in the order of a flat [C, H, W]; [n], float64.
        high: the largest, [n].
        unsafe: the ways in which an output is unsafe: all rows of one of these margins are <= 0 at once; weights
            [1, K, m] and bias [1, K], float64.
    """

    low: Float[Tensor, "inputs"]
    high: Float[Tensor, "inputs"]
    unsafe: tuple[Margin, ...]

    @property
    def outputs(self) -> int:
        """How many outputs there are, m."""
        return self.unsafe[0].weights.shape[2]

    def worst(self, outputs: Float[Tensor, "batch outputs"]) -> Float[Tensor, "batch"]:
        """Return how far outputs are from unsafe: the least over the ways of the largest row; unsafe at <= 0.

        Example:
            >>> below = Margin(torch.eye(2).double()[None, :1], torch.zeros(1, 1).double())  # unsafe where Y_0 <= 0
            >>> query = Query(torch.zeros(1).double(), torch.ones(1).double(), (below,))
            >>> query.worst(torch.tensor([[0.5, -1.0], [-0.5, 1.0]])).tolist()
            [0.5, -0.5]
        """
        return torch.stack([margin(outputs.double()).amax(1) for margin in self.unsafe]).amin(0)


def write_vnnlib(path: str | os.PathLike[str], query: Query, about: str = "") -> None:
    """Write a query as competitions write them: declarations, two bounds for each input, the unsafe outputs.

    Numbers are decimal and as short as float64 allows: `read_vnnlib` returns the same numbers.
    """
    numbers = [query.low, query.high, *(t for margin in query.unsafe for t in (margin.weights, margin.bias))]
    if not all(bool(tensor.isfinite().all()) for tensor in numbers):
        raise NotFinite(f"{os.fspath(path)}: expected finite bounds and constraints, got NaN or infinity")
    lines = [f"; {_plain(line)}" for line in about.splitlines()]
    lines += [f"(declare-const X_{i} Real)" for i in range(len(query.low))]
    lines += [f"(declare-const Y_{i} Real)" for i in range(query.outputs)]
    lines += ["", "; the box of inputs"]
    for i, (low, high) in enumerate(zip(query.low.tolist(), query.high.tolist(), strict=True)):
        lines += [f"(assert (>= X_{i} {_decimal(low)}))", f"(assert (<= X_{i} {_decimal(high)}))"]
    lines += ["", "; unsafe outputs"]
    ways = [_rows(margin) for margin in query.unsafe]
    if len(ways) == 1:
        lines += [f"(assert {row})" for row in ways[0]]
    else:
        lines += ["(assert (or", *(f"    (and {' '.join(rows)})" for rows in ways), "))"]
    write_text(os.fspath(path), "\n".join(lines) + "\n")


def write_counterexample(
    path: str | os.PathLike[str], inputs: Float[Tensor, "inputs"], outputs: Float[Tensor, "outputs"]
) -> None:
    """Write an input and its outputs as competitions want it: sat, and a value for each variable.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_counterexample(f"{folder}/a.txt", torch.tensor([0.5]), torch.tensor([-1.0]))
        ...     print(Path(folder, "a.txt").read_text().strip())
        sat
        ((X_0 0.5)
        (Y_0 -1.0))
    """
    named = {f"{kind}_{i}": v for kind, t in (("X", inputs), ("Y", outputs)) for i, v in enumerate(t.tolist())}
    values = "\n".join(f"({name} {_decimal(value)})" for name, value in named.items())
    write_text(os.fspath(path), f"sat\n({values})\n")


def _rows(margin: Margin) -> list[str]:
    """Return each row, weights · Y + bias <= 0, as a constraint: in the competition's words where these will do."""
    return [_row(w, b) for w, b in zip(margin.weights[0].tolist(), margin.bias[0].tolist(), strict=True)]


def _row(weights: list[float], bias: float) -> str:
    terms = [(weight, f"Y_{i}") for i, weight in enumerate(weights) if weight]
    match terms:
        case [(1.0, output)]:
            return f"(<= {output} {_decimal(-bias)})"
        case [(-1.0, output)]:
            return f"(>= {output} {_decimal(bias)})"
        case [(1.0, own), (-1.0, rival)] | [(-1.0, rival), (1.0, own)] if bias == 0:
            return f"(>= {rival} {own})"
    summands = [f"(* {_decimal(weight)} {output})" for weight, output in terms]
    total = summands[0] if len(summands) == 1 else f"(+ {' '.join(summands)})"
    return f"(<= {total} {_decimal(-bias)})"


def _decimal(value: float) -> str:
    """Return a number without an exponent, which the format does not have."""
    return np.format_float_positional(value + 0.0, trim="0")


def _plain(line: str) -> str:
    """Return a line that every reader takes: ASCII, without control characters."""
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in line)
