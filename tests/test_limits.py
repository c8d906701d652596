"""What would take a machine down is refused, or done in parts."""

import hashlib
import io
import os
import tarfile
import threading
import zlib
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from holdfast.core import Rng
from holdfast.parts.attacks import square
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.readout import Readout
from holdfast.parts.attacks.square import Square
from holdfast.parts.engines.processes import Processes, cores
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadData, BadValue, Missing
from holdfast.sources.data import open_images
from holdfast.sources.data.shared import pictures
from holdfast.sources.data.shared.contents import Content
from holdfast.sources.data.shared.pictures import decode, one_large_at_a_time


def png(path: Path, side: int) -> None:
    """Write a black picture of any size; deflated, a small file."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    packed, deflate = b"", zlib.compressobj(1)
    for _ in range(side):
        packed += deflate.compress(bytes(1 + side))
    head = side.to_bytes(4, "big") * 2 + b"\x08\x00\x00\x00\x00"
    body = packed + deflate.flush()
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b""))


@pytest.mark.timeout(60)
def test_a_pipe_is_no_picture(tmp_path: Path) -> None:
    for number in range(4):
        PIL.Image.new("L", (8, 8), number).save(tmp_path / f"{number}.png")
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(BadData, match=r"pipe\.png"):
        open_images(str(tmp_path)).batch(0, 5)
    kept = open_images(f"{tmp_path}?skip_corrupt=true")
    assert len(kept) == 4
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(Missing, match=r"pipe\.tar"):
        open_images(str(tmp_path / "pipe.tar"))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_picture_that_unpacks_to_too_much(tmp_path: Path) -> None:
    png(tmp_path / "bomb.png", 14_000)
    assert (tmp_path / "bomb.png").stat().st_size < 2**20
    with pytest.raises(BadData, match="178,956,970"):
        decode(tmp_path / "bomb.png", "bomb.png")


def test_large_pictures_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "LARGE", 100)
    PIL.Image.new("L", (20, 20)).save(tmp_path / "large.png")
    PIL.Image.new("L", (8, 8)).save(tmp_path / "small.png")
    ended = threading.Event()

    def other() -> None:
        with one_large_at_a_time():
            decode(tmp_path / "large.png", "large.png")
        ended.set()

    with one_large_at_a_time():
        decode(tmp_path / "large.png", "large.png")
        decode(tmp_path / "large.png", "large.png")  # the same thread may go on
        thread = threading.Thread(target=other)
        thread.start()
        assert not ended.wait(0.2)
        decode(tmp_path / "small.png", "small.png")
    assert ended.wait(5)
    thread.join()


@pytest.mark.parametrize("mode", ["L", "RGB", "F"])
def test_fingerprints_are_those_of_whole_pictures(mode: str) -> None:
    values = np.random.default_rng(0).integers(0, 255, (600, 30, 3), np.uint8)
    picture = PIL.Image.fromarray(values).convert(mode)
    head = f"{picture.mode} {picture.size}".encode()
    assert Content.of(picture).digest == hashlib.sha256(head + picture.tobytes()).digest()
    pixels = torch.rand(3, 5, 4)
    head = f"pixels {tuple(pixels.shape)}".encode()
    assert Content.of(pixels).digest == hashlib.sha256(head + pixels.numpy().tobytes()).digest()


def test_an_archive_that_promises_more_than_it_holds(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    PIL.Image.new("L", (8, 8)).save(buffer, "PNG")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, size in (("a.png", buffer.tell()), ("b.png", buffer.tell())):
            entry = tarfile.TarInfo(name)
            entry.size = size
            archive.addfile(entry, io.BytesIO(buffer.getvalue()))
    held = bytearray((tmp_path / "a.tar").read_bytes())
    second = held.index(b"b.png")
    held[second + 124 : second + 136] = b"77777777777\0"  # 8 GiB
    held[second + 148 : second + 156] = b" " * 8
    held[second + 148 : second + 156] = b"%06o\0 " % sum(held[second : second + 512])
    (tmp_path / "a.tar").write_bytes(held)
    with pytest.raises(BadData, match=r"b\.png"):
        open_images(str(tmp_path / "a.tar"))


def test_workers_have_a_limit() -> None:
    most = max(16, 4 * cores())
    assert Processes(most).workers == most
    with pytest.raises(BadValue, match=rf"got 10000.*--workers {cores()}"):
        Processes(10_000)


def test_steps_that_are_never_made_take_no_memory() -> None:
    class Enough(Exception):
        pass

    def goal(x: torch.Tensor):
        raise Enough

    x = torch.rand(2, 1, 4, 4)
    assert not Readout((10**9,))._values
    for attack in (Pgd(steps=10**9), Apgd(steps=10**9), Square(steps=10**9)):
        with pytest.raises(Enough):
            attack(goal, x, Linf(0.1), Rng(0, ids=("a", "b")))


def test_square_draws_the_same_first_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts or at once: as far as the first part reaches, the search is the same."""
    weights = torch.rand(16)

    def goal(x: torch.Tensor):
        reps = x.flatten(1)
        return reps @ weights, reps

    x, rng = torch.rand(2, 1, 4, 4), Rng(0, ids=("a", "b"))
    whole = Square(steps=12)(goal, x, Linf(0.1), rng).values
    monkeypatch.setattr(square, "TOGETHER", 8)
    parts = Square(steps=12)(goal, x, Linf(0.1), rng).values
    assert torch.equal(whole[:9], parts[:9])
    assert parts.shape == whole.shape
