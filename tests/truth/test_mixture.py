"""Learned noise: inside the ball, the same after a round trip through a file, and refused where it does not fit."""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from holdfast.core import Ball, Rng
from holdfast.numerics.statistics.entropy import entropy_ratio
from holdfast.parts.learners.shared.schedule import (
    Heat,
    authors_heat,
    authors_relaxation,
    between,
    heat,
    rate_factor,
    relaxation,
)
from holdfast.parts.learners.shared.step import Draw, draw, sample_relaxed
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.mixture import Mixture, save
from holdfast.parts.threats.shared.generator import SOURCES, Design, Gaussians, Generator, lower
from holdfast.parts.threats.shared.learned import LearnedNoise, pack, unpack
from holdfast.parts.threats.shared.upsampler import Upsampler
from holdfast.runtime.errors import BadData, BadValue, Mismatch, Missing, NotEnough

SHAPE, DIM, GROUPS = (2, 6, 5), 7, 3
PIXELS = math.prod(SHAPE)


LINF = Linf(0.1)


def made(ball: Ball = LINF, **sizes: object) -> LearnedNoise:
    """A noise with random weights: heads that are zero at the beginning are given some."""
    latent = {"none": PIXELS, "bicubic": SHAPE[0] * 16}.get(str(sizes.get("upsampler")), 9)
    usual = {"shape": SHAPE, "dim": DIM, "groups": GROUPS, "latent": latent, "hidden": 8, "embedding": 4}
    design = Design(**{**usual, **sizes})
    generator = torch.Generator().manual_seed(5)
    labels = design.grouping == "labels"
    known = torch.tensor([2, 4, 7]) if labels else torch.randn(GROUPS, DIM, generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        network = Generator(design, known if "groups" in SOURCES[design.structure] else None)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.5 * torch.randn_like(parameter))
    network.settle(torch.randn(50, DIM, generator=generator))
    return LearnedNoise(network, ball)


@pytest.fixture
def x() -> Tensor:
    images = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(0))
    return torch.cat([images[:2], images[2:].round()])  # half of them on the edges of the pixel box


@pytest.fixture
def reps() -> Tensor:
    return torch.randn(4, DIM, generator=torch.Generator().manual_seed(1))


def numbers(noise: LearnedNoise, x: Tensor, draws: int = 6, seed: int = 2) -> Tensor:
    return torch.randn(len(x), draws, noise.numbers(x), generator=torch.Generator().manual_seed(seed)).to(x)


VARIANTS = [
    {"structure": structure, "covariance": covariance, "upsampler": upsampler, "components": components}
    for structure in SOURCES
    for covariance, upsampler, components in (
        ("full", "learned", 3), ("diagonal", "learned", 3), ("full", "fixed", 1), ("full", "none", 3),
        ("diagonal", "none", 2), ("full", "bicubic", 2),
    )
]  # fmt: skip


@pytest.mark.parametrize("ball", [Linf(0.1), L2(0.7)])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())))
def test_samples_never_leave_the_ball(ball: Ball, variant: dict, x: Tensor, reps: Tensor) -> None:
    noise = made(ball, **variant).at(reps, None)
    for size in (1.0, 40.0, 1e6):
        moved = noise.push(x, size * numbers(noise, x))
        assert moved.shape == (4, 6, *SHAPE)
        assert moved.isfinite().all()
        assert moved.min() >= 0
        assert moved.max() <= 1
        away = ball.size((moved - x[:, None]).flatten(0, 1))
        assert float(away.max()) <= ball.radius * (1 + 1e-5)
        assert float(away.max()) > 0.01 * ball.radius  # it moves


@pytest.mark.sweep(5)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())))
def test_a_file_and_tensors_give_the_same_samples(variant: dict, x: Tensor, reps: Tensor, tmp_path: Path) -> None:
    noise = made(L2(0.5), **variant, grouping="labels")
    labels = torch.tensor([4, 7, 2, 4])
    z = numbers(noise, x)
    expected = noise.at(reps, labels).push(x, z)
    before = torch.random.get_rng_state()
    threat = save(noise, tmp_path / "mixture.safetensors")
    assert torch.equal(threat.at(reps, labels).push(x, z), expected)
    assert threat.ball == L2(0.5)
    assert threat == Mixture(threat.path)
    packed = pack(noise.at(reps, labels))
    save_file(packed, tmp_path / "packed.safetensors")
    assert torch.equal(unpack(load_file(tmp_path / "packed.safetensors")).at(reps, labels).push(x, z), expected)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("structure", SOURCES)
def test_draws_depend_on_their_image_alone(structure: str, x: Tensor, reps: Tensor) -> None:
    noise = made(structure=structure)
    z = numbers(noise, x)
    whole = noise.at(reps, None).push(x, z)
    order = [2, 0]
    torch.testing.assert_close(noise.at(reps[order], None).push(x[order], z[order]), whole[order])
    torch.testing.assert_close(noise.at(reps[:1], None).push(x[:1], z[:1, 3:4]), whole[:1, 3:4])
    one = noise.at(reps, None).sample(x, Rng(0, ids=tuple("abcd")))
    two = noise.at(reps[order], None).sample(x[order], Rng(0, ids=("c", "a")))
    torch.testing.assert_close(one[order], two)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v.values())))
def test_gradients_reach_weights_means_and_roots(variant: dict, x: Tensor, reps: Tensor) -> None:
    """Against finite differences, in double precision, at random entries of every parameter."""
    noise = made(L2(0.7), **variant)
    network = noise.generator.double().requires_grad_(True)
    x, reps = (0.2 + 0.6 * x).double(), reps.double()  # at the edges of the pixel box there is no gradient
    generator = torch.Generator().manual_seed(0)
    drawn = draw(4, 5, noise, x, generator)
    slopes = torch.randn(4, 5, *SHAPE, generator=generator, dtype=torch.float64)
    groups = network.group(reps, None)

    def value() -> Tensor:
        given = network.gaussians(network.outputs(reps, groups, Heat(3.0, 2.0, 1.5)))
        return ((x[:, None] + noise.shape(sample_relaxed(given, drawn, 0.7))).clamp(0, 1) * slopes).sum()

    value().backward()
    for name, parameter in network.named_parameters():
        flat = parameter.data.view(-1)
        assert parameter.grad is not None, name
        single = name.startswith(("logits", "embedding")) and noise.generator.design.components == 1
        assert single or bool(parameter.grad.abs().max() > 1e-6) or name.startswith("trunk.0.bias"), name
        for entry in torch.randint(len(flat), (4,), generator=generator).tolist():
            middle, step = float(flat[entry]), 1e-5
            with torch.no_grad():
                flat[entry] = middle + step
                high = value()
                flat[entry] = middle - step
                low = value()
                flat[entry] = middle
            found = float(parameter.grad.view(-1)[entry])
            assert abs(float(high - low) / (2 * step) - found) <= 1e-5 + 1e-4 * abs(found), name


def example(count: int = 3, latent: int = 2) -> Gaussians:
    generator = torch.Generator().manual_seed(0)
    below = torch.randn(1, count, latent, latent, generator=generator).tril(-1)
    means = 6 * torch.randn(1, count, latent, generator=generator)
    return Gaussians(
        torch.tensor([[0.5, 0.3, 0.2]][:1])[:, :count].log(), means, torch.rand(1, count, latent) + 0.5, below
    )


def test_hard_draws_have_the_mixture_s_moments() -> None:
    given, count = example(), 200_000
    z = torch.randn(1, count, 3, generator=torch.Generator().manual_seed(1))
    chosen = given.choose(z[..., 0])
    torch.testing.assert_close(chosen.mean((0, 1)), torch.tensor([0.5, 0.3, 0.2]), rtol=0, atol=0.005)
    latent = given.mix(chosen, z[..., 1:])[0]
    for k in range(3):
        mine = latent[chosen[0, :, k] > 0]
        torch.testing.assert_close(mine.mean(0), given.means[0, k], rtol=0, atol=0.03)
        torch.testing.assert_close(mine.T.cov(), given.roots[0, k] @ given.roots[0, k].T, rtol=0.02, atol=0.03)


def test_components_follow_their_number_to_the_ends() -> None:
    given = example()
    chosen = given.choose(torch.tensor([[-40.0, -0.01, 0.01, 0.83, 0.85, 40.0]])).argmax(-1)
    assert chosen.tolist() == [[0, 0, 1, 1, 2, 2]]


def test_relaxed_draws_become_hard_ones_as_the_temperature_falls() -> None:
    """With the same numbers they approach the component of the largest logit + g, whose shares are π."""
    given, count = example(), 50_000
    generator = torch.Generator().manual_seed(2)
    uniform = torch.rand(1, count, 3, generator=generator)
    drawn = Draw(-(-uniform.log()).log(), torch.randn(1, count, 2, generator=generator))
    hard = torch.nn.functional.one_hot((given.logits[:, None] + drawn.gumbel).argmax(-1), 3).float()
    torch.testing.assert_close(hard.mean((0, 1)), given.weights[0], rtol=0, atol=0.01)
    limit = given.mix(hard, drawn.zeta)
    gaps = [float((sample_relaxed(given, drawn, t) - limit).norm(dim=-1).mean()) for t in (1.0, 0.3, 0.1, 0.01, 0.001)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 1
    assert gaps[-1] < 0.02


def test_gumbel_numbers_have_their_distribution() -> None:
    drawn = draw(50, 2000, made(), torch.zeros(1), torch.Generator().manual_seed(0))
    assert drawn.gumbel.isfinite().all()
    assert abs(float(drawn.gumbel.mean()) - 0.57722) < 0.01
    assert abs(float(drawn.gumbel.var()) - math.pi**2 / 6) < 0.02
    assert abs(float(drawn.zeta.std()) - 1) < 0.01


@pytest.mark.parametrize("structure", ["independent", "input"])
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_covariances_are_positive_definite_whatever_the_weights(structure: str, covariance: str, reps: Tensor) -> None:
    noise = made(structure=structure, covariance=covariance)
    roots = noise.at(reps, None).mixtures(4).roots.double()
    torch.testing.assert_close(
        torch.linalg.cholesky(roots @ roots.mT), roots, rtol=1e-4, atol=1e-6
    )  # raises where one is not definite
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in noise.generator.parameters():
            parameter.copy_(10 * torch.randn(parameter.shape, generator=generator))
    given = noise.at(reps, None).mixtures(4)
    assert torch.equal(given.roots, given.roots.tril())
    assert bool((given.roots.diagonal(dim1=-2, dim2=-1) >= 1e-3).all())
    full = noise.at(reps, None).covariance(4)
    assert full.shape == (4, 9, 9)
    main = given.weights.argmax(-1).expand(4)
    for image in range(4):
        root = given.roots[image if structure == "input" else 0, main[image]]
        torch.testing.assert_close(full[image], root @ root.T)
    assert bool(full[0].tril(-1).any()) == (covariance == "full")


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_packed_roots_use_every_entry_below_the_diagonal_once(size: int) -> None:
    half = -(-size // 2)
    matrix = lower(torch.arange(1.0, half * size + 1).view(half, size))
    found = matrix[torch.ones(size, size).tril(-1) > 0]
    assert torch.equal(matrix, matrix.tril(-1))
    assert len(found.unique()) == size * (size - 1) // 2
    assert bool((found > 0).all())


def test_entropy_ratio() -> None:
    assert entropy_ratio(torch.full((4,), 0.25)).item() == pytest.approx(1)
    assert entropy_ratio(torch.tensor([0.0, 1.0, 0.0])).item() == 0
    assert entropy_ratio(torch.tensor([0.9, 0.1])).item() == pytest.approx(0.468996, abs=1e-5)
    assert entropy_ratio(torch.ones(2, 1)).isnan().all()


def test_weights_are_equal_before_anything_is_learned() -> None:
    network = Generator(Design(SHAPE, DIM, GROUPS, structure="joint", hidden=8), torch.randn(GROUPS, DIM))
    noise = LearnedNoise(network.eval(), Linf(0.1)).at(torch.randn(5, DIM), None)
    torch.testing.assert_close(noise.weights(5), torch.full((5, 3), 1 / 3))


@pytest.mark.parametrize("size", [(6, 5), (32, 32), (3, 2)])
def test_interpolation_is_torch_s(size: tuple[int, int]) -> None:
    small = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.interpolate(small, size, mode="bicubic", align_corners=False)
    torch.testing.assert_close(Upsampler("bicubic", 32, (2, *size), 4)(small.flatten(1)), expected)


@pytest.mark.parametrize(("kind", "trained"), [("none", 0), ("fixed", 0), ("learned", 2)])
def test_only_a_learned_upsampler_has_parameters(kind: str, trained: int) -> None:
    upsampler = Upsampler(kind, PIXELS, SHAPE, 4)
    assert len(list(upsampler.parameters())) == trained
    assert len(upsampler.state_dict()) == (0 if kind == "none" else 2)  # what is drawn is in the file
    assert upsampler(torch.zeros(3, 2, PIXELS)).shape == (3, 2, *SHAPE)


def test_labels_and_clusters_choose_the_weights(x: Tensor, reps: Tensor) -> None:
    by_label = made(structure="label", grouping="labels")
    weights = by_label.at(reps, torch.tensor([2, 7, 2, 4])).weights(4)
    torch.testing.assert_close(weights[0], weights[2])
    assert not torch.allclose(weights[0], weights[1])
    by_cluster = made(structure="joint")
    centres = by_cluster.generator.groups
    assert centres is not None
    assert by_cluster.generator.group(centres + 0.01, None).tolist() == [0, 1, 2]
    torch.testing.assert_close(  # labels are not read
        by_cluster.at(reps, torch.tensor([99, 98, 97, 96])).push(x, numbers(by_cluster, x)),
        by_cluster.at(reps, None).push(x, numbers(by_cluster, x)),
    )


def test_clusters_do_not_depend_on_other_images() -> None:
    """With a large common offset too, where |a|² + |b|² - 2ab has no digits left in single precision."""
    noise = made(structure="joint")
    centres = noise.generator.groups
    assert centres is not None
    expected = torch.arange(64) % GROUPS
    centres += 1e4
    reps = centres[expected] + 0.1 * torch.randn(64, DIM, generator=torch.Generator().manual_seed(0))
    assert torch.equal(noise.generator.group(reps, None), expected)
    assert [int(noise.generator.group(row[None], None)) for row in reps] == expected.tolist()


def test_features_are_standardised_and_constant_ones_left_alone(tmp_path: Path) -> None:
    noise = made(structure="input")
    reps = 1e-4 * torch.randn(40, DIM, generator=torch.Generator().manual_seed(0)) + 0.01
    reps[:, 2], reps[:, 5] = 1e5, 0.1 * (1 + 1e-7 * (torch.arange(40) % 2))
    noise.generator.standardise(reps)
    assert noise.generator.spread[[2, 5]].tolist() == [1, 1]
    seen = noise.generator._standard(reps)
    varied = [0, 1, 3, 4, 6]
    torch.testing.assert_close(seen[:, varied].std(0, correction=0), torch.ones(5))
    torch.testing.assert_close(seen.mean(0), torch.zeros(DIM), rtol=0, atol=1e-3)
    read = save(noise, tmp_path / "mixture.safetensors").noise.generator
    assert torch.equal(read.spread, noise.generator.spread)
    assert torch.equal(read.middle, noise.generator.middle)
    old = {name: value for name, value in pack(noise).items() if name != "network.spread"}
    with pytest.raises(BadData):
        unpack(old)


def test_what_is_missing_or_strange_is_named(x: Tensor, reps: Tensor) -> None:
    by_label, by_input = made(structure="label", grouping="labels"), made(structure="input")
    z = numbers(by_label, x)
    with pytest.raises(Missing, match="labels"):
        by_label.at(reps, None)
    with pytest.raises(Mismatch, match=r"\[3, 9\]"):
        by_label.at(reps, torch.tensor([2, 3, 9, 4]))
    for noise in (by_label, by_input, made(structure="joint")):
        with pytest.raises(Missing, match=r"noise\.at"):
            noise.push(x, z)
    with pytest.raises(Mismatch, match="4 images"):
        by_input.at(reps, None).push(x[:2], z[:2])
    with pytest.raises(Mismatch, match="7 numbers"):
        by_input.at(reps[:, :5], None)
    with pytest.raises(Mismatch, match=r"\[2, 6, 5\]"):
        by_input.at(reps, None).push(x[..., :4], z)
    made(structure="independent").at(reps[:, :5], None).push(x, z)  # asks for nothing


def test_files_that_are_no_mixtures(x: Tensor, tmp_path: Path) -> None:
    with pytest.raises(Missing):
        Mixture().numbers(x)
    assert Mixture().ball is None
    broken = tmp_path / "broken.safetensors"
    path = save(made(), tmp_path / "good.safetensors").path
    broken.write_bytes(Path(path).read_bytes()[:-100])
    with pytest.raises(BadData):
        Mixture(str(broken)).numbers(x)
    save_file({"weight": torch.zeros(2)}, broken)
    with pytest.raises(BadData):
        Mixture(str(broken)).numbers(x)
    state = load_file(path)
    for changed in ({**state, "more": torch.zeros(1)}, {**state, "means.bias": torch.zeros(2)}):
        tensors = {f"network.{name}": value for name, value in changed.items()}
        with pytest.raises(BadData):
            unpack({**tensors, "description": pack(made())["description"]})
    with pytest.raises(BadData, match="description"):
        unpack(state)
    for text in (b"{}", b"no json", b"[]", b'{"format": "holdfast mixture 2"}'):
        with pytest.raises(BadData):
            unpack({"description": torch.tensor(list(text), dtype=torch.uint8)})


def test_covariances_that_no_memory_holds_are_refused() -> None:
    with pytest.raises(NotEnough, match="covariance='diagonal'"):
        Design((3, 224, 224), 512, latent=3 * 224 * 224, upsampler="none")
    Design((3, 224, 224), 512, latent=3 * 224 * 224, upsampler="none", covariance="diagonal")
    with pytest.raises(BadValue, match="latent = 60"):
        Design(SHAPE, DIM, latent=9, upsampler="none")


def test_temperatures_and_rates() -> None:
    assert heat(0) == Heat(3, 3, 1.5)
    assert heat(1) == pytest.approx(Heat(1, 1, 1))
    assert relaxation(0) == 1
    assert relaxation(1) == pytest.approx(0.1)
    assert between(3, 1, 0.5) == pytest.approx(3**0.5)
    assert [rate_factor(e, 50, 20, True) for e in (0, 10, 20, 35, 50)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert [rate_factor(e, 50, 0, False) for e in (0, 25, 50)] == [1, 1, 1]


def test_the_authors_temperatures_by_hand() -> None:
    """T_e = T_1 + e/E (T_2 - T_1) for the logits, the means, the hidden layer and the covariance; e begins at 1."""
    by_hand = {  # epoch of 10: what logits and means are multiplied by, the hidden layer, the square of the roots'
        1: (2.8, 1.45), 2: (2.6, 1.4), 5: (2.0, 1.25), 9: (1.2, 1.05), 10: (1.0, 1.0), 40: (1.0, 1.0),
    }  # fmt: skip
    for epoch, (high, low) in by_hand.items():
        found = authors_heat(epoch, 10)
        assert 1 / found.weights == pytest.approx(high)
        assert 1 / found.means == pytest.approx(high)
        assert found.roots == 1
        assert 1 / found.trunk == pytest.approx(low)
        assert found.spread**2 == pytest.approx(low)
    assert [authors_relaxation(epoch, 50) for epoch in (1, 25, 50)] == pytest.approx([1.0, 1 - 0.9 * 24 / 49, 0.1])
    assert authors_relaxation(1, 1) == 1


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_the_authors_temperatures_multiply_the_mixture(covariance: str) -> None:
    """π·3, μ·2, L·√1.5 of a free mixture, whose roots are what softplus and the numbers below say, undivided."""
    design = Design(SHAPE, DIM, 0, structure="independent", latent=5, covariance=covariance, convention="authors")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        network = Generator(design)
    low, high = (float(end) for end in network.means.detach().aminmax())
    assert -1 <= low < -0.5 < 0.5 < high <= 1
    assert 0 < float(network.logits.detach().abs().max()) < 0.05
    with torch.no_grad():
        network.logits.copy_(torch.tensor([0.1, 0.2, 0.3]))
        if network.below is not None:
            network.below.fill_(0.25)
        heat_of_one = Heat(weights=1 / 3, means=1 / 2, spread=1.5**0.5)
        cold = network.gaussians(network.outputs(None, None))
        hot = network.gaussians(network.outputs(None, None, heat_of_one), heat_of_one.spread)
    torch.testing.assert_close(hot.logits, torch.tensor([[0.3, 0.6, 0.9]]))
    torch.testing.assert_close(hot.means, 2 * cold.means)
    torch.testing.assert_close(hot.roots, 1.5**0.5 * cold.roots)
    assert cold.roots[0, 0].diagonal().tolist() == pytest.approx([math.log(2) + 1e-3] * 5)
    if covariance == "full":
        assert float(cold.roots[0, 0].tril(-1).sum()) == pytest.approx(10 * 0.25)  # ten numbers below the diagonal


def test_the_authors_heat_the_hidden_layer(reps: Tensor) -> None:
    """An output of a head without bias grows as its hidden layer does, 1.5 times, and as its own temperature."""
    design = Design(SHAPE, DIM, latent=5, hidden=8, covariance="diagonal", convention="authors")
    network = Generator(design).eval()
    with torch.no_grad():
        for head in (network.means, network.scales, network.logits):
            head.bias.zero_()
        cold = network.outputs(reps, None)
        hot = network.outputs(reps, None, Heat(means=1 / 3, trunk=1 / 1.5))
    torch.testing.assert_close(hot.means, 4.5 * cold.means)
    torch.testing.assert_close(hot.scales, 1.5 * cold.scales)
    torch.testing.assert_close(hot.logits, 1.5 * cold.logits)


def test_the_plain_bicubic_decoder_is_torch_s_interpolation() -> None:
    z = torch.randn(3, 2 * 16, generator=torch.Generator().manual_seed(0))
    pictures = Upsampler("bicubic", 32, SHAPE, 4)(z)
    expected = torch.nn.functional.interpolate(z.view(3, 2, 4, 4), SHAPE[1:], mode="bicubic", align_corners=False)
    torch.testing.assert_close(pictures, expected)
    assert not list(Upsampler("bicubic", 32, SHAPE, 4).parameters())
    with pytest.raises(BadValue, match="latent = 32"):
        Design(SHAPE, DIM, latent=9, upsampler="bicubic")
