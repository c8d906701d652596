"""One picture a file: `draw()` makes the picture of the file's name. What they share is here."""

from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch

PLACE = Path(__file__).parents[1] / "pictures"
BLUE, ORANGE, GREEN, GREY, RED = "#0067a5", "#c2570c", "#2d7d46", "#8a8f94", "#b3202c"
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "holdfast", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "figure.figsize": (6, 2.8), "figure.constrained_layout.use": True,
}  # fmt: skip
ENCODERS = {"zoo:digits-simclr": ORANGE, "zoo:digits-simclr-adv": BLUE}


def arrow(axis: plt.Axes, begin: object, end: object, colour: str) -> None:
    """Draw an arrow from one point to another."""
    axis.add_patch(FancyArrowPatch(begin, end, arrowstyle="->", mutation_scale=10, color=colour, lw=1.1))  # pyright: ignore


def save(figure: plt.Figure, name: str) -> None:
    """Write a figure as SVG, the same bytes each time."""
    figure.savefig(PLACE / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
