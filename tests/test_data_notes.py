"""What is not read, or done with pictures of unusual kind, is a line: a picture is exact, or told, or refused."""

import io
import os
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageCms
import PIL.ImageFile
import pytest
import torch

from holdfast.core import Geometry
from holdfast.runtime.errors import BadData
from holdfast.sources.data import Conversion, ImageSet, open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.folder import Folder
from holdfast.sources.data.shared.torch_dataset import TorchDataset
from holdfast.sources.data.webdataset import WebDataset

VALUES = np.random.default_rng(0).integers(0, 256, (10, 20, 3), dtype=np.uint8)


def picture(mode: str = "RGB") -> PIL.Image.Image:
    return PIL.Image.fromarray(VALUES).convert(mode)


def png16(channels: int) -> bytes:
    """A PNG of 16 bits: grey, grey and alpha, RGB or RGBA."""
    rows = np.random.default_rng(0).integers(0, 2**16, (10, 20 * channels), dtype=np.uint16).byteswap()

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 20, 10, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    content = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def saved(image: PIL.Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def turned() -> PIL.Image.Exif:
    exif = PIL.Image.Exif()
    exif[0x112] = 6
    return exif


def profile(name: Any) -> bytes:
    return PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile(name)).tobytes()


ALPHA, DEEP = "alpha channel laid on white", "colours of 16 bits read as 8 bits"
FRAMES, TURNED = "first of several frames read", "turned as EXIF says"
WHOLE = "whole numbers of 32 bits read as 16 bits, divided by 65535"
FLOATS = "floats read as they are, in [0, 1]"
PROFILE = "colour profile other than sRGB not applied"
CMYK = "CMYK converted to RGB without a colour profile"

several = {"save_all": True, "append_images": [picture().rotate(180), picture()]}
KINDS: dict[str, tuple[bytes, set[str]]] = {
    "plain.png": (saved(picture()), set()),
    "grey.png": (saved(picture("L")), set()),
    "one bit.png": (saved(picture("1")), set()),
    "palette.gif": (saved(picture("P"), "GIF"), set()),
    "srgb.jpg": (saved(picture(), "JPEG", icc_profile=profile("sRGB")), set()),
    "deep grey.png": (png16(1), set()),
    "deep grey.tif": (saved(PIL.Image.fromarray(VALUES[..., 0].astype(np.uint16) * 257), "TIFF"), set()),
    "deep and clear.png": (png16(2), {ALPHA, DEEP}),
    "deep.png": (png16(3), {DEEP}),
    "deep.ppm": (b"P6 20 10 65535\n" + VALUES.astype(">u2").tobytes(), {DEEP}),
    "rgba.png": (saved(picture("RGBA")), {ALPHA}),
    "la.png": (saved(picture("LA")), {ALPHA}),
    "clear palette.png": (saved(picture("P"), transparency=3), {ALPHA}),
    "wide.jpg": (saved(picture(), "JPEG", icc_profile=profile("XYZ")), {PROFILE}),
    "cmyk.jpg": (saved(picture("CMYK"), "JPEG"), {CMYK}),
    "whole.tif": (saved(PIL.Image.fromarray(VALUES[..., 0].astype(np.int32)), "TIFF"), {WHOLE}),
    "floats.tif": (saved(PIL.Image.fromarray(VALUES[..., 0] / np.float32(255)), "TIFF"), {FLOATS}),
    "lying.jpg": (saved(picture(), "JPEG", exif=turned()), {TURNED}),
    "lying.tif": (saved(picture(), "TIFF", exif=turned()), {TURNED}),
    "moving.gif": (saved(picture(), "GIF", **several), {FRAMES}),
    "moving.png": (saved(picture(), "PNG", **several), {FRAMES}),
    "pages.tif": (saved(picture(), "TIFF", **several), {FRAMES}),
    "phone.jpg": (saved(picture(), "MPO", **several), {FRAMES}),
}


class Opened:
    """A dataset that opens pictures and leaves it to others to decode them."""

    def __init__(self, contents: list[bytes]):
        self.contents = contents

    def __len__(self) -> int:
        return len(self.contents)

    def __getitem__(self, index: int) -> PIL.Image.Image:
        return PIL.Image.open(io.BytesIO(self.contents[index]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("through", ["folder", "dataset"])
def test_pictures_of_unusual_kind_are_told(kind: str, through: str, tmp_path: Path) -> None:
    content, words = KINDS[kind]
    for number in range(2):
        (tmp_path / f"{number} {kind}").write_bytes(content)
    (tmp_path / "z plain.bmp").write_bytes(saved(picture(), "BMP"))
    images = ImageSet(Folder(tmp_path))
    if through == "dataset":
        images = ImageSet(TorchDataset(Opened([file.read_bytes() for file in sorted(tmp_path.iterdir())])))
    assert set(images.notes) == {f"2 of 3 pictures: {word}" for word in words}
    places = [place for place, name in enumerate(images.ids) if name.startswith(("0 ", "000000"))]
    shapes = [images._choice.reader.shape(int(images._choice.rows[place])) for place in places]
    assert shapes == [tuple(images.pick(places)[0].shape)]


def test_whole_numbers_beyond_sixteen_bits_are_refused(tmp_path: Path) -> None:
    for number in range(2):
        PIL.Image.fromarray(np.full((4, 4), 70_000, np.int32)).save(tmp_path / f"{number}.tif")
    with pytest.raises(BadData, match="16-bit"):
        ImageSet(Folder(tmp_path)).batch(0, 2)


def test_what_is_truncated_is_refused_whatever_others_have_told_pillow(tmp_path: Path, monkeypatch: Any) -> None:
    content = saved(picture().resize((200, 200)), "JPEG")
    (tmp_path / "a.jpg").write_bytes(content)
    (tmp_path / "b.jpg").write_bytes(content[: len(content) // 2])
    monkeypatch.setattr(PIL.ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(BadData, match=r"b\.jpg"):
        _ = ImageSet(Folder(tmp_path)).fingerprint
    assert PIL.ImageFile.LOAD_TRUNCATED_IMAGES


def test_programs_and_pipes_are_no_pictures(tmp_path: Path) -> None:
    """PostScript would be run by Ghostscript, and a pipe waited for."""
    program = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n0 0 8 8 rectfill showpage\n"
    (tmp_path / "a.png").write_bytes(program)
    os.mkfifo(tmp_path / "b.png")
    for name in "cd":
        picture().save(tmp_path / f"{name}.png")
    images = ImageSet(Folder(tmp_path), skip_corrupt=True)
    assert images.common_geometry is None
    reasons = dict(images.unreadable)
    assert "its content is not a picture" in reasons["a.png"]
    assert "a pipe or a device" in reasons["b.png"]
    assert set(images.ids) == {"c.png", "d.png"}


# --- what is not read -----------------------------------------------------------------------------


def test_files_that_are_not_read_are_counted(tmp_path: Path) -> None:
    for name in ("1.jpg", "2.PNG", "deep/3.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        picture().save(tmp_path / name)
    for name in ("4.heic", "5.HEIC", "deep/6.jxl", "7.dng", "8.txt", "9.cr2", "10.mov", "noending", ".hidden.jpg"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "deep" / "again").symlink_to(tmp_path)
    assert open_images(tmp_path).notes == [
        "8 files are not pictures by their names (2 .heic, 1 .cr2, 1 .dng, 1 .jxl, 1 .mov, 2 others)",
        "1 hidden picture, with a name that begins with a dot, not read",
        "1 link into a folder that was read already not followed",
        "no classes are read: 2 of 3 pictures in no folder of a class",
    ]


@pytest.mark.parametrize("name", ["gone.jpg", "empty.jpg", "text.jpg"])
def test_pictures_that_cannot_be_read_are_refused_by_name_or_left_out_where_asked(name: str, tmp_path: Path) -> None:
    for number in range(2):
        picture().save(tmp_path / f"{number}.png")
    if name == "gone.jpg":
        (tmp_path / name).symlink_to(tmp_path / "nowhere")
    else:
        (tmp_path / name).write_text("" if name == "empty.jpg" else "no picture")
    with pytest.raises(BadData, match=f"'{name}'"):
        _ = open_images(tmp_path).fingerprint
    assert [skipped for skipped, _ in open_images(tmp_path, skip_corrupt=True).unreadable] == [name]


def test_members_of_archives_and_arrays_that_are_not_read(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in ("a.png", "b.png", "a.json", "b.json", "a.txt", "c.cls", "README"):
            content = saved(picture()) if name.endswith("png") else b"1"
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    assert open_images(tmp_path / "x.tar").notes == [
        "4 members of the shards not read (2 .json, 1 .txt, 1 without an ending)",
        "1 class file of samples without a picture not read",
    ]
    assert WebDataset(tmp_path / "x.tar", column="png").notes == open_images(tmp_path / "x.tar")._choice.notes
    stack = np.stack([VALUES, VALUES])
    np.savez(tmp_path / "x.npz", images=stack, masks=stack, labels=[0, 1], boxes=np.zeros(2))
    assert open_images(tmp_path / "x.npz").notes == ["2 arrays not read: masks, boxes"]
    np.savez(tmp_path / "y.npz", x_test=stack, y_test=[0, 1])
    assert open_images(tmp_path / "y.npz").notes == [
        "the array 'x_test' is read as the images",
        "1 array not read: y_test",
    ]


def test_columns_splits_and_parts_of_items_that_are_not_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["a", "b"])
    features = {"image": datasets.Image(), "fine": names, "coarse": names, "text": datasets.Value("string")}
    columns = {"image": [picture()] * 2, "fine": [0, 1], "coarse": [0, 0], "text": ["x", "y"]}
    split = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    datasets.DatasetDict(test=split, train=split).save_to_disk(tmp_path / "hf")
    assert open_images(f"hf:{tmp_path / 'hf'}").notes == [
        "the split test is read, of test, train",
        "no labels are read: choose one of the columns fine, coarse with ?label=NAME",
        "3 columns not read: fine, coarse, text",
    ]
    chosen = open_images(f"hf:{tmp_path / 'hf'}?split=train&label=fine")
    assert chosen.notes == ["the split train is read, of train, test", "2 columns not read: coarse, text"]
    items = [{"img": picture(), "fine_label": 1, "coarse_label": 0}] * 2
    assert TorchDataset(items).notes == ("of items 'img' is read as the image, 'fine_label' as the class; not read: "
                                         "coarse_label",)  # fmt: skip
    assert TorchDataset([(picture(), 1, "name")] * 2).notes == (
        "the first 2 of 3 parts of items are read, as image and class",
    )
    assert TorchDataset([(picture(), 1)] * 2).notes == TorchDataset([picture()] * 2).notes == ()


# --- how images got an encoder's size -------------------------------------------------------------

SIZES = [(300, 200), (300, 200), (300, 200), (40, 60), (224, 224)]


@pytest.mark.parametrize(
    ("conversion", "geometry", "words"),
    [
        (
            Conversion(),
            Geometry((224, 224), 3, 256, "bicubic"),
            "5 images of 200 × 300 pixels (height × width) and 2 other sizes, shorter side 40 to 224: the shorter side "
            "to 256 pixels (bicubic), then the central 224 × 224 is cropped; 5 of 5 are enlarged",
        ),
        (
            Conversion(),
            Geometry((224, 224), 1, 224),
            "4 of 5 images of 200 × 300 pixels (height × width) and 1 other size, shorter side 40 to 200: the shorter "
            "side to 224 pixels (bilinear), then the central 224 × 224 is cropped; 4 of 5 are enlarged; 5 of 5 are "
            "made grey",
        ),
        (
            Conversion(size=(32, 64)),
            Geometry((224, 224), 3, 224),
            "5 images of 200 × 300 pixels (height × width) and 2 other sizes, shorter side 40 to 224: squashed to "
            "32 × 64 (bilinear); 1 of 5 are enlarged",
        ),
        (Conversion(), None, ""),
    ],
)
def test_the_rendering_in_words(conversion: Conversion, geometry: Geometry | None, words: str, tmp_path: Path) -> None:
    for number, size in enumerate(SIZES):
        picture().resize(size).save(tmp_path / f"{number}.png")
    assert ImageSet(Folder(tmp_path), conversion=conversion, geometry=geometry).rendering == words


@pytest.mark.parametrize(
    ("conversion", "words"),
    [
        (Conversion(), ""),
        (
            Conversion(size=8),
            "2 images of 10 × 20 pixels (height × width): the shorter side to 8 pixels (bilinear), then the central "
            "8 × 8 is cropped",
        ),
        (Conversion(channels=1), "2 of 2 are made grey"),
    ],
)
def test_arrays_are_resized_only_where_asked(conversion: Conversion, words: str) -> None:
    images = Arrays(torch.rand(2, 3, 10, 20))
    assert ImageSet(images, conversion=conversion).rendering == words


@pytest.mark.parametrize("make", [lambda folder: Folder(folder), lambda folder: WebDataset(folder / "x.tar")])
def test_notes_are_told_of_what_is_there(make: Callable[[Path], Any], tmp_path: Path) -> None:
    """Where nothing is left out or unusual nothing is said."""
    for name in "ab":
        picture().save(tmp_path / f"{name}.png")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name in "ab":
            archive.add(tmp_path / f"{name}.png", f"{name}.png")
    if not isinstance(source := make(tmp_path), WebDataset):
        (tmp_path / "x.tar").unlink()
        source = make(tmp_path)
    assert ImageSet(source).notes == []
