"""What was seen along a hardening, as charts: how far images may move, the price, and how coarse the attack is."""

import math
from collections.abc import Sequence

from holdfast.report.charts.figure import colour, marker
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.numbers import number
from holdfast.report.panel import Panel
from holdfast.storage.hardening import Hardening
from holdfast.storage.record import Record


def curves(record: Record) -> list[Panel]:
    """Return the charts of a hardening; none where its record has none, or too few steps."""
    hardening = record.hardening
    if hardening is None:
        return []
    # What the looks saw; NaN leaves a gap where the encoder told no images apart
    looks = hardening.looks
    steps = [seen.step for seen in looks]
    radius = [_or_nan(seen.radius) for seen in looks]
    low, high = [_or_nan(seen.low) for seen in looks], [_or_nan(seen.high) for seen in looks]
    # What the comparisons of the attack saw, at other steps
    compared = [(one.step, math.nan if one.ratio is None else one.ratio) for one in hardening.comparisons]
    mends = [(one.step, "finer") for one in hardening.comparisons if one.mended]
    made = [
        _panel("Half break at, along the training", steps, radius, hardening, "pixels", (low, high)),
        _panel("Cosine to before, along the training", steps, [seen.cosine for seen in looks], hardening, "similarity"),
        _panel("A finer attack finds, times as much", *_split(compared), hardening, "ratio", marks=mends),
    ]
    return [panel for panel in made if panel]


def _split(rows: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in rows], [value for _, value in rows]


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _panel(
    title: str,
    steps: Sequence[int],
    values: Sequence[float],
    hardening: Hardening,
    unit: str,
    band: tuple[Sequence[float], Sequence[float]] = ((), ()),
    marks: Sequence[tuple[float, str]] = (),
) -> Panel | None:
    """Return a value against the steps, with a ring at the step whose weights came out; None for a single point."""
    drawn = [(step, value) for step, value in zip(steps, values, strict=True) if not math.isnan(value)]
    if len(drawn) < 2:
        return None
    # one line, with a band where there is an interval
    curve = Curve(steps, values, *band, colour(0), marker(0))
    rings = [(step, value, colour(1)) for step, value in drawn if step == hardening.kept]
    across = Horizontal("step", whole=True, marks=marks)
    (first, before), (last, after) = drawn[0], drawn[-1]
    return Panel(
        title,
        Lines(title.split(",")[0].lower().replace(" ", "-"), [curve], across, label="", unit=unit, rings=rings),
        f"{title}: {number(before, unit)} at step {first}, {number(after, unit)} at step {last}.",
        ["Ringed: the step whose weights came out."] if rings else [],
    )
