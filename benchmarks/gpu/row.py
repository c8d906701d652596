"""What was found, row by row: printed at once and appended to a file, so that whatever ends the command keeps it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.gpu.device import Machine


@dataclass(frozen=True)
class Finding:
    """What a piece of work found.

    Attributes:
        found: in words.
        expected: what it must be, or may be at most; "" for a figure alone.
        met: whether it is; None for a figure alone, or where it was left out.
        figures: numbers for tables, by the name of their column.
    """

    found: str
    expected: str = ""
    met: bool | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One finding, where it belongs.

    Attributes:
        section: of `benchmarks.gpu.sections`.
        name: what was looked at.
        finding: what was found.
        seconds: that it took, by the clock.
    """

    section: str
    name: str
    finding: Finding
    seconds: float = 0.0


@dataclass
class Report:
    """All rows so far.

    Attributes:
        machine: where they were found.
        folder: for `gpu.jsonl`, whose first line is the machine, and `gpu.md`.
    """

    machine: Machine
    folder: Path
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(asdict(self.machine)) + "\n", encoding="utf-8")

    @property
    def _file(self) -> Path:
        return self.folder / "gpu.jsonl"

    def add(self, row: Row) -> None:
        """Print a row, and write it."""
        self.rows.append(row)
        at = row.finding
        verdict = {True: "met", False: "NOT MET", None: ""}[at.met]
        print(f"{row.section:13} {row.name:44} {at.found:52} {at.expected:22} {verdict}".rstrip(), flush=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
        (self.folder / "gpu.md").write_text(markdown(self.machine, self.rows), encoding="utf-8")

    @property
    def summary(self) -> str:
        """How many rows are as they must be, and what was left out, in lines."""
        met, wrong = ([row for row in self.rows if row.finding.met is wanted] for wanted in (True, False))
        out: dict[str, list[str]] = {}
        for row in self.rows:
            if row.finding.found.startswith(("left out", "not reached")):
                out.setdefault(row.finding.found, []).append(f"{row.section}: {row.name}")
        lines = [f"{len(self.rows)} rows: {len(met)} met, {len(wrong)} not met, {sum(map(len, out.values()))} not made"]
        lines += [f"  not met: {row.section}: {row.name}: {row.finding.found}" for row in wrong]
        return "\n".join([*lines, *(f"  {why}: {'; '.join(rows)}" for why, rows in out.items())])

    @property
    def wrong(self) -> bool:
        """Whether anything is not as it must be."""
        return any(row.finding.met is False for row in self.rows)


def markdown(machine: Machine, rows: Sequence[Row]) -> str:
    """Return all rows as one table, under the machine."""
    head = f"{machine.title}\n\n| section | what | found | expected | | s |\n|---|---|---|---|---|---|\n"
    verdicts = {True: "met", False: "**not met**", None: ""}
    lines = [
        f"| {row.section} | {row.name} | {row.finding.found} | {row.finding.expected} | {verdicts[row.finding.met]} "
        f"| {row.seconds:.0f} |"
        for row in rows
    ]
    return head + "\n".join(lines) + "\n"


def read(file: Path) -> list[tuple[Machine, list[Row]]]:
    """Return what commands have written: each machine, and the rows behind it.

    Raises:
        ValueError: a file that is none of its kind, or was cut off.
    """
    runs: list[tuple[Machine, list[Row]]] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            if "finding" in entry:
                runs[-1][1].append(Row(**{**entry, "finding": Finding(**entry["finding"])}))
            else:
                runs.append((Machine(**entry), []))
        except (ValueError, TypeError, LookupError):
            raise ValueError(
                f"{file}, line {number}: expected a machine or a row of it, as python -m benchmarks.gpu writes them, "
                f"got {line[:60]!r}; where it was cut off, delete that line"
            ) from None
    return runs
