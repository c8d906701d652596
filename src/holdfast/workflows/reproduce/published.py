"""What a paper's own table says of its claims: how much of each is so, what ties, and what contradicts it."""

from collections.abc import Iterable

import torch

from holdfast.numerics.statistics.correlations import pearson
from holdfast.storage.reproduction import Published
from holdfast.workflows.reproduce.claim import COMPARED, Cell, Cells, Claim


def judge_published(claim: Claim, cells: Cells) -> Published | None:
    """Return what the paper's own table says of a claim; None where it has no number."""
    if claim.kind == "correlates":
        return _correlate_pairs(claim.select_pairs(cells))
    if claim.kind in COMPARED:
        return _compare_pairs(claim, (pair for chain in claim.select_chains(cells) for pair in claim.pairs(chain)))
    return _check_limits(claim, claim.select_limited_cells(cells))


def tied(a: Cell, b: Cell) -> bool:
    """Return whether the paper has one and the same number for two cells."""
    return a.published is not None and a.published == b.published


def _compare_pairs(claim: Claim, pairs: Iterable[tuple[Cell, Cell]]) -> Published | None:
    sign = 1 if claim.kind in ("rises", "above") else -1
    number, ties, against = 0, [], []
    for lower, upper in pairs:
        if lower.published is None or upper.published is None:
            continue
        number += 1
        gap = sign * (upper.published - lower.published)
        if gap <= 0:
            (ties if gap == 0 else against).append(f"{_text(upper)} against {_text(lower)}")
    return _summarise(number, ties, against)


def _check_limits(claim: Claim, limited: Iterable[Cell]) -> Published | None:
    lowest, highest = claim.limits()
    numbers = [cell for cell in limited if cell.published is not None]
    against = [
        _text(cell) for cell in numbers if cell.published is not None and not lowest <= cell.published <= highest
    ]
    return _summarise(len(numbers), [], against)


def _correlate_pairs(pairs: Iterable[tuple[Cell, Cell]]) -> Published | None:
    numbers = [(a.published, b.published) for a, b in pairs if a.published is not None and b.published is not None]
    if not numbers:
        return None
    first, second = torch.tensor(numbers, dtype=torch.float64).T
    score = pearson(first, second)
    if score.value is None or score.low is None or score.high is None:
        return _summarise(1, [score.note or f"{len(numbers)} rows give no interval"], [])
    words = f"Pearson correlation {score.value:.3f} [{score.low:.2f}, {score.high:.2f}] over {len(numbers)} rows"
    return _summarise(1, [words] if score.low <= 0 <= score.high else [], [words] if score.high < 0 else [])


def _summarise(number: int, ties: list[str], against: list[str]) -> Published | None:
    return Published(number, number - len(ties) - len(against), tuple(ties), tuple(against)) if number else None


def _text(cell: Cell) -> str:
    return f"{cell.row}, {cell.column}: {cell.published:.4g}"
