"""Images that look like others: which count, that they are named, and that they can be left out."""

import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from holdfast.core import HoldfastError
from holdfast.sources.data import open_images
from holdfast.sources.data.shared.duplicates import ALIKE, SIDE, LookAlikes, thumbnail


def photo(seed: int, side: int = 96) -> PIL.Image.Image:
    """Return a picture of soft shapes in colour, and some grain."""
    draw = np.random.default_rng(seed)
    coarse = PIL.Image.fromarray(draw.integers(0, 256, (6, 6, 3), dtype=np.uint8))
    values = np.asarray(coarse.resize((side, side), PIL.Image.Resampling.BICUBIC), dtype=np.int16)
    return PIL.Image.fromarray((values + draw.integers(-8, 9, values.shape)).clip(0, 255).astype(np.uint8))


def as_jpeg(picture: PIL.Image.Image, quality: int) -> PIL.Image.Image:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return PIL.Image.open(file).convert("RGB")


def matches(first: PIL.Image.Image | Tensor, second: PIL.Image.Image | Tensor) -> bool:
    known = LookAlikes()
    known.add(thumbnail(first))
    return known.match(thumbnail(second)) is not None


@pytest.mark.parametrize("seed", range(5))
def test_one_picture_saved_in_two_ways_is_a_duplicate(seed: int) -> None:
    picture = photo(seed)
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255
    brighter = PIL.Image.fromarray((np.asarray(picture).astype(np.int16) + 1).clip(0, 255).astype(np.uint8))
    for twin in (as_jpeg(picture, 90), as_jpeg(picture, 75), picture.resize((64, 64)), brighter):
        assert matches(picture, twin)
    assert matches(pixels, (pixels + torch.randn(pixels.shape, generator=torch.Generator().manual_seed(0)) / 255))
    assert not matches(picture, photo(seed + 5))
    assert not matches(picture, picture.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT))


def test_the_criterion_is_the_largest_difference_of_a_cell() -> None:
    grid, known = np.full(SIDE * SIDE, 100, np.uint8), LookAlikes()
    known.add(grid)
    for cell in (0, 77, 255):
        other = grid.copy()
        other[cell] += ALIKE
        assert known.match(other) == (0, ALIKE)
        other[cell] += 1
        assert known.match(other) is None
    nearer = grid + 1
    known.add(nearer)
    assert known.match(nearer + 1) == (1, 1)


def test_what_looks_alike_is_named_and_left_out_where_asked_for(tmp_path: Path) -> None:
    for number in range(12):
        photo(number).save(tmp_path / f"{number:02}.png")
    for number in range(4):
        as_jpeg(photo(number), 90).save(tmp_path / f"again-{number}.jpg", quality=95)
    images = open_images(tmp_path, seed=1)
    assert len(images) == 16
    pairs = {frozenset(pair[:2]) for pair in images.duplicates}
    assert pairs == {frozenset((f"{number:02}.png", f"again-{number}.jpg")) for number in range(4)}
    assert all(0 <= levels <= ALIKE for _, _, levels in images.duplicates)
    places = {name: place for place, name in enumerate(images.ids)}
    assert all(places[later] > places[earlier] for later, earlier, _ in images.duplicates)
    # left out, and replaced by others: the same images as if they were not there, of which the first is kept
    apart = open_images(f"{tmp_path}?skip_duplicates=true", seed=1)
    assert apart.ids == [name for name in images.ids if name not in {pair[0] for pair in images.duplicates}]
    assert apart.duplicates == images.duplicates
    assert apart.fingerprint != images.fingerprint
    assert len(open_images(tmp_path, seed=1, images=10, skip_duplicates=True)) == 10
    # another process is told, and reads nothing
    recalled = open_images(tmp_path, seed=1, skip_duplicates=True)
    recalled.recall(apart.selection)
    assert (recalled.ids, recalled.duplicates) == (apart.ids, apart.duplicates)


def test_one_picture_alone_cannot_be_audited() -> None:
    images = torch.full((5, 1, 8, 8), 0.5)
    assert len(open_images(images).duplicates) == 4
    with pytest.raises(HoldfastError, match=r"got 1 .* 4 look like others and were left out"):
        len(open_images(images, skip_duplicates=True))


def test_the_most_alike_is_found_wherever_in_the_range_of_grey_levels_it_is() -> None:
    draw = np.random.default_rng(0)
    levels = draw.integers(0, 256, (400, 4)).repeat(SIDE * SIDE // 4, axis=1)  # dark and bright, of any quarters
    moved = levels[draw.integers(0, 400, 800)] + draw.integers(-ALIKE, ALIKE + 1, (800, 1))  # as far as may be, at once
    images = np.concatenate([levels, moved]).clip(0, 255).astype(np.uint8)[draw.permutation(1200)]
    known, numbers = LookAlikes(), []
    for count, image in enumerate(images):
        apart = np.abs(images[:count].astype(int) - image).max(1, initial=0)
        nearest = int(apart.argmin()) if count else 0
        expected = (nearest, int(apart[nearest])) if count and apart[nearest] <= ALIKE else None
        assert known.match(image) == expected
        known.add(image)
        numbers.append(expected)
    assert 500 < sum(number is not None for number in numbers) < 900


def test_buckets_hide_no_match() -> None:
    """Sums of quarters at, beside and across the borders of buckets; images that differ by the limit in every cell."""
    draw = np.random.default_rng(0)
    flat = draw.integers(0, 24, (400, 4)).repeat(SIDE * SIDE // 4, 1)
    grained = flat[:200] + draw.integers(-2, 3, (200, SIDE * SIDE))
    thumbnails = np.concatenate([flat, grained, flat[200:] + draw.choice([-3, 3, 4], (200, 1))]).clip(0, 255)
    known = LookAlikes()
    for number, image in enumerate(thumbnails.astype(np.uint8)):
        apart = np.abs(thumbnails[:number] - image).max(1, initial=0)
        nearest = (int(apart.argmin()), int(apart.min())) if number and apart.min() <= ALIKE else None
        assert known.match(image) == nearest
        known.add(image)


def test_copies_among_ten_thousand_images_are_all_named() -> None:
    draw = np.random.default_rng(0)
    thumbnails = draw.integers(0, 256, (10_000, SIDE * SIDE), dtype=np.uint8)
    thumbnails[7_000:] = thumbnails[:3_000]
    known, alike = LookAlikes(), 0
    for image in thumbnails:
        alike += known.match(image) is not None
        known.add(image)
    assert alike == 3_000
