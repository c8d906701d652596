"""The measures of RVCL's theorems: radii that are known, order statistics in SciPy, comparisons counted in loops."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch
from torch import nn

from holdfast.core import Encoder, Rng, Shard
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.certified.margin_calibration import MarginCalibration, beyond
from holdfast.parts.measures.certified.radius_bound import RadiusBound, _compare_radii
from holdfast.parts.measures.certified.radius_likeness import RadiusLikeness, _share
from holdfast.parts.measures.shared.weibull import joint
from holdfast.parts.observations.class_pair_radii import ClassPairRadii
from holdfast.parts.observations.common_negative_radii import CommonNegativeRadii
from holdfast.parts.probes.linear import Linear
from holdfast.runtime.errors import BadValue, NotEnough

SIDE = 4


def shard(count: int, population: int = 30) -> Shard:
    """Images far from 0 and 1, of three classes, seen by an encoder that is the identity."""
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    generator = torch.Generator().manual_seed(0)
    images = 0.5 + 0.05 * torch.randn(population, 1, SIDE, SIDE, generator=generator)
    rng = Rng(0, ids=tuple(map(str, range(count))))
    labels = torch.arange(population) % 3
    return Shard(
        encoder, images[:count], torch.arange(count), rng, images.flatten(1), images.__getitem__, labels
    )  # fmt: skip


def exact(weights: torch.Tensor, bias: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return m(x) / ||w||_1, the radius in ℓ∞ of a margin that is linear in the pixels."""
    value = (weights.double() * x.double().flatten(1)[:, None]).sum(-1) + bias.double()
    return (value / weights.double().abs().sum(-1)).clamp_min(0)


def test_radii_against_common_negatives_of_a_linear_encoder_are_known() -> None:
    seen = shard(6)
    found = CommonNegativeRadii(negatives=4, tolerance=1e-7).run(seen)
    assert seen.clean is not None
    pairs = Cosine().between(seen.clean[:6], seen.clean[-4:].expand(6, -1, -1))
    expected = exact(pairs.weights, pairs.bias, seen.x)
    torch.testing.assert_close(found["certificate"], expected, atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(found["attack"], expected, atol=1e-4, rtol=1e-2)
    assert (found["certificate"] <= found["attack"] + 1e-6).all()
    with pytest.raises(NotEnough, match="got 3"):
        CommonNegativeRadii(negatives=4).run(shard(27))


@pytest.mark.slow
def test_heads_learn_from_an_image_and_its_negatives_alone() -> None:
    seen = shard(6)
    observation = ClassPairRadii(classes=2, negatives=3, tolerance=1e-7)
    found = observation.run(seen)
    assert found["attack"].shape == (6, 2 * (3 + 2))
    assert seen.clean is not None
    assert seen.labels is not None
    for place in range(6):
        x, own = seen.x[place : place + 1], int(seen.labels[place])
        groups = []
        for step in (1, 2):  # the classes that follow, the images of each that follow
            members = [i for i in range(30) if i % 3 == (own + step) % 3]
            groups.append(([i for i in members if i > place] + [i for i in members if i < place])[:3])
        pairs = Cosine().between(seen.clean[place][None], seen.clean[[i for group in groups for i in group]][None])
        expected = [exact(pairs.weights, pairs.bias, x)]
        for group in (*groups, groups[0] + groups[1]):
            sample = [place, *group]
            margin = Linear().fit(seen.clean[sample], seen.labels[sample]).margins(seen.labels[[place]])
            expected.append(exact(margin.weights, margin.bias, x))
        rows = torch.cat(expected, 1)[0]
        torch.testing.assert_close(found["certificate"][place], rows, atol=1e-5, rtol=1e-3)
        torch.testing.assert_close(found["attack"][place], rows, atol=1e-4, rtol=1e-2)


def test_a_class_needs_enough_images() -> None:
    with pytest.raises(NotEnough, match="got 10"):
        ClassPairRadii(negatives=11).run(shard(2))


def test_proofs_and_attacks_decide_and_what_lies_between_is_open() -> None:
    # left between .1 and .2 against right: surely above, surely below, open in order, open out of order
    low, high = torch.full((4,), 0.1), torch.full((4,), 0.2)
    low_right, right = torch.tensor([0.01, 0.3, 0.05, 0.15]), torch.tensor([0.1, 0.4, 0.15, 0.25])
    said = {name: values.tolist() for name, values in _compare_radii(low, high, low_right, right).items()}
    assert said == {"refuted": [0, 1, 0, 0], "shown": [1, 0, 0, 0], "as attacked": [1, 0, 1, 0]}


def test_pairs_of_images_are_counted_in_both_roles() -> None:
    generator = torch.Generator().manual_seed(0)
    far, event = torch.rand(5, 2, generator=generator), torch.rand(5, 5, 2, generator=generator) < 0.4
    found = _share(event, far[:, None] > far[None])
    for image in range(5):
        hits = []
        for i, k, q in itertools.product(range(5), range(5), range(2)):
            if image in (i, k) and far[i, q] > far[k, q]:
                hits.append(bool(event[i, k, q]))
        assert float(found[image]) == pytest.approx(np.mean(hits))


def test_order_statistics_are_sums_of_a_poisson_law() -> None:
    fit = joint(torch.rand(3, 20, generator=torch.Generator().manual_seed(0)) + 0.1)
    values = torch.tensor([0.05, 0.2, 0.6])
    for order in (1, 2, 5):
        tau = 1.5 * (values.double() / fit.scale) ** fit.shape
        expected = scipy.stats.poisson.cdf(order - 1, tau.numpy())
        np.testing.assert_allclose(beyond(fit, values, order, ratio=1.5).numpy(), expected, rtol=1e-10)
    torch.testing.assert_close(beyond(fit, values, 1), fit.survival(values))
    # Eq. 37: the more negatives may be nearer, the likelier a positive
    assert (beyond(fit, values, 2) > beyond(fit, values, 1)).all()


@pytest.mark.parametrize("likelihood", ["joint", "independent"])
def test_margins_that_hold_are_found_to_and_others_not(likelihood: str) -> None:
    """Distances of a Poisson process on both sides: the joint fit holds for new ones, the paper's reading does not."""
    generator = torch.Generator().manual_seed(1)
    images, tail, shape, scale = 400, 20, 3.0, 0.2

    def nearest() -> torch.Tensor:
        arrivals = -torch.rand(images, tail, generator=generator, dtype=torch.float64).log()
        return scale * arrivals.cumsum(1) ** (1 / shape)

    from holdfast.parts.measures.shared.weibull import FITS

    fit, fresh = FITS[likelihood](nearest()), nearest()
    for order in (1, 2, 5):
        mean = float(beyond(fit, fresh[:, order - 1], order).mean())
        assert (abs(mean - 0.5) < 0.05) == (likelihood == "joint"), (order, mean)


def test_what_cannot_be_is_refused() -> None:
    for measure, message in (
        (lambda: MarginCalibration(orders=(21,)), "orders"),
        (lambda: MarginCalibration(orders=()), "orders"),
        (lambda: RadiusBound(classes=0), "classes >= 1"),
        (lambda: RadiusLikeness(negatives=0), "negatives >= 1"),
        (lambda: RadiusLikeness(tail=2), "radius_likeness"),
    ):
        with pytest.raises(BadValue, match=message):
            measure()
