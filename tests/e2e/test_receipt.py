"""The same audit asked again: its record stands as long as nothing that it depends on has changed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

from holdfast.auditing import inputs
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.cli import common
from holdfast.cli.common import run_plan, standing_answer
from holdfast.runtime import doors
from holdfast.sources.encoders import open_encoder
from holdfast.storage import receipt
from holdfast.storage.entry import as_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.receipt import RECEIPT, standing


@pytest.fixture(autouse=True, scope="module")
def _clock_of_files():
    """Let files be old as soon as they are written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receipt, "YOUNG", -3600.0)
        yield


REQUEST = {"encoders": ["zoo:cnn_a_mnist"], "images": 8}


def pictures(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (8, 28, 28), np.uint8)


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> tuple[Path, Path, Path]:
    """An audit with a receipt: its run folder, the file of its images, that of its weights."""
    place = tmp_path_factory.mktemp("receipt")
    images, weights = place / "images.npz", place / "weights.safetensors"
    np.savez(images, images=pictures(0))
    state = open_encoder("zoo:cnn_a_mnist").module.network.state_dict()
    safetensors.torch.save_file(state, weights, {"mean": "0", "std": "1"})
    plan = make_plan(
        AuditRequest([f"zoo:cnn_a_mnist?weights={weights}"], str(images), measures=["cosine_to_self"], images=8)
    )
    run_plan(plan, str(place / "run"), json_output=True, quiet=True, request=REQUEST)
    return place / "run", images, weights


@pytest.fixture
def run(audited) -> Path:
    return audited[0]


def stands(run: Path, request: dict = REQUEST) -> bool:
    return standing(Folder(run), request) is not None


def test_the_record_of_the_same_request_stands(run, monkeypatch, tmp_path):
    assert as_json(standing(Folder(run), REQUEST)) == json.loads((run / "record.json").read_text())
    assert not stands(run, REQUEST | {"images": 9})
    assert not stands(tmp_path)
    assert standing(Folder("memory://run"), REQUEST) is None
    monkeypatch.setenv("HOLDFAST_KEEP_PATHS", "1")
    assert not stands(run)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert not stands(run)


def test_all_that_is_read_is_told(audited, monkeypatch):
    run, images, weights = audited
    monkeypatch.setattr(doors, "PIECE", 1000)
    heard: list[tuple[int, int]] = []
    assert standing(Folder(run), REQUEST, lambda *told: heard.append(told)) is not None
    shards = [path.stat().st_size for path in run.rglob("cache/**/*.safetensors")]
    total = sum(shards) + images.stat().st_size + weights.stat().st_size
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert heard[-1] == (total, total)
    assert len(heard) > len(shards) + images.stat().st_size // 1000


@pytest.mark.sweep(3)
@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("slow", [False, True])
def test_a_receipt_that_takes_long_shows_how_far_it_is(audited, monkeypatch, capsys, slow, quiet):
    monkeypatch.setattr(common, "LONG", 0.0 if slow else 1000.0)
    place, images, weights = audited
    assert standing_answer(REQUEST, str(place), True, quiet, False)
    assert ("comparing the files with the receipt: begun" in capsys.readouterr().err) == (slow and not quiet)
    plan = make_plan(
        AuditRequest([f"zoo:cnn_a_mnist?weights={weights}"], str(images), measures=["cosine_to_self"], images=8)
    )
    run_plan(plan, str(place), json_output=True, quiet=quiet, request=REQUEST)
    assert ("hashing the inputs, for the receipt: begun" in capsys.readouterr().err) == (slow and not quiet)


@pytest.mark.parametrize("which", [1, 2], ids=["images", "weights"])
def test_changed_inputs(audited, which):
    file = audited[which]
    before = file.read_bytes()
    file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    assert not stands(audited[0])
    file.unlink()
    assert not stands(audited[0])
    file.write_bytes(before)
    assert stands(audited[0])


def test_other_software(run, monkeypatch, tmp_path):
    (tmp_path / "torch-99.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not stands(run)
    monkeypatch.undo()
    own = tmp_path / "holdfast"
    shutil.copytree(Path(receipt.__file__).parents[1], own, ignore=shutil.ignore_patterns("*.pyc"))
    monkeypatch.setattr(receipt, "__file__", str(own / "storage" / "receipt.py"))
    assert stands(run)
    with (own / "parts" / "attacks" / "pgd.py").open("a") as file:
        file.write("#")
    assert not stands(run)


@pytest.mark.parametrize(
    "pattern", ["record.json", "report.html", "plan.json", "tables/*/*", "cache/*/*.safetensors", RECEIPT]
)
@pytest.mark.parametrize("change", ["damaged", "missing", "emptied"])
def test_damaged_files_of_the_run(run, pattern, change):
    file = sorted(run.glob(pattern))[-1]
    before = file.read_bytes()
    middle = len(before) // 2
    if change == "missing":
        file.unlink()
    else:
        file.write_bytes(
            b"" if change == "emptied" else before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :]
        )
    assert not stands(run)
    file.write_bytes(before)
    assert stands(run)


def test_every_byte_of_a_shard_is_sealed(run):
    name = next(name for name in Folder(run).files("cache") if name.endswith(".safetensors"))
    file = run / name
    before = file.read_bytes()
    generator = np.random.default_rng(0)
    for place in generator.integers(0, len(before), 200):
        file.write_bytes(before[:place] + bytes([before[place] ^ 16]) + before[place + 1 :])
        assert not receipt.intact(file, name), place
    file.write_bytes(before)
    assert receipt.intact(file, name)
    assert not receipt.intact(file, name.replace("/0", "/1"))  # another's place


def leaves(folder: Path, data: Path | str, encoder: str = "zoo:digits-simclr", **options) -> bool:
    plan = make_plan(AuditRequest([encoder], str(data), measures=["cosine_to_self"], images=8, **options))
    run_plan(plan, str(folder), json_output=True, quiet=True, request=REQUEST)
    return (folder / RECEIPT).exists()


def test_a_folder_of_pictures(tmp_path, monkeypatch):
    from PIL import Image

    data = tmp_path / "pictures"
    (data / "cats").mkdir(parents=True)
    for number in range(10):
        Image.fromarray(pictures(number)[0, :8, :8]).save(data / "cats" / f"{number}.png")
    with monkeypatch.context() as patch:
        patch.setattr(receipt, "YOUNG", 3600.0)
        assert not leaves(tmp_path / "early", data)  # written just before
    assert leaves(tmp_path / "run", data)
    assert stands(tmp_path / "run")
    (data / "cats" / "notes.txt").write_text("")
    assert not stands(tmp_path / "run")  # a name more
    (data / "cats" / "notes.txt").unlink()
    assert stands(tmp_path / "run")
    assert not leaves(tmp_path / "skipping", data, skip_corrupt=True)
    os.symlink(tmp_path, data / "elsewhere")
    assert not stands(tmp_path / "run")


def test_what_is_not_known_leaves_none(tmp_path):
    (tmp_path / "mine.py").write_text("from torch import nn\n\ndef net():\n    return nn.Flatten()\n")
    assert leaves(tmp_path / "digits", "digits")
    sys.path.insert(0, str(tmp_path))
    try:
        assert not leaves(tmp_path / "code", "digits", "py:mine:net?mean=0&std=1")
    finally:
        sys.path.remove(str(tmp_path))
    assert not leaves(tmp_path / "rounds", "digits", budget="0.001s")


@pytest.mark.slow
def test_the_command_answers_again_without_torch(tmp_path):
    code = (
        "import sys; from holdfast.cli import _status; s = _status(); print('torch' in sys.modules, s, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "audit", "zoo:digits-simclr", "--data", "digits", "--images", "16"]
    command += ["--measure", "cosine_to_self", "--out", "run"]

    def asked(*more: str) -> tuple[str, str, str]:
        done = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, check=True)
        *said, last = done.stderr.splitlines()
        return done.stdout, " ".join(said), last

    first, _, imported = asked()
    assert imported == "True 0"
    again, said, imported = asked()
    assert (again, imported) == (first, "False 0")
    assert "nothing has changed since" in said
    assert (
        json.loads(asked("--json", "--quiet")[0])["seal"]
        == json.loads((tmp_path / "run/record.json").read_text())["seal"]
    )
    assert asked("--json", "--quiet")[1] == ""
    assert asked("--seed", "0")[2] == "True 0"  # another request, whose numbers are equal


def test_a_receipt_that_cannot_be_written_is_said_and_the_answer_stands(audited, tmp_path, monkeypatch, capsys):
    _, images, weights = audited
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(inputs, "write_receipt", lambda *_: (_ for _ in ()).throw(full))
    plan = make_plan(
        AuditRequest([f"zoo:cnn_a_mnist?weights={weights}"], str(images), measures=["cosine_to_self"], images=8)
    )
    run_plan(plan, str(tmp_path), json_output=True, quiet=True, request=REQUEST)
    written = capsys.readouterr()
    assert json.loads(written.out)["encoders"]
    assert "the receipt could not be written:" in written.err
    assert (tmp_path / "report.html").is_file()
    assert not stands(tmp_path)
