"""What a benchmark found: a number, and the target beside it."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.curve import Curve, draw

MANY = 12
"""From so many rounds on, quartiles stand for the lowest and the highest: extremes grow with the rounds."""


@dataclass(frozen=True)
class Result:
    """One number of a benchmark.

    Attributes:
        name: what was measured.
        value: the median over rounds, or the only value.
        lowest: the smallest over rounds, of `MANY` the lower quartile; None where there was one.
        unit: of all three; "x" is a ratio.
        target: the largest value allowed; None where the number is only there to compare with.
        note: how it was measured, or what it is made of.
        curve: how it grows, where that was measured.
        highest: the largest over rounds, of `MANY` the upper quartile; None where there was one.
        rounds: how often it was measured.
        facts: other numbers and names of the same measurement, which a table may show.
    """

    name: str
    value: float
    lowest: float | None
    unit: str
    target: float | None
    note: str = ""
    curve: Curve | None = None
    highest: float | None = None
    rounds: int = 1
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        return None if self.target is None else self.value <= self.target


def from_rounds(name: str, values: Sequence[float], target: float | None, note: str = "", unit: str = "x") -> Result:
    """Return the result of a ratio, or of another number, that was measured in several rounds."""
    lowest, highest = spread(values)
    return Result(name, median(values), lowest, unit, target, note, highest=highest, rounds=len(values))


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest of some rounds, or the quartiles of `MANY`."""
    if len(values) < MANY:
        return min(values), max(values)
    lower, _, upper = quantiles(values, n=4)
    return lower, upper


def show(results: Sequence[Result]) -> None:
    """Print a table of results."""
    table = Table("benchmark", "median", "lowest", "highest", "target", "", "how", title="Holdfast benchmarks")
    for result in results:
        ends = ("" if end is None else f"{end:.3f}" for end in (result.lowest, result.highest))
        target = "" if result.target is None else f"≤ {result.target:g}"
        verdict = {None: "", True: "[green]met", False: "[red]not met"}[result.met]
        table.add_row(result.name, f"{result.value:.3f} {result.unit}", *ends, target, verdict, result.note)
    Console(width=None if Console().is_terminal else 180).print(table)


def report(measure: Callable[[], list[Result]], about: str | None) -> None:
    """Run a benchmark as a program: a table, or JSON with `--json`; exit status 1 where a target is not met."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser)
    options = parser.parse_args()
    publish(measure(), options.json, options.plot)


def report_sizes(measure: Callable[[tuple[int, ...]], list[Result]], sizes: tuple[int, ...], about: str | None) -> None:
    """Run a benchmark of growth as a program, of other sizes with `--sizes`; see `report`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser)
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=sizes)
    options = parser.parse_args()
    publish(measure(options.sizes), options.json, options.plot)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every benchmark takes."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw every curve as an SVG file in this folder")


def as_json(results: Sequence[Result]) -> str:
    """Return results as JSON."""
    return json.dumps([asdict(result) | {"met": result.met} for result in results], indent=1)


def publish(results: Sequence[Result], json_wanted: bool, plots: Path | None, failed: bool = False) -> None:
    """Print results, draw their curves where asked, and exit; status 1 where a target is not met or `failed`."""
    if json_wanted:
        print(as_json(results))
    else:
        show(results)
    if plots is not None:
        files = draw([result.curve for result in results if result.curve is not None], plots)
        print(f"drawn: {', '.join(map(str, files)) or 'no curves'}", file=sys.stderr)
    raise SystemExit(failed or any(result.met is False for result in results))
