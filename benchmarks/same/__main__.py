"""Every formula of the five papers that Holdfast computes, beside the authors' code or an independent computation.

    python -m benchmarks.same [--write]

--write makes the tables of docs/reproductions/same.md. Exit status 1 where two sides are farther apart than a limit.
What the authors' code gave is stored in theirs.json; `theirs.py` makes it anew from their repositories.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.same import contrastive, nppr, rvcl, synbench, unsupervised
from benchmarks.same.comparison import Comparison, Difference, Published, sources
from benchmarks.tables import markdown, replace_table

PAGE = Path(__file__).parents[2] / "docs/reproductions/same.md"

PAPERS = {module.PAPER: module.COMPARISONS for module in (rvcl, unsupervised, nppr, contrastive, synbench)}
"""The comparisons of each paper, by what the page calls it."""

HEADS = ("formula", "compared with, and on what", "numbers", "largest difference")


def comparisons() -> Iterator[tuple[str, Comparison]]:
    """Yield (paper, comparison)."""
    for paper, rows in PAPERS.items():
        for row in rows:
            yield paper, row


def row(found: Difference) -> tuple[str, ...]:
    """Return a row of a table."""
    what = found.comparison
    first = f"{what.formula}<br>{what.part}"
    size = f"{found.largest:.1g} (limit {what.limit:g})"
    return (
        first,
        f"{what.theirs.title}<br>{what.on}",
        f"{found.count:,}",
        size if found.is_same else f"**different**: {size}",
    )


def summary(found: list[Difference]) -> str:
    """Return how many formulas were compared with what, and how many differ."""
    formulas = {(paper, what.formula) for paper, what in comparisons()}
    published = [one for one in found if isinstance(one.comparison.theirs, Published)]
    numbers = sum(one.count for one in found)
    different = sum(not one.is_same for one in found)
    return (
        f"**{len(formulas)} formulas and algorithms in {len(found)} comparisons of {numbers:,} numbers**: "
        f"{len(published)} with the authors' own code, {len(found) - len(published)} with an independent computation. "
        f"**Different: {different}.**"
    )


def write(found: dict[str, list[Difference]]) -> None:
    """Put what was found into the page."""
    replace_table(PAGE, "summary", summary([one for rows in found.values() for one in rows]))
    for paper, rows in found.items():
        replace_table(PAGE, paper.lower(), markdown(HEADS, map(row, rows)))
    of = [
        (f"[{address.partition('//')[2]}]({address})", f"`{commit[:12]}`", licence)
        for _, address, commit, licence in sources()
    ]
    replace_table(PAGE, "repositories", markdown(("repository", "commit", "licence"), of))


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.same", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="the tables of docs/reproductions/same.md")
    options = parser.parse_args()
    found: dict[str, list[Difference]] = {}
    for paper, what in comparisons():
        one = what.run()
        found.setdefault(paper, []).append(one)
        mark = "same" if one.is_same else "DIFFERENT"
        print(f"{mark:9} {one.largest:8.2g} (limit {what.limit:g})  {paper}, {what.formula}", flush=True)
    rows = [one for part in found.values() for one in part]
    print(summary(rows).replace("**", ""))
    if options.write:
        write(found)
    raise SystemExit(any(not one.is_same for one in rows))


if __name__ == "__main__":
    main()
