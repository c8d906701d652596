"""Attention maps in whole audits: which strips there are, what they show, what they cost, what the report says."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from holdfast.auditing.artifacts import attention as module
from holdfast.auditing.artifacts.grad_cam import attention
from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Measure, Rng
from holdfast.parts.measures.corruptions.corrupted_accuracy import CorruptedAccuracy
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.trained import Trained
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.report.html import write_report
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.entry import as_json
from holdfast.storage.pictured import AttentionEntry
from json_records import run_audit
from report_fixture import make_run, write_record
from test_report_html import Page

ENCODER, ATTACKED = "zoo:digits-simclr", 12
THREATS = (Gamma(0.2), GlobalShuffle(2), Gaussian(0.3))
TITLES = ["clean", "γ 0.2", "G2x2", "gaussian"]
LAYER = "network.3"


def audit(folder: Path, *measures: Measure, **encoders: Encoder) -> dict:
    plan = Plan(tuple(encoders) or (ENCODER,), "digits", measures, images=150, attacked=ATTACKED, seed=5)
    return run_audit(plan, folder, encoders=encoders, overwrite=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("run")
    record = audit(folder, CorruptedAccuracy(Linear(), threats=THREATS))
    assert record["failures"] == []
    return folder, record["encoders"][0]


def pixels(folder: Path, name: str) -> np.ndarray:
    return np.asarray(PIL.Image.open(folder / name)) / 255.0


def test_there_is_a_strip_for_every_corruption(run) -> None:
    folder, entry = run
    found = entry["attention"]
    assert [strip["title"] for strip in found["strips"]] == TITLES
    assert len(found["images"]) == 8
    assert found["readings"] == ["representation", "class"]
    assert found["probe"]["name"] == "linear"
    assert found["layer"] == LAYER
    assert found["left_out"] == []
    for strip in found["strips"]:
        assert pixels(folder, strip["picture"]).shape == (3 * 64 + 2 * 4, 8 * 64 + 7 * 4, 4)


def test_passes_are_counted_apart(run) -> None:
    _, entry = run
    each = 8 * 2 * len(TITLES)  # images, readings, strips
    assert entry["attention"]["passes"] == {"forward": each, "backward": each, "bounds": 0}
    assert entry["passes"]["forward"] == entry["passes"]["predicted"]["forward"]


def expected(titles: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return clean images, images of a strip, and the maps of their representation, found without the audit."""
    images, encoder = open_images("digits", images=150, seed=5), open_encoder(ENCODER)
    images = images.with_geometry(encoder.geometry)
    with torch.no_grad():
        reps = encoder(images.batch(0, 150))
    x = images.batch(0, 8)
    moved = x if not titles else THREATS[titles - 1].sample(x, Rng(5, ids=tuple(images.ids[:8])).child("represented"))
    return x, moved, attention(encoder, moved, reps[:8] - reps.mean(0)).upsample(8, 8)


@pytest.mark.parametrize("number", range(len(TITLES)))
def test_strips_show_images_and_their_maps(run, number: int) -> None:
    folder, entry = run
    picture = pixels(folder, entry["attention"]["strips"][number]["picture"])
    _, x, maps = expected(number)
    share = 0.8 * maps / maps.amax((1, 2), keepdim=True)
    for i in range(8):
        tile = picture[:64, i * 68 : i * 68 + 64][4::8, 4::8]
        np.testing.assert_allclose(tile[..., :3], x[i].expand(3, -1, -1).permute(1, 2, 0).numpy(), atol=0.003)
        tile = picture[68 : 68 + 64, i * 68 : i * 68 + 64][4::8, 4::8]
        for channel, glow in enumerate((1.0, 0.4, 0.0)):
            shown = (1 - share[i]) * x[i, 0] + share[i] * glow
            np.testing.assert_allclose(tile[..., channel], shown.numpy(), atol=0.004)
    assert (picture[64:68] == 0).all()  # transparent


def test_agreement_is_the_correlation_with_the_moved_map(run) -> None:
    _, entry = run
    first = expected(0)[2]
    for number, strip in enumerate(entry["attention"]["strips"][1:], 1):
        before = GlobalShuffle(2).sample(first[:, None], Rng(0))[:, 0] if number == 2 else first
        pairs = zip(before.flatten(1).numpy(), expected(number)[2].flatten(1).numpy(), strict=True)
        wanted = [np.corrcoef(a, b)[0, 1] for a, b in pairs]
        np.testing.assert_allclose(strip["agreement"]["representation"], wanted, atol=1e-4)
        assert max(strip["agreement"]["class"]) <= 1


def test_the_last_row_is_about_the_class_of_each_image(tmp_path: Path) -> None:
    images, encoder = open_images("digits", images=150, seed=5), open_encoder(ENCODER)
    images = images.with_geometry(encoder.geometry)
    weights = torch.randn(10, 64, generator=torch.Generator().manual_seed(0)) + 0.5  # what all logits share is no class
    save_file({"weight": weights}, tmp_path / "head.safetensors")
    probe = Trained(str(tmp_path / "head.safetensors"))
    record = audit(tmp_path, CorruptedAccuracy(probe, threats=THREATS[:1]))
    assert images.labels is not None
    x, labels = images.batch(0, 8), torch.tensor(images.labels[:8])
    maps = attention(encoder, x, (weights - weights.mean(0))[labels]).upsample(8, 8)
    picture = pixels(tmp_path, record["encoders"][0]["attention"]["strips"][0]["picture"])
    for i in range(8):
        share = 0.8 * maps[i] / maps[i].max().clamp_min(1e-9)  # nothing speaks for some of these classes
        tile = picture[136:200, i * 68 : i * 68 + 64, 0][4::8, 4::8]
        np.testing.assert_allclose(tile, ((1 - share) * x[i, 0] + share).numpy(), atol=0.004)


def test_without_labels_there_is_one_kind_of_map(tmp_path: Path) -> None:
    found = audit(tmp_path, CorruptionDrift(THREATS[:1]))["encoders"][0]["attention"]
    assert (found["readings"], found["probe"]) == (["representation"], None)


def test_an_audit_without_corruptions_has_no_maps(tmp_path: Path) -> None:
    record = audit(tmp_path, UniversalQuantile())
    assert record["encoders"][0]["attention"] == as_json(AttentionEntry())
    assert 'id="attention"' not in write_report(tmp_path).read_text(encoding="utf-8")


def test_an_encoder_without_positions_says_so(tmp_path: Path) -> None:
    flat = Encoder(nn.Flatten(), mean=0, std=1, name="flat")
    record = audit(tmp_path, CorruptionDrift(THREATS[:1]), flat=flat)
    assert record["failures"] == []
    assert "maps need a convolutional network" in record["encoders"][0]["attention"]["problem"]
    assert "No maps: attention: expected positions in" in Page(write_report(tmp_path).read_text("utf-8")).text


def test_many_corruptions_are_thinned_out(tmp_path: Path) -> None:
    found = audit(tmp_path, CorruptionDrift(tuple(Gamma(1 + i / 10) for i in range(25))))["encoders"][0]["attention"]
    assert [strip["title"] for strip in found["strips"]][:4] == ["clean", "γ 1", "γ 1.2", "γ 1.4"]
    assert len(found["strips"]) == 12
    assert len(found["left_out"]) == 14
    assert "γ 1.1, γ 1.3, γ 1.5, γ 1.7 and 10 more" in write_report(tmp_path).read_text("utf-8")


def test_maps_that_fail_do_not_end_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_) -> None:
        raise RuntimeError("no map today")

    monkeypatch.setattr(module, "attention", fail)
    record = audit(tmp_path, CorruptionDrift(THREATS[:1]))
    assert ["no map today" in failure for failure in record["failures"]] == [True]
    assert record["encoders"][0]["measures"]["corruption_drift"]["error"] is None


def section(folder: Path) -> str:
    text = write_report(folder).read_text(encoding="utf-8")
    Page(text)
    start = text.index('<details class="fold" id="attention"')
    return text[start : text.index('<details class="fold"', start + 1)]


def test_the_report_shows_every_strip(run) -> None:
    folder, entry = run
    html = section(folder)
    assert html.count("<img") == len(TITLES)
    values = entry["attention"]["strips"][1]["agreement"]["representation"]
    mean, least, most = (f"{v:.2f}".replace("-", "−") for v in (np.mean(values), min(values), max(values)))
    assert f"the representation {mean} ({least} to {most})" in html
    assert "8 images, γ 0.2, above their attention maps for the representation and for the class" in html
    assert 'alt=""' not in html
    assert 'href="#attention"' in (folder / "report.html").read_text("utf-8")


HOSTILE = '"><img src=x onerror=alert(1)>'


def test_names_are_escaped_and_missing_pictures_named(tmp_path: Path) -> None:
    record = make_run(tmp_path, 1)
    record["encoders"][0]["attention"] = {
        "images": [HOSTILE], "layer": HOSTILE, "readings": ["representation"], "probe": None, "left_out": [HOSTILE],
        "passes": {"forward": 8, "backward": 8},
        "strips": [{"title": HOSTILE, "picture": "none.png", "agreement": {"representation": [None]}}],
    }  # fmt: skip
    write_record(tmp_path, record)
    html = section(tmp_path)
    assert HOSTILE not in html
    assert "expected a PNG picture at none.png" in html
    assert "alike" not in html[html.index('<details class="group"') :]  # nothing is known
    record["encoders"][0]["attention"] = {"problem": HOSTILE}
    write_record(tmp_path, record)
    assert HOSTILE not in section(tmp_path)
