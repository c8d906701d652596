"""Images of two Gaussian classes: they follow the model, and the model's exact optimum is theirs."""

import math

import numpy as np
import PIL.Image
import pytest
import torch
from scipy import stats
from sklearn.covariance import ledoit_wolf

from holdfast.numerics.gaussian_classes.conditional import ConditionalGaussian, ones, random_direction
from holdfast.numerics.gaussian_classes.covariance import Covariance, isotropic, of_images
from holdfast.runtime.errors import BadValue, Mismatch, NotEnough
from holdfast.sources.data import open_images
from holdfast.sources.data.gaussian import Gaussian

DRAWS = 40_000


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def structured(pixels: int, k: int, rest: float = 0.2) -> Covariance:
    vectors = np.linalg.qr(generator(1).normal(size=(pixels, k)))[0]
    return Covariance(torch.from_numpy(vectors).float(), torch.linspace(0.5, 3, k), rest)


def written_out(covariance: Covariance) -> torch.Tensor:
    vectors = covariance.vectors.double()
    return vectors @ covariance.values.double().diag() @ vectors.T + covariance.rest * torch.eye(len(vectors))


def model(covariance: Covariance, s: float = 1.0, shape: tuple[int, ...] = (2, 3), **options) -> ConditionalGaussian:
    return ConditionalGaussian(shape, random_direction(covariance, generator(2)), s, covariance, **options)


def signs(count: int) -> torch.Tensor:
    return torch.from_numpy(generator(3).integers(0, 2, count) * 2.0 - 1)


COVARIANCES = {"isotropic": isotropic(6), "structured": structured(6, 2), "flat": structured(6, 3, rest=0.0)}


@pytest.mark.parametrize("kind", COVARIANCES)
def test_noise_has_its_covariance(kind: str) -> None:
    covariance = COVARIANCES[kind]
    drawn, expected = covariance.draw(DRAWS, generator()).double(), written_out(covariance)
    assert drawn.mean(0).abs().max() < 4 * math.sqrt(float(expected.diag().max()) / DRAWS)
    error = (drawn.T @ drawn / DRAWS - expected).abs() / float(expected.diag().max())
    assert float(error.max()) < 5 * math.sqrt(2 / DRAWS)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_length_in_units_of_the_noise(kind: str) -> None:
    covariance = COVARIANCES[kind]
    direction = random_direction(covariance, generator(5))
    expected = direction.double() @ torch.linalg.pinv(written_out(covariance), rtol=1e-5) @ direction.double()
    assert covariance.mahalanobis(direction) == pytest.approx(float(expected.sqrt()), rel=1e-5)
    if kind == "flat":
        assert covariance.mahalanobis(ones(6)) == math.inf


@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize("kind", COVARIANCES)
def test_the_best_accuracy_depends_on_s_alone(kind: str, share: float) -> None:
    for s in (0.1, 1.0, 3.0):
        mixture = model(COVARIANCES[kind], s, share=share, scale=0.1).mixture()
        rules = mixture.classifiers(torch.zeros(1))
        q = math.log((1 - share) / share)
        expected = sum(p * stats.norm.cdf((s * s + sign * q / 2) / s) for p, sign in ((share, -1), (1 - share, 1)))
        assert rules.accuracy().item() == pytest.approx(expected, rel=1e-6)
        assert length_of_half(mixture) == pytest.approx(s, rel=1e-5)


def length_of_half(mixture) -> float:
    return math.sqrt(float((mixture.half.square() / mixture.values).sum()))


@pytest.mark.parametrize("kind", COVARIANCES)
def test_classifiers_do_on_drawn_images_what_is_promised(kind: str) -> None:
    truth = model(COVARIANCES[kind], scale=0.05)
    y = signs(DRAWS)
    x = truth.draw(y, generator()).flatten(1)
    rules = truth.mixture(pixels=True).classifiers(torch.tensor([0.0, 0.4, 0.8]))
    scaled = rules.relative_margins(x, y)
    right = scaled > 0
    assert float((right.double().mean(1) - rules.accuracy()).abs().max()) < 4 * 0.5 / math.sqrt(DRAWS)
    for row, hit, bound in zip(scaled, right, rules.bound(), strict=True):
        assert abs(float(row[hit].mean() - bound)) < 4 * float(row[hit].std()) / math.sqrt(int(hit.sum()))
    # in units of the model, what is relative is the same
    own = truth.mixture().classifiers(torch.tensor([0.0, 0.4, 0.8]))
    torch.testing.assert_close(own.accuracy(), rules.accuracy())
    torch.testing.assert_close(own.bound(), rules.bound())
    torch.testing.assert_close(own.radii * 0.05, rules.radii)


def test_few_directions_lose_nothing_for_the_euclidean_ball_and_something_for_others() -> None:
    truth = model(COVARIANCES["structured"])
    few, whole = truth.mixture(), truth.mixture(whole=True)
    assert (len(few.values), len(whole.values)) == (3, 6)
    epsilons = torch.tensor([0.1, 0.5])
    for norm in (2.0, math.inf):
        seen, all_ = (m.classifiers(epsilons, norm=norm) for m in (few, whole))
        torch.testing.assert_close(seen.radii, all_.radii, rtol=1e-6, atol=0)
        lost = all_.robust_accuracy() - seen.robust_accuracy()
        assert bool((lost.abs() < 1e-6).all()) if norm == 2 else bool((lost > 1e-4).all())
    noise = whole.vectors @ whole.values.diag() @ whole.vectors.T
    torch.testing.assert_close(noise, written_out(truth.covariance), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_blocks_draw_what_all_would(kind: str) -> None:
    truth, y = model(COVARIANCES[kind], clamp=True), signs(20)
    numbers = generator()
    together = truth.draw(y, generator())
    apart = torch.cat([truth.draw(block, numbers) for block in y.split(7)])
    torch.testing.assert_close(apart, together)
    assert together.shape == (20, 2, 3)
    assert together.dtype == torch.float32
    assert (float(together.min()), float(together.max())) == (0, 1)


def test_means_lie_around_the_centre() -> None:
    centre = torch.linspace(0.2, 0.7, 6)
    truth = model(COVARIANCES["structured"], 2.0, centre=centre, scale=0.01)
    x = truth.draw(torch.ones(DRAWS), generator()).flatten(1)
    expected = centre + 0.01 * truth.half.float()
    assert float((x.mean(0) - expected).abs().max()) < 4 * 0.01 * math.sqrt(3.2 / DRAWS)
    torch.testing.assert_close(truth.mixture().centre, centre.double())


@pytest.mark.parametrize(("n", "pixels"), [(80, 12), (20, 50)])
def test_covariance_of_images_is_that_of_scikit_learn(n: int, pixels: int) -> None:
    x = torch.from_numpy(generator().normal(size=(n, pixels)) @ generator(1).normal(size=(pixels, pixels)) / 9 + 0.5)
    mean, covariance = of_images(x.float())
    torch.testing.assert_close(mean.double(), x.mean(0), atol=1e-6, rtol=0)
    expected = torch.from_numpy(ledoit_wolf(x.numpy())[0]) * n / (n - 1)
    torch.testing.assert_close(written_out(covariance), expected, atol=1e-5 * float(expected.max()), rtol=0)


def test_random_directions_vary_as_the_noise_does() -> None:
    for kind, covariance in COVARIANCES.items():
        drawn = torch.stack([random_direction(covariance, generator(seed)) for seed in range(2000)]).double()
        torch.testing.assert_close(drawn.norm(dim=1), torch.ones(2000).double())
        spread = torch.linalg.eigvalsh(drawn.T @ drawn / 2000)
        if kind == "isotropic":
            assert float((spread - 1 / 6).abs().max()) < 0.02
        else:
            assert float(spread[-1]) > 3 * float(spread[0])
    torch.testing.assert_close(ones(16), torch.full((16,), 0.25))


def test_source_follows_its_model() -> None:
    source = Gaussian((1, 2, 2), s=2.0, share=0.7, count=800, seed=1)
    assert (len(source), source.id(12), source.sized) == (800, "gaussian-00012", True)
    x = torch.stack([source.load(index) for index in range(len(source))])
    labels = torch.tensor([source.label(index) for index in range(len(source))])
    assert x.shape == (800, 1, 2, 2)
    assert 0 <= float(x.min()) < float(x.max()) <= 1
    assert abs(float(labels.double().mean()) - 0.7) < 4 * math.sqrt(0.21 / 800)
    found = source.model.mixture(pixels=True).classifiers(torch.zeros(1))
    right = (found.relative_margins(x.flatten(1), 2 * labels - 1) > 0).double().mean()
    assert abs(float(right - found.accuracy())) < 4 * math.sqrt(0.03 / 800)
    assert found.accuracy().item() > 0.97
    torch.testing.assert_close(source.load(7), Gaussian((1, 2, 2), s=2.0, share=0.7, count=9, seed=1).load(7))
    assert not torch.equal(source.load(7), Gaussian((1, 2, 2), s=2.0, share=0.7, seed=2).load(7))


def test_source_has_any_shape() -> None:
    assert Gaussian((16,)).load(0).shape == (1, 16, 1)
    images = open_images(Gaussian((3, 4, 5), count=6), images=4)
    assert images.batch(0, 4).shape == (4, 3, 4, 5)
    picture = Gaussian()
    assert not picture.sized
    found = picture.load(0)
    assert isinstance(found, PIL.Image.Image)
    assert (found.mode, found.size) == ("RGB", (256, 256))
    values = np.asarray(found) / 255
    assert abs(float(values.mean()) - 0.5) < 0.005
    assert abs(float(values.std()) - 0.1) < 0.005


def test_what_has_no_meaning_is_refused() -> None:
    for shape in ((3, 4), (1, 2, 3, 4), (0,), ()):
        with pytest.raises(BadValue, match="shape"):
            Gaussian(shape)
    for wrong in ({"count": 0}, {"share": 1.0}, {"share": math.nan}):
        with pytest.raises(BadValue, match="count"):
            Gaussian((4,), **wrong)
    for wrong in ({"s": 0.0}, {"s": math.nan}, {"scale": -1.0}, {"scale": math.inf}):
        with pytest.raises(BadValue, match="scale"):
            Gaussian((4,), **wrong)
    with pytest.raises(Mismatch, match="6 pixels"):
        ConditionalGaussian((2, 3), ones(5), 1.0, isotropic(6))
    with pytest.raises(BadValue, match="direction"):
        ConditionalGaussian((2, 3), ones(6), 1.0, COVARIANCES["flat"])
    with pytest.raises(BadValue, match="direction"):
        ConditionalGaussian((2, 3), torch.zeros(6), 1.0, isotropic(6))
    with pytest.raises(BadValue, match="covariance"):
        Covariance(torch.empty(6, 0), torch.empty(0), 0.0)
    with pytest.raises(NotEnough, match="equal"):
        of_images(torch.full((5, 7), 0.3))
    for x in (torch.rand(1, 7), torch.full((5, 7), math.nan)):
        with pytest.raises(NotEnough):
            of_images(x)
