"""Every corruption: it stays in the box, befalls each image alike whatever its batch, and says what it is."""

import pytest
import torch
from torch import Tensor

from holdfast.core import Corruption, HoldfastError, Noise, Rng, registry
from holdfast.parts.threats import imagenet_c

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


ALL = [*CORRUPTIONS, *(imagenet_c.ImagenetC(name, 5) for name in (*imagenet_c.CORRUPTIONS, *imagenet_c.EXTRA))]


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 1), (1, 2, 2), (3, 3, 3), (3, 13, 29), (3, 1, 40), (1, 64, 3)])
def test_images_of_odd_and_tiny_sizes_are_corrupted_or_refused_in_a_line(shape: tuple[int, int, int]) -> None:
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    for part in ALL:
        try:
            out = part.sample(x.clone(), Rng(3, ids=tuple("abcd")))
        except HoldfastError:
            continue
        assert out.shape == x.shape
        assert bool(out.isfinite().all()), part
        assert out.min() >= 0, part
        assert out.max() <= 1, part


@pytest.mark.parametrize("part", CORRUPTIONS, ids=str)
def test_it_has_a_title_of_its_own_and_no_distribution_to_search(part: Corruption) -> None:
    assert 0 < len(part.title) <= 40
    assert [other.title for other in CORRUPTIONS].count(part.title) == 1
    assert not isinstance(part, Noise)


def test_there_are_some() -> None:
    assert {registry.part_name(part) for part in CORRUPTIONS} >= {
        "imagenet_c", "gamma", "global_shuffle", "local_shuffle", "lowpass",
    }  # fmt: skip
