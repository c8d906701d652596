"""Where attacks enter."""

from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

from drawings import BLUE, GREY, ORANGE, arrow, save


def draw() -> None:
    """Where attacks enter."""
    figure, axis = plt.subplots(figsize=(6, 1.9))
    for left, text in ((0, "image"), (2.4, "encoder\n(frozen)"), (4.8, "probe"), (7.2, "class")):
        axis.add_patch(FancyBboxPatch((left, 0), 1.5, 0.8, boxstyle="round,pad=.08", fill=False, color=BLUE))
        axis.text(left + 0.75, 0.4, text, ha="center", va="center")
    for left in (1.6, 4.0, 6.4):
        arrow(axis, (left, 0.4), (left + 0.7, 0.4), GREY)
    for end, text, height in (
        (8.0, "robust accuracy: the attack knows the probe", -0.45),
        (4.2, "impersonation: the encoder alone", 1.3),
    ):
        axis.annotate("", (0.7, height), (end, height), arrowprops={"arrowstyle": "->", "color": ORANGE})
        axis.text((end + 0.7) / 2, height + 0.1, text, ha="center", color=ORANGE, fontsize=8)
    axis.set_xlim(-0.3, 9)
    axis.set_ylim(-0.7, 1.8)
    axis.set_axis_off()
    save(figure, "classifiers")
