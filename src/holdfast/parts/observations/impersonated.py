"""Impersonated: images of two classes, each given the other's representation, and what an unseen probe says of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, cast

import torch
from jaxtyping import Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import (
    Album,
    Attack,
    Ball,
    Goal,
    Head,
    Images,
    LinearProbe,
    Objective,
    Observation,
    Passes,
    Rng,
    Search,
    Shard,
    Trajectory,
)
from holdfast.core.registry import part_name
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.label_sets import LabelSet, apart, labels_of, predict_membership, sides
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Conflict, NotEnough, no_labels

GALLERY = 6
"""Pairs, the first ones, whose attacked images are kept as pictures."""


@dataclass(frozen=True)
class Impersonated(OfFirst):
    """max -d(f(x'), f(t)) for pairs (x, t) of two classes, and whether a head h on f then gives the class of t.

    A class may be a set of labels: h gives it where its best label is of the set. And h may be learned on images with
    labels of other kinds, which `known_as` says: cats and dogs, and a head of the 1,000 classes of ImageNet.

    The i-th image of one class is paired with the i-th of the other, of those that h classifies rightly, in the order
    of the population, which is random; each is attacked towards the other. The attack knows the encoder alone: h only
    chooses the images and judges the results.

    With `restart` each read-out begins a search of its own in the ball around the image that the one before has ended
    at, without a random start, as in the authors' code: images then leave the ball around the clean one, by as much as
    there are read-outs, and which read-outs are asked for changes them.

    Returns, [M] each, -1 or NaN where an image has no partner: `partner`, its position; `pair`, the pair's number;
    `taken@STEP`, 1 where h gives the partner's class (a tie is not one), for every read-out; `said`, the class that h
    gives after the last one; `moved@STEP`, how far the image is from the clean one, in the ball's norm, where the
    search was restarted. Also `right` [M], whether h knows the image, NaN for other classes; and, of the first pairs,
    `gallery.image` and `gallery.position`, the images that the attack ended at.

    Attributes:
        attack: how to search.
        ball: where to search.
        objective: what to maximise; its divergence is free.
        readouts: step counts to report; they cost nothing. The last step when empty.
        classes: the two classes of images, each a label or a set of them, "3-5, 9".
        known_as: what training images that are given apart call the two, likewise; none: they call them the same.
        probe: how the head comes about; trained on images that are not attacked.
        restart: whether the ball is laid around the attacked image again at every read-out.

    Source: Petrov & Kwiatkowska (2022), appendices C.11 and D.
    """

    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.1)
    objective: Objective = Targeted()
    readouts: tuple[int, ...] = ()
    classes: tuple[LabelSet, LabelSet] = (0, 1)
    probe: LinearProbe = Linear()
    known_as: tuple[LabelSet, ...] = ()
    restart: bool = False

    reads_labels = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for sets in (self.classes, self.known_as or self.classes):
            if not apart(sets):
                raise BadValue(f"impersonated: expected two different classes, got {list(sets)}")
        if not isinstance(self.objective, Targeted):
            raise BadValue(f"impersonated: expected the objective targeted, got {part_name(self.objective)}")
        if any(not 0 <= step <= self.attack.steps for step in self.readouts):
            raise BadValue(
                f"impersonated: expected read-outs from 0 to {self.attack.steps} steps of the attack, got "
                f"{list(self.readouts)}"
            )
        if self.restart and not (isinstance(self.attack, Pgd) and self.attack.step_size and min(self.steps) > 0):
            raise Conflict(
                "impersonated: expected pgd with a step_size, and read-outs from 1 step on, where it restarts, got "
                f"{part_name(self.attack)} and {list(self.steps)}; restart = false searches one ball with any attack"
            )

    def key(self) -> Observation:
        """Read-outs, images, and steps beyond those of another do not change an image's trajectory."""
        if self.restart:  # there read-outs do
            return replace(self, attack=self.attack.truncate(max(self.steps)), readouts=self.steps, first=None)
        return replace(self, attack=self.attack.canonicalise_prefix(), readouts=(), first=None)

    def join(self, twin: Observation) -> Observation:
        """Read out wherever either does, on as many images as the larger one needs."""
        joined = super().join(twin)
        assert isinstance(twin, Impersonated)  # equal keys
        assert isinstance(joined, Impersonated)
        attack = max(self.attack, twin.attack, key=lambda attack: attack.steps)
        readouts = tuple(sorted({*self.steps, *twin.steps}))
        return replace(joined, attack=attack, readouts=readouts)

    @property
    def steps(self) -> tuple[int, ...]:
        """The read-outs, the last step when none are asked for."""
        return self.readouts or (self.attack.steps,)

    @property
    def names(self) -> tuple[LabelSet, ...]:
        """What the head calls the two classes."""
        return self.known_as or self.classes

    @property
    @override
    def title(self) -> str:
        attack = f"{part_name(self.attack)}, {self.attack.steps} steps, {self.ball.title}"
        source, target = self.classes
        anew = ", the ball laid anew at every read-out" if self.restart else ""
        return f"impersonations, classes {source} and {target} ({part_name(self.probe)}): {attack}{anew}"

    @property
    def searches(self) -> tuple[Search, ...]:
        """The one that it makes, from image to image of two classes."""
        return (Search(self.attack, self.ball, self.objective),)

    @property
    def passes(self) -> Passes:
        """Those of the attack, up to the last read-out; nothing for images that are in no pair."""
        return sum((leg.passes_in(self.ball) for leg in self._legs), Passes())

    @property
    def _legs(self) -> list[Attack]:
        """The searches that follow each other: one, or where it restarts one up to each read-out."""
        if not self.restart:
            return [self.attack.truncate(max(self.steps))]
        steps = sorted({*self.steps})
        first, *later = (self.attack.truncate(end - begin) for begin, end in pairwise([0, *steps]))
        return [first, *(replace(cast("Pgd", leg), start="image") for leg in later)]

    @property
    def reevaluations(self) -> int:
        """Every read-out."""
        return len(self.steps)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Attack the paired images of one shard.

        Raises:
            HoldfastError: images without labels, or a class that no image has.
        """
        if shard.labels is None or shard.head is None or shard.clean is None:
            raise no_labels("the observation impersonated", "the source of images")
        # pair the i-th image of one class that the head gets right with the i-th of the other, in the whole population
        head = shard.head(self.probe, classes_apart=True) if self.known_as else shard.head(self.probe)
        labels, clean = shard.labels, shard.clean
        right = self._right(head, labels, clean)
        pairs = self._pairs(labels, right)
        partner = torch.full((len(labels),), -1)
        pair = partner.clone()
        # [P, 2] positions: the partner of each half is the other one,
        # and both have the pair's number
        partner[pairs], pair[pairs] = pairs.flip(1), torch.arange(len(pairs))[:, None].expand(-1, 2)
        at = shard.positions
        results = {"partner": partner[at], "pair": pair[at], "right": right[at], "said": torch.full_like(at, -1)}
        results |= {f"taken@{step}": torch.full(at.shape, torch.nan, dtype=torch.float64) for step in self.steps}
        results |= {"gallery.image": shard.x[:0].cpu(), "gallery.position": at[:0]}
        rows = (results["partner"] >= 0).nonzero().flatten()
        if not len(rows):
            return results
        # attack every paired image of the shard towards the clean representation of its partner
        own, partners = at[rows], partner[at][rows]
        # Partners may be in other shards, so they are found among all clean representations
        goal = self.objective.pursue(shard.encoder, clean[own].to(shard.x.device), clean[partners].to(shard.x.device))
        rng = shard.rng.at([shard.rng.ids[row] for row in rows.tolist()])
        trajectory = self._search(goal, shard.x[rows], rng).reevaluate(goal, shard.encoder)
        if self.restart:
            for step, images in trajectory.images.items():
                moved = torch.full(at.shape, torch.nan, dtype=torch.float64)
                moved[rows] = self.ball.size(images - shard.x[rows]).cpu().double()
                results[f"moved@{step}"] = moved
        # whether the head takes it for its partner's class, at each read-out; pictures of the first pairs
        target = sides(labels[partners], self.classes)
        for step, reps in trajectory.reps.items():
            # Whether the head says the first, and the second class; each image is
            # asked about that of its partner
            taken = [predict_membership(head, reps.cpu(), names) for names in self.names]
            results[f"taken@{step}"][rows] = torch.where(target == 0, *taken).double()
        last = max(trajectory.reps)
        results["said"][rows] = head.classes[head.scores(trajectory.reps[last].cpu()).argmax(1)]
        shown = results["pair"][rows] < GALLERY
        return results | {"gallery.image": trajectory.images[last].cpu()[shown], "gallery.position": own[shown]}

    @property
    def shows(self) -> Literal["impersonations"]:
        """The first pairs, before and after."""
        return "impersonations"

    def pictures(self, results: Mapping[str, Tensor], album: Album) -> list[dict[str, Any]]:
        """Leave pictures of the first pairs.

        The entry holds the attack's title, its classes, and for each class the pictures `clean` and `attacked` of its
        half of every pair, in one order, with the class that the probe gives the attacked image, and whether that is
        the other one.
        """
        name = f"pictures/{album.slug}/pair-{album.number}"
        images = dict(zip(results["gallery.position"].tolist(), results["gallery.image"], strict=True))
        labels, pairs = album.labels, []
        assert labels is not None  # the observation needs them too
        of = sides(labels, self.classes)
        for own, target in enumerate(self.names[::-1]):
            side = []
            for position in sorted(images):  # the i-th of one class is paired with the i-th of the other
                if of[position] != own or int(results["partner"][position]) not in images:
                    continue
                files = {kind: f"{name}-{position}-{kind}.png" for kind in ("clean", "attacked")}
                album.files.write_picture(files["clean"], album.picture(position))
                album.files.write_picture(files["attacked"], images[position])
                heard = int(results["said"][position])
                side.append({"id": album.ids[position], "said": heard, "taken": heard in labels_of(target)} | files)
            pairs.append(side)
        return [{"title": self.title, "classes": list(self.classes), "sides": pairs}]

    def _search(self, goal: Goal, x: Images, rng: Rng) -> Trajectory:
        """Return the images at every read-out."""
        first, *later = self._legs
        if not self.restart:
            return first(goal, x, self.ball, rng, self.steps)
        found = first(goal, x, self.ball, rng)
        for leg in later:
            done = max(found.images)
            further = leg(goal, found.images[done], self.ball, rng.child("leg", done))
            # The first of its values is the last one before
            values = torch.cat([found.values, further.values[1:]])
            end = done + leg.steps
            found = Trajectory(
                found.images | {end: further.images[leg.steps]}, found.reps | {end: further.reps[leg.steps]}, values
            )
        return found

    def _right(self, head: Head, labels: Int[Tensor, "population"], clean: Tensor) -> Tensor:
        """Return which images of the two classes the head knows, 1 or 0; NaN for other classes."""
        right = torch.full(labels.shape, torch.nan, dtype=torch.float64)
        # 0 and 1 for images of the two classes, -1 for others
        of = sides(labels, self.classes)
        for side, name in enumerate(self.classes):
            members = of == side
            if not members.any():
                raise NotEnough(
                    f"impersonated: expected images of the classes {self.classes[0]} and {self.classes[1]}, got none "
                    f"of class {name} among {len(labels)}; choose two of {labels.unique().tolist()[:10]}"
                )
            right[members] = predict_membership(head, clean[members], self.names[side]).double()
        return right

    def _pairs(self, labels: Int[Tensor, "population"], right: Tensor) -> Int[Tensor, "pairs 2"]:
        """Return the positions of the pairs of the whole population, so that they depend on no shard."""
        of = sides(labels, self.classes)
        rows = [((of == side) & (right == 1)).nonzero().flatten() for side in (0, 1)]
        # The rest of the larger class has no partner
        count = min(map(len, rows))
        return torch.stack([side[:count] for side in rows], 1)
