"""One index by itself: hubs, near-duplicates, directions, and what every number of its vectors says."""

from rich.text import Text

from holdfast.report.document import Block, Document, Items, ToCopy
from holdfast.report.documents.gate import MARKS, requirements
from holdfast.report.numbers import number, plural, score
from holdfast.report.table import Table
from holdfast.storage.index_audit import IndexAudit

NAMED = 3
"""Hubs, pairs and groups that are named in a terminal."""


def document(record: IndexAudit, report: str | None = None) -> Document:
    """Return what is found of an index.

    Args:
        record: what was found.
        report: where its page is; not said where None.
    """
    shown: list[Block] = [*map(Text, sentences(record)), tabulate(record)]
    lines = name_found(record, NAMED)
    shown += [Items(list(map(Text, lines)))] if lines else []
    shown += [Items([Text(note, "yellow") for note in record.notes])] if record.notes else []
    shown += requirements(record.findings)
    # Nothing is passed where nothing is required
    if record.findings:
        shown.append(Text("passed", MARKS[True][1]) if record.passed else Text("FAILED", MARKS[False][1]))
    return shown if report is None else [*shown, ToCopy({"Report": report})]


def tabulate(record: IndexAudit) -> Table:
    """Return one number of each measure."""
    rows = [[entry.title, score(entry.scores[entry.headline], entry.unit)] for entry in record.measures.values()]
    return Table([f"lists by {record.distance}", "95 % interval"], rows)


def name_found(record: IndexAudit, most: int) -> list[str]:
    """Return hubs, near pairs and groups of copies by their ids, so many of each."""
    k = record.plan.k
    lines = [f"hub: {hub.id}, in {plural(hub.lists, 'list')} of {k}" for hub in record.hubs[:most]]
    lines += [f"near: {pair.first} and {pair.second}, cosine {number(pair.cosine)}" for pair in record.pairs[:most]]
    return lines + [f"equal: {', '.join(group)}" for group in record.groups[:most]]


def sentences(record: IndexAudit) -> list[str]:
    """Return the answer: who is found, what is there twice, how many directions are in use."""
    # The three shares that matter most
    own, measures = record.vectors, record.measures
    hubs, absent, near, rank = (
        score(measures[name].scores[measures[name].headline], measures[name].unit)
        for name in ("hubs", "antihubs", "near_duplicates", "effective_rank")
    )
    # One number where all have the same length, but for rounding
    lengths = dict.fromkeys(f"{end:.4g}" for end in (own.shortest, own.longest))
    equal = f"{plural(own.copies, 'vector')} equal another one to the last bit" if own.copies else "no two are equal"
    return [
        f"{own.name}: {plural(own.items, 'vector')} of {own.dim} numbers ({own.kind}), {' to '.join(lengths)} long.",
        f"1 % of the items hold {hubs} of the places in lists of {record.plan.k} neighbours, and {absent} of the items "
        f"are in no list. {near} of the items have a near-duplicate (cosine ≥ {record.plan.similar:g}); {equal}. "
        f"{rank} of {own.dim} directions are in use.",
    ]
