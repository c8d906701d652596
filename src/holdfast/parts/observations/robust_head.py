"""A robust linear head, learned on attacked training images through the frozen encoder."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Images, Observation, Passes, Positions, Scope, Score, Shard, Threat
from holdfast.core.registry import part_name
from holdfast.numerics.gaussian_classes import synbench
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.parts.observations.shared.training import OfTraining
from holdfast.parts.probes.robust_linear import RobustLinear, together
from holdfast.runtime.errors import BadValue, Missing, NotEnough, Unsupported, no_labels

BLOCK = 2**25
"""Pixel values of training images that are kept in memory, about (128 MiB); of more, each batch is read anew."""

KEPT = 2**34
"""Bytes that representations under attack may take, 16 GiB."""


@dataclass(frozen=True)
class RobustHead(OfTraining):
    """What a robust linear probe learns from the training images, as they are or disturbed like those of the test.

    Tensors: `weights` [C, D], `bias` [C] and `classes` [C]; `radius` [], of the ball in pixels; `loss` and `bound`
    [epochs], what the head of each epoch loses under attack and the least that any head loses to what was found so far,
    in nats (none for a radius of 0, which needs no attack). The attacks' random numbers belong to the epoch and the
    image, so what is read or attacked together changes nothing.

    Attributes:
        probe: how the head comes about.
        threat: what befalls the images before they are attacked; None: nothing. Of a noise, one draw for each image.

    Source: Ko et al. (2022), appendix D.
    """

    probe: RobustLinear = RobustLinear()
    threat: Threat | None = None

    reads_labels = True
    scope = Scope.ALL_TRAINING

    def __post_init__(self) -> None:
        if not isinstance(self.probe.chosen_by, Mixtures | None):
            raise BadValue(
                f"robust_head: chosen_by: expected the observation mixtures, got {part_name(self.probe.chosen_by)}"
            )

    @property
    def reads(self) -> tuple[Observation, ...]:
        """What must be observed first, in this order."""
        mixtures = self.probe.chosen_by
        return () if mixtures is None else (*mixtures.reads, mixtures)

    @property
    @override
    def title(self) -> str:
        ball, attack = self.probe.ball, self.probe.attack
        size = "arg max SynBench" if self.probe.chosen_by is not None else f"≤ {ball.radius_text}"
        training = f"{self.probe.epochs} epochs, {part_name(attack)}, {attack.steps} steps, {ball.norm} {size}"
        return f"robust probing, {training}" + ("" if self.threat is None else f": {self.threat.title}")

    @property
    def adaptive(self) -> bool:
        """Its last epoch is the one after which no head would lose much less, see `RobustLinear`."""
        return True

    @property
    def passes(self) -> Passes:
        """One forward pass, and an attack in each epoch: the most that an image can cost, see `RobustLinear`."""
        return Passes(forward=1) + self.probe.attack.passes_in(self.probe.ball) * self.probe.epochs

    @property
    def reevaluations(self) -> int:
        """The image that the attack of each epoch ends at."""
        return self.probe.epochs

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Learn the head.

        Raises:
            HoldfastError: images without labels or of one class, or what the probe raises.
        """
        if shard.labels is None or shard.others is None:
            raise no_labels("robust probing", "the training images")
        radius, count = self._radius(shard), len(shard.labels)
        self._check_memory(shard, count, radius)
        images = self._images(shard)
        # The encoder is frozen, so clean representations are made once, for all epochs
        with torch.no_grad():
            parts = torch.arange(count).split(together(shard.x))
            reps = torch.cat([shard.encoder(images(places)).float().cpu() for places in parts])
        head, course = self.probe.learn_through(shard.encoder, images, reps, shard.labels, shard.rng, radius)
        learned = {"weights": head.weights, "bias": head.bias, "classes": head.classes}
        return learned | {"radius": torch.tensor(radius, dtype=torch.float64)} | course

    def _check_memory(self, shard: Shard, count: int, radius: float) -> None:
        """Refuse what could not be kept, before an encoder pass is made."""
        dim = 0 if shard.clean is None else shard.clean.shape[1]
        # float64: the clean version and one of each epoch, with a 1 for the bias behind each row
        need = 8 * count * (self.probe.epochs + 1) * (dim + 1)
        if radius > 0 and need > KEPT:
            most = KEPT // (8 * (self.probe.epochs + 1) * (dim + 1))
            raise NotEnough(
                f"robust probing keeps the representations of every attack: {count:,} images of {dim} dimensions and "
                f"{self.probe.epochs} epochs take {need / 2**30:.0f} GiB, expected at most {KEPT / 2**30:.0f}; give "
                f"{most:,} training images (--train-images) or fewer epochs"
            )

    def _radius(self, shard: Shard) -> float:
        """Return the radius of the ball, in pixels."""
        if not isinstance(self.probe.chosen_by, Mixtures):
            return self.probe.ball.radius
        if shard.read is None:
            raise Missing("robust_head: its mixtures must be observed before")
        # SynBench, Table 3: robust probing with the ε whose score is the highest
        best = _best(self.probe.chosen_by, shard.read(self.probe.chosen_by), self.probe.threshold)
        if best.value is None:
            raise Unsupported(
                f"{part_name(self)}: expected an ε with a SynBench score above 0, got none: {best.note}; give the "
                "probe a ball of its own and no chosen_by"
            )
        return best.value

    def _images(self, shard: Shard) -> Callable[[Positions], Images]:
        """Return what gives training images, disturbed, by their places; images that fit in memory are read once."""
        others, rng = shard.others, shard.rng.child("training")
        assert others is not None

        def read(places: Positions) -> Images:
            x = others(places)
            if self.threat is None:
                return x
            # By id: what is read together changes no draw
            own = rng.at([shard.rng.ids[place] for place in places.tolist()])
            return shard.disturb(self.threat, own, x, places)

        count = len(shard.rng.ids)
        # Too many to hold: read, and disturbed alike, whenever they are asked for
        if count * shard.x[0].numel() > BLOCK:
            return read
        disturbed = torch.cat([read(places) for places in torch.arange(count).split(together(shard.x))])
        return disturbed.__getitem__


def _best(mixtures: Mixtures, observed: dict[str, Tensor], threshold: float) -> Score:
    """Return arg max_ε of the SynBench score at a threshold accuracy."""
    shape, names = (mixtures.directions, len(mixtures.separations)), ("accuracy", "bound")
    tried = []
    for number, epsilon in enumerate(mixtures.epsilons):
        # [K, S, H] for K directions, S separations and H halves; the reference has no halves
        fitted = (observed[name][..., number].view(*shape, mixtures.halves) for name in names)
        ideal = (observed[f"reference_{name}"][..., number].view(shape) for name in names)
        separations = observed["s"].view(shape)[0]
        tried.append((epsilon, synbench.TradeOff(separations, *fitted, *ideal, samples=mixtures.samples)))
    return synbench.best(tried, threshold)
