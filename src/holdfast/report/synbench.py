"""SynBench as data for the report: scores against ε, the curves of expected bounds behind them, and a table."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.report import plots, synbench_plots
from holdfast.report.folder import read_column
from holdfast.report.numbers import BEST_BUDGET, choice, finite, plural, statement
from holdfast.report.sections import Chart
from holdfast.report.verdict import titles
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.record_file import RunFiles

STEP, LOWEST = 0.4 / 99, 0.5
"""Spacing of threshold accuracies, downwards from 1, and the lowest that says anything."""
ROUNDING = 1e-12
"""By so much more than a threshold counts as more, as in the score."""

_SCORE = re.compile(r"^a_t (?P<start>[0-9.e+-]+), ε (?P<budget>[0-9.e+-]+)$")


@dataclass(frozen=True)
class Cell:
    """One score as text; `best` where no other ε of its row is higher."""

    value: str
    interval: str
    note: str
    best: bool


@dataclass(frozen=True)
class Scores:
    """The scores of one encoder: (a_t, one cell for each ε)."""

    series: int
    name: str
    rows: list[tuple[str, list[Cell]]]


@dataclass(frozen=True)
class Block:
    """One measure of the kind.

    Attributes:
        title: of the measure.
        facts: what images it was measured on.
        encoders: (series, encoder) that have scores.
        overview: all encoders against ε.
        best: (series, encoder, "best ε" with its interval).
        charts: (series, encoder, its expected bounds).
        budgets: (CSS colour, ε) of the lines of `charts`.
        table: all scores.
        several: whether images have a curve of their own for each ε.
    """

    title: str
    facts: str
    encoders: list[tuple[int, Mapping[str, str]]]
    overview: Chart
    best: list[tuple[int, str, str]]
    charts: list[tuple[int, str, Chart]]
    budgets: list[tuple[str, str]]
    table: list[Scores]
    several: bool


@dataclass(frozen=True)
class _Found:
    """What one encoder scored."""

    series: int
    name: str
    measure: Mapping[str, Any]

    def score(self, start: str, budget: str) -> Mapping[str, Any]:
        return self.measure["scores"].get(f"a_t {start}, ε {budget}") or {}

    def column(self, key: str, start: str, budgets: Sequence[str]) -> list[float]:
        values = [self.score(start, budget).get(key) for budget in budgets]
        return [float(value) if finite(value) else float("nan") for value in values]

    def best(self, start: str, budgets: Sequence[str]) -> str | None:
        """Return the ε of the highest score, the smallest one of equals; None where nothing is above 0."""
        known = [(value, budget) for budget in budgets if finite(value := self.score(start, budget).get("value"))]
        value, budget = max(known, key=lambda pair: pair[0], default=(0.0, ""))
        return budget if value > 0 else None


def synbench(record: Mapping[str, Any], folder: RunFiles) -> list[Block]:
    """Return one block for each measure of the kind that any encoder has scores of."""
    blocks = []
    for key, title in titles(record).items():
        measures = [(i, e["name"], e.get("measures", {}).get(key) or {}) for i, e in enumerate(record["encoders"])]
        found = [
            _Found(series, name, m)
            for series, name, m in measures
            if m.get("part", {}).get("name") == "synbench" and m.get("scores")
        ]
        if found:
            blocks.append(_block(f"synbench{len(blocks)}", title, found, folder))
    return blocks


def _block(key: str, title: str, found: Sequence[_Found], folder: RunFiles) -> Block:
    names = [match for f in found for name in f.measure["scores"] if (match := _SCORE.match(name))]
    starts, budgets = (sorted({match[kind] for match in names}, key=float) for kind in ("start", "budget"))
    headline = _SCORE.match(found[0].measure.get("headline") or "")
    start = headline["start"] if headline else starts[0]
    images = found[0].measure["part"].get("mixtures") or {}
    drawn = [_bounds(f"{key}-{f.series}", f, folder, budgets, start) for f in found]
    return Block(
        title,
        _facts(images),
        [(f.series, {"name": f.name}) for f in found],
        _overview(key, title, found, budgets, start, images),
        [
            (f.series, f.name, f"{BEST_BUDGET} {choice(s)}")
            for f in found
            if (s := f.measure["scores"].get(BEST_BUDGET))
        ],
        [(f.series, f.name, chart) for f, (chart, _) in zip(found, drawn, strict=True)],
        [(synbench_plots.shade(i, len(budgets)), budget) for i, budget in enumerate(budgets)],
        [Scores(f.series, f.name, [(at, _row(f, at, budgets)) for at in starts]) for f in found],
        any(several for _, several in drawn),
    )


def _overview(
    key: str, title: str, found: Sequence[_Found], budgets: Sequence[str], start: str, images: Mapping[str, Any]
) -> Chart:
    """Return the scores of all encoders against ε, with the a_t of the headline."""
    x = [float(budget) for budget in budgets]
    curves = [plots.Curve(f.series, x, *(f.column(k, start, budgets) for k in ("value", "low", "high"))) for f in found]
    best = [
        (f.series, float(budget), float(f.score(start, budget)["value"]))
        for f in found
        if (budget := f.best(start, budgets)) is not None
    ]
    relative = images.get("budget", "relative") == "relative"
    across = "ε, as a share of half the distance between the classes" if relative else "ε, in units of representations"
    names = {f.series: f.name for f in found}
    said = ", ".join(f"{names[s]} best at {b:g} with {y:.3g}" for s, b, y in best)
    alt = f"Scores with a_t {start} against ε, {title}: {said or 'none is above 0'}. The numbers are in the table."
    return Chart(f"Score against ε, a_t {start}", synbench_plots.over_budgets(key, curves, best, across=across), alt)


def _row(found: _Found, start: str, budgets: Sequence[str]) -> list[Cell]:
    best, cells = found.best(start, budgets), []
    for budget in budgets:
        s = found.score(start, budget)
        text, within = statement(s, "ratio") if finite(s.get("value")) else ("-", "")
        cells.append(Cell(text, within, s.get("note") or "", budget == best))
    return cells


def _bounds(key: str, found: _Found, folder: RunFiles, budgets: Sequence[str], start: str) -> tuple[Chart, bool]:
    """Return the expected bounds of one encoder, and whether images have a curve of their own for each ε."""
    points = _points()
    try:
        table = found.measure.get("table") or ""
        own, reference = (
            np.stack([_expected(folder, table, f"{prefix}accuracy@{b}", f"{prefix}bound@{b}", points) for b in budgets])
            for prefix in ("", "reference ")
        )
    except HoldfastError as error:
        return Chart("", "", "", [str(error)]), False
    several = not np.allclose(reference, reference[:1], rtol=1e-9, atol=1e-9)
    svg = synbench_plots.bounds(
        key, points, own, reference if several else reference[:1], start=float(start), label="expected bound"
    )
    at = int(np.flatnonzero(points >= float(start) - 1e-9)[0])
    alt = (
        f"Expected bound of {found.name} against threshold accuracy, a line for each ε. At {start} it is "
        f"{own[0, at]:.3g} for ε {budgets[0]} and {own[-1, at]:.3g} for ε {budgets[-1]}, of {reference[0, at]:.3g} "
        "that are possible."
    )
    return Chart("", svg, alt), several


def _points() -> np.ndarray:
    """Return the threshold accuracies of the score, 1 - k (.4 / 99), down to one half, rising."""
    return 1 - STEP * np.arange(int((1 - LOWEST) / STEP), -1, -1)


def _expected(folder: RunFiles, table: str, accuracy: str, bound: str, points: np.ndarray) -> np.ndarray:
    """Return E(a_t), the mean over rows of their bounds, 0 where a row's accuracy is not above a_t.

    Raises:
        HoldfastError: a table or a column that cannot be read, or with something else than numbers.
    """
    columns = [read_column(folder, table, name) for name in (accuracy, bound)]
    if not len(columns[0]) or not all(np.isfinite(column).all() for column in columns):
        raise HoldfastError(f"expected numbers in columns {accuracy!r} and {bound!r} of {table}; run the audit again")
    return ((columns[0] > points[:, None] + ROUNDING) * columns[1]).mean(1)


def _facts(images: Mapping[str, Any]) -> str:
    """Return in words what images the measure drew."""
    separations = [s for s in images.get("separations") or [] if finite(s)]
    if not separations:
        return ""
    words = [f"{plural(len(separations), 'separation')} s from {min(separations):g} to {max(separations):g}"]
    words.append(f"in {plural(images.get('directions', 1), 'direction')}")
    if finite(images.get("samples")):
        words.append(f"2 × {images['samples']:,.0f} images each")
    own = images.get("covariance") == "images"
    words.append("covariance of your own images" if own else "independent noise in every pixel")
    norm = images.get("norm", 2)
    words.append(f"ε in ℓ{norm:g}" if finite(norm) else "ε in ℓ∞")
    scale = images.get("scale", 1)
    words += [] if scale == 1 or not finite(scale) else [f"a unit of noise is {scale:g} pixels"]
    words += ["clamped to [0, 1]"] if images.get("clamp") else []
    shrunk = images.get("shrinkage", "none")
    words += [] if shrunk == "none" else [f"covariance of representations shrunk ({str(shrunk).replace('_', '–')})"]
    return ", ".join(words)
