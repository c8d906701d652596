"""The share of images that hold against the strength of an edit, for each edit and for all of them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Table
from holdfast.core.chart import Curves, Line, numbers
from holdfast.numerics.statistics.survival import survival
from holdfast.parts.threats.edit import Edit

POINTS = 60
"""Strengths at which a curve is drawn."""

HOW_TO_READ = (
    "The share of images that still hold at a strength and at all milder ones that were looked at, from the mildest to "
    "the heaviest of the range. The truth lies on the line or below it, because strengths between those looked at may "
    "break an image too; the band covers the whole curve of the population with 95 % confidence. The first chart "
    "applies every edit at the same share of its range, and counts an image once one of them breaks it."
)


def edit_curves(edits: Sequence[Edit], table: Table, title: str, summary: str) -> tuple[Curves, ...]:
    """Return a chart of all edits, then one of each in its own unit.

    Args:
        edits: the families.
        table: `strength` and `strength@EDIT` of each image, in [0, 1], inf where it holds.
        title: of the chart of all.
        summary: that chart in words.
    """
    at = torch.linspace(0, 1, POINTS, dtype=torch.float64)
    charts = [_curves(table["strength"], at, at.tolist(), title, "strength, as a share of each edit's range", summary)]
    for edit in edits:
        strengths = table[f"strength@{edit.title}"]
        # Where the strengths lie in the edit's own unit, which may fall as they rise
        places = [edit.amount(float(strength)) for strength in at]
        across = edit.parameter or "strength, as a share of the range"
        held = f"{int(strengths.isinf().sum())} of {len(strengths)} images hold over the whole range."
        charts.append(_curves(strengths, at, places, edit.title, across, held))
    return tuple(charts)


def _curves(
    strengths: Float[Tensor, "images"],
    at: Float[Tensor, "points"],
    places: list[float],
    title: str,
    across: str,
    summary: str,
) -> Curves:
    share, low, high = (numbers(values) for values in survival(strengths, at))
    return Curves(
        heading="How strong an edit images survive",
        short=f"edit-{title.replace(' ', '-')}",
        how_to_read=HOW_TO_READ,
        title=title,
        lines=(Line(tuple(places), share, low, high),),
        across=across,
        label="images that hold",
        unit="share",
        summary=summary,
    )
