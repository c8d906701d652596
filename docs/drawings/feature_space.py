"""Representations on a circle: collapsed, in clusters, spread evenly."""

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Circle

from drawings import BLUE, GREEN, GREY, ORANGE, save


def draw() -> None:
    """Representations on a circle: collapsed, in clusters, spread evenly."""
    figure, axes = plt.subplots(1, 3)
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(3), 14)
    angles = {
        "collapsed": 0.9 + 0.05 * random.normal(size=42),
        "classes collapsed": 2.1 * groups + 0.06 * random.normal(size=42),
        "uniform, aligned": 2.094 * groups + np.tile(np.linspace(0, 2.0, 14), 3),
    }
    for axis, (title, at) in zip(axes, angles.items(), strict=True):
        axis.add_patch(Circle((0, 0), 1, fill=False, color=GREY, lw=0.8))
        for group, colour in enumerate((BLUE, ORANGE, GREEN)):
            axis.scatter(np.cos(at[groups == group]), np.sin(at[groups == group]), color=colour, s=9, zorder=2)
        z = np.stack([np.cos(at), np.sin(at)], 1)
        squares = ((z[:, None] - z) ** 2).sum(2)[~np.eye(42, dtype=bool)]
        axis.set_title(f"{title}: U = {-np.log(np.exp(-2 * squares).mean()):.2f}", fontsize=8)
        axis.set_aspect("equal")
        axis.set_axis_off()
    save(figure, "feature_space")
