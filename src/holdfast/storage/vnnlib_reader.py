"""Read VNN-LIB 1.0 as competitions write it; what is not read is refused, with its line."""

import math
import os
import re
from fractions import Fraction
from itertools import product

import torch

from holdfast.core import Margin
from holdfast.runtime.doors import decompress, read_bytes
from holdfast.runtime.errors import BadData, Missing, first_line, os_reason
from holdfast.runtime.guess import path_meant
from holdfast.storage.parentheses import Form, forms
from holdfast.storage.vnnlib import Query

VARIABLE = re.compile(r"[XY]_(?:0|[1-9][0-9]{0,8})")
NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,3})?")

WAYS = 10_000
"""Ways in which an output may be unsafe, at most, once `and` and `or` are multiplied out."""

LARGEST = 2**28
"""Bytes of a file, at most, once it is unpacked: those of competitions have some MB."""

Term = Form | str

Linear = dict[str, Fraction]
"""A linear function: variable -> coefficient; the constant stands under ""."""

Row = tuple[Linear, int]
"""A constraint on outputs, a linear function that is <= 0, and its line."""


def read_vnnlib(path: str | os.PathLike[str]) -> Query:
    """Return the query of a VNN-LIB file, plain or compressed by gzip.

    Read are `declare-const` of X_i and Y_j as Real (also `declare-fun` without arguments), and `assert` of `<=` and
    `>=` between linear functions (numbers, +, -, *), joined by `and` and `or`. Each input has one lower and one upper
    bound at least; of several the narrowest holds. Bounds are the float64 nearest to what is written.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> text = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 -0.5))(assert (<= X_0 1))"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.vnnlib").write_text(text + "(assert (<= Y_0 0.25))")
        ...     query = read_vnnlib(f"{folder}/a.vnnlib")
        >>> query.low.item(), query.high.item(), query.unsafe[0].bias.item()
        (-0.5, 1.0, -0.25)
    """
    name = os.fspath(path)
    try:
        content = read_bytes(path, LARGEST)
        text = (decompress(content, LARGEST) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
    except FileNotFoundError as error:
        raise Missing(f"VNN-LIB file {name!r} does not exist; {path_meant(path)}") from error
    except OSError as error:
        raise BadData(f"VNN-LIB file {name!r} cannot be read: {os_reason(error)}") from error
    except ValueError as error:
        raise BadData(f"{name!r}: expected a VNN-LIB file, got no text: {first_line(error)}") from error
    reader = _Reader(name)
    for form in forms(text, name):
        reader.command(form)
    return reader.query()


class _Reader:
    """What a file has said so far: variables, bounds of inputs, constraints on outputs."""

    def __init__(self, name: str):
        self._name = name
        self._declared: set[str] = set()
        self._low: dict[str, float] = {}
        self._high: dict[str, float] = {}
        self._unsafe: list[list[Row]] = [[]]

    def _refusal(self, line: int, problem: str) -> BadData:
        return BadData(f"{self._name}, line {line}: {problem}")

    def command(self, form: Form) -> None:
        """Take in a declaration or an assertion."""
        match form:
            case ["declare-const", str(name), "Real"] | ["declare-fun", str(name), [], "Real"]:
                if not VARIABLE.fullmatch(name) or name in self._declared:
                    raise self._refusal(form.line, f"expected a new variable X_i or Y_j, got {name[:40]!r}")
                self._declared.add(name)
            case ["assert", Form() as formula]:
                self._unsafe = self._conjoin([self._unsafe, self._ways(formula, certain=True)], form.line)
            case _:
                raise self._refusal(
                    form.line, f"expected (declare-const NAME Real) or (assert ...) of VNN-LIB 1.0, got {form}"
                )

    # --- formulas: the ways in which they hold, each a list of rows ---

    def _ways(self, form: Form, certain: bool) -> list[list[Row]]:
        """Return the ways in which a formula holds; bounds of inputs, which must hold for certain, are kept aside."""
        match form:
            case ["<=", less, more] | [">=", more, less]:
                return self._constraint(form, less, more, certain)
            case ["and" | "or" as word, *_] if len(form) > 1:
                inner = [part for part in form[1:] if isinstance(part, Form)]
                if len(inner) == len(form) - 1:
                    alone = word == "and" or len(inner) == 1
                    parts = [self._ways(part, certain and alone) for part in inner]
                    return self._conjoin(parts, form.line) if word == "and" else [way for ways in parts for way in ways]
        raise self._refusal(form.line, f"expected <= or >= of two terms, or `and` or `or` of such, got {form}")

    def _conjoin(self, parts: list[list[list[Row]]], line: int) -> list[list[Row]]:
        """Return the ways in which several formulas hold together."""
        if (total := math.prod(map(len, parts))) > WAYS:
            raise self._refusal(line, f"expected at most {WAYS:,} ways to be unsafe, got {total:,}")
        return [[row for way in chosen for row in way] for chosen in product(*parts)]

    def _constraint(self, form: Form, less: Term, more: Term, certain: bool) -> list[list[Row]]:
        # the usual case, a bound of one input, without fractions: files have thousands
        if isinstance(less, str) and isinstance(more, str) and certain:
            for variable, bound, ends in ((less, more, self._high), (more, less, self._low)):
                if variable[0] == "X" and variable in self._declared and NUMBER.fullmatch(bound):
                    return self._bound(form, variable, float(bound), ends)
        # a constraint on outputs, or a bound that is written otherwise: less - more <= 0
        total = _sum(self._linear(less, form.line), self._linear(more, form.line), -1)
        constant = total.pop("", Fraction(0))
        total = {variable: value for variable, value in total.items() if value}
        if total and all(variable[0] == "Y" for variable in total):
            return [[({**total, "": constant}, form.line)]]
        if len(total) == 1 and certain and (variable := next(iter(total)))[0] == "X":
            end = self._float(-constant / total[variable], form.line)
            return self._bound(form, variable, end, self._high if total[variable] > 0 else self._low)
        raise self._refusal(
            form.line,
            f"expected a bound of one input that always holds, or a linear constraint on outputs alone, got {form}",
        )

    def _bound(self, form: Form, variable: str, value: float, ends: dict[str, float]) -> list[list[Row]]:
        if not math.isfinite(value):
            raise self._refusal(form.line, f"expected a number that float64 has, got one that is too large: {form}")
        narrower = min if ends is self._high else max
        ends[variable] = narrower(ends[variable], value) if variable in ends else value
        return [[]]  # it holds in one way, without a row

    # --- terms: linear functions ---

    def _linear(self, term: Term, line: int) -> Linear:
        """Return a term as a linear function, exactly."""
        if isinstance(term, str):
            if term in self._declared:
                return {term: Fraction(1)}
            if not NUMBER.fullmatch(term):
                raise self._refusal(line, f"expected a declared variable or a decimal number, got {term[:40]!r}")
            return {"": Fraction(term)}
        if len(term) < 2 or term[0] not in ("+", "-", "*"):
            raise self._refusal(term.line, f"expected +, - or * of linear terms, got {term}")
        total, *others = [self._linear(part, term.line) for part in term[1:]]
        if term[0] == "-" and not others:
            return _sum({}, total, -1)
        for other in others:
            total = (
                self._product(total, other, term) if term[0] == "*" else _sum(total, other, 1 if term[0] == "+" else -1)
            )
        return total

    def _product(self, a: Linear, b: Linear, term: Form) -> Linear:
        factor, linear = (a, b) if set(a) <= {""} else (b, a)
        if not set(factor) <= {""}:
            raise self._refusal(term.line, f"expected a linear function, got a product of variables, {term}")
        return {variable: value * factor.get("", Fraction(0)) for variable, value in linear.items()}

    def _float(self, value: Fraction, line: int) -> float:
        """Return the nearest float64."""
        try:
            nearest = float(value)
        except OverflowError:
            nearest = math.inf
        if math.isinf(nearest) or (value and not nearest):
            raise self._refusal(line, "expected numbers that float64 has, got one that is too large or too small")
        return nearest

    # --- all of it ---

    def query(self) -> Query:
        """Return what was read."""
        inputs, outputs = self._size("X"), self._size("Y")
        if not any(self._unsafe):
            raise BadData(f"{self._name}: expected a constraint on the outputs, got none")
        for name in (f"X_{i}" for i in range(inputs)):
            low, high = self._low.get(name), self._high.get(name)
            if low is None or high is None or low > high:
                raise BadData(
                    f"{self._name}: expected a lower bound of {name} that is not above its upper one, got {low} and "
                    f"{high}"
                )
        low, high = (
            torch.tensor([ends[f"X_{i}"] for i in range(inputs)], dtype=torch.float64)
            for ends in (self._low, self._high)
        )
        return Query(low, high, tuple(self._margin(rows, outputs) for rows in self._unsafe))

    def _size(self, kind: str) -> int:
        """Return how many inputs or outputs there are."""
        numbers = {int(name[2:]) for name in self._declared if name[0] == kind}
        missing = min(set(range(len(numbers) + 1)) - numbers)
        if not numbers or missing < len(numbers):
            raise BadData(f"{self._name}: expected variables numbered from 0, got no {kind}_{missing}")
        return len(numbers)

    def _margin(self, rows: list[Row], outputs: int) -> Margin:
        weights, bias = torch.zeros(1, len(rows), outputs).double(), torch.zeros(1, len(rows)).double()
        for i, (linear, line) in enumerate(rows):
            for variable, value in linear.items():
                number = self._float(value, line)
                if variable:
                    weights[0, i, int(variable[2:])] = number
                else:
                    bias[0, i] = number
        return Margin(weights, bias)


def _sum(a: Linear, b: Linear, sign: int) -> Linear:
    """Return a + sign · b."""
    return {v: a.get(v, Fraction(0)) + sign * b.get(v, Fraction(0)) for v in {**a, **b}}
