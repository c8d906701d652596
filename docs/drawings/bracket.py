"""Instance accuracy over ε, from both sides."""

from matplotlib import pyplot as plt

import holdfast
from drawings import BLUE, GREY, ORANGE, save


def draw() -> None:
    """Instance accuracy over ε, from both sides."""
    figure, axis = plt.subplots()
    radii = [0.03, 0.06, 0.09, 0.12, 0.16, 0.2, 0.25]
    found: dict[str, list[float]] = {"attack": [1.0], "certificate": [1.0]}
    for eps in radii:
        record = holdfast.audit(
            "zoo:digits-simclr-adv", "digits", measures=["instance_accuracy"], profile="certify", eps=eps, images=60,
            attacked=12, settings=["*.certifier.steps=5", "*.attack.steps=20"],
        )  # fmt: skip
        scores = record.scores("instance_accuracy")
        for side, values in found.items():
            values.append(float(scores[side].value or 0))
    where = [0.0, *radii]
    axis.plot(where, found["attack"], color=ORANGE)
    axis.plot(where, found["certificate"], color=BLUE)
    axis.fill_between(where, found["certificate"], found["attack"], color=GREY, alpha=0.25, linewidth=0)
    axis.text(where[-1], found["attack"][-1], " what the attack\n left standing", color=ORANGE, va="center")
    axis.text(where[-1], found["certificate"][-1], " what is proved", color=BLUE, va="bottom")
    at = len(where) - 3
    axis.text(where[at], (found["attack"][at] + found["certificate"][at]) / 2, "not known", ha="center", va="center")
    axis.set_xlim(0, where[-1] * 1.28)
    axis.set_ylim(0, 1.03)
    axis.set_xlabel("ε (pixels of a [0, 1] image)")
    axis.set_ylabel("pairs that hold")
    save(figure, "bracket")
