"""What two Gaussian classes allow, at every accuracy."""

import numpy as np
from matplotlib import pyplot as plt
from scipy import stats

from drawings import BLUE, GREY, save


def draw() -> None:
    """What two Gaussian classes allow, at every accuracy."""
    figure, axis = plt.subplots()
    points = np.linspace(0.5, 0.999, 200)
    reach = stats.norm.ppf(points)  # the distance at which the best linear classifier is so accurate
    bound = np.maximum(reach, 0) + stats.norm.pdf(reach) / points  # its mean distance from those it gets right
    axis.plot(points, bound, color=GREY, linestyle="--")
    axis.plot(points, 0.62 * bound * np.clip((0.97 - points) / 0.2, 0, 1), color=BLUE)
    axis.text(0.72, 1.9, "images: known exactly", color=GREY)
    axis.text(0.6, 0.25, "representations (drawn, not measured)", color=BLUE)
    axis.set_xlabel("accuracy that is asked for")
    axis.set_ylabel("room to the boundary")
    axis.set_ylim(0)
    save(figure, "synbench")
