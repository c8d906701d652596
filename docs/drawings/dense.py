"""How far the patches of digits move: under attack, and around a covered one."""

import torch
from matplotlib import pyplot as plt

from drawings import ENCODERS, PLACE
from holdfast.core import Rng
from holdfast.numerics.geometry.pictures import glowing
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.objectives.token_drift import TokenDrift
from holdfast.parts.observations.covered import cover_patch
from holdfast.parts.threats.linf import Linf
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder


def draw() -> None:
    """How far the patches of digits move: under attack, and around a covered one."""
    images = open_images("digits", images=4, seed=0)
    x, rng, ball = torch.as_tensor(images.batch(0, 4)), Rng(0, ids=tuple(images.ids)), Linf(0.1)
    rows: dict[str, torch.Tensor] = {"image": x.expand(-1, 3, -1, -1)}
    for spec in ENCODERS:
        encoder = open_encoder(f"{spec}?layer=3&pool=none")
        grid = encoder.grid
        assert grid is not None
        with torch.no_grad():
            clean = encoder(x)
        grey = cover_patch(x, grid, torch.tensor([5, 6, 9, 10]))
        attacked = Apgd(50).worst(TokenDrift().pursue(encoder, clean), x, ball, rng)
        name = spec.removeprefix("zoo:").removeprefix("digits-")
        for what, moved in (("attacked", attacked), ("one patch grey", grey)):
            with torch.no_grad():
                maps = grid.maps(L2()(grid.tokens(encoder(moved)), grid.tokens(clean)))
            side = x.shape[2] // grid.rows
            enlarged = maps.repeat_interleave(side, 1).repeat_interleave(side, 2)
            rows[f"{name}\n{what}"] = glowing(moved, enlarged)
    figure, axes = plt.subplots(4, len(rows), figsize=(1.2 * len(rows), 4.9))
    for column, (title, pictures) in enumerate(rows.items()):
        axes[0, column].set_title(title, fontsize=8)
        for row in range(4):
            axes[row, column].imshow(pictures[row].movedim(0, -1).clamp(0, 1))
            axes[row, column].set_axis_off()
    figure.savefig(PLACE / "dense.png", dpi=80)
    plt.close(figure)
