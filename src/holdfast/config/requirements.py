"""The gate: requirements on a record, such as "breakaway_risk < 5 %", met or not by each of its encoders.

    MEASURE[.SCORE][.value|low|high|n]  < | <= | > | >= | == | !=  NUMBER[%]
    checks.NAME | checks.*  == | !=  pass | warn | fail | skip

Measures and scores are named as in the record; without a score the headline is meant.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.runtime.checked import number
from holdfast.runtime.errors import HoldfastError, unknown
from holdfast.storage.standing import SOUND, VOID, base, may_meet

FIELDS = ("value", "low", "high", "n")
"""What a score says: the estimate, the ends of its interval, the independent units behind it."""

STATUSES = ("pass", "warn", "fail", "skip")
"""Outcomes of a validity check."""

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}

GUARDED = {"<": "high", "<=": "high", ">": "low", ">=": "low"}
"""Which end of the interval is compared where a requirement names no field: the one that chance would hide behind."""

_EXPRESSION = re.compile(r"^(?P<left>.*\S)\s*(?P<operator><=|>=|==|!=|<|>)\s*(?P<right>[^<>=!]*)$")
_SHAPE = "MEASURE[.SCORE][.value|low|high|n] OP NUMBER[%] with OP among < <= > >= == !=, or checks.NAME == pass"


@dataclass(frozen=True)
class Requirement:
    """A requirement as it was written, in its parts.

    Attributes:
        text: as it was written.
        subject: what is on its left: a measure with its score and field, or a check.
        comparison: one of `OPERATORS`.
        bound: what is on its right: a number, or a status for checks.
        written: the bound as it was written.
    """

    text: str
    subject: str
    comparison: str
    bound: float | str
    written: str

    @property
    def of_checks(self) -> bool:
        """Whether it is about the validity panel."""
        return self.subject.startswith("checks.")


@dataclass(frozen=True)
class Finding:
    """Whether one encoder meets one requirement.

    Attributes:
        requirement: as it was written.
        encoder: the encoder's name.
        met: whether it holds.
        compared: what was compared, for example "breakaway_risk, 20 steps, high end (the default for <)".
        found: what was found there; None where there is nothing to compare.
        bound: what it was compared with.
        unit: of the number found; "" for checks and counts.
        reason: why it does not hold; "" where it does.
    """

    requirement: str
    encoder: str
    met: bool
    compared: str
    found: float | str | None
    bound: float | str
    unit: str = ""
    reason: str = ""


def parse(text: str) -> Requirement:
    """Return a requirement from what a user writes.

    Raises:
        HoldfastError: no comparison in it, or a right side that is no finite number (or status of a check).
    """
    match = _EXPRESSION.match(text.strip())
    if match is None:
        raise HoldfastError(f"requirement {text!r}: expected {_SHAPE}; for example 'breakaway_risk < 5 %'")
    subject, comparison, right = match["left"], match["operator"], match["right"].strip()
    if not subject.startswith("checks."):
        return Requirement(text.strip(), subject, comparison, _number(right, text), right)
    if comparison not in ("==", "!="):
        raise HoldfastError(f"requirement {text!r}: expected == or != for a check, got {comparison}")
    if right not in STATUSES:
        raise unknown(f"status in the requirement {text!r}:", right, STATUSES)
    return Requirement(text.strip(), subject, comparison, right, right)


def _number(text: str, where: str) -> float:
    """Read 0.05, 5e-2, 5 %, or 4/255."""
    try:
        value = number(text.removesuffix("%").replace(" ", ""))
    except ValueError:
        raise HoldfastError(
            f"requirement {where!r}: expected a number such as 0.05, 5 % or 4/255, got {text!r}"
        ) from None
    return value / 100 if text.endswith("%") else value


def judge(record: Mapping[str, Any], requirements: Iterable[str], encoders: Iterable[str] = ()) -> list[Finding]:
    """Return for every requirement and every encoder whether it is met.

    Nothing is met by what is not there: a measure that failed, was not certified or was not asked of an encoder, a
    score without a value or without the end of the interval that is compared, an encoder that could not be audited. Nor
    by a number whose check failed, where weakness alone could meet it: one that is void, or a bound on the other side.

    Args:
        record: the record of a run.
        requirements: what must hold, see `parse`.
        encoders: which encoders must meet it; none: all of the record.

    Raises:
        HoldfastError: a requirement that cannot be read or that nothing could break; a measure, score, check or encoder
            that the record does not know; no requirement, or a record without encoders.
    """
    asked = [parse(text) for text in requirements]
    if not asked:
        raise HoldfastError("expected at least one requirement, got none; add --require 'breakaway_risk < 5 %'")
    rows = {row["name"]: row for row in record["encoders"]}
    for name in (chosen := list(encoders)):
        if name not in rows:
            raise unknown("encoder", name, rows)
    if not rows:
        raise HoldfastError("expected a record with encoders, got one without any; run the audit again")
    known = _known(rows.values())
    told = [(one, _check_names(one, rows.values()) if one.of_checks else _resolve(one, known)) for one in asked]
    return [
        _of_checks(one, row, what) if isinstance(what, list) else _of_measure(one, row, *what)
        for one, what in told
        for row in ([rows[name] for name in chosen] or rows.values())
    ]


def _known(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the scores of every measure of a record, each with its unit."""
    known: dict[str, dict[str, str]] = {}
    for row in rows:
        for name, measure in row["measures"].items():
            scores = known.setdefault(name, {})
            scores |= {title: score.get("unit") or measure["unit"] for title, score in measure["scores"].items()}
    return known


def _resolve(one: Requirement, known: Mapping[str, Mapping[str, str]]) -> tuple[str, str | None, str, bool]:
    """Return measure, score (None: the headline), field, and whether the field is the default one."""
    measure, rest = _longest(one.subject, known)
    if measure is None:
        name, fields = one.subject, tuple(f".{field}" for field in FIELDS)
        raise unknown("measure", name[: name.rindex(".")] if name.endswith(fields) else name, known)
    scores = known[measure]
    if rest in FIELDS:
        score, field = None, rest
    else:
        score, _, field = rest.rpartition(".")
        if rest in scores or field not in FIELDS:
            score, field = rest, ""
    if score and scores and score not in scores:
        raise unknown(f"score of {measure}", score, scores)
    if not field and one.comparison not in GUARDED:
        raise HoldfastError(
            f"requirement {one.text!r}: expected a field in front of {one.comparison}, for an interval equals nothing; "
            f"add one of .{', .'.join(FIELDS)}"
        )
    if field == "n" and one.written.endswith("%"):
        raise HoldfastError(f"requirement {one.text!r}: expected a count behind .n, got percent")
    units = {scores[score]} if score and score in scores else set(scores.values())
    if field != "n" and units == {"share"} and abs(float(one.bound)) > 1:
        raise HoldfastError(
            f"requirement {one.text!r}: expected a share, at most 1, got {one.bound:g}, which nothing could break or "
            f"meet; did you mean {one.bound:g} %?"
        )
    return measure, score or None, field or GUARDED[one.comparison], not field


def _longest(subject: str, known: Iterable[str]) -> tuple[str | None, str]:
    """Return the longest known name that something begins with, and what follows it after a dot."""
    fits = [name for name in known if subject == name or subject.startswith(f"{name}.")]
    best = max(fits, key=len, default=None)
    return best, "" if best is None else subject[len(best) + 1 :]


def _of_measure(
    one: Requirement, row: Mapping[str, Any], name: str, score: str | None, field: str, usual: bool
) -> Finding:
    measure = row["measures"].get(name) or {}
    title = score or measure.get("headline") or "headline"
    found = measure.get("scores", {}).get(title, {})
    value, end = found.get(field), {"low": "low end", "high": "high end"}.get(field, field)
    compared = f"{name}, {title}, {end}" + (f" (the default for {one.comparison})" if usual else "")
    reason = f"not audited: {row['error']}" if row.get("error") else _nothing(measure, found, field)
    standing = SOUND if field == "n" else found.get("standing", SOUND)
    if not reason and standing != VOID and not OPERATORS[one.comparison](value, one.bound):
        reason = f"is not {one.comparison} {one.written}"
    if not reason and not may_meet(standing, one.comparison):
        reason = _flaw(row, found)
    unit = "" if field == "n" else found.get("unit") or measure.get("unit", "")
    return Finding(one.text, row["name"], not reason, compared, value, one.bound, unit, reason)


def _flaw(row: Mapping[str, Any], score: Mapping[str, Any]) -> str:
    """Return what is wrong with a number whose check failed."""
    failed = "; ".join(f"check {name} failed: {row['checks'][name]['finding']}" for name in score["because"])
    return failed if score["standing"] == VOID else f"the truth is {score['standing']} that: {failed}"


def _nothing(measure: Mapping[str, Any], score: Mapping[str, Any], field: str) -> str:
    """Return why there is nothing to compare; "" where there is."""
    if not measure:
        return "not measured"
    for key, said in (("error", "failed: "), ("not_certified", "")):
        if measure.get(key):
            return f"{said}{measure[key]}"
    if not score:
        return "no such score"
    note = f": {score['note']}" if score.get("note") else ""
    if score["value"] is None:
        return f"undefined{note}"
    return "" if score.get(field) is not None else f"no interval{note}"


def _check_names(one: Requirement, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return which checks a requirement is about."""
    name, rows = one.subject.removeprefix("checks."), list(rows)
    known = list(dict.fromkeys(check for row in rows for check in row["checks"]))
    alike = [check for check in known if name in ("*", check, base(check))]
    if name != "*" and not alike and any(not row.get("error") for row in rows):
        raise unknown("check", name, dict.fromkeys(map(base, known)))
    return alike or [name]


def _of_checks(one: Requirement, row: Mapping[str, Any], names: list[str]) -> Finding:
    states = {name: row["checks"].get(name, {}) for name in names}
    holds = OPERATORS[one.comparison]
    missed = {name: check for name, check in states.items() if not check or not holds(check["status"], one.bound)}
    alone = len(names) == 1
    reasons = [_said(check) if alone else f"{name}: {_said(check)}" for name, check in missed.items()]
    reason = f"not audited: {row['error']}" if row.get("error") else "; ".join(reasons)
    if not reason and not states:
        reason = "no validity check was run"
    shown = [check.get("status", "missing") for check in (missed or states).values()]
    found = ", ".join(dict.fromkeys(shown)) or None
    return Finding(one.text, row["name"], not reason, one.subject, found, one.bound, reason=reason)


def _said(check: Mapping[str, Any]) -> str:
    return f"{check['status']}, {check['finding']}" if check else "not examined"
