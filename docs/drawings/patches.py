"""Patches of some sizes on the digits: how many images hold, each under its own patch."""

import numpy as np
from matplotlib import pyplot as plt

import holdfast
from drawings import ENCODERS, save


def draw() -> None:
    """Patches of some sizes on the digits: how many images hold, each under its own patch."""
    sizes, (figure, axis) = (1, 2, 3, 4), plt.subplots()
    for number, (encoder, colour) in enumerate(ENCODERS.items()):
        measures = [f"adversarial_robustness[ball=patch[share={size**2 / 64}],attack=pgd[steps=20]]" for size in sizes]
        options = {"images": 300, "attacked": 60, "budget": "none", "quiet": True}  # as many in each as in the others
        record = holdfast.audit(encoder, "digits", measures=measures, **options)
        shares = [next(iter(m["scores"].values())) for m in record.data["encoders"][0]["measures"].values()]
        value, low, high = (np.array([100 * score[end] for score in shares]) for end in ("value", "low", "high"))
        at = np.array([100 * size**2 / 64 for size in sizes]) + 0.25 * number
        axis.errorbar(at, value, (value - low, high - value), color=colour, marker="o", ms=4, lw=1.2)
        axis.annotate(encoder.removeprefix("zoo:"), (at[number], value[number]), xytext=(9, 6), color=colour,
                      textcoords="offset points")  # fmt: skip
    axis.set_xticks([100 * size**2 / 64 for size in sizes], [f"{size} x {size}" for size in sizes])
    axis.set_xlabel("patch, in pixels of 8 x 8, anywhere")
    axis.set_ylabel("images that hold, %")
    axis.set_ylim(-3, 103)
    axis.set_yticks([0, 50, 100])
    save(figure, "patches")
