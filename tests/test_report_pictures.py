"""Pictures in the report: as many as it has room for, as small as they may be, none lost without a word."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.cli import app
from holdfast.report import pictures
from holdfast.report.folder import read_picture
from holdfast.report.html import PICTURED, publish, write_report
from holdfast.runtime.errors import UnreadableRecord
from holdfast.storage.entry import read_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import EncoderEntry
from holdfast.storage.record_file import RunFiles
from report_fixture import make_run, no_charts, write_record
from test_report_noises import STRUCTURES, make_noises

PHOTO = 224


def entries(folder: Path, count: int, side: int = PHOTO) -> list[dict[str, Any]]:
    """Write pictures of so many smallest changes, and return what a record says of them."""
    random = np.random.default_rng(0)
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    across = np.linspace(0, 255, side)
    even = np.stack(
        [across[:, None] + 0 * across, across + 0 * across[:, None], 0 * across[:, None] + 99 + 0 * across], -1
    )
    noise = random.integers(0, 2, (side, side, 3)) * 255
    files = {}
    for name, pixels in (("clean", even), ("attacked", even), ("difference", noise), ("rival", even)):
        files[name] = f"pictures/{name}.png"
        PIL.Image.fromarray(pixels.astype(np.uint8)).save(folder / files[name])
    rival = {"id": "another", "picture": files.pop("rival")}
    return [
        {"id": f"image {k}", "radius": (k + 1) / 1000, "norm": "ℓ∞", "levels": 0.255 * (k + 1), "amplified": 127.5,
         "rival": rival, **files}
        for k in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(("encoders", "shown"), [(1, 12), (2, 12), (3, 8), (6, 4), (40, 2)])
def test_as_many_changes_are_shown_as_a_report_has_room_for(encoders: int, shown: int, tmp_path: Path) -> None:
    entry = {"name": "e", "changes": entries(tmp_path, 12)}
    changes = pictures.changes(read_json(entry, EncoderEntry), RunFiles(Folder(tmp_path), {}), encoders)
    assert len(changes) == shown
    assert (changes[0].id, changes[-1].id) == ("image 0", "image 11")
    assert changes[-1].text == "3.1/255 in ℓ∞, taken for another"
    assert [shot.caption for shot in changes[0].shots] == ["before", "after", "× 128", "taken for"]
    assert changes[0].sort == 0.001
    entry["changes"][0] |= {"edit": "JPEG 30", "norm": "", "levels": None}
    edited = pictures.changes(read_json(entry, EncoderEntry), RunFiles(Folder(tmp_path), {}), encoders)
    assert edited[0].text == "JPEG 30, taken for another"


def test_large_pictures_are_small_files_and_noise_stays_noise(tmp_path: Path) -> None:
    folder, (entry,) = RunFiles(Folder(tmp_path), {}), entries(tmp_path, 1)
    whole, small = read_picture(folder, entry["clean"]), read_picture(folder, entry["clean"], 176)
    assert whole.uri.startswith("data:image/png")
    assert (whole.width, small.width) == (224, 176)
    assert small.uri.startswith("data:image/webp")
    assert len(small.uri) < 8000
    sparse = read_picture(folder, entry["difference"], 112, sparse=True)
    assert (sparse.width, sparse.height) == (112, 112)
    pixels = np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(sparse.uri.partition(",")[2]))))
    mean = np.asarray(PIL.Image.open(tmp_path / entry["difference"]).resize((112, 112), PIL.Image.Resampling.BOX))
    assert pixels.std() > 1.2 * mean.std()
    (tiny,) = entries(tmp_path / "tiny", 1, side=28)
    assert read_picture(RunFiles(Folder(tmp_path / "tiny"), {}), tiny["clean"], 176).uri.startswith("data:image/png")


def test_a_damaged_picture_says_so(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path, 1)
    path = tmp_path / entry["clean"]
    path.write_bytes(path.read_bytes()[:200])
    folder = RunFiles(Folder(tmp_path), {})
    with pytest.raises(UnreadableRecord, match="damaged"):
        read_picture(folder, entry["clean"], 176)
    (change,) = pictures.changes(read_json({"name": "e", "changes": [entry]}, EncoderEntry), folder, 1)
    assert change.shots[0].picture is None
    assert "damaged" in change.shots[0].problem


def test_a_report_of_three_encoders_on_photos_is_below_two_megabytes(tmp_path: Path) -> None:
    record = make_run(tmp_path)
    for encoder in record["encoders"]:
        encoder["changes"] = entries(tmp_path, 12)
        encoder["changes"][2]["id"] = "<b>&amp;</b>"
    write_record(tmp_path, record)
    with no_charts():
        page = write_report(tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.count("× 128</figcaption>") == 3 * 8
    assert "&lt;b&gt;&amp;amp;&lt;/b&gt;" in text
    assert page.stat().st_size < 1.5e6  # charts take less than half a megabyte


def of_every_kind(folder: Path) -> dict[str, Any]:
    """Return a record of one encoder that has pictures of images of every kind."""
    record = make_run(folder, 1)
    noises, encoder = make_noises(folder, record), record["encoders"][0]
    (change,) = encoder["changes"] = entries(folder, 1)
    image, pair = change["clean"], {"id": "image 0", "clean": change["clean"]}
    encoder["extremes"] = {"least": [{"id": "image 0", "picture": image, "certificate": 0.1, "attack": 0.2}]}
    hub = {key: change[key] for key in ("id", "amplified", "clean", "attacked", "difference")}
    query = {"id": "image 1", "picture": image}
    encoder["hubs"] = [hub | {"title": "a hub", "taken": 3, "asked": 9, "queries": [query]}]
    side = [pair | {"said": 1, "attacked": image}]
    encoder["impersonations"] = [{"title": "impersonation", "classes": [0, 1], "sides": [side, side]}]
    learned = {"title": "universal", "measures": [], "learned_on": 9, "amplified": 2.0, "picture": image}
    encoder["perturbations"] = [learned | {"pictures": [pair | {"disturbed": image}]}]
    strip = {"title": "clean", "picture": image, "agreement": {}}
    encoder["attention"] = {
        "images": ["image 0"], "left_out": [], "passes": {"forward": 1, "backward": 1}, "layer": "last",
        "readings": ["representation"], "probe": None, "strips": [strip],
    }  # fmt: skip
    assert noises[0]["pictures"]
    write_record(folder, record)
    return record


def test_a_report_without_pictures_shows_no_image_and_all_else(tmp_path: Path) -> None:
    of_every_kind(tmp_path)
    with no_charts():
        whole, without = (Path(publish(tmp_path, with_pictures=shown)).read_text("utf-8") for shown in (True, False))
    titles = (
        "Smallest changes",
        "Worst images",
        "Hubs",
        "Least and most",
        "Impersonations",
        "One perturbation",
        "Grad-CAM",
    )
    for title in titles:
        assert title in whole, title
        assert title not in without, title
    assert whole.count("<img") > 6 + len(STRUCTURES)
    assert "<img" not in without
    assert "data:image" not in without
    assert "Pictures of images were left out" in without
    assert "Pictures of images were left out" not in whole
    for kept in ('id="answer"', 'id="scorecard"', 'id="charts"', 'id="noises"', "Mixture weights"):
        assert kept in without, kept


@pytest.mark.parametrize("kind", sorted(PICTURED))
def test_every_kind_of_picture_is_shown_without_the_others(kind: str, tmp_path: Path) -> None:
    record = of_every_kind(tmp_path)
    for other in PICTURED.keys() - {kind}:
        record["encoders"][0].pop(other, None)
    record["encoders"][0]["noises"] = []
    write_record(tmp_path, record)
    with no_charts():
        assert "<img" in write_report(tmp_path).read_text("utf-8")


def test_the_command_leaves_pictures_out(tmp_path: Path) -> None:
    of_every_kind(tmp_path)
    with no_charts():
        assert CliRunner().invoke(app, ["report", str(tmp_path), "--no-pictures"]).exit_code == 0
        assert "<img" not in (tmp_path / "report.html").read_text("utf-8")
        holdfast.open(tmp_path).report(tmp_path / "other.html", pictures=False)
    assert "<img" not in (tmp_path / "other.html").read_text("utf-8")
