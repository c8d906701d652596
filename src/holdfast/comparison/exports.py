"""A comparison as one long table, for other tools: CSV and Parquet."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.storage.comparison import ComparedMeasure, Comparison, RankedRow
from holdfast.storage.outputs import write_file
from holdfast.storage.sides import sides_of

COLUMNS: dict[str, pa.DataType] = {
    "encoder": pa.string(), "run": pa.string(), "fingerprint": pa.string(), "measure": pa.string(),
    "title": pa.string(), "score": pa.string(), "headline": pa.bool_(), "value": pa.float64(), "low": pa.float64(),
    "high": pa.float64(), "confidence": pa.float64(), "n": pa.int64(), "interval": pa.string(), "unit": pa.string(),
    "better": pa.string(), "note": pa.string(), "rank_low": pa.int64(), "rank_high": pa.int64(), "best": pa.bool_(),
    "leader": pa.string(), "difference_to_leader": pa.float64(), "difference_low": pa.float64(),
    "difference_high": pa.float64(), "p": pa.float64(), "p_adjusted": pa.float64(), "correction": pa.string(),
    "why_not_ranked": pa.string(), "standing": pa.string(), "because": pa.string(), "side": pa.string(),
    "bound": pa.string(), "checks": pa.string(), "round": pa.int64(), "data": pa.string(), "images": pa.int64(),
    "attacked": pa.int64(), "seed": pa.int64(), "seeds": pa.int64(),
}  # fmt: skip
"""What each row says: one for each score of each encoder on each measure; ranks and differences at the headline's.

Of a measure that is answered from both sides, `side` is "attack" or "proof", and `bound` says whether the value is
an "upper" or a "lower" bound of the truth. Of methods, `encoder` is the method, and `seeds` says how many it has.
"""

PAIRS: dict[str, pa.DataType] = {
    "measure": pa.string(), "title": pa.string(), "better": pa.string(), "unit": pa.string(), "first": pa.string(),
    "second": pa.string(), "difference": pa.float64(), "low": pa.float64(), "high": pa.float64(),
    "confidence": pa.float64(), "n": pa.int64(), "interval": pa.string(), "p": pa.float64(), "p_adjusted": pa.float64(),
    "correction": pa.string(), "winner": pa.string(),
}  # fmt: skip
"""What each row says of a pair of encoders on a measure: the first minus the second, image by image."""

ENDS = ("low", "high", "confidence", "n", "interval")
"""What both tables say of the interval of a number."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings by which spreadsheets take text for a formula."""


def rows(data: Comparison) -> Iterator[dict[str, Any]]:
    """Yield the rows of a comparison (see `compare_runs`); an encoder without a score has one row that says why."""
    about = {encoder.name: encoder for encoder in data.encoders}
    at = data.conditions
    asked = {
        "data": at["data"],
        "images": at["number of images"],
        "attacked": at["attacked images"],
        "seed": at["seed"],
    }
    for name, m in data.measures.items():
        for row in m.rows:
            encoder = about[row.encoder]
            about_encoder = {"encoder": row.encoder, "run": encoder.run, "fingerprint": encoder.fingerprint}
            about_encoder |= {"measure": name, "title": m.title, "better": m.better}
            about_encoder |= {"correction": data.correction, "round": encoder.round, **asked}
            about_encoder |= {"seeds": len(encoder.seeds) or None}
            # Of what is answered from both sides: which score is the attack, and which the proof
            sides = {side.score: side for side in sides_of(row.scores, row.headline, m.better)}
            # An encoder that could not be measured has a row as well: who reads the table must see it
            if not row.scores:
                yield about_encoder | {"score": None, "headline": False, "unit": m.unit} | _standing(row, m)
            for key, score in row.scores.items():
                shown = about_encoder | {"score": key, "headline": key == row.headline}
                shown |= {field: getattr(score, field) for field in (*ENDS, "value")}
                shown |= {"better": score.better or m.better, "unit": score.unit or m.unit}
                shown |= {"note": score.note or None, "standing": score.standing}
                shown |= {"because": ", ".join(score.because) or None, "checks": ", ".join(score.checks) or None}
                if side := sides.get(key):
                    shown |= {"side": side.source, "bound": side.bound}
                yield shown | (_standing(row, m) if shown["headline"] else {})


def _standing(row: RankedRow, m: ComparedMeasure) -> dict[str, Any]:
    behind, rank = row.behind, row.rank or (None, None)
    gap = None if behind is None else behind.difference
    return {
        "rank_low": rank[0], "rank_high": rank[1], "best": row.best, "leader": m.leader,
        "difference_to_leader": gap and gap.value, "difference_low": gap and gap.low,
        "difference_high": gap and gap.high,
        "p": behind and behind.p, "p_adjusted": behind and behind.p_adjusted, "why_not_ranked": row.why_not,
    }  # fmt: skip


def pairs(data: Comparison) -> Iterator[dict[str, Any]]:
    """Yield a row for every two encoders that were compared on a measure."""
    for name, m in data.measures.items():
        about = {"measure": name, "title": m.title, "better": m.better, "unit": m.unit}
        for pair in m.pairs:
            ends = {key: getattr(pair.difference, key) for key in ENDS}
            verdict = {key: getattr(pair, key) for key in ("first", "second", "p", "p_adjusted", "winner")}
            yield about | verdict | {"difference": pair.difference.value, "correction": data.correction} | ends


def write_csv(data: Comparison, place: str) -> None:
    """Write the long table as CSV; text that a spreadsheet would take for a formula begins with an apostrophe."""

    def put(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(COLUMNS))
            table.writeheader()
            table.writerows({key: harmless(value) for key, value in row.items()} for row in rows(data))

    write_file(place, put)


def harmless(value: Any) -> Any:
    """Return a cell that no spreadsheet runs; numbers stay as they are.

    Source: OWASP, "CSV injection".
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def write_parquet(data: Comparison, place: str) -> None:
    """Write the long table as Parquet, every column with its type."""
    table = long_table(data)
    write_file(place, lambda path: pq.write_table(table, path))


def long_table(data: Comparison) -> pa.Table:
    """Return the long table of a comparison, every column with its type."""
    return pa.Table.from_pylist(list(rows(data)), schema=pa.schema(list(COLUMNS.items())))


def pairs_table(data: Comparison) -> pa.Table:
    """Return the table of all pairs of encoders, every column with its type."""
    return pa.Table.from_pylist(list(pairs(data)), schema=pa.schema(list(PAIRS.items())))
