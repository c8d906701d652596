"""What attacks on one encoder do to another, of the shipped encoders."""

from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

import holdfast
from drawings import ENCODERS, ORANGE, save


def draw() -> None:
    """What attacks on one encoder do to another, of the shipped encoders."""
    names = [*ENCODERS, "zoo:digits-supervised"]
    record = holdfast.audit(names, "digits", profile="transfer", measures=["transfer_rate"])
    columns = [*(f"from {name}" for name in names), "any surrogate", "queries", "whitebox"]
    figure, axis = plt.subplots(figsize=(6, 2.3))
    for row, encoder in enumerate(record.data["encoders"]):
        for column, source in enumerate(columns):
            score = encoder["measures"]["transfer_rate"]["scores"][source]
            low, high = 100 * score["low"], 100 * score["high"]
            axis.add_patch(Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, color=ORANGE, alpha=score["value"], lw=0))
            axis.text(
                column, row, f"{score['value']:.0%}\n[{low:.0f}, {high:.0f}]", ha="center", va="center", fontsize=7
            )
    shown = [column.removeprefix("from ").removeprefix("zoo:digits-").replace(" ", "\n") for column in columns]
    axis.set_xticks(range(len(columns)), shown, fontsize=8)
    axis.set_yticks(range(len(names)), [name.removeprefix("zoo:digits-") for name in names], fontsize=8)
    axis.set_xlim(-0.5, len(columns) - 0.5)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("top")
    axis.set_xlabel("attacked on")
    axis.set_ylabel("judged on")
    axis.tick_params(length=0)
    axis.spines[["left", "bottom"]].set_visible(False)
    save(figure, "transfer")
