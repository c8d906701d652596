"""A ball with a small region of failure; the worst point, the worst noise, a given noise."""

import numpy as np
from matplotlib import pyplot as plt

from drawings import GREEN, GREY, RED, save


def draw() -> None:
    """A ball with a small region of failure; the worst point, the worst noise, a given noise."""
    figure, axes = plt.subplots(1, 3)
    random = np.random.default_rng(0)
    given = random.uniform(-1, 1, (120, 2))
    worst = np.clip(random.normal((0.62, 0.6), 0.22, (120, 2)), -1, 1)
    shown = (("worst point", np.array([[0.9, 0.9]])), ("worst noise", worst), ("given noise", given))
    for axis, (title, points) in zip(axes, shown, strict=True):
        axis.fill([0.35, 1, 1], [1, 1, 0.45], color=RED, alpha=0.2, linewidth=0)
        axis.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=GREY, linewidth=0.8)
        fails = (points[:, 0] - 0.35) / 0.65 + (points[:, 1] - 0.45) / 0.55 > 1
        axis.scatter(*points[fails].T, color=RED, s=6)
        axis.scatter(*points[~fails].T, color=GREEN, s=6)
        axis.set_title(f"{title}: {fails.mean():.0%} fail", fontsize=9)
        axis.set_aspect("equal")
        axis.set_axis_off()
    save(figure, "chances")
