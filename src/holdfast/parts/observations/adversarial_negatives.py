"""Adversarial negatives: images made from x⁺ itself that its representation should still be told apart from."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Attack, Ball, Images, Passes, Rng, Shard, Trajectory
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.views import Views
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.divergences.squared_l2 import SquaredL2
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.shared.margins import MadeNegatives
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class AdversarialNegatives(MadeNegatives):
    """x⁻ = arg max ||f(x') - f(view of x⁺)||² over the ball of ε_neg around x⁺; f(x⁻) as `reps` [M, 1, D].

    The mean squared error of the paper is this divided by D, which moves no sign step. The view, of which the paper
    says nothing, is x⁺ shifted by a whole number of pixels, up and down and sideways, with the pixels at the edge
    repeated; colour images are also mirrored, every second one on average. With `view="authors"` it is drawn as for
    the training of the authors' encoders: a crop of 8 % of the area or more (of a grey image 40 %) in other colours.
    That is farther from x⁺, and attacks reach its negatives more easily.

    View and start are drawn by the seed for each image by its id. The ball is that of the paper for MNIST, which takes
    steps of .001; here they are relative to the ball. Its CIFAR radii are in normalised units: ε_neg 16/255 is .0141,
    and the step .001 is .000225, in pixels of a [0, 1] image.

    Attributes:
        ball: where x⁻ may be, of radius ε_neg in pixels, larger than that of the adversary who must not reach it.
        attack: how to search, from a random start.
        view: "shift", or "authors": a random resized crop, mirrored, with changed brightness, contrast, saturation and
            hue; grey images have brightness and contrast only.
        shift: by how many pixels the view is shifted at most; read with `view="shift"`.

    Source: Wang & Liu (2023), section 6.3 (Table 4); the augmented view is the authors' practice.
    """

    ball: Ball = Linf(0.3)
    attack: Attack = Pgd(200)
    shift: int = 3
    view: Literal["shift", "authors"] = "shift"

    count = 1

    @property
    @override
    def title(self) -> str:
        attack = f"{part_name(self.attack)}, {self.attack.steps} steps, {self.ball.title}"
        return f"adversarial negatives: {attack}"

    @property
    def passes(self) -> Passes:
        """Those of the attack, and one for the view."""
        return self.attack.passes_in(self.ball) + Passes(forward=1)

    @property
    def reevaluations(self) -> int:
        """The images that the attack ends at."""
        return 1

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Make the negatives of one shard."""
        return {"reps": self.search(shard).reps[self.attack.steps][:, None].float().cpu()}

    def search(self, shard: Shard) -> Trajectory:
        """Return the attack that makes them; its images after the last step are x⁻."""
        rng = shard.rng.child("adversarial negatives")
        with torch.no_grad():
            # What x⁻ is driven away from is fixed: no gradient goes through the view
            view = shard.encoder(self.make_view(shard.x, rng.child("view")))
        # D times the mean squared error, in the instance-wise attack of RVCL, section 6.3
        goal = Untargeted(SquaredL2()).pursue(shard.encoder, view)
        return self.attack(goal, shard.x, self.ball, rng).reevaluate(goal, shard.encoder)

    def make_view(self, x: Images, rng: Rng) -> Images:
        """Return the view of each image away from which its negative is sought."""
        if self.view == "shift":
            return _shift_images(x, self.shift, rng)
        return (AUTHORS_COLOUR if x.shape[1] == 3 else AUTHORS_GREY)(x, rng)


AUTHORS_COLOUR = Views(crop=(0.08, 1.0), flip=0.5, colour=0.4, colour_share=0.8, grey=0.2)
AUTHORS_GREY = Views(crop=(0.4, 1.0), flip=0.0, light=0.4, colour_share=0.8)
"""The views that the authors' code makes of CIFAR-10 and of MNIST, in training and here."""


def _shift_images(x: Images, shift: int, rng: Rng) -> Images:
    # Three numbers in [0, 1) of each image; the first two become whole shifts from -shift to shift
    down, right, mirror = rng.uniform(3).to(x.device).unbind(1)
    rows, columns = (
        torch.arange(side, device=x.device) - (draw * (2 * shift + 1)).long()[:, None] + shift
        for side, draw in zip(x.shape[2:], (down, right), strict=True)
    )
    if x.shape[1] == 3:
        # Grey images are the paper's digits, few of which stay what they are in a mirror
        columns = torch.where(mirror[:, None] < 0.5, columns.flip(1), columns)
    # Held at the edge, whose pixels are repeated
    rows, columns = rows.clamp(0, x.shape[2] - 1), columns.clamp(0, x.shape[3] - 1)
    images, channels = (torch.arange(size, device=x.device) for size in x.shape[:2])
    # Indices [B, 1, 1, 1], [C, 1, 1], [B, 1, H, 1] and [B, 1, 1, W] make an image of [B, C, H, W]
    return x[images[:, None, None, None], channels[:, None, None], rows[:, None, :, None], columns[:, None, None, :]]
