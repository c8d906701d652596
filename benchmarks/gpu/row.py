"""What was found, row by row: printed at once, and written after each row, so that an interrupt keeps what there is."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.gpu.device import Device


@dataclass(frozen=True)
class Row:
    """One finding.

    Attributes:
        section: "correctness", "precision", "certificates", "engines", "training", "throughput" or "waits".
        name: what was looked at.
        value: what was found.
        expected: what it must be, or may be at most; "" for a figure alone.
        met: whether it is; None for a figure alone, or where it was skipped.
    """

    section: str
    name: str
    value: str
    expected: str = ""
    met: bool | None = None


@dataclass
class Report:
    """All rows so far.

    Attributes:
        device: where they were found.
        folder: for `gpu.json` and `gpu.md`.
    """

    device: Device
    folder: Path
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Print a row, and write all."""
        self.rows.append(row)
        verdict = {True: "met", False: "NOT MET", None: ""}[row.met]
        print(f"{row.section:13} {row.name:44} {row.value:34} {row.expected:24} {verdict}", flush=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        data = {"device": self.device.title, "rows": [asdict(row) for row in self.rows]}
        (self.folder / "gpu.json").write_text(json.dumps(data, indent=1) + "\n")
        (self.folder / "gpu.md").write_text(self.markdown)

    def attempt(self, section: str, name: str, work: Callable[[], Row]) -> None:
        """Add the row of some work; what it raises is a row that is not met, and the others follow."""
        try:
            row = work()
        except Exception as error:  # whatever fails on a device that nobody has tried is what is looked for
            lines = str(error).strip().splitlines() or [""]
            row = Row(section, name, f"{type(error).__name__}: {lines[0][:200]}", "no error", False)
        self.add(row)

    @property
    def markdown(self) -> str:
        """A table, under the device's name."""
        head = f"{self.device.title}\n\n| section | what | found | expected | |\n|---|---|---|---|---|\n"
        verdicts = {True: "met", False: "**not met**", None: ""}
        lines = [f"| {r.section} | {r.name} | {r.value} | {r.expected} | {verdicts[r.met]} |" for r in self.rows]
        return head + "\n".join(lines) + "\n"

    @property
    def wrong(self) -> bool:
        """Whether anything is not as it must be."""
        return any(row.met is False for row in self.rows)
