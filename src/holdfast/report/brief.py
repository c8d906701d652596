"""What a reader meets first: who holds best and by how much, a few numbers of each encoder, whether to trust them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.report.answer import answers, diagnose, duplicates
from holdfast.report.cells import Cell, standing
from holdfast.report.leader import Leader, format_score, lead
from holdfast.report.numbers import bracket, finite, listing, plural
from holdfast.report.verdict import Sentence
from holdfast.storage.standing import SOUND, VOID

FEW = 5
"""Numbers of each encoder that a report begins with, at most."""


@dataclass(frozen=True)
class Trust:
    """What the checks behind an encoder's first numbers say; status is the worst of them."""

    status: str
    text: str
    further: str = ""


@dataclass(frozen=True)
class Line:
    """One encoder: its place in the record, its numbers, and whether to trust them."""

    series: int
    name: str
    figures: list[Cell]
    trust: Trust


@dataclass(frozen=True)
class Brief:
    """The few numbers of all encoders; heads are (title, question, whether lower or higher is better)."""

    heads: list[tuple[str, str, str]]
    lines: list[Line]


def first_keys(record: Mapping[str, Any]) -> list[str]:
    """Return the measures whose headlines come first: those that answer in words, then those that are in brief.

    Of measures of one kind only the first; of a record that does not know, its first measures.
    """
    about = _about(record)
    ordered = list(dict.fromkeys(key for e in record["encoders"] for key in e.get("measures", {})))
    answering = answering_keys(record)
    brief: dict[str, str] = {}  # kind of measure -> the first of it
    for key in ordered:
        if about[key].get("in_brief") and key not in answering:
            brief.setdefault(about[key]["part"]["name"], key)
    kinds = {about[key]["part"]["name"] for key in answering}
    first = [*answering, *(key for kind, key in brief.items() if kind not in kinds)]
    return (first or ordered)[:FEW]


def _about(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return what the first encoder that has it says of each measure."""
    return {key: m for e in reversed(record["encoders"]) for key, m in e.get("measures", {}).items()}


def answering_keys(record: Mapping[str, Any]) -> list[str]:
    """Return the measures that answer in words."""
    answering = (key for e in record["encoders"] for key, m in e.get("measures", {}).items() if m.get("in_words"))
    return list(dict.fromkeys(answering))


def best_first(record: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return (place in the record, encoder), by the first number; what has none stands last."""
    keys = first_keys(record)

    def rank(item: tuple[int, Mapping[str, Any]]) -> tuple[bool, float]:
        m = item[1].get("measures", {}).get(keys[0], {}) if keys else {}
        value = _headline(m).get("value") if m else None
        if not finite(value) or standing(_headline(m)) == VOID:
            return True, 0.0
        return False, -value if m["better"] == "higher" else value

    return sorted(enumerate(record["encoders"]), key=rank)


def leader(record: Mapping[str, Any]) -> Leader | None:
    """Return who is best by the first number, and what checks call it; None where fewer than two have one."""
    if not (keys := first_keys(record)):
        return None
    key, comparison = keys[0], record["comparison"].get(keys[0], {})
    entries = {e["name"]: e["measures"][key] for _, e in best_first(record) if key in e.get("measures", {})}
    scores = {name: _headline(m) for name, m in entries.items()}
    scores = {name: s for name, s in scores.items() if finite(s.get("value")) and standing(s) != VOID}
    if not scores:
        return None
    first = next(iter(scores))
    beaten = {
        pair["second"] if pair["first"] == first else pair["first"]
        for pair in comparison.get("pairs", [])
        if first in (pair["first"], pair["second"]) and _excludes_zero(pair["difference"])
    }
    about = {**entries[first], "answers": key in answering_keys(record), "levels": in_levels(entries[first])}
    best = lead(about, scores, comparison.get("best"), beaten)
    doubt = next((diagnose(e) for e in record["encoders"] if e["name"] == comparison.get("best")), "")
    if best and doubt:
        return replace(best, heading=f"{best.heading}, but {doubt[:1].lower()}{doubt[1:]}", tone="warn")
    if best and best.tone == "good" and record.get("hardening", {}).get("warnings"):
        return replace(best, heading=f"{best.heading}, at a price", tone="warn")
    return best


def brief(record: Mapping[str, Any]) -> Brief:
    """Return the few numbers of the audited encoders, the best encoder first."""
    keys, about = first_keys(record), _about(record)
    heads = [(about[key]["title"], about[key].get("question", ""), about[key]["better"]) for key in keys]
    lines = [
        Line(series, e["name"], [_figure(record, e, key) for key in keys], trust(e, keys))
        for series, e in best_first(record)
        if not e.get("error")
    ]
    return Brief(heads, lines)


def each_answer(record: Mapping[str, Any]) -> list[tuple[int, str, list[Sentence]]]:
    """Return (place in the record, encoder, its answers), the best encoder first."""
    by_name: dict[str, list[Sentence]] = {}
    for name, answer in answers(record, closing=False):
        by_name.setdefault(name, []).append(answer)
    return [(series, e["name"], by_name[e["name"]]) for series, e in best_first(record) if e["name"] in by_name]


def warn_about_duplicates(record: Mapping[str, Any]) -> list[Sentence]:
    """Return what is to be said of images that are nearly the same as others, where some are."""
    words = duplicates(record["data"])
    return [Sentence(words, "warn")] if words else []


def statuses(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (status, how many checks of all encoders have it) of those that any has, the gravest first."""
    everything = [check["status"] for e in record["encoders"] for check in (e.get("checks") or {}).values()]
    words = {"fail": "failed", "warn": "warn", "pass": "passed", "skip": "skipped"}
    return [(status, f"{count} {word}") for status, word in words.items() if (count := everything.count(status))]


def trust(encoder: Mapping[str, Any], keys: list[str]) -> Trust:
    """Return what the checks behind the first numbers say: those of the first one, which leads, and all others."""
    checks = encoder["checks"]
    behind = _headline(encoder["measures"].get(keys[0])).get("checks", ()) if keys else ()
    first = {key: checks[key] for key in behind if key in checks} or checks
    others = {key: check for key, check in checks.items() if key not in first}
    for status, word in (("fail", "failed"), ("warn", "warned")):
        if names := _list_titles(first, status):
            text = f"{len(names)} of {len(first)} {word}"
            return Trust(status, text, "; ".join(filter(None, [listing(names, 2), _summarise_checks(others)])))
    ran = sum(check["status"] == "pass" for check in first.values())
    if not ran:
        return Trust("skip", "no check was run", _summarise_checks(others))
    return Trust("pass", f"{plural(ran, 'check')} passed", _summarise_checks(others))


def _list_titles(checks: Mapping[str, Any], status: str) -> list[str]:
    return [check["title"].lower() for check in checks.values() if check["status"] == status]


def _summarise_checks(checks: Mapping[str, Any]) -> str:
    """Return how many checks behind other numbers did not pass."""
    counts = {word: len(_list_titles(checks, status)) for status, word in (("fail", "failed"), ("warn", "warned"))}
    said = [f"{count} {word}" for word, count in counts.items() if count]
    return f"behind other numbers: {', '.join(said)}" if said else ""


def _headline(measure: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return ((measure or {}).get("scores") or {}).get((measure or {}).get("headline")) or {}


def in_levels(measure: Mapping[str, Any]) -> bool:
    """Return whether a measure answers in grey levels, in which its headline is then told."""
    return bool((measure.get("in_words") or {}).get("levels"))


def _excludes_zero(difference: Mapping[str, Any]) -> bool:
    low, high = difference.get("low"), difference.get("high")
    return finite(low) and finite(high) and (low > 0 or high < 0)


def _figure(record: Mapping[str, Any], encoder: Mapping[str, Any], key: str) -> Cell:
    m = encoder["measures"].get(key)
    if m is None:
        return Cell("–", note="not measured")
    if m.get("error"):
        return Cell("failed", note=m["error"], tone="bad")
    if m.get("not_certified"):
        return Cell("not certified", note=m["not_certified"], tone="warn")
    score = _headline(m)
    value, interval = format_score(score, m["unit"], in_levels(m))
    if both := bracket(m["scores"], m["unit"], m["better"]):
        value, _, interval = both.partition(", ")
    best = record["comparison"].get(key, {}).get("best") == encoder["name"]
    tone = "" if standing(score) == SOUND else "warn"
    return Cell(value, interval, score.get("note", ""), best, tone)
