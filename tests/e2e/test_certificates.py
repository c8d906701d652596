"""Certificates from the command line to the report: profiles, brackets, what cannot be certified, exit codes."""

import json
from pathlib import Path

import pytest
import torch
from test_command_line import run
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.certified.linear_radius import LinearRadius
from holdfast.report.documents.audit import document
from holdfast.report.html import write_report
from holdfast.report.render import print_document
from json_records import run_audit, typed

SMALL = ["--data", "digits", "--batch-size", "8", "--set", "*.certifier=crown", "--set", "*.negatives=3"]
CHEAP = [
    "--set", "certified_radius.tolerance=0.001", "--set", "*.steps=10", "--set", "*.attack.steps=5",
    "--set", "smoothed_radius.first=2", "--set", "smoothed_accuracy.first=2", "--set", "center_smoothing.first=2",
    "--set", "center_smoothing.certificate.draws=1300", "--set", "center_smoothing.certificate.distances=1000",
]  # fmt: skip


def record_of(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_profile_certify_reports_brackets(capsys, tmp_path: Path) -> None:
    encoders = ["zoo:digits-supervised", "zoo:digits-simclr-adv"]
    asked = ["audit", *encoders, "--profile", "certify", "--eps", "0.05", "--images", "24", "--attacked", "8"]
    code, out, err = run(capsys, *asked, *SMALL, *CHEAP, "--out", str(tmp_path))
    assert code == 0, err
    assert "broken at" in out
    record = record_of(tmp_path)
    assert record["failures"] == []
    for entry in record["encoders"]:
        assert entry["passes"]["bounds"] > 0
        assert len(entry["extremes"]["least"]) == len(entry["extremes"]["most"]) == 4
        for name in ("certified_radius", "certified_breakaway_risk", "certified_drift", "instance_accuracy"):
            scores, better = entry["measures"][name]["scores"], entry["measures"][name]["better"]
            attack, certificate = scores["attack"]["value"], scores["certificate"]["value"]
            assert certificate <= attack if better == "higher" else attack <= certificate
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in (
        "Least and most robust images",
        "How tight the certificates are",
        'class="found"',
        "bound propagation",
    ):
        assert words in page
    assert "differs" not in page


@pytest.mark.slow
def test_the_profile_rvcl_reads_labels_and_orders_both_radii(capsys, tmp_path: Path) -> None:
    asked = [
        "audit",
        "zoo:digits-simclr-adv",
        "--profile",
        "rvcl",
        "--eps",
        "0.03",
        "--images",
        "300",
        "--attacked",
        "6",
    ]
    settings = ["--set", "*.tolerance=0.001", "--set", "*.steps=10", "--set", "*.attack.steps=5"]
    code, _, err = run(capsys, *asked, *SMALL, *settings, "--out", str(tmp_path))
    assert code == 0, err
    (entry,) = record_of(tmp_path)["encoders"]
    assert entry["checks"]["radius_order"]["status"] == "pass"
    radii = {name: entry["measures"][name]["scores"] for name in ("certified_radius", "linear_radius")}
    assert radii["certified_radius"]["certificate"]["value"] > radii["linear_radius"]["certificate"]["value"] > 0


class Normed(nn.Module):
    """A network whose Hardshrink cannot be bounded."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Hardshrink(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x.flatten(1))


def test_what_cannot_be_certified_is_shown_and_is_no_failure(capsys, tmp_path: Path) -> None:
    from rich.console import Console

    attack = {"name": "pgd", "steps": 3}
    asked = [{"name": name, "attack": attack} for name in ("breakaway_risk", "certified_breakaway_risk")]
    plan = make_plan(AuditRequest(["normed"], "digits", measures=[*asked, "certified_radius"], images=30, attacked=8))
    record = run_audit(plan, tmp_path, encoders={"normed": Encoder(Normed(), mean=0, std=1)})
    assert record["failures"] == []
    measures = record["encoders"][0]["measures"]
    assert measures["breakaway_risk"]["scores"]
    reason = measures["certified_radius"]["not_certified"]
    assert reason.startswith("not certified: Hardshrink at norm")
    print_document(document(typed(record), write_report(tmp_path)), Console(width=200))
    out = capsys.readouterr().out
    assert "not certified" in out
    assert "Hardshrink at norm" in out
    assert "failed for" not in out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "not certified" in page
    assert '<span class="bad">failed</span>' not in page


@pytest.mark.slow
def test_radii_of_the_published_encoders_rise_with_their_training(shared: Path, tmp_path: Path) -> None:
    """RVCL, Figure 4: ACR_CL and ACR_LE grow with the training's ε, and ACR_CL is above ACR_LE."""
    files = [shared / "data" / "encoders" / f"mnist_cnn_a_eps{eps}.safetensors" for eps in ("0", "0.2")]
    names = tuple(f"file:{file}?mean=0&std=1&label={file.stem}" for file in files)
    pairs = CertifiedRadius(negatives=3, tolerance=1e-3, steps=20)
    plan = Plan(names, str(shared / "data" / "mnist_test.npz"), (pairs, LinearRadius(tolerance=1e-3, steps=20)),
                images=300, attacked=4)  # fmt: skip
    record = run_audit(plan, tmp_path)
    assert record["failures"] == []
    found = [{name: m["scores"] for name, m in entry["measures"].items()} for entry in record["encoders"]]
    for scores in found:
        assert scores["certified_radius"]["certificate"]["value"] > scores["linear_radius"]["certificate"]["value"]
    for name in ("certified_radius", "linear_radius"):
        plain, hardened = (scores[name] for scores in found)
        assert hardened["certificate"]["value"] > 3 * plain["certificate"]["value"]
        assert hardened["certificate"]["value"] > plain["attack"]["value"]  # brackets apart: no interval is needed


@pytest.mark.parametrize("setting", ["certified_radius.negatives=0", "certified_radius.divergence=l1"])
def test_bad_settings_are_one_line(capsys, tmp_path: Path, setting: str) -> None:
    asked = ["audit", "zoo:digits-simclr", "--data", "digits", "--profile", "certify", "--set", setting]
    code, _, err = run(capsys, *asked, "--out", str(tmp_path))
    assert code == 2
    assert err.strip().splitlines()[-1].startswith("error: ")
    assert "Traceback" not in err
