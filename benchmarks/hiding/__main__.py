"""Encoders that hide from the search, and honest ones: what an audit says of each, and what is true.

    HOLDFAST_SHARED=folder python -m benchmarks.hiding [--family digits] [--only TEXT] [--again] [--truths] [--write]

What was measured is kept in `measured.json`, each encoder as soon as it ends; what is kept is not measured anew.
--again audits anew; the truths, which take longer, stay. Exit status 1 where anything flatters without a mark, or an
honest encoder is under suspicion.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch

from benchmarks.hiding import store, verdict
from benchmarks.hiding.audit import audit
from benchmarks.hiding.catalogue import entries
from benchmarks.hiding.entry import Entry
from benchmarks.hiding.family import FAMILIES, Family
from benchmarks.hiding.store import Measured, Row
from benchmarks.hiding.truth import smallest_changes
from benchmarks.hiding.verdict import Truth

ALIKE = 3
"""Encoders of the same kind, by how many of which the attack begins."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a program; return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.hiding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", choices=FAMILIES, help="one of the families")
    parser.add_argument("--only", metavar="TEXT", default="", help="encoders with this in their kind or name")
    parser.add_argument("--again", action="store_true", help="audit anew what is kept")
    parser.add_argument("--truths", action="store_true", help="search the truths further, too")
    parser.add_argument("--write", action="store_true", help="make the tables of docs/hiding.md again")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    measured, seen = Measured(), list[Row]()
    for family in FAMILIES.values():
        if options.family in (None, family.name):
            if family.absent:
                print(f"{family.name}: left out, {family.absent}", file=sys.stderr)
                continue
            chosen = [entry for entry in entries(family) if options.only in f"{entry.kind}: {entry.name}"]
            seen += [measure(entry, family, measured, options.again, options.truths) for entry in chosen]
    print(store.summary(seen))
    if options.write:
        from benchmarks import page

        page.write()
    return int(any(row.verdict in (verdict.FLATTERS, verdict.ALARM) for row in seen))


def measure(entry: Entry, family: Family, measured: Measured, again: bool = False, further: bool = False) -> Row:
    """Return an encoder's truth and audit, of which what is lacking is measured and kept."""
    truth, said = measured.truth(family.name, entry.name), measured.audit(family.name, entry.name)
    wanted = not entry.random and (entry.hides or family.honest_too)
    if wanted and (truth is None or further):
        measured.keep_truth(family.name, entry.name, find_truth(entry, family))
        truth = measured.truth(family.name, entry.name)
    fresh = said is None or again
    if said is None or again:
        begun = time.perf_counter()
        said = replace(audit(entry.make(family).eval(), family), seconds=round(time.perf_counter() - begun, 1))
        measured.keep_audit(family.name, entry.kind, entry.name, said)
    row = Row(family.name, entry.kind, entry.name, truth, said)
    weak = " (the audit found more than the truth)" if truth and verdict.worse(said, truth, family.eps) else ""
    print(("" if fresh else "kept: ") + " | ".join(store.cells(row)) + weak, flush=True)
    return row


def find_truth(entry: Entry, family: Family) -> Truth:
    """Return the smallest changes that an attack finds which knows how an encoder hides."""
    begun = time.perf_counter()
    plain = _broken(family, "")
    if not plain:
        plain.append(smallest_changes(family.network(), replace(family, rounds=4, climbs=0)).best)
    alike = _broken(family, entry.kind)
    network = (entry.judged or entry.make)(family)
    found = smallest_changes(network, family, [*plain, *alike[-ALIKE:]])
    alike.append(found.best)
    return Truth(tuple(found.radius.tolist()), time.perf_counter() - begun)


@cache
def _broken(family: Family, kind: str) -> list[torch.Tensor]:
    """Return images that break encoders of a kind, as far as they were found in this process; "" is the plain one."""
    return []


if __name__ == "__main__":
    sys.exit(main())
