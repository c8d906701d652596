"""Data sets of the papers, in the layout that they come in, read by the specs that the page of sources names."""

import re
import subprocess
from pathlib import Path

import PIL.Image
import pytest

from holdfast.sources.data import ImageSet, open_images

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "sources.md"


def picture(path: Path, grey: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("RGB", (8, 6), (grey, grey, grey)).save(path)


def labels(images: ImageSet) -> dict[str, int]:
    assert images.labels is not None
    return dict(zip(images.ids, images.labels, strict=True))


def written(spec: str) -> str:
    """Return a spec, which the page must name."""
    assert f"`{spec}`" in PAGE.read_text() or f"`'{spec}'`" in PAGE.read_text(), spec
    return spec


def run_lines(where: str) -> None:
    """Run a line of the page's block of commands."""
    (line,) = (line for line in PAGE.read_text().splitlines() if line.startswith(where))
    subprocess.run(["bash", "-c", line], check=True)


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_pass_is_a_folder_of_one_class() -> None:
    for name in ("0a", "1b", "2c"):
        picture(Path(f"PASS_dataset/dummy_folder/{name}.jpeg"))
    assert set(labels(open_images(written("folder:PASS_dataset"))).values()) == {0}


def test_assira_leaves_out_what_is_no_picture() -> None:
    for kind, grey in (("Cat", 10), ("Dog", 200)):
        for number in (0, 1):
            picture(Path(f"PetImages/{kind}/{number}.jpg"), grey + number)
        Path(f"PetImages/{kind}/Thumbs.db").write_bytes(b"none")
    Path("PetImages/Cat/666.jpg").write_bytes(b"")
    images = open_images(written("folder:PetImages?skip_corrupt=true"))
    assert labels(images) == {"Cat/0.jpg": 0, "Cat/1.jpg": 0, "Dog/0.jpg": 1, "Dog/1.jpg": 1}


def test_pets_of_kaggle_are_listed() -> None:
    for name in ("cat.0", "cat.1", "dog.0"):
        picture(Path(f"train/{name}.jpg"))
    run_lines("for f in train")
    images = open_images(written("list:pets.txt"))
    assert labels(images) == {"train/cat.0.jpg": 0, "train/cat.1.jpg": 0, "train/dog.0.jpg": 1}
    assert images.batch(0, 1).shape == (1, 3, 6, 8)


def test_generated_images_have_the_class_of_their_folder() -> None:
    for number in range(10):
        picture(Path(f"generated/{number}/seed0000.png"))
    images = open_images(written("folder:generated"))
    assert labels(images) == {f"{number}/seed0000.png": number for number in range(10)}


def test_imagenet_100_is_a_folder_of_links() -> None:
    for synset in ("n02869837", "n01749939", "n02488291"):
        picture(Path(f"imagenet/val/{synset}/1.JPEG"))
    Path("imagenet100.txt").write_text("n02869837\nn01749939\n")
    run_lines("mkdir imagenet100")
    assert labels(open_images(written("folder:imagenet100"))) == {"n01749939/1.JPEG": 0, "n02869837/1.JPEG": 1}


def test_imagenet_lt_is_a_list_below_a_folder() -> None:
    for number in (0, 1):
        picture(Path(f"imagenet/train/n0144076{number}/n_{number}.JPEG"))
    Path("ImageNet_LT_train.txt").write_text("train/n01440761/n_1.JPEG 1\ntrain/n01440760/n_0.JPEG 0\n")
    images = open_images(written("list:ImageNet_LT_train.txt?root=imagenet"))
    assert labels(images) == {"train/n01440761/n_1.JPEG": 1, "train/n01440760/n_0.JPEG": 0}
    assert images.batch(1, 2).shape == (1, 3, 6, 8)
    assert re.search(r"balance=long_tail", PAGE.read_text())
