"""The robust linear probe: the known optimum for Gaussian classes, the standard head at radius 0, what it costs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize
from scipy.special import expit
from torch import Tensor, nn

from holdfast.core import Attack, Ball, Encoder, Head, HoldfastError, LinearProbe, Objective, Passes, Rng, Shard, Threat
from holdfast.numerics.gaussian_classes.robust_bayes import GaussianClasses
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.objectives.nt_xent import NtXent
from holdfast.parts.observations import robust_head
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.parts.observations.robust_head import RobustHead
from holdfast.parts.probes import robust_linear
from holdfast.parts.probes.few_shot import FewShot
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.robust_linear import RobustLinear
from holdfast.parts.probes.shared.worst_found import best_against, losses, price
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Missing, NotEnough, Unsupported

SHAPE = (1, 2, 3)
HALF = torch.tensor([0.04, 0.02, 0.015, 0.006, -0.02, 0.0])
DEVIATION = torch.tensor([0.06, 0.02, 0.05, 0.01, 0.04, 0.03])


STRONGER = Apgd(30)


class Linearly(nn.Module):
    """f(x) = A x."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix)

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.matrix.T


def rotated() -> Encoder:
    """An orthogonal map: a ball of images is a ball of representations."""
    matrix = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(2))).Q
    return Encoder(Linearly(matrix), mean=0, std=1, name="rotation")


def gaussian_classes(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    x = 0.5 + (2 * labels[:, None] - 1) * HALF + DEVIATION * torch.randn(count, 6, generator=random)
    return x.view(-1, *SHAPE), labels


def network(classes: int = 12) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(96, classes))
    return Encoder(net, mean=0.5, std=0.5, name="network")


def pictures(count: int = 60) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    labels = torch.arange(count) % 3 + 4
    x = torch.rand(count, 1, 8, 8, generator=random) / 2
    x[torch.arange(count), 0, labels] += 0.3
    return x, labels


def shard(encoder: Encoder, x: Tensor, labels: Tensor | None, read: Callable | None = None) -> Shard:
    rng = Rng(3, ids=tuple(f"image {k}" for k in range(len(x))))
    return Shard(encoder, x[:1], torch.arange(1), rng, None, lambda places: x[places], labels, read=read)


def learned(encoder: Encoder, x: Tensor, labels: Tensor, probe: RobustLinear, **more) -> dict[str, Tensor]:
    return RobustHead(probe, **more).run(shard(encoder, x, labels))


def head_of(seen: dict[str, Tensor]) -> Head:
    return Head(seen["weights"], seen["bias"], seen["classes"])


def standard(encoder: Encoder, x: Tensor, labels: Tensor, probe: LinearProbe | None = None) -> Head:
    with torch.no_grad():
        return (probe or Linear()).fit(encoder(x), labels)


def attacked_loss(
    encoder: Encoder, head: Head, x: Tensor, labels: Tensor, ball: Ball, attack: Attack = STRONGER
) -> float:
    """By another attack, or other random numbers."""
    target = F.one_hot(head.numbers(labels), len(head.classes)).float()
    goal = CrossEntropy().pursue(lambda moved: head.scores(encoder(moved)), target, target)
    found = attack(goal, x, ball, Rng(99, ids=tuple(map(str, range(len(x))))))
    return float(found.values[-1].mean())


def robust_logistic(r: Tensor, signs: Tensor, radius: float) -> tuple[Tensor, float]:
    """argmin 1/N Σ ln(1 + exp(ε ||w|| - y (w · r + b))), the worst case of a linear function in closed form."""
    y, ones = signs.double().numpy(), torch.cat([r.double(), torch.ones(len(r), 1)], 1).numpy()

    def fall(v: np.ndarray) -> tuple[float, np.ndarray]:
        size = max(float(np.linalg.norm(v[:-1])), 1e-12)
        margin = y * (ones @ v) - radius * size
        slope = -(y[:, None] * ones) + radius * np.append(v[:-1] / size, 0)
        return float(np.logaddexp(0, -margin).mean()), (slope * expit(-margin)[:, None]).mean(0)

    found = minimize(fall, np.append(signs.double().numpy() @ r.double().numpy(), 0), jac=True, method="BFGS")
    return torch.from_numpy(found.x[:-1]), float(found.fun)


@pytest.mark.parametrize("radius", [pytest.param(0.015, marks=pytest.mark.slow), 0.03])
def test_gaussian_classes_have_the_robust_bayes_classifier_as_their_head(radius: float) -> None:
    """For a linear encoder the problem has a closed form, and is well specified: W_1 - W_0 tends to 2 Λ⁻¹(μ - z_Λ)."""
    encoder, (x, labels) = rotated(), gaussian_classes(2000)
    seen = learned(
        encoder, x, labels, RobustLinear(L2(radius), Pgd(6, 4 * radius), epochs=8, tolerance=1e-3, penalty=1e-3)
    )
    found = (seen["weights"][1] - seen["weights"][0]).double()
    exact, least = robust_logistic(encoder(x), 2 * labels - 1, radius)
    assert float((found - exact).norm() / exact.norm()) < 0.03
    assert seen["bound"][-1] <= least + 1e-4
    assert float(seen["loss"].min()) == pytest.approx(least, rel=1e-3)
    matrix = encoder.module.matrix.double()  # type: ignore[union-attr]
    model = GaussianClasses(matrix @ torch.full((6,), 0.5).double(), matrix, DEVIATION.double().square(), HALF.double())
    (weights,) = model.classifiers(torch.tensor([radius]).double(), relative=False).weights
    head = standard(encoder, x, labels)
    for one, near in ((found, True), ((head.weights[1] - head.weights[0]).double(), False)):
        assert (float(F.cosine_similarity(one, matrix @ weights, 0)) > 0.99) == near
    assert float(found.norm() / (2 * weights).norm()) == pytest.approx(1, abs=0.25)


def test_a_radius_of_zero_gives_the_standard_head(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, (x, labels) = network(), pictures()
    for penalty in (1.0, 0.1):
        seen = choose(encoder, x, labels, best=0.0, penalty=penalty)
        head = standard(encoder, x, labels, Linear(penalty))
        assert torch.equal(seen["weights"], head.weights)
        assert torch.equal(seen["bias"], head.bias)
        assert seen["classes"].tolist() == [4, 5, 6]
        assert float(seen["radius"]) == 0
        assert len(seen["loss"]) == 0
    tiny = learned(encoder, x, labels, RobustLinear(L2(1e-6), epochs=3))
    head = standard(encoder, x, labels)
    assert torch.allclose(tiny["weights"], head.weights, atol=2e-3 * float(head.weights.abs().max()))
    two = labels < 6
    tiny, head = learned(encoder, x[two], labels[two], RobustLinear(L2(1e-6), epochs=3)), None
    head = standard(encoder, x[two], labels[two])
    assert torch.allclose(tiny["weights"], head.weights, atol=2e-3 * float(head.weights.abs().max()))


def choose(encoder: Encoder, x: Tensor, labels: Tensor, best: float | None, **more) -> dict[str, Tensor]:
    """Learn with the radius of mixtures among which only the best ε is ever accurate."""
    mixtures = Mixtures(epsilons=(0.0, 0.1, 0.3), samples=100, separations=(1.0, 2.0))
    accuracy = torch.full((2, 2, 3), 0.55).double()
    for number, epsilon in enumerate(mixtures.epsilons):
        accuracy[..., number] += 0.4 * (epsilon == best)
    found = {"s": torch.tensor([1.0, 2.0]).double(), "accuracy": accuracy, "bound": torch.ones(2, 2, 3).double()}
    found |= {"reference_accuracy": torch.full((2, 3), 0.97).double(), "reference_bound": torch.ones(2, 3).double()}
    asked = []
    probe = RobustLinear(L2(5.0), Pgd(3), epochs=3, chosen_by=mixtures, **more)
    seen = RobustHead(probe).run(shard(encoder, x, labels, lambda one: asked.append(one) or found))
    assert asked == [mixtures]
    return seen


def test_mixtures_choose_the_radius() -> None:
    encoder, (x, labels) = network(), pictures()
    seen = choose(encoder, x, labels, best=0.3)
    asked = learned(encoder, x, labels, RobustLinear(L2(0.3), Pgd(3), epochs=3))
    assert float(seen["radius"]) == 0.3
    assert torch.equal(seen["weights"], asked["weights"])
    with pytest.raises(Unsupported, match="chosen_by"):
        choose(encoder, x, labels, best=None)


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("ball", "objective"),
    [
        (L2(0.5), CrossEntropy()),
        (Linf(0.05), ClassMargin()),
        pytest.param(L2(0.5), ClassMargin(), marks=pytest.mark.slow),
        pytest.param(Linf(0.05), CrossEntropy(), marks=pytest.mark.slow),
    ],
)
def test_new_images_lose_less_under_attack(ball: Ball, objective: Objective) -> None:
    encoder, (x, labels) = network(), pictures(240)
    here, there = slice(0, 150), slice(150, None)
    probe = RobustLinear(ball, Pgd(8), objective, epochs=4)
    seen = learned(encoder, x[here], labels[here], probe)
    robust, usual = head_of(seen), standard(encoder, x[here], labels[here])
    for part in (here, there):
        before = attacked_loss(encoder, usual, x[part], labels[part], ball)
        after = attacked_loss(encoder, robust, x[part], labels[part], ball)
        assert after < 0.9 * before
    assert float(seen["loss"].min()) < float(seen["loss"][0])


def test_the_course_is_that_of_the_heads() -> None:
    """The first loss is the standard head's, and the head that is returned has the lowest one, on attacked images."""
    encoder, (x, labels) = network(), pictures()
    seen = learned(encoder, x, labels, RobustLinear(L2(0.5), Pgd(20), epochs=4))
    usual, robust = standard(encoder, x, labels), head_of(seen)
    with torch.no_grad():
        scale = encoder(x).double().std(0, correction=0)
    for head, loss in ((usual, seen["loss"][0]), (robust, seen["loss"].min())):
        mine = attacked_loss(encoder, head, x, labels, L2(0.5), Pgd(20))
        mine += float((head.weights.double() * scale).square().sum()) / 2 / len(x)
        assert mine == pytest.approx(float(loss), rel=0.02)
    assert (seen["bound"] <= seen["loss"].min() + 1e-6).all()


@dataclass(frozen=True)
class Watched(Objective):
    """Keeps what it is given."""

    given: ClassVar[list[tuple[Tensor, Tensor]]] = []

    def __call__(self, reps: Tensor, clean: Tensor, target: Tensor | None = None) -> Tensor:
        assert target is not None
        self.given.append((clean, target))
        return -(target * reps).sum(1)


def test_objectives_are_given_logits_of_clean_images_and_their_classes() -> None:
    encoder, (x, labels) = network(), pictures()
    learned(encoder, x, labels, RobustLinear(L2(0.5), Pgd(3), Watched(), epochs=2))
    with torch.no_grad():
        logits = standard(encoder, x, labels).scores(encoder(x))
    for clean, target in Watched.given[:4]:  # the first attack
        assert torch.allclose(clean, logits, atol=1e-5)
        assert torch.equal(target, F.one_hot(labels - 4).float())


def test_passes_are_those_predicted() -> None:
    encoder, (x, labels) = network(), pictures()
    observation = RobustHead(RobustLinear(L2(0.5), Pgd(3), epochs=4, tolerance=0))
    observation.run(shard(encoder, x, labels))
    assert encoder.passes == observation.passes * len(x) == Passes(forward=60 * (1 + 4 * 4), backward=60 * 4 * 3)


def test_it_ends_when_its_loss_meets_its_bound() -> None:
    encoder, (x, labels) = network(), pictures()
    full = learned(encoder, x, labels, RobustLinear(L2(0.2), Pgd(5), epochs=8, tolerance=0))
    for tolerance in (0.2, 0.02):
        seen = learned(encoder, x, labels, RobustLinear(L2(0.2), Pgd(5), epochs=8, tolerance=tolerance))
        count = len(seen["loss"])
        assert torch.equal(seen["bound"], full["bound"][:count])
        gaps = 1 - seen["bound"] / seen["loss"].cummin(0).values
        assert gaps[-1] < tolerance
        assert (gaps[1:-1] >= tolerance).all()
        assert count < 8


def test_nothing_depends_on_what_is_read_or_attacked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, (x, labels) = network(), pictures()
    probe = RobustLinear(L2(0.5), Pgd(3), epochs=3)
    reads: list[int] = []
    others = shard(encoder, x, labels)
    others = Shard(
        **{**vars(others), "others": lambda places: reads.append(len(places)) or x[places]}  # type: ignore[arg-type]
    )
    whole = RobustHead(probe, Gaussian(0.1)).run(others)
    assert reads == [60]
    monkeypatch.setattr(robust_linear, "PIXELS", {"cpu": 7 * 64})
    monkeypatch.setattr(robust_head, "BLOCK", 100)
    reads.clear()
    parts = RobustHead(probe, Gaussian(0.1)).run(others)
    assert max(reads) == 7
    assert whole.keys() == parts.keys()
    for name in whole:
        assert torch.allclose(whole[name], parts[name], atol=1e-3, rtol=1e-3), name
    other = Shard(**{**vars(others), "rng": Rng(4, ids=others.rng.ids)})
    assert not torch.allclose(RobustHead(probe).run(other)["loss"], parts["loss"], atol=1e-3)


class Recorder(nn.Module):
    """Keeps the images that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        return x.flatten(1)


@pytest.mark.parametrize("threat", [Gaussian(0.6, clamped=False), Gamma(0.5), None])
def test_what_is_attacked_is_the_disturbed_image(threat: Threat | None) -> None:
    module, (x, labels) = Recorder(), pictures(30)
    learned(
        Encoder(module, mean=0, std=1), x, labels, RobustLinear(L2(0.5), Pgd(3), epochs=2, tolerance=0), threat=threat
    )
    rng = Rng(3, ("training",), tuple(f"image {k}" for k in range(30)))
    given = x if threat is None else threat.sample(x, rng)
    assert torch.equal(module.seen[0], given)
    assert len(module.seen) == 1 + 2 * 4
    reached = torch.stack([(moved - given).flatten(1).norm(dim=1) for moved in module.seen[1:]])
    assert float(reached.max()) <= 0.5 + 1e-5
    assert float(reached[3].median()) > 0.45
    extremes = torch.stack([moved.clamp(0, 1) - moved for moved in module.seen[1:]])
    assert bool((extremes != 0).any()) == isinstance(threat, Gaussian)


def test_one_version_is_the_problem_of_linear() -> None:
    random = torch.Generator().manual_seed(0)
    z = torch.randn(90, 5, generator=random).double()
    z = (z - z.mean(0)) / z.std(0, correction=0)
    labels = (z[:, 0] + torch.randn(90, generator=random) > 0).long() + (z[:, 1] > 0.5).long()
    ones, target = torch.cat([z, torch.ones(90, 1).double()], 1), F.one_hot(labels).double()
    found, least = best_against([ones], target, torch.zeros(3, 6).double(), 1 / 90)
    head = Linear().fit(z.float(), labels)
    assert torch.allclose(found[:, :-1], head.weights.double(), atol=1e-3)
    assert least == pytest.approx(float(losses(ones, target, found).mean()) + price(found, 1 / 90), abs=1e-9)


def test_several_versions_have_the_head_that_is_best_against_the_worst() -> None:
    """The minimum is at most that of the true maximum, at most τ ln K below it, and no other head comes lower."""
    random = torch.Generator().manual_seed(0)
    versions = [torch.randn(40, 4, generator=random).double() for _ in range(3)]
    target = F.one_hot(torch.arange(40) % 2).double()
    for version in versions:
        version[:, 0] += 2 * target[:, 0]
        version[:, -1] = 1

    def worst(head: Tensor) -> float:
        return float(torch.stack([losses(one, target, head) for one in versions]).amax(0).mean()) + price(head, 0.02)

    found, least = best_against(versions, target, torch.zeros(2, 4).double(), 0.02)
    assert least <= worst(found) <= least + 0.01 * math.log(3)
    for size in (0.01, 0.1, 1.0):
        for _ in range(20):
            other = found + size * torch.randn(2, 4, generator=random).double()
            assert worst(other) > least
            assert worst(other) > worst(found) - 0.02


def test_what_does_not_go_together_is_refused() -> None:
    reps, labels = torch.randn(6, 3), torch.arange(6) % 2
    for learn in (RobustLinear().fit, FewShot):
        with pytest.raises(HoldfastError, match="representations"):
            learn(reps, labels) if learn is not FewShot else FewShot(RobustLinear())
    for more, match in (
        ({"epochs": 1}, "epochs"),
        ({"tolerance": -0.1}, r"robust_linear\.tolerance"),
        ({"tolerance": 1.0}, "tolerance"),
        ({"penalty": 0.0}, r"robust_linear\.penalty"),
        ({"objective": NtXent()}, "robust_linear"),
        ({"chosen_by": Clean()}, "robust_linear"),
        ({"threshold": 1.0}, "robust_linear"),
    ):
        with pytest.raises(BadValue, match=match):
            RobustLinear(**more)
    x, labels = pictures(6)
    with pytest.raises(Missing, match="labels"):
        RobustHead().run(shard(network(), x, None))
    with pytest.raises(NotEnough):
        RobustHead().run(shard(network(), x, torch.zeros(6, dtype=torch.int64)))
