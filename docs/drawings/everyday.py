"""The share of digits that hold against the strength of some everyday edits."""

import PIL.Image
from matplotlib import pyplot as plt

import holdfast
from drawings import ENCODERS, PLACE


def draw() -> None:
    """The share of digits that hold against the strength of some everyday edits."""
    figure, axes = plt.subplots(1, 3, sharey=True)
    shown = ("cropped to 95 to 50 %", "rotation +2° to +30°", "contrast −0.1 to −0.8")
    for spec, colour in ENCODERS.items():
        record = holdfast.audit(spec, "digits", profile="everyday", images=500, attacked=100)
        drawn = record.data["encoders"][0]["measures"]["breaking_edit"]["charts"]
        for axis, title in zip(axes, shown, strict=True):
            (chart,) = (chart for chart in drawn if chart["title"] == title)
            (line,) = chart["lines"]
            axis.plot(line["x"], line["y"], color=colour, label=spec.removeprefix("zoo:digits-"))
            axis.fill_between(line["x"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0)
            axis.set(title=title, xlabel=chart["across"])
    axes[0].set(ylabel="images that hold", ylim=(0, 1))
    axes[2].legend(frameon=False, fontsize=7)
    figure.savefig(PLACE / "everyday.png", dpi=100)
    plt.close(figure)
    with PIL.Image.open(PLACE / "everyday.png") as shown:
        few = shown.convert("RGB").quantize(16)
    few.save(PLACE / "everyday.png", optimize=True)
