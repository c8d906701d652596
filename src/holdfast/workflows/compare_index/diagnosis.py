"""What makes two builds of one network differ: found by making each usual mistake on one side, and looking again.

1. What the vectors show by themselves, see `flaws`: no pass is needed.
2. A few images are shown to one encoder with each mistake made on their way in. The one that brings its vectors nearest
   to the other's is kept, and the others are tried on top of it, or in place of one of its family.
3. What was found is tried on other images, which did not serve to find it: most of them must be half as far apart.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Encoder, HoldfastError, Images
from holdfast.numerics.geometry.directions import cosine
from holdfast.numerics.shapes import Reps
from holdfast.numerics.statistics.statistic import Share
from holdfast.runtime.errors import Mismatch
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener
from holdfast.sources.encoders import destination_of
from holdfast.storage.index_upgrade import Both, Cause, Diagnosis
from holdfast.workflows.compare_index.cosines import median_cosine
from holdfast.workflows.compare_index.encoders import Side, reopen
from holdfast.workflows.compare_index.flaws import MOST, SideName, flaws, is_constant
from holdfast.workflows.compare_index.mistakes import Mistake, render, represent, usual_mistakes
from holdfast.workflows.compare_index.plan import IndexPlan

LOOKED_AT, COUNTED = 8, 40
"""Images that serve to find what explains the difference, and others by which it is judged."""

STEP = 0.8
"""What the first of two mistakes leaves of the difference at most; both together leave half of it."""

ALIKE = 1e-3
"""Median of 1 - cosine that rounding, fusing and another order of sums stay below: there is nothing left to explain."""

SIDES: tuple[SideName, SideName] = ("old", "new")

Distances = Float[Tensor, "images"]


@dataclass
class _Trial:
    """One encoder, and what the other one makes of the same images."""

    encoder: Encoder
    side: Side
    target: Reps
    batch: int
    made: int = 0
    tried: list[str] = field(default_factory=list)

    def render(self, mistakes: Sequence[Mistake], places: range) -> Images:
        """Return images as the encoder gets them with the mistakes, rendered anew: one may be of resizing."""
        with foreign(f"encoder {self.side.entry.name!r}", "run", wrap=True):
            return render(self.encoder, self.side.images, places, mistakes)

    def distances(self, x: Images, places: range) -> Distances:
        """Return 1 - cosine of the vector of each rendered image and the other encoder's."""
        with foreign(f"encoder {self.side.entry.name!r}", "run", wrap=True):
            self.made += len(x)
            reps = represent(self.encoder, x, self.batch)
        if reps.shape != self.target[places].shape or not reps.isfinite().all():
            raise Mismatch("expected vectors of the same length, all finite")
        return cosine(reps, self.target[places])


def diagnose(
    plan: IndexPlan,
    sides: tuple[Side, Side],
    opened: Mapping[str, Encoder],
    stored: Collection[str],
    listener: Listener,
) -> Diagnosis:
    """Return what explains that two encoders give other vectors, found by making mistakes on one side.

    Args:
        plan: what is compared.
        sides: what the old and the new encoder make of the images.
        opened: encoders that were given, by their names.
        stored: sides that are stored vectors: there is no encoder to show anything to.
        listener: hears how far it is.
    """
    listener.stage("looking for what makes them differ")
    found = diagnose_vectors(*(side.represented.reps for side in sides))
    causes, names, tried = list(found.causes), list[str](), [0, 0]
    if not found.why:
        encoders = [None if spec in stored else reopen(plan, spec, opened.get(spec)) for spec in (plan.old, plan.new)]
        # The old one first: what was trained is the yardstick more often than not
        for place, side in enumerate(SIDES):
            # Services cost money: the mistakes are made on the other side alone
            if (encoder := encoders[place]) is None or destination_of((plan.old, plan.new)[place]) is not None:
                continue
            target = sides[1 - place].represented.reps
            trial = _Trial(encoder, sides[place], target, plan.batch_size or LOOKED_AT)
            images = sides[place].images, sides[1 - place].images
            mistakes = usual_mistakes(encoder, encoders[1 - place], images)
            cause = _search(trial, mistakes, side, listener)
            names += [name for name in trial.tried if name not in names]
            tried[place] = trial.made
            if cause is not None:
                causes.append(cause)
                break
    # What is left is rounding, where one of them is quantised
    causes += _arithmetic(sides)
    return Diagnosis(causes=causes, tried=names, why=found.why, passes=Both(old=tried[0], new=tried[1]))


def diagnose_vectors(old: Reps, new: Reps) -> Diagnosis:
    """Return what the vectors of both sides show by themselves, and why nothing more need be tried.

    Args:
        old: vectors of the old encoder, [N, D], of which the first ones are looked at.
        new: of the new one, [N, D'].
    """
    old, new = (reps[:MOST].double() for reps in (old, new))
    causes = flaws(old, new)
    return Diagnosis(causes=causes, tried=[], why=_needless(old, new, causes), passes=Both(old=0, new=0))


def _needless(old: Reps, new: Reps, causes: Sequence[Cause]) -> str:
    """Return why no mistake has to be tried; "" where one has."""
    if old.shape != new.shape:
        return "their vectors have other lengths, so that none says how near the other one it comes"
    if float(cosine(old, new).median()) < ALIKE:
        return f"their vectors are the same but for {'what is said of them' if causes else 'rounding'}"
    evident = any(cause.cosine is not None and 1 - (cause.cosine.value or 0) < ALIKE for cause in causes)
    if evident or is_constant(old) or is_constant(new):
        return "the vectors themselves show what is the matter"
    return ""


def _search(trial: _Trial, mistakes: Sequence[Mistake], side: SideName, listener: Listener) -> Cause | None:
    """Return the mistakes that together explain the other side's vectors; None where none does."""
    count = len(trial.target)
    # At most half of the images serve to find it
    looked = range(min(LOOKED_AT, count // 2))
    before = cosine(trial.side.represented.reps, trial.target)
    found: list[Mistake] = []
    left = float(before[looked].median())
    while left > ALIKE:
        best, less = None, STEP * left
        base = trial.render(found, looked)
        for mistake in mistakes:
            if mistake in found:
                continue
            listener.stage(f"looking for what makes them differ: {mistake.name}?")
            # In place of what was found of its family: the first may have been the nearest thing to two together
            together = [*(made for made in found if made.family != mistake.family), mistake]
            try:
                x = trial.render(together, looked)
                # Another filter does nothing to pictures of the input's size, nor another crop to square ones
                if torch.equal(x, base):
                    continue
                trial.tried += [mistake.name] if mistake.name not in trial.tried else []
                now = float(trial.distances(x, looked).median())
            except HoldfastError:  # images of another size, numbers beyond what it takes: then it is not this
                continue
            if now < less:
                best, less = together, now
            if now < ALIKE:
                break
        if best is None:
            break
        found, left = best, less
    if not found:
        return None
    # On images that did not serve to find it
    others = range(len(looked), min(len(looked) + COUNTED, count))
    after = trial.distances(trial.render(found, others), others)
    halved = Share((after < before[others] / 2).double()).score()
    # More than half of all images, not of these alone
    if halved.low is None or halved.low <= 0.5:
        return None
    return Cause(
        kind="images",
        side=side,
        name=", and ".join(mistake.name for mistake in found),
        cosine=median_cosine(1 - after),
        before=median_cosine(1 - before[others]),
    )


ARITHMETIC = "quantised"
"""The entry of an encoder's origin that says how its numbers are rounded, where they are."""


def _arithmetic(sides: tuple[Side, Side]) -> list[Cause]:
    """Return in which numbers each computes, where that is not the same."""
    # Stated by whoever opened the file: nothing is tried
    said = [side.entry.origin.get(ARITHMETIC, "") for side in sides]
    if said[0] == said[1]:
        return []
    return [Cause(kind="arithmetic", side=side, name=words) for side, words in zip(SIDES, said, strict=True) if words]
