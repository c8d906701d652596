"""The adversary of training against the papers' listings, gradients by finite differences and passes by hand."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import losses_by_hand as by_hand
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast.core import (
    Attack,
    Ball,
    Batch,
    EncodedView,
    Encoder,
    Facts,
    Goal,
    HoldfastError,
    Images,
    Method,
    Passes,
    Rng,
    StepResult,
    Student,
    Threat,
    Trajectory,
)
from holdfast.parts.attacks.bim import Bim
from holdfast.parts.attacks.fgsm import Fgsm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.methods.byol import Byol
from holdfast.parts.methods.self_distillation import SelfDistillation
from holdfast.parts.methods.simclr import Simclr
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.mixture import save
from holdfast.parts.threats.shared.generator import Design, Generator
from holdfast.parts.threats.shared.learned import LearnedNoise
from holdfast.parts.threats.uniform import Uniform
from holdfast.runtime.errors import BadValue, Conflict, Mismatch, Missing, NotFinite, Unsupported
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.sources.encoders.shared.weights import fix_seed
from holdfast.training import loop
from holdfast.training.adversary import Adversary
from holdfast.training.batchnorm import wrap_batchnorm
from holdfast.training.recipe import Recipe
from holdfast.training.recipe_file import make_recipe

IMAGES, DIM = 6, 5
BATCH = Batch(torch.arange(IMAGES))
RNG = Rng(0, ids=tuple(map(str, range(IMAGES))))


def encoder() -> Encoder:
    """A network whose training mode, with BatchNorm and dropout, is not its eval mode; float64."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, DIM)
        )
    for value in (net[1].running_mean, net[1].weight):  # pyright: ignore
        value.data += torch.linspace(0.1, 0.4, 4)  # pyright: ignore
    return Encoder(net, mean=0.4, std=0.5).double()


def student(method: Method | None = None, kind: str = "shared") -> Student:
    with torch.random.fork_rng():
        torch.manual_seed(3)  # heads are drawn: whatever ran before must not matter
        made = (method or Simclr(hidden=32, dim=4)).student(
            wrap_batchnorm(trainable(encoder()), kind), Facts(DIM, IMAGES)
        )
    return made.double().train()


def views(count: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = [torch.rand(IMAGES, 1, 6, 6, generator=generator).double() for _ in range(count)]
    x[0][0], x[0][1] = 0.0, 1.0
    return x


def eval_reps(made: Student, x: Tensor) -> Tensor:
    return copy.deepcopy(made).eval().encoder(x)


@dataclass(frozen=True)
class Spy(Attack):
    """Finds nothing, but keeps the goal."""

    goals: list[Goal]
    steps: int = 1

    @property
    def passes(self) -> Passes:
        return Passes()

    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        self.goals.append(goal)
        return Trajectory({1: x}, {}, torch.zeros(2, len(x)))


def goal_of(adversary: Adversary, made: Student, x: list[Tensor]) -> Callable[[Tensor], Tensor]:
    """The values that the attack maximises, in eval mode as the attack sees them."""
    spy = Spy([])
    replace(adversary, attack=spy).disturb(made, x, BATCH, RNG)

    def values(at: Tensor) -> Tensor:
        made.eval()
        try:
            return spy.goals[0](at)[0]
        finally:
            made.train()

    return values


# --- what the attack maximises ---------------------------------------------------------------------


def test_untargeted_attacks_leave_their_own_representation() -> None:
    made, x = student(), views()
    at = (x[0] + 0.03).clamp(0, 1)
    by_hand = (eval_reps(made, at) - eval_reps(made, x[0])).norm(dim=1)
    torch.testing.assert_close(goal_of(Adversary(objective=Untargeted()), made, x)(at), by_hand)


def test_targeted_attacks_go_to_the_next_image_of_the_other_view() -> None:
    made, x = student(), views()
    at = (x[0] + 0.03).clamp(0, 1)
    target = torch.cat([eval_reps(made, x[1])[-1:], eval_reps(made, x[1])[:-1]])
    by_hand = -(eval_reps(made, at) - target).norm(dim=1)
    torch.testing.assert_close(goal_of(Adversary(objective=Targeted()), made, x)(at), by_hand)
    project = copy.deepcopy(made).eval().projector
    by_hand = -(project(eval_reps(made, at)) - project(target)).norm(dim=1)
    torch.testing.assert_close(goal_of(Adversary(objective=Targeted(), space="projection"), made, x)(at), by_hand)
    alone = student(SelfDistillation())
    target = eval_reps(alone, x[0]).roll(1, 0)  # listing 3: one view
    by_hand = -(eval_reps(alone, at) - target).norm(dim=1)
    torch.testing.assert_close(goal_of(Adversary(objective=Targeted()), alone, [x[0]] * 2)(at), by_hand)


@pytest.mark.parametrize(
    ("method", "joint"),
    [
        (Simclr(hidden=32, dim=4), False),
        (Simclr(hidden=32, dim=4), True),
        (Byol(hidden=32, dim=4), False),
        (SelfDistillation(), False),
    ],
)
@pytest.mark.slow
def test_loss_based_attacks_step_along_the_sign_of_the_loss_gradient(method: Method, joint: bool) -> None:
    made, ball = student(method), Linf(0.05)
    x = [views()[0]] * 2 if made.same_view else views()
    adversary = Adversary(
        ball, Pgd(steps=1, step_size=0.01, keep="last"), None, joint=joint, high_pass=2.0 if joint else None
    )
    quiet = copy.deepcopy(made).eval()

    @torch.no_grad()
    def loss(at: Tensor) -> float:
        if joint:
            high = adversary.further(x)
            assert high is not None
            seen = quiet.see([*x, at, *high], [0, 1, 0, 0])
            return float(quiet.joint(seen, BATCH))
        (one,) = quiet.see([at], [0], targets=False)  # listing 2: x' predicts, and is no target of the attack
        return float(quiet.loss([one, *quiet.see(x[1:], [1])], BATCH))

    start = ball.sample(x[0], RNG.child("pgd", 0))
    slopes = torch.zeros_like(start)
    for place in np.ndindex(*start.shape):
        step = torch.zeros_like(start)
        step[place] = 1e-5
        slopes[place] = (loss(start + step) - loss(start - step)) / 2e-5
    by_hand = (x[0] + (start + 0.01 * slopes.sign() - x[0]).clamp(-0.05, 0.05)).clamp(0, 1)
    (found,) = adversary.disturb(made, x, BATCH, RNG)
    clear = slopes.abs() > 1e-7
    assert clear.double().mean() > 0.9
    torch.testing.assert_close(found[clear], by_hand[clear])
    total = goal_of(adversary, made, x)(start).sum().detach()
    assert float(total) == pytest.approx(loss(start), rel=1e-6)


def test_the_attack_raises_the_loss_more_than_noise_does() -> None:
    made, x = student(), views()
    attack = Pgd(steps=10, step_size=0.02, keep="last")
    for adversary in (Adversary(Linf(0.1), attack, None), Adversary(L2(0.5), replace(attack, step_size=0.1), None)):
        values = goal_of(adversary, made, x)
        (found,) = adversary.disturb(made, x, BATCH, RNG)
        (noise,) = replace(adversary, threat=Uniform(Linf(0.1))).disturb(made, x, BATCH, RNG)
        assert values(found).sum() > values(noise).sum() + 0.02
        assert values(found).sum() > values(x[0]).sum() + 0.02


def test_the_attack_sees_the_statistics_of_attacked_images() -> None:
    made, x = student(kind="split"), views()
    adversary = Adversary(objective=None)
    (before,) = adversary.disturb(made, x, BATCH, RNG)
    layer = made.encoder.module[1]  # pyright: ignore
    with torch.no_grad():
        layer.clean.weight.mul_(-3)
        layer.clean.running_mean.add_(2)
    torch.testing.assert_close(adversary.disturb(made, x, BATCH, RNG)[0], before)
    with torch.no_grad():
        layer.layer.weight.mul_(-3)
    assert not torch.equal(adversary.disturb(made, x, BATCH, RNG)[0], before)


# --- where it looks, and what it leaves alone ------------------------------------------------------

ADVERSARIES = {
    "untargeted": Adversary(),
    "targeted": Adversary(objective=Targeted(), space="projection"),
    "loss in l2": Adversary(L2(0.3), Pgd(steps=2), None),
    "joint": Adversary(objective=None, joint=True, high_pass=2.0),
    "fast": Adversary(attack=Pgd(steps=1, step_size=1.25 * 0.05, keep="last"), objective=None),
    "fgsm": Adversary(attack=Fgsm(), objective=None),
    "noise": Adversary(Uniform(Linf(0.05))),
    "free": Adversary(free=2),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_images_stay_in_the_ball_and_the_student_is_untouched(name: str) -> None:
    adversary, made, x = ADVERSARIES[name], student(kind="split" if name == "fast" else "shared"), views()
    tensors = {key: value.clone() for key, value in made.state_dict().items()}
    flags = [module.training for module in made.modules()]
    learns = [value.requires_grad for value in made.parameters()]
    (found,) = adversary.disturb(made, x, BATCH, RNG)
    assert found.is_leaf
    assert found.requires_grad == (name == "free")
    assert found.min() >= 0
    assert found.max() <= 1
    moved = found.detach() - x[0]
    size = moved.flatten(1).norm(dim=1) if isinstance(adversary.threat, L2) else moved.abs().flatten(1).amax(1)
    assert (size <= (0.3 if isinstance(adversary.threat, L2) else 0.05) + 1e-9).all()
    assert (size > 0.01).all()
    assert all(torch.equal(value, tensors[key]) for key, value in made.state_dict().items())
    assert [module.training for module in made.modules()] == flags
    assert True in flags
    assert [value.requires_grad for value in made.parameters()] == learns
    assert all(value.grad is None for value in made.parameters())


def test_a_failing_attack_leaves_training_mode_on() -> None:
    made = student()
    with torch.no_grad():
        made.encoder.module[5].weight.fill_(torch.nan)  # pyright: ignore
    with pytest.raises(NotFinite):
        Adversary().disturb(made, views(), BATCH, RNG)
    assert made.training
    assert made.encoder.module.training


@pytest.mark.parametrize(
    ("adversary", "forward", "backward"),
    [
        (Adversary(), 1 + 3, 3),  # f(x), and a pass for every gradient
        (Adversary(objective=Targeted()), 2 + 3, 3),
        (Adversary(objective=None), 1 + 3, 3),
        (Adversary(objective=None, joint=True, high_pass=2.0), 3 + 3, 3),
        (Adversary(attack=Pgd(steps=3)), 1 + 3 + 1, 3),  # the best of all iterates: the last one too
        (Adversary(attack=Pgd(steps=1, step_size=0.06, keep="last")), 1 + 1, 1),
        (Adversary(attack=Fgsm()), 1 + 1, 1),
        (Adversary(free=2), 0, 0),
        (Adversary(Uniform(Linf(0.05))), 0, 0),
    ],
)
def test_passes(adversary: Adversary, forward: int, backward: int) -> None:
    made = student()
    adversary.disturb(made, views(), BATCH, RNG)
    assert made.encoder.passes == Passes(forward * IMAGES, backward * IMAGES)


@pytest.mark.parametrize(
    "attack", [Pgd(4, 0.01, keep="last"), Pgd(4, keep="best"), Pgd(2, restarts=2, keep="last"), Fgsm(), Bim(3)]
)
def test_the_worst_images_are_those_of_the_whole_attack(attack: Attack) -> None:
    made, x = student().eval(), views()[0]
    goal = Untargeted().pursue(made.encoder, made.encoder(x).detach())
    whole = attack(goal, x, Linf(0.05), RNG).images[attack.steps]
    torch.testing.assert_close(attack.worst(goal, x, Linf(0.05), RNG), whole)


def test_fast_training_takes_one_long_step_from_a_random_start() -> None:
    made, x, ball = student(), views(), Linf(0.04)
    adversary = Adversary(ball, Pgd(steps=1, step_size=1.25 * 0.04, keep="last"), None)
    start = ball.sample(x[0], RNG.child("pgd", 0)).requires_grad_()
    quiet = copy.deepcopy(made).eval()
    (slopes,) = torch.autograd.grad(quiet.loss(quiet.see([start, x[1]], [0, 1]), BATCH), start)
    by_hand = (x[0] + (start + 0.05 * slopes.sign() - x[0]).clamp(-0.04, 0.04)).clamp(0, 1)
    torch.testing.assert_close(adversary.disturb(made, x, BATCH, RNG)[0], by_hand.detach())


# --- noises ----------------------------------------------------------------------------------------


def mixture(path: Path, structure: str, dim: int = DIM, **more: object) -> Threat:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        known = torch.tensor([3, 7]) if structure == "label" else None
        design = Design(
            (1, 6, 6), dim, groups=2 if known is not None else 0, grouping="labels", structure=structure, latent=8
        )
        generator = Generator(design, known).eval().requires_grad_(False)
        if structure == "label":
            generator.logits.weight.copy_(30 * torch.randn_like(generator.logits.weight))  # pyright: ignore
    return save(LearnedNoise(generator, Linf(0.1)), path)


def test_random_noise_is_drawn_for_every_image() -> None:
    x = views()
    (found,) = Adversary(Uniform(Linf(0.05))).disturb(student(), x, BATCH, RNG)
    torch.testing.assert_close(found, Uniform(Linf(0.05)).sample(x[0], RNG))


def test_learned_mixtures_are_given_the_representations_of_now(tmp_path: Path) -> None:
    threat, made, x = mixture(tmp_path / "m.safetensors", "input"), student().float(), [v.float() for v in views()]
    (found,) = Adversary(threat).disturb(made, x, BATCH, RNG)
    by_hand = threat.at(eval_reps(made, x[0]), None).sample(x[0], RNG)  # pyright: ignore
    torch.testing.assert_close(found, by_hand)
    assert (found - x[0]).abs().max() <= 0.1 + 1e-6
    assert made.encoder.module.training
    with torch.no_grad():
        made.encoder.module[5].weight.mul_(-2)  # pyright: ignore
    assert not torch.equal(Adversary(threat).disturb(made, x, BATCH, RNG)[0], found)


def test_mixtures_of_labels_know_classes_by_the_names_of_the_data(tmp_path: Path) -> None:
    threat, made, x = mixture(tmp_path / "m.safetensors", "label"), student().float(), [v.float() for v in views()]
    numbers = torch.tensor([0, 1, 1, 0, 1, 0])
    batch = replace(BATCH, labels=numbers, classes=(3, 7))
    (found,) = Adversary(threat).disturb(made, x, batch, RNG)
    names = torch.tensor([3, 7, 7, 3, 7, 3])
    by_hand = [threat.at(eval_reps(made, x[0]), labels).sample(x[0], RNG) for labels in (names, 10 - names)]  # pyright: ignore
    torch.testing.assert_close(found, by_hand[0])
    assert not torch.equal(found, by_hand[1])
    with pytest.raises(Missing):
        Adversary(threat).disturb(made, x, BATCH, RNG)


def test_a_mixture_of_another_encoder_is_refused(tmp_path: Path) -> None:
    threat = mixture(tmp_path / "m.safetensors", "input", DIM + 2)
    with pytest.raises(Mismatch, match=rf"{DIM + 2} .*got {DIM}"):
        Adversary(threat).disturb(student(), views(), BATCH, RNG)


# --- AdvCL -----------------------------------------------------------------------------------------


def test_the_high_pass_view_is_what_is_finer() -> None:
    at = torch.arange(16) / 16
    coarse, fine = 0.2 * (2 * math.pi * 2 * at).cos(), 0.2 * (2 * math.pi * 6 * at).cos()
    x = (0.5 + coarse[:, None] + fine[None]).expand(3, 1, 16, 16)
    adversary = Adversary(joint=True, high_pass=4.0)
    further = adversary.further([x, x])
    assert further is not None
    torch.testing.assert_close(further[0], (0.5 + fine[None]).expand(16, 16).expand(3, 1, 16, 16), atol=1e-6, rtol=0)
    (grey,) = adversary.further([torch.full((2, 1, 16, 16), 0.9)]) or []
    torch.testing.assert_close(grey, torch.full((2, 1, 16, 16), 0.5))
    assert Adversary().further([x]) is None
    assert Adversary(joint=True).further([x]) == []


def joint_by_hand(z: list[np.ndarray], temperature: float) -> float:
    z = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in z]
    total, terms = 0.0, 0
    for i, one in enumerate(z):
        for j, other in enumerate(z):
            if i == j:
                continue
            for n in range(len(one)):
                among = [
                    math.exp(one[n] @ z[view][k] / temperature)
                    for view in (0, 1)
                    for k in range(len(one))
                    if (view, k) != (i, n)
                ]
                total -= math.log(math.exp(one[n] @ other[n] / temperature) / sum(among))
                terms += 1
    return total / terms


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_joint_loss_is_the_papers(count: int) -> None:
    made, generator = student(Simclr(temperature=0.3, hidden=32, dim=4)), np.random.default_rng(0)
    z = [generator.standard_normal((5, 4)) for _ in range(count)]
    seen = [EncodedView(None, torch.from_numpy(part), None) for part in z]
    assert float(made.joint(seen, BATCH)) == pytest.approx(joint_by_hand(z, 0.3), rel=1e-10)
    if count == 2:
        assert float(made.joint(seen, BATCH)) == pytest.approx(float(made.loss(seen, BATCH)), rel=1e-10)


def test_a_joint_step_reads_all_views() -> None:
    made, x = student().eval(), views(4)
    outcome = made(x[:2], [x[2]], BATCH, 0.5, 2.0, [x[3]])
    seen = made.see([x[0], x[1], x[2], x[3]], [0, 1, 0, 0])
    joint, plain = made.joint(seen, BATCH), made.loss(seen[:2], BATCH)
    torch.testing.assert_close(outcome.loss, 0.5 * plain + 2.0 * joint)
    torch.testing.assert_close(made(x[:2], [x[2]], BATCH, 0.0, 1.0, [x[3]]).loss, joint)


def test_methods_without_a_joint_loss_say_so() -> None:
    with pytest.raises(Unsupported, match="byol"):
        Adversary(objective=None, joint=True).disturb(student(Byol(hidden=32, dim=4)), views(), BATCH, RNG)


# --- RoCL ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_mutual_loss_is_that_of_the_authors(count: int) -> None:
    made, generator = student(Simclr(temperature=0.3, hidden=32, dim=4)), np.random.default_rng(0)
    z = [generator.standard_normal((5, 4)) for _ in range(count)]
    seen = [EncodedView(None, torch.from_numpy(part), None) for part in z]
    assert float(made.mutual(seen, BATCH)) == pytest.approx(by_hand.mutual(z, 0.3), rel=1e-10)
    if count == 2:
        assert float(made.mutual(seen, BATCH)) == pytest.approx(float(made.loss(seen, BATCH)), rel=1e-10)


def test_the_mutual_loss_on_paper() -> None:
    """Two images whose three projections lie on the axes: a as a, b as -a; T 1, so all likenesses are 1 or -1."""
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    seen = [EncodedView(None, z, None)] * 3
    # each is told from 5 others: 2 of its own image at likeness 1, 3 of the other's at -1; two positives for each
    one = math.log(2 * math.e + 3 / math.e) - 1
    assert float(student(Simclr(temperature=1, hidden=32, dim=2)).mutual(seen, BATCH)) == pytest.approx(2 * one)


def test_no_gradient_passes_through_what_a_projection_is_told_from() -> None:
    made, generator = student(Simclr(temperature=0.3, hidden=32, dim=4)), np.random.default_rng(0)
    z = [generator.standard_normal((3, 4)) for _ in range(3)]
    leaves = [torch.from_numpy(part).requires_grad_() for part in z]
    made.mutual([EncodedView(None, leaf, None) for leaf in leaves], BATCH).backward()
    for place in ((0, 1, 2), (1, 2, 0), (2, 0, 3)):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [part.copy() for part in z]
            moved[place[0]][place[1:]] += step
            ends.append(by_hand.mutual(moved, 0.3, keys=z))
        gradient = leaves[place[0]].grad
        assert gradient is not None
        assert float(gradient[place[1:]]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-9)


def test_a_step_of_rocl_adds_the_pair_to_the_loss_of_all_three() -> None:
    made, x = student(Simclr(temperature=0.5, hidden=32, dim=4)).eval(), views(3)
    outcome = made(x[:2], [x[2]], BATCH, 0.0, 1.0, [], 1 / 256)
    z = [view.out.detach().numpy() for view in made.see(x, [0, 1, 0]) if view.out is not None]
    assert outcome.loss.item() == pytest.approx(by_hand.rocl(z[0], z[1], z[2], 0.5, 1 / 256), rel=1e-9)
    without = by_hand.simclr([z[0], z[1]], 0.5) + by_hand.simclr([z[2], z[1]], 0.5)
    assert abs(outcome.loss.item() - without) > 0.1  # not L(x_0, x_1) + L(x', x_1)


def test_rocl_attacks_the_pair_alone() -> None:
    """The adversary climbs L(x', x_1), whatever else is learned."""
    x, attack = views(), Pgd(steps=2, step_size=0.01, keep="last")
    ball = Linf(radius=0.05)
    (plain,) = Adversary(ball, attack, None).disturb(student(), x, BATCH, RNG)
    (rocl,) = Adversary(ball, attack, None, clean=0, rocl=1 / 256).disturb(student(), x, BATCH, RNG)
    assert torch.equal(plain, rocl)
    assert Adversary(ball, rocl=1 / 256).further(x) == []


def test_methods_without_a_mutual_loss_say_so() -> None:
    made, x = student(Byol(hidden=32, dim=4)), views(3)
    with pytest.raises(Unsupported, match="byol"):
        made(x[:2], [x[2]], BATCH, 0.0, 1.0, [], 0.5)


# --- free training ---------------------------------------------------------------------------------


def test_a_replay_moves_the_images_by_the_gradient_of_the_step_before() -> None:
    made, x, adversary = student(), views(), Adversary(Linf(0.04), free=3)
    first = adversary.disturb(made, x, BATCH, RNG)
    torch.testing.assert_close(first[0].detach(), Linf(0.04).sample(x[0], RNG))
    quiet = copy.deepcopy(made).eval()
    quiet(x, first, BATCH).loss.backward()
    gradient = first[0].grad
    assert gradient is not None
    (second,) = adversary.disturb(made, x, BATCH, RNG, first)
    by_hand = (x[0] + (first[0].detach() + 0.04 * gradient.sign() - x[0]).clamp(-0.04, 0.04)).clamp(0, 1)
    torch.testing.assert_close(second.detach(), by_hand)
    assert quiet(x, [second], BATCH).attacked > quiet(x, first, BATCH).attacked
    assert second.requires_grad


FREE = {
    "encoder": "zoo:resnet20_32?size=8",
    "data": "digits?part=train",
    "images": 48,
    "batch_size": 16,
    "accumulate": 2,
    "epochs": 1,
    "method": {"name": "simclr", "hidden": 32, "dim": 4},
    "adversary": {"free": 3, "threat": {"name": "linf", "radius": 0.1}},
    "views": {"colour": 0, "grey": 0},
}


def recipe(**changes: object) -> Recipe:
    return make_recipe({**FREE, "encoder": "zoo:digits_cnn", **changes})


def test_every_batch_is_learned_from_as_often_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], bool]] = []
    disturb = Adversary.disturb

    def spied(
        self: Adversary, made: Student, x: list[Tensor], batch: Batch, rng: Rng, before: Sequence[Tensor] = ()
    ) -> list[Tensor]:
        seen.append((batch.positions.tolist(), bool(before)))
        return disturb(self, made, x, batch, rng, before)

    monkeypatch.setattr(Adversary, "disturb", spied)
    monkeypatch.setattr(loop._Training, "_places", lambda training, epoch: torch.arange(48))
    done = loop.train(recipe(epochs=2), tmp_path / "run")
    assert done.steps == 2 * 3 * 3
    batches = [[p for part in seen[at : at + 2] for p in part[0]] for at in range(0, 18, 2)]
    assert batches[0] == batches[1] == batches[2]
    assert sorted(batches[0] + batches[3] + batches[6]) == list(range(48))
    assert [begun for _, begun in seen] == [False, False, True, True, True, True] * 6
    assert [row["epoch"] for row in done.rows] == pytest.approx([batch / 3 for batch in range(1, 7) for _ in range(3)])


def test_an_interrupted_replay_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = loop._Training._one_step

    def interrupted(training: loop._Training) -> None:
        if training.step == 5:
            raise KeyboardInterrupt
        step(training)

    monkeypatch.setattr(loop, "SAVE_EVERY", -1.0)
    monkeypatch.setattr(loop._Training, "_one_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.train(recipe(batchnorm="split", ema=0.5), tmp_path / "run")
    monkeypatch.undo()
    resumed = loop.train(recipe(batchnorm="split", ema=0.5), tmp_path / "run")
    whole = loop.train(recipe(batchnorm="split", ema=0.5), tmp_path / "whole")
    assert resumed.resumed == 3
    assert resumed.encoder.fingerprint == whole.encoder.fingerprint
    assert resumed.rows == whole.rows


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        ({"free": 0}, BadValue, "free"),
        ({"free": 2, "threat": {"name": "uniform"}}, BadValue, "free"),
        ({"high_pass": 8.0}, BadValue, "joint=true"),
        ({"rocl": -1.0}, BadValue, r"adversary\.rocl"),
        ({"rocl": 0.5, "joint": True}, Conflict, "joint=false"),
        ({"high_pass": 0.0, "joint": True}, BadValue, "adversary"),
    ],
)
def test_bad_adversaries(wrong: dict[str, object], kind: type[HoldfastError], said: str) -> None:
    with pytest.raises(kind, match=said):
        recipe(adversary=wrong)


@pytest.mark.parametrize("objective", [Untargeted(), Targeted()])
def test_attacks_on_a_distilled_encoder_measure_from_what_it_was(objective: Untargeted | Targeted) -> None:
    """Listing 3: clean and target representations are those of the encoder before training, f_0, not of f."""
    made = student(SelfDistillation())
    with torch.no_grad():
        for value in made.encoder.parameters():
            value += 0.1
    x = views(1) * 2
    start, now = encoder(), eval_reps(made, x[0])
    assert not torch.allclose(now, start(x[0]))
    value, reps = Adversary(objective=objective)._goal(made.eval(), x, BATCH)(x[0])
    torch.testing.assert_close(reps, now)
    aim = start(x[0]) if isinstance(objective, Untargeted) else start(x[0]).roll(1, 0)
    apart = (now - aim).norm(dim=1)
    torch.testing.assert_close(value, apart if isinstance(objective, Untargeted) else -apart)


def test_a_distilled_encoder_is_asked_once_in_a_step_what_it_was() -> None:
    """The attack and the loss need f_0 of the same images; images of another step are asked anew."""
    made, passes = student(SelfDistillation()), []
    assert made.twin is not None
    made.twin[0].module.register_forward_hook(lambda *_: passes.append(1))
    adversary, x, other = Adversary(Linf(0.05)), views(1) * 2, [views()[1]] * 2
    attacked = adversary.disturb(made, x, BATCH, RNG)
    assert len(passes) == 1

    def learned(views: list[Tensor]) -> StepResult:
        with fix_seed(0):  # of its dropout
            return made(views, attacked, BATCH)

    shared = learned(x)
    assert len(passes) == 1
    torch.testing.assert_close(shared, learned(x), atol=0, rtol=0)
    assert len(passes) == 2
    adversary.disturb(made, x, BATCH, RNG)
    changed = learned(other)
    assert len(passes) == 4
    torch.testing.assert_close(changed, learned(other), atol=0, rtol=0)


def test_losses_are_computed_in_full_under_mixed_precision() -> None:
    made = student(Simclr(hidden=32, dim=4)).float().eval()
    x = [view.float() for view in views()]
    with torch.autocast("cpu", torch.bfloat16):
        outcome = made(x, [], BATCH)
        seen = made.see(x, [0, 1], batch=BATCH)
    outs = [one.out for one in seen if one.out is not None]
    assert [out.dtype for out in outs] == [torch.float32] * 2
    assert not torch.equal(outs[0], made.see(x, [0, 1])[0].out)  # the network itself ran in half
    torch.testing.assert_close(outcome.loss, made.loss(seen, BATCH), atol=0, rtol=0)
