"""What a reader meets first: who is the most robust, a few numbers of each encoder, whether to trust them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holdfast.numerics.statistics.score import Score
from holdfast.report.answer import answers, diagnose, duplicates
from holdfast.report.cells import Cell
from holdfast.report.leader import Leader, format_score, lead
from holdfast.report.numbers import bracket, decapitalise, finite, listing, plural
from holdfast.report.verdict import Sentence, explain_bar, find_best
from holdfast.storage.record import CheckEntry, EncoderEntry, MeasureEntry, Record
from holdfast.storage.standing import SOUND, VOID, is_rival

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


def first_keys(record: Record) -> list[str]:
    """Return the measures whose headlines come first: those that answer in words, then those that are in brief.

    Of measures of one kind only the first; of a record that does not know, its first measures.
    """
    about = _about(record)
    ordered = list(dict.fromkeys(key for e in record.encoders for key in e.measures))
    answering = answering_keys(record)
    brief: dict[str, str] = {}  # kind of measure -> the first of it
    for key in ordered:
        if about[key].in_brief and key not in answering:
            brief.setdefault(about[key].part["name"], key)
    kinds = {about[key].part["name"] for key in answering}
    first = [*answering, *(key for kind, key in brief.items() if kind not in kinds)]
    return (first or ordered)[:FEW]


def _about(record: Record) -> dict[str, MeasureEntry]:
    """Return what the first encoder that has it says of each measure."""
    return {key: m for e in reversed(record.encoders) for key, m in e.measures.items()}


def answering_keys(record: Record) -> list[str]:
    """Return the measures that answer in words."""
    answering = (key for e in record.encoders for key, m in e.measures.items() if m.in_words)
    return list(dict.fromkeys(answering))


def best_first(record: Record) -> list[tuple[int, EncoderEntry]]:
    """Return (place in the record, encoder), by the first number; who is no rival stands last, then what has none."""
    keys = first_keys(record)

    def rank(item: tuple[int, EncoderEntry]) -> tuple[bool, bool, float]:
        m = item[1].measures.get(keys[0]) if keys else None
        score = m.headline_score if m else None
        out = not is_rival(item[1], record.plan.allow)
        if not m or not score or not finite(score.value) or score.standing == VOID:
            return True, out, 0.0
        return out, out, -score.value if m.better == "higher" else score.value

    return sorted(enumerate(record.encoders), key=rank)


def leader(record: Record) -> Leader | None:
    """Return who is best by the first number, and who is no rival; None where fewer than two have one."""
    if not (keys := first_keys(record)):
        return None
    key, compared = keys[0], record.comparison.get(keys[0])
    audited = [e for _, e in best_first(record) if not e.error]
    rivals, others = ([e for e in audited if is_rival(e, record.plan.allow) is ranked] for ranked in (True, False))
    entries = {e.name: e.measures[key] for e in rivals if key in e.measures}
    scores = {
        name: score
        for name, m in entries.items()
        if (score := m.headline_score) and finite(score.value) and score.standing != VOID
    }
    left_out = "; ".join(f"{e.name} is not ranked: {decapitalise(diagnose(e))}" for e in others)
    if others and len(scores) < 2 <= len(audited):
        return Leader("Fewer than two encoders can be ranked", f"{left_out}.", "warn")
    if not scores:
        return None
    first = next(iter(scores))
    beaten = {
        pair.second if pair.first == first else pair.first
        for pair in (compared.pairs if compared else [])
        if first in (pair.first, pair.second) and _excludes_zero(pair.difference)
    }
    about, name = entries[first], find_best(record, key)
    answers = key in answering_keys(record)
    bar = explain_bar(record, scores)
    best = lead(about, scores, name, beaten, answers=answers, levels=in_levels(about), bar=bar)
    if best and left_out:
        best = replace(best, text=f"{best.text} {left_out}.")
    if best and best.tone == "good" and record.hardening and record.hardening.warnings:
        return replace(best, heading=f"{best.heading}, at a price", tone="warn")
    return best


def brief(record: Record) -> Brief:
    """Return the few numbers of the audited encoders, the best encoder first."""
    keys, about = first_keys(record), _about(record)
    heads = [(about[key].title, about[key].question, about[key].better) for key in keys]
    lines = [
        Line(series, e.name, [_figure(record, e, key) for key in keys], trust(e, keys))
        for series, e in best_first(record)
        if not e.error
    ]
    return Brief(heads, lines)


def each_answer(record: Record) -> list[tuple[int, str, list[Sentence]]]:
    """Return (place in the record, encoder, its answers), the best encoder first."""
    by_name: dict[str, list[Sentence]] = {}
    for name, answer in answers(record, closing=False):
        by_name.setdefault(name, []).append(answer)
    return [(series, e.name, by_name[e.name]) for series, e in best_first(record) if e.name in by_name]


def warn_about_duplicates(record: Record) -> list[Sentence]:
    """Return what is to be said of images that are nearly the same as others, where some are."""
    words = duplicates(record.data)
    return [Sentence(words, "warn")] if words else []


def statuses(record: Record) -> list[tuple[str, str]]:
    """Return (status, how many checks of all encoders have it) of those that any has, the gravest first."""
    everything = [check.status for e in record.encoders for check in e.checks.values()]
    words = {"fail": "failed", "warn": "warn", "pass": "passed", "skip": "skipped"}
    return [(status, f"{count} {word}") for status, word in words.items() if (count := everything.count(status))]


def trust(encoder: EncoderEntry, keys: list[str]) -> Trust:
    """Return what the checks behind the first numbers say: those of the first one, which leads, and all others."""
    checks = encoder.checks
    m = encoder.measures.get(keys[0]) if keys else None
    score = m.headline_score if m else None
    first = {key: checks[key] for key in (score.checks if score else ()) if key in checks} or checks
    others = {key: check for key, check in checks.items() if key not in first}
    for status, word in (("fail", "failed"), ("warn", "warned")):
        if names := _list_titles(first, status):
            text = f"{len(names)} of {len(first)} {word}"
            return Trust(status, text, "; ".join(filter(None, [listing(names, 2), _summarise_checks(others)])))
    ran = sum(check.status == "pass" for check in first.values())
    if not ran:
        return Trust("skip", "no check was run", _summarise_checks(others))
    return Trust("pass", f"{plural(ran, 'check')} passed", _summarise_checks(others))


def _list_titles(checks: Mapping[str, CheckEntry], status: str) -> list[str]:
    return [check.title.lower() for check in checks.values() if check.status == status]


def _summarise_checks(checks: Mapping[str, CheckEntry]) -> str:
    """Return how many checks behind other numbers did not pass."""
    counts = {word: len(_list_titles(checks, status)) for status, word in (("fail", "failed"), ("warn", "warned"))}
    said = [f"{count} {word}" for word, count in counts.items() if count]
    return f"behind other numbers: {', '.join(said)}" if said else ""


def in_levels(measure: MeasureEntry) -> bool:
    """Return whether a measure answers in grey levels, in which its headline is then told."""
    return measure.in_words is not None and measure.in_words.levels


def _excludes_zero(difference: Score) -> bool:
    low, high = difference.low, difference.high
    return finite(low) and finite(high) and (low > 0 or high < 0)


def _figure(record: Record, encoder: EncoderEntry, key: str) -> Cell:
    m = encoder.measures.get(key)
    if m is None:
        return Cell("–", note="not measured")
    if m.error:
        return Cell("failed", note=m.error, tone="bad")
    if m.not_certified or not (score := m.headline_score):
        return Cell("not certified", note=m.failure, tone="warn")
    value, interval = format_score(score, m.unit, in_levels(m))
    if both := bracket(m.scores, m.unit, m.better):
        value, _, interval = both.partition(", ")
    tone = "" if score.standing == SOUND else "warn"
    return Cell(value, interval, score.note, find_best(record, key) == encoder.name, tone)
