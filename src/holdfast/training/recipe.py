"""The recipe of a training: everything that decides its weights."""

import contextlib
import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from holdfast.core import Ball, HoldfastError, Method, Threat, registry
from holdfast.numerics.geometry.views import Views
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import BadValue, Conflict, Missing, unknown
from holdfast.training.adversary import Adversary
from holdfast.training.certified import Certified
from holdfast.training.lora import Lora
from holdfast.training.optimiser import Optimiser

PRECISIONS = ("no", "bf16", "fp16")
BATCHNORMS = ("shared", "frozen", "split")


@dataclass(frozen=True)
class Recipe(metaclass=Checked):
    """Everything that decides the weights, and how the training is run.

    Attributes:
        encoder: spec of the network and the weights it begins with, see `holdfast.sources.encoders`.
        data: data spec of the images to learn from, see `holdfast.sources.data`.
        method: what is learned from them.
        images: how many of them, chosen by the seed; None: all.
        seed: the one seed of the training.
        epochs: passes over the images.
        after: epochs of an earlier training that this one ends: rate, twin and all that follows a schedule begin where
            these have come to, so that the schedules are those of after + epochs.
        steps: steps of the optimiser instead of epochs, where given.
        batch_size: images per step, of all processes together; what is left of an epoch is left out.
        accumulate: parts of a batch that are learned from one after the other; each has its own loss.
        views: how images are augmented.
        optimiser: how weights move.
        adversary: attacks the first view; None: nobody does.
        certified: bounds the loss of the first view over a ball, in place of an adversary; None: nobody does.
        corruption: a threat that befalls the training images; None: nothing.
        corrupt: "before" the augmentations, once and for all, or "after" them, every view.
        batchnorm: whose statistics attacked images share: "shared" with clean ones; "split": of their own (the encoder
            that comes out keeps those of attacked images); "frozen": nobody's, they stay as they are.
        freeze: patterns of names of layers and weights (`layer1.*`) that stay as they are, with BatchNorm's statistics.
        lora: adapters that learn instead of the weights, to which they are added in the end; None: the weights learn.
        ema: decay of a running mean of the weights, which is then what comes out; None: the weights themselves.
        clip: largest norm of the gradient; None: any.
        precision: "no" (float32), "bf16" or "fp16" mixed precision.
        device: where it runs, as torch names it.
        snapshots: epochs between encoders that are kept along the training; 0: none.
    """

    encoder: str
    data: str
    method: Method
    images: int | None = None
    seed: int = 0
    epochs: int = 100
    after: int = 0
    steps: int | None = None
    batch_size: int = 256
    accumulate: int = 1
    views: Views = Views()
    optimiser: Optimiser = Optimiser()
    adversary: Adversary | None = None
    certified: Certified | None = None
    corruption: Threat | None = None
    corrupt: str = "before"
    batchnorm: str = "shared"
    freeze: tuple[str, ...] = ()
    lora: Lora | None = None
    ema: float | None = None
    clip: float | None = None
    precision: str = "no"
    device: str = "cpu"
    snapshots: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "steps"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise BadValue(f"recipe: {name}: expected at least 1, got {value}")
        if self.snapshots < 0:
            raise BadValue(f"recipe: snapshots: expected 0 or more epochs, got {self.snapshots}")
        if self.after and self.steps:
            raise Conflict(f"recipe: after={self.after}: expected epochs beside it, got {self.steps} steps")
        # the batch must part evenly, into parts that have a loss
        if self.batch_size % self.accumulate:
            raise BadValue(
                f"recipe: expected a batch_size that accumulate divides, got {self.batch_size} and {self.accumulate}"
            )
        if self.batch_size // self.accumulate < self.method.least:
            raise BadValue(
                f"recipe: expected at least {self.method.least} images together for this method, got a batch of "
                f"{self.batch_size} in {self.accumulate}; take larger batches"
            )
        if self.ema is not None and not 0 < self.ema < 1:
            raise BadValue(f"recipe: ema: expected a decay between 0 and 1, got {self.ema}")
        if self.clip is not None and not 0 < self.clip < math.inf:
            raise BadValue(f"recipe: clip: expected a norm above 0, got {self.clip}")
        # choices, and what needs an adversary
        for name, choices in (("precision", PRECISIONS), ("batchnorm", BATCHNORMS), ("corrupt", ("before", "after"))):
            if (value := getattr(self, name)) not in choices:
                raise unknown(f"{name} of a recipe", value, choices)
        if self.adversary is not None and self.certified is not None:
            raise Conflict("recipe: expected an adversary or certified, which stands in its place; got both")
        if self.batchnorm == "split" and self.adversary is None:
            raise Missing("recipe: batchnorm=split parts attacked from clean images; there is no adversary here")
        if self.lora is not None and (self.freeze or self.batchnorm == "split"):
            raise Conflict(
                "recipe: lora: expected no freeze and no batchnorm=split beside it, since nothing but the adapters "
                "learns; leave them out"
            )

    def progress(self, share: float) -> float:
        """Return how much of the training is done, the epochs before it included, at a share of its own."""
        # Both trainings together are 1; this one begins where the earlier one has ended
        before = self.after / (self.after + self.epochs)
        return before + (1 - before) * share

    @property
    def title(self) -> str:
        """What it is, in a few words: the method, its adversary, how long."""
        name, against = registry.part_name(self.method), ""
        if self.adversary is not None:
            threat = self.adversary.threat
            radius = f" {threat.radius:g}" if isinstance(threat, Ball) else ""
            against = f" against {registry.part_name(threat)}{radius}"
        if self.certified is not None:
            against = f" certified in {registry.part_name(self.certified.threat)} {self.certified.threat.radius:g}"
        return f"{name}{against}, {f'{self.steps} steps' if self.steps else f'{self.epochs} epochs'}"


def entry(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain JSON data; a part of somebody's own that has no name here is called by its class."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            with contextlib.suppress(HoldfastError):
                return registry.spec(value)
            # Our own containers are known by their place in the recipe, and need no class
            plain_class = type(value) in (Recipe, Views, Optimiser, Adversary, Certified, Lora)
            own = {} if plain_class else {"class": f"{type(value).__module__}.{type(value).__qualname__}"}
            return own | {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return registry.spec(value)

    return plain(recipe)
