"""Run folders cannot lie: what is damaged, swapped, of other weights or of nobody is made again, refused, or said."""

import contextlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
import typer
from test_audit_run import timeless
from test_command_line import run as command_line
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.cli import common
from holdfast.comparison.records import open_run
from holdfast.core import Encoder, HoldfastError
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.engines.processes import Processes
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.report import html
from holdfast.runtime.errors import BadData, BadPlace, NothingAudited, UnreadableRecord
from holdfast.storage.entry import as_json
from holdfast.storage.run_folder import Store
from holdfast.training import checkpoint as _checkpoint
from json_records import run_audit, typed

PLAN = Plan(
    ("it",), data="digits", measures=(BreakawayRisk(Pgd(2, 0.05)), CosineToSelf(Pgd(2, 0.05))), images=12, attacked=8,
    batch_size=4,
)  # fmt: skip


def encoder(seed: int = 0) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Encoder(nn.Sequential(nn.Flatten(), nn.Linear(64, 6)), mean=0.5, std=0.5, name="it")


def audit(folder: Path, seed: int = 0, **options) -> dict:
    return run_audit(PLAN, folder, encoders={"it": encoder(seed)}, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    audit(folder)
    html.publish(folder)
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


def truncate(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def swap(path: Path, rng: random.Random) -> None:
    other = rng.choice(sorted(p for p in path.parent.iterdir() if p.is_file()))
    first, second = path.read_bytes(), other.read_bytes()
    path.write_bytes(second)
    other.write_bytes(first)


def one_line(error: HoldfastError) -> None:
    assert len(str(error).splitlines()) == 1


def endure(whole: Path, folder: Path, seed: int) -> None:
    """Damage a file of a run and do it again: the same record comes out, or one clear line."""
    rng = random.Random(seed)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    first = json.loads((whole / "record.json").read_text())
    inside = (path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)  # locks are empty
    files = sorted(path for path in inside if path.name != "report.html")
    path, damage = rng.choice(files), rng.choice((flip, truncate, swap))
    damage(path, rng)
    try:
        found = open_run(str(folder))
        assert timeless(as_json(found.record)) == timeless(first), (path, damage)
        for name in {m.table for m in found.record.encoders[0].measures.values()}:
            found.table(name)
    except HoldfastError as error:
        one_line(error)
    try:
        again = audit(folder)
    except HoldfastError as error:
        one_line(error)
        return
    assert timeless(again) == timeless(first), (seed, path, damage)
    if path.suffix == ".safetensors" and path.read_bytes() != (whole / path.relative_to(folder)).read_bytes():
        assert again["run"]["remade_shards"] > 0 or damage is swap, (seed, path)


def test_some_damaged_run_folders_come_to_the_same_record(whole: Path, tmp_path: Path) -> None:
    for seed in range(5):
        endure(whole, tmp_path / "run", seed)


@pytest.mark.slow
def test_damaged_run_folders_come_to_the_same_record(whole: Path, tmp_path: Path) -> None:
    for seed in range(200):
        endure(whole, tmp_path / "run", seed)


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "cache").rglob("*.safetensors"))


def test_every_shard_that_is_not_as_written_is_made_again_and_counted(whole: Path, copy: Path) -> None:
    first, store = json.loads((whole / "record.json").read_text()), Store(copy)
    swap_them = [path for path in shards(copy) if path.parent == shards(copy)[0].parent][:2]
    one, other = (path.read_bytes() for path in swap_them)
    swap_them[0].write_bytes(other)
    swap_them[1].write_bytes(one)
    again = audit(copy)
    assert again["run"]["remade_shards"] == 2
    assert timeless(again) == timeless(first)
    name = shards(copy)[0].relative_to(copy).as_posix()
    tensors, facts = store.read_tensors(name) or ({}, {})
    store.write_tensors(name, {key: value[:-1] for key, value in tensors.items()}, facts)  # sealed, a row short
    again = audit(copy)
    assert again["run"]["remade_shards"] == 1
    assert timeless(again) == timeless(first)


def test_a_damaged_table_or_picture_is_named_and_never_shown(copy: Path) -> None:
    record = json.loads((copy / "record.json").read_text())
    table = record["encoders"][0]["measures"]["breakaway_risk"]["table"]
    picture = record["encoders"][0]["gallery"][0]["clean"]
    for name in (table, picture):
        flip(copy / name, random.Random(1))
    with pytest.raises(UnreadableRecord, match="damaged"):
        open_run(str(copy)).table(table)
    page = Path(html.publish(copy)).read_text(encoding="utf-8")
    assert page.count("has been damaged or changed since it was written") >= 2


def checkpoint(folder: Path) -> Store:
    store = Store(folder)
    _checkpoint.write(store, encoder().module, {"recipe": "r", "step": 3})
    return store


def spoil(store: Store, seed: int) -> None:
    """Damage a checkpoint: it is refused in one line."""
    whole, rng = (store.folder / _checkpoint.NAME).read_bytes(), random.Random(seed)
    rng.choice((flip, truncate))(store.folder / _checkpoint.NAME, rng)
    with pytest.raises(BadData) as caught:
        _checkpoint.read(store.folder, "r")
    assert len(str(caught.value).splitlines()) == 1
    (store.folder / _checkpoint.NAME).write_bytes(whole)
    assert (_checkpoint.read(store.folder, "r") or {})["step"] == 3


def test_some_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    store = checkpoint(tmp_path)
    for seed in range(20):
        spoil(store, seed)


@pytest.mark.slow
def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    store = checkpoint(tmp_path)
    for seed in range(200):
        spoil(store, seed)


def test_other_weights_behind_the_same_name_are_another_run(copy: Path) -> None:
    before = (copy / "record.json").read_bytes()
    with pytest.raises(BadPlace, match="--overwrite"):
        audit(copy, seed=1)
    assert (copy / "record.json").read_bytes() == before
    assert audit(copy)["run"]["resumed_shards"] > 0  # the same weights resume
    replaced = audit(copy, seed=1, overwrite=True)["encoders"][0]["fingerprint"]
    assert replaced != json.loads(before)["encoders"][0]["fingerprint"]


@pytest.mark.slow
def test_workers_refuse_other_weights_too(copy: Path) -> None:
    with pytest.raises(BadPlace):
        audit(copy, seed=1, engine=Processes(1))


class Broken(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such layer")


def test_a_run_in_which_nothing_was_audited_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NothingAudited, match="no such layer"):
        run_audit(PLAN, tmp_path, encoders={"it": Encoder(Broken(), mean=0, std=1)})
    assert not (tmp_path / "record.json").exists()
    code, out, err = command_line(capsys, "audit", "zoo:no-such", "--data", "digits", "--out", str(tmp_path))
    assert code == 3, err
    assert "nothing could be audited" in err
    (tmp_path / "again").mkdir()
    _, _, err = command_line(
        capsys, "audit", "zoo:digits-simclr?layer=2", "--data", "digits", "--out", str(tmp_path / "again")
    )
    assert err.count("not one vector per image") == 1
    assert "not one vector per image" in json.loads((tmp_path / "again/plan.json").read_text())["error"]
    shutil.rmtree(tmp_path / "again")
    assert not out
    assert not (tmp_path / "report.html").exists()
    audit(tmp_path)  # another plan, and nothing to overwrite
    first = (tmp_path / "record.json").read_bytes()
    with pytest.raises(NothingAudited):
        run_audit(PLAN, tmp_path, encoders={"it": Encoder(Broken(), mean=0, std=1)}, overwrite=True)
    assert (tmp_path / "record.json").read_bytes() == first


def photos(folder: Path) -> Path:
    for number in range(12):
        path = folder / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 255, (8, 8), dtype=np.uint8)
        PIL.Image.fromarray(pixels).save(path)
    return folder


@pytest.mark.parametrize("out", ["run1", "."])
def test_a_run_among_the_images_is_none_of_them(tmp_path: Path, out: str) -> None:
    data = photos(tmp_path / "photos")
    plan = Plan(PLAN.encoders, str(data), PLAN.measures, images=None, attacked=8, batch_size=4)
    first = run_audit(plan, data / out, encoders={"it": encoder()})
    assert list((data / out / "pictures").rglob("*.png"))
    other = run_audit(plan, data / "run2", encoders={"it": encoder()})
    again = run_audit(plan, data / out, encoders={"it": encoder()})
    assert first["data"]["images"] == other["data"]["images"] == again["data"]["images"] == 12
    assert first["data"]["fingerprint"] == other["data"]["fingerprint"]
    assert again["run"]["resumed_shards"] > 0
    assert (first["data"]["runs_left_out"], other["data"]["runs_left_out"], again["data"]["runs_left_out"]) == (0, 1, 2)


def test_a_record_is_written_and_shown_whatever_becomes_of_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Callable[..., object]:
        raise ZeroDivisionError("drawn")

    small = ["--images", "10", "--profile", "feature_space", "--out", str(tmp_path)]
    own, whole, _ = command_line(capsys, "audit", "zoo:digits-simclr", "--data", "digits", *small)
    before = json.loads((tmp_path / "record.json").read_text())
    (tmp_path / "record.json").unlink()
    monkeypatch.setattr(html, "render", fail)
    code, out, err = command_line(capsys, "audit", "zoo:digits-simclr", "--data", "digits", *small)
    assert code == own
    assert out.split(" images of digits")[0] == whole.split(" images of digits")[0]
    assert "the report could not be drawn: ZeroDivisionError: drawn; the record is written" in err
    assert timeless(json.loads((tmp_path / "record.json").read_text())) == timeless(before)
    monkeypatch.setattr("holdfast.report.documents.audit.document", fail)
    with contextlib.suppress(typer.Exit):  # by the record's own merit
        common.tell(typed(before), str(tmp_path), common.Report(None), json_output=False, strict=False)
    assert "the table could not be drawn" in capsys.readouterr().err
