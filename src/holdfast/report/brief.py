"""What a reader meets first: who is the most robust, a few numbers of each encoder, whether to trust them."""

from dataclasses import dataclass, replace

from holdfast.numerics.statistics.score import Score
from holdfast.report.answer import answer, diagnose, duplicates, explain_diagnosis
from holdfast.report.cells import Cell
from holdfast.report.leader import Leader, lead, lead_of
from holdfast.report.numbers import (
    bracket,
    decapitalise,
    finite,
    format_score,
    format_score_inline,
    listing,
    plural,
)
from holdfast.report.verdict import Sentence, explain_bar, find_best
from holdfast.storage.record import EncoderEntry, MeasureEntry, Record
from holdfast.storage.sides import PROVED
from holdfast.storage.standing import ONE_SIDE, SOUND, VOID, is_rival

FEW = 5
"""Numbers of each encoder that a report begins with, at most."""


BEHIND = (
    "All encoders saw the same images. This is how far an encoder's first number is behind that of the first encoder, "
    "compared image by image, with its 95 % interval. Who is called better is decided after correction for all "
    "measures and pairs."
)
"""What the column of paired differences means."""


@dataclass(frozen=True)
class Trust:
    """What the checks of an encoder say.

    Attributes:
        status: the worst of them.
        text: how many passed.
        doubts: (status, what checks of that status cast on its numbers), the gravest first.
    """

    status: str
    text: str
    doubts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Head:
    """The head of a column.

    Attributes:
        title: in plain words.
        term: what papers call it; "" where that is the title.
        better: "higher" or "lower"; "" where neither is.
        meaning: what its numbers mean.
    """

    title: str
    term: str
    better: str
    meaning: str


@dataclass(frozen=True)
class Line:
    """One encoder: its place in the record, its numbers, and whether to trust them."""

    series: int
    name: str
    figures: list[Cell]
    trust: Trust


@dataclass(frozen=True)
class Brief:
    """The few numbers of all encoders: a cell of each line for each head."""

    heads: list[Head]
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
            brief.setdefault(about[key].part_name, key)
    kinds = {about[key].part_name for key in answering}
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
    """Return who is best by the first number, and who is no rival; of one encoder, its answer; None without numbers."""
    if not (keys := first_keys(record)):
        return None
    key, compared = keys[0], record.comparison.get(keys[0])
    audited = [e for _, e in best_first(record) if not e.error]
    if len(audited) == 1:
        return _alone(audited[0], key, record)
    rivals, others = ([e for e in audited if is_rival(e, record.plan.allow) is ranked] for ranked in (True, False))
    entries = {e.name: e.measures[key] for e in rivals if key in e.measures}
    scores = {
        name: score
        for name, m in entries.items()
        if (score := m.headline_score) and finite(score.value) and score.standing != VOID
    }
    left_out = "; ".join(
        f"{e.name} is not ranked: {decapitalise(diagnose(e))}" + (f" ({why})" if (why := explain_diagnosis(e)) else "")
        for e in others
    )
    if others and len(scores) < 2 <= len(audited):
        return Leader("Fewer than two encoders can be ranked", f"{left_out}.", "warn")
    if not scores:
        return None
    first = next(iter(scores))
    beaten = {
        pair.second if pair.first == first else pair.first
        for pair in (compared.pairs if compared else [])
        if pair.winner and first in (pair.first, pair.second)
    }
    name, answers = find_best(record, key), key in answering_keys(record)
    second = next((other for other in scores if other != (name or first)), "")
    behind, bar = _difference(record, key, name or first, second), explain_bar(record, scores)
    best = lead(entries[first], scores, name, beaten, answers=answers, behind=behind, bar=bar)
    if best and left_out:
        best = replace(best, text=f"{best.text} {left_out}.")
    if best and best.tone == "good" and record.hardening and record.hardening.warnings:
        return replace(best, heading=f"{best.heading}, at a price", tone="warn")
    return best


def _alone(encoder: EncoderEntry, key: str, record: Record) -> Leader | None:
    """Return the answer of the only encoder, as a heading where a number says it all."""
    m = encoder.measures.get(key)
    said = answer(m, encoder, record.data) if m else None
    if said is None:
        return None
    if name := diagnose(encoder):
        why = f"{why[0].upper()}{why[1:]}. " if (why := explain_diagnosis(encoder)) else ""
        return Leader(f"{encoder.name}: {decapitalise(name)}", why + replace(said, called="").sentence.text, "warn")
    if said.tone != "plain" or not said.is_number:
        return None
    return Leader(f"{encoder.name}: {said.says}", " ".join(said.further))


def define(record: Record) -> str:
    """Return what an expression of the first answer means; "" where it needs no explanation."""
    about = _about(record)
    words = (about[key].in_words for key in answering_keys(record)[:1])
    return next((each.definition for each in words if each), "")


def explain_marks(record: Record, shown: Brief, best: str, doubt: str) -> list[str]:
    """Return what the words and marks of the first numbers mean, of those that are there.

    Args:
        record: the record.
        shown: its first numbers.
        best: how the best number is marked.
        doubt: how a number is marked that a warning concerns.
    """
    measures = [m for e in record.encoders for m in e.measures.values()]
    lines = [define(record)]
    first = [e.measures[key] for key in first_keys(record) for e in record.encoders if key in e.measures]
    if tried := max((proof.n for m in first if (proof := _find_proof(m))), default=0):
        of = f"the first {plural(tried, 'image')}"
        if tried < (attacked := max(m.headline_score.n for m in first if m.headline_score)):
            of += f" of {attacked}, so a proof may reach beyond what breaks half of all"
        lines.append(f"Proved (dashed in charts): no attack of that size can do it (certified: {of}).")
    if any(bracket(m.scores, m.unit, m.better) for m in measures):
        lines.append("Proved, and broken by an attack: the truth for these images is between them.")
    headlines = [m.headline_score for m in measures]
    if any(score and score.standing in ONE_SIDE for score in headlines):
        lines.append("At least, at most: a bound on one side, because a check failed.")
    if any(find_best(record, key) for key in record.comparison):
        lines.append(f"{best} better than every other ranked encoder on the same images, after correction (Holm).")
    if any(cell.doubt for line in shown.lines for cell in line.figures):
        lines.append(f"{doubt} one of the warnings below the name concerns this number.")
    return [line for line in lines if line]


def _difference(record: Record, key: str, first: str, second: str) -> Score | None:
    """Return by how much an encoder is ahead of another on a measure, image by image; None where nobody knows."""
    compared, better = record.comparison.get(key), _about(record)[key].better
    pairs = compared.pairs if compared else []
    return next((lead_of(pair, first, better) for pair in pairs if {pair.first, pair.second} == {first, second}), None)


def brief(record: Record) -> Brief:
    """Return the few numbers of the audited encoders, the best encoder first."""
    keys, about = first_keys(record), _about(record)
    heads = [_head(about[key]) for key in keys]
    audited = [(series, e) for series, e in best_first(record) if not e.error]
    behind = _behind(record, keys[0], [e.name for _, e in audited]) if keys else {}
    lines = [Line(series, e.name, [_figure(record, e, key) for key in keys], trust(e)) for series, e in audited]
    if behind:
        heads.insert(1, Head("behind the first", "", "", BEHIND))
        for line in lines:
            line.figures.insert(1, behind.get(line.name, Cell("–")))
    return Brief(heads, lines)


def _head(m: MeasureEntry) -> Head:
    meaning = " ".join(filter(None, (m.question, m.how_to_read)))
    return Head(m.gloss or m.title, m.title if m.gloss else "", m.better, meaning)


def _behind(record: Record, key: str, names: list[str]) -> dict[str, Cell]:
    """Return how far the number of each encoder is behind the first one's, where the two were compared."""
    about, cells = _about(record)[key], dict[str, Cell]()
    ranked = {e.name for e in record.encoders if is_rival(e, record.plan.allow)}
    for name in names[1:]:
        if name not in ranked:
            cells[name] = Cell("not ranked", tone="warn")
        elif gap := _difference(record, key, names[0], name):
            cells[name] = Cell(*format_score(gap, about.unit, about.levels))
    return cells


def each_answer(record: Record) -> list[tuple[int, str, list[Sentence]]]:
    """Return (place in the record, encoder, its answers), the best encoder first; what a heading or table says is not.

    Of one encoder all that is not its heading; of several, what is more than a number, and every doubt.
    """
    audited = [(series, e) for series, e in best_first(record) if not e.error]
    shown = list[tuple[int, str, list[Sentence]]]()
    for series, e in audited:
        said = [each for m in e.measures.values() if (each := answer(m, e, record.data))]
        if len(audited) > 1:
            said = [each for each in said if each.tone != "plain" or not each.is_number]
        elif leader(record):
            said = said[1:]
        if said:
            shown.append((series, e.name, [each.sentence for each in said]))
    return shown


def warn_about_duplicates(record: Record) -> list[Sentence]:
    """Return what is to be said of images that are nearly the same as others, where some are."""
    words = duplicates(record.data)
    return [Sentence(words, "warn")] if words else []


def statuses(record: Record) -> list[tuple[str, str]]:
    """Return (status, how many checks of all encoders have it) of those that any has, the gravest first."""
    everything = [check.status for e in record.encoders for check in e.checks.values()]
    words = {"fail": "failed", "warn": "warn", "pass": "passed", "skip": "skipped"}
    return [(status, f"{count} {word}") for status, word in words.items() if (count := everything.count(status))]


def trust(encoder: EncoderEntry) -> Trust:
    """Return how many checks of an encoder passed, and what those that did not cast on its numbers."""
    checks = encoder.checks.values()
    ran = [check for check in checks if check.status != "skip"]
    if not ran:
        return Trust("skip", "no check was run")
    passed = sum(check.status == "pass" for check in ran)
    text = f"{passed} of {len(ran)} checks passed" if passed < len(ran) else f"all {plural(passed, 'check')} passed"
    doubts, worst = list[tuple[str, str]](), "pass"
    for status, word in (("warn", "warning"), ("fail", "failed")):
        flawed = [check for check in ran if check.status == status]
        if not flawed:
            continue
        worst, named = status, list(dict.fromkeys(check.doubt or check.title.lower() for check in flawed))
        many = plural(len(flawed), word) if word == "warning" else f"{len(flawed)} {word}"
        doubts.insert(0, (status, f"{many}: {listing(named, 3)}"))
    return Trust(worst, text, tuple(doubts))


def _figure(record: Record, encoder: EncoderEntry, key: str) -> Cell:
    m = encoder.measures.get(key)
    if m is None:
        return Cell("–", note="not measured")
    if m.error:
        return Cell("failed", note=m.error, tone="bad")
    if m.not_certified or not (score := m.headline_score):
        return Cell("not certified", note=m.failure, tone="warn")
    value, interval = format_score(score, m.unit, m.levels)
    if both := bracket(m.scores, m.unit, m.better, m.levels):
        value, _, interval = both.partition(", ")
    tone = "" if score.standing == SOUND else "warn"
    best = find_best(record, key) == encoder.name
    return Cell(value, interval, score.note, best, tone, _format_proof(m), explain_doubt(encoder, score))


def explain_doubt(encoder: EncoderEntry, score: Score) -> str:
    """Return what the warnings that concern a number of an encoder found; "" where none does."""
    warned = [check for name in score.checks if (check := encoder.checks.get(name)) and check.status == "warn"]
    return "; ".join(f"{check.doubt or check.title.lower()}: {check.finding}" for check in warned)


def _find_proof(m: MeasureEntry) -> Score | None:
    """Return what is proved beside what an attack found; None where nothing was tried, or proved."""
    score = m.scores.get(PROVED) if m.headline != PROVED else None
    return None if score is None or score.standing == VOID or not score.value else score


def _format_proof(m: MeasureEntry) -> str:
    proof = _find_proof(m)
    return f"proved {format_score_inline(proof, m.unit, m.levels)}" if proof else ""
