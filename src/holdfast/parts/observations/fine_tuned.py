"""An encoder trained further on labelled images, with a linear layer on top; the encoder itself stays as it is."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Classifier, Encoder, Head, Images, Passes, Scope, Shard, Threat
from holdfast.core.registry import part_name
from holdfast.parts.observations.shared.training import OfTraining
from holdfast.parts.probes.shared.training import classes_of
from holdfast.runtime.errors import BadValue, Missing, NotFinite, Unsupported, no_labels, unknown
from holdfast.sources.encoders.shared.copies import copy_with_state, state_of, trainable
from holdfast.sources.encoders.shared.weights import fix_seed

RATES = {"sgd": 0.002, "adamw": 0.001}
"""Learning rates of the paper."""

MOMENTUM = 0.9

BLOCK = 2**25
"""Pixel values of training images that are in memory together, about (128 MiB)."""


@dataclass(frozen=True)
class FineTuned(OfTraining):
    """min over θ, W, b of 1/N Σ_i -log softmax(W f_θ(x_i) + b)_{y_i}, from the encoder's own θ, W = 0 and b = 0.

    By SGD with momentum 0.9 or AdamW, the learning rate falling to 0 as a cosine. A copy of the network is trained, in
    training mode, so BatchNorm and dropout do what they do in training; of a network without weights only the layer
    learns. Images are read in blocks that fit in memory; blocks, and the images of each, come in a new order every
    epoch. There is no augmentation.

    Tensors: `network.NAME`, the state of the copy; `weights` [C, D], `bias` [C] and `classes` [C] of the layer; `loss`
    [epochs], the mean over the images of each epoch.

    Attributes:
        threat: what befalls the training images; None: nothing. Of a noise, one draw for each image.
        epochs: passes over the training images.
        optimiser: "sgd" or "adamw"; the paper takes the one that the encoder was trained with (AdamW for LARS).
        rate: learning rate at the beginning; None: the paper's, 0.002 for SGD and 0.001 for AdamW.
        batch_size: least images per step (fewer where there are not as many); the paper does not say.
        weight_decay: of all parameters; the paper does not say.

    Source: Zhong et al. (2022), appendix D.5; W = 0 as in Kolesnikov et al. (2020).
    """

    threat: Threat | None = None
    epochs: int = 10
    optimiser: str = "sgd"
    rate: float | None = None
    batch_size: int = 64
    weight_decay: float = 1e-4

    reads_labels = True
    scope = Scope.ALL_TRAINING

    def __post_init__(self) -> None:
        if self.optimiser not in RATES:
            raise unknown("optimiser of fine_tuned", self.optimiser, RATES)
        if min(self.epochs, self.batch_size) < 1 or not 0 <= self.weight_decay < math.inf:
            raise BadValue(f"fine_tuned: expected positive epochs and batch_size, weight_decay >= 0, got {self}")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise BadValue(f"fine_tuned: expected a rate above 0, or None for the paper's, got {self.rate}")

    @property
    @override
    def title(self) -> str:
        training = f"{self.epochs} epochs, {self.optimiser} {self._rate:g}"
        return f"fine-tuning, {training}" + ("" if self.threat is None else f": {self.threat.title}")

    @property
    def passes(self) -> Passes:
        """One forward and one backward pass (to the weights) in each epoch."""
        return Passes(forward=self.epochs, backward=self.epochs)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Fine-tune a copy of the encoder.

        Raises:
            HoldfastError: images without labels or of one class, a network that cannot be trained, or a loss that is
                not finite.
        """
        if shard.labels is None or shard.others is None:
            raise no_labels("fine-tuning", "the training images")
        # a linear layer that begins at zero, on a copy of the encoder
        classes, targets = classes_of(shard.labels)
        assert shard.clean is not None  # clean representations are always observed first
        # At zero the layer passes no gradient on, so the loss moves the
        # encoder from the second step on
        weights = torch.zeros(len(classes), shard.clean.shape[1], device=shard.x.device)
        bias = torch.zeros(len(classes), device=shard.x.device)
        random, losses = shard.rng.child("fine_tuned").generator(), torch.zeros(self.epochs, dtype=torch.float64)
        with fix_seed(random.initial_seed()), torch.enable_grad():  # dropout draws from torch's own generator
            tuned = trainable(shard.encoder)
            # Without weights in the network the pixels carry a gradient instead, or
            # the check below would refuse it
            bare = not any(value.requires_grad for value in tuned.parameters())
            parameters = [*tuned.parameters(), weights.requires_grad_(), bias.requires_grad_()]
            step = self._descent(parameters, self.epochs * len(targets))
            # descent on the cross-entropy, through the layer and the encoder
            for epoch, x, numbers in self._batches(shard, targets.to(shard.x.device), random):
                reps = tuned(x.requires_grad_(bare))
                if not reps.requires_grad:
                    raise Unsupported(
                        f"encoder {shard.encoder.name!r}: expected a representation with a gradient to the network's "
                        "weights to fine-tune them, got one without; use a probe"
                    )
                loss = F.cross_entropy(F.linear(reps.float(), weights, bias), numbers)
                if not loss.isfinite():
                    raise NotFinite(
                        f"fine-tuning of {shard.encoder.name!r}: the loss is not finite in epoch {epoch + 1}; expected "
                        f"finite representations, or a rate below {self._rate:g}"
                    )
                step(loss, len(x))
                shard.encoder.count(Passes(forward=len(x), backward=len(x)))
                # Batches differ in size by an image: each counts by its images
                losses[epoch] += float(loss.detach()) * len(x) / len(targets)
        learned = {"weights": weights, "bias": bias, "classes": classes, "loss": losses}
        return state_of(tuned) | {name: value.detach() for name, value in learned.items()}

    def read_from(self, shard: Shard) -> tuple[Encoder, Classifier]:
        """Return what was fine-tuned before, with its layer."""
        if shard.read is None:
            raise Missing(f"{part_name(self)} must be observed before what it classifies")
        state = shard.read(self)
        head = Head(state["weights"].to(shard.x.device), state["bias"].to(shard.x.device), state["classes"])
        return copy_with_state(shard.encoder, state), head

    @property
    def _rate(self) -> float:
        return RATES[self.optimiser] if self.rate is None else self.rate

    def _descent(self, parameters: list[Tensor], images: int) -> Callable[[Tensor, int], None]:
        """Return what makes a step down a loss of so many images; all epochs together have `images`."""
        if self.optimiser == "sgd":
            optimiser = torch.optim.SGD(parameters, self._rate, MOMENTUM, weight_decay=self.weight_decay)
        else:
            optimiser = torch.optim.AdamW(parameters, self._rate, weight_decay=self.weight_decay)
        done = 0

        def step(loss: Tensor, count: int) -> None:
            nonlocal done
            for group in optimiser.param_groups:
                # Half a cosine from the rate down to 0, by images and not
                # by batches, which differ in size
                group["lr"] = self._rate * (1 + math.cos(math.pi * done / images)) / 2
            done += count
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

        return step

    def _batches(
        self, shard: Shard, targets: Int[Tensor, "images"], random: torch.Generator
    ) -> Iterator[tuple[int, Images, Int[Tensor, "batch"]]]:
        """Yield (epoch, some images, their targets): every image once in each epoch, in an order of its own."""
        others, values = shard.others, len(targets) * shard.x[0].numel()
        assert others is not None
        # As few blocks as fit, of nearly equal size
        blocks = torch.arange(len(targets)).tensor_split(-(-values // BLOCK))
        read = lru_cache(1)(lambda number: others(blocks[number]))  # a block that is the only one is read once
        for epoch in range(self.epochs):
            for number in torch.randperm(len(blocks), generator=random).tolist():
                block, images = blocks[number], read(number)
                order = torch.randperm(len(block), generator=random)
                # BatchNorm cannot train on a single image, so the last
                # batch may not be a remainder of one
                for rows in order.tensor_split(max(1, len(block) // self.batch_size)):  # no image is left alone
                    x = images[rows]
                    if self.threat is not None:
                        rng = shard.rng.at([shard.rng.ids[place] for place in block[rows].tolist()])
                        # The draw belongs to the image: the same in every epoch
                        x = shard.disturb(self.threat, rng.child("training"), x, block[rows])
                    yield epoch, x, targets[block[rows]]
