"""What the measures of patches have in common: representations token by token, and patches of all images."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.core import Divergence, Grid, Measure, Objective, Rng, Subject, Table
from holdfast.core.registry import part_name
from holdfast.numerics.geometry import pairwise, patches
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.measures.shared.usual_distance import usual_distance
from holdfast.parts.objectives.shared.tokens import OfTokens, no_patches
from holdfast.parts.objectives.token_drift import TokenDrift
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import worst
from holdfast.runtime.errors import Unsupported

TIE = 1e-9
"""Share by which two distances must differ to count as different."""

Tokens = Float[Tensor, "population patches token"]


@dataclass(frozen=True)
class Bank:
    """Clean patches of many images.

    Attributes:
        tokens: in float64, [B, dim].
        image: which image of the population each is of, [B].
    """

    tokens: Float[Tensor, "bank dim"]
    image: Int[Tensor, "bank"]

    def usual_distance(self, images: int, divergence: Divergence) -> Table:
        """Return the median distance of its patches of different images, as columns; see `usual_distance`."""
        return usual_distance(self.tokens, self.image, images, divergence)

    def apart(self, divergence: Divergence) -> Float[Tensor, "pairs"]:
        """Return the distances of all pairs of patches of different images."""
        # Each pair once, and none within an image
        different = self.image[:, None] < self.image
        return pairwise.pairwise(self.tokens, self.tokens, divergence)[different]


@dataclass(frozen=True)
class PatchMeasure(AttackMeasure):
    """A measure of how the patches of an image fare under attack; a mean over images of a mean over patches.

    Patches of one image depend on each other, so an image is one unit, whatever the number of its patches.

    Attributes:
        objective: what the adversary maximises; an objective of tokens compares them as the measure does.
    """

    objective: Objective = TokenDrift()

    statistic = "mean"

    def __post_init__(self) -> None:
        if isinstance(self.objective, OfTokens):
            # The attack pursues what the measure counts; the dataclass is frozen
            object.__setattr__(self, "objective", replace(self.objective, **self.compares))
        super().__post_init__()

    @property
    def compares(self) -> dict[str, object]:
        """Parameters that an objective of tokens shares with the measure."""
        return {"divergence": self.divergence}

    def tokens(self, subject: Subject) -> tuple[Tokens, dict[int, Float[Tensor, "attacked patches token"]]]:
        """Return the clean tokens of the population, and the attacked ones at every read-out; see `worst`."""
        grid = grid_of(self, subject)
        attacked = worst(subject, self.attack, self.trajectories)
        return grid.tokens(Clean.of(subject)), {step: grid.tokens(reps) for step, reps in attacked.items()}


def grid_of(measure: Measure, subject: Subject) -> Grid:
    """Return how the patches of an encoder lie.

    Raises:
        HoldfastError: an encoder without patches.
    """
    if subject.encoder.grid is None:
        raise Unsupported(f"{part_name(measure)}: {no_patches(subject.encoder)}")
    return subject.encoder.grid


def bank(subject: Subject, clean: Tokens, size: int) -> Bank:
    """Return patches of the population: one of each image, then a second one, until there are so many.

    Which patch of an image comes first is drawn by the seed and the image's id. Images beyond the first `size` have
    none.

    Args:
        subject: the encoder that was observed.
        clean: clean tokens of the population.
        size: how many patches at most.
    """
    count, each = min(size, len(clean)), -(-size // len(clean))
    # Patches are ordered at random in each image, by its id, and the first ones are taken
    rng = Rng(subject.seed, ids=tuple(subject.ids[:count])).child("patches")
    places = rng.uniform(clean.shape[1]).argsort(1)[:, :each]
    images = torch.arange(count)
    # [images, each, dim] -> one patch of every image, then a second one of each, ...
    tokens = clean[images[:, None], places].transpose(0, 1).flatten(0, 1)[:size]
    return Bank(tokens.double(), images.repeat(places.shape[1])[:size])


def measure_breakaway(
    moved: Float[Tensor, "patches dim"],
    clean: Float[Tensor, "patches dim"],
    others: Float[Tensor, "others dim"],
    divergence: Divergence,
    rivals: Float[Tensor, "patches others"],
) -> float:
    """Return the share of an image's patches that are nearer to another one than to what they were; NaN without rivals.

    Args:
        moved: tokens of the disturbed image, in float64.
        clean: its clean tokens, in float64.
        others: what they could be taken for.
        divergence: "l2" or "cosine".
        rivals: 0 where a patch can be taken for it, infinite where not.
    """
    if not bool(rivals.isfinite().any()):
        return torch.nan
    # d(t_p(x̂), t_p(x)), [P], against the nearest rival's
    own = divergence(moved, clean)
    nearest = (pairwise.pairwise(moved, others, divergence) + rivals).amin(1)
    return float((nearest < own * (1 - TIE)).double().mean())


def measure_breakaway_within(
    moved: Float[Tensor, "patches dim"], clean: Float[Tensor, "patches dim"], divergence: Divergence
) -> float:
    """Return the share of an image's patches that are nearer to another patch of it; NaN where all are alike.

    Args:
        moved: tokens of the disturbed image.
        clean: its clean tokens.
        divergence: "l2" or "cosine".
    """
    moved, clean = moved.double(), clean.double()
    # Other patches of the image that do not look alike; the patch itself is alike to itself
    rivals = patches.rivals(divergence.points(clean))
    return measure_breakaway(moved, clean, clean, divergence, to_additive_mask(rivals))


def to_additive_mask(unlike: Bool[Tensor, "patches others"]) -> Float[Tensor, "patches others"]:
    """Return 0 where something holds, infinity elsewhere."""
    return torch.zeros(unlike.shape, dtype=torch.float64).masked_fill(~unlike, torch.inf)
