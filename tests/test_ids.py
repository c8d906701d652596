"""Ids: many texts in one array, read like a list of them."""

import copy
import pickle

import numpy as np
import pytest

from holdfast.core.ids import Ids
from holdfast.storage.columns import texts

NAMES = ["b/1.png", "", "ä", "𝒜.jpg", "a\x00b", "b/1.png", *map(str, range(20_000))]


def test_they_are_read_like_a_list() -> None:
    ids = Ids(NAMES)
    assert list(ids) == list(Ids(iter(NAMES))) == NAMES
    assert len(ids) == len(NAMES)
    assert [ids[place] for place in range(-len(NAMES), len(NAMES))] == NAMES * 2
    assert (ids.index("ä"), ids.count("b/1.png"), "a\x00b" in ids, "a" in ids) == (2, 2, True, False)
    assert ids[np.int64(3)] == "𝒜.jpg"
    for place in (len(NAMES), -len(NAMES) - 1):
        with pytest.raises(IndexError):
            ids[place]
    assert not Ids()
    assert list(Ids()) == []


@pytest.mark.parametrize("start", [None, 0, 3, 16_385, -5, 99_999])
@pytest.mark.parametrize("stop", [None, 0, 2, 16_384, -2, 99_999])
@pytest.mark.parametrize("step", [None, 1, 7, -1])
def test_slices_are_those_of_a_list(start: int | None, stop: int | None, step: int | None) -> None:
    part = Ids(NAMES)[start:stop:step]
    assert isinstance(part, Ids)
    assert list(part) == NAMES[start:stop:step]
    assert list(part[1:3]) == NAMES[start:stop:step][1:3]
    assert texts(part).to_pylist() == texts(NAMES[start:stop:step]).to_pylist() == NAMES[start:stop:step]


def test_they_equal_lists_tuples_and_each_other() -> None:
    ids = Ids(NAMES)
    assert ids == NAMES == ids
    assert ids == tuple(NAMES)
    assert ids == Ids(NAMES)
    assert ids[2:] == Ids(NAMES[2:])
    assert ids != NAMES[:-1]
    assert ids != [*NAMES[:-1], "other"]
    assert ids != "".join(NAMES)
    assert repr(ids[:2]) == "Ids(['b/1.png', ''])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(ids)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda ids: pickle.loads(pickle.dumps(ids))])
def test_copies_are_equal(copied) -> None:
    assert copied(Ids(NAMES)) == NAMES
    assert copied(Ids(NAMES)[2:5]) == NAMES[2:5]


def test_what_utf8_cannot_write_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        Ids(["a", "\ud800"])


def test_a_million_take_little_more_than_their_letters() -> None:
    ids = Ids(f"{number:07d}" for number in range(1_000_000))
    encoded, ends = ids.encode()
    assert encoded.nbytes + ends.nbytes < 11.1e6
    part, _ = ids[999_000:].encode()
    assert part.obj is encoded.obj, "a slice has no letters of its own"
