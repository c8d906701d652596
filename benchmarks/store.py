"""What was measured, when, in which state and on which machine: `measured.json`, from which the page's tables are made.

A benchmark is replaced as a whole, so no row outlives the code that measured it; what is not run again stays, with the
commit that it belongs to.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.curve import Curve
from benchmarks.result import Result

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_name("measured.json")
OWN = ("benchmarks/measured.json", "docs/benchmarks.md")
"""What --write changes: it makes a commit no other state of the code."""


@dataclass(frozen=True)
class Machine:
    """Where something was measured.

    Attributes:
        cpu: model of the processor.
        cores: how many of them.
        threads: that torch may use; many benchmarks set it to 1 themselves.
        torch: its version.
        load: load average of the last minute when it began; 0 on a machine with nothing else to do.
        gpu: model of the accelerator; empty without.
    """

    cpu: str = ""
    cores: int = 0
    threads: int = 0
    torch: str = ""
    load: float = 0.0
    gpu: str = ""


@dataclass(frozen=True)
class Run:
    """What a benchmark found at one time.

    Attributes:
        results: its rows.
        date: when it began, in UTC, as YYYY-MM-DDTHH:MM; the day alone where the time was not kept.
        commit: short name of the state of the code; "and changes" where something was not committed.
        seconds: that the whole of it took, by the clock.
        machine: where.
    """

    results: tuple[Result, ...]
    date: str
    commit: str
    seconds: float
    machine: Machine

    def row(self, name: str) -> Result:
        """Return the row of a name.

        Raises:
            LookupError: there is none.
        """
        row = next((result for result in self.results if result.name == name), None)
        if row is None:
            raise LookupError(f"expected a row {name!r}, got none; measure it again with --write")
        return row

    def of(self, beginning: str) -> Result:
        """Return the one row whose name begins so.

        Raises:
            LookupError: there is none, or more than one.
        """
        rows = [result for result in self.results if result.name.startswith(beginning)]
        if len(rows) != 1:
            raise LookupError(f"expected one row {beginning!r}, got {len(rows)}; measure it again with --write")
        return rows[0]

    def curve(self, beginning: str) -> Curve:
        """Return the curve of the one row whose name begins so.

        Raises:
            LookupError: there is none.
        """
        curve = self.of(beginning).curve
        if curve is None:
            raise LookupError(f"expected a curve in the row {beginning!r}, got none; measure it again with --write")
        return curve


Runs = Mapping[str, Run]
"""Name of a benchmark -> its newest run."""


def here() -> Machine:
    """Return this machine, as busy as it is now."""
    import torch

    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    load = round(os.getloadavg()[0], 2)
    return Machine(next(iter(models), ""), os.cpu_count() or 1, torch.get_num_threads(), torch.__version__, load, gpu)


def commit() -> str:
    """Return the short name of the state of the code; "unknown" outside of a repository."""
    try:
        name = _git("rev-parse", "--short=7", "HEAD").strip()
        changed = _git("status", "--porcelain", "--", ".", *(f":!{path}" for path in OWN)).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name} and changes" if changed else name


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def now() -> str:
    """Return the date and the time, in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M")


def begun() -> Run:
    """Return a run that begins now and has found nothing yet."""
    return Run((), now(), commit(), 0.0, here())


def load(file: Path = FILE) -> dict[str, Run]:
    """Return what is stored; nothing where there is no file."""
    if not file.exists():
        return {}
    entries = json.loads(file.read_text(encoding="utf-8"))
    return {name: _run(entry) for name, entry in entries.items()}


def _run(entry: dict[str, Any]) -> Run:
    results = tuple(result(row) for row in entry["results"])
    return Run(results, entry["date"], entry["commit"], entry["seconds"], Machine(**entry["machine"]))


def result(entry: dict[str, Any]) -> Result:
    """Return a row of JSON, stored or printed by --json, as a result."""
    known = {field.name: entry[field.name] for field in fields(Result) if field.name in entry}
    curve = known.get("curve")
    if curve is not None:
        known["curve"] = Curve(**{**curve, "sizes": tuple(curve["sizes"]), "values": tuple(curve["values"])})
    return Result(**{"lowest": None, "target": None, **known, "value": float(known["value"])})


def put(name: str, run: Run, file: Path = FILE) -> None:
    """Replace what is stored of a benchmark; of one that found nothing it stays as it was."""
    if run.results:
        save({**load(file), name: run}, file)


def save(runs: Runs, file: Path = FILE) -> None:
    """Write everything, a row a line, benchmarks by name, so that changes are seen line by line."""
    blocks = []
    for name, run in sorted(runs.items()):
        rows = ",\n".join(f"   {json.dumps(_row(one), ensure_ascii=False)}" for one in run.results)
        about = {"date": run.date, "commit": run.commit, "seconds": round(run.seconds), "machine": asdict(run.machine)}
        head = json.dumps(about, ensure_ascii=False)[1:-1]
        blocks.append(f'  {json.dumps(name)}: {{{head}, "results": [\n{rows}\n  ]}}')
    file.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def _row(one: Result) -> dict[str, Any]:
    """Return a result without what it does not say; six figures of each number are enough."""
    usual = {field.name: field.default for field in fields(Result)} | {"lowest": None, "target": None, "facts": {}}
    entry = {key: value for key, value in asdict(one).items() if key not in usual or value != usual[key]}
    return {key: _short(value) for key, value in entry.items()}


def _short(value: Any) -> Any:
    """Return JSON's value with six figures in every number; infinity, which JSON has not, as text."""
    match value:
        case float():
            short = float(f"{value:.6g}")
            return short if abs(short) != float("inf") else str(short)
        case dict():
            return {key: _short(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_short(inner) for inner in value]
        case _:
            return value
