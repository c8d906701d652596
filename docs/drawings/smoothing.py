"""Noise around an image and the boundary between two answers."""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Circle

from drawings import BLUE, ORANGE, save


def draw() -> None:
    """Noise around an image and the boundary between two answers."""
    figure, axis = plt.subplots()
    draws = np.random.default_rng(0).normal(size=(200, 2)) * 0.8
    own = draws[:, 0] + 0.15 * np.sin(3 * draws[:, 1]) < 0.75
    axis.scatter(*draws[own].T, color=BLUE, s=5)
    axis.scatter(*draws[~own].T, color=ORANGE, s=5)
    axis.scatter(0, 0, color="black", s=30, zorder=3)
    axis.text(-6.4, 0.9, f"{own.sum()} of 200 draws are\nstill taken for x", color=BLUE)
    axis.text(2.7, 0.9, f"{(~own).sum()} for another image", color=ORANGE)
    axis.add_patch(Circle((0, 0), 0.72, fill=False, color="black", lw=0.9))
    axis.text(-6.4, -1.4, "the more agree, the larger the\nball in which they must")
    axis.set_xlim(-6.6, 6.6)
    axis.set_aspect("equal")
    axis.set_axis_off()
    save(figure, "smoothing")
