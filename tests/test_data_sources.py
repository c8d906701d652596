"""Every source reads what people have, and says what is wrong with the rest."""

import io
import os
import tarfile
import unicodedata

import numpy as np
import PIL.Image
import pytest
import torch

from holdfast.core import Geometry
from holdfast.runtime.errors import (
    Ambiguous,
    BadData,
    BadValue,
    Conflict,
    Failed,
    Mismatch,
    Missing,
    NotFinite,
    UnknownName,
    Unsupported,
)
from holdfast.runtime.names import file
from holdfast.sources.data import ImageSet, digits, open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.digits import Digits, train_images
from holdfast.sources.data.folder import Folder
from holdfast.sources.data.shared.torch_dataset import TorchDataset
from holdfast.sources.data.webdataset import WebDataset

SMALL = Geometry((8, 8), 3, 8, "bilinear", "test")


def picture(seed=0, size=(12, 10), mode="RGB"):
    values = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return PIL.Image.fromarray(values).convert(mode)


def save(path, seed=0, **kwargs):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed, **kwargs).save(path)
    return path


# --- digits ---------------------------------------------------------------------------------------


def test_digits_split_once_and_for_all():
    held, train, whole = Digits(), Digits("train"), Digits("all")
    assert (len(held), len(train), len(whole)) == (600, 1197, 1797)
    ids = [{source.id(i) for i in range(len(source))} for source in (held, train, whole)]
    assert ids[0] | ids[1] == ids[2]
    assert not ids[0] & ids[1]
    assert (held.id(0), held.id(599), train.id(0)) == ("digit-1484", "digit-0888", "digit-1769")
    images, labels = train_images()
    assert images.shape == (1197, 1, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
    assert torch.equal(images[7], train.load(7))
    assert labels[7] == train.label(7)
    with pytest.raises(BadValue, match="part="):
        Digits("test")


@pytest.mark.parametrize("place", ["sklearn.datasets", "nowhere.datasets"])
def test_digits_are_scikit_learns(place: str, monkeypatch: pytest.MonkeyPatch):
    from sklearn.datasets import load_digits

    monkeypatch.setattr(digits, "file", lambda module: file(place))
    monkeypatch.setattr(digits, "_digits", digits._digits.__wrapped__)  # not what an earlier test has read
    data = load_digits()
    held = Digits()
    for index in range(0, 600, 97):
        row = int(held.id(index).removeprefix("digit-"))
        assert torch.equal(held.load(index)[0] * 16, torch.tensor(data.images[row], dtype=torch.float32))
        assert held.label(index) == data.target[row]


def test_changing_a_loaded_digit_does_not_change_the_data():
    held = Digits()
    held.load(0).zero_()
    assert held.load(0).sum() > 0


# --- folder ---------------------------------------------------------------------------------------


def test_a_flat_folder(tmp_path):
    for name in ("b.PNG", "a.jpg", "ü.webp", "c.txt", ".hidden.png", "no_extension"):
        file = tmp_path / name
        save(file) if file.suffix.lower() in (".png", ".jpg", ".webp") else file.write_text("x")
    source = Folder(tmp_path)
    assert [source.id(i) for i in range(len(source))] == ["a.jpg", "b.PNG", "ü.webp"]
    assert source.ignored == {".txt": 1, "without an ending": 1}
    assert source.notes == (
        "2 files are not pictures by their names (1 .txt, 1 without an ending)",
        "1 hidden picture, with a name that begins with a dot, not read",
    )
    assert source.label(0) is None
    assert source.load(1).size == (12, 10)


def test_class_folders(tmp_path):
    for name in ("dog/1.png", "cat/2.png", "cat/deep/er/3.png", ".git/4.png", "empty/readme.md"):
        file = tmp_path / name
        save(file) if name.endswith("png") else (file.parent.mkdir(), file.write_text("x"))
    source = Folder(tmp_path)
    assert [source.id(i) for i in range(len(source))] == ["cat/2.png", "cat/deep/er/3.png", "dog/1.png"]
    assert [source.label(i) for i in range(3)] == [0, 0, 1]
    assert source.classes == ["cat", "dog"]
    assert ImageSet(source, geometry=SMALL).labels is not None
    save(tmp_path / "loose.png")
    assert Folder(tmp_path).classes == []


def test_links_are_followed_without_going_round(tmp_path):
    save(tmp_path / "a" / "1.png")
    save(tmp_path / "outside" / "2.png")
    root = tmp_path / "a"
    (root / "loop").symlink_to(root)
    (root / "other").symlink_to(tmp_path / "outside")
    (root / "self").symlink_to(root / "self")
    source = Folder(root)
    assert [source.id(i) for i in range(len(source))] == ["1.png", "other/2.png"]


def test_unicode_ids_are_the_same_on_every_machine(tmp_path):
    save(tmp_path / unicodedata.normalize("NFD", "é.png"))
    source = Folder(tmp_path)
    assert source.id(0) == unicodedata.normalize("NFC", "é.png")
    assert source.load(0).size == (12, 10)


@pytest.mark.skipif(os.name == "nt", reason="Windows names are Unicode")
def test_a_name_that_is_not_utf8_can_be_printed(tmp_path):
    raw = os.fsencode(tmp_path) + b"/\xff.png"
    with open(raw, "wb") as file:
        picture().save(file, format="PNG")
    source = Folder(tmp_path)
    source.id(0).encode()
    assert source.load(0).size == (12, 10)


def test_an_empty_or_missing_folder_says_so(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(Missing, match=r"1 \.txt"):
        Folder(tmp_path)
    with pytest.raises(Missing, match="nowhere"):
        Folder(tmp_path / "nowhere")


def broken_files(folder):
    save(folder / "whole.jpg", size=(200, 200))
    data = (folder / "whole.jpg").read_bytes()
    (folder / "truncated.jpg").write_bytes(data[: len(data) // 2])
    save(folder / "whole.png", size=(200, 200))
    data = (folder / "whole.png").read_bytes()
    (folder / "truncated.png").write_bytes(data[: len(data) // 2])
    (folder / "text.jpg").write_text("not a picture")
    (folder / "empty.png").write_bytes(b"")
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    save(folder / "third.bmp")
    return {"truncated.jpg", "truncated.png", "text.jpg", "empty.png", "gone.png"}


def test_broken_files_are_named(tmp_path):
    broken = broken_files(tmp_path)
    source = Folder(tmp_path)
    for index in range(len(source)):
        if source.id(index) in broken:
            with pytest.raises(BadData, match=f"'{source.id(index)}'"):
                source.load(index)
        else:
            source.load(index)


def test_broken_files_are_skipped_only_if_asked(tmp_path):
    broken = broken_files(tmp_path)
    with pytest.raises(BadData, match=r"empty\.png"):
        _ = open_images(str(tmp_path), geometry=SMALL).fingerprint
    images = open_images(f"{tmp_path}?skip_corrupt=true", geometry=SMALL)
    assert {name for name, _ in images.unreadable} == broken
    assert sorted(images.ids) == ["third.bmp", "whole.jpg", "whole.png"]
    assert images.batch(0, 3).shape == (3, 3, 8, 8)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_folders_mix_modes_and_sizes(tmp_path, mode, channels):
    save(tmp_path / "a.jpg", size=(31, 17))
    if mode == "I;16":
        PIL.Image.fromarray(np.arange(600, dtype=np.uint16).reshape(20, 30) * 100).save(tmp_path / "b.png")
    else:
        source = picture(1).convert("L") if mode == "LA" else picture(1)
        source.convert(mode).save(tmp_path / f"b.{'tif' if mode == 'CMYK' else 'png'}")
    geometry = Geometry((8, 8), channels, 9, "bicubic", "test")
    assert open_images(tmp_path, geometry=geometry).batch(0, 2).shape == (2, channels, 8, 8)


# --- arrays ---------------------------------------------------------------------------------------

BYTES = np.random.default_rng(0).integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", ">u2", "float16", "float32", "float64"])
def test_layouts_and_types(tmp_path, layout, channels, dtype):
    values = BYTES[..., :channels]
    scaled = {"uint8": values, "u": values.astype("uint16") * 257, "f": values / 255}
    kind = np.dtype(dtype)
    images = scaled["uint8" if dtype == "uint8" else kind.kind].astype(kind)
    images = images.transpose(0, 3, 1, 2) if layout == "NCHW" else images
    expected = torch.tensor(values.transpose(0, 3, 1, 2) / 255, dtype=torch.float32)
    np.save(tmp_path / "x.npy", images)
    np.savez(tmp_path / "x.npz", images=images, labels=np.arange(5))
    for source in (Arrays(images), Arrays.open(tmp_path / "x.npy"), Arrays.open(tmp_path / "x.npz")):
        assert source.layout == layout
        loaded = torch.stack([source.load(i) for i in range(5)])
        assert loaded.dtype == torch.float32
        torch.testing.assert_close(loaded, expected, atol=1e-3 if dtype == "float16" else 1e-7, rtol=0)
    assert source.label(3) == 3


def test_grey_arrays_bool_and_tensors():
    grey = Arrays(BYTES[..., 0])
    assert grey.layout == "NHW"
    assert grey.load(0).shape == (1, 6, 7)
    assert torch.equal(Arrays(BYTES[..., 0] > 99).load(0).unique(), torch.tensor([0.0, 1.0]))
    tensor = torch.rand(4, 3, 5, 5)
    images = open_images(tensor)
    assert torch.equal(images.batch(0, 4), tensor[[int(name) for name in images.ids]])
    assert torch.equal(Arrays(tensor).load(2), tensor[2])


def test_ids_and_labels(tmp_path):
    np.savez(tmp_path / "x.npz", images=BYTES, ids=np.array(list("abcde")), labels=np.arange(5).reshape(5, 1))
    source = Arrays.open(tmp_path / "x.npz")
    assert [source.id(i) for i in range(5)] == list("abcde")
    assert [source.label(i) for i in range(5)] == list(range(5))
    assert Arrays(BYTES).id(4) == "000004"
    assert Arrays(BYTES).label(0) is None


def test_arrays_with_other_keys(tmp_path):
    np.savez(tmp_path / "one.npz", x_test=BYTES, y_test=np.arange(5))
    assert len(Arrays.open(tmp_path / "one.npz")) == 5
    np.savez(tmp_path / "two.npz", x_test=BYTES, x_train=BYTES)
    with pytest.raises(Ambiguous, match="x_test"):
        Arrays.open(tmp_path / "two.npz")
    assert len(Arrays.open(tmp_path / "two.npz", key="x_train")) == 5
    with pytest.raises(UnknownName, match=r"'x_train'\?"):
        Arrays.open(tmp_path / "two.npz", key="x_trian")


@pytest.mark.parametrize("shape", [(4, 3, 5, 3), (4, 1, 5, 3), (32, 32, 3), (3, 32, 32)])
def test_ambiguous_shapes_ask_for_the_layout(shape):
    images = np.zeros(shape, dtype=np.uint8)
    with pytest.raises(Ambiguous, match=r"ambiguous.*layout="):
        Arrays(images)
    layout = "NHW" if len(shape) == 3 else "NCHW"
    assert len(Arrays(images, layout=layout)) == shape[0]


@pytest.mark.parametrize("shape", [(4, 784), (4, 5, 5, 2), (0, 5, 5), (4, 5, 5, 5, 3), (4, 5, 0)])
def test_impossible_shapes_say_what_was_expected(shape):
    with pytest.raises(BadData, match="array"):
        Arrays(np.zeros(shape, dtype=np.uint8))


def test_impossible_layouts():
    with pytest.raises(BadData, match="NCHW"):
        Arrays(BYTES, layout="NCHW")
    with pytest.raises(UnknownName, match="NCHW"):
        Arrays(BYTES, layout="NHWD")


def test_bytes_as_floats_must_be_divided(tmp_path):
    np.save(tmp_path / "x.npy", BYTES.astype(np.float32))
    with pytest.raises(BadData, match="255"):
        open_images(str(tmp_path / "x.npy"))
    late = np.zeros((40, 5, 5), dtype=np.float32)
    late[33] = 200
    with pytest.raises(BadData, match=r"'000033'.*divide"):
        open_images(late).batch(0, 40)


SIXTEEN = np.linspace(0, 16, 50, dtype=np.float32).reshape(2, 5, 5)


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (BYTES.astype(np.int64), "; convert 0-255 integers with .astype('uint8')"),
        (torch.tensor(BYTES).long(), "; convert 0-255 integers with .to(torch.uint8)"),
        (np.eye(5, dtype=np.int64)[None], "int64 of 0 to 1; convert them to float32"),
        (np.eye(5, dtype=np.int64)[None] * 70000, "int64 of 0 to 70000; rescale them"),
        # where white is less than 255, it is asked what white is
        (SIXTEEN, "got 0 to 16; divide by 16 if that is white"),
        (SIXTEEN.astype(np.int64), "got int64 of 0 to 16; divide by 16 if that is white"),
        (torch.tensor(SIXTEEN).long(), "got int64 of 0 to 16; divide by 16 if that is white"),
    ],
)
def test_what_are_no_pixels_of_a_0_1_image_is_refused(images, said):
    with pytest.raises(BadData) as error:
        Arrays(images)
    assert said in str(error.value)


def test_an_image_of_a_dataset_is_asked_what_white_is():
    with pytest.raises(BadData) as error:
        TorchDataset([(torch.tensor(SIXTEEN[1]).int(), 0)]).load(0)
    assert "got int32 of 8 to 16; divide by 16 if that is white" in str(error.value)


def test_nan_is_named():
    images = np.zeros((5, 4, 4), dtype=np.float32)
    images[3, 1, 1] = np.nan
    with pytest.raises(NotFinite, match="000003"):
        open_images(images).batch(0, 5)


def test_labels_must_fit():
    with pytest.raises(Mismatch, match="5 labels"):
        Arrays(BYTES, labels=[0, 1, 2, 3])
    with pytest.raises(BadData, match="float64"):
        Arrays(BYTES, labels=np.zeros(5))


def test_files_that_are_no_arrays(tmp_path):
    (tmp_path / "x.npz").write_text("text")
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "pickle.npz", images=np.array([{}], dtype=object))
    for name, says in [("x.npz", "read"), ("pickle.npy", "read"), ("pickle.npz", "read")]:
        with pytest.raises(BadData, match=says):
            Arrays.open(tmp_path / name)
    with pytest.raises(Missing, match="nowhere"):
        Arrays.open(tmp_path / "nowhere.npy")
    np.save(tmp_path / "fine.npy", BYTES)
    with pytest.raises(Conflict, match="key=a"):
        Arrays.open(tmp_path / "fine.npy", key="a")


def test_the_shared_arrays(shared):
    images = open_images(f"{shared}/data/cifar10_lossless300.npz", images=50)
    assert images.shape == (3, 32, 32)
    assert len(images.labels or []) == 50
    assert 0.4 < images.batch(0, 50).mean() < 0.55


# --- webdataset -----------------------------------------------------------------------------------


def shard(path, samples):
    with tarfile.open(path, "w") as archive:
        for name, data in samples:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def png(seed=0):
    buffer = io.BytesIO()
    picture(seed).save(buffer, format="PNG")
    return buffer.getvalue()


def test_shards(tmp_path):
    shard(
        tmp_path / "a-000.tar", [("./x/1.png", png(1)), ("./x/1.cls", b"7\n"), ("._1.png", b"junk"), ("2.PNG", png(2))]
    )
    shard(tmp_path / "a-001.tar", [("3.cls", b"1"), ("3.json", b"{}"), ("3.png", png(3))])
    braces, wild = WebDataset(str(tmp_path / "a-{000..001}.tar")), WebDataset(str(tmp_path / "*.tar"))
    for source in (braces, wild):
        assert [source.id(i) for i in range(len(source))] == ["x/1", "2", "3"]
        assert [source.label(i) for i in range(3)] == [7, None, 1]
        assert source.load(2).tobytes() == picture(3).tobytes()
    images = open_images(f"webdataset:{tmp_path}/a-{{000..001}}.tar", geometry=SMALL)
    assert images.batch(0, 3).shape == (3, 3, 8, 8)
    assert images.labels is None


def test_samples_with_several_pictures(tmp_path):
    shard(tmp_path / "a.tar", [(f"{n}.{side}.png", png(n)) for n in range(3) for side in ("left", "right")])
    with pytest.raises(Missing, match=r"a\.tar"):
        WebDataset(tmp_path / "a.tar")
    assert len(open_images(f"{tmp_path}/a.tar?column=left.png", geometry=SMALL)) == 3


@pytest.mark.parametrize("column", ["LEFT.PNG", "left.png", "Left.png"])
def test_capitals_of_an_extension_do_not_count(tmp_path, column: str) -> None:
    shard(tmp_path / "a.tar", [(f"{n}.{side}.PNG", png(n)) for n in range(3) for side in ("Left", "Right")])
    assert len(WebDataset(tmp_path / "a.tar", column=column)) == 3


def test_broken_shards_are_named(tmp_path):
    (tmp_path / "text.tar").write_text("no archive")
    with pytest.raises(BadData, match=r"text\.tar.*uncompressed"):
        WebDataset(tmp_path / "text.tar")
    with tarfile.open(tmp_path / "z.tar", "w:gz"):
        pass
    with pytest.raises(BadData, match="uncompressed"):
        WebDataset(tmp_path / "z.tar")
    with pytest.raises(Missing, match="a-000"):
        WebDataset(str(tmp_path / "a-{000..002}.tar"))
    shard(tmp_path / "b.tar", [("1.png", b"junk"), ("2.png", png()), ("2.cls", b"cat"), ("3.png", png(3))])
    source = WebDataset(tmp_path / "b.tar")
    with pytest.raises(BadData, match="'1'"):
        source.load(0)
    with pytest.raises(BadData, match=r"2\.cls"):
        source.label(1)
    assert sorted(open_images(f"{tmp_path}/b.tar?skip_corrupt=yes", geometry=SMALL).ids) == ["2", "3"]


# --- torchvision and Hugging Face -----------------------------------------------------------------


def test_torchvision_fake_data():
    images = open_images("torchvision:FakeData?image_size=3,10,12&num_classes=4", geometry=SMALL, images=20, workers=4)
    again = open_images("torchvision:FakeData?image_size=3,10,12&num_classes=4", geometry=SMALL, images=20, workers=1)
    assert torch.equal(images.batch(0, 20), again.batch(0, 20))
    assert set(images.labels or []) <= set(range(4))


def test_torchvision_mnist_from_disk(tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part, count in (("t10k", 4), ("train", 6)):
        pixels = np.full((count, 28, 28), count, dtype=np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(
            b"\0\0\x08\x03" + np.array([count, 28, 28], dtype=">i4").tobytes() + pixels.tobytes()
        )
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(
            b"\0\0\x08\x01" + np.array([count], dtype=">i4").tobytes() + bytes(range(count))
        )
    test = open_images(f"torchvision:MNIST?root={tmp_path}")
    assert len(test) == 4
    assert test.shape == (1, 28, 28)
    assert torch.equal(test.batch(0, 4), torch.full((4, 1, 28, 28), 4 / 255))
    assert sorted(test.labels or []) == [0, 1, 2, 3]
    assert [int(name) for name in test.ids] == test.labels
    assert len(open_images(f"torchvision:MNIST?root={tmp_path}&split=train")) == 6
    with pytest.raises(BadValue, match="MNIST"):
        open_images(f"torchvision:MNIST?root={tmp_path}&split=val")


def test_torchvision_downloads_only_if_asked(tmp_path, monkeypatch):
    from torchvision import datasets

    asked = []
    for cls in (datasets.CIFAR10, datasets.SEMEION):  # SEMEION downloads unless told not to
        monkeypatch.setattr(cls, "download", lambda self: asked.append(type(self).__name__))
    for name in ("CIFAR10", "SEMEION"):
        for option in ("", "&download=true"):
            with pytest.raises(Failed, match="torchvision"):
                open_images(f"torchvision:{name}?root={tmp_path}{option}")
    assert asked == ["CIFAR10", "SEMEION"]
    with pytest.raises(Unsupported, match="FakeData"):
        open_images("torchvision:FakeData?download=true")


def test_torchvision_errors(tmp_path):
    with pytest.raises(UnknownName, match=r"'CIFAR10'\?"):
        open_images("torchvision:CIFAR11")
    with pytest.raises(Failed, match="download=true"):
        open_images(f"torchvision:CIFAR10?root={tmp_path}")
    with pytest.raises(Conflict, match="FakeData"):
        open_images("torchvision:FakeData?split=test")
    with pytest.raises(UnknownName, match=r"'num_classes'\?"):
        open_images("torchvision:FakeData?num_clases=3")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    return datasets


def local_dataset(datasets, count=5):
    kinds = datasets.Features(
        {"img": datasets.Image(), "fine": datasets.ClassLabel(names=["a", "b"]), "n": datasets.Value("int64")}
    )
    rows = {"img": [picture(i) for i in range(count)], "fine": [i % 2 for i in range(count)], "n": list(range(count))}
    return datasets.Dataset.from_dict(rows, features=kinds)


def test_hugging_face_saved_datasets(offline, tmp_path):
    one = local_dataset(offline)
    one.save_to_disk(str(tmp_path / "one"))
    images = open_images(f"hf:{tmp_path}/one", geometry=SMALL)
    assert images.batch(0, 5).shape == (5, 3, 8, 8)
    assert images.labels == [int(name) % 2 for name in images.ids]
    native = open_images(f"hf:{tmp_path}/one?column=img&label=n")
    assert native.labels == [int(name) for name in native.ids]
    place = native.ids.index("000003")
    expected = torch.tensor(np.array(picture(3))).permute(2, 0, 1) / 255
    assert torch.equal(native.batch(place, place + 1)[0], expected)

    offline.DatasetDict({"train": one, "test": local_dataset(offline, 3)}).save_to_disk(str(tmp_path / "both"))
    assert len(open_images(f"hf:{tmp_path}/both")) == 3
    assert len(open_images(f"hf:{tmp_path}/both?split=train")) == 5
    with pytest.raises(UnknownName, match=r"'train'\?"):
        open_images(f"hf:{tmp_path}/both?split=trian")
    with pytest.raises(UnknownName, match=r"'img'\?"):
        open_images(f"hf:{tmp_path}/both?column=imgs")
    with pytest.raises(BadValue, match="'n'"):
        open_images(f"hf:{tmp_path}/both?column=n")


def test_hugging_face_image_folders(offline, tmp_path):
    for number in range(4):
        save(tmp_path / "set" / "train" / "ab"[number % 2] / f"{number}.png", number)
    images = open_images(f"hf:{tmp_path}/set", geometry=SMALL)
    assert len(images) == 4
    assert sorted(images.labels or []) == [0, 0, 1, 1]


def test_hugging_face_errors(offline, tmp_path):
    with pytest.raises(Failed, match="hf:nobody/nothing"):
        open_images("hf:nobody/nothing")
    plain = offline.Dataset.from_dict({"n": [1, 2, 3]})
    plain.save_to_disk(str(tmp_path / "plain"))
    with pytest.raises(Ambiguous, match=r"\?column="):
        open_images(f"hf:{tmp_path}/plain")


@pytest.mark.parametrize(("module", "spec"), [("torchvision", "torchvision:MNIST"), ("datasets", "hf:a/b")])
def test_an_absent_package_names_its_extra(monkeypatch, module, spec):
    import sys

    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Missing, match=rf"'{module}'.*'\.\[{module}\]"):
        open_images(spec)
