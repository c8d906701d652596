"""Measures on hand-made representations: formulas by loops, identity and constant encoders, influences."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from divergences import CODES, divergence
from holdfast.core import (
    Ball,
    Bank,
    Classifier,
    Encoder,
    Grid,
    HoldfastError,
    Images,
    Measure,
    Observation,
    Probe,
    Rng,
    Shard,
    Threat,
    registry,
)
from holdfast.numerics import statistics
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.attacks.fgsm import Fgsm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.dense.patch_drift import PatchDrift
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.drift.cosine_to_target import CosineToTarget
from holdfast.parts.measures.drift.naive_overstatement import NaiveOverstatement
from holdfast.parts.measures.drift.relative_quantile import RelativeQuantile
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.adversarial_margin import AdversarialMargin
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.neighbours.overlap_risk import OverlapRisk
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.runtime.errors import BadValue, Conflict
from searched import Unsearched

SHORT = {"attack": Pgd(4, 0.01), "readouts": (2, 4)}
ALL = [registry.find("measures", name) for name in registry.names("measures")]
LABEL_FREE = [cls for cls in ALL if issubclass(cls, AttackMeasure) and not cls.needs_labels]


@dataclass
class Told(Unsearched):
    """A subject whose representations are given: `attacked` [M, D] at every read-out of every attack."""

    clean: Tensor
    found: Tensor
    later: Tensor | None = None
    seed: int = 0
    labels: Tensor | None = None
    encoder: Encoder = field(default_factory=lambda: Encoder(nn.Flatten(), mean=0, std=1, grid=Grid(1, 4, 1)))

    @property
    def population(self) -> int:
        return len(self.clean)

    @property
    def ids(self) -> list[str]:
        return [str(i) for i in range(self.population)]

    @property
    def attacked(self) -> int:
        return len(self.found)

    has_training_set = False

    def batch(self, start: int, stop: int) -> Images:
        raise AssertionError("measures do not look at images")

    def bank(self, threat: Threat | None = None) -> Bank:
        raise AssertionError("these measures read no training images")

    def fit_probe(self, probe: Probe, threat: Threat | None = None) -> Classifier:
        raise AssertionError("these measures read no labels")

    def collect_points(self, ball: Ball) -> list[Tensor]:
        return [(self.found if self.later is None else self.later)[:, None].double()]

    def read(self, observation: Observation) -> dict[str, Tensor]:
        if isinstance(observation, Clean):
            return {"reps": self.clean}
        assert isinstance(observation, Attacked)
        last = max(observation.steps)
        return {f"reps@{s}": self.found if s < last or self.later is None else self.later for s in observation.steps}


class Real(Told):
    """A subject that is attacked when it is read: an encoder on images."""

    def __init__(self, encoder: Encoder, x: Tensor, attacked: int):
        with torch.no_grad():
            clean = encoder(x)
        super().__init__(clean, clean[:attacked], encoder=encoder)
        self.x = x

    def collect_points(self, ball: Ball) -> list[Tensor]:
        searches = (Attacked(**{**SHORT, "ball": ball}), Attacked(**{**SHORT, "ball": ball, "objective": Targeted()}))
        reps = [self.read(search)[f"reps@{search.attack.steps}"] for search in searches]
        return [torch.stack(reps, 1).double()]

    def read(self, observation: Observation) -> dict[str, Tensor]:
        if isinstance(observation, Clean):
            return {"reps": self.clean}
        positions = torch.arange(self.attacked)
        rng = Rng(self.seed, ids=tuple(map(str, range(self.attacked))))
        return observation.run(Shard(self.encoder, self.x[: self.attacked], positions, rng, self.clean))


def told(population: int = 9, attacked: int = 6, noise: float = 0.8) -> Told:
    random = torch.Generator().manual_seed(0)
    clean = torch.randn(population, 4, generator=random)
    clean[5] = clean[1]  # an exact duplicate
    found, later = clean[:attacked] + noise * torch.randn(2, attacked, 4, generator=random)
    return Told(clean, found, later)


def loop(name: str):
    """d(r, r') of two single vectors, in float64."""
    return lambda a, b: float(divergence(name)(a.double()[None], b.double()[None]))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", sorted(registry.names("divergences")))
@pytest.mark.parametrize(("step", "reps"), [(2, "found"), (4, "later")])
def test_untargeted_measures_are_their_formulas(name, step, reps) -> None:
    subject, d = told(), loop(name)
    clean, attacked = subject.clean, getattr(subject, reps)
    m, n = len(attacked), len(clean)
    pairs = [
        d(clean[i], clean[j]) for i in range(n) for j in range(n) if (i < j if divergence(name).symmetric else i != j)
    ]
    broken = np.zeros((m, n))
    quantile = []
    for i in range(m):
        own = d(attacked[i], clean[i])
        quantile.append(np.mean([pair <= own for pair in pairs]))
        for j in range(n):
            broken[i, j] = j != i and d(attacked[i], clean[j]) < own
    assert 0 < broken.mean() < 1

    measure = UniversalQuantile(**SHORT, divergence=divergence(name))
    table = measure.observe(subject)
    others, drift = [np.nan] * (n - m), [d(attacked[i], clean[i]) for i in range(m)]
    np.testing.assert_allclose(table[f"drift@{step}"], drift + others)
    np.testing.assert_allclose(table[f"quantile@{step}"], quantile + others)
    near = np.zeros(n)
    for middle in np.sort(drift)[[(m - 1) // 2, m // 2]]:
        within = np.array([[i != j and d(clean[i], clean[j]) <= middle for j in range(n)] for i in range(n)])
        near += (within.sum(0) + within.sum(1)) / (4 * (n - 1))
    np.testing.assert_allclose(table[f"near@{step}"], near)
    assert near.mean() == pytest.approx(np.median(quantile))
    assert measure.score(table)[f"{step} steps"].value == pytest.approx(np.median(quantile))

    measure = BreakawayRisk(**SHORT, divergence=divergence(name))  # appendix C.7
    table = measure.observe(subject)
    score = measure.score(table)[f"{step} steps"]
    assert score.value == pytest.approx(broken.sum() / (m * (n - 1)))
    assert score.n == m
    np.testing.assert_allclose(table[f"broken@{step}"], [*(broken.sum(1) / (n - 1)), *[np.nan] * (n - m)])
    np.testing.assert_allclose(table[f"intrudes@{step}"], broken.sum(0) / np.array([m - 1] * m + [m] * (n - m)))

    measure = NearestNeighbourAccuracy(**SHORT, divergence=divergence(name))  # Eq. 4
    found = [not broken[i].any() for i in range(m)]
    table = measure.observe(subject)
    assert table[f"found@{step}"].tolist() == found
    assert measure.score(table)[f"{step} steps"].value == pytest.approx(np.mean(found))


DISTANCES = [name for name in registry.names("divergences") if not divergence(name).signed]
"""Divergences by which nothing is nearer to an image than itself, and of which there are ratios."""


@pytest.mark.parametrize(
    "name", [name for name in DISTANCES if name != "hamming"]
)  # ties of bits leave no overlap here
def test_targeted_measures_are_their_formulas(name) -> None:
    """Pairs are 0-1, 2-3, ...; x̂_i→j is `found[i]`; ratios and margins are paired with the clean distance."""
    subject, d = told(population=12, attacked=12, noise=2.0), loop(name)
    clean, found = subject.clean, subject.found
    given = {"attack": Pgd(4, 0.01), "divergence": divergence(name)}
    m = len(found)
    other = [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10]
    ratio = [d(found[i], clean[j]) / d(clean[i], clean[j]) for i, j in enumerate(other)]
    # Eq. 2 from the side of x_i: how near x̂_j→i comes, and how near x̂_i→j stays
    near, stays = ([d(found[k], clean[i]) for i, k in enumerate(ks)] for ks in (other, range(m)))
    apart = [d(clean[i], clean[j]) for i, j in enumerate(other)]
    overlap = np.array(near) < np.array(stays)
    margin = (np.array(near) - np.array(stays)) / np.array(apart)
    assert 0 < overlap.mean() < 1
    subject = Told(clean, found)

    measure = RelativeQuantile(**given, readouts=(4,))
    table = measure.observe(subject)
    np.testing.assert_allclose(table["ratio@4"], ratio)
    assert table["pair"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert measure.score(table)["4 steps"].value == pytest.approx(np.median(ratio))

    measure = OverlapRisk(**given)
    table = measure.observe(subject)
    assert table["overlap@4"].tolist() == overlap.tolist()
    score = measure.score(table)["4 steps"]
    assert score.value == pytest.approx(overlap.mean())
    assert score.n == 6

    measure = AdversarialMargin(**given)
    table = measure.observe(subject)
    np.testing.assert_allclose(table["margin@4"], margin)
    assert measure.score(table)["4 steps"].value == pytest.approx(np.median(margin))
    assert ((table["margin@4"] < 0).tolist()) == overlap.tolist()  # overlap is a negative margin


def test_cosines_by_hand() -> None:
    clean = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    found = torch.tensor([[1.0, 1.0], [3.0, 4.0]])
    measure = CosineToSelf(attack=Pgd(4, 0.01), readouts=())
    table = measure.observe(Told(clean, found))
    assert table["similarity@4"].tolist() == pytest.approx([0.5**0.5, 0.8])
    assert measure.score(table)["4 steps"].value == pytest.approx((0.5**0.5 + 0.8) / 2)
    measure = CosineToTarget(attack=Pgd(4, 0.01), readouts=())
    table = measure.observe(Told(clean, found))
    assert table["similarity@4"].tolist() == pytest.approx([0.5**0.5, 0.6])
    assert table["clean"].tolist() == pytest.approx([0, 0], abs=1e-12)
    assert list(measure.score(table)) == ["clean", "4 steps"]


def test_the_strongest_member_speaks_for_the_ensemble() -> None:
    """Per image, by the final objective: member 0 wins for image 0, member 1 for image 1."""
    members = (Pgd(3, 0.01), Fgsm())
    clean = torch.zeros(4, 2)
    seen = {
        members[0]: {
            "reps@3": torch.tensor([[1.0, 0.0], [2.0, 0.0]]),
            "values": torch.tensor([[0.0, 0, 0, 9], [0, 0, 0, 1]]),
        },
        members[1]: {"reps@1": torch.tensor([[0.0, 3.0], [0.0, 4.0]]), "values": torch.tensor([[99.0, 8.0], [0, 2]])},
    }

    class Members(Told):
        def read(self, observation: Observation) -> dict[str, Tensor]:
            return seen[observation.attack] if isinstance(observation, Attacked) else super().read(observation)

    measure = UniversalQuantile(attack=Ensemble(members), readouts=())
    _, attacked = measure.reps(Members(clean, clean[:2]))
    assert attacked[1].tolist() == [[1, 0], [0, 4]]


# --- encoders with known answers ------------------------------------------------------------------


class Constant(nn.Module):
    def __init__(self, value: Tensor):
        super().__init__()
        self.register_buffer("value", value)

    def forward(self, x: Tensor) -> Tensor:
        return self.value + 0 * x.flatten(1)[:, :1]


def images(n: int) -> Tensor:
    return 0.3 + 0.4 * torch.rand(n, 1, 2, 3, generator=torch.Generator().manual_seed(3))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("value", [torch.tensor([0.3, -1.7, 0.9, 2.1, 1e3, 1.3]), torch.zeros(6)], ids=["any", "zero"])
def test_constant_encoder(value, name) -> None:
    """Every distance is zero: the drift is as large as all pairs', nothing is strictly nearer, ratios are undefined."""
    if name == "wasserstein":
        value = value.clamp(max=5)
    subject = Real(Encoder(Constant(value), mean=0, std=1), images(10), 8)
    headline = {}
    for cls in (UniversalQuantile, BreakawayRisk, NearestNeighbourAccuracy):
        measure = cls(attack=Pgd(4, 0.02), readouts=(), divergence=divergence(name))
        headline[cls] = measure.score(measure.observe(subject))["4 steps"]
    for cls in (OverlapRisk, RelativeQuantile, AdversarialMargin):
        measure = cls(attack=Pgd(4, 0.02), readouts=(), divergence=divergence(name))
        headline[cls] = measure.score(measure.observe(subject))["4 steps"]
    value_of = {cls: score.value for cls, score in headline.items()}
    # A zero vector is at cosine distance 1 from everything, itself too; of a code no image is at distance 0
    if name == CODES or (name == "cosine" and not value.any()):
        assert value_of.pop(RelativeQuantile) == 1
        assert value_of.pop(AdversarialMargin) == 0
    else:
        for cls in (RelativeQuantile, AdversarialMargin):
            assert value_of.pop(cls) is None
            assert headline[cls].note == "8 of 8 rows are undefined and left out"
    expected = {UniversalQuantile: 1, BreakawayRisk: 0, NearestNeighbourAccuracy: 1, OverlapRisk: 0}
    assert value_of == expected
    assert headline[BreakawayRisk].high == pytest.approx(1 - 0.025 ** (1 / 8))


def test_identity_encoder() -> None:
    """f(x) = x: an ℓ∞ attack moves by ε √n; images stand further apart than that, so nothing is confused."""
    corners = (torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3) * 0.8 + 0.1).view(8, 1, 1, 3)
    radius, subject = 0.05, Real(Encoder(nn.Flatten(), mean=0, std=1), corners, 8)
    far = registry.find("threats", "linf")(radius)

    def score(cls: type[Measure]) -> float | None:
        measure = cls(attack=Pgd(40, 0.01), ball=far, readouts=())
        return measure.score(measure.observe(subject))["40 steps"].value

    table = UniversalQuantile(attack=Pgd(40, 0.01), ball=far, readouts=()).observe(subject)
    np.testing.assert_allclose(table["drift@40"], [radius * 3**0.5] * 8, rtol=1e-5)
    assert score(UniversalQuantile) == 0
    assert score(BreakawayRisk) == 0
    assert score(NearestNeighbourAccuracy) == 1
    assert score(OverlapRisk) == 0
    # the partner differs in the last pixel alone, by 0.8: the attack takes ε of it on either side
    assert score(RelativeQuantile) == pytest.approx(1 - radius / 0.8, abs=0.02)
    assert score(AdversarialMargin) == pytest.approx(1 - 2 * radius / 0.8, abs=0.02)


def test_an_encoder_that_forgets_everything_under_attack() -> None:
    """Attacked representations far beyond all others, on a line: every other image is nearer than one's own."""
    clean = torch.arange(6.0)[:, None]
    found = torch.full((4, 1), 100.0)
    nearer = [5 - i for i in range(4)]  # those between the image and 100
    measure = BreakawayRisk(attack=Pgd(4, 0.01))
    table = measure.observe(Told(clean, found))
    np.testing.assert_allclose(table["broken@4"][:4], [k / 5 for k in nearer])
    assert measure.score(table)["4 steps"].value == pytest.approx(np.mean(nearer) / 5)
    universal = UniversalQuantile(attack=Pgd(4, 0.01), readouts=())
    assert universal.score(universal.observe(Told(clean, found)))["4 steps"].value == 1


# --- influences -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", LABEL_FREE, ids=lambda cls: cls.__name__)
def test_influence_has_one_entry_per_unit(cls) -> None:
    measure = cls(attack=Pgd(4, 0.01), readouts=())
    subject = told()
    table = measure.observe(subject)
    influence = measure.influence(table)
    of_pairs = (BreakawayRisk, UniversalQuantile, NaiveOverstatement, PatchDrift)  # of the whole population
    everyone = dict.fromkeys(of_pairs, subject.population)
    units = everyone.get(cls, 3 if "pair" in table else subject.attacked)
    assert influence.shape == (units,)
    assert torch.isfinite(influence).all()
    assert measure.column in table


@pytest.mark.parametrize("cls", [BreakawayRisk, NearestNeighbourAccuracy, OverlapRisk])
def test_influences_on_means_sum_to_zero(cls) -> None:
    """Exactly, where every image is attacked."""
    measure = cls(attack=Pgd(4, 0.01), readouts=())
    influence = measure.influence(measure.observe(told(population=20, attacked=20, noise=2.0)))
    assert float(influence.sum()) == pytest.approx(0, abs=1e-12)
    assert influence.abs().max() > 0.01


@pytest.mark.parametrize("cls", [BreakawayRisk, OverlapRisk])
def test_influence_predicts_what_leaving_out_an_image_does(cls) -> None:
    """The jackknife of the headline correlates with the influence: same sign, same order."""
    random = torch.Generator().manual_seed(8)
    clean = torch.randn(40, 3, generator=random)
    found = clean + 0.9 * torch.randn(40, 3, generator=random)
    measure = cls(attack=Pgd(4, 0.01), readouts=())
    influence = measure.influence(measure.observe(Told(clean, found)))
    units = torch.arange(40) // 2 if len(influence) == 20 else torch.arange(40)
    whole = measure.score(measure.observe(Told(clean, found)))["4 steps"].value
    without = []
    for unit in range(len(influence)):
        kept = units != unit
        without.append(measure.score(measure.observe(Told(clean[kept], found[kept])))["4 steps"].value)
    effect = whole - torch.tensor(without, dtype=torch.float64)
    assert statistics.correlation(effect, influence) > 0.98


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "asked", "refusal", "error"),
    [
        (OverlapRisk, {"objective": Untargeted()}, BadValue, "targeted"),
        (BreakawayRisk, {"objective": Targeted()}, BadValue, "untargeted"),
        (UniversalQuantile, {"attack": Pgd(4), "readouts": (5,)}, BadValue, "read-outs"),
        (UniversalQuantile, {"attack": Ensemble(), "readouts": (1,)}, Conflict, "readouts"),
        (BreakawayRisk, {"divergence": "cosin"}, BadValue, r"'cosine'\?"),
    ],
)
def test_measures_refuse_what_they_cannot_mean(kind, asked, refusal: type[HoldfastError], error) -> None:
    with pytest.raises(refusal, match=error):
        kind(**asked)
