"""The learned noise reaches the infimum where that is known, and structures that know more do no worse."""

from dataclasses import replace

import pytest
import torch
from noise_problems import Pixels, Problem, discs, half_spaces, two_moons
from torch import Tensor, nn

from holdfast.core import Ball, Encoder, HoldfastError, Passes, Rng
from holdfast.numerics.statistics.entropy import entropy_ratio
from holdfast.parts.learners.shared import step
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.shared.generator import SOURCES, Design, Gaussians, Generator
from holdfast.parts.threats.shared.learned import LearnedNoise
from holdfast.runtime.errors import BadValue, Missing, NotEnough, NotFinite, UnknownName

LEARNER = WorstMixture(
    groups="labels", upsampler="none", epochs=60, batch=200, samples=8, rate=1e-1, hidden=32, loss="sigmoid"
)
STRUCTURES = ("independent", "label", "input", "joint")


def encoder() -> Encoder:
    return Encoder(Pixels(), mean=0.0, std=1.0)


def reached(problem: Problem, ball: Ball, learner: WorstMixture = LEARNER, test: Problem | None = None) -> list[float]:
    """The share of hard draws that do not fail, for each structure."""
    learned = [problem.learn(replace(learner, structure=structure), ball) for structure in STRUCTURES]
    return [(test or problem).robustness(noise) for noise in learned]


@pytest.mark.parametrize("ball", [Linf(0.1), pytest.param(L2(0.1), marks=pytest.mark.slow)])
def test_half_spaces(ball: Ball) -> None:
    """80 images left of the line, 120 right: one noise for all breaks the right ones, one for each side all."""
    independent, label, given, joint = reached(half_spaces(), ball)
    assert 0.4 <= independent <= 0.43
    assert max(label, given, joint) <= 0.01


@pytest.mark.slow
def test_half_spaces_with_images_out_of_reach() -> None:
    """100 left, 80 right and 20 out of reach: noise for all leaves 100, noise that knows the side the 20."""
    problem = half_spaces(near=100, far=20)
    independent, label, given, joint = reached(problem, L2(0.1))
    assert 0.5 <= independent <= 0.53
    for value in (label, given, joint):
        assert 0.1 <= value <= 0.12


@pytest.mark.slow
def test_a_convex_loss_leaves_shared_noise_near_zero() -> None:
    """With half of the images on each side softplus is least without noise; the bounded loss breaks one side."""
    learner = replace(LEARNER, structure="independent")
    problem = half_spaces(near=100)
    assert problem.robustness(problem.learn(replace(learner, loss="softplus"), L2(0.1))) > 0.9
    assert problem.robustness(problem.learn(learner, L2(0.1))) < 0.53


def worst(problem: Problem, ball: Ball) -> tuple[float, float]:
    """(share of images that nothing in the ball breaks, share of uniform draws that break nothing), by many draws."""
    generator = torch.Generator().manual_seed(3)
    inside = torch.randn(3000, 2, generator=generator)
    inside = inside / inside.norm(dim=1, keepdim=True) * torch.rand(3000, 1, generator=generator).sqrt() * ball.radius
    edge = ball.project(100 * torch.randn(3000, 1, 1, 2, generator=generator)).flatten(1)
    rows = torch.arange(len(problem.x))
    place = problem.x.flatten(1)[:, None]
    fails = problem.value((place + torch.cat([inside, edge])).clamp(0, 1), rows) > 0
    return 1 - float(fails.any(1).double().mean()), 1 - float(fails[:, :3000].double().mean())


@pytest.mark.slow
def test_discs() -> None:
    """Each image fails in a disc that is 2 % of its ball, on the side that its class says."""
    problem, ball = discs(), L2(0.14)
    adversarial, uniform = worst(problem, ball)
    assert adversarial == 0
    assert uniform > 0.9
    independent, label, given, joint = reached(problem, ball, replace(LEARNER, epochs=70))
    assert 0.4 < independent < uniform  # one disc alone can be hit
    assert max(label, joint) <= 0.01
    assert given <= 0.03


@pytest.mark.parametrize("ball", [Linf(0.06), L2(0.07)])
@pytest.mark.slow
def test_two_moons_on_other_images(ball: Ball) -> None:
    """AR ≤ NPPR ≤ PR; and noise that knows more is worse, judged on images that were not learned from."""
    problem, test = two_moons(), two_moons(seed=1)
    adversarial, uniform = worst(test, ball)
    independent, label, given, joint = reached(problem, ball, replace(LEARNER, epochs=40, rate=4e-2), test)
    assert adversarial - 0.02 <= min(joint, given)
    assert joint <= adversarial + 0.05
    assert given <= adversarial + 0.2
    assert max(independent, label, given, joint) < uniform
    assert joint <= min(given, label) + 0.01  # Prop. 2
    assert max(given, label) <= independent


@pytest.mark.slow
@pytest.mark.parametrize("ball", [Linf(0.06), L2(0.07)])
def test_input_dependence_reaches_the_adversary(ball: Ball) -> None:
    problem, test = two_moons(2000), two_moons(seed=1)
    adversarial, _ = worst(test, ball)
    learner = replace(LEARNER, structure="input", epochs=200, hidden=256, loss="softplus", rate=1e-2, cosine=True)
    assert test.robustness(problem.learn(learner, ball)) <= adversarial + 0.05


@pytest.mark.slow
def test_one_component_and_every_covariance_learn() -> None:
    problem = half_spaces()
    for learner in (replace(LEARNER, components=1), replace(LEARNER, covariance="diagonal")):
        learned = problem.learn(replace(learner, structure="input"), Linf(0.1))
        assert problem.robustness(learned) <= 0.01
        assert bool(learned.entropy.isnan().all()) == (learner.components == 1)


@pytest.mark.slow
def test_the_authors_way_learns() -> None:
    """One noise for all breaks one side; noise that knows the side both, up to how wide the authors' mixture stays."""
    problem, learner = half_spaces(), replace(LEARNER, convention="authors", annealing=20, covariance="diagonal")
    learned = [problem.learn(replace(learner, structure=structure), Linf(0.1)) for structure in STRUCTURES]
    independent, *others = (problem.robustness(each) for each in learned)
    assert 0.4 <= independent <= 0.45
    assert max(others) <= 0.05
    usual = problem.learn(replace(LEARNER, covariance="diagonal", structure="input"), Linf(0.1))
    assert not torch.equal(learned[2].chance, usual.chance)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("upsampler", ["bicubic", "fixed", "learned"])
def test_upsamplers_learn(upsampler: str) -> None:
    problem = half_spaces()
    learner = replace(LEARNER, structure="input", upsampler=upsampler, latent=16)
    assert problem.robustness(problem.learn(learner, Linf(0.1))) <= 0.02


def test_dynamics_and_passes() -> None:
    problem, learner = half_spaces(), replace(LEARNER, structure="input", epochs=12, batch=50)
    watched = encoder()
    clean = problem.x.flatten(1)
    learned = learner.learn(watched, problem.x, clean, problem.event, None, Linf(0.1), Rng(0))
    assert learned.chance.shape == learned.entropy.shape == (12,)
    assert learned.chance[0] > 0.2
    assert learned.chance[-1] < 0.05
    assert learned.entropy[0] > 0.8
    assert bool(((learned.entropy >= 0) & (learned.entropy <= 1 + 1e-6)).all())
    assert learned.images == 200
    assert watched.passes == learner.passes * 200 == Passes(forward=12 * 8 * 200, backward=12 * 8 * 200)
    weights = learned.noise.at(clean, None).weights(200)
    assert abs(float(entropy_ratio(weights).mean()) - float(learned.entropy[-1])) < 0.1  # BatchNorm has settled


@pytest.mark.parametrize("structure", ["input", "joint"])
def test_scale_and_offset_of_representations_do_not_matter(structure: str) -> None:
    problem = half_spaces(60)
    x, plain = problem.x.double(), problem.x.double().flatten(1)
    scaled = 1e-4 * plain + 1e3
    learner = replace(LEARNER, structure=structure, epochs=5, batch=20, groups="clusters", clusters=3)

    def mixture(reps: Tensor) -> Gaussians:
        def event(values: Tensor, rows: Tensor) -> Tensor:  # of pixels; the encoder's own scale is not asked for
            return problem.value(values if values.requires_grad else x.flatten(1)[:, None], rows)

        learned = learner.learn(encoder(), x, reps, event, None, Linf(0.1), Rng(0))
        return learned.noise.at(reps, None).mixtures(60)

    one, other = mixture(plain), mixture(scaled)
    assert float(one.means.std(0).max()) > 0.01  # it depends on the image
    torch.testing.assert_close(other.weights, one.weights, rtol=0, atol=1e-4)
    torch.testing.assert_close(other.means, one.means, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(other.roots, one.roots, rtol=1e-3, atol=1e-3)


def test_images_that_fail_already_take_no_part() -> None:
    problem = half_spaces()
    wrong = Problem(problem.x, problem.labels, lambda p, rows: problem.value(p, rows) + 10 * (rows[:, None] < 50))
    learned = wrong.learn(replace(LEARNER, structure="input", epochs=1), Linf(0.1))
    assert learned.images == 150
    assert wrong.learn(replace(LEARNER, structure="input", epochs=1, images=60), Linf(0.1)).images == 60


def test_one_seed_decides_everything() -> None:
    problem, learner = half_spaces(), replace(LEARNER, structure="joint", epochs=2, groups="clusters", clusters=3)
    state = torch.random.get_rng_state()
    states = [problem.learn(learner, Linf(0.1), seed).noise.generator.state_dict() for seed in (0, 0, 1)]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert not torch.equal(states[0]["means.weight"], states[2]["means.weight"])


class Bowl(nn.Module):
    """A small network with a curved edge."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(24, 5, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1) @ self.weight).tanh()


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("pixels", [24 * 6 * 2, 24 * 2, 7])
def test_parts_have_the_gradient_of_the_whole(structure: str, pixels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images and draws that are too many for one pass are taken in parts; the sum is the same."""
    shape, samples = (2, 3, 4), 6
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(5, *shape, generator=generator)
    reps, groups = torch.randn(5, 7, generator=generator), torch.tensor([0, 1, 1, 0, 1])
    known = torch.tensor([0, 1]) if "groups" in SOURCES[structure] else None
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        network = Generator(Design(shape, 7, 2, "labels", structure, latent=5, hidden=8, embedding=4), known)
    noise, frozen = LearnedNoise(network, Linf(0.3)), Encoder(Bowl(), mean=0.0, std=1.0)
    drawn = step.draw(5, samples, noise, x, generator)

    def gradients() -> tuple[float, dict[str, Tensor]]:
        network.zero_grad()
        outputs = network.outputs(reps, groups)
        held = step.descend(
            frozen, lambda r, rows: r.sum(-1) + 0.1 * rows[:, None], noise, outputs, x, torch.arange(5), drawn, 0.5,
            torch.sigmoid,
        )  # fmt: skip
        return held, {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}

    whole = gradients()
    monkeypatch.setattr(step, "PIXELS", {"cpu": pixels})
    parts = gradients()
    assert whole[0] == parts[0]
    assert whole[1].keys() == parts[1].keys()
    for name, value in whole[1].items():
        torch.testing.assert_close(parts[1][name], value, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_learned_from_is_named() -> None:
    problem = half_spaces()
    x, clean, event, ball = problem.x, problem.x.flatten(1), problem.event, Linf(0.1)

    def learn(learner: WorstMixture, **other: object) -> object:
        given = {"x": x, "clean": clean, "event": event, "labels": problem.labels, **other}
        return learner.learn(encoder(), ball=ball, rng=Rng(0), **given)

    by_label = replace(LEARNER, structure="label", epochs=1)
    with pytest.raises(Missing):
        learn(by_label, labels=None)
    with pytest.raises(NotEnough):
        learn(by_label, labels=torch.zeros(200, dtype=torch.long))
    with pytest.raises(NotEnough, match="got 1"):
        learn(replace(by_label, groups="clusters"), clean=clean[:1].expand(200, -1), event=lambda r, rows: -r.sum(-1))
    with pytest.raises(NotEnough, match="0 of 200"):
        learn(by_label, event=lambda r, rows: 1 + r.sum(-1))
    with pytest.raises(NotEnough, match="1 of 200"):
        learn(by_label, event=lambda r, rows: (rows[:, None] - 0.5) + 0 * r.sum(-1))
    with pytest.raises(NotFinite, match="4 of 200"):
        learn(by_label, clean=torch.where(clean > 0.99, torch.nan, clean))
    with pytest.raises(NotFinite, match="disturbed"):
        learn(by_label, event=lambda r, rows: -r.sum(-1) * (torch.nan if r.requires_grad else 1))
    for few in (2, 3):  # fewer than a batch: all of them are one
        assert problem.part(few).learn(replace(LEARNER, structure="input", epochs=2), ball).images == few


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (UnknownName, "structure", "inputs"),
        (UnknownName, "covariance", "half"),
        (UnknownName, "upsampler", "bilinear"),
        (UnknownName, "groups", "class"),
        (UnknownName, "loss", "hinge"),
        (BadValue, "components", 0),
        (BadValue, "batch", 1),
        (BadValue, "samples", 0),
        (BadValue, "epochs", 0),
        (BadValue, "clusters", 1),
        (BadValue, "rate", 0.0),
        (BadValue, "clip", float("nan")),
        (BadValue, "kappa", -1.0),
        (BadValue, "images", 1),
        (BadValue, "warmup", -1),
    ],
)
def test_impossible_fields_are_refused(kind: type[HoldfastError], field: str, value: object) -> None:
    with pytest.raises(kind, match=field):
        WorstMixture(**{field: value})
    assert WorstMixture(images=None, components=1).passes == Passes(80, 80)
    assert WorstMixture(structure="label", groups="labels").needs_labels
    assert not WorstMixture(structure="label").needs_labels
