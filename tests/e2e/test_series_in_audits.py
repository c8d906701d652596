"""Checkpoints of a training in whole audits: what the record says of them, and the section of the report."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.series import Series
from holdfast.cli import app
from holdfast.core import Encoder, Score
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.threats.gamma import Gamma
from holdfast.report.html import write_report
from holdfast.report.numbers import number, score
from holdfast.sources.data.digits import train_images
from holdfast.sources.encoders.shared.networks import NETWORKS
from holdfast.storage.entry import as_json
from holdfast.storage.record import FluctuationEntry
from json_records import run_audit
from report_fixture import SOUND, write_record
from test_report_html import Page

EPOCHS = (0, 1, 2, 6)
MEASURES = [
    {"name": "probe_accuracy"},
    {"name": "corruption_drift", "threats": [{"kind": "threats", "name": "gamma", "gamma": 0.2}]},
]


def train(folder: Path, seed: int, rate: float) -> None:
    """Train a digit encoder with a head, and keep it after some epochs."""
    folder.mkdir()
    x, y = train_images()
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net, head = NETWORKS["digits_cnn"].build(), nn.Linear(64, 10)
    optimiser = torch.optim.Adam([*net.parameters(), *head.parameters()], rate)
    for epoch in range(max(EPOCHS) + 1):
        if epoch in EPOCHS:
            save_file(net.state_dict(), folder / f"epoch{epoch}.safetensors")
        for rows in torch.randperm(len(x), generator=generator).split(128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(head(net(x[rows])), y[rows]).backward()
            optimiser.step()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train(folder / "calm", 0, 0.003)
    train(folder / "wild", 1, 0.05)
    return folder


def spec(trained: Path, name: str) -> str:
    return f"series:{trained / name}?arch=digits_cnn&mean=0&std=1&label={name}"


@pytest.fixture(scope="module")
def run(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("run")
    specs = [spec(trained, name) for name in ("calm", "wild")]
    plan = make_plan(AuditRequest(specs, "digits", measures=MEASURES, images=250, attacked=100))
    record = run_audit(plan, folder)
    assert record["failures"] == []
    return folder, record


def names(series: str) -> list[str]:
    return [f"{series}/epoch{epoch}" for epoch in EPOCHS]


def test_the_record_refers_to_its_encoders(run) -> None:
    _, record = run
    assert [one["name"] for one in record["series"]] == ["calm", "wild"]
    assert [one["encoders"] for one in record["series"]] == [names("calm"), names("wild")]
    assert [encoder["name"] for encoder in record["encoders"]] == names("calm") + names("wild")
    assert record["plan"]["series"][0]["encoders"] == record["plan"]["encoders"][:4]


def test_fluctuation_is_that_of_the_tables(run) -> None:
    folder, record = run
    for one in record["series"]:
        assert list(one["fluctuation"]) == ["probe_accuracy"]  # the other measure knows no classes
        found = one["fluctuation"]["probe_accuracy"]
        entries = [e for e in record["encoders"] if e["name"] in one["encoders"]]
        tables = [pq.read_table(folder / e["measures"]["probe_accuracy"]["table"]).to_pandas() for e in entries]
        accuracy = np.array([table.groupby("label")["right"].mean() for table in tables])
        classes = np.abs(np.diff(accuracy, axis=0)).mean(0)
        np.testing.assert_allclose(list(found["classes"].values()), classes, atol=1e-12)
        assert found["mean"]["value"] == pytest.approx(classes.mean())
        assert found["mean"]["low"] < found["mean"]["value"] < found["mean"]["high"]
        assert found["noise"] > 0


def section(folder: Path) -> str:
    text = write_report(folder).read_text(encoding="utf-8")
    Page(text)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    start = text.index('<details class="fold" id="series"')
    return text[start : text.index('<details class="fold"', start + 1)]


def test_the_report_has_curves_of_every_score(run) -> None:
    folder, record = run
    html = section(folder)
    charts = re.findall(r"<figcaption>([^<]*)</figcaption>\n<div role", html)
    assert charts == ["Probe accuracy", "Corruption drift"] * 3  # side by side, and for each of two series
    legends = re.findall(r'colours">(.*?)</ul>', html, re.DOTALL)
    said = [re.findall(r'class="name">(.*?)</span>', legend) for legend in legends]
    scores = record["encoders"][0]["measures"]["probe_accuracy"]["scores"]
    assert said[:3] == [["calm", "wild"], ["calm", "wild"], list(scores)[-12:]]
    assert html.count(f"{len(scores) - 12} more scores in the scorecard.") == 2
    assert html.count(">epoch<") == 6  # the axis of every chart
    charts = re.findall(r"<svg viewBox.*?</svg>", html, re.DOTALL)
    assert [chart.count("FillBetweenPolyCollection") for chart in charts] == [2, 2, 1, 1, 1, 1]
    assert html.count("The band is that of top-1.") == 2
    last = record["encoders"][3]["measures"]["probe_accuracy"]["scores"]["top-1"]["value"]
    assert re.search(rf"top-1: [\d.]+ % \[.*?\] at calm/epoch0, {100 * last:.0f}[\d.]* % \[.*?\] at calm/epoch6", html)
    assert "4 checkpoints: calm/epoch0, calm/epoch1, calm/epoch2, calm/epoch6." in html
    found = record["series"][1]["fluctuation"]["probe_accuracy"]
    assert f"<td>{score(Score(**found['mean']), 'share')}</td><td>{number(found['noise'], 'share')}</td>" in html
    assert not re.search(r"(?:fill|stroke): *#", html)
    assert 'href="#series"' in (folder / "report.html").read_text("utf-8")


def test_a_checkpoint_that_fails_leaves_a_gap(run, tmp_path: Path) -> None:
    record = copy.deepcopy(run[1])
    record["encoders"][1].update(error="gone", measures={}, checks={}, observations=[], gallery=[])
    for encoder in record["encoders"]:
        for measure in encoder["measures"].values():
            measure["table"] = None
    record["series"][0]["fluctuation"]["probe_accuracy"] = {"problem": "not known <b>"}
    write_record(tmp_path, record)
    html = section(tmp_path)
    assert "not known &lt;b&gt;" in html
    assert (
        re.findall(r"<figcaption>([^<]*)</figcaption>\n<div role", html) == ["Probe accuracy", "Corruption drift"] * 3
    )


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'])
def test_names_are_escaped(run, tmp_path: Path, hostile: str) -> None:
    record = copy.deepcopy(run[1])
    for encoder, name in zip(record["encoders"], names(hostile), strict=False):
        encoder["name"] = name
    record["series"] = [{"name": hostile, "encoders": names(hostile), "fluctuation": {}}]
    write_record(tmp_path, record)
    html = section(tmp_path)
    assert hostile not in html
    assert "Side by side" not in html


def test_many_scores_are_thinned_out(run, tmp_path: Path) -> None:
    record = copy.deepcopy(run[1])
    for encoder in record["encoders"]:
        scores = encoder["measures"]["probe_accuracy"]["scores"]
        encoder["measures"]["probe_accuracy"]["scores"] = {f"x{i}": scores["top-5"] for i in range(9)} | scores
    record["encoders"][0]["measures"]["corruption_drift"]["scores"]["other"] = {
        "value": 3.0, "low": None, "high": None, "n": 1, "interval": "none", "unit": "pixels", **SOUND
    }  # fmt: skip
    write_record(tmp_path, record)
    html = section(tmp_path)
    more = len(record["encoders"][0]["measures"]["probe_accuracy"]["scores"]) - 12
    assert html.count(f"{more} more scores in the scorecard.") == 2
    assert html.count("<figcaption>") == 6  # one value is no curve


def test_a_measure_that_fails_for_a_checkpoint_has_no_fluctuation(trained: Path, tmp_path: Path) -> None:
    class Blind(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1) * torch.nan

    encoders = {
        "a": Encoder(nn.Flatten(), mean=0, std=1, name="a"),
        "b": Encoder(Blind(), mean=0, std=1, name="b"),
    }
    series = (Series("s", ("a", "b")),)
    plan = Plan(("a", "b"), "digits", (ProbeAccuracy(),), images=100, attacked=20, series=series)
    record = run_audit(plan, tmp_path, encoders=encoders)
    (one,) = record["series"]
    problem = "not known, because the measure failed for b"
    assert one["fluctuation"] == {"probe_accuracy": as_json(FluctuationEntry(problem=problem))}
    assert "because the measure failed for b" in section(tmp_path)


def test_an_audit_without_series_has_no_section(tmp_path: Path) -> None:
    plan = Plan(("zoo:digits-simclr",), "digits", (CorruptionDrift((Gamma(0.2),)),), images=60, attacked=20)
    assert run_audit(plan, tmp_path)["series"] == []
    assert 'id="series"' not in write_report(tmp_path).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_command_line_takes_a_series(trained: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'encoders = ["{spec(trained, "calm")}"]\ndata = "digits"\nimages = 100\nattacked = 20\n'
        'measures = [{name = "corruption_drift"}]\n'
    )
    done = CliRunner().invoke(app, ["audit", str(plan), "--out", str(tmp_path / "out")])
    assert done.exit_code in (0, 1), done.output  # checks may warn of a network that has not learned yet
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["failures"] == []
    assert record["series"][0]["encoders"] == names("calm")
