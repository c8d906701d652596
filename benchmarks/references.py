"""Measures encoders that people know by one protocol, and makes the tables that Holdfast ships of them.

    HOLDFAST_SHARED=folder python -m benchmarks.references FOLDER

FOLDER keeps two audits for each kind of images, `protocol.toml` without labels and `protocol_labelled.toml` where
they are labelled; those that are there are read, the others are made (hours on one core for all). It writes
`src/holdfast/report/references.toml`, which a report's first sentence compares with, and `docs/encoders.json`, all
numbers, with the correlations of `predictions.py`.
"""

import argparse
import json
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.predictions import predictions
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.prepare import label
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.run import run_audit
from holdfast.core.source_spec import parse
from holdfast.parts.measures.classifiers.robust_accuracy import CLEAN
from holdfast.report.references import Reference
from holdfast.runtime.privacy import public
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import MeasureEntry, Record
from holdfast.storage.record_file import RECORD, read_record

HERE = Path(__file__).parent
TABLE = HERE.parent / "src/holdfast/report/references.toml"
PAGE = HERE.parent / "docs/encoders.json"

KEPT = "Accuracy kept under attack"
"""Accuracy under attack, divided by that of the same images without: what is lost, whatever there was to lose."""


@dataclass(frozen=True)
class Known:
    """Encoders that people know, on images of one kind.

    Attributes:
        name: what sentences call the images.
        data: their spec; {} stands for the shared folder.
        encoders: what sentences call each encoder, by its spec.
        eps: the unit of the protocol, in pixels of a [0, 1] image.
        train: labelled images that classifiers learn from; None: no classifier is asked for.
        attacked: how many images are attacked.
        certified: for how many a breaking radius is certified.
    """

    name: str
    data: str
    encoders: Mapping[str, str]
    eps: float | str = "1/255"
    train: str | None = None
    attacked: int = 64
    certified: int = 8


def known() -> list[Known]:
    """Return the encoders of `encoders.toml`."""
    table = tomllib.loads((HERE / "encoders.toml").read_text(encoding="utf-8"))
    return [Known(**images) for images in table["images"]]


def audited(kind: Known, folder: Path, protocol: str = "protocol", settings: Iterable[str] = ()) -> Record:
    """Return the record of an audit of the known encoders, which is made where the folder has none.

    Args:
        kind: encoders and images.
        folder: of the audit.
        protocol: a profile beside this file.
        settings: changes of single parameters.

    Raises:
        SystemExit: no shared folder where an audit needs it.
    """
    if (folder / RECORD).exists():
        return read_record(Folder(folder))
    shared = os.environ.get("HOLDFAST_SHARED")
    if "{}" in kind.data and not shared:
        raise SystemExit(f"{kind.name}: set the environment variable HOLDFAST_SHARED to the folder of the encoders")
    data, labelled = f"{shared}/data", protocol != "protocol"
    specs = [spec.format(data) for spec in kind.encoders]
    there = [spec for spec in specs if "{}" not in kind.data or Path(parse(spec)[1]).exists()]
    for spec in sorted(set(specs) - set(there)):
        print(f"{spec}: left out, there is no such file", file=sys.stderr)
    plan = make_plan(
        AuditRequest(
            tuple(there),
            kind.data.format(data),
            profile=str(HERE / f"{protocol}.toml"),
            eps=kind.eps,
            attacked=None if labelled else kind.attacked,
            settings=(*settings, *([] if labelled else [f"breaking_radius.certified={kind.certified}"])),
            **({"train": (kind.train or "").format(data), "train_images": 10_000} if labelled else {}),
        )
    )
    print(f"auditing {len(there)} encoders on {kind.name}, {protocol}", file=sys.stderr, flush=True)
    return run_audit(plan, folder)


def _names(kind: Known) -> dict[str, str]:
    """Return what each encoder is called, by what a record calls it."""
    return {public(label(spec.format("/data"))): name for spec, name in kind.encoders.items()}


def references(kind: Known, record: Record) -> Iterator[Reference]:
    """Yield the breaking radii that a record says: sound numbers with an interval, and what is at most too large."""
    names = _names(kind)
    for encoder in record.encoders:
        radii = [m for m in encoder.measures.values() if m.part["name"] == "breaking_radius"]
        for measure in radii:
            part, score = measure.part, measure.headline_score
            if (
                score is None or score.value is None or score.low is None or score.high is None
                or score.standing not in ("sound", "at most")
            ):  # fmt: skip
                print(f"{encoder.name}: left out, no sound number with an interval", file=sys.stderr)
                continue
            yield Reference(
                name=names[encoder.name],
                images=kind.name,
                measure=part["name"],
                norm=part["ball"]["name"],
                failure=part["failure"],
                input=tuple(encoder.input or ()),
                population=record.data.images,
                attacked=record.data.attacked,
                passes=part["steps"],
                value=float(f"{score.value:.4g}"),
                low=float(f"{score.low:.4g}"),
                high=float(f"{score.high:.4g}"),
                encoder=str(encoder.fingerprint),
                record=record.seal,
            )


def as_toml(rows: Iterable[Reference]) -> str:
    """Return the table as the package ships it."""
    lines = ["# What `python -m benchmarks.references` measured; sizes in pixels of a [0, 1] image."]
    for row in rows:
        lines += ["", "[[reference]]"]
        for key, value in asdict(row).items():
            inner = (
                ", ".join(f"{name} = {json.dumps(entry)}" for name, entry in value.items()) if key == "failure" else ""
            )
            lines.append(f"{key} = {{ {inner} }}" if inner else f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def measured(kind: Known, *records: Record) -> list[dict[str, Any]]:
    """Return, for each encoder, what it is and the headline of every measure that records have of it."""
    names = _names(kind)
    encoders: dict[str, dict[str, Any]] = {}
    for record in records:
        for encoder in record.encoders:
            name = names[encoder.name]
            facts = {"fingerprint": encoder.fingerprint, "dim": encoder.dim, "input": encoder.input}
            entry = encoders.setdefault(name, {"name": name, "images": kind.name, **facts, "scores": {}})
            for measure in encoder.measures.values():
                score = measure.scores[str(measure.headline)]
                kept = {key: getattr(score, key) for key in ("value", "low", "high", "standing")}
                about = {key: getattr(measure, key) for key in ("unit", "better", "needs_labels")}
                about |= {"measure": measure.part["name"], "ball": measure.part.get("ball")}
                if proved := measure.scores.get("proved"):
                    about["proved"] = {key: _short(getattr(proved, key)) for key in ("value", "low", "high", "n")}
                entry["scores"][_title(measure, kind)] = about | {key: _short(value) for key, value in kept.items()}
                if measure.part["name"] == "robust_accuracy":
                    of_all = measure.scores[CLEAN].value
                    share = _short(score.value / of_all) if of_all and score.value is not None else None
                    entry["scores"][KEPT] = about | kept | {"value": share, "low": None, "high": None}
    return list(encoders.values())


def _title(measure: MeasureEntry, kind: Known) -> str:
    """Return what the tables call a measure: its size in units of the images, apart where two share a title."""
    part, (title, bracket, _) = measure.part, measure.title.partition(" (radius ")
    if bracket:
        title += f" at {round(part['ball']['radius'] / float(Fraction(kind.eps)))}"
    failure = part.get("failure", {}).get("name", "nearest")
    return title if failure == "nearest" else f"{title} of a classifier"


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _seconds(record: Record) -> float:
    """Return what all observations took, also those that an earlier run had made."""
    return sum(observation.seconds for encoder in record.encoders for observation in encoder.observations)


def as_json(**tables: Iterable[Mapping[str, Any]]) -> str:
    """Return tables as JSON, a row in a line."""
    rows = {name: ",\n".join(json.dumps(row, ensure_ascii=False) for row in table) for name, table in tables.items()}
    return "{" + ",\n".join(f'"{name}": [\n{lines}\n]' for name, lines in rows.items()) + "}\n"


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where audits are, or will be: two for each kind of images")
    parser.add_argument("--only", nargs="*", help="make the audits of these kinds of images, and no table")
    options = parser.parse_args()
    rows, encoders, records = [], [], []
    for kind in known():
        if options.only is not None and kind.name not in options.only:
            continue
        made = [audited(kind, options.folder / "protocol" / kind.name)]
        rows += references(kind, made[0])
        if kind.train:
            made.append(audited(kind, options.folder / "protocol_labelled" / kind.name, "protocol_labelled"))
        encoders += measured(kind, *made)
        records += [{"images": kind.name, "seal": record.seal, "seconds": round(_seconds(record))} for record in made]
    if options.only is None:
        TABLE.write_text(as_toml(rows), encoding="utf-8")
        page = as_json(records=records, encoders=encoders, predictions=predictions(encoders))
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
