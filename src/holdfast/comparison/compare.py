"""Encoders of several audits compared: paired differences, corrected verdicts, ranks, who dominates whom."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.auditing.differences import Pair, beats, best_of, compare_pairs, contrasts
from holdfast.comparison.conditions import cautions, refuse_mismatches, software
from holdfast.comparison.pareto import axes, find_dominators, pick
from holdfast.comparison.questions import Question, questions
from holdfast.comparison.records import Audited, Run, encoders_of
from holdfast.core import HoldfastError, Score, Table
from holdfast.numerics.statistics.levels import FLOOR, p_value, reach
from holdfast.numerics.statistics.looks import looking
from holdfast.numerics.statistics.multiple_testing import CORRECTIONS, adjust_p_values
from holdfast.numerics.statistics.ranks import rank_intervals
from holdfast.runtime.errors import unknown
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
from holdfast.storage.record import MeasureEntry
from holdfast.storage.standing import find_bars, format_bar, is_accepted, is_rival, may_win, void_checks

LEVEL = 0.05
"""Adjusted p-values up to this are verdicts."""

ASSUMED = (
    "Differences are paired image by image; their 95 % intervals come from both scores' intervals and the correlation "
    "of what each image contributes (MOVER). p is 1 - the highest level at which that interval excludes zero; beyond "
    "95 % its ends are taken to lie as a binomial's of the same effective size for shares, as Student's t else."
)


@dataclass(frozen=True)
class _Paired:
    """One measure on its way: the encoders whose tables could be read, their pairs, and the p-values of these."""

    question: Question
    scored: dict[str, tuple[Table, Score]]
    reasons: dict[str, str]
    pairs: list[Pair]
    p: list[float | None]


def compare_runs(
    runs: Sequence[Run],
    *,
    measures: Sequence[str] = (),
    correction: str = "holm",
    x: str | None = None,
    y: str | None = None,
    fewest: int = 2,
) -> Comparison:
    """Return the comparison of all encoders of some audits.

    Every two encoders are compared on every measure that both were asked alike; p-values are adjusted over all of these
    comparisons together, those without an interval counting as undecided (p = 1). Encoders that collapsed or do not
    stand still are shown, but neither compared nor ranked: their numbers mean nothing.
    """
    if correction not in CORRECTIONS:
        raise unknown("correction", correction, CORRECTIONS)
    # the encoders of all audits, which must be of the same images
    refuse_mismatches(runs)
    shown = distinct([run.place for run in runs])
    runs = [replace(run, place=name) for run, name in zip(runs, shown, strict=True)]
    allowed = {run.place: run.record.plan.allow for run in runs}
    encoders, problems = encoders_of(runs)
    places = ", ".join(repr(run.place) for run in runs)
    if len(encoders) < fewest:
        raise HoldfastError(
            f"expected at least {fewest} audited encoders to compare, got {len(encoders)} in {places}; give more run "
            "folders, or audit more encoders on the same images"
        )
    # the measures that they share
    shared, left_out = questions(encoders, fewest)
    if not shared:
        why = "; ".join(left_out) or "none was measured"
        raise HoldfastError(f"expected a measure that two encoders were asked alike, got none in {places}: {why}")
    if measures:
        chosen = pick({q.name: q.answers[0][1].part for q in shared}, measures)
        shared = [q for q in shared if q.name in chosen]
    # paired differences on each of them, of encoders whose numbers mean something
    unfit = {e.name: failed for e in encoders if (failed := void_checks(e.entry, allowed[e.run.place]))}
    paired_measures = [_compare_tables(question, unfit) for question in shared]
    for measure in paired_measures:
        problems += [f"{measure.question.name} of {name}: {reason}" for name, reason in measure.reasons.items()]
    # p-values adjusted over all of them together, then verdicts and ranks
    family = adjust_p_values([1.0 if p is None else p for measure in paired_measures for p in measure.p], correction)
    verdicts = iter(family)
    entries, beaten = {}, {}
    for measure in paired_measures:
        name = measure.question.name
        corrected = [next(verdicts) for _ in measure.pairs]
        entries[name], beaten[name] = _entry(measure, corrected, encoders, unfit, allowed)
    return Comparison(
        correction=correction,
        promises=CORRECTIONS[correction],
        comparisons=len(family),
        assumed=ASSUMED,
        conditions=conditions(runs[0].record) | {"data": runs[0].record.data.spec},
        runs=[_run(run) for run in runs],
        encoders=[_encoder(encoder, unfit) for encoder in encoders],
        measures=entries,
        pareto=_pareto(entries, beaten, x, y),
        left_out=left_out,
        cautions=cautions(runs, encoders),
        problems=problems,
    )


def _compare_tables(question: Question, unfit: Mapping[str, list[str]]) -> _Paired:
    """Read the tables of one measure and compare those that can be read."""
    # tables with the same rows, and what each image contributes to each score
    scored: dict[str, tuple[Table, Score]] = {}
    influences = {}
    reasons: dict[str, str] = {}
    ids: list[str] | None = None
    for encoder, m in question.answers:
        if (score := m.headline_score) is None or m.table is None or encoder.name in unfit:
            continue
        name, place = encoder.name, encoder.run.place
        try:
            rows, table = encoder.run.table(m.table)
            if ids is not None and rows != ids:
                raise HoldfastError(
                    f"expected the rows of {next(iter(scored))} in {m.table} of {place!r}, got others "
                    f"({len(rows)} rows, {len(ids)} there); run the audit again"
                )
            influences[name] = question.measure.influence(table), score
            scored[name], ids = (table, score), rows
        except KeyError as error:
            reasons[name] = f"expected a column {error} in {m.table} of {place!r}; run the audit again"
        except HoldfastError as error:
            reasons[name] = str(error)
    # p-values of the paired differences, where both scores have intervals
    pairs = list(compare_pairs(influences, question.measure.better))
    reaches = {name: reach(score) for name, (_, score) in scored.items()}
    p: list[float | None] = []
    for pair in pairs:
        first, second, gap = reaches[pair.first], reaches[pair.second], pair.gap.value
        if first is None or second is None or gap is None:
            p.append(None)
        else:
            p.append(p_value(gap, first, second, pair.correlation, pair.gap.n))
    return _Paired(question, scored, reasons, pairs, p)


def _entry(
    measure: _Paired,
    corrected: Sequence[float],
    encoders: Sequence[Audited],
    unfit: Mapping[str, list[str]],
    allowed: Mapping[str, Collection[str]],
) -> tuple[ComparedMeasure, dict[str, set[str]]]:
    """Return the entry of a measure in the comparison, and whom each ranked encoder beats."""
    # verdicts: who wins which pair
    about, better = measure.question.answers[0][1], measure.question.measure.better
    scores = {name: score for name, (_, score) in measure.scored.items()}
    no_rivals = {e.name for e in encoders if not is_rival(e.entry, allowed[e.run.place])}
    barred = {e.name for e in encoders if find_bars(e.entry, allowed[e.run.place])}
    ranked = [name for name, score in scores.items() if score.value is not None and name not in no_rivals]
    pairs: list[ComparedPair] = []
    wins: list[tuple[str, str]] = []
    for pair, p, q in zip(measure.pairs, measure.p, corrected, strict=True):
        winner = None
        if p is not None and pair.gap.value is not None and q <= LEVEL:
            winner = pair.first if (pair.gap.value > 0) == (better == "higher") else pair.second
            loser = pair.second if winner == pair.first else pair.first
            wins += [] if no_rivals & {winner, loser} else [(winner, loser)]
        pairs.append(
            ComparedPair(
                first=pair.first,
                second=pair.second,
                difference=_finite(pair.gap),
                p=p,
                p_adjusted=None if p is None else max(q, FLOOR),
                winner=winner,
            )
        )
    # ranks, and the order in which they are shown: numbers that flatter come last
    beaten = beats(ranked, wins)
    places = rank_intervals(beaten)
    sign = -1 if better == "higher" else 1
    flatters = {name: not may_win(score.standing, better) for name, score in scores.items()}
    order = sorted(ranked, key=lambda name: (flatters[name], sign * (scores[name].value or 0.0)))
    leader = order[0] if order and not flatters[order[0]] else None
    best = best_of(beaten)
    best = None if best in barred else best
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
                behind=_behind(with_leader.get(name), leader),
                why_not=_why_not(name, m, measure.reasons, unfit, no_rivals),
            )
        )
    looks = [r.look for e in encoders if e.name in measure.scored and (r := e.run.record.run.rounds) is not None]
    with looking(max(looks, default=0)):  # of audits that ended for what they found, as in these
        charts = contrasts(measure.question.measure, measure.scored, measure.pairs, no_rivals)
    entry = ComparedMeasure(
        part=about.part, title=about.title, better=about.better, unit=about.unit, needs_labels=about.needs_labels,
        question=about.question, how_to_read=about.how_to_read, reference=about.reference,
        answers=about.in_words is not None, levels=about.levels,
        in_brief=about.in_brief, leader=leader, best=best, rows=rows, pairs=pairs, charts=charts,
    )  # fmt: skip
    return entry, beaten


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


def _why_not(
    name: str,
    m: MeasureEntry | None,
    reasons: Mapping[str, str],
    unfit: Mapping[str, Sequence[str]],
    no_rivals: Collection[str],
) -> str | None:
    """Return why an encoder has no rank on a measure; None where it has one."""
    if m is None:
        return "not measured"
    if m.error:
        return f"error: {m.error}"
    if m.not_certified:
        return f"not certified: {m.not_certified}"
    if name in unfit:
        return f"its check failed: {', '.join(unfit[name])}"
    if name in reasons:
        return reasons[name]
    score = m.headline_score
    if score is not None and score.value is not None:
        return "not ranked because of its checks" if name in no_rivals else None
    return score.note if score is not None and score.note else "its score is undefined"


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


def _encoder(encoder: Audited, unfit: Mapping[str, list[str]]) -> ComparedEncoder:
    entry, run = encoder.entry, encoder.run
    checks, allowed = entry.checks, run.record.plan.allow
    warns = [name for name, check in checks.items() if check.status == "warn"]
    bars = find_bars(entry, allowed)
    fails = [name for name, check in checks.items() if check.status == "fail" and not is_accepted(name, allowed)]
    return ComparedEncoder(
        name=encoder.name, spec=entry.name, run=run.place, fingerprint=entry.fingerprint, origin=entry.origin,
        round=_round(run), unfit=unfit.get(encoder.name, []), warns=warns, fails=fails,
        called=" and ".join(bar.called for bar in bars if bar.called), bars=[format_bar(bar) for bar in bars],
    )  # fmt: skip
