"""A benchmark of the competition of network verifiers (VNN-COMP), instance by instance, beside published results.

    python -m benchmarks.vnncomp FOLDER --out results.csv [--published results.csv] [--seconds 300] [--threads 1]
                                 [--certifiers crown,alpha_crown,beta_crown] [--only TEXT] [--limit N] [--write]

FOLDER is that of one benchmark, with a table of instances (onnx, vnnlib, seconds), from the competition's public
repositories on GitHub: vnncomp2022_benchmarks, vnncomp2023_benchmarks; published results are in vnncomp2022_results and
so on, a row an instance (benchmark, onnx, vnnlib, seconds of preparation, result, seconds). Queries may be gzipped.

Each instance has a process of its own, which is ended at its limit (that of the table where --seconds is not given),
reading of files and imports included. A line is written as it ends; the same command goes on behind the lines that
there are. The published seconds are those of another machine.
"""

import argparse
import csv
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import store
from benchmarks.curve import Curve
from benchmarks.result import Result
from benchmarks.store import Run
from benchmarks.tables import markdown

Published = Mapping[tuple[str, str], tuple[str, float]]
"""Names of a network's and a query's file -> what became of it, and in how many seconds."""

MARKS = (10, 30, 60, 120, 300)
"""Seconds at which solved instances are counted."""

WORDS = {"unsat": "verified", "holds": "verified", "sat": "falsified", "violated": "falsified"}
"""What results are called, ours and published ones."""

ONE = (
    "import json, sys, torch, holdfast; torch.set_num_threads(int(sys.argv[3])); "
    "answer = holdfast.verify_vnnlib(*sys.argv[1:3], certifiers=sys.argv[4].split(','), seconds=float(sys.argv[5])); "
    "print(json.dumps(answer.facts))"
)
"""What the process of an instance runs."""


@dataclass(frozen=True)
class Line:
    """What became of an instance.

    Attributes:
        onnx: its network.
        vnnlib: its query.
        result: "verified", "falsified", "open", or "failed: ..." where the process ended with an error.
        seconds: by the clock, of the whole process.
        by: what decided.
    """

    onnx: str
    vnnlib: str
    result: str
    seconds: float
    by: str


def instances(folder: Path) -> list[tuple[str, str, float]]:
    """Return the instances of a benchmark: network, query and limit.

    Raises:
        SystemExit: a folder without exactly one table of instances.
    """
    tables = sorted(folder.glob("*instances.csv"))
    if len(tables) != 1:
        raise SystemExit(f"{folder}: expected one table *instances.csv, got {len(tables)}")
    with tables[0].open(newline="") as file:
        return [(row[0].strip(), row[1].strip(), float(row[2])) for row in csv.reader(file) if row]


def run(folder: Path, onnx: str, vnnlib: str, certifiers: str, seconds: float, threads: int) -> Line:
    """Answer one instance in a process of its own."""
    began = time.perf_counter()
    files = [str(_unpacked_or_packed(folder / name)) for name in (onnx, vnnlib)]
    words = [sys.executable, "-c", ONE, *files, str(threads), certifiers, str(seconds)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Line(onnx, vnnlib, "open", seconds, "")
    spent = time.perf_counter() - began
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return Line(onnx, vnnlib, f"failed: {last[:200]}", spent, "")
    answer = json.loads(done.stdout.splitlines()[-1])
    return Line(onnx, vnnlib, WORDS.get(answer["result"], "open"), spent, answer["by"])


def _unpacked_or_packed(path: Path) -> Path:
    """Return a file, or the one beside it that gzip made of it."""
    packed = Path(f"{path}.gz")
    return packed if packed.exists() and not path.exists() else path


def read_lines(path: Path) -> list[Line]:
    """Return the lines of results that were written before."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Line(onnx, vnnlib, result, float(seconds), by) for onnx, vnnlib, result, seconds, by in csv.reader(file)
        ]


def published(path: Path) -> Published:
    """Return published results by the names of their files: what became of each, and in how many seconds."""
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    return {(Path(row[1]).stem, Path(row[2]).stem): (WORDS.get(row[4].lower(), "open"), float(row[5])) for row in rows}


def solved(results: Sequence[tuple[str, float]], words: Sequence[str] = ("verified", "falsified")) -> list[int]:
    """Return how many instances were decided within each of `MARKS`, with one of some results."""
    decided = [seconds for result, seconds in results if result in words]
    return [sum(seconds <= mark for seconds in decided) for mark in MARKS]


def as_results(lines: Sequence[Line], others: Published) -> list[Result]:
    """Return of every network how many instances were verified, over time, by Holdfast and by who is compared with."""
    results = []
    for network in dict.fromkeys(Path(line.onnx).stem for line in lines):
        own = [line for line in lines if Path(line.onnx).stem == network]
        beside = [other for line in own if (other := others.get((network, Path(line.vnnlib).stem)))]
        by_crown = sum(line.by == "crown" for line in own)
        for verifier, answers, note in (
            ("Holdfast", [(line.result, line.seconds) for line in own], f"{by_crown} by `crown` alone"),
            ("published", beside, ""),
        ):
            if answers:
                counts = tuple(float(count) for count in solved(answers, ["verified"]))
                curve = Curve(f"{network}, {verifier}", "seconds", "instances verified", MARKS, counts)
                facts = {"network": network, "verifier": verifier, "of": len(answers)}
                name = f"verified, {network}, {verifier}"
                results.append(Result(name, counts[-1], None, "instances", None, note, curve, facts=facts))
    return results


def table(run: Run) -> str:
    """Return how many instances were verified within each of `MARKS`."""
    heads = ["network", "verifier", *(f"verified within {mark} s" for mark in MARKS), "of", ""]
    rows = []
    for row in run.results:
        counts = (f"{count:.0f}" for count in run.curve(row.name).values)
        rows.append([row.facts["network"], row.facts["verifier"], *counts, str(row.facts["of"]), row.note])
    return markdown(heads, rows)


def show(lines: Sequence[Line], others: Published) -> list[str]:
    """Print instance by instance and over time; return those where a result contradicts the published one."""
    table = Table("network", "query", "result", "seconds", "by", "published", "seconds")
    beside = [others.get((Path(line.onnx).stem, Path(line.vnnlib).stem)) for line in lines]
    wrong = []
    for line, other in zip(lines, beside, strict=True):
        names = Path(line.onnx).stem, Path(line.vnnlib).stem
        table.add_row(
            *names, line.result, f"{line.seconds:.1f}", line.by, *((other[0], f"{other[1]:.1f}") if other else ("", ""))
        )
        if other and {line.result, other[0]} == {"verified", "falsified"}:
            wrong.append(f"{names[1]}: {line.result}, published as {other[0]}")
    over_time = Table("solved within", *(f"{mark} s" for mark in MARKS), "verified", "falsified", "of")
    for title, results in (
        ("Holdfast", [(line.result, line.seconds) for line in lines]),
        ("published", [other for other in beside if other]),
    ):
        if results:
            counts = [sum(result == word for result, _ in results) for word in ("verified", "falsified")]
            over_time.add_row(title, *map(str, (*solved(results), *counts, len(results))))
    console = Console(width=None if Console().is_terminal else 140)
    console.print(table)
    console.print(over_time)
    return wrong


def main() -> None:
    """Run as a program; exit status 1 where a result contradicts the published one, or an instance failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="results, a line as each instance ends; read again")
    parser.add_argument("--published", type=Path, help="results of another verifier")
    parser.add_argument("--seconds", type=float, help="limit of each instance, instead of its own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--certifiers", default="crown,alpha_crown,beta_crown")
    parser.add_argument("--only", default="", help="instances whose files' names hold this")
    parser.add_argument("--limit", type=int, help="at most so many instances more")
    parser.add_argument("--write", action="store_true", help="keep it in measured.json; then python -m benchmarks.page")
    options = parser.parse_args()
    begun = store.begun()
    before = read_lines(options.out)
    known = {(line.onnx, line.vnnlib) for line in before}
    chosen = [one for one in instances(options.folder) if options.only in one[0] + one[1] and one[:2] not in known]
    for onnx, vnnlib, limit in chosen[: options.limit]:
        line = run(options.folder, onnx, vnnlib, options.certifiers, options.seconds or limit, options.threads)
        with options.out.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(astuple(line))
        print(f"{Path(vnnlib).name}: {line.result}, {line.seconds:.1f} s {line.by}", file=sys.stderr)
    lines, others = read_lines(options.out), published(options.published) if options.published else {}
    wrong = show(lines, others)
    if options.write:
        results = tuple(as_results(lines, others))
        stored = replace(begun, results=results, seconds=sum(line.seconds for line in lines))
        store.put(f"vnncomp_{options.folder.resolve().name}", stored)
    wrong += [f"{line.vnnlib}: {line.result}" for line in lines if line.result.startswith("failed")]
    for problem in wrong:
        print(problem, file=sys.stderr)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
