"""Trainings that something befalls: odd numbers from monitors, full disks, weights that blow up at the very end."""

import json
import re
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from test_audit_run import holdfast
from test_command_line import refused, run
from test_training import ATTACK, SIMCLR, recipe, write
from torch import nn

from holdfast.core import Encoder
from holdfast.parts.probes.knn import Knn
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.mixture import Mixture, save
from holdfast.parts.threats.shared.generator import Design, Generator
from holdfast.parts.threats.shared.learned import LearnedNoise
from holdfast.runtime.errors import BadData, BadPlace, BadValue, Failed, NotFinite, Unsupported
from holdfast.sources.encoders import open_encoder
from holdfast.training import loop
from holdfast.training.adversary import Adversary
from holdfast.training.loop import train
from holdfast.training.recipe import entry
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.study.plan import Column, Study
from holdfast.workflows.study.run import run_study


class Says:
    """A monitor."""

    every = 1

    def __init__(self, said: Callable[[], dict]):
        self.said = said

    def __call__(self, encoder: Encoder, step: int) -> dict:
        return self.said()


@pytest.mark.parametrize("number", [np.float64(0.5), torch.tensor(0.5), 1])
def test_numbers_of_monitors_are_read_back(number: object, tmp_path: Path) -> None:
    """A checkpoint holds plain numbers only."""
    asked, watch = recipe(SIMCLR, steps=2), Says(lambda: {"mine": number})
    assert train(asked, tmp_path, monitors=(watch,)).rows[-1]["mine"] == float(number)
    assert train(asked, tmp_path, monitors=(watch,)).resumed == 2


@pytest.mark.parametrize(("said", "problem"), [({"a": "b"}, "number"), ({"loss": 0}, "'loss'")])
def test_what_monitors_may_not_say(said: dict, problem: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=problem):
        train(recipe(SIMCLR, steps=2), tmp_path, monitors=(Says(lambda: said),))


def test_two_monitors_that_ask_the_same_are_told_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "recipe.toml", SIMCLR, steps=2)
    table = '\n[[monitor]]\nevery = 2\ndata = "digits"\nimages = {}\nmeasures = ["uniformity"]\n'
    path.write_text(path.read_text() + table.format(40) + table.format(80))
    code, _, err = run(capsys, "train", str(path), "--out", str(tmp_path / "run"))
    assert code == 0, err
    row = pq.read_table(tmp_path / "run" / "log.parquet").to_pylist()[-1]
    assert row["uniformity"] != row["monitor-2/uniformity"]


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Files of more than 300 kB cannot be written."""
    limits, before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, before)


@pytest.mark.usefixtures("small_disk")
def test_a_checkpoint_that_does_not_fit_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadPlace, match=r"checkpoint\.pt"):
        train(recipe(SIMCLR, steps=2), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.json"]  # nothing half-written stays


def test_weights_that_blow_up_in_the_last_step(tmp_path: Path) -> None:
    asked = recipe(SIMCLR, steps=1, optimiser={"name": "sgd", "rate": 1e38, "weight_decay": 1e38})
    with pytest.raises(NotFinite, match="weights"):
        train(asked, tmp_path)
    assert not (tmp_path / "encoder.safetensors").exists()


class Flat(nn.Module):
    """Representations that hardly differ."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((64, 4), 1e-9))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) @ self.weight + 1


@pytest.mark.parametrize("kind", ["free training that ends within a batch", "representations that are flat at the end"])
def test_what_ends_is_kept_with_its_log(kind: str, tmp_path: Path) -> None:
    encoder = Encoder(Flat(), mean=0, std=1, name="flat") if kind.startswith("rep") else None
    asked = recipe(SIMCLR, steps=3, adversary={**ATTACK, "free": 1 if encoder else 2}, optimiser={"rate": 1e-12})
    found = train(asked, tmp_path, encoder=encoder)
    assert pq.read_table(tmp_path / "log.parquet").num_rows == 3
    assert train(asked, tmp_path, encoder=encoder).resumed == found.steps == 3


def test_a_collapse_is_not_answered_by_the_method_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "PATIENCE", 3)
    encoder = Encoder(Flat(), mean=0, std=1, name="flat")
    with pytest.raises(Failed) as error:
        train(recipe(SIMCLR, steps=30, optimiser={"rate": 1e-12}), tmp_path / "flat", encoder=encoder)
    assert "pushes images apart (barlow_twins or vicreg)" in str(error.value)
    np.savez(tmp_path / "equal.npz", images=np.full((256, 8, 8), 100, np.uint8))
    equal = recipe(SIMCLR, steps=30, data=str(tmp_path / "equal.npz"))
    with pytest.raises(Failed) as error:
        train(replace(equal, views=replace(equal.views, colour=0.0)), tmp_path / "equal")
    assert "give images that differ (different pictures among the 256: 1)" in str(error.value)
    assert "simclr" not in str(error.value)


def test_a_spec_that_nobody_could_open_is_refused_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="key=value"):
        train(replace(recipe(SIMCLR), encoder="mine?"), tmp_path, encoder=Encoder(Flat(), mean=0, std=1))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "asked",
    [
        recipe(SIMCLR, clip=1, ema=0.9, corruption="gamma"),
        recipe(SIMCLR, adversary={**ATTACK, "objective": "loss", "space": "projection"}),
    ],
)
def test_a_recipe_comes_back_from_its_record(asked, tmp_path: Path) -> None:
    assert make_recipe(json.loads(json.dumps(entry(asked)))) == asked
    train(replace(asked, steps=1), tmp_path)
    held = json.loads((tmp_path / "recipe.json").read_text())
    own = {key: value for key, value in held.items() if key not in ("begun_from", "command")}
    assert make_recipe(own) == replace(asked, steps=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("steps=NaN", "got nan"),
        ("views.rotate=NaN", "got nan"),
        ("views.noise=Infinity", "views: noise: expected a finite number, got inf"),
        ("optimiser.factor=-1", "optimiser.factor: expected 0 or more, got -1"),
        ("method.dim=64.5", "simclr.dim: expected a whole number, got 64.5"),
        ("method.batchnorm=no", "simclr.batchnorm: expected True or False, got 'no'"),
        ('method={"kind": "threats", "name": "linf"}', "unknown method 'linf'"),
        ("adversary.space=image", "expected representation or projection"),
        ("device=toaster", "expected cpu, cuda or mps"),
        ("track=tensorboard", "track: expected a list of texts"),
        ('monitor={"every": 1, "data": 3}', "monitor: data: expected text"),
        ("images=null", None),
    ],
)
def test_words_of_the_wrong_kind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: str, said: str | None
) -> None:
    path = write(tmp_path / "recipe.toml", SIMCLR, steps=1)
    asked = ["train", str(path), "--set", change, "--out", str(tmp_path / "run")]
    if said is None:
        assert run(capsys, *asked)[0] == 0
    else:
        assert said in refused(capsys, *asked)


def test_a_date_is_no_number(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "recipe.toml", SIMCLR)
    path.write_text(path.read_text().replace("epochs = 2", "epochs = 2020-01-01"))
    assert "epochs: expected a whole number" in refused(capsys, "train", str(path))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("place", ["a b", "a&b=c", "a%20b", "a?b"])
def test_what_is_said_of_an_encoder_opens_it_again(place: str, tmp_path: Path) -> None:
    found = train(recipe(SIMCLR, steps=1, encoder="zoo:digits_cnn?mean=0.5&std=0.25"), tmp_path / place)
    opened = open_encoder(found.spec)
    assert (opened.fingerprint, opened.mean, opened.std) == (found.encoder.fingerprint, [0.5], [0.25])
    if "?" not in place:
        again = train(recipe(SIMCLR, steps=1, encoder=f"file:{tmp_path}/{place}/encoder.safetensors"), tmp_path / "own")
        assert open_encoder(again.spec).fingerprint == again.encoder.fingerprint != opened.fingerprint


def test_a_folder_that_no_spec_can_name(tmp_path: Path) -> None:
    train(recipe(SIMCLR, steps=1), tmp_path / "first")
    asked = recipe(SIMCLR, steps=1, encoder=f"file:{tmp_path}/first/encoder.safetensors")
    with pytest.raises(BadValue, match=r"'\?'"):
        train(asked, tmp_path / "why?")


STUDY = {"title": "one", "method": "simclr", "batch_size": 8, "steps": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test": "/no/where"}, "no file or folder '/no/where'"),
        ({"test": "gaussian?shape=1x8x8", "columns": 3}, "columns: expected a list of Columns, got 3"),
        ({"test": 3}, "test: expected text, got 3"),
        ({"test_images": "many"}, "test_images: expected a whole number, got 'many'"),
        ({"probes": "knn"}, "probes: expected a list of Probes, got 'knn'"),
        ({"encoder": "zoo:none"}, "unknown zoo encoder 'none'"),
        ({"columns": [{"title": "more", "data": 3}]}, "columns: data: expected text, got 3"),
        (
            {"columns": [{"title": "odd", "corruption": {"kind": "methods", "name": "simclr"}}]},
            "unknown threat 'simclr'",
        ),
        ({"data": "IMAGES"}, "expected images with labels"),
        ({"test": "IMAGES"}, "expected images with labels"),
    ],
)
def test_a_study_is_refused_before_its_first_training(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: dict, said: str
) -> None:
    np.save(tmp_path / "images.npy", np.zeros((80, 8, 8), np.uint8))
    change = {key: str(tmp_path / "images.npy") if value == "IMAGES" else value for key, value in change.items()}
    path = write(tmp_path / "study.toml", {"test": "digits", "methods": [STUDY], "epochs": 1, "images": 16}, **change)
    path.write_text(re.sub(r'"(\w+)": ', r"\1 = ", path.read_text()))  # tables of TOML within lists
    assert said in refused(capsys, "study", str(path), "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


class Bare(nn.Module):
    """Raw pixels, or a layer that is kept from learning."""

    def __init__(self, kind: str):
        super().__init__()
        self.layer = nn.Identity() if kind == "none" else nn.Linear(64, 8)
        self.kind, self.dtype = kind, torch.float16 if kind == "half" else torch.float32
        self.to(self.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(self.kind != "shut" and torch.is_grad_enabled()):
            return self.layer(x.flatten(1).to(self.dtype))


@pytest.mark.parametrize(
    ("kind", "said"), [("none", "no gradient to any weight"), ("shut", "no gradient"), ("half", "got torch.float16")]
)
@pytest.mark.parametrize("method", ["simclr", "self_distillation"])
def test_networks_that_would_learn_nothing_are_refused(method: str, kind: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=f"'bare'.*{said}"):
        train(recipe(method=method, steps=1), tmp_path, encoder=Encoder(Bare(kind), mean=0, std=1, name="bare"))


@pytest.mark.slow
def test_half_precision_where_there_is_none(tmp_path: Path) -> None:
    """Of a process of its own: Accelerate decides once, and would say nothing."""
    path = write(tmp_path / "recipe.toml", SIMCLR, precision="fp16")
    done = holdfast("train", str(path), "--out", str(tmp_path / "run"))
    assert "precision 'fp16' cannot be used on 'cpu'" in done.communicate()[1]
    assert done.returncode == 2


@pytest.mark.parametrize("what", ["labels", "mixture"])
def test_what_decides_the_weights_is_part_of_what_is_asked(what: str, tmp_path: Path) -> None:
    """Corrected labels, or another noise in the same file: not the training that is done already."""
    asked = recipe(SIMCLR, data=str(tmp_path / "images.npz"), images=None, batch_size=16, steps=1)
    if what == "mixture":
        asked = replace(asked, adversary=Adversary(threat=Mixture(str(tmp_path / "mixture.safetensors"))))
    for shift in (0, 1):
        images = np.random.default_rng(0).integers(0, 255, (32, 8, 8), np.uint8)
        labels = np.arange(32) % 4 if what == "mixture" else (np.arange(32) + shift) % 4
        np.savez(tmp_path / "images.npz", images=images, labels=labels)
        with torch.random.fork_rng():
            torch.manual_seed(shift)
            generator = Generator(
                Design((1, 8, 8), 64, structure="independent", components=2, latent=64, upsampler="none")
            )
        save(LearnedNoise(generator, Linf(0.1)), tmp_path / "mixture.safetensors")
        if not shift:
            train(asked, tmp_path / "run")
            assert train(asked, tmp_path / "run").resumed == 1
    with pytest.raises(BadPlace):
        train(asked, tmp_path / "run")


@pytest.mark.slow
def test_a_study_does_not_take_the_place_of_another(tmp_path: Path) -> None:
    columns = (Column("γ", Gamma(2.0)),)
    asked = Study({"one": recipe(SIMCLR, images=100, steps=1)}, "digits", columns, 20, probes=(Knn(),))
    run_study(asked, tmp_path)
    kept = (tmp_path / "study.json").read_text()
    with pytest.raises(BadPlace, match="'one'"):
        run_study(replace(asked, recipes={"one": replace(asked.recipes["one"], steps=2)}), tmp_path)
    assert (tmp_path / "study.json").read_text() == kept
    more = run_study(replace(asked, columns=(*asked.columns, Column("γ 3", Gamma(3.0)))), tmp_path)
    assert [row["problems"] for row in more["rows"]] == [{}] * len(more["rows"])


@pytest.mark.parametrize(
    ("text", "said"), [("", "Expecting value"), ("[]", "got `array`"), ('{"command": ""}', "study is missing")]
)
def test_a_study_does_not_take_the_place_of_what_it_cannot_read(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(BadData) as refused:
        run_study(Study({"one": recipe(SIMCLR, images=100)}, "digits", (Column("γ", Gamma(2.0)),)), tmp_path)
    assert said in str(refused.value)
    assert (tmp_path / "study.json").read_text() == text
