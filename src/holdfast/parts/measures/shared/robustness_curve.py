"""The robustness curve: the share of images that hold against the size of the change; the difference of two."""

import re
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Table
from holdfast.core.chart import Curves, Line, numbers
from holdfast.numerics.statistics.survival import survival
from holdfast.numerics.statistics.survival_differences import SurvivalDifference, survival_difference
from holdfast.parts.observations.everyday_changes import NAMES
from holdfast.runtime.errors import Mismatch
from holdfast.runtime.sizes import size_in_words

POINTS = 120
"""Sizes at which a curve is drawn."""

DECADES = 3
"""Powers of ten below the largest radius that are drawn at most: a proof may reach next to nothing."""

CERTIFIED = (
    "Dashed line: the share that is proved to hold, of the images that were certified; where these are fewer, it may "
    "lie above the solid line, which is of all. "
)
"""How the dashed line is read, where it is drawn."""


def robustness_curve(table: Table, ball: Ball, summary: str) -> Curves | None:
    """Return the share of images that hold with its band, and the share that is proved; None without a size to draw.

    What is proved is known of the images that were tried. Of the same images the search says what is broken, so their
    own curve lies between the two: that region is the band of the dashed line.

    Args:
        table: radii of each image, `broken` and `proved` (NaN where nothing was tried), and everyday sizes.
        ball: the norm.
        summary: the chart in words.
    """
    radius, proved = table["broken"], table["proved"]
    marks = marks_of(table, ball)
    at = sizes([radius, proved], marks)
    if at is None:
        return None
    places = tuple(at.tolist())
    share, low, high = (numbers(values) for values in survival(radius, at))
    lines, note, tried = [Line(places, share, low, high)], "", ~proved.isnan()
    if tried.any():
        # Of the images that were tried alone: what is proved, and up to what nothing was found
        lower, upper = (numbers(survival(values[tried], at)[0]) for values in (proved, radius))
        lines.append(Line(places, lower, lower, upper, style="dashed"))
        count = int(tried.sum())
        of = f"these {count} images" if count == len(radius) else f"the first {count} of {len(radius)} images"
        note = (
            f"Dashed, for {of}: the share that is proved to hold. Between it and the share of these images that no "
            "attack broke, nothing is known."
        )
    return Curves(
        heading="How many images hold",
        short="curve",
        how_to_read=(
            "The share of images that still hold after a change of a given size. Solid line: the share that no attack "
            "of that size broke; a better attack could only lower it. The band covers the whole curve of the "
            "population with 95 % confidence. "
            + (CERTIFIED if len(lines) > 1 else "")
            + f"Marks: {NAMES['jpeg']}, {NAMES['noise']} (σ = 2/255) and a change that is just {NAMES['visible']} (all "
            "pixels, ΔE 2.3), of the median image. None of these is an attack, so images usually survive them even "
            "at that size."
        ),
        lines=tuple(lines),
        across=across(ball),
        label="images that hold",
        unit="share",
        scale="log",
        in_255ths=ball.is_box,
        marks=tuple(marks.values()),
        named=tuple(marks),
        summary=summary,
        note=note,
    )


def curve_difference(tables: tuple[Table, Table], names: tuple[str, str], ball: Ball) -> Curves | None:
    """Return how many more images hold under one encoder than under another, against the size of the change.

    Args:
        tables: radii of the same images, among populations of one size.
        names: of the encoders.
        ball: the norm.

    Raises:
        HoldfastError: radii of other images, or among populations of other sizes.
    """
    first, second = (table["broken"] for table in tables)
    populations = [int(table["population"][0]) for table in tables]
    if len(first) != len(second) or populations[0] != populations[1]:
        raise Mismatch(
            f"expected breaking radii of the same images of one population to compare, got {len(first)} of "
            f"{populations[0]} and {len(second)} of {populations[1]}; audit both encoders on the same images"
        )
    at = sizes([first, second], {})
    if at is None:
        return None
    # Marks beyond the axis would stretch it
    marks = {name: place for name, place in marks_of(tables[0], ball).items() if at[0] <= place <= at[-1]}
    gap = survival_difference(first, second, at)
    summary = difference_in_words(gap, names, ball)
    return Curves(
        heading="Which encoder holds more images",
        short="curve-difference",
        how_to_read=(
            "The difference between two encoders in the share of images that hold after a change of the same size, "
            "image by image. Above zero, more images hold under the first encoder. The band covers the whole curve of "
            "the population with 95 % confidence: where it excludes zero, the encoders differ."
        ),
        title=f"{names[0]} minus {names[1]}",
        lines=(Line(tuple(at.tolist()), numbers(gap.value), numbers(gap.low), numbers(gap.high)),),
        across=across(ball),
        label="more images that hold",
        unit="share",
        scale="log",
        in_255ths=ball.is_box,
        marks=tuple(marks.values()),
        named=tuple(marks),
        summary=summary,
        note=summary,
    )


def difference_in_words(gap: SurvivalDifference, names: tuple[str, str], ball: Ball) -> str:
    """Return after which changes one of two encoders holds more images, as far as the band tells.

    Example:
        >>> from holdfast.parts.threats.l2 import L2
        >>> at, value = torch.tensor([0.01, 0.02, 0.04]), torch.tensor([0.0, 0.3, 0.1])
        >>> difference_in_words(SurvivalDifference(at, value, value - 0.2, value + 0.2), ("A", "B"), L2())
        'A holds more images than B after changes of 0.02 (by 30 % of the images [10 %, 50 %] at 0.02).'
    """

    def size(at: Tensor) -> str:
        return size_in_words(float(at), ball.is_box)

    def percent(share: Tensor) -> str:
        value = 100 * float(share)
        text = f"{value:.1g}" if 0 < abs(value) < 1 else f"{value or 0.0:.0f}"  # only zero looks like zero
        return re.sub("^-", "−", f"{text} %")

    # for each of the two the sizes at which it surely holds more, and the largest difference among them
    said = []
    # The second encoder's gain is the first one's loss: ends change places with the sign
    for sign, (winner, loser) in ((1, names), (-1, names[::-1])):
        value, low, high = (sign * gap.value, *((gap.low, gap.high) if sign > 0 else (-gap.high, -gap.low)))
        if (low > 0).any():
            sure = gap.at[low > 0]
            most = int(torch.where(low > 0, value, -torch.inf).argmax())
            ends = " to ".join(dict.fromkeys((size(sure.min()), size(sure.max()))))
            said.append(
                f"{winner} holds more images than {loser} after changes of {ends} (by {percent(value[most])} of the "
                f"images [{percent(low[most])}, {percent(high[most])}] at {size(gap.at[most])})"
            )
    if said:
        return f"{'; '.join(said)}."
    most = int(gap.value.abs().argmax())
    value, low, high, leader = gap.value[most], gap.low[most], gap.high[most], names[0]
    if value < 0:
        value, low, high, leader = -value, -high, -low, names[1]
    return (
        f"Over the whole curve these images do not separate {names[0]} and {names[1]}: where they differ most, after a "
        f"change of {size(gap.at[most])}, {leader} holds {percent(value)} more of the images "
        f"[{percent(low)}, {percent(high)}]."
    )


def across(ball: Ball) -> str:
    """Return what the axis of sizes shows."""
    return f"size of the change{'' if ball.is_box else ' in pixels'}, {ball.norm}"


def marks_of(table: Table, ball: Ball) -> dict[str, float]:
    """Return known sizes by their names: everyday changes of the median image, and where no axis says n/255, a tone."""
    marks = dict[str, float]()
    columns = NAMES if ball.is_box else {"level": "one tone", **NAMES}
    for column, name in columns.items():
        # Everyday sizes are NaN where images are neither grey nor of three colours
        known = table[column][table[column].isfinite() & (table[column] > 0)] if column in table else torch.empty(0)
        if len(known):
            marks[name] = float(f"{float(known.median()):.4g}")
    return marks


def sizes(
    radii: list[Float[Tensor, "_"]], marks: Mapping[str, float], points: int = POINTS
) -> Float[Tensor, "points"] | None:
    """Return sizes on a logarithmic axis that holds all radii, of as many images each as there are, and marks.

    None where there is nothing to hold.
    """
    known = torch.cat([*(radius.double() for radius in radii), torch.tensor(list(marks.values()), dtype=torch.float64)])
    known = known[known.isfinite() & (known > 0)]
    if not len(known):
        return None
    last = float(known.max().log10()) + 0.1
    # A little room at both ends; not more than a few powers of ten
    first = max(float(known.min().log10()) - 0.2, last - DECADES)
    return torch.logspace(first, last, points, dtype=torch.float64)
