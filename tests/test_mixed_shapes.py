"""Pictures of mixed shapes get one shape where an encoder names none: scaled and cropped, never squashed."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

import holdfast
from holdfast.auditing.balls import shape_of
from holdfast.core import Encoder, Geometry
from holdfast.report.verdict import rendering
from holdfast.runtime.errors import Mismatch
from holdfast.sources.data import ImageSet, open_images, render
from holdfast.sources.data.folder import Folder
from holdfast.training.images import TrainingImages

MIXED = [(48, 64), (64, 48), (50, 50), (40, 90), (70, 45), (64, 64), (48, 80), (52, 60), (61, 47), (44, 44)]
ASK = {
    "mean": 0,
    "std": 1,
    "measures": "breakaway_risk",
    "settings": {"*.attack.steps": 2},
    "attacked": 4,
    "budget": "none",
}


def write(folder: Path, sizes: list[tuple[int, int]], grey: tuple[int, ...] = ()) -> Path:
    folder.mkdir(exist_ok=True)
    for number, (height, width) in enumerate(sizes):
        values = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
        picture = PIL.Image.fromarray(values)
        (picture.convert("L") if number in grey else picture).save(folder / f"{number}.png")
    return folder


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return write(tmp_path / "mixed", MIXED)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 8))


def test_any_network_is_audited_on_them_and_the_record_says_how(mixed: Path) -> None:
    record = holdfast.audit(network(), mixed, **ASK)
    (entry,) = record.data["encoders"]
    assert entry["input"] == [3, 48, 48]
    assert (entry["geometry"]["size"], entry["geometry"]["resize"]) == ([48, 48], 48)
    said = "the shorter side to 48 pixels (bilinear), then the central 48 × 48 is cropped; 4 of 10 are enlarged"
    advice = "; ?size=H in the data spec chooses another size"
    assert entry["rendering"].endswith(said)
    assert entry["rendering"].startswith(f"{record.data['data']['images']} images of ")
    assert " ".join(str(record).split()).count(said + advice) == 1
    spelt = holdfast.audit(network(), f"{mixed}?size=48", **ASK)
    assert spelt["breakaway_risk"] == record["breakaway_risk"]
    words = " ".join(str(spelt).split())
    assert said in words
    assert advice not in words


@pytest.mark.slow
def test_the_encoders_are_named_where_others_say_how_large_their_pictures_are(mixed: Path) -> None:
    own = Encoder(network(), mean=0, std=1, geometry=Geometry((32, 32), 3, 36), name="sized")
    record = holdfast.audit([own, network()], mixed, **ASK | {"attacked": 2})
    sized, unsized = record.data["encoders"]
    assert (sized["input"], unsized["input"]) == ([3, 32, 32], [3, 48, 48])
    sentences = rendering(record.run.record)
    assert sentences[0] == f"for sized: {sized['rendering']}"
    assert "the shorter side to 36 pixels (bilinear), then the central 32 × 32 is cropped" in sentences[0]
    assert sentences[1].startswith(f"for {unsized['name']}: {unsized['rendering']}; ?size=H")
    page = Path(record.report(mixed.parent / "report.html")).read_text(encoding="utf-8")
    assert f"F{sentences[1][1:]}." in page


def test_what_is_seen_is_cropped_not_squashed(mixed: Path) -> None:
    images = open_images(mixed)
    geometry = images.common_geometry
    assert geometry == Geometry((48, 48), 3, 48, "bilinear", geometry.source if geometry else "")
    seen = images.with_geometry(geometry).batch(0, len(images))
    for name, pixels in zip(images.ids, seen, strict=True):
        assert torch.equal(pixels, render(PIL.Image.open(mixed / name), geometry))
    assert shape_of(images) == (3, 48, 48), "the usual ball is that of what the encoder sees"
    assert torch.equal(TrainingImages(str(mixed), geometry=None).batch(torch.arange(len(seen))), seen)


def test_photos_become_224_pixels_and_one_small_one_changes_nothing(tmp_path: Path) -> None:
    photos = write(tmp_path / "photos", [(300, 400), (400, 300), (260, 300), (20, 30)])
    assert getattr(open_images(photos).common_geometry, "size", None) == (224, 224)


def test_one_shape_stays_as_it_is_and_so_does_what_the_user_asks_for(tmp_path: Path, mixed: Path) -> None:
    alike = write(tmp_path / "alike", [(40, 60)] * 4)
    assert open_images(alike).common_geometry is None
    assert open_images(alike).shape == (3, 40, 60)
    assert open_images(f"{mixed}?size=32").common_geometry is None
    own = open_images(mixed, geometry=Geometry((32, 32), 3, 36, "bicubic", "its own"))
    assert own.shape == (3, 32, 32)


def test_grey_pictures_among_colours_become_rgb(tmp_path: Path) -> None:
    images = open_images(write(tmp_path / "some-grey", [(40, 60)] * 5, grey=(1, 3)))
    assert images.with_geometry(images.common_geometry).batch(0, 5).shape == (5, 3, 40, 60)
    assert open_images(write(tmp_path / "grey", [(40, 60)] * 3, grey=(0, 1, 2))).shape == (1, 40, 60)


def test_a_picture_that_exif_turns_has_the_shape_that_is_shown(tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    for number in range(3):
        PIL.Image.new("RGB", (30, 20), (number, 0, 0)).save(tmp_path / f"{number}.jpg", exif=exif)
    assert Folder(tmp_path).shape(0) == (3, 30, 20) == open_images(tmp_path).shape


class Late(Folder):
    """A folder whose one picture of another shape comes after those that are looked at first."""

    def shape(self, index: int) -> tuple[int, int, int]:
        return 3, 40, 60


def test_a_late_one_of_another_shape_is_met_when_all_are_read(tmp_path: Path) -> None:
    images = ImageSet(Late(write(tmp_path / "late", [(40, 60)] * 6 + [(60, 40)])))
    assert images.common_geometry is None
    with pytest.raises(Mismatch, match="size=40"):
        images.batch(0, 7)
    assert images.fingerprint
    geometry = images.common_geometry
    assert images.with_geometry(geometry).batch(0, 7).shape == (7, 3, 40, 40)
    other = ImageSet(Late(tmp_path / "late"))  # in another process
    other.recall(images.selection)
    assert other.common_geometry == geometry
