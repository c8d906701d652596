"""The images of an audit: the same for the same seed, whatever else lies around."""

import hashlib
import re
import threading

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import Geometry, HoldfastError, ImageSource, Rng
from holdfast.runtime.errors import BadData, BadValue, Mismatch, NotEnough, NotFinite
from holdfast.sources.data import Conversion, ImageSet, open_images
from holdfast.sources.data.folder import Folder

SMALL = Geometry((8, 8), 3, 8, "bilinear", "test")


class Named(ImageSource):
    """Images whose content is made from their names."""

    def __init__(self, names, make=None):
        self.names, self.make, self.loads, self.lock = names, make, [], threading.Lock()

    def __len__(self):
        return len(self.names)

    def id(self, index):
        return self.names[index]

    def load(self, index):
        with self.lock:
            self.loads.append(self.names[index])
        if self.names[index].startswith("bad"):
            raise HoldfastError(f"cannot read image {self.names[index]!r} (broken)")
        if self.make:
            return self.make(self.names[index])
        seed = int.from_bytes(self.names[index].encode()[-4:], "big")
        return torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(seed))


def names(count):
    return [f"image-{number}" for number in range(count)]


@given(order=st.permutations(names(12)), seed=st.integers(0, 3), size=st.integers(2, 12))
@settings(max_examples=50, deadline=None)
def test_the_order_of_files_does_not_matter(order, seed, size):
    first = ImageSet(Named(names(12)), images=size, seed=seed)
    second = ImageSet(Named(order), images=size, seed=seed)
    assert first.ids == second.ids
    assert len(first) == size
    assert torch.equal(first.batch(0, size), second.batch(0, size))
    assert first.fingerprint == second.fingerprint


@given(extra=st.text("abcdef", min_size=1, max_size=6), seed=st.integers(0, 3), size=st.integers(2, 12))
@settings(max_examples=100, deadline=None)
def test_one_more_file_takes_at_most_one_place(extra, seed, size):
    before = ImageSet(Named(names(12)), images=size, seed=seed).ids
    after = ImageSet(Named([*names(12), extra]), images=size, seed=seed).ids
    assert [name for name in after if name != extra] == before[: size - (extra in after)]


def test_the_seed_changes_the_choice_and_a_smaller_choice_is_a_prefix():
    source = Named(names(40))
    chosen = ImageSet(source, images=20, seed=1).ids
    assert chosen != ImageSet(source, images=20, seed=2).ids
    assert chosen[:7] == ImageSet(source, images=7, seed=1).ids
    assert sorted(ImageSet(source).ids) == sorted(names(40))
    assert ImageSet(source, images=99).ids == ImageSet(source).ids
    assert ImageSet(source, images=20).available == 40


def test_every_image_is_chosen_about_equally_often():
    counts = dict.fromkeys(names(10), 0)
    for seed in range(400):
        for name in ImageSet(Named(names(10)), images=3, seed=seed).ids:
            counts[name] += 1
    assert all(80 <= count <= 165 for count in counts.values())  # 120 expected, sd 9


def test_the_fingerprint_sees_content_ids_and_membership_but_not_order_or_geometry():
    def of(*args, **kwargs):
        return ImageSet(*args, **kwargs).fingerprint

    base = of(Named(names(6)))
    assert re.fullmatch("[0-9a-f]{64}", base)
    assert base == of(Named(names(6)), seed=9) == of(Named(names(6)), conversion=Conversion(size=4))
    assert base != of(Named(names(6)), images=5)
    assert base != of(Named([*names(5), "image-9"]))
    assert base != of(Named(names(6), make=lambda name: torch.full((3, 8, 8), float(name == "image-3"))))
    red = PIL.Image.new("RGB", (9, 9), "red")
    same = of(Named(names(3), make=lambda name: red))
    assert same == of(Named(names(3), make=lambda name: red), geometry=SMALL)
    assert same != of(Named(names(3), make=lambda name: PIL.Image.new("RGB", (9, 9), (254, 0, 0))))
    assert same != of(Named(names(3), make=lambda name: PIL.Image.new("RGB", (3, 27), "red")))


def test_the_fingerprint_is_computed_as_documented():
    # it names data across machines and versions: a change makes old records incomparable
    images = Named(["a", "b"], make=lambda name: PIL.Image.new("L", (2, 1), ord(name)))
    content = {name: hashlib.sha256(b"L (2, 1)" + 2 * name.encode()).hexdigest() for name in "ab"}
    lines = "".join(f"{name!r} {digest}\n" for name, digest in content.items())
    assert ImageSet(images).fingerprint == hashlib.sha256(lines.encode()).hexdigest()


def test_batches_are_the_images_in_order_and_the_next_is_read_ahead():
    source = Named(names(10))
    images = ImageSet(source, seed=3)
    whole = images.batch(0, 10)
    assert whole.shape == (10, *images.shape) == (10, 3, 8, 8)
    for place, name in enumerate(images.ids):
        assert torch.equal(whole[place], source.load(source.names.index(name)))
    source.loads.clear()
    parts = list(images.batches(4))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert torch.equal(torch.cat(parts), whole)
    for future in images._ahead.values():
        future.result()
    assert sorted(source.loads) == sorted([*images.ids, *images.ids[:4]]), "once each, and the first for who comes next"
    assert torch.equal(images.batch(5, 6)[0], whole[5]), "any order"
    for future in images._ahead.values():
        future.result()
    source.loads.clear()
    images.batch(0, 2)
    assert set(source.loads) <= set(images.ids[:4]), "no further ahead than one batch"


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (-1, 2), (3, 99), (5, 4)])
def test_a_batch_outside_the_set_is_refused(start, stop):
    with pytest.raises(BadValue, match="start"):
        ImageSet(Named(names(10))).batch(start, stop)


def test_one_set_serves_encoders_of_different_geometry():
    source = Named([*names(8), "bad-1"], make=lambda name: PIL.Image.new("RGB", (20, 30), "blue"))
    first = ImageSet(source, geometry=SMALL, skip_corrupt=True)
    prints = first.fingerprint
    assert first.batch(0, 4).shape == (4, *first.shape) == (4, 3, 8, 8)  # and 4 to 8 are read ahead
    read = len(source.loads)
    second = first.with_geometry(Geometry((5, 6), 1, None, "bicubic", "test"))
    assert second.ids == first.ids
    assert second.fingerprint == prints
    assert second.unreadable == first.unreadable != []
    assert len(source.loads) == read, "nothing is read twice for a second encoder"
    assert second.shape == (1, 5, 6)
    assert first.batch(0, 8).shape == (8, 3, 8, 8)
    assert second.batch(4, 8).shape == (4, 1, 5, 6)


def test_unreadable_images_fail_by_name_and_are_replaced_only_if_asked():
    source = Named([*names(20), *(f"bad-{number}" for number in range(6))])
    with pytest.raises(HoldfastError, match="skip_corrupt=True"):
        ImageSet(source).batch(0, len(source))
    with pytest.raises(HoldfastError, match="skip_corrupt=True"):
        _ = ImageSet(source).fingerprint
    images = ImageSet(source, images=15, skip_corrupt=True)
    clean = ImageSet(Named(names(20)), images=15)
    assert images.ids == clean.ids, "as if they were not there"
    assert images.fingerprint == clean.fingerprint
    assert images.unreadable
    assert all(name.startswith("bad") and "broken" in reason for name, reason in images.unreadable)
    assert {name for name, _ in ImageSet(source, skip_corrupt=True).unreadable} == {f"bad-{n}" for n in range(6)}
    assert ImageSet(source, images=15).unreadable == []


def test_too_few_readable_images_are_an_error():
    with pytest.raises(NotEnough, match="got 1"):
        len(ImageSet(Named(["good", "bad-1", "bad-2"]), skip_corrupt=True))


@pytest.mark.parametrize("count", [0, 1])
def test_one_image_cannot_be_audited(count):
    with pytest.raises(NotEnough, match=f"got {count}"):
        ImageSet(Named(names(count)))
    with pytest.raises(BadValue):
        ImageSet(Named(names(5)), images=count)


def test_ids_must_be_unique():
    with pytest.raises(BadData, match="'x'"):
        ImageSet(Named(["x", "y", "x"]))


def test_the_choice_is_that_of_the_generators_seeds():
    known = names(40)
    rng = Rng(3).child("images")
    expected = sorted(known, key=lambda name: rng.generator(name).initial_seed())
    assert ImageSet(Named(known), seed=3).ids == expected
    assert ImageSet(Named(known), seed=3, images=7).ids == expected[:7]


def test_ids_with_equal_numbers_are_ordered_by_name(monkeypatch):
    twins = ("image-3", "image-8")
    monkeypatch.setattr(Rng, "number", lambda self, image: 0 if image in twins else int(image[6:]) + 1)
    ids = ImageSet(Named(names(10)[::-1])).ids
    assert ids[:2] == ["image-3", "image-8"]
    assert sorted(ids) == names(10)


@pytest.mark.parametrize("skip", [False, True])
def test_wrong_ranges_are_never_skipped_but_nan_is_corrupt(skip):
    loud = Named(names(4), make=lambda name: torch.full((3, 2, 2), 200.0 if name == "image-2" else 0.5))
    with pytest.raises(BadData, match="image-2"):
        ImageSet(loud, skip_corrupt=skip).batch(0, 4)
    below = Named(names(4), make=lambda name: torch.full((3, 2, 2), -1.5))
    with pytest.raises(BadData, match="rescale"):
        ImageSet(below, skip_corrupt=skip).batch(0, 4)
    broken = Named(names(4), make=lambda name: torch.full((3, 2, 2), float("nan" if name == "image-2" else 0)))
    if skip:
        assert ImageSet(broken, skip_corrupt=True).unreadable[0][0] == "image-2"
    else:
        with pytest.raises(NotFinite, match="image-2"):
            ImageSet(broken).batch(0, 4)


def test_float_pictures_are_checked_too():
    wild = Named(names(2), make=lambda name: PIL.Image.fromarray(np.full((3, 3), 255, dtype=np.float32)))
    with pytest.raises(BadData, match="255"):
        ImageSet(wild).batch(0, 2)


def test_a_picture_of_another_shape_is_named():
    odd = Named(names(5), make=lambda name: PIL.Image.new("RGB", (9 if name == "image-3" else 8, 8)))
    with pytest.raises(Mismatch, match="size=8"):
        ImageSet(odd).batch(0, 5)
    assert ImageSet(odd, geometry=SMALL).batch(0, 5).shape == (5, 3, 8, 8)


def test_a_source_that_gives_no_image_is_named():
    with pytest.raises(BadData, match="image-0"):
        ImageSet(Named(names(2), make=lambda name: torch.zeros(4, 8, 8))).batch(0, 2)
    with pytest.raises(BadData, match="image-0"):
        ImageSet(Named(names(2), make=lambda name: torch.zeros(3, 8, 8, dtype=torch.uint8))).batch(0, 2)


def test_choosing_reads_no_image():
    source = Named([f"{number:07d}.jpg" for number in range(100_000)])
    images = ImageSet(source, images=64)
    assert len(images.ids) == 64
    assert source.loads == []


def test_workers_do_not_change_the_result(tmp_path):
    for number in range(12):
        values = np.random.default_rng(number).integers(0, 256, (20, 20, 3), dtype=np.uint8)
        PIL.Image.fromarray(values).save(tmp_path / f"{number}.png")
    one, many = (open_images(tmp_path, geometry=SMALL, workers=workers) for workers in (1, 8))
    assert torch.equal(torch.cat(list(one.batches(5))), torch.cat(list(many.batches(5))))
    assert one.fingerprint == many.fingerprint


def test_real_photos_end_to_end(shared):
    images = ImageSet(Folder(shared / "data" / "photos"), images=24, geometry=Geometry((64, 64), 3, 72, "bicubic", "t"))
    batch = images.batch(0, 24)
    assert batch.shape == (24, 3, 64, 64)
    assert 0.2 < batch.mean() < 0.7
    assert images.labels is None
    assert all(name.endswith(".jpg") for name in images.ids)


def pictures(count, side=10):
    def make(name):
        values = np.random.default_rng(int(name.split("-")[1])).integers(0, 256, (side, side, 3), dtype=np.uint8)
        return PIL.Image.fromarray(values)

    return Named(names(count), make=make)


@pytest.mark.parametrize("geometry", [SMALL, Geometry((8, 8), 1, None, "bicubic", "test"), None])
def test_pictures_are_decoded_once_and_stay_the_same_to_the_bit(geometry):
    source = pictures(6)
    images, plain = ImageSet(source, geometry=geometry), ImageSet(pictures(6), geometry=geometry, kept=0)
    for _ in range(3):
        assert torch.equal(torch.cat(list(images.batches(4))), torch.cat(list(plain.batches(4))))
    assert sorted(source.loads) == names(6)
    images.batch(0, 2).zero_()  # what is handed out is not what is kept
    assert torch.equal(images.batch(0, 2), plain.batch(0, 2))


def test_grey_of_more_than_8_bits_is_kept_exactly_too():
    values = np.random.default_rng(0).random((2, 9, 9), dtype=np.float32)
    fine, other = (Named(names(2), make=lambda name: PIL.Image.fromarray(values[int(name[-1])])) for _ in range(2))
    images, plain = ImageSet(fine, geometry=SMALL), ImageSet(other, geometry=SMALL, kept=0)
    for _ in range(2):
        assert torch.equal(images.batch(0, 2), plain.batch(0, 2))
    assert len(fine.loads) == 2


def test_no_more_is_kept_than_there_is_room_for():
    source = pictures(8)
    images = ImageSet(source, geometry=SMALL, kept=3 * 3 * 8 * 8 + 10)  # three pictures as bytes
    for _ in range(3):
        list(images.batches(8))
    counts = [source.loads.count(name) for name in images.ids]
    assert sorted(counts)[:7] == [1, 1, 1, 3, 3, 3, 3]
    assert max(counts) <= 4  # which three are kept is chance; the first may be read once more, for its shape
    assert images._kept._bytes == 3 * 3 * 8 * 8


def test_another_geometry_takes_the_room_of_the_last():
    source = pictures(4)
    first = ImageSet(source, geometry=SMALL, kept=4 * 3 * 8 * 8)
    second = first.with_geometry(Geometry((8, 8), 3, 9, "bicubic", "test"))
    list(first.batches(4))
    for _ in range(2):
        list(second.batches(4))
    assert len(source.loads) == 8  # once for each geometry
    assert first._kept._bytes == 4 * 3 * 8 * 8


def test_arrays_are_not_kept_twice():
    images = ImageSet(Named(names(4)))
    list(images.batches(2))
    assert images._kept._bytes == 0


def test_the_next_observation_finds_its_first_images_read():
    """Somebody who stops before the end (only some images are attacked) is followed by somebody who begins anew."""
    source = Named(names(12))
    images = ImageSet(source, workers=1)

    def read(start, stop):
        images.batch(start, stop)
        images._threads.submit(id, None).result()  # what was begun before is done: there is one thread
        return {place for places in images._ahead for place in places}

    for start in (0, 4, 8):
        ahead = read(start, start + 4)
    assert ahead == {0, 1, 2, 3}  # the end of the data
    assert read(0, 4) == {4, 5, 6, 7}
    assert read(4, 8) == {8, 9, 10, 11}  # nobody has stopped here yet
    assert read(0, 4) == {4, 5, 6, 7}
    assert read(4, 8) == {8, 9, 10, 11, 0, 1, 2, 3}
    before = len(source.loads)
    images.batch(0, 4)
    assert len(source.loads) - before <= 4  # those after them, not these
    assert set(images.ids[:4]).isdisjoint(source.loads[before:])
