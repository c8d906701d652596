"""Stored vectors: every format gives the same numbers and ids, and what is no such file is refused by file and row."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from holdfast.core import HoldfastError
from holdfast.runtime.errors import BadData, NotFinite
from holdfast.sources.vectors import open_vectors

VALUES = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
NAMES = [f"item-{number}" for number in range(7)]


def fvecs(values: np.ndarray) -> bytes:
    return b"".join(struct.pack("<i", len(row)) + row.tobytes() for row in values)


def lists(values: np.ndarray = VALUES) -> list[list[float]]:
    return [[float(value) for value in row] for row in values]


def csv_rows() -> str:
    return "".join(f'{name},"{values}"\n' for name, values in zip(NAMES, lists(), strict=True))


def write_parquet(path: Path, columns: dict[str, object]) -> None:
    pq.write_table(pa.table(columns), path, row_group_size=3)


def fixed(values: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


WRITERS: dict[str, tuple[str, Callable[[Path], object], bool]] = {
    "npy": ("a.npy", lambda path: np.save(path, VALUES), False),
    "npy in Fortran order": ("a.npy", lambda path: np.save(path, np.asfortranarray(VALUES)), False),
    "npy of float64": ("a.npy", lambda path: np.save(path, VALUES.astype(np.float64)), False),
    "npy of another machine": ("a.npy", lambda path: np.save(path, VALUES.astype(">f4")), False),
    "fvecs": ("a.fvecs", lambda path: path.write_bytes(fvecs(VALUES)), False),
    "parquet, lists": ("a.parquet", lambda path: write_parquet(path, {"id": NAMES, "v": lists()}), True),
    "parquet, lists of one size": (
        "a.parquet",
        lambda path: write_parquet(path, {"id": NAMES, "v": fixed(VALUES)}),
        True,
    ),
    "parquet, columns": (
        "a.parquet",
        lambda path: write_parquet(path, {"key": NAMES, **{f"x{k}": VALUES[:, k] for k in range(4)}}),
        True,
    ),
    "csv of pgvector": (
        "a.csv",
        lambda path: path.write_text("id,embedding\n" + csv_rows()),
        True,
    ),
    "csv without a header": (
        "a.csv",
        lambda path: path.write_text(csv_rows()),
        True,
    ),
    "csv of numbers": (
        "a.csv",
        lambda path: path.write_text(csv_rows().replace("[", "").replace("]", "").replace('"', "")),
        True,
    ),
    "jsonl of Qdrant": (
        "a.jsonl",
        lambda path: path.write_text(
            "".join(
                json.dumps({"id": n, "vector": v, "payload": {"lang": "en"}}) + "\n"
                for n, v in zip(NAMES, lists(), strict=True)
            )
        ),
        True,
    ),
    "jsonl with named vectors": (
        "a.jsonl",
        lambda path: path.write_text(
            "".join(json.dumps({"pk": n, "vector": {"text": v}}) + "\n" for n, v in zip(NAMES, lists(), strict=True))
        ),
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITERS)
def test_every_format_gives_the_same_vectors(case: str, tmp_path: Path) -> None:
    name, write, named = WRITERS[case]
    write(tmp_path / name)
    found = open_vectors(f"vectors:{tmp_path / name}")
    assert torch.cat(list(found.blocks())).float().numpy() == pytest.approx(VALUES, rel=1e-6)
    assert list(found.ids) == (NAMES if named else [str(row) for row in range(7)])
    assert found.numbered is not named
    assert not len(found.survey.zero)
    assert not len(found.survey.not_finite)


def test_bytes_and_ids_of_a_file(tmp_path: Path) -> None:
    codes = np.arange(12, dtype=np.uint8).reshape(3, 4)
    (tmp_path / "a.bvecs").write_bytes(b"".join(struct.pack("<i", 4) + row.tobytes() for row in codes))
    (tmp_path / "ids.txt").write_text("x\ny\nz\n")
    np.save(tmp_path / "ids.npy", np.array([7, 8, 9]))
    found = open_vectors(f"vectors:{tmp_path / 'a.bvecs'}?ids={tmp_path / 'ids.txt'}")
    assert (found.values.tolist(), list(found.ids)) == (codes.tolist(), ["x", "y", "z"])
    assert list(open_vectors(f"vectors:{tmp_path / 'a.bvecs'}?ids={tmp_path / 'ids.npy'}").ids) == ["7", "8", "9"]


def test_truncated_and_rounded_vectors_are_those_of_indexes(tmp_path: Path) -> None:
    unit = VALUES / np.linalg.norm(VALUES, axis=1, keepdims=True)
    unit[0] *= 3
    np.save(tmp_path / "a.npy", unit)

    def of(options: str) -> np.ndarray:
        return open_vectors(f"vectors:{tmp_path / 'a.npy'}?{options}").values.numpy()

    short = of("truncate=2")
    assert np.linalg.norm(short[1:], axis=1) == pytest.approx(np.ones(6), rel=1e-6)
    assert short[1:] == pytest.approx(unit[1:, :2] / np.linalg.norm(unit[1:, :2], axis=1, keepdims=True), rel=1e-6)
    assert short[0] == pytest.approx(unit[0, :2], rel=1e-6)  # it never had length 1
    assert np.linalg.norm(of("normalise=true"), axis=1) == pytest.approx(np.ones(7), rel=1e-6)
    assert of("quantise=binary").tolist() == np.where(unit > 0, 1, -1).tolist()
    rounded, step = of("quantise=int8"), (unit.max(0) - unit.min(0)) / 255
    assert (np.abs(rounded - unit) <= step / 2 * 1.001).all()
    assert rounded.min(0) == pytest.approx(unit.min(0), abs=1e-6)
    assert all(len(np.unique(np.round((rounded[:, k] - unit[:, k].min()) / step[k]))) <= 7 for k in range(4))


BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "objects": ("a.npy", lambda path: np.save(path, np.array([[1, "a"]], object)), "holds Python objects"),
    "complex numbers": ("a.npy", lambda path: np.save(path, VALUES + 1j), "expected vectors of float16"),
    "one axis": ("a.npy", lambda path: np.save(path, VALUES[0]), "got the shape [4]"),
    "no rows": ("a.npy", lambda path: np.save(path, VALUES[:0]), "got the shape [0, 4]"),
    "an empty file": ("a.npy", lambda path: path.touch(), "cannot read the array file"),
    "npz": ("a.npz", lambda path: np.savez(path, VALUES), "save one array of it as .npy"),
    "no file": ("b.npy", lambda path: None, "found none at"),
    "another kind": ("a.txt", lambda path: path.write_text("1 2 3"), "expected a file of vectors (.npy"),
    "empty fvecs": ("a.fvecs", lambda path: path.touch(), "got an empty file"),
    "fvecs that end inside": ("a.fvecs", lambda path: path.write_bytes(fvecs(VALUES)[:-3]), "it ends inside row 6"),
    "fvecs of two lengths": (
        "a.fvecs", lambda path: path.write_bytes(fvecs(VALUES[:2]) + fvecs(VALUES[:, :2])), "got 2 in row 2",
    ),
    "fvecs of text": ("a.fvecs", lambda path: path.write_text("here are no vectors"), "length of the first vector"),
    "parquet of two lengths": (
        "a.parquet",
        lambda path: write_parquet(path, {"id": NAMES, "v": [*lists()[:5], [1.0], [1.0]]}),
        "got 1 in row 5",
    ),
    "parquet with none": (
        "a.parquet",
        lambda path: write_parquet(path, {"id": NAMES, "v": [*lists()[:4], None, *lists()[5:]]}),
        "in row 4",
    ),
    "parquet of texts": ("a.parquet", lambda path: write_parquet(path, {"id": NAMES}), "expected a column of lists"),
    "two columns of vectors": (
        "a.parquet", lambda path: write_parquet(path, {"a": lists(), "b": lists()}), "choose with ?vector=NAME",
    ),
    "no parquet": ("a.parquet", lambda path: path.write_text("no"), "cannot read the vectors"),
    "ids that are there twice": (
        "a.parquet",
        lambda path: write_parquet(path, {"id": [*NAMES[:6], NAMES[2]], "v": lists()}),
        "in the rows 2 and 6",
    ),
    "csv of two lengths": ("a.csv", lambda path: path.write_text('a,"[1,2]"\nb,"[1]"\n'), "got 1 in row 1"),
    "csv with a cell more": ("a.csv", lambda path: path.write_text('a,"[1,2]"\nb,"[1,2]",c\n'), "got 3 in row 1"),
    "csv of words": ("a.csv", lambda path: path.write_text('id,v\na,"[1,x]"\n'), "expected a vector of numbers"),
    "empty csv": ("a.csv", lambda path: path.touch(), "got an empty file"),
    "jsonl that is none": ("a.jsonl", lambda path: path.write_text('{"id": 1, "v": [1]}\nno\n'), "in row 1"),
    "jsonl without an id": (
        "a.jsonl", lambda path: path.write_text('{"id": 1, "v": [1]}\n{"v": [1]}\n'), "expected an id in every row",
    ),
    "jsonl of nulls": ("a.jsonl", lambda path: path.write_text('{"id": 1, "v": [1, null]}\n'), "a vector of numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_file_of_vectors_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    name, write, said = BAD[case]
    write(tmp_path / name)
    with pytest.raises(HoldfastError) as error:
        open_vectors(f"vectors:{tmp_path / name}")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_options_that_cannot_be(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    (tmp_path / "ids.txt").write_text("x\ny\n")
    for options, said in (
        ("truncate=9", "expected truncate of at most 4"),
        ("truncate=0", "above 0"),
        ("quantise=int4", "expected one of int8, binary"),
        ("trunctate=2", "did you mean 'truncate'"),
        (f"ids={tmp_path / 'ids.txt'}", "expected an id for each of 7 vectors, got 2"),
        (f"ids={tmp_path / 'nosuch.txt'}", "cannot read the ids"),
    ):
        with pytest.raises(HoldfastError) as error:
            open_vectors(f"vectors:{tmp_path / 'a.npy'}?{options}")
        assert said in str(error.value), options


def test_numbers_that_are_not_finite_are_told_by_their_row(tmp_path: Path) -> None:
    values = VALUES.copy()
    values[3, 1], values[5], values[6, 0] = np.nan, 0, np.inf
    np.save(tmp_path / "a.npy", values)
    found = open_vectors(f"vectors:{tmp_path / 'a.npy'}")
    assert (found.survey.not_finite.tolist(), found.survey.zero.tolist()) == ([3, 6], [5])
    with pytest.raises(NotFinite) as error:
        found.refuse_unfinished()
    assert "in 2 of 7 vectors, first in row 3 (id '3')" in str(error.value)


def test_nothing_is_read_into_memory_that_can_stay_on_disk(tmp_path: Path) -> None:
    """A change of the file is seen: its numbers are those on disk."""
    np.save(tmp_path / "a.npy", VALUES)
    (tmp_path / "a.fvecs").write_bytes(fvecs(VALUES))
    for name in ("a.npy", "a.fvecs"):
        found = open_vectors(f"vectors:{tmp_path / name}")
        data = bytearray((tmp_path / name).read_bytes())
        data[-4:] = struct.pack("<f", 42.0)
        with (tmp_path / name).open("r+b") as file:
            file.write(data)
        assert float(found.values[-1, -1]) == 42


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss", reason="the faiss extra is not installed")


@pytest.mark.parametrize(
    "kind", ["Flat", "HNSW8", "IVF4,Flat", "IVF4,PQ2x4", "IDMap,Flat", "PCA4,IVF4,Flat", "IVF4,Flat with ids"]
)
def test_an_index_gives_its_vectors_and_what_it_finds(kind: str, faiss, tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(200, 8)).astype(np.float32)
    index = faiss.index_factory(8, kind.partition(" ")[0])
    index.train(values)
    numbers = np.random.default_rng(2).permutation(200) + 1000
    named = "ids" in kind or "IDMap" in kind
    index.add_with_ids(values, numbers) if named else index.add(values)
    faiss.write_index(index, str(tmp_path / "a.faiss"))
    found = open_vectors(f"vectors:{tmp_path / 'a.faiss'}" + ("?nprobe=4" if "IVF" in kind else ""))
    order = [int(name) - 1000 if named else int(name) for name in found.ids]
    rows = [list(numbers - 1000).index(number) for number in order] if named else order
    loose = "PQ" in kind or "PCA" in kind
    assert found.values.numpy() == pytest.approx(values[rows], abs=5 if loose else 1e-6)
    if kind == "Flat" or kind == "IDMap,Flat":
        assert found.search is None
        return
    assert found.search is not None
    lists = found.search(torch.from_numpy(values[rows]), 5)
    exact = torch.cdist(torch.from_numpy(values[rows]), torch.from_numpy(values[rows])).topk(5, largest=False).indices
    if not loose:
        assert (lists == exact).double().mean() > 0.9
    assert bool((lists == torch.arange(200)[:, None]).any(1).double().mean() > 0.9)


def test_a_file_that_is_no_index(faiss, tmp_path: Path) -> None:
    (tmp_path / "a.faiss").write_text("no index")
    with pytest.raises(BadData, match=r"a\.faiss"):
        open_vectors(f"vectors:{tmp_path / 'a.faiss'}")
