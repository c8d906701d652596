"""Pictures of learned noises: what an audit writes, that it costs no encoder pass, and what the report says."""

import copy
import errno
import json
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest
import torch

from holdfast.auditing.plan import Plan
from holdfast.auditing.score import Scoring
from holdfast.core import HoldfastError, Rng
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.probabilistic.worst_noise_robustness import WorstNoiseRobustness
from holdfast.parts.observations import attacked, worst_noise
from holdfast.parts.observations.shared import noise_pictures as module
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.mixture import Mixture
from holdfast.report.html import write_report
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.run_folder import StoreError
from json_records import run_audit

ENCODER, ATTACKED = "zoo:digits-simclr", 12
QUICK = {"epochs": 2, "samples": 2, "latent": 16, "hidden": 16, "clusters": 4}
MEASURES = (
    WorstNoiseRobustness(Nearest(), learner=WorstMixture("joint", **QUICK), ball=Linf(0.2)),
    WorstNoiseRobustness(Nearest(), learner=WorstMixture("independent", components=1, **QUICK), ball=Linf(0.2)),
    WorstNoiseRobustness(Misclassified(), learner=WorstMixture("label", groups="labels", **QUICK), ball=L2(1.5)),
    WorstNoiseRobustness(
        Misclassified(), learner=WorstMixture("input", upsampler="none", covariance="diagonal", **QUICK), ball=L2(1.5)
    ),
)


def audit(folder: Path, measures=MEASURES[:1]) -> dict:
    return run_audit(Plan((ENCODER,), "digits", measures, images=200, attacked=ATTACKED, seed=5), folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder and the record of an audit whose pictures were seen to cost no encoder pass."""
    folder, pictures = tmp_path_factory.mktemp("run"), Scoring._pictures

    def watched(self, *observed):
        before = self.session.encoder.passes
        entries = pictures(self, *observed)
        assert self.session.encoder.passes == before
        return entries

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scoring, "_pictures", watched)
        record = audit(folder, MEASURES)
    assert record["failures"] == []
    return folder, record


def entries(run) -> list[dict]:
    return run[1]["encoders"][0]["noises"]


def table(run, name: str) -> dict[str, np.ndarray]:
    return {key: np.array(values) for key, values in pq.read_table(run[0] / name).to_pydict().items()}


def test_there_is_an_entry_for_every_noise(run):
    found = entries(run)
    assert [entry["structure"] for entry in found] == ["joint", "independent", "label", "input"]
    assert [entry["grouped"] for entry in found] == ["cluster", "cluster", "label", "label"]
    assert [entry["measures"] for entry in found] == [[name] for name in run[1]["encoders"][0]["measures"]]
    assert [entry["ball"]["radius"] for entry in found] == [0.2, 0.2, 1.5, 1.5]
    assert all(len(entry["training"]["chance"]) == 2 for entry in found)
    assert found[1]["training"]["entropy"] == [None, None]  # one component has no entropy ratio
    assert [len(entry["weights"]["groups"]) > 0 for entry in found] == [True, False, True, False]
    assert len(json.dumps(found, indent=1)) < 7000 * len(found)


def test_the_table_holds_draws_of_the_noise_in_the_file(run):
    images = open_images("digits", images=200, seed=5)
    encoder = open_encoder(ENCODER)
    x = images.with_geometry(encoder.geometry).batch(0, ATTACKED)
    with torch.no_grad():
        reps = encoder(x)
    rng = Rng(5, ids=tuple(images.ids[:ATTACKED])).child("pictures of noise")
    for entry in entries(run):
        mixture = Mixture(str(run[0] / entry["file"]))
        noise = mixture.at(reps, torch.tensor(images.labels[:ATTACKED]))
        draws = table(run, entry["table"])
        z = rng.normal(4, mixture.numbers(x))
        expected = noise.delta(z).mean(2).flatten(0, 1).flatten(1)  # 8 x 8: nothing to average
        found = np.column_stack([draws[f"pixel_{i:02d}"] for i in range(64)])
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
        assert draws["id"].tolist() == [image for image in rng.ids for _ in range(4)]
        assert np.isfinite(draws["pca_x"]).all()
        assert np.isfinite(draws["tsne_y"]).all()
        weights = noise.weights(ATTACKED)
        np.testing.assert_allclose(entry["weights"]["mean"], weights.mean(0).numpy(), atol=1e-3)
        covariance = table(run, entry["covariance"]["table"])
        size = entry["covariance"]["size"]
        cells = np.column_stack([covariance[f"latent_{i:02d}"] for i in range(size)])
        np.testing.assert_allclose(cells, noise.covariance(ATTACKED).mean(0).numpy(), rtol=1e-2, atol=1e-4)


def test_groups_are_those_of_the_noise(run):
    labels = open_images("digits", images=200, seed=5).labels[:ATTACKED]
    for entry in entries(run)[2:]:
        named = [entry["groups"][code] for code in table(run, entry["table"])["group"][::4]]
        assert named == [f"label {label}" for label in labels]
    joint = entries(run)[0]
    noise = Mixture(str(run[0] / joint["file"])).noise
    assert set(joint["groups"]) <= {f"cluster {i}" for i in range(len(noise.generator.groups))}


def test_differences_are_amplified_by_what_is_said(run):
    def pixels(name: str) -> np.ndarray:
        return np.asarray(PIL.Image.open(run[0] / name)) / 255.0

    for entry in entries(run):
        assert len(entry["pictures"]) == 6
        assert len({picture["group"] for picture in entry["pictures"]}) == min(6, len(entry["groups"]))
        for picture in entry["pictures"]:
            clean = pixels(picture["clean"])
            for draw in picture["draws"]:
                moved = pixels(draw["disturbed"]) - clean
                expected = np.clip(0.5 + entry["amplified"] * moved, 0, 1)
                rounding = (entry["amplified"] + 0.5) / 255
                np.testing.assert_allclose(pixels(draw["difference"]), expected, atol=1.01 * rounding)


@pytest.mark.slow
def test_the_report_shows_every_noise(run):
    text = write_report(run[0]).read_text(encoding="utf-8")
    section = text[text.index('<details class="fold" id="noises"') :]
    section = section[: section.index('<details class="fold"', 1)]
    assert all(entry["file"] in section for entry in entries(run))
    assert section.count("<figcaption>Perturbations, t-SNE") == 4
    assert section.count("<img") == 4 * 6 * 5
    assert "there is none" not in section
    assert "cannot be read" not in section


@pytest.mark.slow
def test_a_second_audit_writes_the_same(run):
    before = copy.deepcopy(entries(run))
    tables = {entry["table"]: (run[0] / entry["table"]).read_bytes() for entry in before}
    again = audit(run[0], MEASURES)
    assert again["run"]["resumed_shards"] > 0
    assert again["encoders"][0]["noises"] == before
    assert all((run[0] / name).read_bytes() == data for name, data in tables.items())


def test_an_audit_without_noises_has_none(tmp_path):
    record = audit(tmp_path, (UniversalQuantile(),))
    assert record["encoders"][0]["noises"] == []
    assert not (tmp_path / "noises").exists()
    assert 'id="noises"' not in write_report(tmp_path).read_text(encoding="utf-8")


def test_pictures_that_fail_do_not_end_the_audit(tmp_path, monkeypatch):
    def fail(disturbed):
        raise RuntimeError("no picture today")

    monkeypatch.setattr(module, "look", fail)
    record = audit(tmp_path)
    assert ["no picture today" in failure for failure in record["failures"]] == [True]
    assert record["encoders"][0]["noises"] == []
    assert all(measure["error"] is None for measure in record["encoders"][0]["measures"].values())


@pytest.mark.slow
def test_a_noise_that_cannot_be_drawn_does_not_hide_the_others(tmp_path, monkeypatch):
    look = module.look

    def fail(disturbed):
        if disturbed.noise.generator.design.structure == "joint":
            raise HoldfastError("labels [3] were not there when the mixture was learned")
        return look(disturbed)

    monkeypatch.setattr(module, "look", fail)
    record = audit(tmp_path, MEASURES[:2])
    joint, independent = record["encoders"][0]["noises"]
    assert record["failures"] == []
    assert joint["problem"] == "labels [3] were not there when the mixture was learned"
    assert Mixture(str(tmp_path / joint["file"])).noise.generator.design.structure == "joint"
    assert len(joint["training"]["chance"]) == 2
    assert joint["title"]
    assert independent["problem"] is None
    assert len(independent["pictures"]) == 6
    assert "No pictures: labels [3] were not there" in write_report(tmp_path).read_text(encoding="utf-8")


def test_a_gallery_that_fails_does_not_hide_the_noises(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no gallery today")

    monkeypatch.setattr(attacked, "gallery", fail)
    record = audit(tmp_path, (UniversalQuantile(Pgd(2)), *MEASURES[:1]))
    assert ["no gallery today" in failure for failure in record["failures"]] == [True]
    assert len(record["encoders"][0]["noises"][0]["pictures"]) == 6


def test_a_full_disk_ends_the_audit(tmp_path, monkeypatch):
    def full(noise, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(worst_noise, "save", full)
    with pytest.raises(StoreError, match="noises"):
        audit(tmp_path)
