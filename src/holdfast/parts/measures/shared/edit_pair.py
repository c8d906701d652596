"""The most harmful pair of edits, as columns of a table, scores and a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from holdfast.core import Score, Table
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.threats.edit import Edit

PAIR, APART = "worst pair", "worst pair, each alone"
"""Names of the scores: of images that hold after both edits, and after each of the two alone."""


def pair_columns(chosen: Mapping[str, Tensor], judged: Mapping[str, Tensor], rows: int) -> Table:
    """Return what is known of the pair, NaN for images that do not judge it.

    Args:
        chosen: of `harmful_pair`.
        judged: of `edited_twice`.
        rows: of the table.
    """
    same = {"chosen_on": float(chosen["chosen_on"][0])}
    for place, number in enumerate(chosen["pair"].tolist(), 1):
        same |= {
            f"pair@{place}": number,
            f"at@{place}": float(chosen["strength"][number]) if number >= 0 else torch.nan,
        }
    return {
        "together": pad_to_population(judged["together"], rows),
        # An image counts as broken alone where either of the two edits breaks it
        "alone": pad_to_population(torch.maximum(judged["first"], judged["second"]), rows),
        **{name: torch.full((rows,), float(value), dtype=torch.float64) for name, value in same.items()},
    }


def reduce_pair(edits: Sequence[Edit], table: Table, condition: str) -> dict[str, Statistic]:
    """Return the shares of images that hold after each edit of the pair alone, and after both; the note says which."""
    names, others = _names(edits, table), f"{int(table['chosen_on'][0])} other images"
    none = f"undefined: fewer than two edits are harmless alone to {others}"
    note = f"{names}: chosen on {others}" if names else none
    broken = {APART: table["alone"], PAIR: table["together"]}
    return {
        name: Share(1 - images, condition=condition).restate(lambda score: replace(score, note=note))
        for name, images in broken.items()
    }


def pair_in_words(edits: Sequence[Edit], table: Table, scores: Mapping[str, Score]) -> str:
    """Return what the pair does, in a sentence; "" where there is none, or where it breaks no image."""
    if PAIR not in scores or not (names := _names(edits, table)):
        return ""
    broken, apart = (int(table[column].nansum()) for column in ("together", "alone"))
    if not broken:
        return ""
    return f"Most harmful pair: {names}; together they break {broken} of {scores[PAIR].n} images, alone {apart}."


def _names(edits: Sequence[Edit], table: Table) -> str:
    """Return what the two edits of the pair are; "" where none was chosen."""
    # The pair is the same in every row
    numbers, at = ([float(table[f"{name}@{place}"][0]) for place in (1, 2)] for name in ("pair", "at"))
    if min(numbers) < 0:
        return ""
    return ", then ".join(edits[int(n)].at(strength).title for n, strength in zip(numbers, at, strict=True))
