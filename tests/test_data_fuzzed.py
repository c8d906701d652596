"""Files of images that were damaged at random are read, or refused in a line: no traceback, no crash, no hang."""

import io
import random
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.core import HoldfastError
from holdfast.runtime.errors import BadData
from holdfast.sources.data import open_images

VALUES = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), dtype=np.uint8)
LONGEST = 600
"""Characters of an error, at most."""


def encoded(number: int, kind: str) -> bytes:
    file = io.BytesIO()
    PIL.Image.fromarray(VALUES[number]).save(file, {"jpg": "JPEG", "tif": "TIFF"}.get(kind, kind.upper()))
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, images=VALUES, labels=np.arange(12) % 3, ids=np.arange(12).astype(str))
    return file.getvalue()


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, VALUES)
    return file.getvalue()


def shard() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in range(6):
            for ending, content in (("png", encoded(number, "png")), ("cls", b"1"), ("json", b"{}")):
                entry = tarfile.TarInfo(f"d/{number}.{ending}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def tables() -> dict[str, bytes]:
    images = [{"bytes": encoded(number, "png"), "path": None} for number in range(12)]
    columns = {
        "corpus": {"id": [f"c{n}" for n in range(8)], "image": images[:8]},
        "queries": {"id": [f"q{n}" for n in range(4)], "image": images[8:]},
        "qrels": {"query-id": [f"q{n}" for n in range(4)], "corpus-id": [f"c{n}" for n in range(4)], "score": [1] * 4},
    }
    files = {}
    for name, values in columns.items():
        file = io.BytesIO()
        pq.write_table(pa.table(values), file)
        files[name] = file.getvalue()
    return files


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return content of which some bytes are others, are missing, are more, or stand elsewhere."""
    data, end = bytearray(content), len(content)
    match chance.randrange(8):
        case 0:
            data[chance.randrange(end)] ^= 1 << chance.randrange(8)
        case 1:
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(end)] = chance.randrange(256)
        case 2:
            del data[chance.randrange(end) :]
        case 3:
            at = chance.randrange(end)
            data[at : at + 40] = bytes(len(data[at : at + 40]))
        case 4:
            data[chance.randrange(end) : 0] = chance.randbytes(chance.randint(1, 32))
        case 5:
            first, second = sorted(chance.sample(range(end), 2))
            data[first : first + 8], data[second : second + 8] = data[second : second + 8], data[first : first + 8]
        case 6:
            for _ in range(3):
                data[chance.randrange(min(64, end))] = chance.randrange(256)
        case _:
            for _ in range(3):
                data[-1 - chance.randrange(min(200, end))] = chance.randrange(256)
    return bytes(data)


def write_file(name: str, make: Callable[[], bytes]) -> Callable[[Path, random.Random], str]:
    def write(folder: Path, chance: random.Random) -> str:
        (folder / name).write_bytes(damaged(make(), chance))
        return str(folder / name)

    return write


def write_pictures(kind: str) -> Callable[[Path, random.Random], str]:
    def write(folder: Path, chance: random.Random) -> str:
        for number in range(3):
            content = encoded(number, kind)
            (folder / f"{number}.{kind}").write_bytes(damaged(content, chance) if number == 2 else content)
        return str(folder)

    return write


def write_task(folder: Path, chance: random.Random) -> str:
    bad = chance.choice(["corpus", "queries", "qrels"])
    for name, content in tables().items():
        (folder / name).mkdir()
        file = folder / name / "test-00000-of-00001.parquet"
        file.write_bytes(damaged(content, chance) if name == bad else content)
    return f"retrieval:{folder}"


KINDS = {
    "npz": write_file("x.npz", npz),
    "npy": write_file("x.npy", npy),
    "tar": write_file("x.tar", shard),
    "parquet": write_task,
    **{kind: write_pictures(kind) for kind in ("png", "jpg", "gif", "tif", "webp", "bmp")},
}


def use(spec: str) -> None:
    """Read all that an audit would."""
    images = open_images(spec)
    assert images.relevance is None or len(images.relevance.pairs)
    images = images.with_geometry(images.common_geometry)
    assert len(images.fingerprint) == 64
    assert images.labels is None or len(images.labels) == len(images)
    assert images.batch(0, len(images)).shape == (len(images), *images.shape)
    assert not any(how for _, how in images.read_again())
    assert isinstance(images.notes, list)
    assert isinstance(images.rendering, str)


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused_in_a_line(kind: str, count: int, tmp_path: Path) -> None:
    for number in range(count):
        folder = tmp_path / str(number)
        folder.mkdir()
        spec = KINDS[kind](folder, random.Random(f"{kind} {number}"))
        try:
            with warnings.catch_warnings():  # of Pillow
                warnings.simplefilter("ignore")
                use(spec)
        except HoldfastError as error:
            said = str(error)
            assert "\n" not in said, said
            assert len(said) <= LONGEST, said


def test_offsets_that_lead_out_of_an_arrow_file_are_refused(tmp_path: Path) -> None:
    """Arrow would follow them, and the process would end."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"image": datasets.Image()})
    pictures = [PIL.Image.fromarray(values) for values in VALUES]
    datasets.Dataset.from_dict({"image": pictures}, features=features).save_to_disk(tmp_path / "hf")
    (file,) = (tmp_path / "hf").glob("*.arrow")
    sizes = np.cumsum([0, *(len(encoded(number, "png")) for number in range(12))]).astype(np.int32)
    content = file.read_bytes()
    assert content.count(sizes.tobytes()) == 1
    file.write_bytes(content.replace(sizes.tobytes(), (sizes * 2**20).astype(np.int32).tobytes()))
    with pytest.raises(BadData, match="offset"):
        open_images(f"hf:{tmp_path / 'hf'}")
