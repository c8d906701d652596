"""What became worse since a baseline: each score held against what may be lost of it, corrected over all of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from msgspec import structs

from holdfast.comparison.baseline import couples, same_images, without_labels
from holdfast.comparison.conditions import cautions
from holdfast.comparison.contrast import NO_WORSE, WORSE, Contrast
from holdfast.comparison.left_out import list_exclusions as unlike
from holdfast.comparison.questions import Question, questions
from holdfast.comparison.records import Audited, Run
from holdfast.comparison.shared_images import correlation, equal, sides
from holdfast.config.margins import Margin, Scored, margins
from holdfast.config.requirements import flaw, nothing_there
from holdfast.core import HoldfastError, Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.levels import FLOOR
from holdfast.numerics.statistics.multiple_testing import adjust_p_values
from holdfast.runtime.errors import Mismatch
from holdfast.runtime.privacy import distinct
from holdfast.storage.gate import HeldScore, MarginEntry, Needed, Regression, SharedImages
from holdfast.storage.record import DataEntry, MeasureEntry
from holdfast.storage.standing import VOID

LEVEL = 0.05
"""How often a check may have a wrong verdict: half of it for "worse", half for "no worse"."""

LOST: Final = "lost"
UNTOLD: Final = "cannot tell"
BETTER: Final = "better"
"""What else may become of a score; "lost" where the baseline has a number and the run has none."""

FAILING = (WORSE, LOST)
"""With which a check does not pass."""


@dataclass(frozen=True)
class _Test:
    """One score on its way.

    Attributes:
        row: what is known of it so far, see `regressions`.
        contrast: with its baseline; None where there is no test.
        images: how many rows are behind it; None where they are no images.
    """

    row: HeldScore
    contrast: Contrast | None = None
    images: int | None = None

    def count_needed_images(self, times: float | None) -> int | None:
        """So many times as many images."""
        return None if times is None or self.images is None else ceil(times * self.images)


def regressions(
    now: Run,
    before: Run,
    allow_drop: Iterable[str] = (),
    *,
    match: Mapping[str, str] | Iterable[str] = (),
    encoders: Collection[str] = (),
) -> Regression:
    """Return, for each encoder and each score that is held, whether it became worse than the margin allows.

    Verdicts are "worse" (a loss beyond the margin is shown), "no worse" (a loss beyond it is excluded), "better" (the
    same of margin 0), "lost" (the baseline has a number, the run has none, or one that a failed check voids) and
    "cannot tell". Where one run attacked more images, both scores are of the images that both attacked; `images` counts
    them. Scores whose rows are equal, image by image, are no worse without a test. What a failed check leaves is a
    bound, which counts for the verdict alone that weakness could not make.

    Where nothing can be told, `needed` says how many images would tell it with 80 % power at the level that the
    correction leaves: `as_measured`, were the true values those that were measured, and `if_equal`, were both the
    baseline's (None: no number would). Estimates of estimates: half an effect needs four times as many images.
    """
    paired = same_images(now, before)
    shown = distinct([now.place, before.place])
    now, before = (replace(run, place=name) for run, name in zip((now, before), shown, strict=True))
    if not paired:
        now, before = without_labels(now), without_labels(before)
    pairs = couples(now, before, encoders, match)
    # what both runs were asked alike; of an encoder that could not be audited, all that the baseline has
    shared: list[tuple[Audited, Audited, dict[str, Question]]] = []
    unusable: list[str] = []
    for new, old in pairs:
        asked, lines = ([], []) if new.entry.error else questions([new, old], fewest=2)
        ours = [f" of {encoder.name} is left out" for encoder in (new, old)]  # said once for all measures, see below
        unusable += [line for line in lines if not any(text in line for text in ours)]
        shared.append((new, old, {_key(new, question): question for question in asked}))
    allow_drop = list(allow_drop)
    left_out = [*unlike(pairs, allow_drop), *unusable]
    known = _collect_measures(shared)
    if not known:
        why = "; ".join(left_out) or "none was measured"
        raise Mismatch(f"expected a measure that {now.place!r} and {before.place!r} share, got none: {why}")
    try:
        held = margins(allow_drop, known)
    except HoldfastError as error:
        raise error.retell("; ".join([str(error), *left_out])) from None
    # one test for each score of each encoder, then verdicts corrected over all of them
    tests = []
    for new, old, asked in shared:
        for (name, score), margin in held.items():
            if new.entry.error:
                if name in old.entry.measures:
                    tests.append(_judge_unaudited(new, old, name, score, margin))
            elif name in asked:
                tests.append(_test(asked[name], name, score, margin, paired))
    rows = _decide_tests(tests, now.record.data)
    comparisons = sum(test.contrast is not None for test in tests)
    known_encoders = [encoder for new, old, _ in shared for encoder in (new, old) if not encoder.entry.error]
    return Regression(
        baseline=before.place,
        paired=paired,
        comparisons=comparisons,
        promises=_promises(comparisons),
        passed=not any(row.verdict in FAILING for row in rows),
        verdicts=rows,
        left_out=left_out,
        cautions=[*_warn_different_seeds(now, before, paired), *cautions([now, before], known_encoders)],
    )


def _promises(comparisons: int) -> str:
    """Return what the verdicts promise; "" where nothing was tested."""
    if comparisons < 2:
        return "The chance that this verdict is wrong is at most 5 %." if comparisons else ""
    return f"The chance that any verdict here is wrong is at most 5 % (Holm, over all {comparisons:,} comparisons)."


def _warn_different_seeds(now: Run, before: Run, paired: bool) -> list[str]:
    """Say how runs that only their seeds tell apart are compared image by image."""
    seeds = [run.record.plan.seed for run in (now, before)]
    if paired or seeds[0] == seeds[1]:
        return []
    return [
        f"the seed chooses the images, and is {seeds[0]} here and {seeds[1]} in the baseline: use the same --seed to "
        "compare image by image"
    ]


def _key(encoder: Audited, question: Question) -> str:
    """Return the name by which an encoder's record knows a measure."""
    entry = question.answers[0][1]
    return next(name for name, measure in encoder.entry.measures.items() if measure is entry)


def _collect_measures(shared: Sequence[tuple[Audited, Audited, Mapping[str, Question]]]) -> dict[str, Scored]:
    """Return the measures that can be held, each with the scores that both runs have."""
    known: dict[str, Scored] = {}
    for new, old, asked in shared:
        for name, (a, b) in {name: _entries(question) for name, question in asked.items()}.items():
            scores = {t: s for t, s in b.scores.items() if t in a.scores or not a.scores} or a.scores
            _add(known, name, b if b.headline else a, scores)
        if new.entry.error:
            for name, entry in old.entry.measures.items():
                _add(known, name, entry, entry.scores)
    return known


def _add(known: dict[str, Scored], name: str, entry: MeasureEntry, scores: Mapping[str, Score]) -> None:
    """Add what is known of a measure."""
    if entry.headline is None:
        return
    units = {title: score.unit or entry.unit for title, score in scores.items()}
    earlier = known.get(name, Scored({}, "", {}))
    betters = {title: score.better or entry.better for title, score in scores.items()}
    known[name] = Scored({**earlier.betters, **betters}, entry.headline, {**earlier.units, **units})


def _entries(question: Question) -> tuple[MeasureEntry, MeasureEntry]:
    """Return the entries of a measure in the run's record and in the baseline's."""
    (_, new), (_, old) = question.answers
    return new, old


def _row(
    new: Audited, old: Audited, name: str, title: str, margin: Margin, entry: MeasureEntry | None, about: MeasureEntry
) -> HeldScore:
    """Return what is known of a score before anything is compared."""
    now, before = None if entry is None else entry.scores.get(title), about.scores.get(title)
    amount: float | None = margin.amount
    if margin.relative:
        value = before.value if before else None
        amount = None if value is None else margin.amount * abs(value)
    told = before or now
    unit = (told.unit if told else "") or about.unit
    return HeldScore(
        encoder=new.name, baseline_encoder=old.entry.name, measure=name, title=about.title, score=title,
        is_headline=title == about.headline, better=(told.better if told else "") or about.better,
        unit=unit, levels=about.levels and unit == about.unit,
        margin=MarginEntry(written=margin.written, amount=amount, relative=margin.relative), baseline=before, now=now,
    )  # fmt: skip


def _judge_unaudited(new: Audited, old: Audited, name: str, title: str, margin: Margin) -> _Test:
    """Return what became of a score of an encoder that could not be audited."""
    entry = old.entry.measures[name]
    row = _row(new, old, name, title, margin, None, entry)
    lost = title in entry.scores and entry.scores[title].value is not None
    return _Test(structs.replace(row, verdict=LOST if lost else UNTOLD, reason=f"not audited: {new.entry.error}"))


def _test(question: Question, name: str, title: str, margin: Margin, paired: bool) -> _Test:
    """Return the test of one score of one encoder, or why there is none."""
    (new, _), (old, _) = question.answers
    side, old_side, images = sides(question, paired)
    now, before = side.entry, old_side.entry
    row = structs.replace(_row(new, old, name, title, margin, now, before), images=images)
    # numbers that are not there, or that a failed check voids
    score, baseline = now.scores.get(title), before.scores.get(title)
    if (missing := _why_no_number(old, before, baseline)) or baseline is None:
        return _Test(structs.replace(row, reason=f"the baseline has no number: {missing}"))
    if (missing := _why_no_number(new, now, score)) or score is None:
        # undefined is not lost: a median is where half of the images were not broken at all
        lost = now.failure or (score is not None and score.standing == VOID)
        return _Test(structs.replace(row, verdict=LOST if lost else UNTOLD, reason=missing))
    rho = correlation(question, title, side, old_side) if paired else None
    contrast = Contrast(score, baseline, rho or 0.0, margin, row.better)
    change = statistics.difference(contrast.now, contrast.before, contrast.correlation)
    if rho is None:
        change = replace(change, interval="unpaired, from both intervals")
    row = structs.replace(row, paired=rho is not None, correlation=rho, change=change)
    sure = contrast.tells(NO_WORSE) or new.entry.fingerprint == old.entry.fingerprint
    same = contrast.now.value == contrast.before.value
    if paired and sure and same and equal(side, old_side):
        reason = "every image has the same value as in the baseline"
        return _Test(structs.replace(row, verdict=NO_WORSE, reason=reason))
    if contrast.untestable:
        return _Test(structs.replace(row, reason=contrast.untestable))
    return _Test(row, contrast, len(side.rows) if images else None)


def _why_no_number(encoder: Audited, entry: MeasureEntry, score: Score | None) -> str:
    """Return why a measure has no number that means anything; "" where it has."""
    if reason := nothing_there(entry, score, "value"):
        return reason
    return flaw(encoder.entry, score) if score is not None and score.standing == VOID else ""


def _decide_tests(tests: Sequence[_Test], images: DataEntry) -> list[HeldScore]:
    """Return the rows of all tests with their verdicts, corrected over all of them in each direction."""
    tested = [(test, test.contrast) for test in tests if test.contrast is not None]
    corrected = {
        verdict: adjust_p_values([contrast.p_for(verdict) for _, contrast in tested], "holm")
        for verdict in (WORSE, NO_WORSE)
    }
    rows, places = [], iter(range(len(tested)))
    for test in tests:
        if (contrast := test.contrast) is None:
            rows.append(test.row)
            continue
        place, verdict = next(places), contrast.direction
        p = corrected[verdict][place]
        row = structs.replace(test.row, p=contrast.p, p_adjusted=max(p, FLOOR))
        if p <= LEVEL:
            decided = BETTER if verdict == NO_WORSE and not contrast.margin.amount else verdict
            rows.append(structs.replace(row, verdict=decided))
            continue
        # at the level that Holm leaves to those that are not decided
        level = LEVEL / (len(tested) - sum(other <= LEVEL for other in corrected[verdict]))
        needed = Needed(
            as_measured=test.count_needed_images(contrast.times_as_measured(level)),
            if_equal=test.count_needed_images(contrast.times_if_equal(level)),
            of="attacked images" if _is_attacked(row.images, images) else "images",
            available=images.available,
        )
        reason = row.reason if contrast.tells(verdict) else contrast.bounds
        rows.append(structs.replace(row, reason=reason, needed=needed))
    return rows


def _is_attacked(images: SharedImages | None, data: DataEntry) -> bool:
    """Return whether the images of a score are the attacked ones alone."""
    return images is not None and images.now == data.attacked < data.images
