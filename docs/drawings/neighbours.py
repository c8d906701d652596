"""Breaking away, and overlapping."""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Circle

from drawings import BLUE, GREY, ORANGE, arrow, save


def draw() -> None:
    """Breaking away, and overlapping."""
    figure, axes = plt.subplots(1, 2)
    rest = np.random.default_rng(4).normal(size=(24, 2)) * 1.1
    for axis, title in zip(axes, ("breakaway", "overlap"), strict=True):
        axis.scatter(*rest.T, color=GREY, s=9)
        axis.set_title(title, fontsize=9)
        axis.set_aspect("equal")
        axis.set_axis_off()
    start, end = np.array([-0.4, 0.3]), np.array([1.25, 0.95])
    arrow(axes[0], start, end, ORANGE)
    axes[0].scatter(*start, color=BLUE, s=30)
    axes[0].scatter(*end, color=ORANGE, s=30)
    axes[0].add_patch(
        Circle((float(end[0]), float(end[1])), float(np.hypot(*(end - start))), fill=False, color=ORANGE, lw=0.8)
    )
    axes[0].annotate("f(x)", start, xytext=(-22, 4), textcoords="offset points", color=BLUE)
    axes[0].annotate(
        "f(x̂): all in the circle\nare nearer than f(x)", end, xytext=(6, 8), textcoords="offset points", color=ORANGE
    )
    first, second = np.array([-1.0, 0.0]), np.array([1.0, 0.1])
    for begin, stop, colour in ((first, second, BLUE), (second, first, ORANGE)):
        arrow(axes[1], begin, begin + 0.62 * (stop - begin), colour)
        axes[1].scatter(*begin, color=colour, s=30)
    axes[1].annotate("f(x₁)", first, xytext=(-8, -14), textcoords="offset points", color=BLUE)
    axes[1].annotate("f(x₂)", second, xytext=(-8, -14), textcoords="offset points", color=ORANGE)
    save(figure, "neighbours")
