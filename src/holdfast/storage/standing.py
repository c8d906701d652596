"""What a number still says where a check that it depends on failed: nothing, or a bound on one side.

Whoever shows, compares or requires a number of a record says the same of it.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from holdfast.numerics.statistics.score import Score
from holdfast.runtime.errors import BadValue, unknown
from holdfast.storage.record import CheckEntry, EncoderEntry, Record

SOUND, VOID = "sound", "void"
"""Beside these two a number may be what the truth is "at least" or "at most"."""

ONE_SIDE = ("at least", "at most")


def settle(row: EncoderEntry, allowed: Collection[str] = ()) -> EncoderEntry:
    """Return an encoder's entry of a record with the standing of each score, by the checks that it depends on."""
    measures = {
        name: replace(m, scores={key: _settle(score, row.checks, allowed) for key, score in m.scores.items()})
        for name, m in row.measures.items()
    }
    return replace(row, measures=measures)


def _settle(score: Score, checks: Mapping[str, CheckEntry], allowed: Collection[str]) -> Score:
    failed = [name for name in score.checks if not is_accepted(name, allowed) and _has_failed(checks, name)]
    void = [name for name in failed if checks[name].consequence == "void"]
    weak = [name for name in failed if checks[name].consequence == "one side"]
    standing = VOID if void else score.if_weak or VOID if weak else SOUND
    return dataclasses.replace(score, standing=standing, because=tuple(void or weak))


def refuse_unknown(allowed: Iterable[str], records: Iterable[Record]) -> None:
    """Make sure that checks whose failure is to be accepted are in the records."""
    names = {name for record in records for row in record.encoders for name in row.checks}
    for name in allowed:
        if names and not any(is_accepted(check, [name]) for check in names):
            raise unknown("check to allow", name, {base(check) for check in names})


def allowing(record: Record, allowed: Iterable[str]) -> Record:
    """Return a record in which the failure of some checks is accepted, beside those that the audit accepted.

    Names that it has not mean nothing in it; see `refuse_unknown`.
    """
    names = [*allowed, *record.plan.allow]
    encoders = [settle(row, names) for row in record.encoders]
    return replace(record, plan=replace(record.plan, allow=names), encoders=encoders)


def is_accepted(check: str, allowed: Collection[str]) -> bool:
    """Whether a check is among those whose failure is accepted, by its name with or without brackets."""
    return check in allowed or base(check) in allowed


def base(check: str) -> str:
    """Return the name of a check without what tells it from its twins: "masking[radius=0.1]" is "masking"."""
    return check.partition("[")[0]


def void_checks(row: EncoderEntry, allowed: Collection[str] = ()) -> list[str]:
    """Return the failed checks by which no number of an encoder means anything."""
    return [
        name
        for name, check in row.checks.items()
        if check.consequence == "void" and check.status == "fail" and not is_accepted(name, allowed)
    ]


def find_bars(row: EncoderEntry, allowed: Collection[str] = ()) -> list[CheckEntry]:
    """Return the checks for which an encoder is called best on nothing, whatever its numbers are."""
    doubtful = {name: check for name, check in row.checks.items() if check.status in ("warn", "fail")}
    barring = {name: check for name, check in doubtful.items() if check.called or check.consequence == "no winner"}
    return [check for name, check in barring.items() if not is_accepted(name, allowed)]


def format_bar(bar: CheckEntry) -> str:
    """Return which check bars an encoder from being called best, and what it found."""
    return f"{bar.title.lower()} warns: {bar.finding}"


def is_rival(row: EncoderEntry, allowed: Collection[str] = ()) -> bool:
    """Whether an encoder is ranked: not one that checks call something else than an encoder, such as untrained."""
    return not any(check.called for check in find_bars(row, allowed))


def find_failed_checks(record: Record) -> Iterator[tuple[str, str]]:
    """Yield (encoder, check) for all that failed and was not accepted when the audit was made."""
    for row in record.encoders:
        for name, check in row.checks.items():
            if check.status == "fail" and not is_accepted(name, record.plan.allow):
                yield row.name, name


def may_win(standing: str, better: str) -> bool:
    """Whether a number may be called better than another: not where it flatters."""
    return standing != VOID and standing != ("at most" if better == "higher" else "at least")


def may_lose(standing: str, better: str) -> bool:
    """Whether a number may be called worse than another: not where the truth may be better."""
    return standing != VOID and standing != ("at least" if better == "higher" else "at most")


def may_meet(standing: str, comparison: str) -> bool:
    """Whether a requirement can be met by a number, which weakness alone could not do."""
    if standing == SOUND:
        return True
    return comparison in {"at least": (">", ">="), "at most": ("<", "<=")}.get(standing, ())


def check_allowed(allowed: Iterable[str], checks: Collection[str]) -> None:
    """Make sure that checks whose failure is to be accepted exist."""
    for name in allowed:
        if not isinstance(name, str):
            raise BadValue(f"allow: expected names of checks, got {name!r}")
        if base(name) not in checks:
            raise unknown("check to allow", name, checks)


def _has_failed(checks: Mapping[str, CheckEntry], name: str) -> bool:
    return name in checks and checks[name].status == "fail"
