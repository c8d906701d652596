"""Shards are put together as if they had been one."""

import pytest
import torch

from holdfast.auditing.shards import Rows, ShardFile, join_rows

SPANS = ((0, 3), (3, 4), (4, 9))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_rows_are_in_the_place_of_their_images_whatever_the_order(order: tuple[int, ...]) -> None:
    draw = torch.Generator().manual_seed(0)
    parts = [
        {"reps": torch.randn(stop - start, 5, generator=draw), "count": torch.arange(start, stop)}
        for start, stop in SPANS
    ]
    rows = Rows(9)
    for number in order:
        rows.put(ShardFile(*SPANS[number], "f"), parts[number])
    whole, expected = rows.tensors(), join_rows(parts)
    assert list(whole) == list(expected)
    assert all(torch.equal(whole[key], expected[key]) and whole[key].dtype == expected[key].dtype for key in whole)


def test_pictures_of_some_images_are_put_one_behind_the_other() -> None:
    rows = Rows(4)
    rows.put(ShardFile(0, 2, "f"), {"gallery.position": torch.tensor([1]), "value": torch.zeros(2)})
    rows.put(ShardFile(2, 4, "f"), {"gallery.position": torch.tensor([2, 3]), "value": torch.ones(2)})
    assert rows.tensors()["gallery.position"].tolist() == [1, 2, 3]
    assert rows.tensors()["value"].tolist() == [0, 0, 1, 1]


def test_a_shard_of_all_images_is_taken_as_it_is() -> None:
    rows, tensors = Rows(2), {"weight": torch.tensor(3.0), "reps": torch.zeros(7, 2)}
    rows.put(ShardFile(0, 2, "f"), tensors)
    assert rows.tensors() == tensors
