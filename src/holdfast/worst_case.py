"""The worst case, from both sides: threats, attacks that find what breaks, certifiers that prove what cannot."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.checked import Checked
from holdfast.encoder import Encoder, Images, Passes, Reps
from holdfast.errors import HoldfastError
from holdfast.rng import Rng

PerImage = Float[Tensor, "batch"]
Rows = Float[Tensor, "batch rows"]
Draws = Float[Tensor, "batch draws channel height width"]


# --- threats and attacks --------------------------------------------------------------------------


class Threat(metaclass=Checked):
    """How an image may change. Subclasses are frozen dataclasses; `sample` draws one changed image each."""

    @abstractmethod
    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw one disturbed version of every image, inside [0, 1]."""


class Corruption(Threat):
    """A change that befalls a whole data set alike, such as a shuffle of its pixels; a frozen dataclass.

    What differs from image to image, such as noise, is drawn from `rng` by the image's id; what is shared, such as the
    permutation of a shuffle, is part of the corruption and so the same for training and test images, in every audit.
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words that tell it from its kind with other parameters, such as "G4x4"."""


class Noise(Threat):
    """A threat with a distribution: x' = push(x, z) for standard normal numbers z; a frozen dataclass.

    One definition serves plain sampling, rare events (which move z and leave its distribution as it is) and gradients.

    Attributes:
        ball: where every draw lies; None for disturbances that no ball of pixels describes.
        needs_labels: whether a draw depends on the image's class.
    """

    ball: "Ball | None" = None
    needs_labels: bool = False

    @abstractmethod
    def numbers(self, x: Images) -> int:
        """Return how many standard normal numbers one draw for one image takes."""

    @abstractmethod
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        """Return the disturbed images that some numbers stand for, inside [0, 1] (and inside the ball).

        Args:
            x: clean images, [B, C, H, W].
            z: standard normal numbers, a row for every draw of every image, [B, S, numbers].
        """

    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw one disturbed version of every image, inside [0, 1]."""
        return self.push(x, rng.normal(1, self.numbers(x)).to(x))[:, 0]

    def at(self, reps: Reps, labels: Int[Tensor, "batch"] | None) -> "Noise":
        """Return the noise that these images meet, given what is known of them; itself where it asks nothing.

        Args:
            reps: clean representations of the images that are disturbed next, in their order, [B, D].
            labels: their classes, [B]; None where they are not known.

        Raises:
            HoldfastError: a noise that depends on labels, without them.
        """
        return self


class Ball(Threat):
    """A threat with a worst case: all images within `radius` of x, in pixels, and inside [0, 1]."""

    radius: float

    @abstractmethod
    def project(self, delta: Images) -> Images:
        """Return the point of the ball nearest to each perturbation."""

    @abstractmethod
    def ascend(self, gradient: Images) -> Images:
        """Return the step of unit size along which a linear function of this gradient rises fastest."""

    @abstractmethod
    def squash(self, u: Float[Tensor, "*batch channel height width"]) -> Float[Tensor, "*batch channel height width"]:
        """Map any numbers smoothly and one to one to perturbations inside the ball; zero to zero."""

    @abstractmethod
    def size(self, delta: Images) -> PerImage:
        """Return the norm of each perturbation, in pixels."""

    def contains(self, inner: "Ball") -> bool:
        """Return whether every image of another ball around x lies in this one; only balls of one kind are compared."""
        return type(inner) is type(self) and inner.radius <= self.radius

    def box(self, x: Images, radii: PerImage) -> tuple[Images, Images]:
        """Return the lowest and the highest value of every pixel in the balls of these radii and in [0, 1]."""
        reach = radii.view(-1, 1, 1, 1)
        return (x - reach).clamp_min(0), (x + reach).clamp_max(1)

    @abstractmethod
    def least(
        self,
        slopes: Float[Tensor, "*#batch rows pixels"],
        x: Float[Tensor, "*batch pixels"],
        box: tuple[Float[Tensor, "*batch pixels"], Float[Tensor, "*batch pixels"]],
        radii: Float[Tensor, "*batch"],
    ) -> Float[Tensor, "*batch rows"]:
        """Return a lower bound of min slopes · x' over the ball of each radius around x and inside its box.

        Tight in exact arithmetic; pixels of which a slope does not know (a window on the image) are left out of x.
        """

    def around(self, x: Images, moved: Images) -> Images:
        """Return `moved` brought back into the ball around x and into [0, 1].

        Sums are rounded towards x, which is inside, and so is the clamp: no pixel leaves the ball again.
        """
        return towards(x, self.project(moved - x)).clamp_(0, 1)


def towards(x: Images, delta: Images) -> Images:
    """Return x + delta, rounded towards x where it must be rounded: nothing moves further than delta says.

    Source: the exact error of a sum is that of Knuth's TwoSum (The art of computer programming, volume 2, 4.2.2).
    """
    at = x + delta
    apart = at - x
    error = (x - (at - apart)) + (delta - apart)
    return torch.where(error.sign() * delta.sign() < 0, torch.nextafter(at, x), at)


@cache
def rounded_down(value: float, dtype: torch.dtype) -> float:
    """Return the largest number of a precision that is not above a positive value."""
    nearest = torch.tensor(value, dtype=dtype)
    return float(nearest if float(nearest) <= value else torch.nextafter(nearest, torch.zeros_like(nearest)))


Goal = Callable[[Tensor], tuple[Tensor, Tensor]]
"""An objective bound to an encoder and to references: images -> (value to maximise, representations)."""


class Objective(metaclass=Checked):
    """What an adversary maximises, as a function of representations alone; a frozen dataclass.

    `needs_target` objectives read the representation of another image; `batchwise` ones couple the images of
    a batch, so their values depend on the batch.
    """

    needs_target: bool = False
    batchwise: bool = False

    @abstractmethod
    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the value to maximise for every image.

        Args:
            reps: representations of the disturbed images, [B, D].
            clean: representations of the same images undisturbed (or of another view of them), [B, D].
            target: representations of the other images each is compared with, [B, D].
        """

    def pursue(self, encoder: Callable[[Images], Reps], clean: Reps, target: Reps | None = None) -> Goal:
        """Close over an encoder and the reference representations: the function that attacks call."""
        if self.needs_target and target is None:
            raise HoldfastError(f"{type(self).__name__} compares each image with another: give target representations")

        def goal(x: Images) -> tuple[PerImage, Reps]:
            reps = encoder(x)
            return self(reps, clean, target), reps

        return goal


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

    def remade(self, goal: Goal, encoder: Encoder) -> "Trajectory":
        """Return it with what is read out represented and valued again in float32, where the search ran in less.

        One forward pass for each read-out. Values between read-outs stay those that the search saw, and so do its
        choices of the best image.

        Args:
            goal: what was maximised.
            encoder: the one that the goal closes over.

        Raises:
            HoldfastError: a representation or a value that is not finite.
        """
        if encoder.precision == "float32":
            return self
        values, reps = self.values.clone(), {}
        for step, images in self.images.items():
            with torch.no_grad():
                values[step], reps[step] = goal(images)
            if not bool(values[step].isfinite().all() & reps[step].isfinite().all()):
                raise HoldfastError(
                    f"encoder {encoder.name!r}: expected finite representations of attacked images in float32, got NaN "
                    "or infinity; check its weights and its normalisation"
                )
        return replace(self, reps=reps, values=values)


def _of_pixels(search: Callable[..., "Trajectory"]) -> Callable[..., "Trajectory"]:
    """Return a search that refuses images outside [0, 1]: radii are in pixels of a [0, 1] image."""

    @wraps(search)
    def call(self: "Attack", goal: Goal, x: Tensor, *how: Any, **named: Any) -> "Trajectory":
        low, high = (float(end) for end in x.aminmax()) if x.numel() else (0.0, 1.0)
        if not -ROUNDING <= low <= high <= 1 + ROUNDING:  # NaN is neither
            raise HoldfastError(
                f"attack: expected pixels in [0, 1], got values from {low:.4g} to {high:.4g}; divide bytes by 255, and "
                "leave normalisation to the encoder"
            )
        return search(self, goal, x, *how, **named)

    return call


ROUNDING = 1e-6
"""How far outside [0, 1] pixels may lie that were computed."""


class Attack(metaclass=Checked):
    """A search for the image in a ball that maximises a goal: the worst case from below; a frozen dataclass."""

    steps: int

    def __init_subclass__(cls, **named: Any) -> None:
        """Let every attack refuse images that are none."""
        super().__init_subclass__(**named)
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
        """Encoder passes that one image costs."""

    def reach(self, ball: Ball, steps: int | None = None) -> float:
        """Return how much of a ball its steps can cross: their length together / the longest way from a start.

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
        """Return whether its steps carry it from any start to any image of a ball, see `reach`."""
        return self.reach(ball, steps) > 1 - 1e-9

    def root(self) -> "Attack":
        """Return what attacks whose trajectories begin alike have in common; equal roots share one run."""
        return self

    def until(self, steps: int) -> "Attack":
        """Return the attack whose whole trajectory is the first `steps` of this one; itself where there is none."""
        return self

    def label(self, step: int) -> str:
        """Return how the read-out at `step` is called in tables."""
        return f"{step} step{'s' if step != 1 else ''}"


# --- certificates ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Margin:
    """Linear functions of the representation, several rows for every image: m(x') = weights · f(x') + bias.

    Attributes:
        weights: [B, R, D].
        bias: [B, R].
    """

    weights: Float[Tensor, "batch rows dim"]
    bias: Rows

    def __call__(self, reps: Reps) -> Rows:
        """Return the margins of some representations."""
        return (self.weights @ reps[..., None]).squeeze(-1) + self.bias

    def to(self, kind: torch.dtype | torch.device | Tensor) -> "Margin":
        """Return the margin in another precision, on another device, or in those of a tensor."""
        return Margin(self.weights.to(kind), self.bias.to(kind))

    def part(self, images: slice) -> "Margin":
        """Return the margins of some images."""
        return Margin(self.weights[images], self.bias[images])


@dataclass(frozen=True)
class Bound:
    """What a certifier proves: no image of the ball has a margin below `lower`.

    Attributes:
        lower: [B, R]; in the units of the margin.
        vacuous: whether it says nothing: not finite, or no better than bounds of the representation's range, [B, R].
        slack: rounding that was allowed for (already subtracted from `lower`), [B, R].
        confidence: 1 for a proof.
        about: whose margin it is.
    """

    lower: Rows
    vacuous: Bool[Tensor, "batch rows"]
    slack: Rows
    confidence: float = 1.0
    about: Literal["the encoder", "the smoothed encoder"] = "the encoder"


class Certifier(metaclass=Checked):
    """A proof about all images of a ball at once: the worst case from above; a frozen dataclass."""

    @abstractmethod
    def __call__(self, encoder: Encoder, margin: Margin, x: Images, ball: Ball, radii: PerImage | None = None) -> Bound:
        """Bound the margins of every image from below.

        Args:
            encoder: the encoder.
            margin: what to bound, rows for each image.
            x: clean images in [0, 1].
            ball: where x' may be.
            radii: another radius than the ball's for each image, in pixels, [B].

        Raises:
            HoldfastError: a network that cannot be traced or bounded; the error names the layer.
        """
