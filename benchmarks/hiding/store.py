"""What was measured, kept in `measured.json` encoder by encoder, and the tables of docs/hiding.md made from it."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.hiding import verdict as verdicts
from benchmarks.hiding.audit import ACCURACY, RADIUS, Audit, Number
from benchmarks.hiding.entry import HONEST, KINDS
from benchmarks.hiding.family import FAMILIES
from benchmarks.hiding.verdict import Truth
from benchmarks.tables import markdown

FILE = Path(__file__).with_name("measured.json")


@dataclass(frozen=True)
class Row:
    """All that is known of an encoder.

    Attributes:
        family: its family.
        kind: of hiding, or "honest".
        name: its own.
        truth: None where there is none.
        audit: None where there is none yet.
    """

    family: str
    kind: str
    name: str
    truth: Truth | None
    audit: Audit | None

    @property
    def eps(self) -> float:
        """Radius of the ball."""
        return FAMILIES[self.family].eps

    @property
    def verdict(self) -> str:
        """What its audit is worth."""
        assert self.audit is not None
        return verdicts.verdict(self.audit, self.truth, self.eps, self.kind != HONEST)


class Measured:
    """The file: of each encoder the truth and the audit, which are measured and kept apart."""

    def __init__(self, file: Path = FILE):
        self.file = file
        self._kept = self._read()

    def truth(self, family: str, name: str) -> Truth | None:
        """Return what is kept of an encoder's truth."""
        kept = self._kept["truths"].get(f"{family}: {name}")
        return None if kept is None else Truth(tuple(kept["radii"]), kept["seconds"])

    def audit(self, family: str, name: str) -> Audit | None:
        """Return what is kept of its audit."""
        kept = self._kept["audits"].get(f"{family}: {name}")
        return None if kept is None else Audit.read(kept)

    def keep_truth(self, family: str, name: str, truth: Truth) -> None:
        """Keep the smallest changes that are known by now."""
        truth = truth.improved(self.truth(family, name))
        radii = [float(f"{radius:.6g}") for radius in truth.radii]
        self._put("truths", f"{family}: {name}", {"radii": radii, "seconds": round(truth.seconds, 1)})

    def keep_audit(self, family: str, kind: str, name: str, audit: Audit) -> None:
        """Keep an audit in the place of the one before."""
        self._put("audits", f"{family}: {name}", _short({"kind": kind, **audit.as_json()}))

    def rows(self) -> Iterator[Row]:
        """Yield all encoders that were audited."""
        for key, kept in self._kept["audits"].items():
            family, _, name = key.partition(": ")
            yield Row(family, kept["kind"], name, self.truth(family, name), Audit.read(kept))

    def _read(self) -> dict[str, Any]:
        kept = json.loads(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        return {"truths": {}, "audits": {}, **kept}

    def _put(self, part: str, key: str, value: dict[str, Any]) -> None:
        """Keep something beside what is kept by now, by other processes too."""
        self._kept = self._read()
        self._kept[part][key] = value
        text = json.dumps({part: dict(sorted(kept.items())) for part, kept in self._kept.items()}, ensure_ascii=False)
        text = text.replace('}, "', '},\n"').replace('{"truths"', '{\n"truths"') + "\n"
        unfinished = self.file.with_suffix(".part")
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, self.file)


def _short(value: Any) -> Any:
    """Return JSON data with numbers of six figures."""
    if isinstance(value, Mapping):
        return {key: _short(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_short(entry) for entry in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def summary(rows: list[Row]) -> str:
    """Return a table by kinds."""
    lines: list[tuple[str, ...]] = []
    for kind in (kind for kind in KINDS if any(row.kind == kind for row in rows)):
        said = [row.verdict for row in rows if row.kind == kind]
        marked = sum(one in (verdicts.BOUND, verdicts.VOID, verdicts.NONE) for one in said)
        plain = sum(one in (verdicts.TRUE, verdicts.UNKNOWN) for one in said)
        lines.append((kind, str(len(said)), str(said.count(verdicts.FLATTERS)), str(marked), str(plain), ""))
    said = [row.verdict for row in rows if row.kind == HONEST]
    total = [sum(int(line[column]) for line in lines) for column in range(1, 5)]
    lines.append(("**all that hide**", *(f"**{number}**" for number in total), ""))
    flatter, alarms = said.count(verdicts.FLATTERS), said.count(verdicts.ALARM)
    lines.append(
        (
            f"**{HONEST}**",
            f"**{len(said)}**",
            f"**{flatter}**",
            "",
            f"**{said.count(verdicts.PLAIN)}**",
            f"**{alarms}**",
        )
    )
    heads = ("what hides", "encoders", "flatter without a mark", "marked", "plain, and true", "false alarms")
    return markdown(heads, lines)


def exceptions(rows: list[Row]) -> str:
    """Return a table of all that flatter, and of honest encoders under suspicion."""
    found = [row for row in rows if row.verdict in (verdicts.FLATTERS, verdicts.ALARM)]
    if not found:
        return "There are none."
    heads = (
        "encoder",
        "breaking radius /255",
        "truth at most",
        "accuracy %",
        "truth at most",
        "checks that failed",
        "verdict",
    )
    return markdown(heads, [cells(row) for row in sorted(found, key=lambda row: (row.verdict, row.kind))])


def cells(row: Row) -> tuple[str, ...]:
    """Return an encoder as a row of a table."""
    audit, truth = row.audit, row.truth
    assert audit is not None
    return (
        f"{row.family}, {row.kind}: {row.name}",
        _number(audit.numbers.get(RADIUS), 255),
        "" if truth is None else f"{255 * truth.radius:.3g}",
        _number(audit.numbers.get(ACCURACY), 100),
        "" if truth is None else f"{100 * truth.accuracy(row.eps):.3g}",
        verdicts.names((*audit.failed, *audit.errors)),
        row.verdict,
    )


def _number(number: Number | None, unit: float) -> str:
    if number is None or number.value is None:
        return "none" if number is None else number.standing
    low, high = ("∞" if end is None else f"{unit * end:.3g}" for end in (number.low, number.high))
    mark = "" if number.plain else f"{number.standing} "
    return f"{mark}{unit * number.value:.3g} [{low}, {high}]"
