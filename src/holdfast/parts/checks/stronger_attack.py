"""Would more steps and restarts change the answer?"""

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.core import Attack, Check, Examination, Failure, Observation, Search, Subject, Verdict
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.shared.search import (
    SearchCheck,
    by,
    find_broken,
    follows_gradients,
    gain_of,
    in_words,
    rise,
    runs,
    times_as_far,
)
from holdfast.parts.observations.clean import Clean

FEWEST = 10
"""Gradient steps that a search is taken to make at least, where it is doubled."""


@dataclass(frozen=True)
class StrongerAttack(SearchCheck):
    """Compares a search with a costlier one on the same first images.

    Of an objective how far it rises is compared, in the median; of a failure how many images it breaks.

    Attributes:
        stronger: the costlier attack.
        tolerance: relative gain in the median rise above which the panel warns; four times that fails.
        missed: share of the images that only the costlier search breaks above which it fails, where these are more than
            one; it warns of any.
    """

    stronger: Attack = Apgd(100, restarts=2)
    tolerance: float = 0.1
    missed: float = 0.1

    doubt = "weak attack"
    place = 22

    @classmethod
    def checks_of(cls, search: Search, audit: Examination) -> tuple[Check, ...]:
        """Every search; those for one thing in one ball are compared with the same costlier one, which is run once."""
        # The longest search for the same thing sets the length, so that one costlier run serves them all
        attacks = [
            alike.attack for alike in audit.searches if (alike.ball, alike.objective) == (search.ball, search.objective)
        ]
        steps = max(member.passes.backward for attack in attacks for member in attack.members)
        # Where nothing follows gradients, the encoder may have none: four times the queries
        queries = max(attack.passes.forward for attack in attacks)
        stronger = Apgd(2 * max(FEWEST, steps), restarts=2) if steps else Square(4 * queries)
        return (cls(search.attack, search.ball, search.objective, audit.images, stronger),)

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether anything was searched by this search, or along gradients in this norm in no more passes."""
        most = self.attack.passes.total
        return super().concerns(searches) or any(
            follows_gradients(search, self.ball) and search.attack.passes.total <= most for search in searches
        )

    def observations(self) -> tuple[Observation, ...]:
        """The measures' search, and the costlier one, on a few images."""
        return Clean(), *runs(self.search, self.examined), *runs(by(self.search, self.stronger), self.examined)

    def judge(self, subject: Subject) -> Verdict:
        """Compare both, image by image."""
        costlier = by(self.search, self.stronger)
        if isinstance(self.objective, Failure):
            usual, strong = (find_broken(subject, search, self.examined) for search in (self.search, costlier))
            # Only what the usual search missed counts, not what it broke and the costlier one did not
            missed = int((strong & ~usual).sum())
            finding = f"a stronger attack breaks {missed} more of {len(usual)} images"
            warns, fails = missed > 0, missed > max(1, self.missed * len(usual))
            details = {"missed": missed / len(usual)}
        else:
            usual, strong = (rise(subject, search, self.examined)[:, -1] for search in (self.search, costlier))
            # Of an objective nothing breaks: how much farther each image is brought, in the median
            gain = gain_of(times_as_far(strong, usual))
            finding = f"a stronger attack gets {in_words(gain)} on {len(usual)} images (median)"
            warns, fails, details = gain > self.tolerance, gain > 4 * self.tolerance, {"gain": gain}
        if fails:
            meaning = "The attack is far from the worst case: numbers that rely on it are one-sided bounds."
            return Verdict("fail", finding, meaning, details)
        if warns:
            meaning = "The attack does not quite reach the worst case: use more steps, restarts or the ensemble."
            return Verdict("warn", finding, meaning, details)
        return Verdict("pass", finding, "More steps and restarts hardly change the result.", details)
