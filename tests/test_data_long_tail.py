"""Long tails and their balanced twins: exact counts, the same images whatever the order of files, and bad input."""

from collections import Counter

import numpy as np
import pytest
import torch

from holdfast.core import HoldfastError
from holdfast.runtime.errors import BadValue, Missing, NotEnough, UnknownName
from holdfast.sources.data import open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.digits import Digits
from holdfast.sources.data.shared.long_tail import LongTail


def source(*sizes: int, order: torch.Tensor | None = None) -> Arrays:
    """As many images of class 0, 1, ... as asked for; an image's id says what it is."""
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    order = torch.arange(len(labels)) if order is None else order
    pixels = (torch.arange(len(labels)) / len(labels))[:, None, None].expand(-1, 4, 4)
    return Arrays(pixels[order], labels[order], [f"image {number}" for number in order.tolist()], layout="NHW")


def ids(images: LongTail) -> set[str]:
    return {images.id(row) for row in range(len(images))}


def kept(images: LongTail) -> dict[int, int]:
    return dict(Counter(images.label(row) for row in range(len(images))))


def test_the_usual_long_tail_of_ten_classes() -> None:
    """A tenth of CIFAR-10-LT, ratio 100: 500 · 100^(-r/9), rounded down."""
    images = LongTail(source(*[500] * 10))
    assert list(images.counts.values()) == [500, 299, 179, 107, 64, 38, 23, 13, 8, 5]
    assert len(images) == 1236
    assert kept(images) == images.counts
    assert sorted(images.counts) == list(range(10))
    assert list(images.counts) != list(range(10))  # classes are ranked by the seed


def test_rounding_takes_no_image_away() -> None:
    """64 · 32^(-2/5) is 16, and 2 / 27^-1 is 54, whatever floating point makes of them."""
    assert list(LongTail(source(*[64] * 6), 32).counts.values()) == [64, 32, 16, 8, 4, 2]
    ranks = list(LongTail(source(54, 54, 54, 54), 27).counts)
    sizes = dict(zip(ranks, [54, 18, 6, 2], strict=True))
    assert len(LongTail(source(*[sizes[label] for label in range(4)]), 27)) == 80


def test_its_twin_has_as_many_images() -> None:
    whole = source(*[500] * 10)
    tail, twin = LongTail(whole), LongTail(whole, uniform=True)
    assert len(twin) == len(tail)
    assert sorted(twin.counts.values()) == [123] * 4 + [124] * 6
    assert kept(twin) == twin.counts
    common = sum(min(tail.counts[label], twin.counts[label]) for label in range(10))
    assert len(ids(tail) & ids(twin)) == common  # the smaller number of a class is the beginning of the larger


def test_a_profile_by_hand() -> None:
    """Like ImageNet-LT, whose classes have 1280 to 5 images: counts by rank."""
    images = LongTail(source(1300, 1300, 1300, 1300), counts=[1280, 300, 40, 5])
    assert list(images.counts.values()) == [1280, 300, 40, 5]
    twin = LongTail(source(1300, 1300, 1300, 1300), counts=[1280, 300, 40, 5], uniform=True)
    assert sorted(twin.counts.values()) == [406, 406, 406, 407]


def test_uneven_classes_set_the_largest_number() -> None:
    """Ranks and ratio 4 ask for shares 1, 1/2, 1/4: the class that runs out first decides."""
    ranks = list(LongTail(source(9, 9, 9), 4).counts)
    for sizes, expected in {(8, 100, 100): [8, 4, 2], (100, 5, 100): [10, 5, 2], (100, 100, 3): [12, 6, 3]}.items():
        by_label = dict(zip(ranks, sizes, strict=True))
        images = LongTail(source(*[by_label[label] for label in range(3)]), 4)
        assert list(images.counts.values()) == expected


def test_ratio_one_keeps_a_balanced_source() -> None:
    assert len(LongTail(source(7, 7, 7), 1)) == 21


def test_the_order_of_files_does_not_matter_and_the_seed_does() -> None:
    order = torch.randperm(180, generator=torch.Generator().manual_seed(0))
    plain, shuffled = LongTail(source(60, 60, 60), 10), LongTail(source(60, 60, 60, order=order), 10)
    assert ids(plain) == ids(shuffled)
    assert plain.counts == shuffled.counts
    others = [LongTail(source(60, 60, 60), 10, seed) for seed in range(1, 9)]
    assert all(ids(other) != ids(plain) for other in others)
    assert len({tuple(other.counts) for other in others}) > 1


def test_images_are_those_of_the_source() -> None:
    whole = source(9, 9, 9)
    images = LongTail(whole, 3)
    numbers = {whole.id(row): row for row in range(len(whole))}
    for row in range(len(images)):
        place = numbers[images.id(row)]
        assert torch.equal(images.load(row), whole.load(place))
        assert images.label(row) == whole.label(place)
    named = LongTail(Arrays(np.zeros((4, 3, 3)), [0, 0, 1, 1], layout="NHW", classes=["cat", "dog"]), 1)
    assert named.classes == ("cat", "dog")


def test_spec_strings() -> None:
    tail = open_images("digits?part=train&balance=long_tail&ratio=20")
    twin = open_images("digits?part=train&balance=uniform&ratio=20")
    direct = LongTail(Digits("train"), 20)
    assert set(tail.ids) == ids(direct)
    assert len(tail) == len(twin) == len(direct)
    assert max(Counter(twin.labels).values()) - min(Counter(twin.labels).values()) <= 1
    assert set(open_images("digits?balance=long_tail&ratio=5", seed=9).ids) == ids(LongTail(Digits(), 5))
    assert set(open_images("digits?balance=long_tail&ratio=5&balance_seed=3").ids) == ids(LongTail(Digits(), 5, 3))
    assert set(open_images("digits?part=train&balance=long_tail&balance_seed=1").ids) <= set(
        open_images("digits?part=train").ids
    )
    assert "long tail" in str(tail)
    assert "balanced" in str(twin)
    assert str(len(tail)) in str(tail)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ("balance=longtail", BadValue, "long_tail"),
        ("balance=long_tail&ratio=0.5", BadValue, "ratio >= 1"),
        ("balance=long_tail&ratio=nan", BadValue, "ratio=nan"),
        ("balance=uniform&ratio=1e6", NotEnough, "1000000"),
        ("balance=long_tail&ratio=x", BadValue, "ratio=x"),
        ("ratio=5", UnknownName, "option"),
    ],
)
def test_bad_options(options: str, kind: type[HoldfastError], message: str) -> None:
    with pytest.raises(kind, match=message):
        open_images(f"digits?{options}")


def test_bad_sources() -> None:
    with pytest.raises(Missing, match="000000"):
        LongTail(Arrays(np.zeros((4, 3, 3)), layout="NHW"), 2)
    with pytest.raises(NotEnough, match="got 1"):
        LongTail(source(9), 2)
    with pytest.raises(NotEnough, match="10 images"):
        LongTail(source(9, 9), counts=[10, 2])
    with pytest.raises(BadValue, match="2 classes"):
        LongTail(source(9, 9), counts=[3, 2, 1])
    with pytest.raises(BadValue, match="count"):
        LongTail(source(9, 9), counts=[3, 0])
