"""The doors by themselves: what is read, what a run folder lets in and out, and whose it is."""

import gzip
import io
import multiprocessing
import os
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.EpsImagePlugin
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import HoldfastError
from holdfast.runtime import doors
from holdfast.runtime.doors import Refused, decompress, open_picture, read_list, read_text
from holdfast.runtime.errors import BadData, BadPlace
from holdfast.sources.data.folder import Folder as Pictures
from holdfast.sources.data.shared.tables import open_table
from holdfast.sources.data.webdataset import WebDataset
from holdfast.storage import claim as claims
from holdfast.storage.claim import claim
from holdfast.storage.filesystem import Folder
from holdfast.storage.run_folder import Store, StoreError
from holdfast.storage.vnnlib_reader import read_vnnlib

# --- pictures -------------------------------------------------------------------------------------

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n{} loop\n"
PROGRAMS = {
    "eps": POSTSCRIPT,
    "dos eps": b"\xc5\xd0\xd3\xc6" + bytes([30, 0, 0, 0, 99, 0, 0, 0]) + bytes(18) + POSTSCRIPT,
    "wmf": b"\xd7\xcd\xc6\x9a\x00\x00" + bytes(60), "pdf": b"%PDF-1.4\n", "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "psd": b"8BPS" + bytes(40), "fits": b"SIMPLE  =                    T" + b" " * 2850, "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.timeout(30)
def test_a_picture_is_never_a_program(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise AssertionError("Ghostscript is run")

    monkeypatch.setattr(PIL.EpsImagePlugin, "Ghostscript", run)
    monkeypatch.setitem(PIL.Image.OPEN, "EPS", PIL.Image.OPEN.get("EPS", (PIL.EpsImagePlugin.EpsImageFile, None)))
    (tmp_path / "x.png").write_bytes(PROGRAMS[kind])
    for source in (tmp_path / "x.png", io.BytesIO(PROGRAMS[kind])):
        with pytest.raises(PIL.UnidentifiedImageError):
            open_picture(source)
    folder = Pictures(tmp_path)
    with pytest.raises(BadData, match=r"x\.png"):
        folder.load(0)
    with pytest.raises(OSError, match="cannot identify"):
        folder.shape(0)
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(tmp_path / "x.png", "x.png")
    with pytest.raises(BadData):
        WebDataset(tmp_path / "x.tar").load(0)


@pytest.mark.parametrize("form", ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP", "JPEG2000", "MPO"])
def test_usual_pictures_are_read_whatever_their_names(form: str, tmp_path: Path) -> None:
    if form not in PIL.Image.SAVE and (PIL.Image.init() or form not in PIL.Image.SAVE):
        pytest.skip(f"this Pillow writes no {form}")
    picture = PIL.Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3))
    more = {"save_all": True, "append_images": [picture]} if form == "MPO" else {}
    picture.save(tmp_path / "x.png", form, **more)
    with open_picture(tmp_path / "x.png") as read:
        assert read.size == (8, 8)
    with open_picture(io.BytesIO((tmp_path / "x.png").read_bytes())) as read:
        assert np.asarray(read.convert("RGB")).shape == (8, 8, 3)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read", [doors.regular, doors.open_regular, doors.read_bytes, doors.digest_file, doors.read_list]
)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_files_are_opened(tmp_path: Path, read: Callable[[Path], object], kind: str) -> None:
    place = tmp_path / "it"
    {"pipe": lambda: os.mkfifo(place), "device": lambda: place.symlink_to("/dev/zero"), "folder": place.mkdir}[kind]()
    with pytest.raises(OSError, match="Is a directory" if kind == "folder" else "it is a pipe or a device, no file"):
        read(place)


# --- sizes ----------------------------------------------------------------------------------------


def test_what_unpacks_to_more_than_was_expected_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(bytes(10_000))
    assert len(decompress(packed, 10_000)) == 10_000
    with pytest.raises(Refused, match="more than 9,999 bytes"):
        decompress(packed, 9_999)
    with pytest.raises(Refused, match="damaged"):
        decompress(packed[:-9], 10_000)
    monkeypatch.setattr("holdfast.storage.vnnlib_reader.LARGEST", 1000)
    (tmp_path / "bomb.vnnlib.gz").write_bytes(gzip.compress(b";" * 10_000))
    with pytest.raises(BadData, match="1,000 bytes"):
        read_vnnlib(tmp_path / "bomb.vnnlib.gz")
    monkeypatch.setattr("holdfast.sources.data.shared.tables.HELD", 1000)
    table = pa.table({"_id": ["a"], "text": ["x" * 1_000_000]})
    pq.write_table(table, tmp_path / "bomb.parquet", compression="zstd", use_dictionary=False, write_statistics=False)
    with pytest.raises(BadData, match="text"):
        open_table([tmp_path / "bomb.parquet"])


def test_lines_come_from_files_and_from_what_the_shell_calls_streams(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "lines").write_bytes(b"a\r\nb\rc\n")
    assert read_text(tmp_path / "lines") == read_list(tmp_path / "lines") == "a\nb\nc\n"
    reads, writes = os.pipe()
    os.write(writes, b"from a pipe")
    os.close(writes)
    assert read_list(f"/dev/fd/{reads}") == "from a pipe"
    os.close(reads)
    monkeypatch.setattr(doors, "SMALL", 3)
    with pytest.raises(Refused, match="7 bytes, more than 3"):
        read_list(tmp_path / "lines")


# --- run folders ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tables", "cache", "pictures", "noises"])
def test_no_link_leads_out_of_a_run_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=rf"{name}' .* link"):
        Store(tmp_path / "run")
    folder = Folder(tmp_path / "run")
    for attempt in (lambda: folder.write_text(f"{name}/new/x", "harm"), lambda: folder.delete(f"{name}/kept")):
        (tmp_path / "elsewhere" / "kept").write_text("kept")
        with pytest.raises(OSError, match="a link that leads out"):
            attempt()
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["kept"]


def test_a_run_folder_may_be_a_link_and_hold_links_inside(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "run").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "tables").symlink_to("a")
    Store(tmp_path / "run").write_text("tables/x", "text")
    assert (tmp_path / "real" / "a" / "x").read_text() == "text"


@pytest.mark.parametrize("name", ["record.json", "report.html"])
def test_no_pipe_of_a_run_folder_is_replaced(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(StoreError, match="pipe"):
        Store(tmp_path)


# --- whose a run folder is ------------------------------------------------------------------------


def test_a_folder_belongs_to_one_audit(tmp_path: Path) -> None:
    folder, refusals = Folder(tmp_path), list[str]()
    first = claim(folder, "one")
    first.settle()

    def another() -> None:
        with pytest.raises(BadPlace) as error:
            claim(folder, "two")
        refusals.append(str(error.value))

    for _ in range(2):
        thread = threading.Thread(target=another, daemon=True)
        thread.start()
        thread.join(5)
    assert len(refusals) == 2
    assert (
        f"is at work for another audit (process {os.getpid()} of this machine, for less than a minute)" in refusals[0]
    )
    first.close()
    claim(folder, "two").close()


def test_the_same_audit_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PAUSE", 0.01)
    folder, order, said = Folder(tmp_path), list[str](), list[str]()
    first = claim(folder, "one")
    first.settle()

    def again() -> None:
        claim(folder, "one", say=said.append).close()
        order.append("second")

    thread = threading.Thread(target=again)
    thread.start()
    while not said:
        time.sleep(0.01)
    order.append("first")
    first.close()
    thread.join(20)
    assert order == ["first", "second"]
    assert said[0].startswith("waiting for the same audit, which is at work in ")


def test_parts_of_an_audit_share_a_folder_and_others_do_not(tmp_path: Path) -> None:
    folder, outcomes = Folder(tmp_path), list[str]()
    first = claim(folder, "one", shared=True)
    first.settle()

    def part(plan: str) -> None:
        try:
            claim(folder, plan, shared=True).close()
            outcomes.append("shared")
        except HoldfastError:
            outcomes.append("refused")

    for plan in ("one", "two", "one"):
        thread = threading.Thread(target=part, args=(plan,))
        thread.start()
        thread.join(20)
    assert outcomes == ["shared", "refused", "shared"]
    first.close()


def _claims_and_is_killed(place: str) -> None:
    claim(Folder(place), "one")
    os.kill(os.getpid(), 9)


def test_who_is_killed_claims_nothing(tmp_path: Path) -> None:
    killed = multiprocessing.get_context("spawn").Process(target=_claims_and_is_killed, args=(str(tmp_path),))
    killed.start()
    killed.join(60)
    assert killed.exitcode == -9
    claim(Folder(tmp_path), "two").close()


def test_a_lock_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "cache" / "audit.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        claim(Folder(tmp_path), "one")
    assert (tmp_path / "victim").read_text() == "kept"
