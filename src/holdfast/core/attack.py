"""The worst case from below: attacks, searches for the image of a ball that maximises a goal."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core.encoder import Encoder, Images, Passes
from holdfast.core.objective import Goal
from holdfast.core.own_ball import require_kept, require_one_ball
from holdfast.core.randomness import searching
from holdfast.core.threat import Ball, image_shape
from holdfast.numerics.rng import Rng
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import BadValue, NotFinite
from holdfast.runtime.rounding import PIXELS
from holdfast.runtime.waiting import defer_expectations

TRIAL, BEST = 2, 3
"""Steps of the trial at each place of a ball, and at how many of the best places of each image the attack is made."""


@dataclass(frozen=True)
class Trajectory:
    """What an attack found, at each step count that was asked for.

    Attributes:
        images: the disturbed images at each read-out, step -> [B, C, H, W].
        reps: their representations, step -> [B, D]; no further encoder pass is needed for them.
        values: the objective after 0, 1, ... steps, [steps + 1, B] (of what would be read out there).
        winner: for an ensemble, which member found the strongest image, [B].
    """

    images: dict[int, Tensor]
    reps: dict[int, Tensor]
    values: Float[Tensor, "evaluations batch"]
    winner: Int[Tensor, "batch"] | None = None

    def reevaluate(self, goal: Goal, encoder: Encoder) -> "Trajectory":
        """Return the trajectory with its read-outs evaluated again, where the search saw other values.

        That is in float32 where it ran in less, and by the encoder's own draws where it saw others. One forward pass
        for each read-out. Values between read-outs stay those that the search saw, and so do its choices of the best
        image.

        Args:
            goal: what was maximised.
            encoder: the one that the goal closes over.

        Raises:
            HoldfastError: a representation or a value that is not finite.
        """
        if not encoder.rereads:
            return self
        # one pass for each read-out
        values, reps = self.values.clone(), {}
        for step, images in self.images.items():
            with torch.no_grad():  # the goal alone: nothing is searched
                # In the place of what the search saw at that step
                values[step], reps[step] = goal(images)
            # One look at the device for both
            if not bool(values[step].isfinite().all() & reps[step].isfinite().all()):
                raise NotFinite(
                    f"encoder {encoder.name!r}: expected finite representations of attacked images in float32, got NaN "
                    "or infinity; check its weights and its normalisation"
                )
        return replace(self, reps=reps, values=values)

    def stronger(self, trajectory: "Trajectory") -> "Trajectory":
        """Return the better of two searches of the same images, image by image and step by step."""
        # [steps + 1, B]: which search is ahead after so many steps
        better = trajectory.values > self.values

        def pick(new: Mapping[int, Tensor], old: Mapping[int, Tensor]) -> dict[int, Tensor]:
            # [B] beside images [B, C, H, W] or representations [B, D]
            return {n: torch.where(better[n].view(-1, *[1] * (new[n].ndim - 1)), new[n], old[n]) for n in old}

        winner = None
        if self.winner is not None and trajectory.winner is not None:
            winner = torch.where(better[-1], trajectory.winner, self.winner)  # by the values at the end
        images, reps = pick(trajectory.images, self.images), pick(trajectory.reps, self.reps)
        return Trajectory(images, reps, torch.maximum(self.values, trajectory.values), winner)


def _of_pixels(search: Callable[..., "Trajectory"]) -> Callable[..., "Trajectory"]:
    """Return a search that refuses images outside [0, 1], whose draws are its own, and that goes to the best places."""

    @wraps(search)
    def call(
        self: "Attack", goal: Goal, x: Tensor, ball: Ball, rng: Rng, *arguments: Any, **named: Any
    ) -> "Trajectory":
        # Both ends in one pass over the pixels
        low, high = (float(end) for end in x.aminmax()) if x.numel() else (0.0, 1.0)
        if not -PIXELS <= low <= high <= 1 + PIXELS:  # NaN is neither
            raise BadValue(
                f"attack: expected pixels in [0, 1], got values from {low:.4g} to {high:.4g}; divide bytes by 255, and "
                "leave normalisation to the encoder"
            )
        # Draws of the encoder are those of a search, and what must be finite on a device is judged at its end
        with searching(rng), defer_expectations():
            best: Trajectory | None = None
            for rank, at in enumerate(self.at_places(goal, x, ball, rng, BEST)):
                # The best place keeps the stream itself, which is that of a ball of one place
                trajectory = search(self, goal, x, at, rng.child("place", rank) if rank else rng, *arguments, **named)
                best = trajectory if best is None else best.stronger(trajectory)
            assert best is not None  # every ball has a place
        for images in best.images.values():
            require_kept(self, ball, x, images)
        return best

    return call


class Attack(metaclass=Checked):
    """A search for the image in a ball that maximises a goal: the worst case from below; a frozen dataclass."""

    steps: int

    def __init_subclass__(cls, **named: Any) -> None:
        """Let every attack refuse images that are none, and search at the best places of each image."""
        super().__init_subclass__(**named)
        # Only in the class that defines the call: one that inherits it would wrap it twice
        if "__call__" in vars(cls):
            cls.__call__ = _of_pixels(cls.__call__)  # pyright: ignore[reportAttributeAccessIssue]

    @abstractmethod
    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        """Attack every image of a batch.

        Args:
            goal: what to maximise, see `Objective.pursue`.
            x: clean images in [0, 1].
            ball: the images the adversary may choose from.
            rng: random numbers bound to the ids of these images.
            readouts: step counts to report, each at most `steps`; the last step when empty.
        """

    def worst(self, goal: Goal, x: Images, ball: Ball, rng: Rng) -> Images:
        """Return the attacked images alone; an attack that need not know what they are worth spares that pass."""
        return self(goal, x, ball, rng).images[self.steps]

    @property
    @abstractmethod
    def passes(self) -> Passes:
        """Encoder passes that one image costs in a ball that has one place."""

    def passes_in(self, ball: Ball) -> Passes:
        """Encoder passes that one image costs in a ball: at its best places, and to choose them."""
        return self.passes * min(BEST, ball.places) + self.choosing(ball)

    def trial(self, steps: int) -> "Attack":
        """Return the cheap attack that tells how much a place of the ball is worth: by default the attack itself.

        It must not depend on the number of this attack's steps.
        """
        return self

    def refine(self, ball: Ball) -> "Attack":
        """Return the same search in more and smaller steps; itself where it has no step that could be smaller."""
        return self

    def at_places(self, goal: Goal, x: Images, ball: Ball, rng: Rng, count: int = 1) -> list[Ball]:
        """Return the ball at the places of each image where a trial of a few steps gets farthest, the best one first.

        In a union of balls a search that may change its place on its way loses what it has gained at every change, so
        places are chosen before.

        Args:
            goal: what to maximise.
            x: clean images in [0, 1].
            ball: where to search; one that has a single place is returned as it is.
            rng: random numbers bound to the ids of these images.
            count: how many places.

        Raises:
            HoldfastError: a ball of a user's own whose methods mean different balls.
        """
        # Every search begins here, also those for the attacked images alone
        require_one_ball(ball, image_shape(x))
        if ball.places == 1:
            return [ball]
        reached, trial = [], self.trial(TRIAL)
        # A short trial at every place, of all images together
        for place in range(ball.places):
            at = ball.fix_place(torch.tensor([place], device=x.device))
            reached.append(trial(goal, x, at, rng.child("trial", place)).values[-1])
        # [places, B]; stable, so that of equal places the first one wins everywhere
        order = torch.stack(reached).argsort(dim=0, descending=True, stable=True)
        # A row [B] is the place of one rank, another one for each image
        return [ball.fix_place(numbers) for numbers in order[:count]]

    def choosing(self, ball: Ball) -> Passes:
        """Encoder passes that `at_places` costs one image."""
        return self.trial(TRIAL).passes * ball.places if ball.places > 1 else Passes()

    @property
    def members(self) -> "tuple[Attack, ...]":
        """The attacks that it consists of: itself, unless it is several."""
        return (self,)

    def reach(self, ball: Ball, steps: int | None = None) -> float:
        """Share of a ball that its steps can cross: their total length / the longest way from a start.

        Below 1 there are images of the ball that it cannot reach from every start, however much worse they are, so what
        it finds says little about the ball. The length of the steps is that of the ball's norm, and the longest way is
        2 ε from a random point of the ball, ε from the image itself.

        Args:
            ball: where it searches.
            steps: how many of its steps; all where None.

        Returns:
            a share; inf where no step size limits the search, and for attacks that do not say.
        """
        return math.inf

    def crosses(self, ball: Ball, steps: int | None = None) -> bool:
        """Whether its steps carry it from any start to any image of a ball, see `reach`."""
        return self.reach(ball, steps) > 1 - 1e-9  # a share of 1 may have been rounded down

    def canonicalise_prefix(self) -> "Attack":
        """The attack that stands for all whose trajectories begin alike: those with equal prefixes share one run."""
        return self

    def truncate(self, steps: int) -> "Attack":
        """Return the attack whose whole trajectory is the first `steps` of this one; itself where there is none."""
        return self

    def label(self, step: int) -> str:
        """Name of the read-out at `step` in tables."""
        return f"{step} step{'s' if step != 1 else ''}"
