"""What must be alike for two audits to be compared, and what is said where it is not."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from holdfast.comparison.records import Audited, Run
from holdfast.core import HoldfastError

PRECISION = "float32"
"""In which encoders run where a plan says nothing."""

CONDITIONS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "images (fingerprint)": lambda record: record["data"]["fingerprint"],
    "number of images": lambda record: record["data"]["images"],
    "attacked images": lambda record: record["data"]["attacked"],
    "seed": lambda record: record["plan"]["seed"],
    "precision": lambda record: record["plan"].get("precision") or PRECISION,
}
"""What decides every number of an audit, beside the encoder and the measure; the schema is looked at when reading."""

VERSIONS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "version of Holdfast": lambda record: " ".join(
        filter(None, [record["holdfast"]["version"], record["holdfast"].get("git")])
    ),
    "version of torch": lambda record: record["environment"]["torch"],
    "device": lambda record: record["plan"].get("device", "cpu"),
}
"""What may change numbers without saying so."""


def conditions(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be alike, by its name."""
    return {name: read(record) for name, read in CONDITIONS.items()}


def mismatch(first: Run, other: Run) -> str | None:
    """Return in what two audits differ that must be alike, with both values; None where they can be compared."""
    mine, theirs = conditions(first.record), conditions(other.record)
    said = [f"{name}: {short(mine[name])} and {short(theirs[name])}" for name in mine if mine[name] != theirs[name]]
    return "; ".join(said) or None


def refuse_mismatches(runs: Sequence[Run]) -> None:
    """Make sure that all audits are about the same images, in the same way.

    Raises:
        HoldfastError: a folder that differs from the first one, in which fields, and both values.
    """
    for other in runs[1:]:
        if said := mismatch(runs[0], other):
            raise HoldfastError(
                f"expected audits that can be compared image by image, but {runs[0].place!r} and {other.place!r} "
                f"differ in {said}; audit the encoders with the same --data, --images, --attacked, --seed and precision"
            )


def learned_from(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a measure that reads labels depends on beside: the labels, and the images that probes learn from."""
    data = record["data"]
    train = data.get("train") or {}
    found = {"labels": data.get("labels"), "training images": train.get("fingerprint")}
    return found | {"number of training images": train.get("images"), "training labels": train.get("labels")}


def cautions(runs: Sequence[Run], encoders: Iterable[Audited]) -> list[str]:
    """Return what a reader must know: other versions, one encoder twice."""
    said = []
    for name, read in VERSIONS.items():
        by: dict[str, list[str]] = {}
        for run in runs:
            by.setdefault(str(read(run.record)), []).append(run.place)
        if len(by) > 1:
            parts = "; ".join(f"{value} ({', '.join(places)})" for value, places in by.items())
            said.append(f"the {name} differs, {parts}: small differences may come from that")
    if len({_searched(run.record) for run in runs}) > 1:
        said.append(
            "the audits did not search for the same: what one search finds counts for every measure of its ball, so "
            "small differences may come from that; ask the encoders the same measures"
        )
    same: dict[str, list[str]] = {}
    for one in encoders:
        origin = sorted((key, str(value)) for key, value in one.entry["origin"].items())
        same.setdefault(str((one.entry["fingerprint"], origin)), []).append(one.name)
    said += [
        f"{' and '.join(names)} are one encoder (same weights, same origin), so neither beats the other"
        for names in same.values()
        if names[1:]
    ]
    return said


def _searched(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the searches of a run whose finds count for all of its measures."""
    if not record["plan"].get("shared_searches"):
        return ()
    observed = (seen for encoder in record["encoders"] for seen in encoder.get("observations", ()))
    shared = {
        seen["title"]
        for seen in observed
        if seen["passes"]["backward"] and any(not reader.startswith("check ") for reader in seen["serves"])
    }
    return tuple(sorted(shared))


def short(value: Any) -> str:
    """Return a value, fingerprints by their first digits."""
    text = str(value)
    return f"{text[:12]}…" if len(text) > 40 else text
