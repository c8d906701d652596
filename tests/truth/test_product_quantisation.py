"""Codes of an index: what attacks, certificates and errors make of them."""

import numpy as np
import pytest
import torch
from torch import nn

import holdfast
from holdfast.core import Encoder, HoldfastError, Rng, Shard
from holdfast.numerics.geometry.pairwise import pairwise
from holdfast.parts.divergences.product_quantised import ProductQuantised
from holdfast.parts.failures.nearest import Nearest
from holdfast.runtime.errors import BadData, Mismatch, Missing, NotFinite

PIECES, WIDTH = 2, 3


@pytest.fixture
def codes(tmp_path) -> ProductQuantised:
    path = tmp_path / "codes.npy"
    np.save(path, np.random.default_rng(0).normal(size=(PIECES, 4, WIDTH)).astype("float32"))
    return ProductQuantised(str(path))


def reps(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, PIECES * WIDTH, generator=torch.Generator().manual_seed(seed))


def test_a_vector_has_the_same_code_in_any_company(codes) -> None:
    """To the bit, also where two centroids are nearly as near."""
    book = codes.codebooks
    between = (book[:, 0] + book[:, 1]).flatten() / 2 + 1e-15 * reps(300, 1).double()
    assert torch.equal(codes.quantise(between), torch.cat([codes.quantise(one[None]) for one in between]))


def test_margins_are_differences_of_distances(codes) -> None:
    moved, own, others = reps(5, 1).double(), reps(5, 2).double(), reps(5, 3).double()
    margin = codes.between(own, others[:, None])(moved)[:, 0]
    torch.testing.assert_close(margin, codes(moved, others) - codes(moved, own))


def test_an_image_is_taken_for_another_by_codes_alone(codes) -> None:
    """Whose code is another image's is none of its rivals; whose code is farther from it than another one is at 0."""
    clean = reps(30, 4).double()
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    shard = Shard(encoder, clean.view(30, 1, 1, -1), torch.arange(30), Rng(0, ids=tuple(map(str, range(30)))), clean)
    moved = clean + 0.8 * reps(30, 5)
    value = Nearest(codes).bind(shard)(moved[:, None], torch.arange(30))[:, 0]
    apart = torch.stack([codes(moved, image.expand_as(moved)) for image in clean], 1)
    taken = apart < apart.diagonal()[:, None]
    assert 0 < taken.any(1).float().mean() < 1
    assert torch.equal(value > 0, taken.any(1))
    kept = codes.quantise(clean)
    twins = (kept[:, None] == kept).all(-1)
    assert twins.sum() > 30
    rivals = Nearest(codes).rivals(shard)
    against = rivals.margins(moved)
    assert torch.equal((against < 0).any(1), taken.any(1))
    # beside what is an image's own, all that share its code come last, with the margin of what is no rival
    for row in range(30):
        assert (against[row, 29 - int(twins[row].sum() - 1) :] == 1).all()


def test_the_smallest_change_that_an_index_of_codes_confuses(codes, small_network, tmp_path) -> None:
    network = small_network()
    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        vectors = network(images)
    path = tmp_path / "of-this-encoder.npy"
    pieces = vectors.double().reshape(40, 4, 3).transpose(0, 1)
    np.save(path, pieces[:, ::3])  # every third image's own pieces are the centroids
    asked = f"breaking_radius[divergence=product_quantised[path={path}],steps=20]"
    record = holdfast.audit(network, images, measures=asked, attacked=8, quiet=True)
    assert record["breaking_radius"].value is not None
    # the radius is 0 where the index takes an undisturbed image for another one
    apart = pairwise(vectors, vectors, ProductQuantised(str(path)))
    lost = (apart < apart.diagonal()[:, None])[:8].any(1)
    table = record.to_pandas("breaking_radius")
    assert torch.equal(torch.tensor(table["broken"][:8].to_numpy()) == 0, lost)


@pytest.mark.parametrize(
    ("held", "kind", "error"),
    [
        (np.zeros((2, 3)), BadData, "float64"),
        (np.zeros((2, 4, 3), int), BadData, "int64"),
        (np.zeros((0, 4, 3)), BadData, "float64"),
        (np.full((2, 4, 3), np.nan), NotFinite, "finite"),
        (np.zeros((2, 4, 4)), Mismatch, "got 6"),
        (None, Missing, r"codes\.npy"),
        ("", Missing, r"path=FILE\.npy"),
    ],
)
def test_what_are_no_codebooks_of_these_vectors_is_refused(held, kind: type[HoldfastError], error, tmp_path) -> None:
    path = tmp_path / "codes.npy"
    if isinstance(held, np.ndarray):
        np.save(path, held)
    with pytest.raises(kind, match=error):
        ProductQuantised(held if isinstance(held, str) else str(path))(reps(2, 0), reps(2, 1))
