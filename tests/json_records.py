"""What returns records and comparisons as JSON data, for tests that hold them as files have them; and small ones."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from holdfast.auditing import merge, rounds, run
from holdfast.auditing.plan import Plan
from holdfast.auditing.prepare import prepare
from holdfast.comparison import compare
from holdfast.comparison import leaderboard as board
from holdfast.core import Encoder, Score
from holdfast.storage import record_file
from holdfast.storage.comparison import ComparedEncoder, ComparedMeasure, ComparedRun, Comparison, Pareto, RankedRow
from holdfast.storage.entry import PassesEntry, as_json, read_json
from holdfast.storage.record import (
    SCHEMA,
    CheckEntry,
    DataEntry,
    EncoderEntry,
    Environment,
    MeasureEntry,
    PlanEntry,
    Record,
    RunEntry,
    Software,
    Spent,
)
from holdfast.storage.reproduction import ReproductionRecord
from holdfast.workflows.reproduce import run as reproduction


def typed(record: dict[str, Any]) -> Record:
    """Return a record that a test holds as JSON data as the package holds it."""
    return read_json(record, Record)


def typed_reproduction(record: dict[str, Any]) -> ReproductionRecord:
    """Return a reproduction that a test holds as JSON data as the package holds it."""
    return read_json(record, ReproductionRecord)


def _as_json(function: Any) -> Any:
    """Return a function whose answer is JSON data."""

    @wraps(function)
    def answer(*arguments: Any, **options: Any) -> Any:
        return as_json(function(*arguments, **options))

    return answer


run_audit = _as_json(run.run_audit)


def run_rounds(plan: Plan, folder: Path, told: Callable[[Any], Any], **encoders: Encoder) -> Any:
    """Return the last record of an audit; `told` is told that of each round, and may interrupt."""
    records, record = rounds.run_rounds(prepare(plan, folder, encoders)), None
    for record in records:
        if not rounds.is_last(record):
            try:
                told(as_json(record))
            except KeyboardInterrupt as stop:
                record = records.throw(stop)
    return as_json(record)


merge_parts = _as_json(merge.merge_parts)
compare_runs = _as_json(compare.compare_runs)
leaderboard = _as_json(board.leaderboard)
reproduce = _as_json(reproduction.reproduce)
read_record = _as_json(record_file.read_record)
parse_record = _as_json(record_file.parse_record)


def measure_entry(**said: Any) -> MeasureEntry:
    """Return a measure of which a test says what it is about."""
    part = {"kind": "measures", "name": "breakaway_risk"}
    usual = {"title": "M", "better": "lower", "unit": "share", "part": part, "headline": "s"}
    return MeasureEntry(**{**usual, **said})


def check_entry(status: Any, finding: str = "", consequence: Any = "caution") -> CheckEntry:
    """Return what a check found."""
    return CheckEntry(title="", status=status, finding=finding, meaning="", consequence=consequence, details={})


def encoder_entry(name: str, **said: Any) -> EncoderEntry:
    """Return an encoder that could be audited, of which a test says what it is about."""
    nothing = PassesEntry(forward=0, backward=0)
    passes = Spent(forward=0, backward=0, alone=nothing, predicted=nothing, measures=nothing, shared_fraction=0.0)
    usual = {"fingerprint": name, "parameters": 0, "input": [1, 8, 8], "dim": 1, "passes": passes}
    return EncoderEntry(name=name, **{**usual, **said})


def small_record(encoders: list[EncoderEntry], **said: Any) -> Record:
    """Return a record of 100 digits, all attacked; `said` has more fields, and others of the images as `data`."""
    images = {"spec": "digits", "fingerprint": "f", "images": 100, "attacked": 100, "available": 600}
    words = {"description": "", "skipped": [], "balls": [], "table": ""}
    usual = {
        "schema": SCHEMA, "holdfast": Software(version="1", git=None), "comparison": {}, "failures": [],
        "plan": PlanEntry(seed=0, measures=[], command="", profile=None, device="cpu", batch_size=None),
        "environment": Environment(python="", torch="2", platform="", packages={}),
        "run": RunEntry(started="", finished="", seconds=0.0, resumed_shards=0),
        "data": DataEntry(**{**words, **images, **said.pop("data", {})}),
    }  # fmt: skip
    return Record(encoders=encoders, **{**usual, **said})


def make_record(encoders: list[dict[str, Any]], data: dict[str, Any] | None = None, **said: Any) -> Record:
    """Return a small record, of which JSON data say what matters."""
    usual = as_json(small_record([encoder_entry("a")], data=data or {}))
    entries = [as_json(encoder_entry(encoder["name"])) | encoder for encoder in encoders]
    return typed(as_json({**usual, "encoders": entries, **said}))


def compared_measure(rows: list[RankedRow], **said: Any) -> ComparedMeasure:
    """Return a measure on which encoders are compared, of which a test says what it is about."""
    usual = {
        "part": {"name": "m"}, "title": "M", "better": "lower", "unit": "share", "needs_labels": False, "question": "?",
        "how_to_read": "", "reference": "", "answers": False, "levels": False, "in_brief": False, "leader": None,
        "best": None, "pairs": [], "charts": [],
    }  # fmt: skip
    return ComparedMeasure(rows=rows, **{**usual, **said})


def ranked_row(encoder: str, score: Score | None, **said: Any) -> RankedRow:
    """Return an encoder on a measure, of which a test says what it is about."""
    usual = {
        "headline": "s",
        "scores": {"s": score} if score else {},
        "rank": None,
        "best": False,
        "behind": None,
        "why_not": None,
    }
    return RankedRow(encoder=encoder, score=score, **{**usual, **said})


def compared_encoder(name: str, **said: Any) -> ComparedEncoder:
    """Return an encoder that is compared, of which a test says what it is about."""
    usual = {"spec": name, "run": "run", "fingerprint": None, "origin": {}, "round": None}
    return ComparedEncoder(name=name, **{**usual, "unfit": [], "warns": [], "fails": [], **said})


def small_comparison(encoders: list[ComparedEncoder], measures: dict[str, ComparedMeasure], **said: Any) -> Comparison:
    """Return a comparison, of which a test says what it is about."""
    usual = {
        "correction": "holm", "promises": "nothing", "comparisons": 12, "assumed": "nothing", "left_out": [],
        "conditions": {"data": "digits", "number of images": 40, "attacked images": 40, "seed": 0}, "cautions": [],
        "runs": [ComparedRun(place="run", holdfast="0", finished="2026-01-01T00:00:00", command="holdfast")],
        "pareto": Pareto(x=None, y=None, why_not="one measure", points=[]), "problems": [],
    }  # fmt: skip
    return Comparison(encoders=encoders, measures=measures, **{**usual, **said})
