"""How far a search gets on the first images of an audit: what the checks of searches compare."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import Attack, Ball, Check, Examination, Failure, Objective, Observation, PerImage, Search, Subject
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked, partners
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import trajectories
from holdfast.parts.threats.linf import Linf

MOST = 1e3
"""By how many times one search can get as far as another at most: beyond, the other gets nowhere."""


@dataclass(frozen=True)
class SearchCheck(Check):
    """A check of one search; where it fails, what relies on that search is a bound on one side.

    Attributes:
        attack: how it searches.
        ball: where, in pixels of a [0, 1] image.
        objective: what it maximises, or the failure that it seeks.
        examined: images on which it is examined, the first ones.
    """

    attack: Attack = Pgd()
    ball: Ball = Linf()
    objective: Objective | Failure = Untargeted()
    examined: int = 16

    consequence = "one side"

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every search in a ball that numbers rely on."""
        searches = (search for search in audit.searches if not search.smallest)
        return tuple(check for search in searches for check in cls.checks_of(search, audit))

    @classmethod
    def checks_of(cls, search: Search, audit: Examination) -> tuple[Check, ...]:
        """Return the checks of this kind that belong to one search."""
        return (cls(search.attack, search.ball, search.objective, audit.images),)

    @property
    def search(self) -> Search:
        """The search that it examines."""
        return Search(self.attack, self.ball, self.objective)


def follows_gradients(search: Search, ball: Ball) -> bool:
    """Return whether a search in balls of the same norm follows gradients, and nothing else beside them."""
    return type(search.ball) is type(ball) and all(member.passes.backward for member in search.attack.members)


def runs(search: Search, first: int) -> tuple[Observation, ...]:
    """Return the observations that show how far a search gets: its trajectories (those of an ensemble's members)."""
    if isinstance(search.objective, Failure):
        return (Broken(search.attack, search.ball, search.objective, first=first),)
    return trajectories(search.attack, search.ball, search.objective, (search.attack.steps,), first)


def rise(subject: Subject, search: Search, first: int) -> Float[Tensor, "images evaluations"]:
    """Return how far above its value at the images themselves a search brings the objective, after 0, 1, ... steps.

    Of an ensemble only the end is known, as the furthest member's; there is then one column.
    """
    runs_of = runs(search, first)
    curves = [_curve(subject, observation) for observation in runs_of]
    # Members have steps of their own, so that only their ends can be compared
    if isinstance(search.attack, Ensemble):
        return torch.stack([curve[:, -1] for curve in curves]).amax(0)[:, None]
    return curves[0]


def find_broken(subject: Subject, search: Search, first: int) -> Bool[Tensor, "images"]:
    """Return which images a search for a failure makes fail; `rise` is for objectives."""
    (observation,) = runs(search, first)
    return subject.read(observation)["value"] > 0


def times_as_far(rise: PerImage, other: PerImage) -> PerImage:
    """Return how many times as far as another a search gets, at most `MOST`; 1 where neither gets anywhere.

    Example:
        >>> times_as_far(torch.tensor([3.0, 1.0, 0.0]), torch.tensor([2.0, 0.0, 0.0])).tolist()
        [1.5, 1000.0, 1.0]
    """
    # Where the other gets nowhere the quotient is huge, and is cut at MOST
    nowhere = (rise <= 0) & (other <= 0)
    times = rise / other.clamp_min(torch.finfo(other.dtype).tiny)
    return times.masked_fill(nowhere, 1.0).clamp_max(MOST)


def gain_of(times: PerImage) -> float:
    """Return the median gain of one search over another; see `times_as_far`."""
    return float(times.median()) - 1


def in_words(gain: float) -> str:
    """Return by how much farther a search gets: "+10.3 % farther"; of one that gets nowhere no percentage is said.

    Example:
        >>> in_words(0.103), in_words(MOST - 1)
        ('+10.3 % farther', 'at least 1,000 times as far')
    """
    return f"{100 * gain:+.1f} % farther" if gain < MOST - 1 else f"at least {MOST:,.0f} times as far"


def by(search: Search, attack: Attack) -> Search:
    """Return the same search by another attack."""
    return replace(search, attack=attack)


def _curve(subject: Subject, observation: Observation) -> Float[Tensor, "images evaluations"]:
    observed = subject.read(observation)
    if isinstance(observation, Broken):
        # Of a failure its value at the clean image
        return observed["values"].double() - observed["clean"][:, None]
    assert isinstance(observation, Attacked)  # the other kind of `runs`
    # The run may be shared with a longer attack, whose further steps are not this one's
    values = observed["values"][:, : observation.attack.steps + 1].double()
    clean, own = Clean.of(subject).double(), torch.arange(len(values))
    # What the objective is at the images themselves is where every attack begins
    target = clean[partners(own)] if observation.objective.needs_target else None
    return values - observation.objective.of(subject.encoder)(clean[own], clean[own], target).double()[:, None]
