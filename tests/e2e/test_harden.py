"""Hardening as users run it: what becomes better, on which images, what it costs, and what is refused."""

import json
import math
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from test_audit_run import holdfast
from test_command_line import refused, run
from torch import nn

from holdfast.auditing import profile_files
from holdfast.core import Encoder, Score
from holdfast.report.documents.hardening import document
from holdfast.report.render import print_document
from holdfast.runtime.durations import seconds
from holdfast.runtime.errors import BadPlace, BadValue, Missing, NotEnough, NotFinite, Unsupported
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.privacy import public
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.entry import as_json
from holdfast.storage.hardening import HardenedMeasure, HardeningImages, HardeningRecord, Price, TriedRate
from holdfast.storage.record import Compared, PairEntry
from holdfast.storage.run_folder import Store
from holdfast.training import loop
from holdfast.training import pace as _pace
from holdfast.training.loop import train
from holdfast.workflows.harden import doubts
from holdfast.workflows.harden import run as hardening
from holdfast.workflows.harden.audits import Opened
from holdfast.workflows.harden.outcome import changes, drift
from holdfast.workflows.harden.plan import Hardening, read_pace
from holdfast.workflows.harden.run import harden
from json_records import encoder_entry, measure_entry, small_record

DIGITS = Hardening(
    "zoo:digits-supervised", "digits?part=train", eps=0.15, steps=40, views="none", rate=0.03, profile="tiny"
)
FEW = replace(DIGITS, steps=4)


@pytest.fixture(autouse=True, scope="module")
def _tiny(tmp_path_factory: pytest.TempPathFactory):
    folder = shutil.copytree(profile_files.FOLDER, tmp_path_factory.mktemp("profiles") / "with tiny")
    (folder / "tiny.toml").write_text(
        'description = "three measures"\nimages = 120\nattacked = 60\nexamined = 2\nqueries = 10\n'
        'measures = ["universal_quantile", "cosine_to_self", "breakaway_risk"]\n'
        'defaults = { attack = { name = "pgd", steps = 5 } }\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile_files, "FOLDER", folder)
        yield


@pytest.fixture
def unaudited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Harden without audits, which take longest, where they are not the point."""
    found = small_record([encoder_entry("before"), encoder_entry("after")])
    monkeypatch.setattr(hardening, "run_audit", lambda *_, **__: found)
    monkeypatch.setattr(hardening, "write_report", lambda folder: folder / "report.html")


def words(asked: Hardening, folder: Path) -> list[str]:
    """The command line that asks for it; it is the one that is printed."""
    return shlex.split(asked.command(folder))[1:]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "encoder.safetensors")


def same(first: Path, second: Path) -> bool:
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def hardened(_tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[HardeningRecord, Path, list]:
    """One hardening, with all images that were learned from."""
    folder, seen = tmp_path_factory.mktemp("hardened") / "out", []

    def spied(*arguments, **given):
        seen.append(given["images"])
        return train(*arguments, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardening, "train", spied)
        return harden(DIGITS, folder).record, folder, seen


# --- what it does ---


def test_a_rate_that_nobody_gave_is_found_once_and_told(
    unaudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = replace(FEW, rate=None)
    record = harden(asked, tmp_path / "a").record
    tried = [row.rate for row in record.rates]
    assert tried == sorted(tried)  # from the one that is taken to the largest
    assert len(tried) > 1
    assert record.rate == tried[0]
    # the printed command needs no search: in the same folder it is done, in another it comes to the same weights
    monkeypatch.setattr(hardening, "losses", None)
    assert f"--rate {record.rate}" in record.command
    again = replace(asked, rate=record.rate)
    assert harden(again, tmp_path / "a").record.rate == record.rate
    harden(again, tmp_path / "b")
    assert same(tmp_path / "a", tmp_path / "b")
    with pytest.raises(BadPlace):
        harden(replace(asked, rate=record.rate / 2), tmp_path / "a")
    # another objective says nothing of what is lost
    other = replace(asked, objective="simclr", views="light")
    assert harden(other, tmp_path / "c").record.rates == [TriedRate(rate=0.01, loss=None)]
    harden(replace(other, rate=0.01), tmp_path / "c")  # the printed command: it is done


def test_every_measure_without_labels_becomes_better(hardened) -> None:
    found, folder, _ = hardened
    free = [row for row in found.measures if not row.needs_labels]
    assert [row.measure for row in free] == ["universal_quantile", "cosine_to_self", "breakaway_risk"]
    assert {row.verdict for row in free} == {"better"}
    assert json.loads((folder / "harden.json").read_text()) == public(as_json(found))  # of places the last name
    assert Path(found.report).is_file()
    assert found.failures == []


def test_the_difference_is_that_of_the_record(hardened) -> None:
    found, folder, _ = hardened
    records = [json.loads((folder / name / "record.json").read_text()) for name in ("audit", "accuracy")]
    assert [[encoder["name"] for encoder in record["encoders"]] for record in records] == [["before", "after"]] * 2
    for row in found.measures:
        record = records[row.needs_labels]
        before, after = row.before.value, row.after.value
        gap = record["comparison"][row.measure]["pairs"][0]["difference"]
        assert row.difference.value == pytest.approx(after - before)
        assert (row.difference.low, row.difference.high) == (-gap["high"], -gap["low"])
        assert row.difference.low <= after - before <= row.difference.high


def test_accuracy_is_measured_where_labels_are_known(hardened) -> None:
    found, folder, _ = hardened
    row, robust = (row for row in found.measures if row.needs_labels)
    assert (row.measure, robust.measure) == ("probe_accuracy", "robust_accuracy")
    assert robust.after.value < row.after.value
    assert robust.after.n == 60  # those that are attacked
    assert row.before.value > 0.9
    assert row.difference.value > -0.1  # the papers' price
    record = json.loads((folder / "accuracy" / "record.json").read_text())
    assert record["data"]["train"]["images"] + record["data"]["train"]["left_out"] == 1197
    assert record["data"]["attacked"] == record["data"]["images"] == row.before.n == 200  # all held out


@pytest.mark.slow
def test_a_head_in_use_is_asked_before_and_after(tmp_path: Path) -> None:
    held_out, start = open_images("digits"), open_encoder("zoo:digits-supervised")
    weights, bias = torch.randn(10, 64, generator=torch.Generator().manual_seed(0)), torch.zeros(10)
    save_file({"weight": weights, "bias": bias}, tmp_path / "head.safetensors")
    asked = replace(FEW, test="digits", head=str(tmp_path / "head.safetensors"))
    after = harden(asked, tmp_path / "out")
    (clean,) = [row for row in after.record.measures if row.measure == "probe_accuracy"]
    for encoder, told in ((start, clean.before), (after.encoder, clean.after)):
        with torch.no_grad():
            classes = (encoder(held_out.batch(0, len(held_out))) @ weights.T).argmax(1)
        right = classes == torch.tensor(held_out.labels)
        assert told.value == pytest.approx(float(right.double().mean()))
    assert "--head" in asked.command(tmp_path)


def test_audits_see_no_image_that_was_learned_from(hardened) -> None:
    found, folder, (learned,) = hardened
    record = json.loads((folder / "audit" / "record.json").read_text())
    audited = open_images("digits?part=train", images=record["data"]["images"])
    assert record["data"]["fingerprint"] == audited.fingerprint
    assert len(audited) == 120
    held = open_images("digits?part=train", images=200)
    assert set(audited.ids) < set(held.ids)
    pixels = {x.numpy().tobytes() for x in held.batch(0, len(held))}
    assert pixels.isdisjoint(x.numpy().tobytes() for x in learned.images.batch(0, len(learned)))
    looked_at = 1197 - 200 - len(learned)  # by these the weights are chosen, and nobody learns from them either
    assert looked_at == 119  # a tenth
    assert found.images == HardeningImages(
        learned=len(learned), looked_at=looked_at, held_out=200, data="digits?part=train", test="digits?part=train"
    )


def test_drift_is_what_the_printed_encoder_shows(hardened) -> None:
    found, *_ = hardened
    x = open_images("digits?part=train", images=200).batch(0, 200)
    with torch.no_grad():
        old = open_encoder("zoo:digits-supervised")(x).numpy().astype(np.float64)
        new = open_encoder(found.encoder)(x).numpy().astype(np.float64)
    long = np.linalg.norm(old, axis=1)
    cosine = (old * new).sum(1) / (long * np.linalg.norm(new, axis=1))
    moved = np.linalg.norm(new - old, axis=1) / long
    assert found.price.cosine.value == pytest.approx(cosine.mean(), abs=1e-6)
    assert found.price.relative_l2.value == pytest.approx(moved.mean(), rel=1e-4)
    assert 0.01 < moved.mean() < 1
    assert found.price.cosine.low < cosine.mean() < found.price.cosine.high <= 1


def test_drift_is_relative_to_what_was_there_before() -> None:
    images = open_images(np.random.default_rng(0).random((6, 1, 4, 4), dtype=np.float32))
    pixels, thrice = (Encoder(nn.Flatten(), mean=0, std=std) for std in (1, 1 / 3))
    assert drift(pixels, thrice, images).relative_l2.value == pytest.approx(2)
    assert drift(thrice, pixels, images).relative_l2.value == pytest.approx(2 / 3)
    nothing = Encoder(nn.Sequential(nn.Flatten(), nn.Threshold(2.0, 0.0)), mean=0, std=1)
    assert drift(nothing, pixels, images).relative_l2.value is None


def test_a_measure_that_one_encoder_failed_has_no_verdict(tmp_path: Path) -> None:
    score = Score(0.5, 0.4, 0.6, 10, "exact", if_weak="at least")
    measures = measure_entry(scores={"s": score}), measure_entry(headline=None, error="it broke")
    before, after = (encoder_entry(name, measures={"m": m}) for name, m in zip("ab", measures, strict=True))
    (row,) = changes(small_record([before, after]), Store(tmp_path))
    assert (row.before, row.after, row.difference, row.verdict) == (score, None, None, "open")


@pytest.mark.parametrize(
    ("better", "low", "high", "verdict"),
    [
        ("lower", 0.1, 0.2, "better"),  # before - after
        ("lower", -0.2, -0.1, "worse"),
        ("higher", 0.1, 0.2, "worse"),
        ("higher", -0.2, -0.1, "better"),
        ("higher", -0.1, 0.1, "open"),
        ("higher", None, None, "open"),
    ],
)
def test_verdicts_follow_the_paired_interval(
    better: str, low: float, high: float, verdict: str, tmp_path: Path
) -> None:
    score = Score(0.5, None, None, 10, "exact", if_weak="at least")
    measures = {"m": measure_entry(better=better, scores={"s": score})}
    gap = Score(0.0 if low is None else (low + high) / 2, low, high, 10, "paired")
    pair = PairEntry(first="before", second="after", difference=gap)
    encoders = [encoder_entry(name, measures=measures) for name in ("before", "after")]
    (row,) = changes(small_record(encoders, comparison={"m": Compared(best=None, pairs=[pair])}), Store(tmp_path))
    assert row.verdict == verdict


# --- what it costs ---


def test_the_price_stands_beside_the_gain(hardened, capsys) -> None:
    found, folder, _ = hardened
    print_document(document(found), Console(width=300))
    told = capsys.readouterr().out
    price = re.sub(r"\s+", " ", told[told.index("Price:") :])
    for words in ("of their length, cosine 0.9", "probe accuracy", "robust accuracy", "40 steps in"):
        assert words in price
    assert "Warning" not in told
    page = (folder / "audit" / "report.html").read_text()
    nobody, cost = page.index("No encoder is called best: "), page.index("The price of the hardening: clean")
    assert 0 < cost - nobody < 2000  # what follows the heading


def row(name: str, verdict: Any, gap: float) -> HardenedMeasure:
    return HardenedMeasure(
        measure=name, title="", unit="share", needs_labels=True, before=None, after=None, better="higher",
        difference=Score(gap, None, None, 10, "paired"), verdict=verdict,
    )  # fmt: skip


def test_a_ruinous_price_is_warned_of() -> None:
    def said(cosine: float, *rows: HardenedMeasure) -> str:
        close, moved = (Score(value, None, None, 10, "exact") for value in (cosine, 0.1))
        return " ".join(doubts.after(Price(cosine=close, relative_l2=moved), rows))

    assert said(0.95, row("probe_accuracy", "worse", -0.04), row("probe_accuracy", "open", -0.2)) == ""
    assert "cosine 0.30 to the old ones, below 0.9" in said(0.3)
    assert "fell by 16 points" in said(0.95, row("probe_accuracy", "worse", -0.16))


def test_batchnorm_that_never_took_statistics_is_warned_of() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten())
    assert "1 of 1 BatchNorm layers never took statistics" in doubts.before(Encoder(net, mean=0, std=1))[0]
    net.train()(torch.rand(8, 1, 8, 8))
    assert doubts.before(Encoder(net, mean=0, std=1)) == []


@pytest.mark.slow
def test_frozen_statistics_stay(unaudited, tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(36, 8))
        net.train()(torch.rand(32, 1, 8, 8))
    opened = Opened(Encoder(net, mean=0, std=1))
    for kind in ("frozen", "shared"):
        after = harden(replace(FEW, encoder="mine", batchnorm=kind), tmp_path / kind, opened=opened).encoder
        same_mean = torch.equal(after.module.get_buffer("1.running_mean"), net.get_buffer("1.running_mean"))
        assert same_mean == (kind == "frozen")


@pytest.mark.slow
def test_what_could_not_be_measured_is_not_recommended(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoders = [encoder_entry("before"), encoder_entry("after", error="it broke")]
    audited = small_record(encoders, failures=["after: it broke"])
    monkeypatch.setattr(hardening, "run_audit", lambda *_, **__: audited)
    monkeypatch.setattr(hardening, "write_report", lambda folder: folder / "report.html")
    code, out, _ = run(capsys, *words(FEW, tmp_path))
    assert code == ExitStatus.NOTHING
    assert "Use it" not in out
    assert "What came out could not be measured" in out


# --- how long it takes ---


def test_times_are_read() -> None:
    assert [seconds(text) for text in ("90s", "30m", "2h", "1h30m", "0.5m")] == [90, 1800, 7200, 5400, 30]


@pytest.mark.parametrize("text", ["abc", "30", "m", "30 m", "-5m", "5mm x", ""])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match="budget"):
        seconds(text)


class Time:
    """A clock that has moved by what a step takes when it is read again."""

    def __init__(self, *steps: float):
        self.steps, self.now = [0.0, *steps], 0.0

    def monotonic(self) -> float:
        self.now += self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return self.now


def clocked(monkeypatch: pytest.MonkeyPatch, *steps: float) -> None:
    """Let the pace of trainings read another clock: the times between its readings, of which the last goes on."""
    monkeypatch.setattr(_pace, "time", Time(*steps))


def test_a_budget_is_kept_whatever_steps_take(unaudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that become three times slower leave room for fewer; when the time is up, the rate is near 0."""
    clocked(monkeypatch, *[0.1] * 15, 0.3)
    asked = replace(DIGITS, steps=None, budget=3.0)
    record = harden(asked, tmp_path / "a").record
    assert record.steps == 20  # 1.5 s of quick ones, 1.5 s of slow ones
    assert (record.budget, record.seconds) == (3.0, pytest.approx(3.0))
    rates = pq.read_table(tmp_path / "a" / "log.parquet")["rate"].to_pylist()
    done = [*(step / 30 for step in range(15)), *(0.5 + step / 10 for step in range(5))]
    rising = [at / 0.1 for at in done if at < 0.1]
    falling = [(1 + math.cos(math.pi * (at - 0.1) / 0.9)) / 2 for at in done if at >= 0.1]
    assert rates == pytest.approx([DIGITS.rate * share for share in rising + falling], abs=0.11 * DIGITS.rate)


@pytest.mark.slow
def test_what_the_clock_decided_is_done_again_by_its_record(
    unaudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        clocked(patch, 0.5, 0.2, 0.9, 0.4)
        record = harden(replace(DIGITS, steps=None, budget=3.0), tmp_path / "a").record
    steps, pace = read_pace(tmp_path / "a" / "harden.json")
    assert f"--pace {tmp_path / 'a' / 'harden.json'}" in record.command
    assert "--budget" not in record.command
    again = replace(DIGITS, steps=steps, pace=pace)
    repeated = harden(again, tmp_path / "b").record
    assert same(tmp_path / "a", tmp_path / "b")
    assert repeated.pace == record.pace
    assert "--pace" in repeated.command
    harden(replace(DIGITS, steps=steps), tmp_path / "c")  # as many steps, at an even pace
    assert not same(tmp_path / "a", tmp_path / "c")


@pytest.mark.slow
def test_a_folder_stays_with_what_was_asked(unaudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocked(monkeypatch, 0.5)
    asked = replace(DIGITS, steps=None, budget=3.0)
    record = harden(asked, tmp_path).record
    monkeypatch.delattr(hardening, "train")
    steps, pace = read_pace(tmp_path / "harden.json")
    for one in (asked, replace(DIGITS, steps=steps, pace=pace)):
        assert harden(one, tmp_path).record.pace == record.pace
    others = [replace(asked, budget=4.0), replace(DIGITS, steps=steps), replace(asked, eps=0.1)]
    for one in others:
        with pytest.raises(BadPlace):
            harden(one, tmp_path)


def test_what_came_to_nothing_claims_no_folder(unaudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        clocked(patch, 2.0)
        with pytest.raises(NotEnough, match="got 1 s"):
            harden(replace(DIGITS, steps=None, budget=1.0), tmp_path)
    assert harden(replace(FEW, eps=0.1, steps=1), tmp_path).record.steps == 1


@pytest.mark.slow
def test_a_clock_that_was_interrupted_goes_on(unaudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, asked = loop._Training._one_step, replace(DIGITS, steps=None, budget=3.0)

    def interrupted(training: loop._Training) -> None:
        if training.step == 4:
            raise KeyboardInterrupt
        step(training)

    with monkeypatch.context() as patch:
        clocked(patch, 0.31)
        patch.setattr(loop._Training, "_one_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            harden(asked, tmp_path / "cut")
    clocked(monkeypatch, 0.31)
    assert harden(asked, tmp_path / "cut").record.steps == 10
    clocked(monkeypatch, 0.31)
    harden(asked, tmp_path / "whole")
    assert same(tmp_path / "cut", tmp_path / "whole")  # the same times, the same weights


@pytest.mark.slow
def test_a_missed_budget_is_said(capsys, unaudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocked(monkeypatch, 0.2, 0.2, 30.0)
    record = harden(replace(DIGITS, steps=None, budget=3.0), tmp_path).record
    print_document(document(record), Console(width=200))
    assert "3 steps in 30 s of a budget of 3.0 s, 27 s over" in capsys.readouterr().out


# --- interrupted ---


@pytest.mark.slow
def test_interrupted_in_training_it_goes_on(unaudited, capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, made = loop._Training._one_step, []

    def interrupted(training: loop._Training) -> None:
        if len(made) == 2:
            raise KeyboardInterrupt
        step(training)
        made.append(training.step)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Training, "_one_step", interrupted)
        code, _, err = run(capsys, *words(FEW, tmp_path / "cut"))
    assert code == 130
    assert "the same command continues" in err
    assert (tmp_path / "cut" / "checkpoint.pt").exists()
    monkeypatch.setattr(loop._Training, "_one_step", lambda training: (step(training), made.append(training.step))[0])
    code, out, err = run(capsys, *words(FEW, tmp_path / "cut"))
    assert code == 0, err
    assert made == [1, 2, 3, 4]
    assert str(tmp_path / "cut" / "audit" / "report.html") in out
    harden(FEW, tmp_path / "whole")
    assert same(tmp_path / "cut", tmp_path / "whole")


def test_interrupted_in_the_audit_it_is_not_trained_again(
    unaudited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_, **__) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hardening, "run_audit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            harden(FEW, tmp_path)
    kept = (tmp_path / "encoder.safetensors").read_bytes()
    monkeypatch.delattr(hardening, "train")
    found = harden(FEW, tmp_path).record
    assert (tmp_path / "encoder.safetensors").read_bytes() == kept
    assert found.price.relative_l2.value > 0  # the hardened one, not the one before


TERMINATED = """
import os, pathlib, signal
from holdfast.auditing import profile_files
import holdfast.training.loop as loop
from holdfast.storage.run_folder import safetensors

profile_files.FOLDER = pathlib.Path({folder!r})
learn, save_file, saved = loop._Training._learn, safetensors.torch.save_file, []

def _learn(training, *arguments):
    if training.step == 2:
        os.kill(os.getpid(), signal.SIGTERM)
    return learn(training, *arguments)

def save(tensors, path, *rest):
    if "audit" in str(path):
        saved.append(path)
    if len(saved) == {shards}:
        os.kill(os.getpid(), signal.SIGTERM)
    save_file(tensors, path, *rest)

loop._Training._learn, safetensors.torch.save_file = _learn, save
"""


@pytest.mark.slow
def test_told_to_end_in_training_and_in_the_audit_it_goes_on(unaudited, tmp_path: Path) -> None:
    """SIGTERM, as schedulers send it, at the third step; then, as the training goes on behind it, in the audit."""
    made = []
    for shards in (3, 3, 999):
        before = TERMINATED.format(folder=str(profile_files.FOLDER), shards=shards)
        told = holdfast(*words(FEW, tmp_path / "cut"), before=before)
        _, err = told.communicate(timeout=200)
        made.append((told.returncode, (tmp_path / "cut" / "encoder.safetensors").exists()))
        assert "the same command continues" in err if told.returncode else (tmp_path / "cut" / "harden.json").exists()
    assert made == [(143, False), (143, True), (0, True)]
    harden(FEW, tmp_path / "whole")
    assert same(tmp_path / "cut", tmp_path / "whole")


# --- any encoder, and what is refused ---


@pytest.mark.slow
def test_timm_networks_are_hardened(unaudited, capsys, tmp_path: Path) -> None:
    guard_torchvision()
    pytest.importorskip("timm")
    asked = replace(
        FEW, encoder="timm:test_resnet?weights=random&size=32", data="digits?part=train&channels=3&size=32", steps=2
    )
    code, out, err = run(capsys, *words(asked, tmp_path), "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["encoder"].startswith("timm:test_resnet?size=32&weights=")
    x = open_images(asked.data, images=120).batch(0, 4)
    with torch.no_grad():
        new, old = open_encoder(found["encoder"])(x), open_encoder(asked.encoder)(x)
    assert not torch.allclose(new, old)
    assert found["price"]["cosine"]["value"] < 1
    stored = weights(tmp_path)
    for name, value in open_encoder(found["encoder"]).module.state_dict().items():
        assert torch.equal(value, stored[name.removeprefix("network.")])


@pytest.mark.slow
def test_other_objectives_and_attacks(unaudited, tmp_path: Path) -> None:
    asked = replace(FEW, objective="supervised", attack="loss", steps=2, views="none")
    assert harden(asked, tmp_path / "a").record.objective == "supervised"
    asked = replace(FEW, attack="targeted", norm="l2", eps=0.5, steps=2)
    assert harden(asked, tmp_path / "b").record.ball["name"] == "l2"
    assert not same(tmp_path / "a", tmp_path / "b")


def unlabelled(folder: Path, count: int) -> str:
    path = folder / f"{count}.npz"
    np.savez(path, images=open_images("digits?part=train").batch(0, count).numpy()[:, 0])
    return str(path)


@pytest.mark.slow
def test_images_without_labels_have_drift_alone(unaudited, capsys, tmp_path: Path) -> None:
    asked = replace(FEW, data=unlabelled(tmp_path, 300), steps=2)
    code, out, err = run(capsys, *words(asked, tmp_path / "out"))
    assert code == 0, err
    assert "no labels, so no accuracy" in out
    found = json.loads((tmp_path / "out" / "harden.json").read_text())
    assert not any(row["needs_labels"] for row in found["measures"])
    assert found["images"]["held_out"] == 150  # half of them


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--budget", "abc"], "expected a time such as 90s, 30m"),
        (["--budget", "0.001s"], "expected time for several steps"),
        (["--budget", "0s"], "expected a time above 0"),
        (["--steps", "0"], "expected at least 1"),
        (["--eps", "0"], "in (0, 1], got 0"),
        (["--norm", "rotation"], "expected a ball"),
        (["--objective", "self_destillation"], "did you mean 'self_distillation'"),
        (["--attack", "untargetted"], "did you mean 'untargeted'"),
        (["--views", "lite"], "known: full, light, none"),
        (["--profile", "tinny"], "did you mean 'tiny'"),
        (["--batch-size", "1100"], "expected at least a batch of 1100 images"),
    ],
)
def test_bad_requests_end_in_one_line(capsys, tmp_path: Path, more: list[str], said: str) -> None:
    start = ["harden", "zoo:digits-supervised", "--data", "digits?part=train", "--profile", "tiny"]
    line = refused(capsys, *start, "--out", str(tmp_path / "out"), *more)
    assert said in line
    assert not (tmp_path / "out" / "encoder.safetensors").exists()


def test_images_must_suffice(tmp_path: Path) -> None:
    with pytest.raises(NotEnough, match="got 40"):
        harden(replace(FEW, data=unlabelled(tmp_path, 100)), tmp_path / "a")
    few = unlabelled(tmp_path, 60)
    with pytest.raises(NotEnough, match="for 60"):
        harden(replace(FEW, data=few, test=few), tmp_path / "b")
    np.savez(tmp_path / "equal.npz", images=np.full((600, 8, 8), 100, np.uint8))
    with pytest.raises(NotEnough) as error:
        harden(replace(FEW, data=str(tmp_path / "equal.npz")), tmp_path / "c")
    assert "beside the 200 that are held out, got 0, for 600 are among them (different pictures: 1)" in str(error.value)


def test_a_rate_that_no_attack_survives_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFinite) as error:
        harden(replace(FEW, rate=1e9), tmp_path)
    assert re.search(r"at step \d of 4 .*objective of the attack.*lower the rate \(1e\+09\)", str(error.value))


def test_labels_must_be_there_where_they_are_read(tmp_path: Path) -> None:
    bare = replace(FEW, data=unlabelled(tmp_path, 300))
    (tmp_path / "head.safetensors").touch()
    with pytest.raises(Missing, match="head"):
        replace(bare, head="none.onnx")
    with pytest.raises(BadValue, match="rate"):
        replace(bare, rate=0.0)
    with pytest.raises(Missing, match="supervised"):
        harden(replace(bare, objective="supervised"), tmp_path / "a")
    with pytest.raises(Missing, match="labels"):
        harden(replace(bare, train="digits?part=train"), tmp_path / "b")
    with pytest.raises(Missing, match="labels"):
        harden(replace(bare, head=str(tmp_path / "head.safetensors")), tmp_path / "d")
    with pytest.raises(Missing, match="labels"):
        harden(replace(bare, profile="feature_space"), tmp_path / "c")
    assert not any((tmp_path / name / "harden-plan.json").exists() for name in "bc")


def test_what_cannot_be_trained_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)))
    monkeypatch.setattr(hardening, "open_encoder", lambda _: Encoder(traced, mean=0, std=1))
    with pytest.raises(Unsupported, match="traced"):
        harden(replace(FEW, data="nowhere.npz"), tmp_path / "out")


def test_a_folder_of_another_training_is_not_taken_for_a_hardening(tmp_path: Path) -> None:
    (tmp_path / "encoder.safetensors").write_bytes(b"")
    with pytest.raises(BadPlace):
        harden(FEW, tmp_path)
