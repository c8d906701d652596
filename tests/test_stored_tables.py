"""Tables are read back from the run folder as they were written."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from holdfast.storage.run_folder import ROWS, Store, StoreError

TYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


@pytest.mark.parametrize("rows", [0, 1, 13, ROWS, 2 * ROWS + 13])
@pytest.mark.parametrize("place", ["local", "memory://stored-tables"])
def test_a_table_is_read_as_it_was(place: str, rows: int, tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    values = torch.randint(-9, 9, (rows,), generator=draw)
    table = {str(kind): (values % 2 if kind is torch.bool else values.abs()).to(kind) for kind in TYPES}
    table["odd"] = torch.where(values > 0, -0.0, torch.nan).double()
    store = Store(tmp_path if place == "local" else place)
    store.write_table("tables/t.parquet", [f"row {number}" for number in range(rows)], table)
    read = store.read_table("tables/t.parquet")
    assert list(read) == list(table)
    for key, column in table.items():
        assert read[key].dtype is column.dtype
        assert read[key].numpy().tobytes() == column.numpy().tobytes(), key
        read[key].zero_()  # memory of its own


def test_a_table_that_is_gone_or_broken_ends_in_one_line(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match=r"t\.parquet"):
        store.read_table("t.parquet")
    (tmp_path / "t.parquet").write_bytes(b"no table")
    with pytest.raises(StoreError, match=r"t\.parquet"):
        store.read_table("t.parquet")
    store.write_table("t.parquet", ["a"], {"x": torch.ones(1)})
    assert pq.read_table(tmp_path / "t.parquet").column_names == ["id", "x"]
