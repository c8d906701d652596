"""How stored figures are written in tables of Markdown."""

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from benchmarks.result import Result
from benchmarks.store import Run, Runs


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join([line(heads), "|---" * len(heads) + "|", *(line(row) for row in rows)])


def line(cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def read_table(page: Path, name: str) -> str:
    """Return what stands in a page between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    return _parts(page, name)[1].strip()


def replace_table(page: Path, name: str, table: str) -> None:
    """Put a table in the place of the one that stands in a page, see `read_table`."""
    before, _, after = _parts(page, name)
    page.write_text(f"{before}\n\n{table}\n\n{after}", encoding="utf-8")


def _parts(page: Path, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    inside, after = rest.split(end)
    return before + begin, inside, end + after


def figures(value: float, digits: int = 3) -> str:
    """Return a number in three figures, whole ones with commas.

    Example:
        >>> [figures(value) for value in (0.00312, 1.0004, 25.12, 1797.0, 1234567.0, 0.0)]
        ['0.00312', '1', '25.1', '1,797', '1,234,567', '0']
    """
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def ends(result: Result) -> str:
    """Return the spread over rounds; empty where there was one."""
    if result.lowest is None or result.highest is None:
        return ""
    return f"{figures(result.lowest)} to {figures(result.highest)}"


def with_ends(result: Result | None) -> str:
    """Return a value and, in brackets, its spread; "not measured" without one."""
    if result is None:
        return "not measured"
    return f"{figures(result.value)} ({ends(result)})" if ends(result) else figures(result.value)


def day(when: str) -> str:
    """Return a date as the page writes it.

    Example:
        >>> day("2026-11-05T12:30")
        '5 November 2026'
    """
    parsed = date.fromisoformat(when[:10])
    return f"{parsed.day} {parsed:%B %Y}"


def newest(runs: Runs) -> Run | None:
    """Return the run that was made last."""
    return max(runs.values(), key=lambda run: run.date, default=None)


def measured(runs: Runs, benchmark: str) -> str:
    """Return in which state of the code, and when, a benchmark was measured; empty where that is the newest run's."""
    last, run = newest(runs), runs.get(benchmark)
    return "" if last is None or run is None or run.commit == last.commit else f"{run.commit}, {day(run.date)}"
