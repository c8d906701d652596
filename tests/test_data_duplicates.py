"""Images that look like others: which count, that they are named, and that they can be left out."""

import gc
import io
import tempfile
import weakref
from hashlib import sha256
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from holdfast.runtime.errors import BadData, NotEnough, NotFinite
from holdfast.sources.data import open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.shared.duplicates import ALIKE, LookAlikes
from holdfast.sources.data.shared.rows_on_disk import RowsOnDisk
from holdfast.sources.data.shared.thumbnails import SIDE, thumbnail, thumbnails


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
    return alike(np.stack([thumbnail(first), thumbnail(second)]))[1] is not None


def alike(images: np.ndarray, block: int = 10_000) -> list[tuple[int, int] | None]:
    """Return what each image looks like most, where so many are taken up at once."""
    known = LookAlikes(len(images))
    return [twin for at in range(0, len(images), block) for twin in known.take(images[at : at + block])]


def nearest(images: np.ndarray) -> list[tuple[int, int] | None]:
    """Return the same, by comparing all pairs."""
    twins: list[tuple[int, int] | None] = [None]
    for count in range(1, len(images)):
        apart = np.abs(images[:count].astype(int) - images[count]).max(1)
        twins.append((int(apart.argmin()), int(apart.min())) if apart.min() <= ALIKE else None)
    return twins


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
    grid = np.full(SIDE * SIDE, 100, np.uint8)
    for cell in (0, 77, 255):
        other, further = grid.copy(), grid.copy()
        other[cell] += ALIKE
        further[cell] -= 1
        assert alike(np.stack([grid, other, further])) == [None, (0, ALIKE), (0, 1)]
    steps = grid + np.array([0, 1, 2, 5, 9], np.uint8)[:, None]
    assert alike(steps) == [None, (0, 1), (1, 1), (2, 3), None]


@pytest.mark.parametrize(
    "shape", [(1, 8, 8), (3, 28, 28), (3, 32, 32), (1, 17, 33), (3, 40, 20), (1, 1, 1), (3, 31, 97)]
)
def test_thumbnails_of_images_together_are_those_of_each(shape: tuple[int, int, int]) -> None:
    levels = torch.randint(256, (97, *shape), generator=torch.Generator().manual_seed(0)) / 255
    for pixels in (levels, levels**3, (levels > 0.5).float()):
        assert np.array_equal(thumbnails(pixels), np.stack([thumbnail(image) for image in pixels]))


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
    with pytest.raises(NotEnough, match=r"got 1 .* 4"):
        len(open_images(images, skip_duplicates=True))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("block", [1, 7, 2000])
def test_the_most_alike_is_found_wherever_in_the_range_of_grey_levels_it_is(block: int) -> None:
    draw = np.random.default_rng(0)
    levels = draw.integers(0, 256, (400, 4)).repeat(SIDE * SIDE // 4, axis=1)  # dark and bright, of any quarters
    moved = levels[draw.integers(0, 400, 800)] + draw.integers(-ALIKE, ALIKE + 1, (800, 1))  # as far as may be, at once
    images = np.concatenate([levels, moved]).clip(0, 255).astype(np.uint8)[draw.permutation(1200)]
    expected = nearest(images)
    assert alike(images, block) == expected
    assert 500 < sum(twin is not None for twin in expected) < 900


@pytest.mark.parametrize("block", [1, 50, 1000])
def test_buckets_hide_no_match(block: int) -> None:
    """Sums of quarters at, beside and across the borders of buckets; images that differ by the limit in every cell."""
    draw = np.random.default_rng(0)
    flat = draw.integers(0, 24, (400, 4)).repeat(SIDE * SIDE // 4, 1)
    grained = flat[:200] + draw.integers(-2, 3, (200, SIDE * SIDE))
    images = np.concatenate([flat, grained, flat[200:] + draw.choice([-3, 3, 4], (200, 1))]).clip(0, 255)
    assert alike(images.astype(np.uint8), block) == nearest(images)


@pytest.mark.parametrize("block", [1, 50, 1000])
def test_what_is_left_out_is_nobodys_twin(block: int) -> None:
    levels = np.random.default_rng(0).integers(0, 60, 300)
    kept: list[int] = []
    expected: list[tuple[int, int] | None] = []
    for level in levels.tolist():
        apart = [abs(level - other) for other in kept]
        expected.append((apart.index(min(apart)), min(apart)) if apart and min(apart) <= ALIKE else None)
        kept += [level] if expected[-1] is None else []
    images = levels[:, None].repeat(SIDE * SIDE, 1).astype(np.uint8)
    known = LookAlikes(len(images))
    blocks = [images[at : at + block] for at in range(0, 300, block)]
    assert [twin for part in blocks for twin in known.take(part, leave_out=True)] == expected
    assert known.count == len(kept) < 20


def test_copies_among_ten_thousand_images_are_all_named() -> None:
    images = np.random.default_rng(0).integers(0, 256, (10_000, SIDE * SIDE), dtype=np.uint8)
    images[7_000:] = images[:3_000]
    assert alike(images) == alike(images, 1024) == [None] * 7000 + [(number, 0) for number in range(3000)]


def test_the_memory_of_the_search_ends_with_it() -> None:
    known = LookAlikes(4)
    known.take(np.arange(4, dtype=np.uint8)[:, None].repeat(SIDE * SIDE, 1))
    gc.disable()
    try:
        parts = [weakref.ref(known), weakref.ref(known._known), weakref.ref(known._rows)]
        del known
        assert [part() for part in parts] == [None] * 3, "no cycle keeps it until somebody collects"
    finally:
        gc.enable()


def test_names_are_sorted_by_their_characters() -> None:
    names = ["b", "a", "é", "ａ", "z", "𝒜", "a\x00b", "aa", "Z", "€"]
    pixels = np.random.default_rng(0).integers(0, 256, (10, 8, 8), dtype=np.uint8)
    heading = b"pixels (1, 8, 8)"
    contents = [sha256(heading + (image[None] / np.float32(255)).tobytes()).hexdigest() for image in pixels]
    lines = [f"{name!r} {content}\n" for name, content in sorted(zip(names, contents, strict=True))]
    assert open_images(Arrays(pixels, ids=names)).fingerprint == sha256("".join(lines).encode()).hexdigest()


def test_a_fault_in_one_of_many_images_is_told_of_this_one() -> None:
    images = np.random.default_rng(0).random((200, 8, 8))
    images[77, 3, 3] = np.nan
    with pytest.raises(NotFinite, match="000077"):
        open_images(images).fingerprint  # noqa: B018
    images[77, 3, 3] = 1.5
    with pytest.raises(BadData, match="000077"):
        open_images(images).fingerprint  # noqa: B018


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_full_disk_is_told_by_the_folder_of_temporary_files() -> None:
    rows = RowsOnDisk(2)
    with Path("/dev/full").open("wb", 0) as rows._file, pytest.raises(OSError, match="No space left") as told:
        rows.add(b"ab")
    assert told.value.filename == f"{tempfile.gettempdir()} (TMPDIR)"
    assert len(rows) == 0
