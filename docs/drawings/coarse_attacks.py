"""How far images may move along hardenings whose attacks have coarse or fine steps, and what a finer attack finds."""

import json
from pathlib import Path

from matplotlib import pyplot as plt

from drawings import BLUE, GREEN, ORANGE, save

MEASURED = Path(__file__).parents[1] / "coarse_attacks.json"
COLOURS = {"3 steps of .83 ε": ORANGE, "3 steps of .5 ε": BLUE, "10 steps of .25 ε": GREEN}


def draw() -> None:
    """Draw how far images may move along hardenings by coarse and fine attacks, and what a finer attack finds."""
    trainings = json.loads(MEASURED.read_text(encoding="utf-8"))
    figure, (radii, ratios) = plt.subplots(1, 2, figsize=(6.4, 2.8))
    named: set[str] = set()
    for training in trainings:
        setting = training["setting"]
        if training["network"] != "ResNet-20" or setting not in COLOURS:
            continue
        steps, colour = [look["step"] for look in training["looks"]], COLOURS[setting]
        # each setting once in the legend, however many seeds
        points = {"color": colour, "marker": "o", "markersize": 3}
        label = None if setting in named else setting
        radii.plot(steps, [look["radius"] for look in training["looks"]], **points, label=label)
        ends = ([look[end] for look in training["looks"]] for end in ("low", "high"))
        radii.fill_between(steps, *ends, color=colour, alpha=0.12, linewidth=0)
        compared = [(look["step"], look["coarseness"]) for look in training["looks"] if "coarseness" in look]
        ratios.plot(*zip(*compared, strict=True), **points)
        named.add(setting)
    radii.set(xlabel="step", ylabel="half break at, /255", ylim=(0, None))
    ratios.set(xlabel="step", ylabel="a finer attack finds, times as much", ylim=(1, None))
    radii.legend(frameon=False, loc="lower left")
    save(figure, "coarse_attacks")
