"""The short examples run as they are described, with less of everything; `.ci/package` runs one, too."""

import importlib.util
import runpy
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import load_file

FOLDER = Path(__file__).parents[2] / "examples"


def example(name: str) -> Callable[[list[str]], int]:
    return runpy.run_path(str(FOLDER / f"{name}.py"))["main"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_audit_timm(tmp_path, capsys):
    if importlib.util.find_spec("timm") is None:
        pytest.skip("the extra timm is not installed")
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    rng = np.random.default_rng(0)
    for number in range(8):
        PIL.Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(pictures / f"{number}.png")
    words = [str(pictures), "--model", "resnet10t?weights=random&size=32", "--attacked", "4"]
    assert example("audit_timm")(words) == 0
    printed = capsys.readouterr().out
    assert "Breakaway risk" in printed
    assert "of all other pictures are" in printed
    assert Path("timm.html").stat().st_size > 50_000


@pytest.mark.slow
def test_certify(capsys):
    assert example("certify")(["--attacked", "2"]) == 0
    printed = capsys.readouterr().out
    assert "plain\n" in printed
    assert "hardened\n" in printed
    assert printed.count("  certificate: 0.") == 2


@pytest.mark.slow
def test_compare(capsys):
    pair = ["zoo:digits-supervised", "zoo:digits-simclr-adv"]
    assert example("compare")([*pair, "--attacked", "20"]) == 0
    assert "breakaway" in capsys.readouterr().out.lower()
    assert Path("comparison.html").stat().st_size > 10_000


@pytest.mark.slow
def test_harden(capsys):
    assert example("harden")(["--steps", "5"]) == 0
    assert "Price: clean representations moved" in capsys.readouterr().out
    assert Path("hardened/encoder.safetensors").exists()


def test_monitor_training(capsys):
    assert example("monitor_training")(["--epochs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 1", "epoch 2"]
    assert all("drift under attack" in line and "uniformity" in line for line in lines)


@pytest.mark.slow
def test_purifiers(capsys):
    assert example("purifiers")(["--images", "30", "--attacked", "8", "--steps", "4", "--draws", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line[0] != " "][:3] == ["no defence", "random resizing", "JPEG 50"]
    naive, adaptive = (float(lines[row].split(": ")[1].split(" [")[0]) for row in (9, 10))
    assert naive < adaptive  # of JPEG


class Flatten(torch.nn.Flatten):
    """Stands for a class of a package that is not installed."""


class Runs:
    """Would run something where it is unpickled by an unwary reader."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return Path.touch, (Path("touched"),)


def test_published_networks_become_weights(capsys, monkeypatch):
    monkeypatch.setattr(Flatten, "__module__", "beta_crown.modules")
    monkeypatch.setitem(sys.modules, "beta_crown", types.ModuleType("beta_crown"))
    package = types.ModuleType("beta_crown.modules")
    package.Flatten = Flatten  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "beta_crown.modules", package)
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), Flatten(), torch.nn.Linear(8, 3))
    for folder in ("unsupervised", "linear_evaluate"):
        Path("clone/models", folder).mkdir(parents=True)
        torch.save(network, f"clone/models/{folder}/mnist_base.pkl")
    torch.save(torch.nn.Sequential(torch.nn.Tanh()), "clone/models/unsupervised/other.pkl")
    torch.save(Runs(), "clone/models/unsupervised/runs.pkl")
    Path("clone/models/unsupervised/empty.pkl").touch()
    assert example("rvcl_weights")(["clone"]) == 3
    for name in ("mnist_base", "linear_mnist_base"):
        weights = load_file(f"rvcl/{name}.safetensors")
        assert all(torch.equal(weights[key], value) for key, value in network.state_dict().items())
        assert len(weights) == 4
    assert not Path("touched").exists()
    assert sorted(path.name for path in Path("rvcl").iterdir()) == [
        "linear_mnist_base.safetensors",
        "mnist_base.safetensors",
    ]
    assert "other.pkl: not converted" in capsys.readouterr().err
