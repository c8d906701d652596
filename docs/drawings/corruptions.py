"""Digits under corruptions."""

import torch
from matplotlib import pyplot as plt

from drawings import PLACE
from holdfast.core import Rng
from holdfast.parts.measures.shared.disturbed import SIX
from holdfast.parts.threats.imagenet_c import CORRUPTIONS, ImagenetC
from holdfast.sources.data import open_images


def draw() -> None:
    """Digits under corruptions."""
    images = open_images("digits", images=3, seed=0)
    x = images.batch(0, 3)
    shown = [("clean", x)]
    for threat in (*SIX[1:2], SIX[3], *(ImagenetC(name, 3) for name in CORRUPTIONS[2::3])):
        shown.append((threat.title, threat.sample(x, Rng(0, ids=tuple(images.ids)))))
    figure, axes = plt.subplots(3, len(shown), figsize=(1.05 * len(shown), 3.4))
    for column, (title, pictures) in enumerate(shown):
        axes[0, column].set_title(title.replace(" ", "\n", 1), fontsize=7)
        for row in range(3):
            axes[row, column].imshow(torch.as_tensor(pictures)[row, 0], cmap="gray", vmin=0, vmax=1)
            axes[row, column].set_axis_off()
    figure.savefig(PLACE / "corruptions.png", dpi=90)
    plt.close(figure)
