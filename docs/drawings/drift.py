"""Real distances between images, and the drift that an attack causes, of two encoders."""

import numpy as np
import torch
from matplotlib import pyplot as plt

import holdfast
from drawings import ENCODERS, GREY, save
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder


def draw() -> None:
    """Real distances between images, and the drift that an attack causes, of two encoders."""
    figure, axes = plt.subplots(1, 2, sharey=True)
    images = open_images("digits", images=300, seed=0).batch(0, 300)
    for axis, (name, colour) in zip(axes, ENCODERS.items(), strict=True):
        with torch.no_grad():
            distances = torch.pdist(open_encoder(name)(images)).numpy()
        record = holdfast.audit(name, "digits", measures=["universal_quantile"], images=300, attacked=60, eps=0.1)
        drift = record.to_pandas("universal_quantile").filter(like="drift@").iloc[:, -1].dropna().to_numpy()
        middle = np.median(drift)
        usual = np.median(distances)
        axis.hist(distances / usual, bins=50, density=True, color=GREY, alpha=0.6)
        axis.axvspan(0, middle / usual, color=colour, alpha=0.25)
        axis.axvline(middle / usual, color=colour)
        axis.set_title(f"{name}: {np.mean(distances <= middle):.1%} of pairs are nearer", fontsize=8)
        axis.set_xlabel("distance / median distance of two images")
    axes[0].set_ylabel("pairs of images")
    axes[0].set_yticks([])
    save(figure, "drift")
