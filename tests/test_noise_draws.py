"""What pictures of learned noises are computed from: principal components, t-SNE, covariances of blocks."""

import pytest
import torch
from sklearn.decomposition import PCA

from holdfast.numerics.geometry.pictures import shrunk
from holdfast.numerics.geometry.projection import axes, neighbourhoods, plane
from holdfast.parts.observations.shared.noise_draws import covariance_of_blocks
from holdfast.parts.threats.shared.generator import Gaussians


def points(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    spread = torch.tensor([5.0, 3.0, 1.0, 0.5, 0.1])
    return torch.randn(60, 5, generator=generator, dtype=torch.float64) * spread + torch.arange(5.0)


def test_the_plane_is_that_of_principal_components():
    x = points()
    found, known = plane(x), PCA(2).fit(x.numpy())
    signs = torch.tensor([1.0 if max(row, key=abs) > 0 else -1.0 for row in known.components_.tolist()])
    torch.testing.assert_close(found.points, torch.from_numpy(known.transform(x.numpy())) * signs)
    torch.testing.assert_close(found.origin, torch.from_numpy(known.transform([[0.0] * 5])[0]) * signs)
    torch.testing.assert_close(found.explained, torch.from_numpy(known.explained_variance_ratio_))


@pytest.mark.parametrize("x", [torch.ones(7, 5), torch.zeros(1, 5), torch.arange(6.0)[:, None]])
def test_a_plane_of_points_with_less_than_two_directions(x):
    found = plane(x)
    assert found.points.shape == (len(x), 2)
    assert all(part.isfinite().all() for part in found)
    assert found.explained[1] == 0
    assert float(found.explained[0]) == pytest.approx(1.0 if x.shape[1] == 1 else 0.0)


def test_axes_are_orthonormal_and_point_one_way():
    found = axes(points(), 3)
    torch.testing.assert_close(found @ found.T, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(found, axes(-points(), 3))


def test_tsne_keeps_far_groups_apart_and_repeats_itself():
    x = torch.cat([points(), points(1) + 100])
    found = neighbourhoods(x, seed=3)
    assert found is not None
    assert found.shape == (120, 2)
    within = max(torch.pdist(found[:60]).median(), torch.pdist(found[60:]).median())
    assert torch.dist(found[:60].mean(0), found[60:].mean(0)) > 2 * within
    assert torch.equal(found, neighbourhoods(x, seed=3))
    assert torch.equal(found, neighbourhoods(x * 2.0**-100, seed=3))


def test_no_tsne_of_points_that_hardly_differ():
    assert neighbourhoods(torch.ones(50, 4), seed=0) is None
    many = torch.cat([torch.zeros(200, 1), torch.arange(9.0)[:, None]])  # most of them equal
    for x in (torch.arange(9.0)[:, None], many):
        found = neighbourhoods(x, seed=0)
        assert found is not None
        assert found.isfinite().all()
        assert float(found.std()) > 0


@pytest.mark.parametrize(("latent", "block"), [(6, 1), (6, 3), (7, 3)])
@pytest.mark.parametrize("full", [True, False])
def test_the_covariance_is_that_of_the_means_of_blocks(latent, block, full):
    generator = torch.Generator().manual_seed(0)
    scales = torch.rand(1, 2, latent, generator=generator) + 0.5
    below = torch.randn(1, 2, latent, latent, generator=generator).tril(-1) if full else None
    given = Gaussians(torch.tensor([[0.0, 1.0]]), torch.zeros(1, 2, latent), scales, below)
    root = given.roots[0, 1].double()  # the heavier one
    blocks = torch.arange(latent).split(block)
    mean = torch.stack([torch.zeros(latent).index_fill(0, some, 1 / len(some)) for some in blocks]).double()
    found = covariance_of_blocks(given, block)
    torch.testing.assert_close(found, mean @ root @ root.T @ mean.T, rtol=1e-6, atol=1e-7)


def test_small_images_are_not_shrunk_and_large_ones_are_averaged():
    x = torch.rand(2, 3, 8, 20, generator=torch.Generator().manual_seed(0))
    found = shrunk(x, 10)
    assert found.shape == (2, 3, 8, 10)
    torch.testing.assert_close(found, x.unflatten(3, (10, 2)).mean(-1))
    assert torch.equal(shrunk(x, 32), x)
