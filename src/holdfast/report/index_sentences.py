"""An old encoder of an index beside a new one, in sentences."""

from collections.abc import Mapping

from holdfast.numerics.statistics.score import Score
from holdfast.report.names import short_names
from holdfast.report.numbers import format_score_inline, number, plural, score
from holdfast.storage.index_upgrade import (
    AGREEMENT,
    BREAKING,
    DISAGREEMENT,
    HELD,
    NOISE,
    NOT_PROVED,
    PROVED,
    Cause,
    Diagnosis,
    IndexMeasure,
    IndexUpgrade,
    Outcome,
)

OUTCOMES: dict[Outcome, str] = {"broken": "bold red", "wrong before and after": "yellow", "mended": "green"}
"""What may become of a canary but to hold, and its colour."""


def names(upgrade: IndexUpgrade) -> tuple[str, str]:
    """Return what the old and the new encoder are called, briefly."""
    old, new = upgrade.encoders.old.name, upgrade.encoders.new.name
    short = short_names([old, new]) if old != new else {old: old}
    return short[old], short[new]


def _alike(measures: Mapping[str, IndexMeasure]) -> str:
    """Return how alike old and new vectors are, at the median and at worst."""
    entry = measures["cosine"]
    mean, lowest = (score(entry.scores[name], entry.unit) for name in (entry.headline, "lowest"))
    return f"the cosine of old and new vectors is {mean} at the median, {lowest} at least"


def _disagree(measures: Mapping[str, IndexMeasure], names: tuple[str, str], noun: str) -> str:
    """Return after how small a change both disagree, beside what breaks either of them, and what noise does."""
    found, breaking = measures[DISAGREEMENT], measures[BREAKING].scores
    median, held = found.scores[found.headline], score(found.scores[HELD], "share")
    images, noise = plural(median.n, noun), found.scores[NOISE]
    # A side that no search breaks has no size to be named
    broken = [
        f"by {name} alone from {_size(breaking[side])}"
        for name, side in zip(names, ("old", "new"), strict=True)
        if breaking[side].value is not None
    ]
    alone = f"; half are mistaken for another {noun} {' and '.join(broken)}" if broken else ""
    if median.value is None:
        return (
            f"No change was found that makes the two find different {noun}s for half of {images}, and none within "
            f"1/255 for {held}{alone}."
        )
    random = "" if noise.value is None else f"; random noise of that size does for {score(noise, 'share')} of draws"
    return f"A change of {_size(median)} makes the two find different {noun}s for half of {images}{random}{alone}."


def _say_proofs(measures: Mapping[str, IndexMeasure], noun: str) -> str:
    """Return up to which change both are proved to agree, and how alike their vectors are proved to stay."""
    agreed = _headline(measures[AGREEMENT])
    answer = f"It is proved that both agree up to a change of {_size(agreed)}, for half of {plural(agreed.n, noun)}"
    if PROVED not in measures:
        return f"{answer}."
    cosine, vacuous = _headline(measures[PROVED]), measures[PROVED].scores[NOT_PROVED]
    of_some = score(vacuous, "share")
    # Without a proof for half of the images the median is none, or half of one
    if vacuous.value is None or vacuous.value >= 0.5:
        return f"{answer}; of their cosine within 1/255 nothing is, for {of_some} of them."
    nothing = f", and nothing for {of_some} of them" if vacuous.value else ""
    return f"{answer}, and that within 1/255 their cosine stays above {score(cosine, 'similarity')}{nothing}."


def _headline(measure: IndexMeasure) -> Score:
    return measure.scores[measure.headline]


def _size(found: Score) -> str:
    """Return the size of a change in grey levels."""
    return format_score_inline(found, "pixels", levels=True)


def diagnosis_sentences(diagnosis: Diagnosis, names: tuple[str, str], noun: str) -> list[str]:
    """Return what makes two builds of one network differ, a sentence for each cause."""
    found = [_explain(cause, names, noun) for cause in diagnosis.causes]
    # What was tried in vain is worth knowing too
    if diagnosis.tried and not any(cause.kind == "images" for cause in diagnosis.causes):
        tried = plural(len(diagnosis.tried), "usual mistake")
        also = "else " if found else ""
        found.append(f"Nothing {also}was found that explains the difference: {tried} with pictures did not halve it.")
    return found


def _explain(cause: Cause, names: tuple[str, str], noun: str) -> str:
    """Return a cause in a sentence, with what speaks for it."""
    # Whose images were changed, or of whom it is said; and the other one
    own, other = names if cause.side == "old" else names[::-1]
    tried = ""
    if cause.cosine is not None:
        before = "" if cause.before is None else f" instead of {score(cause.before, 'similarity')}"
        tried = f": cosine {score(cause.cosine, 'similarity')}{before}, median of {plural(cause.cosine.n, noun)}"
    if cause.kind == "images":
        return f"{other} gives what {own} gives where {cause.name}{tried}."
    if cause.kind == "arithmetic":
        return f"In {own}, {cause.name}."
    return f"The vectors of {own} {cause.name}{tried}."


def sentences(upgrade: IndexUpgrade) -> list[str]:
    """Return the answer: what is kept, where the threshold goes, what becomes of the old one."""
    old, new = names(upgrade)
    images, measures = plural(upgrade.data.images, upgrade.noun), upgrade.measures
    overlaps = [name for name in measures if name.startswith("overlap@")]
    last = max(overlaps, key=lambda name: int(name.partition("@")[2]))
    kept = score(measures[last].scores[measures[last].headline], "share")
    k = last.partition("@")[2]
    by = upgrade.distance
    alike = f"; {_alike(measures)}" if "cosine" in measures else ""
    answer = [
        f"With {new} instead of {old}, on {images}: {kept} of an {upgrade.noun}'s first {k} neighbours by {by} "
        f"stay{alike}."
    ]
    if "distance_scale" not in measures:
        answer.append(f"There is no scale of distances, new / old: the {by} may be below 0, so it has no multiples.")
    if DISAGREEMENT in measures:
        answer.append(_disagree(measures, (old, new), upgrade.noun))
    if AGREEMENT in measures:
        answer.append(_say_proofs(measures, upgrade.noun))
    if "threshold" not in measures:
        return answer
    limits, positives = (measures[name].scores for name in ("threshold", "false_positives"))
    rate = score(positives["old"], "share")
    answer.append(
        f"At a false-positive rate of {rate} the threshold {number(limits['old'].value)} ({by}) becomes "
        f"{score(limits['new'], 'ratio')}; kept as it is, the rate would be {score(positives['kept'], 'share')}."
    )
    if upgrade.canaries:
        counts = [sum(row.outcome == name for row in upgrade.canaries) for name in OUTCOMES]
        parts = ", ".join(f"{count} {name}" for count, name in zip(counts, OUTCOMES, strict=True) if count)
        answer.append(f"Canaries: {len(upgrade.canaries)} checked, {parts or 'all hold'}.")
    return answer
