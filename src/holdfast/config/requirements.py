"""The gate: requirements on a record, such as "breakaway_risk < 5 %", met or not by each of its encoders.

    MEASURE[.SCORE][.value|low|high|n]  < | <= | > | >= | == | !=  NUMBER[%]
    checks.NAME | checks.*  == | !=  pass | warn | fail | skip

Measures and scores are named as in the record; without a score the headline is meant.
"""

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.doubts import say_failed
from holdfast.numerics.statistics.score import Score
from holdfast.runtime.checked import number
from holdfast.runtime.errors import BadValue, Missing, unknown
from holdfast.storage.finding import Finding
from holdfast.storage.record import EncoderEntry, MeasureEntry
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


Judge = Callable[[EncoderEntry], Finding]
"""Says whether an encoder of the record meets a requirement."""


def parse(text: str) -> Requirement:
    """Return a requirement from what a user writes."""
    match = _EXPRESSION.match(text.strip())
    if match is None:
        raise BadValue(f"requirement {text!r}: expected {_SHAPE}; for example 'breakaway_risk < 5 %'")
    subject, comparison, right = match["left"], match["operator"], match["right"].strip()
    if not subject.startswith("checks."):
        return Requirement(text.strip(), subject, comparison, _number(right, text), right)
    if comparison not in ("==", "!="):
        raise BadValue(f"requirement {text!r}: expected == or != for a check, got {comparison}")
    if right not in STATUSES:
        raise unknown(f"status in the requirement {text!r}:", right, STATUSES)
    return Requirement(text.strip(), subject, comparison, right, right)


def _number(text: str, where: str) -> float:
    """Read 0.05, 5e-2, 5 %, or 4/255."""
    try:
        value = number(text.removesuffix("%").replace(" ", ""))
    except ValueError:
        raise BadValue(f"requirement {where!r}: expected a number such as 0.05, 5 % or 4/255, got {text!r}") from None
    return value / 100 if text.endswith("%") else value


def judge(encoders: Sequence[EncoderEntry], requirements: Iterable[str], chosen: Iterable[str] = ()) -> list[Finding]:
    """Return for every requirement and every encoder of a record, or every chosen one, whether it is met.

    Nothing is met by what is not there: a measure that failed, was not certified or was not asked of an encoder, a
    score without a value or without the end of the interval that is compared, an encoder that could not be audited. Nor
    by a number whose check failed, where weakness alone could meet it: one that is void, or a bound on the other side.
    """
    parsed = [parse(text) for text in requirements]
    if not parsed:
        raise Missing("expected at least one requirement, got none; add --require 'breakaway_risk < 5 %'")
    rows = {row.name: row for row in encoders}
    names = list(chosen)
    for name in names:
        if name not in rows:
            raise unknown("encoder", name, rows)
    # What each requirement is about, before any encoder is judged by it: what the record does not know is refused.
    units = _units(encoders)
    in_levels = {name for row in encoders for name, measure in row.measures.items() if measure.levels}
    judges = [_of_checks(r, encoders) if r.of_checks else _of_measure(r, units, in_levels) for r in parsed]
    return [judge(rows[name]) for judge in judges for name in names or rows]


def _units(encoders: Iterable[EncoderEntry]) -> dict[str, dict[str, str]]:
    """Return the scores of every measure of a record, each with its unit."""
    units: dict[str, dict[str, str]] = {}
    for row in encoders:
        for name, measure in row.measures.items():
            scores = units.setdefault(name, {})
            scores |= {title: score.unit or measure.unit for title, score in measure.scores.items()}
    return units


def measure_of(subject: str, measures: Iterable[str]) -> str | None:
    """Return the measure that a subject begins with, the longest of several, for names may have dots; None for none."""
    return max((name for name in measures if f"{subject}.".startswith(f"{name}.")), key=len, default=None)


def _resolve(requirement: Requirement, measures: Mapping[str, Mapping[str, str]]) -> tuple[str, str, str, bool]:
    """Return measure, score ("": the headline), field, and whether the field is the default one."""
    subject, text = requirement.subject, requirement.text
    measure = measure_of(subject, measures)
    if measure is None:
        name, _, field = subject.rpartition(".")
        raise unknown("measure", name if field in FIELDS else subject, measures)
    scores, suffix = measures[measure], subject[len(measure) + 1 :]
    # Behind it stand a score, a field, both or neither; a score may end like a field.
    score, _, field = suffix.rpartition(".")
    if suffix in scores or field not in FIELDS:
        score, field = suffix, ""
    if score and scores and score not in scores:
        raise unknown(f"score of {measure}", score, scores)
    if not field and requirement.comparison not in GUARDED:
        raise BadValue(
            f"requirement {text!r}: expected a field in front of {requirement.comparison}, for an interval equals "
            f"nothing; add one of .{', .'.join(FIELDS)}"
        )
    if field == "n" and requirement.written.endswith("%"):
        raise BadValue(f"requirement {text!r}: expected a count behind .n, got percent")
    units = {scores[score]} if score in scores else set(scores.values())
    if field != "n" and units == {"share"} and abs(float(requirement.bound)) > 1:
        raise BadValue(
            f"requirement {text!r}: expected a share, at most 1, got {requirement.bound:g}, which nothing could break "
            f"or meet; did you mean {requirement.bound:g} %?"
        )
    return measure, score, field or GUARDED[requirement.comparison], not field


def _of_measure(requirement: Requirement, units: Mapping[str, Mapping[str, str]], in_levels: Collection[str]) -> Judge:
    """Return what judges an encoder by one of its scores."""
    name, chosen, field, usual = _resolve(requirement, units)
    text, comparison, bound = requirement.text, requirement.comparison, requirement.bound
    pixels = units[name][chosen] == "pixels" if chosen in units[name] else "pixels" in units[name].values()
    levels = name in in_levels and field != "n" and pixels
    if levels and abs(float(bound)) > 1:
        raise BadValue(
            f"requirement {text!r}: expected at most 1, for radii are in pixels of a [0, 1] image, got {bound:g}; did "
            f"you mean {bound:g}/255?"
        )

    def judge(row: EncoderEntry) -> Finding:
        measure = row.measures.get(name)
        title = chosen or (measure.headline if measure else None) or "headline"
        score = measure.scores.get(title) if measure else None
        value, end = _read_field(score, field), {"low": "low end", "high": "high end"}.get(field, field)
        compared = f"{name}, {title}, {end}" + (f" (the default for {comparison})" if usual else "")
        reason = f"not audited: {row.error}" if row.error else nothing_there(measure, score, field)
        if score is not None and not reason:
            standing = SOUND if field == "n" else score.standing
            if standing != VOID and not OPERATORS[comparison](value, bound):
                reason = f"is not {comparison} {requirement.written}" + _say_enough(
                    score, value, comparison, float(bound)
                )
            elif not may_meet(standing, comparison):
                reason = flaw(row, score)
        unit = "" if field == "n" or measure is None else (score.unit if score else "") or measure.unit
        return Finding(text, row.name, not reason, compared, value, bound, unit, reason, levels)

    return judge


def _say_enough(score: Score, end: float | None, comparison: str, bound: float) -> str:
    """Return about how many units would show what the value meets and the end of its interval does not; "" of others.

    An interval shrinks with 1/√n, and with 1/n where the value is 0 or 1, beyond which nothing lies.
    """
    value = score.value
    if value is None or end is None or end == value or not OPERATORS[comparison](value, bound) or value == bound:
        return ""
    # How many times as far as the bound the end may lie; n says how many independent units there are
    ratio = abs(value - end) / abs(value - bound)
    units = score.n * (ratio if value in (0, 1) else ratio**2)
    return f", though the value is; about {math.ceil(1.1 * units):,} in place of {score.n:,} would show it"


def flaw(row: EncoderEntry, score: Score) -> str:
    """Return what is wrong with a number whose check failed."""
    failed = "; ".join(f"{say_failed([name])}: {row.checks[name].finding}" for name in score.because)
    return failed if score.standing == VOID else f"the truth is {score.standing} that: {failed}"


def nothing_there(measure: MeasureEntry | None, score: Score | None, field: str) -> str:
    """Return why there is nothing to compare; "" where there is."""
    if measure is None:
        return "not measured"
    if measure.error:
        return f"failed: {measure.error}"
    if measure.not_certified:
        return measure.not_certified
    if score is None:
        return "no such score"
    note = f": {score.note}" if score.note else ""
    if score.value is None:
        return f"undefined{note}"
    return "" if _read_field(score, field) is not None else f"no interval{note}"


def _read_field(score: Score | None, field: str) -> float | None:
    """Return what a score says, one of `FIELDS`; None where it does not."""
    return None if score is None else getattr(score, field)


def _of_checks(requirement: Requirement, encoders: Sequence[EncoderEntry]) -> Judge:
    """Return what judges an encoder by its validity checks: those of one name, or all."""
    text, subject, bound = requirement.text, requirement.subject, requirement.bound
    name, holds = subject.removeprefix("checks."), OPERATORS[requirement.comparison]
    every = list(dict.fromkeys(check for row in encoders for check in row.checks))
    names = [check for check in every if name in ("*", check, base(check))]
    if name != "*" and not names and any(not row.error for row in encoders):
        raise unknown("check", name, dict.fromkeys(map(base, every)))
    names = names or [name]

    def judge(row: EncoderEntry) -> Finding:
        checks = {check: row.checks.get(check) for check in names}
        missed = {key: check for key, check in checks.items() if check is None or not holds(check.status, bound)}
        reasons = []
        for key, check in missed.items():
            reason = f"{check.status}, {check.finding}" if check else "not examined"
            reasons.append(reason if len(names) == 1 else f"{key}: {reason}")
        reason = f"not audited: {row.error}" if row.error else "; ".join(reasons)
        statuses = dict.fromkeys(check.status if check else "missing" for check in (missed or checks).values())
        return Finding(text, row.name, not reason, subject, ", ".join(statuses), bound, reason=reason)

    return judge
