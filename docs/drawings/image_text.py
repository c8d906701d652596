"""Both towers, and what is done to images."""

from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

from drawings import BLUE, GREEN, GREY, ORANGE, arrow, save


def draw() -> None:
    """Both towers, and what is done to images."""
    figure, axis = plt.subplots(figsize=(6, 2.6))

    def box(left: float, bottom: float, text: str, colour: str = BLUE, width: float = 1.7) -> None:
        axis.add_patch(FancyBboxPatch((left, bottom), width, 0.7, boxstyle="round,pad=.08", fill=False, color=colour))
        axis.text(left + width / 2, bottom + 0.35, text, ha="center", va="center")

    box(0, 1.6, "image")
    box(2.7, 1.6, "image tower")
    box(0, 0, "names,\ncaptions")
    box(2.7, 0, "text tower")
    box(5.4, 0, ".safetensors", GREY)
    box(8.1, 0.8, "cosine:\nclass, rank")
    for begin, end in (((1.85, 1.95), (2.55, 1.95)), ((1.85, 0.35), (2.55, 0.35)), ((4.55, 0.35), (5.25, 0.35))):
        arrow(axis, begin, end, GREY)
    arrow(axis, (4.55, 1.95), (7.95, 1.3), GREY)
    arrow(axis, (7.25, 0.35), (7.95, 1.0), GREY)
    axis.text(4.9, -0.35, "once: holdfast embed-names", ha="center", color=GREY, fontsize=8)
    axis.annotate("", (0.85, 2.45), (0.85, 2.9), arrowprops={"arrowstyle": "->", "color": ORANGE})
    axis.text(0.0, 3.0, "attack: no own text may be nearest; typographic: a word is written", color=ORANGE, fontsize=8)
    axis.annotate("", (3.55, 1.5), (3.55, 1.05), arrowprops={"arrowstyle": "->", "color": GREEN})
    axis.text(3.7, 1.1, "harden: fare, tecoa", color=GREEN, fontsize=8)
    axis.set_xlim(-0.3, 10.1)
    axis.set_ylim(-0.5, 3.3)
    axis.set_axis_off()
    save(figure, "image_text")
