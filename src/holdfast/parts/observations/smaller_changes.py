"""Whether another attack breaks an image by a smaller change than the smallest that was found."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Attack, Ball, Images, Passes, PerImage, Reps, Shard
from holdfast.core.registry import part_name
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.observations.breaking_radii import CLEARLY, BreakingRadii
from holdfast.parts.observations.shared.first import OfFirst

REACH = 0.25
"""Radius, in pixels, of the ball around a grey image in which attacks search for all images."""


@dataclass(frozen=True)
class SmallerChanges(OfFirst):
    """Which images an attack breaks by a share of their breaking radius r: 1 as `broken` [M], else 0.

    Attacks take one ball for all images, and results must not depend on which images are attacked together. So the
    attack searches w in a ball of radius R = 1/4 around grey, which is nowhere near black or white, and every image
    sees x' = clip(x + (share · r / R) (w - 1/2)), which lies in its own ball.

    Attributes:
        radii: the smallest changes found.
        attack: what they are held against.
        share: of the breaking radius.
    """

    radii: BreakingRadii = BreakingRadii()
    attack: Attack = Apgd(50)
    share: float = 0.9

    @property
    @override
    def title(self) -> str:
        return f"smaller changes than found: {part_name(self.attack)}, {self.radii.ball.norm}"

    @property
    def passes(self) -> Passes:
        """Those of the attack, of images that have a radius."""
        return self.attack.passes_in(self._ball)

    @property
    def adaptive(self) -> bool:
        """Which images have a radius decides how many are attacked."""
        return True

    @property
    def _ball(self) -> Ball:
        ball: Any = self.radii.ball
        return replace(ball, radius=REACH)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Attack the images of one shard that a change breaks, and that stand without one."""
        assert shard.read is not None  # the radii are among its fields
        radius = shard.read(self.radii)["radius"][shard.positions.cpu()]
        broken = torch.zeros(len(radius), dtype=torch.float64)
        # Images that hold have no radius to undercut, and those that
        # fail as they are need no change
        rows = (radius.isfinite() & (radius > 0)).nonzero().flatten()
        if len(rows):
            event, x = self.radii.failure.bind(shard), shard.x[rows.to(shard.x.device)]
            # A step of R around grey becomes one of share · r around x, [rows, 1, 1, 1]
            scale = (self.share / REACH * radius[rows]).to(x).view(-1, 1, 1, 1)

            def goal(w: Images) -> tuple[PerImage, Reps]:
                reps = shard.encoder((x + scale * (w - 0.5)).clamp(0, 1))
                return event(reps[:, None].double(), rows).squeeze(1).to(x), reps

            rng = shard.rng.at([shard.rng.ids[row] for row in rows.tolist()]).child("smaller changes")
            with shard.encoder.exactly():
                # The value of what the attack ends at, [rows]
                found = self.attack(goal, torch.full_like(x, 0.5), self._ball, rng).values[-1]
            broken[rows] = (found > CLEARLY).double().cpu()
        return {"broken": broken}
