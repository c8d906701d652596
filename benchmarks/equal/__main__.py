"""What Holdfast rebuilds of other libraries, compared with the original; a family after the other.

    python -m benchmarks.equal [--only NAME,NAME] [--write]

A family is a file of this folder with a `FAMILY`. --write keeps what was found in `measured.json`, each family as soon
as it ends, and makes the tables of docs/equal.md from it. Exit status 1 where something is different and not refused.
"""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from benchmarks import page
from benchmarks.equal import store
from benchmarks.equal.family import Case, Family, families


def chosen(only: str | None) -> dict[str, Family]:
    """Return the families to compare.

    Raises:
        SystemExit: a name that there is not.
    """
    names = only.split(",") if only else sorted(families())
    if strange := [name for name in names if name not in families()]:
        raise SystemExit(f"expected families among {', '.join(sorted(families()))}; got {', '.join(strange)}")
    return {name: families()[name] for name in names}


def told(family: Family) -> Iterator[Case]:
    """Yield the comparisons of a family, and say which are different."""
    for case in family.cases():
        if case.difference is not None and not case.difference <= family.limit:
            print(f"  different: {case.name}, {case.difference:.4g} {family.unit}", file=sys.stderr, flush=True)
        yield case


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.equal", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAMES", help="some families, separated by commas")
    parser.add_argument("--write", action="store_true", help="into measured.json and the tables of docs/equal.md")
    options = parser.parse_args()
    failed = False
    for name, family in chosen(options.only).items():
        found = store.gathered(told(family), family, f"{datetime.now(UTC):%Y-%m-%d}")
        failed |= bool(found.different)
        print(
            f"{name}: {found.equal} equal (at most {found.largest:g} {family.unit} apart: {found.of}), "
            f"{found.refused} refused, {len(found.different)} different",
            flush=True,
        )
        if options.write:
            store.keep(name, found)
            page.write()
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
