"""Who is the most robust, and by how much: no more than paired intervals allow."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from holdfast.numerics.statistics.score import Score
from holdfast.report.numbers import finite, listing, statement
from holdfast.storage.comparison import ComparedMeasure
from holdfast.storage.record import MeasureEntry
from holdfast.storage.standing import SOUND, VOID


@dataclass(frozen=True)
class Leader:
    """Who is best, as a heading, and by how much; tone: "good" where intervals decide, "warn" with a doubt."""

    heading: str
    text: str
    tone: str = "plain"


def lead(
    measure: MeasureEntry | ComparedMeasure,
    scores: Mapping[str, Score],
    best: str | None,
    beaten: Collection[str],
    *,
    answers: bool,
    levels: bool,
    p: str = "",
    bar: str = "",
) -> Leader | None:
    """Return who is best on a measure; None where fewer than two encoders have a number.

    Args:
        measure: what it is.
        scores: encoder -> its headline, the best value first.
        best: whom paired intervals set apart from every other encoder; None: nobody.
        beaten: the encoders that paired intervals set apart from the one with the best value.
        answers: whether it answers in words.
        levels: whether its sizes are said in grey levels.
        p: the corrected p-value of the best against the next, "0.012" or "< 0.001"; "" where it is not known.
        bar: why nobody is called best, whatever the intervals say, a check and what it found; "" where somebody may be.
    """
    if len(scores) < 2:
        return None
    title = measure.title.lower()
    values = {name: format_score(score, measure.unit, levels)[0] for name, score in scores.items()}
    if best is not None and best in scores:
        heading = f"{best} is the most robust" if answers else f"{best} is best on {title}"
        second = next(name for name in scores if name != best)
        of = f"{second}, the next" if len(scores) > 2 else second
        by = f"against {values[second]} of {of}"
        if times := _times(measure, scores[best], scores[second]):
            by = f"{times} that of {of} ({values[second]})"
        level = f"p {p if p.startswith('<') else f'= {p}'}" if p else "95 %"
        paired = f"Compared image by image, the difference is significant ({level})."
        return Leader(heading, f"Its {title} is {values[best]}, {by}. {paired}", "good")
    if bar:
        every = listing([f"{name} ({value})" for name, value in values.items()], 4)
        why, _, finding = bar.partition(": ")
        return Leader(f"No encoder is called best: the check {why}", f"{finding}. By {title}: {every}.", "warn")
    heading = "No encoder is clearly the most robust" if answers else f"No encoder is clearly best on {title}"
    level = [f"{name} ({value})" for name, value in values.items() if name not in beaten]
    return Leader(heading, f"By {title}, these images do not separate {listing(level, 4)}.")


def format_score(score: Score, unit: str, levels: bool, digits: int | None = None) -> tuple[str, str]:
    """Return a score's value and interval as `statement` does, or in grey levels: ("20.0/255", "[19.1, 20.6]")."""
    if not levels or score.unit not in ("", unit):
        return statement(score, unit, digits)
    value, low, high = (255 * end if finite(end) else None for end in (score.value, score.low, score.high))
    text, interval = statement(replace(score, value=value, low=low, high=high), unit, digits)
    return text if value is None or text == VOID else f"{text}/255", interval


def format_score_inline(score: Score, unit: str, levels: bool, digits: int | None = None) -> str:
    """Return what `format_score` does as one text: "20.0/255 [19.1, 20.6]"."""
    return " ".join(filter(None, format_score(score, unit, levels, digits)))


def _times(measure: MeasureEntry | ComparedMeasure, best: Score, second: Score) -> str:
    """Return "1.82 times" where that says more than a difference: of positive lengths and ratios that are no bounds."""
    comparable = measure.unit in ("pixels", "ratio") and measure.better == "higher"
    sound = [score.value for score in (best, second) if score.standing == SOUND and finite(score.value)]
    if not comparable or len(sound) < 2 or not sound[0] > sound[1] > 0:
        return ""
    ratio = sound[0] / sound[1]
    return f"{ratio:.3g} times" if ratio < 1.95 else f"{ratio:.2g} times"
