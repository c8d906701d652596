"""Encoders of several audits compared: paired differences, corrected verdicts, ranks, who dominates whom."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from holdfast.auditing.differences import Influence, Pair, beats, best_of, paired
from holdfast.auditing.record import finite
from holdfast.comparison.conditions import cautions, conditions, refuse_mismatches
from holdfast.comparison.pareto import axes, dominated, pick
from holdfast.comparison.questions import Question, questions
from holdfast.comparison.records import Audited, Run, encoders_of, score_of
from holdfast.core import HoldfastError, Score
from holdfast.numerics.statistics.levels import FLOOR, p_value, reach
from holdfast.numerics.statistics.multiple_testing import CORRECTIONS, adjusted
from holdfast.numerics.statistics.ranks import rank_intervals
from holdfast.runtime.errors import unknown
from holdfast.runtime.privacy import distinct
from holdfast.storage.standing import accepted, may_win, void_checks

LEVEL = 0.05
"""Adjusted p-values up to this are verdicts."""

ASSUMED = (
    "Differences are paired image by image; their 95 % intervals come from both scores' intervals and the correlation "
    "of what each image contributes (MOVER). p is 1 - the highest level at which that interval excludes zero; beyond "
    "95 % its ends are taken to lie as a binomial's of the same effective size for shares, as Student's t else."
)


@dataclass(frozen=True)
class _Asked:
    """One measure on its way: what could be read, the pairs, and their p-values."""

    question: Question
    found: dict[str, tuple[Influence, Score]]
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
) -> dict[str, Any]:
    """Return the comparison of all encoders of some audits, as JSON data.

    Every two encoders are compared on every measure that both were asked alike; p-values are adjusted over all of these
    comparisons together, those without an interval counting as undecided (p = 1). Encoders that collapsed or do not
    stand still are shown, but neither compared nor ranked: their numbers mean nothing.

    Args:
        runs: what was audited; see `records.open_run`.
        measures: names of those to compare; all where none is given.
        correction: "holm", "bh" or "none", see `corrections.adjusted`.
        x: measure that is drawn across; see `pareto.axes`.
        y: measure that is drawn up.
        fewest: encoders that must be there, and that a measure must have; 1 for tables without comparisons.

    Raises:
        HoldfastError: audits of other images, attacked images, seeds or precisions; too few encoders; no measure that
            they share; an unknown name.
    """
    if correction not in CORRECTIONS:
        raise unknown("correction", correction, CORRECTIONS)
    refuse_mismatches(runs)
    shown = distinct([run.place for run in runs])
    runs = [replace(run, place=name) for run, name in zip(runs, shown, strict=True)]
    allowed = {run.place: run.record["plan"].get("allow", []) for run in runs}
    encoders, problems = encoders_of(runs)
    places = ", ".join(repr(run.place) for run in runs)
    if len(encoders) < fewest:
        raise HoldfastError(
            f"expected at least {fewest} audited encoders to compare, got {len(encoders)} in {places}; give more run "
            "folders, or audit more encoders on the same images"
        )
    asked, left_out = questions(encoders, fewest)
    if not asked:
        why = "; ".join(left_out) or "none was measured"
        raise HoldfastError(f"expected a measure that two encoders were asked alike, got none in {places}: {why}")
    if measures:
        chosen = pick({q.name: {"part": q.asked[0][1]["part"]} for q in asked}, measures)
        asked = [q for q in asked if q.name in chosen]
    unfit = {one.name: failed for one in encoders if (failed := void_checks(one.entry, allowed[one.run.place]))}
    looked = [_looked_at(question, unfit) for question in asked]
    for one in looked:
        problems += [f"{one.question.name} of {name}: {reason}" for name, reason in one.reasons.items()]
    family = adjusted([1.0 if p is None else p for one in looked for p in one.p], correction)
    verdicts = iter(family)
    entries, beaten = {}, {}
    for one in looked:
        name = one.question.name
        entries[name], beaten[name] = _entry(one, [next(verdicts) for _ in one.pairs], encoders, unfit)
    data = {
        "correction": correction,
        "promises": CORRECTIONS[correction],
        "comparisons": len(family),
        "assumed": ASSUMED,
        "conditions": conditions(runs[0].record) | {"data": runs[0].record["data"]["spec"]},
        "runs": [_run(run) for run in runs],
        "encoders": [_encoder(one, unfit) for one in encoders],
        "measures": entries,
        "pareto": _pareto(entries, beaten, x, y),
        "left_out": left_out,
        "cautions": cautions(runs, encoders),
        "problems": problems,
    }
    return finite(json.loads(json.dumps(data)))


def _looked_at(question: Question, unfit: Mapping[str, Any]) -> _Asked:
    """Read the tables of one measure and compare those that can be read."""
    found: dict[str, tuple[Influence, Score]] = {}
    reasons: dict[str, str] = {}
    ids: list[str] | None = None
    for one, m in question.asked:
        if m["headline"] is None or one.name in unfit:
            continue
        try:
            rows, table = one.run.table(m["table"])
            if ids is not None and rows != ids:
                raise HoldfastError(
                    f"expected the rows of {next(iter(found))} in {m['table']} of {one.run.place!r}, got others "
                    f"({len(rows)} rows, {len(ids)} there); run the audit again"
                )
            found[one.name] = question.measure.influence(table), score_of(m["scores"][m["headline"]])
            ids = rows
        except KeyError as error:
            reasons[one.name] = f"expected a column {error} in {m['table']} of {one.run.place!r}; run the audit again"
        except HoldfastError as error:
            reasons[one.name] = str(error)
    pairs = list(paired(found, question.measure.better))
    reaches = {name: reach(score) for name, (_, score) in found.items()}
    p: list[float | None] = []
    for pair in pairs:
        first, second, gap = reaches[pair.first], reaches[pair.second], pair.gap.value
        if first is None or second is None or gap is None:
            p.append(None)
        else:
            p.append(p_value(gap, first, second, pair.correlation, pair.gap.n))
    return _Asked(question, found, reasons, pairs, p)


def _entry(
    one: _Asked, corrected: Sequence[float], encoders: Sequence[Audited], unfit: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, set[str]]]:
    """Return what is said about a measure, and whom each ranked encoder beats."""
    about, better = one.question.asked[0][1], one.question.measure.better
    ranked = [name for name, (_, score) in one.found.items() if score.value is not None]
    pairs: list[dict[str, Any]] = []
    wins: list[tuple[str, str]] = []
    for pair, p, q in zip(one.pairs, one.p, corrected, strict=True):
        said: dict[str, Any] = {"first": pair.first, "second": pair.second, "difference": asdict(pair.gap)}
        winner = None
        if p is not None and pair.gap.value is not None and q <= LEVEL:
            winner = pair.first if (pair.gap.value > 0) == (better == "higher") else pair.second
            wins.append((winner, pair.second if winner == pair.first else pair.first))
        pairs.append(said | {"p": p, "p_adjusted": None if p is None else max(q, FLOOR), "winner": winner})
    beaten = beats(ranked, wins)
    places = rank_intervals(beaten)
    sign = -1 if better == "higher" else 1
    flatters = {name: not may_win(score.standing, better) for name, (_, score) in one.found.items()}
    order = sorted(ranked, key=lambda name: (flatters[name], sign * (one.found[name][1].value or 0.0)))
    leader = order[0] if order and not flatters[order[0]] else None
    best = best_of(beaten)
    asked = {a.name: m for a, m in one.question.asked}
    rows = []
    for name in [*order, *(e.name for e in encoders if e.name not in order)]:
        m = asked.get(name)
        headline = m["headline"] if m else None
        rows.append(
            {
                "encoder": name,
                "score": m["scores"][headline] if m and headline else None,
                "headline": headline,
                "scores": m["scores"] if m else {},
                "rank": list(places[name]) if name in places and len(places) > 1 else None,
                "best": name == best,
                "behind": _behind(name, leader, pairs),
                "why_not": _why_not(name, m, one.reasons, unfit),
            }
        )
    keys = ("part", "title", "better", "unit", "needs_labels", "question", "how_to_read", "reference")
    facts = {key: about.get(key, "") for key in keys}
    return facts | {"leader": leader, "best": best, "rows": rows, "pairs": pairs}, beaten


def _behind(name: str, leader: str | None, pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the paired difference of an encoder to the one with the best value, itself minus that one."""
    for pair in pairs:
        if {pair["first"], pair["second"]} == {name, leader} and name != leader:
            gap = dict(pair["difference"])
            if pair["first"] == leader and gap["value"] is not None:
                low, high = gap["low"], gap["high"]
                gap |= {"value": -gap["value"], "low": None if high is None else -high}
                gap["high"] = None if low is None else -low
            return {"difference": gap, "p": pair["p"], "p_adjusted": pair["p_adjusted"]}
    return None


def _why_not(name: str, m: Any, reasons: Mapping[str, str], unfit: Mapping[str, Any]) -> str | None:
    """Return why an encoder has no rank on a measure; None where it has one."""
    if m is None:
        return "not measured"
    for key in ("error", "not_certified"):
        if m.get(key):
            return f"{key.replace('_', ' ')}: {m[key]}"
    if name in unfit:
        return f"its check failed: {', '.join(unfit[name])}"
    if name in reasons:
        return reasons[name]
    score = m["scores"].get(m["headline"]) or {}
    return None if score.get("value") is not None else score.get("note") or "its score is undefined"


def _pareto(
    entries: Mapping[str, Any], beaten: Mapping[str, dict[str, set[str]]], x: str | None, y: str | None
) -> dict[str, Any]:
    across, up, why = axes(entries, x, y)
    if across is None or up is None:
        return {"x": across, "y": up, "why_not": why, "points": []}
    by = dominated(beaten[across], beaten[up])
    scores = {axis: {row["encoder"]: row["score"] for row in entries[axis]["rows"]} for axis in (across, up)}
    points = [
        {"encoder": name, "x": scores[across][name], "y": scores[up][name], "dominated_by": those}
        for name, those in by.items()
        if all(may_win(scores[axis][name]["standing"], entries[axis]["better"]) for axis in (across, up))
    ]
    return {"x": across, "y": up, "why_not": None, "points": points}


def _run(run: Run) -> dict[str, Any]:
    record = run.record
    software = " ".join(filter(None, [record["holdfast"]["version"], record["holdfast"].get("git")]))
    command = record["plan"].get("command", "")
    return {"place": run.place, "holdfast": software, "finished": record["run"]["finished"], "command": command}


def _encoder(one: Audited, unfit: Mapping[str, Any]) -> dict[str, Any]:
    warns = [name for name, check in one.entry["checks"].items() if check.get("status") == "warn"]
    checks, allowed = one.entry["checks"], one.run.record["plan"].get("allow", [])
    fails = [name for name, check in checks.items() if check.get("status") == "fail" and not accepted(name, allowed)]
    return {
        "name": one.name, "spec": one.entry["name"], "run": one.run.place, "fingerprint": one.entry["fingerprint"],
        "origin": one.entry["origin"], "unfit": unfit.get(one.name, []), "warns": warns, "fails": fails,
    }  # fmt: skip
