"""An old encoder of an index beside a new one, in sentences."""

from collections.abc import Mapping
from typing import Any

from holdfast.numerics.statistics.score import Score
from holdfast.report.names import short_names
from holdfast.report.numbers import number, parse_score, plural, score

OUTCOMES = {"broken": "bold red", "wrong before and after": "yellow", "mended": "green"}
"""What may become of a canary but to hold, and its colour."""


def names(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the old and the new encoder are called, briefly."""
    old, new = (record["encoders"][side]["name"] for side in ("old", "new"))
    short = short_names([old, new]) if old != new else {old: old}
    return short[old], short[new]


def sentences(record: Mapping[str, Any]) -> list[str]:
    """Return the answer: what is kept, where the threshold goes, what becomes of the old one."""
    old, new = names(record)
    data, measures = record["data"], record["measures"]
    overlaps = [name for name in measures if name.startswith("overlap@")]
    last = max(overlaps, key=lambda name: int(name.partition("@")[2]))
    kept = score(parse_scores(measures[last])[measures[last]["headline"]], "share")
    k = last.partition("@")[2]
    answer = [
        f"{new} in the place of {old}, on {plural(data['images'], 'image')}: {kept} of an image's first {k} neighbours "
        "stay."
    ]
    if "threshold" not in measures:
        return answer
    limits, positives = (parse_scores(measures[name]) for name in ("threshold", "false_positives"))
    rate = score(positives["old"], "share")
    answer.append(
        f"At a false-positive rate of {rate} the threshold {number(limits['old'].value)} becomes "
        f"{score(limits['new'], 'ratio')}; kept as it is, the rate would be {score(positives['kept'], 'share')}."
    )
    if record["canaries"]:
        counts = [sum(row["outcome"] == name for row in record["canaries"]) for name in OUTCOMES]
        parts = ", ".join(f"{count} {name}" for count, name in zip(counts, OUTCOMES, strict=True) if count)
        answer.append(f"Canaries: {len(record['canaries'])} checked, {parts or 'all hold'}.")
    return answer


def parse_scores(entry: Mapping[str, Any]) -> dict[str, Score]:
    """Return the scores of a measure."""
    return {name: parse_score(data) for name, data in entry["scores"].items()}
