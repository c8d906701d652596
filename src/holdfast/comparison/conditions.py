"""What two audits must share to be compared, and what to tell a reader where they differ in the rest."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.comparison.records import Audited, Run
from holdfast.runtime.errors import Mismatch, Missing
from holdfast.storage.conditions import conditions
from holdfast.storage.record import Record

VERSIONS: dict[str, Callable[[Record], Any]] = {
    "version of Holdfast": lambda record: software(record),
    "version of torch": lambda record: record.environment.torch,
    "device": lambda record: record.plan.device,
}
"""What may change numbers without saying so."""


def software(record: Record) -> str:
    """Return the version of Holdfast that made a record, with its commit."""
    return " ".join(filter(None, [record.holdfast.version, record.holdfast.git]))


def refuse_mismatches(runs: Sequence[Run]) -> None:
    """Make sure that all audits are about the same images, in the same way."""
    if not runs:
        raise Missing("compare: expected records, or folders of audits, got none; give those to be compared")
    first = conditions(runs[0].record)
    for run in runs[1:]:
        second = conditions(run.record)
        differing = [name for name in first if first[name] != second[name]]
        if differing:
            values = "; ".join(f"{name}: {short(first[name])} and {short(second[name])}" for name in differing)
            raise Mismatch(
                f"expected audits that can be compared image by image, but {runs[0].place!r} and {run.place!r} differ "
                f"in {values}; {_remedy((runs[0], run), differing)}"
            )


def _remedy(runs: Sequence[Run], differing: Sequence[str]) -> str:
    """Return how two audits that differ in these conditions can be made alike."""
    cut = [repr(run.place) for run in runs if (rounds := run.record.run.rounds) and rounds.ended == "budget"]
    if cut and differing == ["attacked images"]:
        least = min(run.record.data.attacked for run in runs)
        return (
            f"a time budget ended {' and '.join(cut)} early; audit both with --budget none, or with "
            f"--until '{least} images'"
        )
    return "audit the encoders with the same --data, --images, --attacked, --seed and precision"


def cautions(runs: Sequence[Run], encoders: Iterable[Audited]) -> list[str]:
    """Return cautions for the reader: other versions, other searches, one encoder twice."""
    # versions and devices, which may move numbers a little
    cautions = []
    for name, read in VERSIONS.items():
        by: dict[str, list[str]] = {}
        for run in runs:
            by.setdefault(str(read(run.record)), []).append(run.place)
        if len(by) > 1:
            parts = "; ".join(f"{value} ({', '.join(places)})" for value, places in by.items())
            cautions.append(f"the {name} differs, {parts}: small differences may come from that")
    # searches that are shared: more of them find more
    if len({_find_shared_searches(run.record) for run in runs}) > 1:
        cautions.append(
            "the audits did not search for the same: what one search finds counts for every measure of its ball, so "
            "small differences may come from that; ask the encoders the same measures"
        )
    # one encoder under several names
    names_of: dict[str, list[str]] = {}
    for encoder in encoders:
        origin = sorted((key, str(value)) for key, value in encoder.entry.origin.items())
        names_of.setdefault(str((encoder.entry.fingerprint, origin)), []).append(encoder.name)
    return cautions + [
        f"{' and '.join(names)} are one encoder (same weights, same origin), so neither beats the other"
        for names in names_of.values()
        if names[1:]
    ]


def _find_shared_searches(record: Record) -> tuple[str, ...]:
    """Return the searches of a run whose finds count for all of its measures."""
    if not record.plan.shared_searches:
        return ()
    observations = (entry for encoder in record.encoders for entry in encoder.observations)
    shared = {
        entry.title
        for entry in observations
        if entry.passes.backward and any(not reader.startswith("check ") for reader in entry.serves)
    }
    return tuple(sorted(shared))


def short(value: Any) -> str:
    """Return a value, fingerprints by their first digits."""
    text = str(value)
    return f"{text[:12]}…" if len(text) > 40 else text
