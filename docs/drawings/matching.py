"""Evasion and collision against the radius."""

import json
import subprocess
import sys
import tempfile

from matplotlib import pyplot as plt

from drawings import ENCODERS, save


def draw() -> None:
    """Evasion and collision against the radius."""
    asked = "matching[rate=0.01,ball.radius=0.05,radii=[0.01,0.02,0.03,0.04,0.07],attack=pgd[steps=20]]"
    with tempfile.TemporaryDirectory() as folder:
        images = ["--data", "digits", "--images", "300", "--attacked", "100", "--budget", "none"]
        command = ["audit", *ENCODERS, *images, "--measure", asked, "--out", folder, "--quiet", "--json"]
        run = subprocess.run([sys.executable, "-m", "holdfast", *command], check=True, capture_output=True)
    figure, axis = plt.subplots(figsize=(5, 2.8))
    for encoder in json.loads(run.stdout)["encoders"]:
        colour = ENCODERS[encoder["name"]]
        for line in encoder["measures"]["matching"]["charts"][0]["lines"]:
            name = f"{encoder['name'].partition(':')[2]}, {'evasion' if line['style'] == 'solid' else 'collision'}"
            axis.fill_between(line["x"], line["low"], line["high"], color=colour, alpha=0.12, lw=0)
            axis.plot(line["x"], line["y"], color=colour, ls="-" if line["style"] == "solid" else "--", label=name)
    axis.set_xlabel("ε in pixels, ℓ∞")
    axis.set_ylabel("share of images")
    axis.set_ylim(0)
    axis.legend(frameon=False, fontsize=8)
    save(figure, "matching")
