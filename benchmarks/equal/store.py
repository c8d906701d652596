"""What comparisons gave, kept in `measured.json`, and the tables of docs/equal.md that are made from it."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.equal.family import Case, Family, families
from benchmarks.tables import day, figures, markdown

NUMBERS = re.compile(r"\[\d[^\]]*\]|\b\d+\b")
"""What differs between two lines that give the same reason."""

FILE = Path(__file__).with_name("measured.json")


@dataclass(frozen=True)
class Found:
    """What the comparisons of a family gave at one time.

    Attributes:
        date: YYYY-MM-DD.
        versions: of the packages that were compared with.
        equal: how many were equal.
        refused: how many were refused.
        different: what was different, unnoticed; there should be none.
        largest: the largest difference among the equal ones.
        of: which one had that.
        never: subjects, the part of a name before its colon, of which nothing was equal, and why.
    """

    date: str
    versions: Mapping[str, str]
    equal: int
    refused: int
    different: tuple[str, ...] = ()
    largest: float = 0.0
    of: str = ""
    never: Mapping[str, str] = field(default_factory=dict)


def gathered(cases: Iterable[Case], family: Family, date: str) -> Found:
    """Return what the comparisons of a family gave."""
    equal: dict[str, float] = {}
    refused: dict[str, str] = {}
    different: list[str] = []
    for case in cases:
        if case.difference is None:
            refused[case.name] = case.refused
        elif case.difference <= family.limit:
            equal[case.name] = case.difference
        else:  # not a number, too
            different.append(case.name)
    of = max(equal, key=equal.__getitem__, default="")
    some = {_subject(name) for name in equal}
    never = {_subject(name): why for name, why in reversed(refused.items()) if _subject(name) not in some}
    return Found(
        date, family.versions, len(equal), len(refused), tuple(different), float(f"{equal.get(of, 0):.3g}"), of,
        dict(sorted(never.items())),
    )  # fmt: skip


def load(file: Path = FILE) -> dict[str, Found]:
    """Return what is kept, by the names of families."""
    if not file.exists():
        return {}
    kept = json.loads(file.read_text(encoding="utf-8"))
    return {name: Found(**{**entry, "different": tuple(entry["different"])}) for name, entry in kept.items()}


def keep(name: str, found: Found, file: Path = FILE) -> None:
    """Put what a family gave in the place of what it gave before."""
    kept = {key: asdict(entry) for key, entry in sorted({**load(file), name: found}.items())}
    file.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table() -> str:
    """Return what is compared with what, over how many, and the largest difference: a row for each family."""
    kept, rows = load(), []
    for name, family in sorted(families().items()):
        title = f"**{family.title}**<br>{family.ours}, with {family.theirs}"
        if name not in kept:
            rows.append((title, "not compared yet", "", "", ""))
            continue
        found = kept[name]
        of = ", ".join(f"{package} {version}" for package, version in found.versions.items())
        largest = f"{figures(found.largest, 2)} (limit {figures(family.limit)}), {family.unit}"
        counts = figures(found.equal), figures(found.refused), str(len(found.different))
        rows.append((title, *counts, f"{largest}<br>{of}, {day(found.date)}"))
    return markdown(("what is compared with what", "equal", "refused", "different", "largest difference"), rows)


def refusals() -> str:
    """Return what was never equal and hence is refused, by the reason."""
    reasons: dict[str, list[str]] = {}
    for found in load().values():
        for subject, why in found.never.items():
            reasons.setdefault(NUMBERS.sub("…", why.partition(" (")[0]), []).append(subject)
    rows = [(why, ", ".join(names)) for why, names in sorted(reasons.items(), key=lambda item: -len(item[1]))]
    return markdown(("why", "which"), rows)


def _subject(name: str) -> str:
    return name.partition(": ")[0]
