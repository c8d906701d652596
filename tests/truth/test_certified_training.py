"""Certified training: its bounds are sound, those of the certifiers, and what it trains is proved farther."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tiny_networks import RELU_NETWORKS, SHAPES, SMOOTH, images, make
from torch import Tensor, nn

from holdfast.core import Batch, Encoder, Facts, HoldfastError, Margin, Method, Rng, Student, registry
from holdfast.numerics.bounds.relu import Relu
from holdfast.numerics.bounds.trace import Tracing
from holdfast.parts.certifiers.crown_ibp import CrownIbp
from holdfast.parts.certifiers.interval import Interval
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.certifiers.shared.radius import certify_radii
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Conflict, NotCertified
from holdfast.sources.encoders.shared.copies import copy_encoder, trainable
from holdfast.training import loop
from holdfast.training.batchnorm import wrap_batchnorm
from holdfast.training.certified import Certified
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.harden.plan import Hardening

RELU = {"conv": 7, "residual_conv": 5, "batch_norm": 5, "avg_pool": 3}
"""Seeds of networks that see small changes: in some all ReLUs are dead."""
SEEDS = {**RELU, "tanh": 3}
NETWORKS = {name: {**RELU_NETWORKS, **SMOOTH}[name] for name in SEEDS}
BALL, COUNT = Linf(0.06), 3


def student_of(name: str, method: Method) -> tuple[Student, Tensor]:
    """Return a student whose weights are not those of its twin, and images for it."""
    start = trainable(make(name, NETWORKS[name], SEEDS[name]))
    student = method.student(start, Facts(3, COUNT, 3))
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(5)
        for value in student.encoder.parameters():
            value.add_(0.1 * torch.randn_like(value))
    return student, images(COUNT, SHAPES[name], seed=1).float()


def lower_of(student: Student, certifier: Propagation, x: Tensor) -> Callable[[Margin], Tensor]:
    student.eval()
    network = Tracing(student.encoder, tuple(x.shape[1:])).network(student.encoder)
    return certifier.bounds_of(network, x, BALL, torch.full((len(x),), BALL.radius, dtype=torch.float64))


def axes(student: Student, x: Tensor) -> Margin:
    """Both directions of every coordinate: bounds of these are elementwise bounds of the representation."""
    eye = torch.eye(student.encoder(x).shape[1])
    return Margin(torch.cat([eye, -eye]).repeat(len(x), 1, 1), torch.zeros(len(x), 2 * len(eye)))


def exceeds(student: Student, certifier: Propagation, x: Tensor) -> float:
    """Return by how much any image that was tried goes beyond the bounds: random ones, corners, and attacks."""
    margin = axes(student, x)
    lower = lower_of(student, certifier, x)(margin).detach()
    found, generator = torch.full_like(lower, torch.inf), torch.Generator().manual_seed(0)
    for number in range(40):
        noise = 2 * torch.rand(x.shape, generator=generator) - 1
        at = (x + BALL.radius * (noise if number % 2 else noise.sign())).clamp(0, 1)
        found = torch.minimum(found, margin(student.encoder(at)).detach())
    for row in range(lower.shape[1]):  # signed steps down each row
        at = x
        for _ in range(10):
            at = at.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(margin(student.encoder(at))[:, row].sum(), at)
            at = (x + (at - 0.03 * gradient.sign() - x).clamp(-BALL.radius, BALL.radius)).clamp(0, 1)
            found[:, row] = torch.minimum(found[:, row], margin(student.encoder(at))[:, row].detach())
    return float((lower - found).max())


@pytest.mark.sweep(3)
@pytest.mark.parametrize("certifier", [Interval(), CrownIbp()])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_no_image_of_the_ball_goes_beyond_the_bounds(name: str, certifier: Propagation) -> None:
    student, x = student_of(name, registry.part("methods", "self_distillation"))
    assert exceeds(student, certifier, x) < 1e-5  # float32


def test_an_unsound_line_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    relax = Relu.relax

    def lower_chord(self: Relu, box: tuple[Tensor, Tensor]) -> object:
        lines = relax(self, box)
        return replace(lines, above=0.2 * lines.above)

    monkeypatch.setattr(Relu, "relax", lower_chord)
    monkeypatch.setattr("holdfast.parts.certifiers.crown_ibp.not_below_intervals", lambda bound, *_: bound)
    students = [student_of(name, registry.part("methods", "self_distillation")) for name in ("conv", "residual_conv")]
    assert max(exceeds(student, CrownIbp(), x) for student, x in students) > 1e-3


@pytest.mark.sweep(3)
@pytest.mark.parametrize("certifier", [Interval(), CrownIbp()])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_bounds_are_those_of_the_certifier(name: str, certifier: Propagation) -> None:
    student, x = student_of(name, registry.part("methods", "self_distillation"))
    margin = axes(student, x)
    bound = certifier(copy_encoder(student.encoder), margin, x, BALL)
    torch.testing.assert_close(
        lower_of(student, certifier, x)(margin), (bound.lower + bound.slack).float(), atol=1e-5, rtol=1e-4
    )


def test_batchnorm_that_was_wrapped_for_training_is_bounded_with_its_statistics() -> None:
    for kind in ("frozen", "split"):
        start = wrap_batchnorm(trainable(make("batch_norm", NETWORKS["batch_norm"], SEEDS["batch_norm"])), kind)
        student = registry.part("methods", "self_distillation").student(start, Facts(3, COUNT, 3))
        assert exceeds(student, CrownIbp(), images(COUNT, SHAPES["batch_norm"], seed=1).float()) < 1e-5


# --- gradients ---


def test_the_gradient_of_a_matrix_is_that_of_its_interval() -> None:
    """Least of w · x' over the ball is w · x - ε |w|, whose gradient is x - ε sign w."""
    start = trainable(Encoder(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), mean=0, std=1))
    student = registry.part("methods", "self_distillation").student(start, Facts(2, 1, 1))
    x = torch.full((1, 1, 2, 2), 0.5)
    row = Margin(torch.tensor([[[1.0, 0.0]]]), torch.zeros(1, 1))
    for certifier in (Interval(), CrownIbp()):
        weight, bias = student.encoder.parameters()
        gradient, shift = torch.autograd.grad(lower_of(student, certifier, x)(row).sum(), [weight, bias])
        expected = x.flatten() - BALL.radius * weight[0].sign()
        torch.testing.assert_close(gradient, torch.stack([expected, torch.zeros(4)]))
        assert shift.tolist() == [1, 0]


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("name", "certifier"),
    # Lines touch a tanh where halving ends, which has no slope, so those of CROWN-IBP are left out there
    [(name, Interval()) for name in NETWORKS] + [(name, CrownIbp()) for name in RELU],
)
def test_gradients_are_slopes_of_the_bound(name: str, certifier: Propagation) -> None:
    student, x = student_of(name, registry.part("methods", "self_distillation"))
    weights, margin = list(student.encoder.parameters()), axes(student, x)
    gradient = torch.autograd.grad(lower_of(student, certifier, x)(margin).sum(), weights)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        along = [torch.randn_like(value) for value in weights]
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            for value, step in zip(weights, along, strict=True):
                value.add_(sign * 1e-3 * step)
            ends.append(lower_of(student, certifier, x)(margin).double().sum())
            for value, step in zip(weights, along, strict=True):
                value.sub_(sign * 1e-3 * step)
    slope = sum(float((value * step).sum()) for value, step in zip(gradient, along, strict=True))
    assert slope == pytest.approx(float(ends[0] - ends[1]) / 2e-3, rel=0.03, abs=0.02)


# --- losses ---


def told_apart(student: Student, x: Tensor, at: Tensor) -> Tensor:
    """-log softmax_i(-‖f(x') - z_j‖² / T), by hand, among all images."""
    points, moved = student.reference(x), student.encoder(at)
    scale = 0.1 * torch.pdist(points).square().mean()
    return F.cross_entropy(-torch.cdist(moved, points).square() / scale, torch.arange(len(x)))


def scaled(student: Student, x: Tensor, at: Tensor) -> Tensor:
    return student.reference(x).var(0).mean() * told_apart(student, x, at)


def distance(student: Student, x: Tensor, at: Tensor) -> Tensor:
    return F.mse_loss(student.encoder(at), student.reference(x))


def classified(student: Student, x: Tensor, at: Tensor) -> Tensor:
    return F.cross_entropy(student.projector(student.encoder(at)), torch.arange(len(x)))


LOSSES = {
    "simsiam": ({"hidden": 8, "dim": 6, "bottleneck": 4}, told_apart),
    "self_distillation": ({}, scaled),
    "distance": ({"bounded": "distance"}, distance),
    "supervised": ({}, classified),
}


@pytest.mark.parametrize("asked", list(LOSSES))
def test_no_image_of_the_ball_loses_more_than_the_bound(asked: str) -> None:
    """And without a ball the bound is the loss itself."""
    settings, loss = LOSSES[asked]
    name = "self_distillation" if asked == "distance" else asked
    student, x = student_of("residual_conv", registry.part("methods", name, **settings))
    batch = Batch(torch.arange(COUNT), torch.arange(COUNT), progress=0.9)
    certified = Certified(BALL, most=None)
    tracing = certified.prepare(student, x)
    bound = certified.bound(tracing, student, x, batch, Rng(0)).detach()
    student.eval().requires_grad_(False)
    noise = torch.Generator().manual_seed(0)
    worst = max(
        float(loss(student, x, (x + BALL.radius * (2 * torch.rand(x.shape, generator=noise) - 1).sign()).clamp(0, 1)))
        for _ in range(50)
    )
    plain = float(loss(student, x, x))
    assert plain < worst <= float(bound) + 1e-6
    before = certified.bound(tracing, student, x, replace(batch, progress=0.0), Rng(0)).detach()
    assert float(before) == pytest.approx(plain, rel=1e-4)


def test_coordinates_that_are_drawn_stand_for_all() -> None:
    student, x = student_of("residual_conv", registry.part("methods", "self_distillation", bounded="distance"))
    batch = Batch(torch.arange(COUNT), progress=0.9)
    few, every = Certified(BALL, most=1), Certified(BALL, most=None)
    tracing = every.prepare(student, x)
    student.requires_grad_(False)
    drawn = [float(few.bound(tracing, student, x, batch, Rng(seed))) for seed in range(40)]
    assert sum(drawn) / len(drawn) == pytest.approx(float(every.bound(tracing, student, x, batch, Rng(0))), rel=0.25)
    assert len(set(drawn)) == 3  # one for each coordinate


def test_the_radius_grows_with_the_training() -> None:
    certified = Certified(BALL, warmup=0.2, ramp=0.5)
    assert [round(certified.growth(at), 6) for at in (0, 0.2, 0.45, 0.7, 0.9)] == [0, 0, 0.5, 1, 1]
    assert [Certified(BALL, warmup=0.5, ramp=0.0).growth(at) for at in (0.4, 0.5)] == [0, 1]


# --- trainings ---


def small() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Encoder(nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16)), mean=0, std=1)


@pytest.fixture(scope="module")
def digits() -> TrainingImages:
    return TrainingImages("digits?part=train", images=256, geometry=None)


def asked(steps: int = 80) -> Recipe:
    return Hardening("memory", "memory", eps=0.1, views="none", steps=steps, rate=0.01, certified="crown_ibp").recipe()


def proved(encoder: Encoder, x: Tensor) -> Tensor:
    """The radius up to which no other of the images is taken for each, as CROWN-IBP proves it."""
    reps = encoder(x).double()
    weights = 2 * (reps[:, None] - reps)
    sizes = reps.square().sum(1)
    others = ~torch.eye(len(x), dtype=torch.bool)
    rows = weights[others].view(len(x), len(x) - 1, -1)
    bias = (sizes - sizes[:, None])[others].view(len(x), -1)
    length = rows.norm(dim=2)
    return certify_radii(
        CrownIbp(), encoder, Margin(rows / length[..., None], bias / length), x, BALL, 1e-3, together=True
    )


@pytest.mark.slow
def test_training_raises_what_is_proved(digits: TrainingImages, tmp_path: Path) -> None:
    start, x = small(), digits.batch(torch.arange(12))
    trained = train(asked(), tmp_path / "certified", encoder=start, images=digits).encoder
    attacked = replace(asked(), certified=None, adversary=Hardening("memory", "memory", eps=0.1).recipe().adversary)
    against = train(attacked, tmp_path / "attacked", encoder=start, images=digits).encoder
    before, certified, hardened = (proved(encoder, x).mean() for encoder in (start, trained, against))
    assert certified > 1.5 * before
    assert certified > 1.2 * hardened


def test_a_training_goes_on_to_the_same_weights(
    digits: TrainingImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = loop._Training._one_step

    def interrupted(training: loop._Training) -> None:
        if training.step == 3:
            raise KeyboardInterrupt
        step(training)

    monkeypatch.setattr(loop._Training, "_one_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(asked(6), tmp_path / "run", encoder=small(), images=digits)
    monkeypatch.undo()
    resumed = train(asked(6), tmp_path / "run", encoder=small(), images=digits)
    whole = train(asked(6), tmp_path / "whole", encoder=small(), images=digits)
    assert resumed.resumed == 3
    assert resumed.rows == whole.rows
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, resumed.encoder.state_dict()[name])


# --- what is refused ---


class Sorted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sort(1).values


class Normalised(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x)


@pytest.mark.parametrize(("last", "said"), [(Sorted(), "sort cannot be bounded"), (Normalised(), "(?layer=)")])
def test_networks_that_cannot_be_bounded_are_refused_before_the_first_step(
    last: nn.Module, said: str, digits: TrainingImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(loop._Training, "_one_step")
    encoder = Encoder(nn.Sequential(small().module, last), mean=0, std=1)
    with pytest.raises(NotCertified) as error:
        train(asked(), tmp_path, encoder=encoder, images=digits)
    assert str(error.value).startswith("not certified: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


TABLE = {"encoder": "zoo:digits_cnn", "data": "digits", "method": "self_distillation"}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"certified": {"certifier": "crown"}}, "crown_ibp or interval, got crown"),
        ({"certified": {"warmup": 0.6, "ramp": 0.5}}, "together at most 1"),
        ({"certified": {"mix": 1.5}}, "a share from 0 to 1"),
        ({"certified": {"weight": 0.0}}, "weight > 0"),
        ({"certified": {}, "adversary": {}}, "got both"),
        ({"method": {"name": "self_distillation", "divergence": "cosine", "bounded": "distance"}}, "divergence=l2"),
        ({"method": {"name": "self_distillation", "bounded": "all"}}, "bounded"),
    ],
)
def test_recipes_that_say_nothing_sensible_are_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(HoldfastError) as error:
        make_recipe({**TABLE, **table})
    assert said in str(error.value)


def test_a_loss_that_cannot_be_bounded_is_refused(digits: TrainingImages, tmp_path: Path) -> None:
    recipe = replace(asked(), method=registry.part("methods", "supervised", relu=True))
    with pytest.raises(Conflict) as error:
        train(recipe, tmp_path, encoder=small(), images=digits)
    assert "relu=false" in str(error.value)
