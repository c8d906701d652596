"""What a benchmark found: a number, and the target beside it."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.curve import Curve, draw


@dataclass(frozen=True)
class Result:
    """One number of a benchmark.

    Attributes:
        name: what was measured.
        value: the median over rounds, or the only value.
        lowest: the smallest over rounds; None where there was one.
        unit: of both; "x" is a ratio.
        target: the largest value allowed; None where the number is only there to compare with.
        note: how it was measured, or what it is made of.
        curve: how it grows, where that was measured.
    """

    name: str
    value: float
    lowest: float | None
    unit: str
    target: float | None
    note: str = ""
    curve: Curve | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        return None if self.target is None else self.value <= self.target


def from_rounds(name: str, values: Sequence[float], target: float | None, note: str = "") -> Result:
    """Return the result of a ratio that was measured in several rounds."""
    return Result(name, median(values), min(values), "x", target, note)


def show(results: Sequence[Result]) -> None:
    """Print a table of results."""
    table = Table("benchmark", "median", "lowest", "target", "", "how", title="Holdfast benchmarks")
    for result in results:
        lowest = "" if result.lowest is None else f"{result.lowest:.3f}"
        target = "" if result.target is None else f"≤ {result.target:g}"
        verdict = {None: "", True: "[green]met", False: "[red]not met"}[result.met]
        table.add_row(result.name, f"{result.value:.3f} {result.unit}", lowest, target, verdict, result.note)
    Console(width=None if Console().is_terminal else 180).print(table)


def report(measure: Callable[[], list[Result]], about: str | None) -> None:
    """Run a benchmark as a program: a table, or JSON with `--json`; exit status 1 where a target is not met."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser)
    options = parser.parse_args()
    publish(measure(), options.json, options.plot)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every benchmark takes."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw every curve as an SVG file in this folder")


def as_json(results: Sequence[Result]) -> str:
    """Return results as JSON."""
    return json.dumps([asdict(result) | {"met": result.met} for result in results], indent=1)


def publish(results: Sequence[Result], json_wanted: bool, plots: Path | None) -> None:
    """Print results, draw their curves where asked, and exit; status 1 where a target is not met."""
    if json_wanted:
        print(as_json(results))
    else:
        show(results)
    if plots is not None:
        files = draw([result.curve for result in results if result.curve is not None], plots)
        print(f"drawn: {', '.join(map(str, files)) or 'no curves'}", file=sys.stderr)
    raise SystemExit(any(result.met is False for result in results))
