"""Whether a change made a loop slower: short versions of the benchmarks, beside what they were when they were stored.

    python -m benchmarks.quick [--only NAME,NAME] [--tolerance 0.1] [--json]

A benchmark that can be repeated in seconds has `short`, which measures some of its rows again, in the same way with
fewer rounds, on one thread, and `SHORT`, their names (`*` stands for any text). Ratios of one process agree better with
each other than with those of the next one, where memory lies elsewhere. So each is measured in a process of its own, as
when it was stored (`starts`), and in two more where it seems slower. It got slower where the median of the three is
above the stored one by more than the tolerance, and their lowest above the highest that is stored; faster likewise.
Counts of passes must be the same. Times are not compared: they are of one machine. The exit status is 1 where something
got slower or is missing.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks import store
from benchmarks.__main__ import chosen
from benchmarks.result import Result, from_rounds
from benchmarks.running import COUNTS, STARTS, by_name, compared, short_of, shortly
from benchmarks.store import Runs

TOLERANCE = 0.1
Short = Callable[[], list[Result]]


@dataclass(frozen=True)
class Verdict:
    """What became of a row.

    Attributes:
        benchmark: that measures it.
        name: of the row.
        fate: "slower", "faster", "as before", "not stored" or "not measured".
        before: what is stored; None where nothing is.
        now: what was measured; None where nothing was.
    """

    benchmark: str
    name: str
    fate: str
    before: Result | None
    now: Result | None


def fate(before: Result, now: Sequence[float], tolerance: float) -> str:
    """Return whether a row got slower or faster, beyond a tolerance and what processes differ by.

    Args:
        before: what is stored.
        now: what was measured, in a process each.
        tolerance: share of the stored value.
    """
    if before.unit in COUNTS:
        return "slower" if now[0] > before.value else "faster" if now[0] < before.value else "as before"
    known, value = _starts(before), median(now)
    if value > (1 + tolerance) * median(known) and min(now) > max(known):
        return "slower"
    return "faster" if value < (1 - tolerance) * median(known) and max(now) < min(known) else "as before"


def _starts(before: Result) -> list[float]:
    """Return what a row was in each of some processes; where that is not stored, in its rounds."""
    ends = (before.value if end is None else end for end in (before.lowest, before.highest))
    return before.facts.get("starts") or [*ends, before.value]


def judge(name: str, short: Short, rows: Sequence[str], runs: Runs, tolerance: float = TOLERANCE) -> list[Verdict]:
    """Measure a benchmark's short version, twice more where something may be slower, and compare it.

    Args:
        name: of the benchmark.
        short: what measures, each time in a process of its own.
        rows: names of what it measures.
        runs: what is stored.
        tolerance: share of its stored value by which a ratio may rise.
    """
    known = {row.name: row for row in runs[name].results if compared(row)} if name in runs else {}
    first = by_name(short())
    values = {row: [result.value] for row, result in first.items()}
    if any(fate(known[row], now, tolerance / 2) == "slower" for row, now in values.items() if row in known):
        for _ in range(STARTS - 1):
            for row, result in by_name(short()).items():
                values.setdefault(row, []).append(result.value)
    missing = [row for row in known if row not in first and any(fnmatchcase(row, text) for text in rows)]
    return [
        *(_verdict(name, known.get(row), first[row], values[row], tolerance) for row in first),
        *(Verdict(name, row, "not measured", known[row], None) for row in missing),
    ]


def _verdict(name: str, before: Result | None, first: Result, values: Sequence[float], tolerance: float) -> Verdict:
    now = first if len(values) == 1 else from_rounds(first.name, values, first.target, first.note, first.unit)
    return Verdict(name, now.name, "not stored" if before is None else fate(before, values, tolerance), before, now)


def shorts(names: Sequence[str]) -> dict[str, tuple[Short, tuple[str, ...]]]:
    """Return what measures the short version of every benchmark that has one, and what it measures."""
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    return {name: (partial(shortly, name), module.SHORT) for name, module in modules.items() if short_of(name)}


def show(verdicts: Sequence[Verdict]) -> None:
    """Print what got slower, faster, is missing, and all else."""
    table = Table("benchmark", "row", "stored", "now", "", title="Loops, beside what is stored")
    colours = {"slower": "[red]", "faster": "[green]", "not measured": "[yellow]", "not stored": "[yellow]"}
    for one in verdicts:
        ends = (_text(result) for result in (one.before, one.now))
        table.add_row(one.benchmark, one.name, *ends, f"{colours.get(one.fate, '')}{one.fate}")
    Console(width=None if Console().is_terminal else 160).print(table)


def _text(result: Result | None) -> str:
    if result is None:
        return ""
    spread = "" if result.lowest is None else f" ({result.lowest:.3g} to {result.highest:.3g})"
    return f"{result.value:.3g}{spread} {result.unit}"


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.quick", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAMES", help="some benchmarks, separated by commas")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, metavar="SHARE", help="beyond the spread")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    runs, verdicts = store.load(), []
    for name, (short, rows) in shorts(chosen(options.only, slow=True)).items():
        began = time.perf_counter()
        verdicts += judge(name, short, rows, runs, options.tolerance)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    else:
        show(verdicts)
    for kind in ("slower", "not measured", "not stored", "faster"):
        rows = [f"{verdict.benchmark}: {verdict.name}" for verdict in verdicts if verdict.fate == kind]
        if rows:
            print(f"{kind}: {'; '.join(rows)}", file=sys.stderr)
    sys.exit(any(verdict.fate in ("slower", "not measured", "not stored") for verdict in verdicts))


if __name__ == "__main__":
    main()
