"""The claims of a paper's text about its table, judged by ours: holds, fails or not shown."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from msgspec.structs import replace

from holdfast.core import Score
from holdfast.numerics.statistics.correlations import pearson
from holdfast.numerics.statistics.levels import p_value, reach
from holdfast.numerics.statistics.seeds import difference_over_seeds
from holdfast.storage.reproduction import Outcome, Verdict
from holdfast.workflows.reproduce.claim import COMPARED, NETWORKS, STAND_IN, Cell, Cells, Claim, ends
from holdfast.workflows.reproduce.published import judge_published, tied

HOLDS: Outcome = "holds"
FAILS: Outcome = "fails"
NOT_SHOWN: Outcome = "not shown"

FALSIFIED = "falsified, one proved case is enough"
NO_CASE = "no case was found, which no sample makes a proof"

LEVEL = 0.05

SHOWN = 8
"""Comparisons that are listed one by one; of more, those that are not as claimed."""

Correlation = Callable[[Cell, Cell], float]
"""How strongly two cells' estimates go together, because they are about the same images; 0 where nothing tells."""


def judge(claim: Claim, cells: Cells, correlation: Correlation) -> Verdict:
    """Return the verdict of our table on a claim.

    A chain of comparisons holds where each one's 95 % interval excludes zero on the right side (which needs no
    correction, for all of them must), and fails where one is on the wrong side with p at most 0.05 / their number. A
    limit holds where each interval lies on its side, and fails where one lies on the other. What never happens fails
    by one proved case, and no sample shows it. Intervals and p of numbers of several trainings are about other images
    and other trainings. All else is not shown, and what a sample was too small to give an interval neither. Where
    numbers are missing, the others can still fail the claim. Of a comparison that the paper's own table ties, as where
    both are 0, ours need not show anything.
    """
    if claim.kind == "correlates":
        return _correlates(claim, cells)
    if claim.kind not in COMPARED:
        limited = claim.select_limited_cells(cells)
        return _without(_missing(limited), _check_limits(claim, _present(limited)))
    chains = claim.select_chains(cells)
    pairs = [pair for chain in chains for pair in claim.pairs(chain) if not _missing(pair)]
    # One network in two rows shows nothing of their order
    twins = [pair for pair in pairs if pair[0].of and pair[0].of == pair[1].of]
    titles = [" and ".join(f"{cell.row}, {cell.column}" for cell in pair) for pair in twins]
    lost = [
        _missing([cell for chain in chains for cell in chain]),
        *(f"{t}: one network stands for both" for t in titles),
    ]
    verdict = _compare_pairs(claim, [pair for pair in pairs if pair not in twins], correlation)
    return _without("; ".join(filter(None, lost)), verdict)


def judge_claims(claims: Sequence[Claim], cells: Cells, correlation: Correlation) -> list[Verdict]:
    """Return the verdict on each claim that can be asked; see `judge`.

    Stand-ins that show how a table is made are none of the networks that its sentences name, and are not asked.
    What one network shows that stands for two is shown once: a claim about the same numbers as one before is not shown.
    """
    verdicts: list[Verdict] = []
    before: dict[object, str] = {}
    for claim in claims:
        network = max((cell.network for cell in claim.about(cells)), key=NETWORKS.index, default=STAND_IN)
        if network == STAND_IN:
            continue
        verdict, key = judge(claim, cells, correlation), _evidence(claim, cells)
        if key is not None and key in before and verdict.outcome != NOT_SHOWN:
            why = f"one network stands for those of this claim and of “{before[key]}”; {verdict.why}"
            verdict = Verdict(claim.text, NOT_SHOWN, why)
        elif key is not None:
            before[key] = claim.text
        verdicts.append(replace(verdict, network=network, published=judge_published(claim, cells)))
    return verdicts


def _evidence(claim: Claim, cells: Cells) -> object:
    """Return the numbers that decide a claim, whatever their rows are called; None where not all are identified."""
    if claim.kind == "correlates":
        return None
    if claim.kind in COMPARED:
        limits, chains = None, claim.select_chains(cells) if claim.columns else []
    else:
        limits, chains = claim.limits(), [[cell] for cell in _present(claim.select_limited_cells(cells))]
    numbers = frozenset(tuple(cell.of for cell in chain) for chain in chains)
    return (claim.kind, limits, numbers) if numbers and all(map(all, numbers)) else None


def _present(named: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in named if not _missing([cell])]


def _without(lost: str, verdict: Verdict) -> Verdict:
    """Return a verdict on a part of what is claimed: one part may fail a claim, but all are needed to show it."""
    if not lost:
        return verdict
    why = f"{verdict.why}; {lost}" if verdict.why else lost
    return Verdict(verdict.text, NOT_SHOWN if verdict.outcome == HOLDS else verdict.outcome, why)


def _missing(cells: Sequence[Cell]) -> str:
    """Return the cells without a number, and why; "" where all have one."""
    lost: dict[str, list[str]] = {}
    for cell in cells:
        if cell.value is None:
            lost.setdefault(cell.why or "undefined", []).append(f"{cell.row}, {cell.column}")
    return "; ".join(f"{'; '.join(dict.fromkeys(cells))}: {why}" for why, cells in lost.items())


def _compare_pairs(claim: Claim, pairs: Sequence[tuple[Cell, Cell]], correlation: Correlation) -> Verdict:
    sign = 1 if claim.kind in ("rises", "above") else -1
    lines, open_lines, shown, fails = [], [], False, False
    for lower, upper in pairs:
        gap, p = sign * (ends(upper)[0] - ends(lower)[0]), _p(lower, upper, correlation(lower, upper))
        lines.append(f"{_text(upper)} against {_text(lower)}" + ("" if p is None else f", p {p:.2g}"))
        if gap > 0 and p is not None and p <= LEVEL:
            shown = True
        elif tied(lower, upper):
            lines[-1] += " (a tie in the paper)"
        else:
            open_lines.append(lines[-1])
        fails |= gap < 0 and p is not None and p <= LEVEL / len(pairs)
    if len(lines) > SHOWN:
        words = f"{len(lines) - len(open_lines)} of {len(lines)} comparisons are as claimed"
        if ties := sum(line.endswith("(a tie in the paper)") for line in lines):
            words += f" or tied in the paper ({ties})"
        more = [f"and {len(open_lines) - SHOWN} more"] if len(open_lines) > SHOWN else []
        lines = [words, *open_lines[:SHOWN], *more]
    return Verdict(claim.text, FAILS if fails else HOLDS if shown and not open_lines else NOT_SHOWN, "; ".join(lines))


def _p(a: Cell, b: Cell, correlation: float) -> float | None:
    """Return the p-value of the difference of two cells; None without intervals, or where their scales differ.

    Where there were several trainings it is about other images and other trainings.
    """
    assert a.score is not None
    assert b.score is not None
    first, second = reach(a.score), reach(b.score)
    if first is None or second is None or a.scale != b.scale:
        return None
    gap = (ends(a)[0] - ends(b)[0]) / a.scale
    if not a.each or not b.each:
        return p_value(gap, first, second, correlation, min(a.score.n, b.score.n))
    # Of trainings of one row images contribute alike, at most: the widest interval
    row = np.repeat([0, 1], [len(a.each), len(b.each)])
    return difference_over_seeds(a.each, b.each, np.where(np.equal.outer(row, row), 1.0, correlation))[1]


def _check_limits(claim: Claim, cells: Sequence[Cell]) -> Verdict:
    words = "; ".join(map(_text, cells))
    # Of what never happens, one case is enough, and none is no proof
    if claim.kind == "never":
        found = any(ends(cell)[0] > 0 for cell in cells)
        return Verdict(claim.text, FAILS if found else NOT_SHOWN, f"{FALSIFIED if found else NO_CASE}: {words}")
    good, bad = True, False
    for cell in cells:
        _, low, high = ends(cell)
        if _open(cell.score):
            good = False
            continue
        lowest, highest = claim.limits()
        good &= lowest <= low and high <= highest
        bad |= high < lowest or low > highest
    return Verdict(claim.text, FAILS if bad else HOLDS if good else NOT_SHOWN, words)


def _open(score: Score | None) -> bool:
    """Whether a number should have an interval and has none, because its sample is too small for one."""
    return score is not None and score.low is None and score.high is None and not score.interval.startswith("none")


def _correlates(claim: Claim, cells: Cells) -> Verdict:
    pairs = claim.select_pairs(cells)
    if lost := _missing([cell for pair in pairs for cell in pair]):
        return Verdict(claim.text, NOT_SHOWN, lost)
    x, y = torch.tensor([[ends(cell)[0] for cell in pair] for pair in pairs], dtype=torch.float64).T
    score = pearson(x, y)
    if score.value is None or score.low is None or score.high is None:
        return Verdict(claim.text, NOT_SHOWN, score.note or f"{len(pairs)} rows give no interval")
    outcome = HOLDS if score.low > 0 else FAILS if score.high < 0 else NOT_SHOWN
    words = f"Pearson correlation {score.value:.3f} [{score.low:.2f}, {score.high:.2f}] over {len(pairs)} rows"
    return Verdict(claim.text, outcome, words)


def _text(cell: Cell) -> str:
    value, low, high = ends(cell)
    interval = "" if low == high == value else f" [{low:.4g}, {high:.4g}]"
    return f"{cell.row}, {cell.column}: {value:.4g}{interval}"
