"""What cards have given, kept in `measured.jsonl`, and the tables of the docs that are made from it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.gpu.device import Device, Machine
from benchmarks.gpu.row import Row, read
from benchmarks.gpu.sections import SECTIONS, tasks
from benchmarks.tables import day, figures, markdown

FILE = Path(__file__).with_name("measured.jsonl")

TABLED = ("steps", "audits")
"""Sections that have tables of their own."""

NOT_MADE = ("left out", "not reached", "what follows was not made")

Measured = Sequence[tuple[Machine, Row]]


def publish(*files: Path) -> str:
    """Keep the rows of some files, each in the place of an older one of its name, and make the docs again.

    Raises:
        SystemExit: a file that is none of the command's, of a rehearsal, or without a row; nothing is changed then.
    """
    rows = {(row.section, row.name): (machine, row) for machine, row in load()}
    for file in files:
        try:
            ((machine, new),) = read(file)
        except (OSError, ValueError) as error:
            raise SystemExit(str(error)) from None
        if not machine.gpu:
            raise SystemExit(f"{file}: expected rows of a GPU, got a rehearsal, whose figures say nothing about one")
        made = [row for row in new if not row.finding.found.startswith(NOT_MADE)]
        if not made:
            raise SystemExit(f"{file}: expected rows, got none that was made")
        rows |= {(row.section, row.name): (machine, row) for row in made}
    lines: list[object] = []
    for machine in dict.fromkeys(machine for machine, _ in rows.values()):
        lines += [asdict(machine), *(asdict(row) for of, row in rows.values() if of == machine)]
    FILE.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")

    from benchmarks import page  # which makes its tables by this module

    page.write()
    return f"kept: {len(rows)} rows; written: {', '.join(str(place.name) for place in page.PAGES)}"


def load() -> Measured:
    """Return what is kept; nothing where no card has been measured."""
    return [(machine, row) for machine, rows in read(FILE) for row in rows] if FILE.exists() else []


def answer(measured: Measured) -> str:
    """Return whether Holdfast runs on GPUs, as a cell of the table of docs/other-tools.md."""
    if not measured:
        return "written for them, not yet measured"
    cards = " and ".join(dict.fromkeys(machine.gpu.partition(",")[0] for machine, _ in measured))
    return f"**yes**, [measured](scale.md#gpus) on one {cards}"


def where(measured: Measured) -> str:
    """Return on which cards, when and in which states of the code it was measured."""
    states: dict[str, dict[str, int]] = {}
    for machine, _ in measured:
        counts = states.setdefault(f"{machine.title}; {day(machine.date)}", {})
        counts[machine.commit] = counts.get(machine.commit, 0) + 1
    several = "; and on ".join(
        f"{title}, {', '.join(f'{commit} ({count} rows)' for commit, count in counts.items())}"
        for title, counts in states.items()
    )
    return f"Measured on {several}."


def summary(measured: Measured) -> str:
    """Return what each section found, in short."""
    if not measured:
        return (
            "None of this has run on a GPU yet. It was tested on a pretended one: tensors that compute on the CPU, "
            "refuse to be mixed with its tensors, and count every operation for which the host would wait."
        )
    lines = []
    planned = [task.section for task in tasks(Device("cuda"))]
    for section, question in SECTIONS.items():
        rows = [row for _, row in measured if row.section == section]
        judged = [row for row in rows if row.finding.met is not None]
        wrong = [row.name for row in judged if not row.finding.met]
        met = f"{len(judged) - len(wrong)} of {len(judged)}" if judged else ""
        lines.append((question, f"{len(rows)} of {planned.count(section)}", met, "; ".join(wrong)))
    heads = ("what", "rows made so far", "as they must be", "what is not")
    return f"{where(measured)}\n\n" + markdown(heads, lines)


def tables(measured: Measured) -> str:
    """Return all rows: steps and audits in columns, the others as they were found."""
    if not measured:
        return "Not measured on a GPU yet; `make gpu` is rehearsed on a CPU."
    parts = [where(measured)]
    if steps := _of(measured, "steps"):
        heads = ("network, precision", "images/s of the bare network, forward and back", "at a batch of",
                 "of that at an audit's own batch", "step / bare", "by its own work", "GiB")  # fmt: skip
        parts.append(markdown(heads, [_step(row) for row in steps]))
    if audits := _of(measured, "audits"):
        heads = ("audit", "images, attacked", "passes", "time", "/ bare passes", "GiB")
        parts.append(markdown(heads, [_audit(row) for row in audits]))
    verdicts = {True: "met", False: "**not met**", None: ""}
    others = [
        (row.section, row.name, row.finding.found, row.finding.expected, verdicts[row.finding.met])
        for _, row in measured
        if row.section not in TABLED or not row.finding.figures
    ]
    return "\n\n".join([*parts, markdown(("", "what", "found", "expected", ""), others)])


def _of(measured: Measured, section: str) -> list[Row]:
    return [row for _, row in measured if row.section == section and row.finding.figures]


def _step(row: Row) -> list[str]:
    at = row.finding.figures
    default = f"{at['default']:.0%}" if at["default"] else ""
    name = row.name.removesuffix(": PGD")
    return [
        name,
        f"{at['bare']:,.0f}",
        f"{at['batch']:,.0f}",
        default,
        _ratio(at, "step"),
        _ratio(at, "work"),
        _memory(at),
    ]


def _audit(row: Row) -> list[str]:
    at = row.finding.figures
    return [row.name, f"{at['images']:.0f}, {at['attacked']:.0f}", f"{at['passes']:,.0f}", f"{at['seconds']:.1f} s",
            _ratio(at, "ratio"), _memory(at)]  # fmt: skip


def _ratio(at: Mapping[str, float], name: str) -> str:
    return f"{figures(at[name])} x" if name in at else ""


def _memory(at: Mapping[str, float]) -> str:
    return f"{at['memory']:.1f}" if "memory" in at else ""
