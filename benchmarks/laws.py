"""Laws that every measure's tables are drawn from: two encoders at a time, equal in law, on the same images.

A `World` draws images and two encoders whose representations share a part and are otherwise independent, so that their
true scores are equal and a difference between them is false. Tables come from the measures' own `observe` wherever
they follow from representations; where they need certificates, draws or trained heads, from the numbers that these
give, with what images have in common.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.core import (
    Ball,
    Bank,
    Classifier,
    Encoder,
    Failure,
    Grid,
    Images,
    Measure,
    Observation,
    Probe,
    Relevance,
    Rng,
    Shard,
    Table,
    Threat,
    registry,
)
from holdfast.core.divergence import require
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.numerics.geometry.index import Index
from holdfast.numerics.geometry.negatives import negatives_of
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.collided import Collided
from holdfast.parts.failures.shared.thresholds import AtThreshold
from holdfast.parts.measures.shared.edits import EVERYDAY
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.observations.attacked import Attacked, partners
from holdfast.parts.observations.attacked_pairs import AttackedPairs
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.covered import Covered
from holdfast.parts.observations.drifts import Drifts
from holdfast.parts.observations.entry_radii import EntryRadii
from holdfast.parts.observations.everyday_changes import NAMES, EverydayChanges
from holdfast.parts.observations.match_threshold import MatchThreshold
from holdfast.parts.observations.minimal_radii import MinimalRadii
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.parts.observations.naively_attacked import NaivelyAttacked
from holdfast.parts.observations.nearest_image import NearestImage
from holdfast.parts.observations.proved_radii import ProvedRadii
from holdfast.parts.observations.radii import Radii
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.shared.margins import OfMargins
from holdfast.parts.observations.smoothed import Smoothed
from holdfast.parts.observations.thumbnails import Thumbnails
from holdfast.parts.observations.transferred import Transferred
from holdfast.parts.rescalings.plain import Plain
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.global_shuffle import GlobalShuffle

DIM, CLASSES, SHARED, NEGATIVES, OTHERS = 6, 4, 0.7, 5, 3000
CORRUPTIONS = (Gamma(0.2), GlobalShuffle(grid=4))
SURROGATES = ("a", "b")
SIZES = {"weak": 1.6, "strong": 0.35}
"""How far an attack moves the representation of the median image, where the images of a class have unit variance."""


class World:
    """Images of a law, and two encoders equal in law that saw them.

    Attributes:
        images: N, all of them attacked.
        strong: whether the encoders hold; else an attack often succeeds.
        random: draws everything.
    """

    def __init__(self, images: int, strong: bool, random: torch.Generator):
        self.images, self.strong, self.random = images, strong, random

    @cached_property
    def seed(self) -> int:
        """What negatives are drawn by."""
        return int(torch.randint(2**31, (1,), generator=self.random))

    def normal(self, *shape: int) -> Tensor:
        """Return standard normal numbers of both encoders, with what they share, [2, *shape]."""
        common, own = (torch.randn(n, *shape, generator=self.random, dtype=torch.float64) for n in (1, 2))
        return SHARED**0.5 * common + (1 - SHARED) ** 0.5 * own

    def hits(self, weak: float, strong: float, *shape: int, latent: Tensor | None = None) -> Tensor:
        """Return 1 with a probability that depends on whether the encoders are weak or strong, [2, N, *shape]."""
        share = torch.tensor(strong if self.strong else weak, dtype=torch.float64)
        own = self.normal(self.images, *shape)
        if latent is not None:  # what an image has in common over columns
            own = (own + latent.view(*latent.shape, *[1] * len(shape))) / 2**0.5
        return (own < torch.special.ndtri(share)).double()

    @cached_property
    def labels(self) -> Tensor:
        """The class of every image; each has as many as any."""
        return torch.arange(self.images) % CLASSES

    @cached_property
    def hardness(self) -> Tensor:
        """What makes an image hard, [2, N]."""
        return self.normal(self.images)

    @cached_property
    def clean(self) -> Tensor:
        """Representations, [2, N, D]: Gaussian clusters, the classes."""
        centres = torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
        return (1.5 if self.strong else 0.7) * centres[self.labels] + self.normal(self.images, DIM)

    @cached_property
    def drifts(self) -> Tensor:
        """How far an attack moves every representation, [2, N]."""
        return SIZES["strong" if self.strong else "weak"] * (0.4 * self.hardness).exp()

    def moved(self, factor: float = 1.0) -> Tensor:
        """Return the representations of images that are disturbed, in any direction, [2, N, D]."""
        away = self.normal(self.images, DIM)
        return self.clean + factor * (self.drifts / away.norm(dim=-1))[..., None] * away

    @cached_property
    def found(self) -> Tensor:
        """Attacked representations, [2, N, D]."""
        return self.moved()

    @cached_property
    def aimed(self) -> Tensor:
        """Representations of images that are attacked towards their partner, [2, N, D]."""
        way = torch.sigmoid((-2.5 if self.strong else -0.2) + 0.8 * self.hardness + 0.3 * self.normal(self.images))
        target = self.clean[:, partners(torch.arange(self.images))]
        return self.clean + way[..., None] * (target - self.clean) + 0.1 * self.normal(self.images, DIM)

    @cached_property
    def corrupted(self) -> list[Tensor]:
        """Representations under each of two corruptions, [2, N, D]."""
        return [self.moved(0.8), self.moved(1.2)]

    @cached_property
    def negatives(self) -> Tensor:
        """Other images that each one is compared with, the same for both encoders, [N, K]."""
        return negatives_of(self.seed, tuple(Seen(self, 0).ids), self.images, NEGATIVES)

    @cached_property
    def radii(self) -> Tensor:
        """How far each image may move before it is one of its negatives; 0 where that holds already, [2, N, K]."""
        apart = (self.clean[:, :, None] - self.clean[:, self.negatives]).norm(dim=-1)
        return (0.1 * (apart / 2 - self.drifts[..., None])).clamp_min(0)

    @cached_property
    def slack(self) -> Tensor:
        """By how much certificates are looser than attacks, [2, N]."""
        return (0.5 * self.normal(self.images)).exp()


class Seen:
    """One of a world's encoders, as far as measures read it from representations."""

    relevance: Relevance | None = None
    has_training_set, encoder = False, Encoder(nn.Flatten(), mean=0, std=1, grid=Grid(1, 3, DIM // 3))

    def __init__(self, world: World, number: int):
        self.world, self.number, self.labels = world, number, world.labels
        self.population = self.attacked = world.images
        self.ids = [str(position) for position in range(world.images)]
        self._thresholds: dict[MatchThreshold, dict[str, Tensor]] = {}

    @property
    def seed(self) -> int:
        """The world's, that its images have the same negatives."""
        return self.world.seed

    def read_again(self) -> list[tuple[str, str]]:
        """Return nothing: there are no images."""
        return []

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what the observation would have seen."""
        world, k = self.world, self.number
        match observation:
            case Clean():
                return {"reps": world.clean[k]}
            case NaivelyAttacked():
                return {f"reps@{step}": world.corrupted[0][k] for step in observation.steps}
            case Attacked():
                reps = world.aimed[k] if isinstance(observation.objective, Targeted) else world.found[k]
                return {f"reps@{step}": reps for step in observation.steps}
            case Represented():
                assert observation.threat in CORRUPTIONS
                return {"reps": world.corrupted[CORRUPTIONS.index(observation.threat)][k]}
            case Transferred():
                return {
                    "reps": world.corrupted[SURROGATES.index(observation.attacked.surrogate)][k],
                    "same": torch.zeros(world.images),
                }
            case Covered():
                return {"reps": world.corrupted[0][k], "place": torch.arange(world.images) % 3}
            case Thumbnails():
                return {"thumbnails": torch.arange(float(world.images))[:, None]}  # none looks like another
            case Drifts():
                return self._drifts()
            case Certified():
                return self._certified(observation)
            case AttackedPairs():
                margin = self._margins(observation)
                return {"margin": margin, "clean": margin, "rounding": 1e-9 * margin.abs()}
            case Radii():
                return {"radius": (world.radii[k] - 0.02 * world.slack[k, :, None]).clamp_min(0)}
            case MinimalRadii():
                return {"radius": world.radii[k]}
            case MatchThreshold():
                if observation not in self._thresholds:
                    self._thresholds[observation] = observation.run(replace(self.shard(world.images), read=self.read))
                return self._thresholds[observation]
            case BreakingRadii(failure=AtThreshold() as failure):
                return {"radius": self._leave(failure, isinstance(failure, Collided))}
            case BreakingRadii():
                nearest = 0.01 + world.radii[k].amin(1)
                return {"radius": nearest, "halfway": 1.1 * nearest}
            case NearestImage():
                return {"apart": 0.3 + world.slack[k], "level": 1 / 255 + 0 * world.slack[k]}
            case EverydayChanges():
                return dict.fromkeys(NAMES, 0.02 + 0 * world.slack[k])
            case ProvedRadii():
                nearest = 0.01 + world.radii[k].amin(1)
                return {"radius": (nearest - 0.02 * world.slack[k]).clamp_min(0)[: observation.first]}
            case Broken():
                # Hubs: from the images towards the middle, where most searches end
                made = world.clean[k] + 0.7 * (world.clean[k].mean(0) - world.clean[k])
                return {"reps": made[: observation.first]}
            case EntryRadii():
                return self._entry_radii(observation)
            case Smoothed():
                return self._smoothed(observation)
        raise AssertionError(f"no law of {observation}")

    def batch(self, start: int, stop: int) -> Images:
        """Refuse: these measures look at no images."""
        raise AssertionError("measures look at no images")

    def bank(self, threat: Threat | None = None) -> Bank:
        """Refuse: what heads learned has laws of its own."""
        raise AssertionError("no law of training images")

    def fit_probe(self, probe: Probe, threat: Threat | None = None) -> Classifier:
        """Refuse: what heads learned has laws of its own."""
        raise AssertionError("no law of probes")

    def refusal(self, observation: Observation) -> str:
        """Return why nothing could be proved: nothing is proved here."""
        return ""

    def collect_points(self, ball: Ball) -> list[Tensor]:
        """Return what the attack met, [N, 1, D]."""
        return [self.world.found[self.number][:, None]]

    def shard(self, count: int) -> Shard:
        """Return what is known of the first images."""
        rng = Rng(self.seed, ids=tuple(self.ids[:count]))
        return Shard(self.encoder, torch.zeros(count, 1, 1, 1), torch.arange(count), rng, self.world.clean[self.number])

    def broke(self, failure: Failure, ball: Ball) -> Tensor:
        """Refuse: failures have laws of their own."""
        raise AssertionError("no law of failures")

    def _entry_radii(self, observation: EntryRadii) -> dict[str, Tensor]:
        """Return how far images stay out of searches: the farther away, the farther, and not where one was taken."""
        clean, hosts = self.world.clean[self.number], torch.arange(observation.first or self.attacked)
        index = Index.of(clean, observation.k, observation.divergence, Plain())
        reach = index.reach_without(hosts)
        moved = self.world.found[self.number][hosts]
        lead = torch.minimum(index.apart(clean[hosts], hosts), index.apart(moved, hosts)) - reach
        size = observation.ball.radius * lead / lead[lead.isfinite()].median()
        return {"radius": (size - 0.02 * self.world.slack[self.number][hosts, None]).clamp_min(0)}

    def _leave(self, failure: AtThreshold, collides: bool) -> Tensor:
        """Return how far images move until they are a threshold away, or as near to their partner, [N]."""
        clean = self.world.clean[self.number]
        limit = failure.read_threshold(replace(self.shard(self.population), read=self.read))
        apart = (clean - clean[partners(torch.arange(self.population))]).norm(dim=1)
        away = (apart - limit).clamp_min(0) if collides else torch.full_like(apart, limit)
        return 0.1 * away / self.world.drifts[self.number]

    def _margins(self, observation: OfMargins) -> Tensor:
        """Return the margins of attacked images against their negatives, [N, K]."""
        return observation.margins(self.shard(self.population))(self.world.found[self.number])

    def _drifts(self) -> dict[str, Tensor]:
        world, k = self.world, self.number
        moved = torch.maximum((world.found[k] - world.clean[k]).abs(), (world.aimed[k] - world.clean[k]).abs())
        reach = moved * (1 + world.slack[k, :, None])
        other = partners(torch.arange(world.images))
        partner = world.clean[k, other]
        nearest = torch.minimum((world.found[k] - partner).norm(dim=1), (world.clean[k] - partner).norm(dim=1))
        apart = nearest - world.slack[k]
        along = (torch.nn.functional.normalize(world.clean[k], dim=1) * world.found[k]).sum(1) - 0.1 * world.slack[k]
        vacuous = torch.zeros(world.images, dtype=torch.float64)
        return {"low": -reach, "high": reach, "along": along, "apart": apart, "vacuous": vacuous}

    def _certified(self, observation: Certified) -> dict[str, Tensor]:
        world, k = self.world, self.number
        if observation.negatives is None:
            own = torch.arange(world.images)
            divergence = require(observation.divergence, LinearDivergence, "a certified event")
            margin, _ = divergence.against(world.found[k], world.clean[k], own)
            lower = margin - world.slack[k, :, None] * world.drifts[k, :, None]
            lower[own, own] = torch.nan
        else:
            lower = self._margins(observation) - 0.2 * world.slack[k, :, None]
        return {"lower": lower, "vacuous": lower < -1e9}

    def _smoothed(self, observation: Smoothed) -> dict[str, Tensor]:
        world, k, (certificate,) = self.world, self.number, observation.certificates
        abstained = (world.hardness[k] > 1.5).double()
        alone = {
            "PairProbability": {
                "radius": world.radii[k] / 2,
                "mean": torch.special.ndtr(world.radii[k]),
                "draws": torch.full((world.images,), 1000),
            },
            "Classifier": {
                "vote": torch.cdist(world.found[k], world.clean[k]).argmin(1),
                "radius": (0.1 - 0.05 * world.hardness[k]).clamp_min(0) * (1 - abstained),
                "abstained": abstained,
            },
            "Center": {
                "radius": world.drifts[k].masked_fill(abstained == 1, torch.nan),
                "abstained": abstained,
            },
        }[type(certificate).__name__]
        return {f"{certificate}.{name}": values for name, values in alone.items()}


Law = Callable[[Measure, World], list[Table]]


def observed(measure: Measure, world: World) -> list[Table]:
    """Return the tables that a measure itself makes of representations."""
    return [measure.observe(Seen(world, k)) for k in range(2)]


def mixed(measure: Measure, world: World) -> list[Table]:
    """As `observed`, of images whose classes are drawn too: the share of pairs of one class does not depend on N."""
    world.labels = torch.randint(CLASSES, (world.images,), generator=world.random)
    return observed(measure, world)


def _each(columns: dict[str, Tensor]) -> list[Table]:
    """Return the tables of both encoders, from columns of both, [2, rows]; others are the same for both."""
    return [{name: v[k] if v.dim() == 2 else v for name, v in columns.items()} for k in range(2)]


def held(measure: Measure, world: World) -> list[Table]:
    """Images that hold or not; some fail without a disturbance and are left out."""
    wrong = world.hits(0.1, 0.02)
    hits = world.hits(0.3, 0.97).masked_fill(wrong == 1, torch.nan)
    zeros = torch.zeros_like(hits)
    drawn = torch.full((world.images,), 100)
    return _each(
        {"held": hits, "frequent": 1 - hits, "undecided": zeros, "value": 1 - hits, "drawn": drawn, "wrong": wrong}
    )


def fooled(measure: Measure, world: World) -> list[Table]:
    """Images that hold or not under a perturbation that was learned on others."""
    rows = torch.ones(world.images, dtype=torch.float64)
    common = {"failed": 0 * rows, "fitted": 0.5 * rows, "learned_on": 300 * rows, "target": 0 * rows}
    image = torch.randint(CLASSES, (world.images,), generator=world.random).double()
    return [table | common | {"taken": torch.where(table["held"] == 0, image, -1)} for table in held(measure, world)]


def edited(measure: Any, world: World) -> list[Table]:
    """The smallest strengths of edits that break an image, on a grid; some images break at none, some as they are."""
    wrong = world.hits(0.1, 0.02)
    columns: dict[str, Tensor] = {}
    for title in measure.corruptions:
        strength = ((0.2 if world.strong else -0.7) + 0.7 * world.hardness + 0.7 * world.normal(world.images)).exp()
        steps = (8 * strength).ceil() / 8
        columns[f"strength@{title}"] = torch.where(wrong == 1, 0.0, steps.masked_fill(steps > 1, torch.inf))
    smallest, number = torch.stack(list(columns.values())).min(0)
    zeros = torch.zeros_like(smallest)
    columns |= {f"{name}@{title}": zeros for title in measure.corruptions for name in ("held", "again")}
    first = number.double().masked_fill(smallest.isinf() | (wrong > 0), torch.nan)
    columns |= {"strength": smallest, "first": first, "reach": smallest.clamp_max(1.0), "wrong": wrong}
    return _each(columns | {"population": zeros + world.images})


def draws(measure: Any, world: World) -> list[Table]:
    """Shares of draws that hold, of images that differ in how often they do."""
    wrong = world.hits(0.1, 0.02)
    chance = torch.special.ndtr((2.5 if world.strong else 0.3) + 0.8 * world.hardness)
    most = measure.estimator.most
    failed = torch.binomial(torch.full_like(chance, float(most)), 1 - chance, generator=world.random)
    share = (1 - failed / most).masked_fill(wrong == 1, torch.nan)
    drawn = torch.full((world.images,), most)
    return _each({"held": share, "low": share, "high": share, "failed": failed, "drawn": drawn, "wrong": wrong})


def rare(measure: Measure, world: World) -> list[Table]:
    """Probabilities from estimates with an error; some images never fail."""
    true = (-(8.0 if world.strong else 3.0) + 2 * world.hardness).exp().clamp_max(1)
    error = torch.randn(2, world.images, generator=world.random, dtype=torch.float64)
    estimate = (true * (0.2 * error).exp()).clamp_max(1).where(true > 1e-6, 0.0)
    ends = {"low": 0.67 * estimate, "high": (1.5 * estimate).clamp(1e-6, 1)}
    zeros = torch.zeros_like(estimate)
    return _each({"probability": estimate, **ends, "wrong": zeros})


def corrupted(measure: Any, world: World) -> list[Table]:
    """Whether a classifier is right, clean and under corruptions."""
    columns = {f"right@{title}": world.hits(0.4, 0.9, latent=world.hardness) for title in measure.corruptions}
    average = torch.stack(list(columns.values())).mean(0)
    ones = torch.ones(world.images, dtype=torch.float64)
    clean = world.hits(0.7, 0.97, latent=world.hardness)
    return _each(columns | {"right": clean, "average": average, "taught": 1000 * ones, "loss": ones})


def shots(measure: Any, world: World) -> list[Table]:
    """Whether classifiers that learned from draws of images are right: images and draws both matter."""
    of_draws = 0.3 * world.normal(measure.draws)
    level = (1.8 if world.strong else 0.2) + world.hardness[..., None] + of_draws[:, None]
    hits = (level + world.normal(world.images, measure.draws) > 0).double()
    (title,) = measure.titles
    columns = {f"draw {draw + 1}@{title}": hits[..., draw] for draw in range(measure.draws)}
    return _each(columns | {f"right@{title}": hits.mean(-1)})


def probed(measure: Measure, world: World) -> list[Table]:
    """Whether a classifier is right; how many classes come before its own."""
    right = world.hits(0.4, 0.97)
    many = torch.full((world.images,), 100)
    return _each({"right": right, "rank": 1 - right, "label": many, "shots": many, "taught": many})


def broken(measure: Any, world: World) -> list[Table]:
    """Which of several attacks turned a classifier."""
    by = torch.where(world.hits(0.3, 0.9) == 1, -1, torch.where(world.hits(0.2, 0.3) == 1, -2, 0))
    return _each({"right": (by == -1).double(), "broken_by": by})


def heads(measure: Any, world: World) -> list[Table]:
    """Whether a usual and a robust head are right."""
    columns: dict[str, Tensor] = {}
    for name in ("standard", "robust"):
        under = {f"{t}@{name}": world.hits(0.4, 0.9, latent=world.hardness) for t in measure.representations}
        right, average = world.hits(0.6, 0.95, latent=world.hardness), torch.stack(list(under.values())).mean(0)
        kept = world.hits(0.3, 0.8)
        columns |= under | {f"right@{name}": right, f"corrupted@{name}": average, f"attacked@{name}": kept}
        columns |= {f"turned@{name}": 1 - kept, f"both@{name}": (right + average) / 2}
    radius = torch.full((world.images,), 0.25, dtype=torch.float64)
    gain = columns["both@robust"] - columns["both@standard"]
    return _each(columns | {"radius": radius, "kept": torch.zeros_like(radius), "gain": gain})


def taken(measure: Any, world: World) -> list[Table]:
    """Whether images of two classes are taken for their partners; some are in no pair."""
    pairs = torch.arange(world.images) // 2
    together = world.normal(len(pairs.unique()))[:, pairs]
    hits = world.hits(0.7, 0.1, latent=together)
    alone = torch.rand(len(pairs.unique()), generator=world.random)[pairs] < 0.1
    way = torch.arange(world.images) % 2
    columns = {measure.column: hits.masked_fill(alone, torch.nan), "right": torch.ones_like(hits)}
    return _each(columns | {"pair": torch.where(alone, -1, pairs), "way": way})


def captioned(measure: Any, world: World) -> list[Table]:
    """How early images and their captions, two of each, find each other; most captions of the file are of others."""
    given = World(OTHERS, world.strong, torch.Generator().manual_seed(11)).clean[:1].expand(2, -1, -1)
    own = torch.arange(world.images).repeat_interleave(2)
    owners = torch.cat([own, torch.full((OTHERS,), -1)])
    texts = torch.cat([world.clean[:, own] + 0.5 * world.normal(len(own), DIM), given], 1)
    return [measure.table(texts[k], owners, world.clean[k], world.images, [world.found[k]]) for k in range(2)]


def sought(measure: Any, world: World) -> list[Table]:
    """What queries find among other images, three of which are relevant to each: the nearest, for both on average."""
    given = World(OTHERS, world.strong, torch.Generator().manual_seed(11)).clean[0]
    relevant = torch.cdist(world.clean.mean(0), given).topk(3, largest=False).indices + world.images
    pairs = torch.stack([torch.arange(world.images).repeat_interleave(3), relevant.flatten()], 1)
    queries = torch.arange(world.images + OTHERS) < world.images
    relevance = Relevance(queries, pairs, torch.tensor([3, 2, 1]).repeat(world.images), OTHERS)
    both = zip(world.clean, world.found, strict=True)
    return [measure.table(torch.cat([clean, given]), world.images, relevance, [found]) for clean, found in both]


def certified(measure: Measure, world: World) -> list[Table]:
    """Whether images are right under attack, and proved to be."""
    attack = world.hits(0.4, 0.97)
    return _each({"attack": attack, "certificate": attack * world.hits(0.5, 0.9), "vacuous": 0 * attack})


def classified(measure: Measure, world: World) -> list[Table]:
    """Radii within which a classifier is right: skewed, many of them 0."""
    size = (0.8 * world.hardness).exp() * (0.1 if world.strong else 0.02)
    correct = world.hits(0.4, 0.95)
    proved = (size - 0.02 * world.slack).clamp_min(0) * correct
    columns = {"attack": size * correct, "certificate": proved, "correct": correct}
    return _each(columns | {"found": correct, "radius": proved, "abstained": world.hits(0.3, 0.05) * (1 - correct)})


def compared(measure: Any, world: World) -> list[Table]:
    """Which radii of images are refuted, shown or in order beside others."""
    refuted, ordered = 1 - world.hits(0.3, 0.95), world.hits(0.4, 0.9)
    shown = ordered * world.hits(0.5, 0.6) * (1 - refuted)
    events = {"refuted": refuted, "shown": shown, "as attacked": ordered}
    columns = {f"{which}{name}": values for which in ("", "pairs ", "classes ") for name, values in events.items()}
    size = (0.8 * world.hardness).exp() * (0.1 if world.strong else 0.02)
    columns |= dict.fromkeys(("pair", "binary", "several"), size)
    numbers = range(measure.negatives)
    return _each(columns | {f"{name}@{number}": size for name in ("likeness", "radius") for number in numbers})


def reached(measure: Measure, world: World) -> list[Table]:
    """How much of what certificates allow an attack reached, against other images of the population."""
    share = (1 - 0.2 * world.slack[..., None] * (0.2 + 4 * world.radii)).clamp(0, 1).mean(-1)
    zeros = torch.zeros_like(share)
    return _each({"tightness": share, "vacuous": zeros, "lower": zeros, "found": zeros})


def separated(measure: Any, world: World) -> list[Table]:
    """Accuracies of classifiers fitted to halves of images of two Gaussian classes, a distance 2s apart."""
    s = torch.tensor(measure.mixtures.separations, dtype=torch.float64)
    n, ideal = float(measure.mixtures.samples), torch.special.ndtr(s).expand(2, -1)
    level = (0.9 if world.strong else 0.6) * s + 0.05 * world.normal(len(s))
    true = torch.special.ndtr(level)[..., None].repeat(1, 1, 2)
    right = torch.binomial(torch.full_like(true, n), true, generator=world.random) / n
    bound = 1 + (-s.square() / 2).exp() / (math.sqrt(2 * math.pi) * s * ideal)
    kinds = {"right": right, "accuracy": right, "bound": bound, "reference accuracy": ideal, "reference bound": bound}
    both = {kind: v if v.dim() == 3 else v[..., None].expand(-1, -1, 2) for kind, v in kinds.items()}
    rows = {"s": s.repeat_interleave(2), "direction": torch.zeros(2 * len(s)), "half": torch.arange(2).repeat(len(s))}
    for epsilon in measure.mixtures.epsilons:
        rows |= {f"{kind}@{epsilon:g}": values.flatten(1) for kind, values in both.items()}
    return _each(rows)


SHORT: dict[str, Any] = {"attack": Pgd(10), "readouts": (10,)}
QUICK: dict[str, Any] = {"attack": Apgd(4)}
TWO: dict[str, Any] = {"threats": CORRUPTIONS}
OFTEN: dict[str, Any] = {"rate": 0.05}
COUNTED: dict[str, Any] = {"negatives": NEGATIVES}

LAWS: dict[str, tuple[Law, dict[str, Any]]] = {
    "adversarial_hubness": (observed, {}),
    "adversarial_margin": (observed, SHORT),
    "adversarial_robustness": (held, {}),
    "alignment": (observed, TWO),
    "breakaway_risk": (observed, SHORT),
    "breaking_edit": (edited, {"edits": EVERYDAY[:2], "levels": 0}),
    "breaking_radius": (observed, {}),
    "caption_retrieval": (captioned, QUICK),
    "center_smoothing": (observed, {}),
    "certified_accuracy": (certified, {}),
    "certified_breakaway_risk": (observed, QUICK),
    "certified_drift": (observed, QUICK),
    "certified_nearest_neighbour_accuracy": (observed, QUICK),
    "certified_hubness": (observed, {"divergence": L2()}),
    "certified_overlap_risk": (observed, QUICK),
    "certified_radius": (observed, COUNTED),
    "class_uniformity": (observed, {}),
    "corrupted_accuracy": (corrupted, TWO),
    "corruption_drift": (observed, TWO),
    "cosine_to_self": (observed, SHORT),
    "cosine_to_target": (observed, SHORT),
    "edited_matching": (observed, TWO | OFTEN),
    "edited_patch_breakaway": (observed, TWO),
    "edited_retrieval": (observed, TWO),
    "effective_rank": (observed, {}),
    "failure_probability": (rare, {}),
    "feature_distance": (observed, {}),
    "few_shot_accuracy": (shots, {"shots": (5,)}),
    "fine_tuned_accuracy": (corrupted, TWO),
    "fine_tuned_drop": (corrupted, TWO),
    "hubness": (observed, {}),
    "impersonation_rate": (taken, {"readouts": (50,)}),
    "instance_accuracy": (observed, COUNTED),
    "linear_radius": (classified, {}),
    "margin_calibration": (observed, {"tail": 5, "orders": (2, 1)}),
    "margin_distribution": (observed, SHORT),
    "naive_overstatement": (observed, SHORT),
    "nearest_neighbour_accuracy": (observed, SHORT),
    "matching": (observed, QUICK | OFTEN),
    "matching_radius": (observed, {"rate": 0.1}),
    "neighbour_consistency": (observed, TWO),
    "overlap_risk": (observed, SHORT),
    "patch_breakaway": (observed, SHORT),
    "patch_drift": (observed, SHORT),
    "patch_spill": (observed, {}),
    "probabilistic_accuracy": (held, {}),
    "probabilistic_robustness": (draws, {}),
    "probe_accuracy": (probed, {}),
    "radius_bound": (compared, {}),
    "radius_likeness": (compared, {}),
    "relative_drop": (corrupted, TWO),
    "relative_quantile": (observed, SHORT),
    "retrieval": (observed, QUICK),
    "robust_accuracy": (broken, {}),
    "robust_probe": (heads, TWO),
    "segment_kept": (observed, SHORT | {"segments": 2}),
    "smoothed_accuracy": (observed, {}),
    "smoothed_probe_accuracy": (classified, {}),
    "smoothed_radius": (observed, {"certificate": PairProbability(negatives=NEGATIVES)}),
    "synbench": (separated, {"mixtures": Mixtures(samples=256, separations=tuple(k / 4 for k in range(1, 17)))}),
    "task_retrieval": (sought, QUICK),
    "tightness": (reached, COUNTED),
    "uniformity": (mixed, {}),
    "transfer_quantile": (observed, {"surrogates": SURROGATES}),
    "transfer_rate": (observed, {"surrogates": SURROGATES}),
    "under": (observed, {"attack": Pgd(10)}),
    "universal_quantile": (observed, SHORT),
    "universal_robustness": (fooled, {}),
    "worst_noise_robustness": (draws, {}),
}
"""How a measure's tables come about, and its parameters where they differ from the usual ones, for speed."""


SAMPLED = tuple(f"{name} of 30 sampled" for name in ("matching", "uniformity", "universal_quantile"))
"""Measures that compare no more pairs than so many images have, in which all images take part."""


def measure(name: str) -> Measure:
    """Return a measure with the parameters of its law, and the images whose pairs it compares."""
    part, _, sampled = name.partition(" of ")
    pairs = {"pairs_of": int(sampled.split()[0])} if sampled else {}
    return registry.find("measures", part)(**LAWS[part][1], **pairs)


def tables(part: Measure, name: str, world: World) -> list[Table]:
    """Return a measure's tables of both encoders of a world."""
    return LAWS[name.partition(" of ")[0]][0](part, world)
