"""Whether a change made a loop slower: short versions of the benchmarks, beside the stored ratios and their spread.

    python -m benchmarks.quick [--only NAME,NAME] [--tolerance 0.1] [--json]

A benchmark that can be repeated in seconds has `short`, which measures some of its rows again, in the same way with
fewer rounds, on one thread, and `SHORT`, their names (`*` stands for any text). A ratio got slower where even the
lowest of the new rounds is above the highest of the stored ones by more than the tolerance, and is so again when it is
measured once more; it got faster where even the highest is below the lowest. Counts of passes must be the same. Times
are not compared: they are of one machine. The exit status is 1 where something got slower or is missing.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import store
from benchmarks.__main__ import chosen
from benchmarks.result import Result
from benchmarks.store import Runs

TOLERANCE = 0.1
COUNTS = ("passes", "images", "")
"""Units of what is counted and must be equal; "x" is a ratio."""

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


def fate(before: Result, now: Result, tolerance: float) -> str:
    """Return whether a row got slower or faster, beyond the rounds of both and a tolerance."""
    if now.unit in COUNTS:
        return "slower" if now.value > before.value else "faster" if now.value < before.value else "as before"
    if _least(now) > (1 + tolerance) * _most(before):
        return "slower"
    return "faster" if _most(now) < (1 - tolerance) * _least(before) else "as before"


def _least(result: Result) -> float:
    return result.value if result.lowest is None else result.lowest


def _most(result: Result) -> float:
    return result.value if result.highest is None else result.highest


def compared(result: Result) -> bool:
    """Return whether rows of this kind are compared: ratios and counts, no times."""
    return result.unit == "x" or result.unit in COUNTS


def judge(name: str, short: Short, rows: Sequence[str], runs: Runs, tolerance: float = TOLERANCE) -> list[Verdict]:
    """Measure a benchmark's short version, once more where something seems slower, and compare it.

    Args:
        name: of the benchmark.
        short: what measures.
        rows: names of what it measures.
        runs: what is stored.
        tolerance: share that a ratio may leave the stored spread by.
    """
    known = {row.name: row for row in runs[name].results if compared(row)} if name in runs else {}
    now = _by_name(short())
    slower = _slower(known, now, tolerance)
    if slower:
        again = _by_name(short())
        now |= {row: again[row] for row in slower - _slower(known, again, tolerance) if row in again}
    missing = [row for row in known if row not in now and any(fnmatchcase(row, text) for text in rows)]
    return [
        *(_verdict(name, known.get(row), result, tolerance) for row, result in now.items()),
        *(Verdict(name, row, "not measured", known[row], None) for row in missing),
    ]


def _by_name(results: Sequence[Result]) -> dict[str, Result]:
    return {result.name: result for result in results if compared(result)}


def _slower(known: Mapping[str, Result], now: Mapping[str, Result], tolerance: float) -> set[str]:
    return {row for row, result in now.items() if row in known and fate(known[row], result, tolerance) == "slower"}


def _verdict(name: str, before: Result | None, now: Result, tolerance: float) -> Verdict:
    return Verdict(name, now.name, "not stored" if before is None else fate(before, now, tolerance), before, now)


def shorts(names: Sequence[str]) -> dict[str, tuple[Short, tuple[str, ...]]]:
    """Return the short version of every benchmark that has one, and what it measures."""
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    return {name: (module.short, module.SHORT) for name, module in modules.items() if hasattr(module, "short")}


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
    spread = "" if result.lowest is None else f" ({_least(result):.3g} to {_most(result):.3g})"
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
    torch.set_num_threads(1)
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
