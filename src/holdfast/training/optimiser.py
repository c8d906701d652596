"""How weights move: an optimiser and the learning rate along the training."""

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.runtime.checked import Checked, Positive
from holdfast.runtime.errors import BadValue, unknown
from holdfast.runtime.optional import optional

NAMES = ("sgd", "lars", "adam", "adamw")
SCHEDULES = ("cosine", "step", "constant")

SCALE, LEAST = "scale", 1e-3
"""Where a group of weights keeps its unit of the rate, and the smallest unit: weights that begin at 0 must move."""


@dataclass(frozen=True)
class Optimiser(metaclass=Checked):
    """SGD, LARS, Adam or AdamW, with a rate that warms up, then falls as a cosine, in steps, or not at all.

    Attributes:
        name: "sgd", "lars", "adam" or "adamw".
        rate: learning rate after warm-up.
        momentum: of SGD and LARS.
        weight_decay: of weights; biases and normalisation layers have none.
        schedule: "cosine" (to 0), "step" or "constant".
        warmup: share of the training in which the rate rises linearly from 0.
        milestones: shares of the training after which "step" multiplies the rate.
        factor: by what.
        scaled: whether the rate is in units of each tensor's root mean square when the training begins (at least
            `LEAST`), so that one rate fits networks whose layers have weights of different sizes.

    Source: "Is self-supervised contrastive learning more robust than supervised learning?", Table C.3; RVCL, E.3;
    You et al. (2017) for LARS; Shazeer and Stern (2018), "Adafactor", section 8, for steps relative to weights.
    """

    name: str = "adam"
    rate: Positive = 1e-3
    momentum: float = 0.9
    weight_decay: float = 1e-6
    schedule: str = "cosine"
    warmup: float = 0.0
    milestones: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)
    factor: float = 0.1
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise unknown("optimiser", self.name, NAMES)
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        if self.momentum >= 1 or self.warmup >= 1:
            raise BadValue(f"optimiser: expected momentum and warmup in [0, 1), got {self}")
        if not 0 < self.factor <= 1:
            raise BadValue(f"optimiser: factor: expected a number in (0, 1], got {self.factor}")
        if any(not 0 < share < 1 for share in self.milestones) or list(self.milestones) != sorted(self.milestones):
            raise BadValue(f"optimiser: expected rising milestones between 0 and 1, got {list(self.milestones)}")

    def build(self, network: nn.Module, units: Mapping[Tensor, float] | None = None) -> torch.optim.Optimizer:
        """Return the optimiser of all weights of a network that are trained.

        Args:
            network: the network.
            units: of the rate where it is `scaled`, for weights that have no size of their own.
        """
        groups = _groups(network, self.weight_decay)
        if self.scaled:
            # A group for each tensor, since each has a unit of the rate of its own
            groups = [
                {**group, "params": [value], SCALE: max(LEAST, (units or {}).get(value, _size(value)))}
                for group in groups
                for value in group["params"]
            ]
        match self.name:
            case "sgd":
                return torch.optim.SGD(groups, self.rate, self.momentum)
            case "lars":
                lars = optional("lightly.utils.lars", "lightly", "train", "lars").LARS
                return lars(groups, self.rate, self.momentum)
            case "adam":
                return torch.optim.Adam(groups, self.rate)
        return torch.optim.AdamW(groups, self.rate)

    def rate_at(self, progress: float) -> float:
        """Return the learning rate when this share of the training is done."""
        if progress < self.warmup:
            return self.rate * progress / self.warmup
        if self.schedule == "cosine":
            # rate · (1 + cos π t) / 2, where t goes from 0 at the end of the warm-up to 1
            return self.rate * (1 + math.cos(math.pi * (progress - self.warmup) / (1 - self.warmup))) / 2
        if self.schedule == "step":
            # A milestone that has just been reached counts
            return self.rate * self.factor ** bisect.bisect_right(self.milestones, progress)
        return self.rate

    def set_rate(self, optimiser: torch.optim.Optimizer, progress: float, share: float = 1.0) -> float:
        """Let an optimiser that `build` gave go on at a share of the rate of this progress; that is returned."""
        rate = share * self.rate_at(progress)
        for group in optimiser.param_groups:
            # Groups of an optimiser that is not scaled have no unit
            group["lr"] = rate * group.get(SCALE, 1.0)
        return rate


def _size(value: Tensor) -> float:
    return float(value.detach().square().mean().sqrt())


def _groups(network: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Return weights with decay, and biases and normalisation without."""
    trained = [value for value in network.parameters() if value.requires_grad]
    # One axis: biases, and scale and shift of normalisation
    plain = [value for value in trained if value.ndim <= 1]
    heavy = [value for value in trained if value.ndim > 1]
    groups = [{"params": heavy, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
