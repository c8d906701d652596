"""What a number still says where a check that it depends on failed: nothing, or a bound on one side.

Works on records as JSON data, so that whoever shows, compares or requires a number says the same of it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from holdfast.runtime.errors import HoldfastError, unknown

SOUND, VOID = "sound", "void"
"""Beside these two a number may be what the truth is "at least" or "at most"."""

ONE_SIDE = ("at least", "at most")


def settle(row: Mapping[str, Any], allowed: Collection[str] = ()) -> dict[str, Any]:
    """Return an encoder's entry of a record with the standing of each score, by the checks that it depends on."""
    checks = row.get("checks", {})
    measures = {
        name: m | {"scores": {key: s | _standing(s, checks, allowed) for key, s in m.get("scores", {}).items()}}
        for name, m in row.get("measures", {}).items()
    }
    return {**row, "measures": measures}


def _standing(score: Mapping[str, Any], checks: Mapping[str, Any], allowed: Collection[str]) -> dict[str, Any]:
    failed = [name for name in score.get("checks", ()) if not is_accepted(name, allowed) and _has_failed(checks, name)]
    void = [name for name in failed if checks[name]["consequence"] == "void"]
    weak = [name for name in failed if checks[name]["consequence"] == "one side"]
    standing = VOID if void else score["if_weak"] if weak else SOUND
    return {"standing": standing, "because": void or weak}


def refuse_unknown(allowed: Iterable[str], records: Iterable[Mapping[str, Any]]) -> None:
    """Make sure that checks whose failure is to be accepted are in the records."""
    names = {name for record in records for row in record["encoders"] for name in row.get("checks", {})}
    for name in allowed:
        if names and not any(is_accepted(check, [name]) for check in names):
            raise unknown("check to allow", name, {base(check) for check in names})


def allowing(record: Mapping[str, Any], allowed: Iterable[str]) -> dict[str, Any]:
    """Return a record in which the failure of some checks is accepted, beside those that the audit accepted.

    Names that it has not mean nothing in it; see `refuse_unknown`.
    """
    names = [*allowed, *record["plan"].get("allow", [])]
    plan = {**record["plan"], "allow": names}
    return {**record, "plan": plan, "encoders": [settle(row, names) for row in record["encoders"]]}


def is_accepted(check: str, allowed: Collection[str]) -> bool:
    """Whether a check is among those whose failure is accepted, by its name with or without brackets."""
    return check in allowed or base(check) in allowed


def base(check: str) -> str:
    """Return the name of a check without what tells it from its twins: "masking[radius=0.1]" is "masking"."""
    return check.partition("[")[0]


def void_checks(row: Mapping[str, Any], allowed: Collection[str] = ()) -> list[str]:
    """Return the failed checks by which no number of an encoder means anything."""
    checks = row.get("checks", {})
    return [
        name
        for name, check in checks.items()
        if check.get("consequence") == "void" and _has_failed(checks, name) and not is_accepted(name, allowed)
    ]


def find_failed_checks(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (encoder, check) for all that failed and was not accepted when the audit was made."""
    allowed = record["plan"].get("allow", [])
    for row in record["encoders"]:
        for name in row.get("checks", {}):
            if _has_failed(row["checks"], name) and not is_accepted(name, allowed):
                yield row["name"], name


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
            raise HoldfastError(f"allow: expected names of checks, got {name!r}")
        if base(name) not in checks:
            raise unknown("check to allow", name, checks)


def _has_failed(checks: Mapping[str, Any], name: str) -> bool:
    return checks.get(name, {}).get("status") == "fail"
