"""Every corruption: it stays in the box, befalls each image alike whatever its batch, and says what it is."""

import pytest
import torch
from torch import Tensor

from holdfast.core import Corruption, Noise, Rng, registry

IDS = tuple("abcdefgh")
FOUND = [registry.find("threats", name) for name in registry.names("threats")]
CORRUPTIONS = [cls() for cls in FOUND if issubclass(cls, Corruption)]


@pytest.fixture
def colours(edges: Tensor) -> Tensor:
    """Eight 3x8x8 images, several of them on the edges of the pixel box."""
    more = torch.rand(8, 2, 8, 8, generator=torch.Generator().manual_seed(2))
    more[:3] = more[:3].round()
    return torch.cat([edges, more], 1)


@pytest.mark.parametrize("part", CORRUPTIONS, ids=str)
def test_corrupted_images_stay_in_the_box(part: Corruption, colours: Tensor, edges: Tensor) -> None:
    for x in (colours, edges):
        before, out = x.clone(), part.sample(x, Rng(3, ids=IDS))
        assert out.shape == x.shape
        assert out.dtype == x.dtype
        assert out.min() >= 0
        assert out.max() <= 1
        assert float((out - x).abs().mean()) > 1e-3
        assert torch.equal(x, before)  # what it was given is as it was


@pytest.mark.parametrize("part", CORRUPTIONS, ids=str)
def test_images_do_not_depend_on_their_batch(part: Corruption, colours: Tensor) -> None:
    rng, order = Rng(3, ids=IDS), [5, 2, 7]
    whole = part.sample(colours, rng)
    assert torch.equal(part.sample(colours[order], rng.at([IDS[i] for i in order])), whole[order])
    assert torch.equal(part.sample(colours, rng), whole)


@pytest.mark.parametrize("part", CORRUPTIONS, ids=str)
def test_it_has_a_title_of_its_own_and_no_distribution_to_search(part: Corruption) -> None:
    assert 0 < len(part.title) <= 40
    assert [other.title for other in CORRUPTIONS].count(part.title) == 1
    assert not isinstance(part, Noise)


def test_there_are_some() -> None:
    assert {registry.part_name(part) for part in CORRUPTIONS} >= {
        "imagenet_c", "gamma", "global_shuffle", "local_shuffle", "lowpass",
    }  # fmt: skip
