"""What did searching in reduced precision cost?"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.core import (
    Attack,
    Ball,
    Check,
    Encoder,
    Examination,
    Images,
    Observation,
    Passes,
    PerImage,
    Rng,
    Search,
    Subject,
    Verdict,
)
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.numerics.geometry.pairwise import pairwise
from holdfast.numerics.geometry.spread import spread
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.checks.shared.search import gain_of, in_words, times_as_far
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class Precision(Check):
    """Compares what searches see and find in reduced precision with float32, on the audit's own images.

    Numbers of an audit are float32 throughout; the precision decides only which images a search ends at. So what counts
    is how much farther the same attack gets in float32, from the same starts, on the same images. A reduced
    representation that is off, by its distance to the float32 one relative to the spread of clean representations, one
    whose nearest neighbour among the clean ones is another, and an objective that is off explain it.

    Without searches (`attack` None) only representations are compared: there is nothing that they could have spoilt.

    Attributes:
        attack: the untargeted attack of the measures; None where none is made.
        ball: its ball.
        examined: images that are represented again, and attacked again in float32.
        warn: median gain of the attack in float32 above which the panel warns: the difference between an attack and one
            with a few more steps.
        fail: the gain above which it fails: `stronger_attack` would warn there.
    """

    doubt = "weak attack in reduced precision"
    invariant = EVERY

    attack: Attack | None = Pgd()
    ball: Ball = Linf()
    examined: int = 16
    warn: float = 0.02
    fail: float = 0.1

    consequence = "one side"
    lasts = True
    place = 31

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether anything was searched along gradients."""
        return any(search.attack.passes.backward for search in searches)

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Audits in reduced precision; the first search along gradients where there is one."""
        if audit.precision == "float32" or not audit.reads_images:
            return ()
        searches = (search for search in audit.searches if not search.smallest)
        along = [search for search in searches if search.attack.passes.backward and search.attack.steps > 1]
        if along:
            return (cls(along[0].attack, along[0].ball, audit.images),)
        return (cls(Pgd() if audit.searches else None, examined=audit.images),)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, and the measures' trajectory."""
        return (Clean(),) if self.attack is None else (Clean(), self._build_observation(self.attack))

    def _build_observation(self, attack: Attack) -> Attacked:
        return Attacked(attack, self.ball, Untargeted(), first=self.examined)

    def own_passes(self, population: int, attacked: int) -> Passes:
        """Each image once; where there is an attack, that in float32 and once more what it found."""
        if self.attack is None:
            return Passes(1) * min(self.examined, population)
        return (Passes(2) + self.attack.passes_in(self.ball)) * min(self.examined, attacked)

    def judge(self, subject: Subject) -> Verdict:
        """Represent images in both precisions, attack them in float32 and compare."""
        encoder, precision = subject.encoder, subject.encoder.precision
        if precision == "float32":
            return Verdict("skip", "searches run in float32", "Nothing to compare.")
        # how far rounding moves representations, and to which neighbours
        count = min(self.examined, subject.attacked if self.attack is not None else subject.population)
        x, clean = subject.batch(0, count), Clean.of(subject).double()
        # Only passes with a gradient run in reduced precision
        drift, moved = _off(_encode_with_grad(encoder, x).cpu().double(), clean)
        details = {
            "n": float(count),
            "drift median": float(drift.median()),
            "drift max": float(drift.max()),
            "neighbours changed": float(moved.double().mean()),
        }
        finding = (
            f"{precision} moves representations by {details['drift median']:.1e} of their spread (median; at most "
            f"{details['drift max']:.1e}), {100 * details['neighbours changed']:.0f} % of {count} to another neighbour"
        )
        if self.attack is None:
            return Verdict("pass", finding, "No search was run; every number is float32.", details)
        # what the search loses: the same attack in float32, and what rounding makes of the value where it ends
        attacked = subject.read(self._build_observation(self.attack))
        # The value at a read-out is evaluated again in float32, so both ends are compared in float32
        searched = attacked["values"][:, self.attack.steps].double()
        float32, rounded = self._float32(subject, x, clean)
        # The objective at one and the same image, in both precisions
        error = float(((rounded - float32).abs() / float32.abs().clamp_min(1e-30)).median())
        gain = gain_of(times_as_far(float32, searched))
        details |= {"objective error median": error, "gain of float32": gain}
        finding += (
            f"; the same attack in float32 gets {in_words(gain)}, and at its end {precision} has the "
            f"objective wrong by {100 * error:.2g} % (both median)"
        )
        if not gain <= self.fail:  # NaN too
            meaning = "This precision hides how fragile the encoder is; search in float32 or a format with more digits."
            return Verdict("fail", finding, meaning, details)
        if gain > self.warn:
            meaning = "Rounding weakens searches a little; search in float32 before relying on small differences."
            return Verdict("warn", finding, meaning, details)
        meaning = "Rounding hardly weakens searches; every reported number is float32."
        return Verdict("pass", finding, meaning, details)

    def _float32(self, subject: Subject, x: Images, clean: Tensor) -> tuple[PerImage, PerImage]:
        """Return what the attack finds in float32 from the same starts, and what it is worth in reduced precision."""
        assert self.attack is not None
        observed = self._build_observation(self.attack)
        goal = observed.objective.pursue(subject.encoder, clean[: len(x)].to(x))
        with subject.encoder.exactly():
            # The same seed and ids, so the same starts as in the observation
            trajectory = self.attack(goal, x, self.ball, Rng(subject.seed, ids=tuple(subject.ids[: len(x)])))
        rounded = observed.objective.of(subject.encoder)(
            _encode_with_grad(subject.encoder, trajectory.images[self.attack.steps]), clean[: len(x)].to(x)
        )
        return trajectory.values[-1].cpu().double(), rounded.cpu().double()


def _encode_with_grad(encoder: Encoder, x: Images) -> Tensor:
    """Return representations as searches see them."""
    with torch.enable_grad():
        return encoder(x.detach().clone().requires_grad_()).detach()


def _off(reduced: Tensor, clean: Tensor) -> tuple[PerImage, Tensor]:
    """Return how far the first representations are off, in units of the spread of all, and whose neighbour changed."""
    exact, own, absent = clean[: len(reduced)], torch.arange(len(reduced)), torch.tensor(torch.inf).double()
    # The image itself is nearest to itself, and left out
    nearest = [pairwise(reps, clean, L2()).index_put((own, own), absent).argmin(1) for reps in (reduced, exact)]
    return (reduced - exact).norm(dim=1) / max(spread(clean), 1e-30), nearest[0] != nearest[1]
