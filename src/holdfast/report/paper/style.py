"""How figures look on paper: their size, their letters, and colours that survive greyscale and colour blindness."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from matplotlib import colormaps
from matplotlib.colors import to_hex

from holdfast.report.charts.figure import CARD, GRID, INK, TEXT, Sheet
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import BadValue, UnknownName, unknown

WIDTHS = {"column": 3.3, "page": 6.9}
"""Inches of a column, and of the text of a page in two columns."""

NARROWEST, WIDEST = 1.5, 40.0
"""Inches that a side of a figure may have."""

FONTS = {"serif": "STIXGeneral", "sans": "DejaVu Sans"}
"""Fonts that come with matplotlib, so that a figure is the same everywhere."""

GENERIC = {"serif": "serif", "sans": "sans-serif"}
"""What readers have in the place of these."""

COLOURS = ("#003c7d", "#e09a00", "#b34c5e", "#000000", "#009e73", "#882255", "#56b4e9", "#999933")
"""Of encoders: the first four differ in lightness by 19 of 100 and more, so that they differ in greyscale; every mark
has a shape of its own as well. After P. Tol's "high contrast" and M. Okabe and K. Ito's "Color Universal Design"."""

_NAMED = {INK: "#000000", GRID: "#dcdcdc", CARD: "#ffffff", TEXT: "#000000"}
_LIGHTEST = 0.85
"""Where the scale of shades ends: what is lighter cannot be seen on white."""


@dataclass(frozen=True)
class Style(metaclass=Checked):
    """How a figure looks.

    Attributes:
        width: "column", 3.3 inches, "page", 6.9, or inches.
        height: in inches; None: what suits the width and the chart.
        font: "serif", STIX, which goes with Times, or "sans", DejaVu Sans.
        size: of the letters, in points.
        marks: name places such as 8/255 or JPEG 90 on the axis of sizes.
        editable: keep letters of an SVG as text, which looks right only where the font is installed; else they are
            outlines, the same everywhere. Letters of a PDF are always text, with their font (TrueType).
    """

    width: Literal["column", "page"] | float = "column"
    height: float | None = None
    font: Literal["serif", "sans"] = "serif"
    size: float = 8.0
    marks: bool = True
    editable: bool = False

    def __post_init__(self) -> None:
        for name, side in (("width", self.inches), ("height", self.height)):
            if side is not None and not NARROWEST <= side <= WIDEST:
                raise BadValue(f"{name}: expected {NARROWEST:g} to {WIDEST:g} inches, got {side:g}")
        if not 4 <= self.size <= 24:
            raise BadValue(f"size: expected letters of 4 to 24 points, got {self.size:g}")

    @property
    def inches(self) -> float:
        """The width in inches."""
        return WIDTHS[self.width] if isinstance(self.width, str) else self.width

    def sheet(self) -> "Paper":
        """Return the sheet that figures are drawn on."""
        # Text is set by whoever opens the file, who may have no font of ours
        family = [FONTS[self.font], FONTS["sans"], *([GENERIC[self.font]] if self.editable else [])]
        style = {
            "font.family": family, **{f"font.{GENERIC[name]}": [font] for name, font in FONTS.items()},
            "pdf.fonttype": 42, "svg.fonttype": "none" if self.editable else "path",
            "axes.edgecolor": "#555555", "axes.linewidth": 0.6, "xtick.major.size": 2, "ytick.major.size": 2,
            "xtick.color": "#555555", "ytick.color": "#555555", "xtick.labelcolor": "#000000",
            "ytick.labelcolor": "#000000", "xtick.labelsize": self.size - 1, "ytick.labelsize": self.size - 1,
        }  # fmt: skip
        height = self.height or 1.2 + 0.3 * self.inches
        return Paper(
            self.inches, height, self.size, self.size - 1.5, True, self.marks, style, fixed=self.height is not None
        )


def width_of(text: str) -> float | str:
    """Return a width as `Style` takes it, of a text such as "column" or "4.5"."""
    if text in WIDTHS:
        return text
    try:
        return float(text)
    except ValueError:
        raise UnknownName(f"{unknown('width of a figure', text, WIDTHS)}, or inches") from None


@dataclass(frozen=True)
class Paper(Sheet):
    """A sheet of white paper; `fixed` where the height was chosen."""

    fixed: bool = field(default=False, kw_only=True)

    def paint(self, token: str) -> str:
        """Return the colour in print."""
        return _NAMED.get(token) or self._colours[token]

    @cached_property
    def _colours(self) -> Mapping[str, str]:
        scale: Any = colormaps["viridis"]
        shades = {f"#0c02{level:02x}": to_hex(scale(_LIGHTEST * level / 255)) for level in range(256)}
        return shades | {f"#0c01{series:02x}": tint for series, tint in enumerate(COLOURS)}
