"""Code of others is called by one thread at a time, and what it hands out is copied before the next call."""

import io
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from holdfast.core import Geometry, ImageSource
from holdfast.runtime.errors import BadValue, Failed
from holdfast.runtime.foreign import TURN, foreign
from holdfast.sources.data import ImageSet
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.shared.long_tail import LongTail
from holdfast.sources.data.shared.torch_dataset import TorchDataset

N = 24


class Room:
    """Counts how many threads are in it, and waits a little so that others would come in."""

    def __init__(self) -> None:
        self.inside = self.most = self.calls = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.inside += 1
        self.calls += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.001)
        yield
        self.inside -= 1


class Own(ImageSource):
    """A source of a user's own: each of its methods must be called alone."""

    def __init__(self, room: Room, concurrent: bool = False):
        self.room = room
        if concurrent:
            self.concurrent = True

    def __len__(self) -> int:
        with self.room():
            return N

    def __str__(self) -> str:
        with self.room():
            return "own"

    def id(self, index: int) -> str:
        with self.room():
            return f"{index:03d}"

    def load(self, index: int) -> PIL.Image.Image:
        with self.room():
            return PIL.Image.new("RGB", (9 + index % 2, 8), (index, index, index))

    def load_several(self, indices: Any) -> None:
        with self.room():
            return

    def shape(self, index: int) -> tuple[int, int, int]:
        with self.room():
            return 3, 8, 9 + index % 2

    def label(self, index: int) -> int:
        with self.room():
            return index % 2

    def files(self, indices: Any) -> None:
        with self.room():
            return


class Items:
    """A dataset of which two may share a room, as two subsets share a file handle."""

    def __init__(self, room: Room):
        self.room = room

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.room():
            return torch.full((3, 8, 8), index / N), index % 2


def use(images: ImageSet) -> None:
    """Call all that calls the source."""
    images = images.with_geometry(images.common_geometry)
    list(images.batches(7))
    images.pick([5, 1, 3])
    assert images.fingerprint
    assert images.labels
    assert images.ids[0]
    assert images.files is None
    assert not any(how for _, how in images.read_again())


@pytest.mark.parametrize(
    "make", [Own, lambda room: LongTail(Own(room), ratio=1), lambda room: TorchDataset(Items(room))]
)
def test_one_thread_at_a_time(make: Callable[[Room], ImageSource]) -> None:
    room = Room()
    use(ImageSet(make(room), workers=8))
    assert room.calls > 2 * N
    assert room.most == 1


def test_two_datasets_and_an_own_function_share_one_turn() -> None:
    """They may read through one handle: a lock for each would not do."""
    room = Room()
    first, second = (ImageSet(TorchDataset(Items(room)), workers=4, seed=seed) for seed in (0, 1))

    def own_function() -> None:
        for _ in range(N):
            with foreign("the function mine", "run", alone=True), room():
                pass

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(use, first), pool.submit(use, second), pool.submit(own_function)]:
            done.result()
    assert room.most == 1


def test_sources_that_say_so_are_read_side_by_side() -> None:
    room = Room()
    use(ImageSet(Own(room, concurrent=True), workers=8))
    assert room.most > 1


def test_whoever_has_the_turn_and_reads_images_waits_for_nobody() -> None:
    """A function of a user's own may read images whose source needs the turn that the function has."""
    images = ImageSet(TorchDataset(Items(Room())), workers=4)
    over = threading.Event()

    def run() -> None:
        with foreign("the function mine", "run", alone=True), TURN:
            images.batch(0, 8)
            images.pick([1, 2])
            assert images.fingerprint
        over.set()

    threading.Thread(target=run, daemon=True).start()
    assert over.wait(20), "it waits for ever"


# --- what is handed out ---------------------------------------------------------------------------

VALUES = np.random.default_rng(0).integers(0, 256, (N, 8, 8, 3), dtype=np.uint8)


def frames() -> PIL.Image.Image:
    file = io.BytesIO()
    first, *others = map(PIL.Image.fromarray, VALUES)
    first.save(file, "TIFF", save_all=True, append_images=others)
    return PIL.Image.open(file)


class Reused:
    """One tensor, array or picture for all items, filled anew each time."""

    def __init__(self, room: Any, fill: Callable[[Any, int], Any]):
        self.room, self.fill = room, fill

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        given = self.fill(self.room, index)
        return self.room if given is None else given


def floats(room: torch.Tensor, index: int) -> None:
    room.copy_(torch.from_numpy(VALUES[index]).permute(2, 0, 1) / 255)


def seek(room: PIL.Image.Image, index: int) -> None:
    room.seek(index)


REUSED: dict[str, Reused] = {
    "tensor": Reused(torch.zeros(3, 8, 8), floats),
    "tensor of bytes": Reused(
        torch.zeros(3, 8, 8, dtype=torch.uint8),
        lambda room, i: room.copy_(torch.from_numpy(VALUES[i]).permute(2, 0, 1)),
    ),
    "array": Reused(np.zeros((8, 8, 3), np.uint8), lambda room, i: np.copyto(room, VALUES[i])),
    "array of floats": Reused(np.zeros((8, 8, 3), np.float32), lambda room, i: np.copyto(room, VALUES[i] / 255)),
    "picture": Reused(PIL.Image.new("RGB", (8, 8)), lambda room, i: room.paste(PIL.Image.fromarray(VALUES[i]))),
    "frames": Reused(frames(), seek),
    "tuple": Reused((torch.zeros(3, 8, 8), 1), lambda room, i: floats(room[0], i)),
    "mapping": Reused({"image": torch.zeros(3, 8, 8), "id": ""}, lambda room, i: floats(room["image"], i)),
    "transposed": Reused(torch.zeros(8, 8, 3).permute(2, 0, 1), floats),
}


@pytest.mark.parametrize("kind", REUSED)
def test_what_a_dataset_uses_again_is_copied(kind: str) -> None:
    images = ImageSet(TorchDataset(REUSED[kind]), workers=3)
    check(images)


class ReusedSource(ImageSource):
    """The same of a source of a user's own."""

    def __init__(self, items: Reused, several: bool = False):
        self.items, self.several = items, several
        self.rooms = torch.zeros(N, 3, 8, 8)

    def __len__(self) -> int:
        return N

    def id(self, index: int) -> str:
        return f"{index:06d}"

    def load(self, index: int) -> Any:
        return self.items[index]

    def load_several(self, indices: Any) -> torch.Tensor | None:
        if not self.several:
            return None
        for place, index in enumerate(indices):
            floats(self.rooms[place], index)
        return self.rooms[: len(indices)]


@pytest.mark.parametrize(
    ("kind", "several"), [("tensor", False), ("tensor", True), ("picture", False), ("frames", False)]
)
def test_what_a_source_uses_again_is_copied(kind: str, several: bool) -> None:
    check(ImageSet(ReusedSource(REUSED[kind], several), workers=3))


def check(images: ImageSet) -> None:
    for start, stop in ((0, N), (0, 5), (3, 20)):
        for name, pixels in zip(images.ids[start:stop], images.batch(start, stop), strict=True):
            assert torch.equal(pixels, torch.from_numpy(VALUES[int(name)]).permute(2, 0, 1) / 255), name
    assert not any(how for _, how in images.read_again())


def test_a_picture_keeps_what_stands_beside_its_pixels() -> None:
    """Copies are turned as EXIF says, and are known to be of unusual kind, as their originals are."""
    exif = PIL.Image.Exif()
    exif[0x112] = 6
    files = []
    for kind in ("JPEG", "PNG"):
        files.append(io.BytesIO())
        PIL.Image.new("RGB", (12, 8), "red").save(files[-1], kind, exif=exif)
    in_memory = PIL.Image.new("RGB", (12, 8), "red")
    in_memory.getexif()[0x112] = 6
    pictures = [*map(PIL.Image.open, files), in_memory]
    images = ImageSet(TorchDataset(pictures))
    assert images.batch(0, 3).shape == (3, 3, 12, 8)
    assert images.notes == ["3 of 3 pictures: turned as EXIF says"]


def test_labels_and_ids_are_those_that_were_given() -> None:
    labels, ids = np.arange(N), np.array([f"id-{number}" for number in range(N)])
    images = ImageSet(Arrays(VALUES, labels, ids, layout="NHWC"))
    known = dict(zip(images.ids, range(N), strict=True))
    labels[:], ids[:] = 0, "x"
    assert images.labels == [int(name[3:]) for name in known]


def test_a_scale_is_looked_at_in_its_own_geometry() -> None:
    """Sizes of TIFFs that lie on their side are told as they are shown."""
    exif, file = PIL.Image.Exif(), io.BytesIO()
    exif[0x112] = 6
    PIL.Image.new("RGB", (12, 8), "red").save(file, "TIFF", exif=exif)
    images = ImageSet(TorchDataset([PIL.Image.open(file)] * 2), geometry=Geometry((4, 4), 3, 4, "bilinear", "test"))
    assert images._choice.sample == [(3, 12, 8)] * 2


# --- processes ------------------------------------------------------------------------------------


class OneHandle(torch.utils.data.Dataset):
    """Opens its file in the process that reads it, as datasets for a DataLoader with workers do."""

    def __init__(self, path: Path, broken: int = -1, deadly: int = -1):
        self.path, self.broken, self.deadly, self.file = path, broken, deadly, None

    def __del__(self) -> None:
        if self.file is not None:
            self.file.close()

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if index == self.broken:
            raise ValueError("no such item\nand more")
        if index == self.deadly:
            os._exit(1)
        self.file = self.file or self.path.open("rb")
        self.file.seek(index * VALUES[0].size)
        values = np.frombuffer(self.file.read(VALUES[0].size), np.uint8).reshape(VALUES[0].shape)
        return (PIL.Image.fromarray(values) if index % 2 else values), index % 3


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pixels").write_bytes(VALUES.tobytes())
    return tmp_path / "pixels"


def test_processes_read_the_same_images(file: Path) -> None:
    there, here = (ImageSet(TorchDataset(OneHandle(file), processes=p), workers=3) for p in (2, 0))
    check(there)
    assert there.fingerprint == here.fingerprint
    assert there.labels == here.labels == [int(name) % 3 for name in there.ids]
    again = pickle.loads(pickle.dumps(TorchDataset(OneHandle(file), processes=1)))
    assert torch.equal(again.load(2), torch.from_numpy(VALUES[2]).permute(2, 0, 1) / 255)


@pytest.mark.slow
def test_what_goes_wrong_in_processes_is_one_line(file: Path) -> None:
    broken = TorchDataset(OneHandle(file, broken=20), processes=2)
    with pytest.raises(Failed, match="item 20"):
        _ = ImageSet(broken).fingerprint
    assert [name for name, _ in ImageSet(broken, skip_corrupt=True).unreadable] == ["000020"]
    with pytest.raises(Failed):
        _ = ImageSet(TorchDataset(OneHandle(file, deadly=20), processes=2)).fingerprint
    with pytest.raises(BadValue, match="got -1"):
        TorchDataset(OneHandle(file), processes=-1)
