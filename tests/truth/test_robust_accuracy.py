"""Robust accuracy where it is known: linear encoders, whose every image has an exact distance to the next class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from benchmarks.gpu.pretend import pretended_gpu
from torch import Tensor, nn

from holdfast.core import (
    Attack,
    Ball,
    Encoder,
    Goal,
    Head,
    Images,
    Objective,
    Passes,
    Rng,
    Shard,
    Trajectory,
)
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.fgsm import Fgsm
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.measures.classifiers.robust_accuracy import RobustAccuracy
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.objectives.dlr import Dlr
from holdfast.parts.objectives.nt_xent import NtXent
from holdfast.parts.observations.fooled import Fooled
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Mismatch, Missing

IMAGES, SIDE, DIM = 60, 4, 6
ALL = Fooled((Apgd(40), Apgd(40), MinimumNorm(40), Square(40)), (CrossEntropy(), Dlr(), ClassMargin(), ClassMargin()))
MEMBERS = list(zip(ALL.attacks, ALL.objectives, strict=True))


def shard(encoder: Encoder, classes: int, seed: int = 0, images: int = IMAGES) -> Shard:
    """Images far from the edges of the box, a random head, and labels of which a tenth are not the head's."""
    random = torch.Generator().manual_seed(seed)
    x = 0.4 + 0.2 * torch.rand(images, 1, SIDE, SIDE, generator=random)
    with torch.no_grad():
        clean = encoder(x)
    weights = torch.randn(classes, clean.shape[1], generator=random)
    bias = -weights @ clean.mean(0)
    labels = (clean @ weights.T + bias).argmax(1)
    labels[::10] = (labels[::10] + 1) % classes
    head = Head(weights, bias, torch.arange(classes))
    ids = tuple(map(str, range(images)))
    return Shard(encoder, x, torch.arange(images), Rng(0, ids=ids), clean, labels=labels, head=lambda probe: head)


def linear(seed: int = 0) -> Encoder:
    layer = nn.Linear(SIDE * SIDE, DIM)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(DIM, SIDE * SIDE, generator=torch.Generator().manual_seed(seed)))
    return Encoder(nn.Sequential(nn.Flatten(), layer), mean=0, std=1)


@pytest.fixture
def bent() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 40), nn.ReLU(), nn.Linear(40, DIM))
    return Encoder(net, mean=0.5, std=0.1)


def distances(seen: Shard, dual: float) -> Tensor:
    """How far each image is from the nearest other class; below 0 where it is there already."""
    assert seen.head is not None
    assert seen.labels is not None
    assert seen.clean is not None
    margin = seen.head(ALL.probe).margins(seen.labels)
    weight = seen.encoder.module.get_parameter("1.weight")
    ways = (margin.weights @ weight).norm(p=dual, dim=2)
    return (margin(seen.clean) / ways).amin(1).detach()


NORMS = [pytest.param(Linf, 1.0, id="linf"), pytest.param(L2, 2.0, id="l2")]


@pytest.mark.parametrize(("norm", "dual"), NORMS)
@pytest.mark.parametrize("classes", [pytest.param(2, marks=pytest.mark.slow), 10])
@pytest.mark.parametrize("member", [*MEMBERS[:3], None], ids=["ce", "dlr", "norm", "all"])
def test_linear_classifiers(
    member: tuple[Attack, Objective] | None, classes: int, norm: Callable[[float], Ball], dual: float
) -> None:
    """Right under attack exactly where the next class is farther than ε.

    One member alone may go for a class that is strong but far, where there are several: it finds four in five.
    """
    seen = shard(linear(), classes)
    far = distances(seen, dual)
    ball = norm(float(far[far > 0].median()))
    parts = ALL if member is None else Fooled((member[0],), (member[1],))
    broken_by = replace(parts, ball=ball).run(seen)["broken_by"]
    assert torch.equal(broken_by == -2, far <= 0)
    assert int((broken_by == -2).sum()) == IMAGES // 10
    clear = (far / ball.radius - 1).abs() > 0.02
    assert int(clear.sum()) > 0.8 * IMAGES
    holds, stands = far > ball.radius, broken_by == -1
    assert stands[clear & holds].all()
    assert float((~stands)[clear & ~holds].double().mean()) >= (0.8 if member and classes > 2 else 1)


def test_a_member_for_each_class_finds_what_the_strongest_class_hides() -> None:
    """One pixel d: z = (0, -0.1 - 0.1 d, -0.2 + 10 d). The second class is nearer in logits, the third in pixels."""
    weights, bias = torch.tensor([[0.0], [-0.1], [10.0]]), torch.tensor([0.0, -0.1, -0.2])
    x = torch.full((1, 1, 1, 1), 0.5)
    encoder = Encoder(nn.Flatten(), mean=0.5, std=1)
    head = Head(weights, bias, torch.arange(3))
    seen = Shard(
        encoder, x, torch.arange(1), Rng(0, ids=("a",)), encoder(x), labels=torch.tensor([0]), head=lambda probe: head
    )
    objectives = (ClassMargin(), ClassMargin(1), ClassMargin(2))
    parts = Fooled((Fgsm(0.0),) * 3, objectives, Linf(0.05))
    assert parts.run(seen)["broken_by"].tolist() == [2]
    assert parts.members == ("fgsm, class_margin", "fgsm, class_margin 1", "fgsm, class_margin 2")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("classes", [2, 10])
def test_an_ensemble_leaves_nothing_standing_that_a_member_fools(classes: int, bent: Encoder) -> None:
    seen, parts = shard(bent, classes), replace(ALL, ball=Linf(0.03))
    whole = parts.run(seen)["broken_by"]
    alone = [replace(parts, attacks=(a,), objectives=(o,)).run(seen)["broken_by"] >= 0 for a, o in MEMBERS]
    assert torch.equal(whole >= 0, torch.stack(alone).any(0))
    first = torch.stack(alone).to(torch.uint8).argmax(0)
    assert torch.equal(whole[whole >= 0], first[whole >= 0])
    assert 0.1 < float((whole >= 0).double().mean()) < 0.9


@pytest.mark.slow
def test_the_result_depends_on_neither_shards_nor_company(bent: Encoder) -> None:
    seen, parts = shard(bent, 5), replace(ALL, ball=Linf(0.03))
    whole = parts.run(seen)["broken_by"]
    for some in (torch.arange(0, 7), torch.arange(7, IMAGES), torch.tensor([40, 3, 21])):
        ids = [seen.rng.ids[i] for i in some.tolist()]
        part = replace(seen, x=seen.x[some], positions=some, rng=seen.rng.at(ids))
        assert torch.equal(parts.run(part)["broken_by"], whole[some])


def test_images_that_have_fallen_cost_nothing_more(bent: Encoder) -> None:
    seen, parts = shard(bent, 5), replace(ALL, ball=Linf(0.03))
    bent.passes = Passes()
    broken_by = parts.run(seen)["broken_by"]
    least, most = Passes(), Passes()
    for number, attack in enumerate(parts.attacks):
        standing = (broken_by == -1) | (broken_by > number)
        fallen = int((broken_by == number).sum())
        least += attack.passes * int(standing.sum()) + Passes(forward=fallen)
        most += attack.passes * (int(standing.sum()) + fallen)
    assert least.forward <= bent.passes.forward < most.forward
    assert least.backward <= bent.passes.backward < most.backward
    assert parts.adaptive
    assert parts.passes == sum((attack.passes for attack in parts.attacks), Passes())


@dataclass(frozen=True)
class Passing(Attack):
    """Looks at x + shift on its way, and returns x."""

    shift: float
    steps = 1

    @property
    def passes(self) -> Passes:
        return Passes(forward=2)

    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        goal(x + self.shift)
        values, reps = goal(x)
        return Trajectory({1: x}, {1: reps}, values[None])


@pytest.mark.parametrize(("shift", "fooled"), [(0.05, True), (0.2, False)])
def test_every_image_of_the_ball_counts_and_no_other(shift: float, fooled: bool) -> None:
    """One pixel, two classes with the boundary 0.02 away: an image outside of the ball proves nothing."""
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    head = Head(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, -0.52]), torch.arange(2))
    x = torch.full((2, 1, 1, 1), 0.5)
    seen = Shard(
        encoder, x, torch.arange(2), Rng(0, ids=("a", "b")), x.flatten(1), labels=torch.tensor([0, 1]),
        head=lambda probe: head,
    )  # fmt: skip
    encoder.passes = Passes()
    found = Fooled((Passing(shift),), (ClassMargin(),), Linf(0.1)).run(seen)["broken_by"]
    assert found.tolist() == [0 if fooled else -1, -2]
    assert encoder.passes.forward == (1 if fooled else 2)  # what is fooled is not looked at again


def test_what_is_fooled_stays_so_until_the_host_looks() -> None:
    """On a device, which the host asks once in `EVERY` passes: the second pass undoes what the first one did."""
    with pretended_gpu():
        x = torch.full((3, 1, 1, 1), 0.5).to("cuda")
        encoder = Encoder(nn.Flatten(), mean=0, std=1).to("cuda")
        head = Head(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, -0.52]), torch.arange(2))
        ids, labels = ("a", "b", "c"), torch.tensor([0, 1, 0])
        seen = Shard(encoder, x, torch.arange(3), Rng(0, ids=ids), x.flatten(1), labels=labels, head=lambda probe: head)
        found = Fooled((Passing(0.05), Passing(0.2)), (ClassMargin(),) * 2, Linf(0.1)).run(seen)["broken_by"]
    assert found.tolist() == [0, -2, 0]


def test_a_tie_is_wrong() -> None:
    """At the boundary itself, without and with an attack."""
    head = Head(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, -0.5]), torch.arange(2))
    x = torch.tensor([0.5, 0.25]).view(2, 1, 1, 1)
    seen = Shard(
        Encoder(nn.Flatten(), mean=0, std=1), x, torch.arange(2), Rng(0, ids=("a", "b")), x.flatten(1),
        labels=torch.tensor([0, 0]), head=lambda probe: head,
    )  # fmt: skip
    assert Fooled((Passing(0.25),), (ClassMargin(),), Linf(0.3)).run(seen)["broken_by"].tolist() == [-2, 0]


def test_scores_of_a_table_by_hand() -> None:
    broken_by = torch.tensor([-2, -2, 0, 1, 1, 3, -1, -1, -1, -1])
    table = {"right": (broken_by == -1).double(), "broken_by": broken_by}
    scores = RobustAccuracy().score(table)
    assert {name: score.value for name, score in scores.items()} == {
        "no attack": pytest.approx(0.8),
        "after apgd, cross_entropy": pytest.approx(0.7),
        "after apgd, dlr": pytest.approx(0.5),
        "after minimum_norm, class_margin": pytest.approx(0.5),
        "after all": pytest.approx(0.4),
    }
    assert list(scores)[-1] == "after all"
    assert "Clopper-Pearson" in scores["after all"].interval
    alone = RobustAccuracy(attacks=(Pgd(20),), objectives=(CrossEntropy(),))
    its_own = {**table, "broken_by": broken_by.clamp(max=0)}
    found = {name: score.value for name, score in alone.score(its_own).items()}
    assert found == {"no attack": pytest.approx(0.8), "after pgd, cross_entropy": pytest.approx(0.4)}
    twice = RobustAccuracy(attacks=(Pgd(20),) * 3, objectives=(CrossEntropy(),) * 3)
    assert list(twice.score(table)) == [
        "no attack", "after pgd, cross_entropy", "after pgd, cross_entropy (2)", "after all",
    ]  # fmt: skip
    for name, score in scores.items():
        influence = RobustAccuracy().influence(table, name)
        assert influence[broken_by == -1].unique().tolist() == [pytest.approx(1 - score.value)]
        assert int((influence > 0).sum()) == round(10 * score.value)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(BadValue, match="2 attacks"):
        RobustAccuracy(attacks=(Pgd(), Apgd()), objectives=(CrossEntropy(),))
    with pytest.raises(BadValue, match="0 attacks"):
        Fooled((), ())
    with pytest.raises(BadValue, match="nt_xent"):
        Fooled((Pgd(),), (NtXent(),))


def test_labels_are_needed_and_known() -> None:
    seen = shard(linear(), 3)
    with pytest.raises(Missing, match="labels"):
        ALL.run(replace(seen, labels=None, head=None))
    with pytest.raises(Mismatch, match=r"\[7\]"):
        ALL.run(replace(seen, labels=torch.full((IMAGES,), 7)))
