"""Who is the most robust, and by how much: no more than paired intervals allow."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from holdfast.numerics.statistics.score import Score
from holdfast.report.numbers import finite, format_score, format_score_inline, listing
from holdfast.storage.comparison import ComparedMeasure, ComparedPair
from holdfast.storage.record import MeasureEntry, PairEntry


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
    behind: Score | None = None,
    p: str = "",
    bar: str = "",
    seeds: str = "",
) -> Leader | None:
    """Return who is best on a measure; None where fewer than two encoders have a number.

    Args:
        measure: what it is.
        scores: encoder -> its headline, the best value first.
        best: whom paired intervals set apart from every other encoder; None: nobody.
        beaten: the encoders that paired intervals set apart from the one with the best value.
        answers: whether it answers in words.
        behind: by how much the first one is ahead of the second on the same images; None where it is not known.
        p: the corrected p-value of the best against the next, "0.012" or "< 0.001"; "" where it is not known.
        bar: why nobody is called best, whatever the intervals say, a check and what it found; "" where somebody may be.
        seeds: of methods, of how many seeds their numbers are means: "5 seeds each"; "" of encoders.
    """
    if len(scores) < 2:
        return None
    title = measure.title.lower()
    values = {name: format_score(score, measure.unit, measure.levels)[0] for name, score in scores.items()}
    gap = "" if behind is None else format_score_inline(behind, measure.unit, measure.levels)
    noun, these = ("method", "these images and seeds") if seeds else ("encoder", "these images")
    over = " over images and seeds" if seeds else ""
    paired = f"On the same images the difference is {gap}{over}" if gap else "Compared on the same images"
    means = f" (means of {seeds})" if seeds else ""
    if best is not None and best in scores:
        heading = f"{best} is the most robust" if answers else f"{best} is best on {title}"
        second = next(name for name in scores if name != best)
        of = f"{second}, the next" if len(scores) > 2 else second
        level = f" (p {p if p.startswith('<') else f'= {p}'})" if p else ""
        sure = f"{paired}{level}, which is statistically significant."
        return Leader(heading, f"Its {title} is {values[best]}, that of {of}, {values[second]}{means}. {sure}", "good")
    if bar:
        every = listing([f"{name} ({value})" for name, value in values.items()], 4)
        why, _, finding = bar.partition(": ")
        return Leader(f"No {noun} is called best: the check {why}", f"{finding}. By {title}: {every}.", "warn")
    heading = f"No {noun} is clearly {'the most robust' if answers else f'best on {title}'}"
    level = [f"{name} ({value})" for name, value in values.items() if name not in beaten]
    text = f"By {title}, {listing(level, 4)}{means} do not differ significantly on {these}."
    return Leader(heading, f"{text} {paired}, which may be chance." if gap and len(scores) == 2 else text)


def lead_of(pair: PairEntry | ComparedPair, first: str, better: str) -> Score:
    """Return by how much one of a pair is ahead of the other: above 0 where it is the better one."""
    difference = pair.difference
    if (pair.first == first) == (better == "higher"):
        return difference
    value, low, high = (-end if finite(end) else end for end in (difference.value, difference.high, difference.low))
    return replace(difference, value=value, low=low, high=high)
