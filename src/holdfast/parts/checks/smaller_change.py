"""Does another attack break images by a smaller change than the one that was found?"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import (
    Attack,
    Ball,
    Check,
    Examination,
    Failure,
    Images,
    Observation,
    PerImage,
    Positions,
    Reps,
    Search,
    Subject,
    Verdict,
)
from holdfast.core.rng import Rng
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.shared.search import follows_gradients
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.breaking_radii import CLEARLY, BreakingRadii
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class SmallerChange(Check):
    """Attacks each image in a ball a little smaller than its breaking radius, with gradients and without.

    Attributes:
        ball: the norm.
        failure: what counts as broken.
        steps: passes of the search that is examined.
        examined: images on which it is examined, the first ones.
        attacks: those that it is held against.
        share: of the breaking radius, where they search.
        missed: share of the images that they break above which it fails, where these are more than one; it warns of
            any.
    """

    ball: Ball = Linf()
    failure: Failure = Nearest()
    steps: int = 100
    examined: int = 8
    attacks: tuple[Attack, ...] = (Apgd(50), Square(200))
    share: float = 0.9
    missed: float = 0.1

    consequence = "one side"
    lasts = True
    place = 24

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every search for the smallest change."""
        return tuple(
            cls(
                search.ball,
                search.objective,
                search.attack.steps,
                min(cls.examined, audit.images),
                (Apgd(max(1, audit.queries // 4)), Square(max(1, audit.queries // 2))),
            )
            for search in audit.searches
            if search.smallest and isinstance(search.objective, Failure)
        )

    @property
    def radii(self) -> BreakingRadii:
        """What is examined."""
        return BreakingRadii(self.ball, self.failure, self.steps, first=self.examined)

    @property
    def search(self) -> Search:
        """The search that it examines."""
        return self.radii.searches[0]

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether anything was searched along gradients in this norm."""
        return any(follows_gradients(search, self.ball) for search in searches)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, and the breaking radii."""
        return Clean(), self.radii

    def judge(self, subject: Subject) -> Verdict:
        """Attack each image within a share of its radius."""
        results = subject.read(self.radii)
        radius, halfway = results["radius"], results["halfway"]
        broken = torch.zeros(len(radius), dtype=torch.bool)
        examined = (radius.isfinite() & (radius > 0)).nonzero().flatten()
        with subject.encoder.exactly():
            for attack in self.attacks if len(examined) else ():
                broken[examined] |= self._breaks(subject, examined, self.share * radius[examined], attack)
        missed, count = int(broken.sum()), len(radius)
        both = halfway.isfinite() & radius.isfinite()
        gain = float((1 - radius[both] / halfway[both].clamp_min(1e-30)).median()) if both.any() else 0.0
        details = {"missed": missed / max(1, count), "gain": gain}
        finding = (
            f"other attacks break {missed} of {count} images within {100 * self.share:g} % of the change found; the "
            f"second half of the passes made it {100 * gain:.1f} % smaller (median)"
        )
        if missed > max(1, self.missed * count):
            meaning = "The smallest breaking changes are smaller than reported: give the search more steps."
            return Verdict("fail", finding, meaning, details)
        if missed:
            meaning = "Some of the smallest breaking changes are smaller than reported: give the search more steps."
            return Verdict("warn", finding, meaning, details)
        return Verdict("pass", finding, "Other attacks found no smaller change.", details)

    def _breaks(
        self, subject: Subject, images: Positions, radii: Float[Tensor, "batch"], attack: Attack
    ) -> Bool[Tensor, "batch"]:
        """Return which images an attack breaks, each in the ball of its own radius.

        All are attacked at once in the ball of the largest radius R: the image that the attack moves to z is x +
        (r / R) (z - x), which lies in the ball of its radius r, and between x and z, so in the box.
        """
        rng = Rng(subject.seed, ids=tuple(subject.ids[int(image)] for image in images.tolist())).child("smaller_change")
        x = subject.batch(0, int(images.max()) + 1)[images.tolist()]
        shard = replace(subject.shard(len(images)), x=x, positions=images, rng=rng)
        event, rows = self.failure.bind(shard), torch.arange(len(images), device=x.device)
        share = (radii / radii.max()).to(x)[:, None, None, None]

        def goal(z: Images) -> tuple[PerImage, Reps]:
            reps: Tensor = subject.encoder(x + share * (z - x))
            return event(reps[:, None].double(), rows).squeeze(1).to(x), reps

        ball = replace(cast("Any", self.ball), radius=float(radii.max()))
        return (attack(goal, x, ball, rng).values[-1] > CLEARLY).cpu()
