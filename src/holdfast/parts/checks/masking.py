"""Does an attack without gradients find more than the gradient attack?"""

from collections.abc import Collection
from dataclasses import dataclass

from holdfast.core import Attack, Check, Examination, Failure, Observation, Search, Subject, Verdict
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


@dataclass(frozen=True)
class Masking(SearchCheck):
    """Compares a gradient attack with a gradient-free one; losing to it means that the gradients mislead.

    Where they do, every search along gradients in the same norm is a bound, also that for the smallest change.

    Attributes:
        free: the gradient-free attack.
        warn: share of images on which the gradient-free attack gets at least 5 % farther (that it alone breaks, where
            a failure is sought) above which the panel warns.
        fail: median gain of the gradient-free attack (share of images that it alone breaks, where these are more than
            one) above which it fails.
    """

    free: Attack = Square()
    warn: float = 0.15
    fail: float = 0.1

    doubt = "misleading gradients"
    place = 23

    @classmethod
    def checks_of(cls, search: Search, audit: Examination) -> tuple[Check, ...]:
        """Searches that make no attack without gradients themselves."""
        if any(isinstance(member, Square) for member in search.attack.members):
            return ()
        return (cls(search.attack, search.ball, search.objective, audit.images, Square(audit.queries)),)

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether anything was searched along gradients in this norm: it is the encoder that misleads them."""
        return any(follows_gradients(search, self.ball) for search in searches)

    def observations(self) -> tuple[Observation, ...]:
        """The measures' search, and the gradient-free one, on a few images."""
        return Clean(), *runs(self.search, self.examined), *runs(by(self.search, self.free), self.examined)

    def judge(self, subject: Subject) -> Verdict:
        """Count the images on which the gradient-free attack wins."""
        free_search = by(self.search, self.free)
        # of a failure: images that only the gradient-free attack breaks
        if isinstance(self.objective, Failure):
            gradient, free = (find_broken(subject, search, self.examined) for search in (self.search, free_search))
            more = int((free & ~gradient).sum())
            won = more / len(free)
            finding = f"an attack without gradients breaks {100 * won:.0f} % of the {len(free)} images that held"
            # A single image may be chance, however few images there are
            warns, fails, details = more > 0, more > max(1, self.fail * len(free)), {"won": won}
        else:
            # of an objective: how much farther the gradient-free attack gets, image by image
            gradient, free = (rise(subject, search, self.examined)[:, -1] for search in (self.search, free_search))
            # Image by image; the median is not ruled by a few that one attack alone can move
            times = times_as_far(free, gradient)
            won, gain = float((times > 1.05).double().mean()), gain_of(times)
            finding = (
                f"an attack without gradients gets at least 5 % farther on {100 * won:.0f} % of {len(free)} images"
            )
            warns, fails, details = won > self.warn, gain > self.fail, {"won": won, "gain": gain}
            if fails:
                finding += f", {in_words(gain)} in the median"
        if fails:
            meaning = "Gradients are masked or the attack is far too short: the encoder is more fragile than it looks."
            return Verdict("fail", finding, meaning, details)
        if warns:
            meaning = "The gradient attack misses some worst cases (masking or local optima); prefer the ensemble."
            return Verdict("warn", finding, meaning, details)
        return Verdict("pass", finding, "No sign of masked gradients.", details)
