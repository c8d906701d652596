"""Representations of synthetic images: how well robust Bayes classifiers tell two Gaussian classes apart in them."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Images, Observation, Passes, Reps, Rng, Scope, Shard
from holdfast.numerics.gaussian_classes.conditional import ConditionalGaussian, ones, random_direction
from holdfast.numerics.gaussian_classes.covariance import isotropic
from holdfast.numerics.gaussian_classes.robust_bayes import SHRINKAGES, fit
from holdfast.numerics.gaussian_classes.thin import thin_fit
from holdfast.parts.observations.image_covariance import ImageCovariance
from holdfast.parts.observations.smoothed import block_size
from holdfast.runtime.checked import Count, OrInfinity, Positive
from holdfast.runtime.errors import BadValue, Conflict, NotEnough, NotFinite, unknown

Signs = Float[Tensor, "batch"]

COVARIANCES, BUDGETS = ("isotropic", "images"), ("relative", "absolute")


@dataclass(frozen=True)
class Mixtures(Observation):
    """Two classes x = centre + scale (±s u/|u|_Σ + n), n ~ N(0, Σ), labels by a fair coin, and what is left of them.

    For each direction u and each s two halves of images are drawn and represented. A mixture is fitted to the
    representations of either half, and its ε-robust Bayes classifiers are tested on the other: `accuracy`, the share of
    images that are right, `right`, their number, and `bound`, the mean over these of the distance to the boundary in
    units of that of the class's mean (0 where none is right). With Σ = I, |u|_Σ is ‖u‖, centre 0.5: the paper's.

    With `convention` "authors" a mixture is fitted to the first half alone, by `thin_fit`, and tested on the second.

    Tensors, a row for each direction and s: `s` and `direction` [rows]; `accuracy`, `right` and `bound` [rows, H, R],
    for each half that is tested, two or (of the authors) one; of the images themselves, exactly, `reference_accuracy`
    and `reference_bound` [rows, R].

    Attributes:
        epsilons: ε of the classifiers.
        samples: images in each half.
        separations: s, half the distance of the two means in units of Σ; the accuracy of the images themselves is Φ(s).
        directions: how many u; the first is 1/√d, the others are drawn by the seed. Of images they are the principal
            components, as along others a little robustness costs all accuracy, and nothing is left to compare with.
        covariance: "isotropic", Σ = I; or "images", Σ and the centre are those of the audit's images.
        shrinkage: of the covariance that is fitted: "none" or "ledoit_wolf", for more dimensions than images.
        budget: "relative", the radius in representation space is ε times half the distance of the fitted means, as in
            the authors' code; or "absolute", it is ε.
        norm: p of the ball in representation space, >= 1 (infinity too); others than 2 cost up to seconds for each
            classifier, as the ball is that of the representation's own coordinates.
        clamp: whether pixels are clamped to [0, 1]; the paper's reach far beyond. The reference is that without.
        scale: pixels for one unit of the model; the paper's is 1. It changes no reference.
        estimated_from: images of the audit from which Σ is taken, at most.
        convention: "sound": eigenvalues are cut relative to the largest, what tells the classes apart where nothing
            varies counts, and both halves are tested; "authors": as `thin_fit` says, and one half.

    Source: Ko et al. (2022), section 2; s from .1 to 4.9 and the relative budget as in the authors' code.
    """

    epsilons: tuple[float, ...] = tuple(k / 10 for k in range(9))
    samples: int = 2048
    separations: tuple[float, ...] = tuple(k / 10 for k in range(1, 50))
    directions: Count = 1
    covariance: str = "isotropic"
    shrinkage: str = "none"
    budget: str = "relative"
    norm: OrInfinity = 2.0
    clamp: bool = False
    scale: Positive = 1.0
    estimated_from: int = 512
    convention: Literal["sound", "authors"] = "sound"

    scope = Scope.SYNTHETIC

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("covariance", self.covariance, COVARIANCES),
            ("shrinkage", self.shrinkage, SHRINKAGES),
            ("budget", self.budget, BUDGETS),
        ):
            if value not in allowed:
                raise unknown(f"{name} of mixtures", value, allowed)
        for name, values, least in (("epsilons", self.epsilons, 0.0), ("separations", self.separations, 1e-9)):
            fine = values and all(least <= value < math.inf for value in values)
            if not fine or list(values) != sorted(set(values)):
                raise BadValue(f"mixtures: {name}: expected numbers from {least:g} on, increasing, got {values}")
        for name, number, least in (("samples", self.samples, 8), ("estimated_from", self.estimated_from, 2)):
            if number < least:
                raise BadValue(f"mixtures: {name}: expected {least} or more, got {number}")
        if self.convention == "authors" and self.shrinkage != "none":
            raise Conflict(f"mixtures: the authors shrink no covariance, got shrinkage={self.shrinkage}; leave it out")
        if self.norm < 1:
            raise BadValue(f"mixtures: norm: expected 1 or more, got {self.norm:g}")

    @property
    @override
    def title(self) -> str:
        twice = f"{2 * self.samples:,} synthetic images for each of {len(self.separations)} distances"
        return twice + (f" in {self.directions} directions" if self.directions > 1 else "")

    @property
    def description(self) -> str:
        """What images are drawn and what they are to withstand, in one line for a reader of the report."""
        near, far = min(self.separations), max(self.separations)
        words = [f"{len(self.separations)} separations s from {near:g} to {far:g}"]
        words.append(f"in {self.directions} direction{'s' if self.directions > 1 else ''}")
        words.append(f"2 × {self.samples:,} images each")
        own = self.covariance == "images"
        words.append("covariance of your own images" if own else "independent noise in every pixel")
        words.append("ε in ℓ∞" if math.isinf(self.norm) else f"ε in ℓ{self.norm:g}")
        words += [] if self.scale == 1 else [f"a unit of noise is {self.scale:g} pixels"]
        words += ["clamped to [0, 1]"] if self.clamp else []
        words += ["fitted and tested as the authors do"] if self.convention == "authors" else []
        shrunk = self.shrinkage.replace("_", "–")
        return ", ".join(words if shrunk == "none" else [*words, f"covariance of representations shrunk ({shrunk})"])

    @property
    def halves(self) -> int:
        """How many halves of the images are tested."""
        return 1 if self.convention == "authors" else 2

    @property
    def domain(self) -> ImageCovariance | None:
        """What is known of the audit's images; None where nothing is asked."""
        return ImageCovariance(self.estimated_from) if self.covariance == "images" else None

    @property
    def reads(self) -> tuple[Observation, ...]:
        """What is known of the images, where that is asked."""
        return () if self.domain is None else (self.domain,)

    def key(self) -> Observation:
        """Everything about it decides what is drawn or fitted."""
        return self

    def join(self, twin: Observation) -> Observation:
        """Equal keys are equal."""
        return self

    def images(self, population: int, attacked: int) -> int:
        """A row for each direction and s."""
        return self.directions * len(self.separations)

    @property
    def passes(self) -> Passes:
        """One forward pass for each image of both halves."""
        return Passes(forward=2 * self.samples)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Draw, represent, fit and test some rows.

        Raises:
            HoldfastError: representations that are not finite, or directions in which images do not vary.
        """
        rows = [self._row(shard, number) for number in shard.positions.tolist()]
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}

    def _row(self, shard: Shard, number: int) -> dict[str, Tensor]:
        # Rows run through all s of one direction, then of the next
        direction, place = divmod(number, len(self.separations))
        s = self.separations[place]
        model = self._model(shard, direction, s)
        rng = shard.rng.child("mixtures", direction, s)  # other grids draw the same images
        # The halves are independent, so what is fitted to one is tested
        # on images that it has not seen
        halves = [self._half(shard, model, rng.child(half)) for half in ("first", "second")]
        tests = [self._test(*halves[half], *halves[1 - half]) for half in range(self.halves)]
        # SynBench, Results 2.2 and 2.3: accuracy and bound of the images themselves, known exactly
        ideal = model.mixture().classifiers(self._epsilons, relative=self.budget == "relative", norm=self.norm)
        return {
            "s": torch.tensor(s, dtype=torch.float64),
            "direction": torch.tensor(direction),
            **{name: torch.stack([test[name] for test in tests]) for name in tests[0]},
            "reference_accuracy": ideal.accuracy(),
            "reference_bound": ideal.bound(),
        }

    def _model(self, shard: Shard, number: int, s: float) -> ConditionalGaussian:
        shape = tuple(shard.x.shape[1:])
        # The paper's choice, section 2.2: Σ = I, and u = 1/√d below
        covariance, centre = isotropic(math.prod(shape)), None
        if self.domain is not None:
            covariance, centre = self.domain.read_from(shard)
            if self.directions > len(covariance.values):
                raise NotEnough(
                    f"mixtures: expected at most {len(covariance.values)} directions, in which these images vary, got "
                    f"{self.directions}; give more images, or ask for fewer"
                )
            # The principal components of the images, the strongest first
            direction = covariance.vectors[:, number]
        elif number == 0:
            direction = ones(math.prod(shape))
        else:
            direction = random_direction(covariance, shard.rng.child("mixtures", "direction", number).numpy())
        return ConditionalGaussian(shape, direction, s, covariance, centre=centre, scale=self.scale, clamp=self.clamp)

    def _half(self, shard: Shard, model: ConditionalGaussian, rng: Rng) -> tuple[Reps, Signs]:
        """Return the representations of one half of the images, and their classes."""
        # SynBench, Eq. 1: y = ±1 with equal chance
        signs = torch.from_numpy(rng.child("classes").numpy().integers(0, 2, self.samples) * 2.0 - 1)
        noise = rng.child("noise").numpy()
        # As many images at a time as make one encoder pass; whole
        # halves of large images would not fit
        blocks = signs.split(block_size(shard.x))
        with ThreadPoolExecutor(1) as ahead:  # the next images are drawn while these are represented
            later = ahead.submit(model.draw, blocks[0], noise)
            reps = []
            for number in range(len(blocks)):
                x = later.result()
                if number + 1 < len(blocks):
                    later = ahead.submit(model.draw, blocks[number + 1], noise)
                reps.append(self._represent(shard, x))
        return torch.cat(reps), signs

    def _represent(self, shard: Shard, x: Images) -> Reps:
        layout = torch.channels_last if shard.x.is_contiguous(memory_format=torch.channels_last) else None
        x = x.to(shard.x.device).contiguous(memory_format=layout or torch.contiguous_format)
        with torch.no_grad():
            reps = shard.encoder(x).float().cpu()
        if not bool(reps.isfinite().all()):
            raise NotFinite(
                f"encoder {shard.encoder.name!r}: the representation of a synthetic image is NaN or infinite; mixtures "
                "need an encoder that takes pixels outside [0, 1], or clamp = true"
            )
        return reps

    def _test(self, reps: Reps, signs: Signs, tested_reps: Reps, tested_signs: Signs) -> dict[str, Tensor]:
        """Return how classifiers of a mixture that is fitted to one half do on the other."""
        authors = self.convention == "authors"
        fitted = thin_fit(reps, signs) if authors else fit(reps, signs, shrinkage=self.shrinkage)
        rules = fitted.classifiers(self._epsilons, relative=self.budget == "relative", norm=self.norm)
        # SynBench, Result 2.4, scaled bounds with the sign of being right: [R, images]
        scaled = rules.relative_margins(tested_reps, tested_signs)
        right = scaled > 0
        count = right.sum(1)
        # E[bound | right]; 0 where nothing is right, instead of 0 / 0
        bound = torch.where(right, scaled, 0.0).sum(1) / count.clamp_min(1)
        return {"accuracy": count.double() / len(tested_signs), "right": count, "bound": bound}

    @property
    def _epsilons(self) -> Float[Tensor, "radii"]:
        return torch.tensor(self.epsilons, dtype=torch.float64)
