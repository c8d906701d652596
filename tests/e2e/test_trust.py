"""What an audit says of the machine it ran on, and whose code it runs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast import cli
from holdfast.runtime.errors import Missing
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import save
from holdfast.sources.trust import executes
from holdfast.storage.seal import add_seal
from json_records import merge_parts

SMALL = ["--profile", "quick", "--images", "12", "--attacked", "4", "--set", "*.attack.steps=2"]


def status_of(*arguments: str) -> int:
    """Run the command line in this process and return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["holdfast", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with images and weights, which nobody is to hear of; work is done beside it."""
    folder = tmp_path / "alice" / "secret project"
    folder.mkdir(parents=True)
    images = np.random.default_rng(0).integers(0, 255, (12, 8, 8), np.uint8)
    np.savez(folder / "images.npz", images=images, labels=np.arange(12) % 3)
    encoder = open_encoder("zoo:digits-simclr")
    save(
        encoder,
        folder / "w.safetensors",
        {"net": "digits-small", "recipe": json.dumps({"data": str(folder / "images")})},
    )
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def spoken(folder: Path) -> str:
    """Return all text of a run folder but that of the cache, which is private."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder).parts[0] != "cache"]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def test_a_run_folder_says_nothing_of_the_machine_and_resumes_and_merges(secret: Path, tmp_path: Path, capsys) -> None:
    weights, run = f"zoo:digits-simclr?weights={secret / 'w.safetensors'}", tmp_path / "work" / "run"
    asked = ["audit", "plan.toml", "--data", str(secret / "images.npz"), "--images", "12", "--attacked", "4", "--out"]
    Path("plan.toml").write_text(f"encoders = [{weights!r}, 'zoo:digits-simclr']\nmeasures = [{{name='uniformity'}}]\n")
    assert status_of(*asked, str(run)) == 0
    said = capsys.readouterr()
    assert status_of(*asked, str(run), "--json") == 0  # the same audit: its shards are found again
    record = json.loads(capsys.readouterr().out)
    assert record["run"]["resumed_shards"] > 0
    assert record["encoders"][0]["name"] == "zoo:digits-simclr?weights=…/w.safetensors"
    assert "--data '…/images.npz'" in record["plan"]["command"]
    for text in (spoken(run), said.out, json.dumps(record), (secret / "w.safetensors").read_bytes().decode("latin-1")):
        assert "alice" not in text
        assert "secret project" not in text
    with pytest.MonkeyPatch.context() as patch:  # the same places, seen from elsewhere
        patch.chdir(secret.parent)
        plan = str(tmp_path / "work" / "plan.toml")
        assert status_of("audit", plan, *asked[2:], str(run)) == 0
        (secret.parent / "images.npz").write_bytes((secret / "images.npz").read_bytes())
        other = [str(secret.parent / "images.npz") if one.endswith("images.npz") else one for one in asked[2:]]
        assert status_of("audit", plan, *other, str(run)) == 2  # others of that name
    for part in ("1/2", "2/2"):
        assert status_of(*asked, "parts", "--shard", part) == 0
    assert status_of("merge", "parts") == 0
    assert "alice" not in spoken(Path("parts"))
    merged = json.loads(Path("parts/record.json").read_text(encoding="utf-8"))
    for row, other in zip(merged["encoders"], record["encoders"], strict=True):
        assert row["fingerprint"] == other["fingerprint"]
        assert {name: one["scores"] for name, one in row["measures"].items()} == {
            name: one["scores"] for name, one in other["measures"].items()
        }


def test_credentials_reach_no_record(secret: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HOLDFAST_KEEP_PATHS", "1")
    out = "memory://key:hunter2@bucket/run?token=hf_abcdefghijklmnopqrstuv"
    data = str(secret / "images.npz")
    assert status_of("audit", "zoo:digits-simclr", "--data", data, *SMALL, "--out", out) == 0
    said = capsys.readouterr()
    assert "hunter2" not in said.out + said.err
    assert "hf_abcdef" not in said.out + said.err
    record = holdfast.open(out).data
    assert "hunter2" not in json.dumps(record)
    assert data in record["plan"]["command"]  # paths are kept, as asked


@pytest.fixture
def planted(secret: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a part of an audit whose plan names code that leaves a mark."""
    folder = Path("theirs")
    plan = ["audit", "zoo:digits-simclr", "--data", "digits", *SMALL, "--out", str(folder), "--shard", "1/20"]
    assert status_of(*plan) == 0
    text = (folder / "plan.json").read_text(encoding="utf-8")
    theirs = add_seal(json.loads(text.replace("zoo:digits-simclr", "py:planted:build?mean=0&std=1")))
    (folder / "plan.json").write_text(json.dumps(theirs))
    Path("planted.py").write_text("import pathlib\npathlib.Path('mark').touch()\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    return folder


def test_merge_runs_no_code_of_others_without_trust(planted: Path, capsys) -> None:
    assert status_of("merge", str(planted)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "names code to be run here, or who is to get images: py:planted:build" in error
    assert "--trust" in error
    with pytest.raises(Missing, match="--trust"):
        merge_parts("another", [str(planted)])
    assert not Path("mark").exists()
    shutil.rmtree("another")
    status_of("merge", str(planted), "--trust")
    assert Path("mark").exists()


@pytest.mark.parametrize(
    ("spec", "runs"),
    [
        ("py:a.b:c?mean=0&std=1", True), ("PY:a:b", True), ("hf:org/name?trust_remote_code=true", True),
        ("hf:org/name?trust_remote_code=Yes", True), ("torchvision:LSUN?root=x", True), ("hf:org/name", False),
        ("hf:org/name?trust_remote_code=false", False), ("zoo:digits-simclr", False), ("digits", False),
        ("onnx:a.onnx?mean=0&std=1", False), ("torchvision:CIFAR10?root=x", False), ("weights.safetensors", False),
    ],
)  # fmt: skip
def test_what_runs_code(spec: str, runs: bool) -> None:
    assert bool(executes(spec)) == runs
