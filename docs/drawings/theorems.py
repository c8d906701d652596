"""RVCL's Theorems 15 and 18, image by image, and its distributions at images that were not fitted."""

import numpy as np
from matplotlib import pyplot as plt

import holdfast
from drawings import ENCODERS, GREY, save


def draw() -> None:
    """RVCL's Theorems 15 and 18, image by image, and its distributions at images that were not fitted."""
    figure, (bound, likeness, calibration) = plt.subplots(1, 3)
    settings = {"profile": "rvcl", "images": 600, "attacked": 40, "settings": ["*.steps=20", "*.tolerance=1e-4"]}
    for spec, colour in ENCODERS.items():
        measures = ["radius_bound", "radius_likeness", "margin_calibration"]
        record = holdfast.audit(spec, "digits", measures=measures, **settings)
        radii, likes, psi = (record.to_pandas(name) for name in measures)
        bound.scatter(radii["binary"], radii["pair"], s=6, color=colour, label=spec.removeprefix("zoo:digits-"))
        likeness.scatter(likes["likeness@0"], likes["radius@0"], s=6, color=colour)
        for order, line in (("psi@1", "-"), ("psi@5", ":")):
            values = np.sort(psi[order].dropna())
            calibration.plot(values, np.linspace(0, 1, len(values)), color=colour, ls=line)
    bound.axline((0, 0), slope=1, color=GREY, ls="--", lw=0.8)
    calibration.axline((0, 0), slope=1, color=GREY, ls="--", lw=0.8)
    bound.set(title="Theorem 15", xlabel="radius of the binary head", ylabel="radius of the nearest pair")
    likeness.set(title="Theorem 18, one negative", xlabel="Ψ_neg", ylabel="radius of the pair")
    calibration.set(title="Ψ (solid), Ψ_CL, k = 5", xlabel="at images not fitted", ylabel="images at most so")
    bound.legend(frameon=False, fontsize=7)
    save(figure, "theorems")
