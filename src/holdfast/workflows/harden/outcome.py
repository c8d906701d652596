"""What hardening changed: every measure before and after, paired, and how far clean representations have moved."""

from dataclasses import replace
from typing import Literal

import msgspec
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.auditing.differences import compare_pairs
from holdfast.core import Encoder, Reps, Score
from holdfast.numerics import statistics
from holdfast.sources.data import ImageSet
from holdfast.storage.hardening import HardenedMeasure, Price
from holdfast.storage.record import MeasureEntry, Record
from holdfast.storage.run_folder import Store


def drift(before: Encoder, after: Encoder, images: ImageSet, device: str = "cpu") -> Price:
    """Return how far clean representations have moved: cos(f(x), g(x)) and ‖g(x) - f(x)‖ / ‖f(x)‖, means over images.

    Heads that were learned on f fit g as far as these are near 1 and 0.
    """
    cosines, moves = [], []
    f, g = before.to(device), after.to(device)
    with torch.no_grad():
        for x in images.batches(64):
            old, new = f(x.to(device)).double().cpu(), g(x.to(device)).double().cpu()
            cosines.append(F.cosine_similarity(old, new))
            moves.append(_relative(old, new))
    return Price(cosine=statistics.mean(torch.cat(cosines), most=1.0), relative_l2=statistics.mean(torch.cat(moves)))


def _relative(old: Reps, new: Reps) -> Float[Tensor, "batch"]:
    """Return ‖new - old‖ / ‖old‖ row by row; NaN, undefined, where old is 0."""
    size = old.norm(dim=1)
    return torch.where(size > 0, (new - old).norm(dim=1) / size, torch.nan)


PROVED = "proved"
"""The score of a measure that is what a certifier proves of it: the median of a column of its table."""


def changes(record: Record, store: Store) -> list[HardenedMeasure]:
    """Return what an audit of two encoders says of every measure: before, after, and after - before, paired.

    What is proved of a measure has a row of its own.
    """
    rows = []
    before, after = (encoder.measures for encoder in record.encoders)
    for key in dict.fromkeys([*before, *after]):
        measure, difference = before.get(key) or after[key], _difference(record, key)
        old, new = (entries[key].headline_score if key in entries else None for entries in (before, after))
        rows.append(
            HardenedMeasure(
                measure=key, title=measure.title, unit=measure.unit, better=measure.better,
                needs_labels=measure.needs_labels, before=old, after=new, difference=difference,
                verdict=_verdict(difference, measure.better),
            )
        )  # fmt: skip
        if key in before and key in after and PROVED in before[key].scores.keys() & after[key].scores.keys():
            rows.append(_row_of_proof(rows[-1], before[key], after[key], store))
    return rows


def _row_of_proof(row: HardenedMeasure, before: MeasureEntry, after: MeasureEntry, store: Store) -> HardenedMeasure:
    """Return the row of what is proved of a measure, from its own row."""

    def influence(entry: MeasureEntry) -> Float[Tensor, "units"]:
        assert entry.table is not None  # where its scores come from
        return statistics.influence_of_median(store.read_table(entry.table)[PROVED])

    old, new = before.scores[PROVED], after.scores[PROVED]
    (pair,) = compare_pairs({"after": (influence(after), new), "before": (influence(before), old)}, row.better)
    return msgspec.structs.replace(
        row, measure=f"{row.measure}.{PROVED}", title=f"{row.title}, {PROVED}", before=old, after=new,
        difference=pair.gap, verdict=_verdict(pair.gap, row.better),
    )  # fmt: skip


def _difference(record: Record, key: str) -> Score | None:
    """Return after - before of a measure; None where the two cannot be compared."""
    compared = record.comparison.get(key)
    if compared is None or not compared.pairs:
        return None
    gap = compared.pairs[0].difference  # before - after
    value, low, high = (None if end is None else -end for end in (gap.value, gap.high, gap.low))
    return replace(gap, value=value, low=low, high=high)


def _verdict(gap: Score | None, better: str) -> Literal["better", "worse", "open"]:
    if gap is None or gap.low is None or gap.high is None or gap.low <= 0 <= gap.high:
        return "open"
    return "better" if (gap.low > 0) == (better == "higher") else "worse"
