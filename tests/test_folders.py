"""Folders on any file system behave alike."""

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from holdfast.runtime.errors import BadPlace, BadValue, Missing
from holdfast.storage import filesystem, run_folder
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import write_file, write_inside, write_text
from holdfast.storage.run_folder import Store, StoreError


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "run" if request.param == "local" else f"memory://{uuid.uuid4().hex}/run")
    made.make()
    return made


def text(value: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(value, encoding="utf-8")


def test_what_is_written_is_read(folder: Folder) -> None:
    folder.write("a/b/c.json", text("one"))
    folder.write("a/b/c.json", text("two"))
    folder.write("z.txt", text("three"))
    assert folder.read("a/b/c.json") == b"two"
    assert folder.exists("a/b/c.json")
    assert not folder.exists("a/b")
    assert folder.files() == ["a/b/c.json", "z.txt"]
    assert folder.files("a") == ["a/b/c.json"]
    assert folder.files("nothing") == []
    with folder.fetch("z.txt") as path:
        assert path.read_text() == "three"
    folder.delete("z.txt")
    folder.delete("z.txt")
    assert not folder.exists("z.txt")
    with pytest.raises(FileNotFoundError):
        folder.read("z.txt")


def test_a_write_that_fails_leaves_the_old_file(folder: Folder) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise RuntimeError("killed")

    folder.write("kept.txt", text("whole"))
    with pytest.raises(RuntimeError):
        folder.write("kept.txt", fail)
    assert folder.read("kept.txt") == b"whole"
    assert folder.files() == ["kept.txt"]


def test_a_store_keeps_tensors_anywhere(folder: Folder) -> None:
    store = Store(folder.place)
    store.write_tensors("x/0.safetensors", {"reps": torch.eye(3)}, {"forward": "3"})
    found = store.read_tensors("x/0.safetensors")
    assert found is not None
    assert found[0]["reps"].equal(torch.eye(3))
    assert found[1] == {"forward": "3"}
    assert store.read_tensors("x/1.safetensors") is None
    store.write("x/1.safetensors", text("no tensors"))
    assert store.read_tensors("x/1.safetensors") is None
    assert store.read_json("nothing.json") is None


def test_a_store_keeps_a_tensor_that_has_two_names(folder: Folder) -> None:
    store, reps = Store(folder.place), torch.arange(6.0).view(2, 3)
    store.write_tensors("x.safetensors", {"first": reps, "again": reps, "turned": reps.T}, {})
    stored = store.read_tensors("x.safetensors")
    assert stored is not None
    assert all(torch.equal(stored[0][name], reps) for name in ("first", "again"))
    assert torch.equal(stored[0]["turned"], reps.T)


def test_a_remote_store_has_no_path() -> None:
    with pytest.raises(StoreError, match="local"):
        _ = Store(f"memory://{uuid.uuid4().hex}").folder


@pytest.mark.parametrize("place", ["nosuch://bucket/run", "://x"])
def test_unknown_file_systems_are_refused(place: str) -> None:
    with pytest.raises(BadValue, match="URL"):
        Folder(place)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(Missing, match=r"'\.\[s3\]"):
        Folder("s3://bucket/run")


def test_a_link_put_where_half_files_are_expected_is_never_followed(tmp_path: Path, monkeypatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    run = tmp_path / "run"
    run.mkdir()
    for name in (".report.html.part", "report.html.part", "report.html"):
        (run / name).symlink_to(victim)
    write_inside(Folder(run), "report.html", "<p>new</p>")
    assert victim.read_text() == "kept"
    assert (run / "report.html").read_text() == "<p>new</p>"
    assert not (run / "report.html").is_symlink()
    monkeypatch.setattr(filesystem.secrets, "token_hex", lambda size: "guessed")  # even the right name is refused
    (run / "x.guessed.part").symlink_to(victim)
    with pytest.raises(BadPlace):
        write_file(str(run / "x"), text("harm"))
    assert victim.read_text() == "kept"
    assert not (run / "x").exists()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EACCES, "no permission"),
        (errno.EROFS, "read-only"),
        (errno.ENOTDIR, "file"),
    ],
)
def test_every_writer_says_what_is_wrong_with_the_disk(number: int, words: str, tmp_path: Path, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, "words of the system")

    monkeypatch.setattr(filesystem.os, "replace", fail)
    writers = (
        lambda: write_text(str(tmp_path / "report.html"), "page"),
        lambda: write_file(str(tmp_path / "table.csv"), text("1")),
        lambda: Store(tmp_path),
    )
    for write in writers:
        with pytest.raises(BadPlace, match=words) as caught:
            write()
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_table_of_many_rows_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "ROWS", 4)
    for count in (0, 1, 4, 11):
        ids, table = (
            [f"é{number}" for number in range(count)],
            {"value": torch.arange(count), "whether": torch.arange(count) > 3},
        )
        Store(tmp_path).write_table("t:1.parquet", ids, table)
        written = pq.ParquetFile(tmp_path / "t:1.parquet")
        assert written.read().to_pydict() == {"id": ids, **{key: value.tolist() for key, value in table.items()}}
        assert written.num_row_groups == max(1, -(-count // 4))


def test_whoever_the_umask_lets_can_read_what_a_run_leaves(tmp_path: Path) -> None:
    def put(path: Path) -> None:
        path.write_text("weights")
        path.chmod(0o600)  # as safetensors does

    before = os.umask(0o022)
    try:
        Folder(tmp_path).write("weights.safetensors", put)
    finally:
        os.umask(before)
    assert (tmp_path / "weights.safetensors").stat().st_mode & 0o777 == 0o644
