"""Certified accuracy against the radius: how many images keep their answer within how many pixels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from holdfast.report import plots
from holdfast.report.folder import read_column
from holdfast.report.sections import Chart
from holdfast.report.verdict import titles
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.record_file import RunFiles

COLUMNS = {
    "smoothed_accuracy": ("found", "radius"),
    "smoothed_probe_accuracy": ("found", "radius"),
    "linear_radius": ("correct", "certificate"),
}
"""Measure -> its columns (1 where the answer is right, certified radius in pixels)."""

POINTS = 60
"""Radii at which a curve is drawn."""


def radius_charts(record: Mapping[str, Any], folder: RunFiles) -> list[Chart]:
    """Return one chart per measure of certified radii; the area below a curve is the average certified radius."""
    charts = []
    for i, (key, title) in enumerate(titles(record).items()):
        found: list[tuple[int, np.ndarray]] = []
        notes = []
        for series, encoder in enumerate(record["encoders"]):
            m = encoder.get("measures", {}).get(key)
            columns = COLUMNS.get(m.get("part", {}).get("name")) if m and m.get("table") else None
            if m is None or columns is None:
                continue
            try:
                right, radius = (read_column(folder, m["table"], column) for column in columns)
            except HoldfastError as error:
                notes.append(f"{encoder['name']}: {error}")
                continue
            found.append((series, np.where(right == 1, radius, -1.0)))  # a wrong answer holds within no radius
        if found:
            names = ", ".join(
                f"{record['encoders'][s]['name']} {100 * np.mean(v >= 0):.3g} % at 0, average radius "
                f"{np.mean(np.maximum(v, 0)):.3g}"
                for s, v in found
            )
            alt = f"Share of images certified within a radius against the radius in pixels, {title}: {names}."
            charts.append(
                Chart(
                    title,
                    plots.lines(
                        f"radii{i}",
                        _curves(found),
                        unit="share",
                        label="certified",
                        markers=False,
                        across="radius in pixels",
                    ),
                    alt,
                    notes,
                )
            )
        elif notes:
            charts.append(Chart(title, "", "", notes))
    return charts


def _curves(found: list[tuple[int, np.ndarray]]) -> list[plots.Curve]:
    """Return for each encoder the share of images with at least each radius, and its exact 95 % interval."""
    most = max(float(values.max(initial=0.0)) for _, values in found) or 1.0
    radii = np.linspace(0, 1.02 * most, POINTS)
    curves = []
    for series, values in found:
        hits = (values[:, None] >= radii).sum(0)
        n = len(values)
        low = np.where(hits > 0, stats.beta.ppf(0.025, np.maximum(hits, 1), n - hits + 1), 0.0)
        high = np.where(hits < n, stats.beta.ppf(0.975, hits + 1, np.maximum(n - hits, 1)), 1.0)
        curves.append(plots.Curve(series, radii.tolist(), (hits / n).tolist(), low.tolist(), high.tolist()))
    return curves
