"""Encoders of several audits compared: paired differences, corrected verdicts, ranks, who dominates whom."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.auditing.differences import Pair, best_of, contrasts, decide, find_beaten
from holdfast.comparison.conditions import cautions, refuse_mismatches, software
from holdfast.comparison.groups import OVER_SEEDS, Globs, find_ungrouped, make_groups, pair_groups, tell_lost_seeds
from holdfast.comparison.paired import Paired, pair_encoders, why_not
from holdfast.comparison.pareto import axes, find_dominators
from holdfast.comparison.questions import questions, select
from holdfast.comparison.records import Audited, Run, encoders_of, last_look
from holdfast.core import Score
from holdfast.numerics.statistics.looks import looking
from holdfast.numerics.statistics.multiple_testing import CORRECTIONS
from holdfast.numerics.statistics.ranks import rank_intervals
from holdfast.runtime.errors import Mismatch, NotEnough, unknown
from holdfast.runtime.privacy import distinct
from holdfast.storage.comparison import (
    Behind,
    ComparedEncoder,
    ComparedMeasure,
    ComparedPair,
    ComparedRun,
    Comparison,
    Pareto,
    ParetoPoint,
    RankedRow,
)  # fmt: skip
from holdfast.storage.conditions import conditions
from holdfast.storage.standing import find_bars, format_bar, is_accepted, is_rival, may_win, void_checks

ASSUMED = (
    "Differences are paired image by image; their 95 % intervals come from both scores' intervals and the correlation "
    "of what each image contributes (MOVER). p is 1 - the highest level at which that interval excludes zero; beyond "
    "95 % its ends are taken to lie as a binomial's of the same effective size for shares, as Student's t else."
)


def compare_runs(
    runs: Sequence[Run],
    *,
    measures: Sequence[str] = (),
    correction: str = "holm",
    groups: Globs | None = None,
    x: str | None = None,
    y: str | None = None,
    fewest: int = 2,
) -> Comparison:
    """Return the comparison of all encoders of some audits.

    Every two encoders are compared on every measure that both were asked alike; p-values are adjusted over all of these
    comparisons together, those without an interval counting as undecided (p = 1). Encoders that collapsed or do not
    stand still are shown, but neither compared nor ranked: their numbers mean nothing. With `groups`, each of several
    encoders, every two groups are compared in their place, see `holdfast.comparison.groups`.
    """
    if correction not in CORRECTIONS:
        raise unknown("correction", correction, CORRECTIONS)
    # the encoders of all audits, which must be of the same images
    refuse_mismatches(runs)
    shown = distinct([run.place for run in runs])
    runs = [replace(run, place=name) for run, name in zip(runs, shown, strict=True)]
    encoders, problems = encoders_of(runs)
    places = ", ".join(repr(run.place) for run in runs)
    if len(encoders) < fewest:
        raise NotEnough(
            f"expected at least {fewest} audited encoders to compare, got {len(encoders)} in {places}; give more run "
            "folders, or audit more encoders on the same images"
        )
    # methods stand for their seeds, whose own pairs are then only on the way
    methods = [] if groups is None else make_groups(groups, encoders)
    seeds = {method.name: method.seeds for method in methods}
    ungrouped = find_ungrouped(methods, encoders) if methods else []
    encoders = list(itertools.chain(*seeds.values())) or encoders
    # the measures that they share
    shared, left_out = questions(encoders, fewest)
    if not shared:
        why = "; ".join(left_out) or "none was measured"
        raise Mismatch(f"expected a measure that two encoders were asked alike, got none in {places}: {why}")
    if measures:
        shared = select(shared, measures)
    # paired differences on each of them, of encoders whose numbers mean something
    unfit = _find_unfit(encoders)
    paired_measures = [pair_encoders(question, unfit) for question in shared]
    for measure in paired_measures:
        problems += [f"{measure.question.name} of {name}: {reason}" for name, reason in measure.reasons.items()]
    warnings = cautions(runs, encoders)
    if methods:
        paired_measures = [pair_groups(measure, methods, unfit) for measure in paired_measures]
        warnings = [*warnings, *tell_lost_seeds(paired_measures, methods)]
        encoders = [method.whole for method in methods]
        unfit = _find_unfit(encoders)
    # p-values adjusted over all of them together, then verdicts and ranks
    decided = decide({m.question.name: (m.question.better, m.pairs) for m in paired_measures}, correction)
    entries, beaten = {}, {}
    for measure in paired_measures:
        name = measure.question.name
        entries[name], beaten[name] = _entry(replace(measure, pairs=decided[name]), encoders, unfit)
    return Comparison(
        correction=correction,
        promises=CORRECTIONS[correction],
        comparisons=sum(map(len, decided.values())),
        assumed=OVER_SEEDS if methods else ASSUMED,
        conditions=conditions(runs[0].record) | {"data": runs[0].record.data.spec},
        runs=[_run(run) for run in runs],
        encoders=[_encoder(encoder, seeds.get(encoder.name, ())) for encoder in encoders],
        measures=entries,
        pareto=_pareto(entries, beaten, x, y),
        left_out=ungrouped + left_out,
        cautions=warnings,
        problems=problems,
    )


def _entry(
    measure: Paired, encoders: Sequence[Audited], unfit: Mapping[str, list[str]]
) -> tuple[ComparedMeasure, dict[str, set[str]]]:
    """Return the entry of a measure in the comparison, and whom each ranked encoder beats."""
    about, better, scores = measure.about, measure.question.better, measure.scores
    no_rivals = {e.name for e in encoders if not is_rival(e.entry, e.allow)}
    barred = {e.name for e in encoders if find_bars(e.entry, e.allow)}
    # ranks, and the order in which they are shown: numbers that flatter come last
    beaten = find_beaten(scores, measure.pairs, no_rivals)
    pairs = [_pair(pair, judged={pair.first, pair.second} <= set(beaten)) for pair in measure.pairs]
    places = rank_intervals(beaten)
    sign = -1 if better == "higher" else 1
    flatters = {name: not may_win(score.standing, better) for name, score in scores.items()}
    order = sorted(beaten, key=lambda name: (flatters[name], sign * (scores[name].value or 0.0)))
    leader = order[0] if order and not flatters[order[0]] else None
    best = best_of(beaten, barred)
    with_leader = {p.second: p for p in pairs if p.first == leader}
    with_leader |= {p.first: p for p in pairs if p.second == leader}
    # a row for each encoder
    answers = {encoder.name: m for encoder, m in measure.question.answers}
    rows: list[RankedRow] = []
    for name in [*order, *(e.name for e in encoders if e.name not in order)]:
        m = answers.get(name)
        rows.append(
            RankedRow(
                encoder=name,
                score=m.headline_score if m else None,
                headline=m.headline if m else None,
                scores=m.scores if m else {},
                rank=places[name] if name in places and len(places) > 1 else None,
                best=name == best,
                behind=_behind(with_leader.get(name), leader) if name in beaten else None,
                why_not=why_not(name, m, measure.reasons, unfit, no_rivals),
                seeds=measure.seeds.get(name, {}),
            )
        )
    drawn = {name: (table, scores[name]) for name, table in measure.tables.items()}
    with looking(last_look(encoders)):  # of audits that ended for what they found, as in these
        # What is drawn of two encoders is about the headline
        of_headline = measure.question.of_headline
        charts = contrasts(measure.question.measure, drawn, measure.pairs, no_rivals) if of_headline else []
    entry = ComparedMeasure(
        part=about.part, title=measure.question.title, better=about.better, unit=about.unit,
        needs_labels=about.needs_labels,
        question=about.question, how_to_read=about.how_to_read, reference=about.reference,
        answers=about.in_words is not None, levels=about.levels,
        in_brief=about.in_brief, leader=leader, best=best, rows=rows, pairs=pairs, charts=charts,
    )  # fmt: skip
    return entry, beaten


def _pair(pair: Pair, *, judged: bool) -> ComparedPair:
    """Return a pair as it is told: of one with an encoder that is not ranked the difference alone."""
    p, p_adjusted, winner = (pair.p, pair.p_adjusted, pair.winner) if judged else (None, None, None)
    difference = _finite(pair.gap)
    return ComparedPair(
        first=pair.first, second=pair.second, difference=difference, p=p, p_adjusted=p_adjusted, winner=winner
    )


def _finite(score: Score) -> Score:
    """Return a score whose ends are numbers, or None: one that is infinite is no end."""
    ends = {key: getattr(score, key) for key in ("value", "low", "high")}
    return replace(score, **{key: None for key, end in ends.items() if end is not None and not math.isfinite(end)})


def _behind(pair: ComparedPair | None, leader: str | None) -> Behind | None:
    """Return the paired difference of an encoder to the one with the best value, itself minus that one."""
    if pair is None:
        return None
    gap = pair.difference
    if pair.first == leader and gap.value is not None:
        low, high = gap.low, gap.high
        gap = replace(gap, value=-gap.value, low=None if high is None else -high, high=None if low is None else -low)
    return Behind(difference=gap, p=pair.p, p_adjusted=pair.p_adjusted)


def _pareto(
    entries: Mapping[str, ComparedMeasure], beaten: Mapping[str, dict[str, set[str]]], x: str | None, y: str | None
) -> Pareto:
    across, up, why = axes(entries, x, y)
    if across is None or up is None:
        return Pareto(x=across, y=up, why_not=why, points=[])
    by = find_dominators(beaten[across], beaten[up])
    scores = {axis: {row.encoder: row.score for row in entries[axis].rows if row.score} for axis in (across, up)}
    points = [
        ParetoPoint(encoder=name, x=scores[across][name], y=scores[up][name], dominated_by=dominators)
        for name, dominators in by.items()
        if all(may_win(scores[axis][name].standing, entries[axis].better) for axis in (across, up))
    ]
    return Pareto(x=across, y=up, why_not=None, points=points)


def _run(run: Run) -> ComparedRun:
    record = run.record
    return ComparedRun(
        place=run.place, holdfast=software(record), finished=record.run.finished, command=record.plan.command
    )


def _round(run: Run) -> int | None:
    """Return the round that a record ends with; None where it was made in one go."""
    return None if run.record.run.rounds is None else run.record.run.rounds.number


def _find_unfit(encoders: Sequence[Audited]) -> dict[str, list[str]]:
    """Return the encoders whose numbers mean nothing, with the checks that say so."""
    return {e.name: failed for e in encoders if (failed := void_checks(e.entry, e.allow))}


def _encoder(encoder: Audited, seeds: Sequence[Audited] = ()) -> ComparedEncoder:
    entry, run, allowed = encoder.entry, encoder.run, encoder.allow
    checks, bars = entry.checks, find_bars(entry, allowed)
    warns = [name for name, check in checks.items() if check.status == "warn"]
    fails = [name for name, check in checks.items() if check.status == "fail" and not is_accepted(name, allowed)]
    return ComparedEncoder(
        name=encoder.name, spec=entry.name, run=run.place, fingerprint=entry.fingerprint, origin=entry.origin,
        round=_round(run), unfit=void_checks(entry, allowed), warns=warns, fails=fails,
        called=" and ".join(bar.called for bar in bars if bar.called), bars=[format_bar(bar) for bar in bars],
        seeds=[_encoder(seed) for seed in seeds],
    )  # fmt: skip
