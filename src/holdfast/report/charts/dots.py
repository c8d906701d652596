"""Points on a map, coloured by group; written by hand, as it is a fifth of the size."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape

import numpy as np
from matplotlib.axes import Axes

from holdfast.report.apart import catch_draw_errors
from holdfast.report.charts.figure import INK, Drawing, Sheet, Value, colour, finish, marker, nth
from holdfast.report.charts.palette import COLOURS, MARKERS

_WIDTH, _HEIGHT, _MARGIN = 360, 216, 12
_GLYPHS = {  # relative paths in the order of `palette.MARKERS`; 5 wide
    "o": "m-2.3 0a2.3 2.3 0 1 0 4.6 0a2.3 2.3 0 1 0-4.6 0",
    "s": "m-2-2h4v4h-4z",
    "^": "m0-2.5 2.5 4.5h-5z",
    "D": "m0-2.8 2.8 2.8-2.8 2.8-2.8-2.8z",
    "v": "m0 2.5 2.5-4.5h-5z",
    "P": "m-.8-2.5h1.6v1.7h1.7v1.6h-1.7v1.7h-1.6v-1.7h-1.7v-1.6h1.7z",
    "X": "m-2.4-1.3 1.1-1.1 1.3 1.3 1.3-1.3 1.1 1.1-1.3 1.3 1.3 1.3-1.1 1.1-1.3-1.3-1.3 1.3-1.1-1.1 1.3-1.3z",
}


@dataclass(frozen=True)
class Dots(Drawing):
    """Points on a map, one path for each group.

    Attributes:
        points: (series, [points, 2]) of each group, none of them empty; series None is drawn without a colour.
        names: of the groups, for a legend.
        x: what the horizontal axis shows.
        y: what the vertical axis shows.
        origin: where a red cross stands.
    """

    points: Sequence[tuple[int | None, np.ndarray]]
    _: KW_ONLY
    x: str
    y: str
    names: Sequence[str] = ()
    origin: tuple[float, float] | None = None

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the groups; only neighbourhoods and directions have a meaning, so that the axes have no numbers."""
        for place, (series, values) in enumerate(self.points):
            axes.plot(
                *values.T, linestyle="none", marker=marker(series or 0), markersize=3, markeredgewidth=0, alpha=0.7,
                color=sheet.paint(INK if series is None else colour(series)), label=nth(self.names, place),
            )  # fmt: skip
        if self.origin is not None:
            axes.plot(*self.origin, marker="+", markersize=9, markeredgewidth=2, color=sheet.paint(INK))
        finish(axes, self.x, self.y, ("", ""))
        axes.set_xticks([])
        axes.set_yticks([])

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the points of each group in turn; a group of several, drawn in grey, has no number."""
        for place, (series, values) in enumerate(self.points):
            for x, y in values.tolist():
                yield {"series": series, "name": nth(self.names, place), "x": x, "y": y}

    @catch_draw_errors
    def svg(self) -> str:
        """Return it for a page, as SVG."""
        # The map: all points, and the cross, inside its margins
        everything = np.concatenate(
            [p for _, p in self.points] + ([] if self.origin is None else [np.array([self.origin])])
        )
        low, span = everything.min(0), np.ptp(everything, 0)
        size = np.array([_WIDTH - 2 * _MARGIN - 14, _HEIGHT - 2 * _MARGIN - 14])

        def place(values: np.ndarray) -> np.ndarray:
            unit = np.where(span > 0, (values - low) / np.where(span > 0, span, 1), 0.5)
            return np.array([_MARGIN + 14, _MARGIN]) + size * np.column_stack([unit[:, 0], 1 - unit[:, 1]])

        # The axes, a path for each group, and the cross
        parts = [
            f'<path d="M14 4V{_HEIGHT - 14}H{_WIDTH - 4}" style="fill:none;stroke:var(--line)"/>',
            f'<text x="{_WIDTH - 4}" y="{_HEIGHT - 3}" text-anchor="end">{escape(self.x)}</text>',
            f'<text transform="translate(9 4) rotate(-90)" text-anchor="end">{escape(self.y)}</text>',
        ]
        for series, values in self.points:
            glyph = _GLYPHS[MARKERS[0 if series is None else series % len(MARKERS)]]
            path = "".join(f"M{a:.4g} {b:.4g}{glyph}" for a, b in place(values).tolist())
            tint = "--muted" if series is None else f"--s{series % COLOURS}"
            parts.append(f'<path d="{path}" style="fill:var({tint});opacity:.7"/>')
        if self.origin is not None:
            a, b = place(np.array([self.origin]))[0].tolist()
            parts.append(
                f'<path d="M{a - 6:.4g} {b:.4g}h12m-6-6v12" style="fill:none;stroke:var(--bad);stroke-width:2.5"/>'
            )
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true" focusable="false" '
            f'style="font-size:9px;fill:var(--muted)">{"".join(parts)}</svg>'
        )
