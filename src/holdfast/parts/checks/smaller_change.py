"""Does another attack break images by a smaller change than the one that was found?"""

from collections.abc import Collection
from dataclasses import dataclass

import torch

from holdfast.core import Attack, Ball, Check, Examination, Failure, Observation, Search, Subject, Verdict
from holdfast.numerics.statistics.proportions import clopper_pearson
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.shared.search import follows_gradients
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.smaller_changes import SmallerChanges
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class SmallerChange(Check):
    """Attacks each image in a ball a little smaller than its breaking radius, with gradients and without.

    Attributes:
        ball: the norm.
        failure: what counts as broken.
        steps: passes of the search that is examined.
        examined: images on which it is examined, the first ones; where none of 14 is broken, at most a fifth of all is.
        attacks: those that it is held against.
        share: of the breaking radius, where they search.
        missed: share of the images that they break above which it fails, where these are more than one; it warns of
            any.
        asked: whether the steps are queries of a search without gradients.
    """

    ball: Ball = Linf()
    failure: Failure = Nearest()
    steps: int = 100
    examined: int = 14
    attacks: tuple[Attack, ...] = (Apgd(50), Square(200))
    share: float = 0.9
    missed: float = 0.1
    asked: bool = False

    doubt = "smaller changes exist"
    consequence = "one side"
    place = 24

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every search for the smallest change."""
        return tuple(
            cls(
                search.ball,
                search.objective,
                search.attack.steps,
                # A search that only asked is held against another that only asks: it may have no gradient
                attacks=(Square(audit.queries),)
                if asks(search)
                else (Apgd(max(1, audit.queries // 4)), Square(max(1, audit.queries // 2))),
                asked=asks(search),
            )
            for search in audit.searches
            if search.smallest and isinstance(search.objective, Failure)
        )

    @property
    def radii(self) -> BreakingRadii:
        """What is examined."""
        # The very observation of the measure, so that no pass is made twice
        if self.asked:
            return BreakingRadii(self.ball, self.failure, queries=self.steps, first=self.examined)
        return BreakingRadii(self.ball, self.failure, self.steps, first=self.examined)

    @property
    def search(self) -> Search:
        """The search that it examines."""
        return self.radii.searches[0]

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether anything was searched in the same way in this norm."""
        if self.asked:
            return self.search in searches
        return any(follows_gradients(search, self.ball) for search in searches)

    def observations(self) -> tuple[Observation, ...]:
        """The breaking radii, and what other attacks do within a share of them."""
        return self.radii, *self._within

    @property
    def _within(self) -> tuple[SmallerChanges, ...]:
        return tuple(SmallerChanges(self.radii, attack, self.share, first=self.examined) for attack in self.attacks)

    def judge(self, subject: Subject) -> Verdict:
        """Count the images that other attacks break."""
        results = subject.read(self.radii)
        radius, halfway = results["radius"], results["halfway"]
        # Images that any of the attacks breaks
        missed = int(torch.stack([subject.read(within)["broken"] for within in self._within]).amax(0).sum())
        # The upper end of a two-sided 90 % interval is a one-sided bound at 95 %
        count, (_, most) = len(radius), clopper_pearson(missed, len(radius), confidence=0.9)
        # How much the second half of the passes still gained, where the first half had found anything
        both = halfway.isfinite() & radius.isfinite()
        gain = float((1 - radius[both] / halfway[both].clamp_min(1e-30)).median()) if both.any() else 0.0
        details = {"missed": missed / max(1, count), "at_most": most, "gain": gain}
        finding = (
            f"other attacks break {missed} of {count} images with at most {100 * self.share:g} % of the change found, "
            f"so at most {100 * most:.0f} % of all images (95 %); the second half of the passes made it "
            f"{100 * gain:.1f} % smaller (median)"
        )
        if missed > max(1, self.missed * count):
            meaning = "The smallest breaking changes are smaller than reported: give the search more steps."
            return Verdict("fail", finding, meaning, details)
        if missed:
            meaning = "Some of the smallest breaking changes are smaller than reported: give the search more steps."
            return Verdict("warn", finding, meaning, details)
        return Verdict("pass", finding, "Other attacks found no smaller change.", details)


def asks(search: Search) -> bool:
    """Return whether a search follows no gradient."""
    return not search.attack.passes.backward
