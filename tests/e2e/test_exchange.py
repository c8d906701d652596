"""Questions written for other verifiers ask what certificates answer, and questions in files are answered rightly."""

import csv
import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from test_command_line import run
from torch import Tensor, nn

import holdfast
from holdfast.core import Encoder, HoldfastError, Margin, Rng, Shard
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.observations.certified import Certified
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Failed, Mismatch, Missing, NotFinite, UnknownName, Unsupported
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.storage.vnnlib import Query, write_vnnlib
from holdfast.storage.vnnlib_reader import read_vnnlib
from holdfast.workflows.exchange import cube
from holdfast.workflows.exchange.onnx_file import run_onnx, write_onnx

EPS = 0.02


@pytest.fixture(scope="module")
def small() -> Encoder:
    """An encoder of 8 × 8 digits with a normalisation."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6))
    return Encoder(network, mean=0.3, std=0.4, name="small")


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    """The file of Y = (X_0 + X_1 - X_2, X_3), four pixels."""
    weights = torch.tensor([[1.0, 1.0, -1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    encoder = Encoder(nn.Flatten(), mean=0, std=1)
    write_onnx(tmp_path / "linear.onnx", encoder, (weights, torch.zeros(2)), torch.zeros(1, 1, 2, 2))
    return tmp_path / "linear.onnx"


def asked(folder: Path, low: list[float], high: list[float], *ways: list[tuple[list[float], float]]) -> Path:
    """Write a query; each way is rows of weights and a bias."""
    margins = [
        Margin(torch.tensor([[w for w, _ in way]]).double(), torch.tensor([[b for _, b in way]]).double())
        for way in ways
    ]
    write_vnnlib(folder / "a.vnnlib", Query(torch.tensor(low).double(), torch.tensor(high).double(), tuple(margins)))
    return folder / "a.vnnlib"


def test_pairs_are_those_of_an_audit_and_boxes_hold_the_ball(small: Encoder, tmp_path: Path) -> None:
    instances = holdfast.export_vnnlib(
        small, "digits", out=tmp_path, eps=EPS, images=6, negatives=4, image=[3, 1], seed=7
    )
    with (tmp_path / "instances.csv").open() as file:
        assert list(csv.reader(file)) == [[one.onnx, one.vnnlib, "300"] for one in instances]
    images = open_images("digits", images=6, seed=7)
    x, ids = images.batch(0, 6), tuple(images.ids)
    shard = Shard(small, x, torch.arange(6), Rng(7, ids=ids), small(x))
    margin = Certified(Crown(), Linf(EPS), negatives=4).margins(shard)
    for number, instance in zip([3, 1], instances, strict=True):
        assert instance.image == ids[number]
        moved = (x[number : number + 1] + EPS * torch.randn(1, 1, 8, 8).sign()).clamp(0, 1)
        expected = margin.part(slice(number, number + 1))(small(moved).double())
        computed = run_onnx(tmp_path / instance.onnx, moved)
        assert torch.allclose(computed.double(), expected, atol=1e-5)
        query = read_vnnlib(tmp_path / instance.vnnlib)
        assert [m.weights[0, 0].tolist() for m in query.unsafe] == torch.eye(4).tolist()
        pixels = x[number].double().flatten()
        assert bool(
            ((query.low <= (pixels - EPS).clamp_min(0)) & (query.low >= (pixels - EPS - 1e-12).clamp_min(0))).all()
        )
        assert bool(
            ((query.high >= (pixels + EPS).clamp_max(1)) & (query.high <= (pixels + EPS + 1e-12).clamp_max(1))).all()
        )
        assert instance.margin == pytest.approx(margin(small(x).double())[number].min().item(), rel=1e-5)


def test_our_proof_of_the_file_is_our_proof_of_the_encoder(small: Encoder, tmp_path: Path) -> None:
    (instance,) = holdfast.export_vnnlib(small, "digits", out=tmp_path, eps=EPS, images=6, negatives=4, image=[0])
    answer = holdfast.verify_vnnlib(
        tmp_path / instance.onnx, tmp_path / instance.vnnlib, certifiers=["crown"], attack=0
    )
    images = open_images("digits", images=6)
    x = images.batch(0, 6)
    shard = Shard(small, x, torch.arange(6), Rng(0, ids=tuple(images.ids)), small(x))
    margin = Certified(Crown(), Linf(EPS), negatives=4).margins(shard).part(slice(0, 1))
    bound = Crown()(small, margin, x[:1], Linf(EPS)).lower[0]
    assert answer.lower == pytest.approx(bound.tolist(), abs=1e-5)
    assert answer.result == ("unsat" if bool((bound > 0).all()) else "unknown")


def head(folder: Path, weights: Tensor) -> Path:
    safetensors.torch.save_file({"weight": weights, "bias": torch.zeros(len(weights))}, folder / "head.safetensors")
    return folder / "head.safetensors"


def test_classes_of_a_head_share_one_network(small: Encoder, tmp_path: Path) -> None:
    weights = torch.randn(10, 6, generator=torch.Generator().manual_seed(0))
    options = {"out": tmp_path, "eps": EPS, "images": 4, "head": head(tmp_path, weights)}
    instances = holdfast.export_vnnlib(small, "digits", **options)
    assert {one.onnx for one in instances} == {"onnx/classifier.onnx"}
    assert all(one.margin > 0 for one in instances)  # against the class that the clean image gets
    images = open_images("digits", images=4)
    logits = small(images.batch(0, 4)) @ weights.T
    query = read_vnnlib(tmp_path / instances[0].vnnlib)
    assert len(query.unsafe) == 9
    assert query.worst(logits[:1]).item() == pytest.approx(instances[0].margin, rel=1e-5)
    labelled = holdfast.export_vnnlib(small, "digits", **options, label=True)
    assert images.labels is not None
    wrong = [int(row.argmax()) != label for row, label in zip(logits, images.labels, strict=True)]
    assert [one.margin < 0 for one in labelled] == wrong


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"eps": 0.0}, BadValue, "radius"),
        ({"eps": -0.1}, BadValue, r"-0\.1"),
        ({"eps": 1.5}, BadValue, "radius"),
        ({"norm": "l2", "eps": 1.0}, Unsupported, "VNN-LIB"),
        ({"norm": "linff"}, UnknownName, r"'linf'\?"),
        ({"image": [6]}, BadValue, "image"),
        ({"negatives": 6}, BadValue, "negatives"),
        ({"negatives": 0}, BadValue, "negatives"),
        ({"divergence": "cosin"}, UnknownName, r"'cosine'\?"),
        ({"label": True}, Missing, "label"),
        ({"head": "none.safetensors"}, Missing, "none.safetensors"),
        ({"seconds": 0.0}, BadValue, "seconds"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_nothing_is_written(
    small: Encoder, tmp_path: Path, options: dict, kind: type[HoldfastError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        holdfast.export_vnnlib(small, "digits", **{"out": tmp_path / "out", "images": 6, "negatives": 2, **options})
    assert not (tmp_path / "out").exists()


def test_encoders_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.linalg.svdvals(x[:, 0])

    nan = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    nan[1].weight.data[0, 0] = torch.nan
    for network, kind, words in ((nan, NotFinite, "NaN"), (Odd(), Unsupported, "ONNX")):
        with pytest.raises(kind, match=words) as refused:
            holdfast.export_vnnlib(
                Encoder(network, mean=0, std=1), "digits", out=tmp_path, eps=EPS, images=4, negatives=2
            )
        assert "\n" not in str(refused.value)
        assert not list(tmp_path.rglob("*.onnx"))


BOX = ([-1.0, 0.5, 2.0, 0.0], [3.0, 0.75, 2.5, 0.0])  # Y_0 from -3 to 1.75, Y_1 is 0


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("ways", "result", "lower"),
    [
        ([[([1, 0], 3.5)]], "unsat", [0.5]),
        ([[([1, 0], 2.5)]], "sat", None),
        ([[([-1, 0], 2.0)]], "unsat", [0.25]),
        ([[([1, 0], 3.5)], [([-1, 0], 1.0)]], "sat", None),
        ([[([1, 0], 0.0), ([0, 1], 0.25)]], "unsat", [0.25]),  # the second row of the way excludes it
        ([[([1, 0], 3.25), ([-1, 0], 2.0)], [([-1, 0], 4.0)]], "unsat", [0.25, 2.25]),
        ([[([1, 0], 1.0), ([-1, 0], -2.0)]], "sat", None),  # -2 <= Y_0 <= -1: neither row is excluded
    ],
)  # fmt: skip
def test_boxes_of_any_sides_are_answered_exactly(
    linear: Path, tmp_path: Path, ways: list, result: str, lower: list | None
) -> None:
    answer = holdfast.verify_vnnlib(linear, asked(tmp_path, *BOX, *ways))
    assert answer.result == result
    if lower is not None:
        assert answer.lower == pytest.approx(lower, abs=1e-6)
    else:
        assert answer.inputs is not None
        assert answer.outputs is not None
        low, high = (torch.tensor(end).double() for end in BOX)
        assert bool(((answer.inputs.double() >= low) & (answer.inputs.double() <= high)).all())
        assert read_vnnlib(tmp_path / "a.vnnlib").worst(answer.outputs[None]).item() <= 0
        assert torch.equal(run_onnx(linear, answer.inputs.view(1, 1, 2, 2))[0], answer.outputs)


def test_a_box_is_bounded_outward(linear: Path, tmp_path: Path) -> None:
    """A threshold between what the decimal numbers reach and what float64 makes of them is not proved."""
    path = asked(tmp_path, [0.0, 0.0, 0.0, 0.1], [0.0, 0.0, 0.0, 0.1], [([0, 1], -0.1)])
    assert holdfast.verify_vnnlib(linear, path, attack=0).lower[0] <= 0


def test_files_that_do_not_belong_together_are_refused(linear: Path, tmp_path: Path, monkeypatch) -> None:
    three = asked(tmp_path, [0.0] * 3, [1.0] * 3, [([1, 0], 0.0)])
    with pytest.raises(Mismatch, match="3 inputs"):
        holdfast.verify_vnnlib(linear, three)
    with pytest.raises(Mismatch, match="3 outputs"):
        holdfast.verify_vnnlib(linear, asked(tmp_path, *BOX, [([1, 0, 0], 0.0)]))
    sound = asked(tmp_path, *BOX, [([1, 0], 3.5)])
    for options, kind, words in (
        ({"certifiers": ["crow"]}, UnknownName, r"'crown'\?"), ({"seconds": 0.0}, BadValue, "seconds"),
        ({"attack": -1}, BadValue, "attack"),
    ):  # fmt: skip
        with pytest.raises(kind, match=words):
            holdfast.verify_vnnlib(linear, sound, **options)
    monkeypatch.setattr(cube, "run_onnx", lambda name, x: 1.01 * run_onnx(name, x))
    with pytest.raises(Failed):
        holdfast.verify_vnnlib(linear, sound)


def test_the_commands_write_and_answer(capsys, tmp_path: Path) -> None:
    encoder = ["zoo:digits-simclr-adv", "--data", "digits", "--eps", "1/255", "--images", "4", "--negatives", "2"]
    code, out, err = run(capsys, "export-vnnlib", *encoder, "--image", "2", "--out", str(tmp_path), "--json", "--quiet")
    assert code == 0, err
    (instance,) = json.loads(out)["instances"]
    files = [str(tmp_path / instance["onnx"]), str(tmp_path / instance["vnnlib"])]
    code, out, err = run(capsys, "verify", *files, "--certifier", "crown", "--quiet")
    assert (code, out.strip()) == (0, "unsat"), err
    query = read_vnnlib(files[1])
    sure = tuple(Margin(m.weights, m.bias - 1e6) for m in query.unsafe)
    write_vnnlib(files[1], Query(query.low, query.high, sure))
    found = tmp_path / "found.txt"
    code, out, _ = run(capsys, "verify", *files, "--counterexample", str(found), "--attack", "2", "--json", "--quiet")
    assert (code, json.loads(out)["result"]) == (1, "sat")
    assert found.read_text().startswith("sat\n((X_0 ")
    never = tuple(Margin(m.weights, m.bias * 0) for m in query.unsafe)
    write_vnnlib(files[1], Query(query.low * 0, query.high * 0 + 1, never))
    code, out, _ = run(capsys, "verify", *files, "--certifier", "interval", "--attack", "0", "--quiet")
    assert (code, out.strip()) == (3, "unknown")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_auto_lirpa_agrees_on_the_exported_files(tmp_path: Path) -> None:
    """Another verifier reads the same files: its bounds and ours are both below what an attack finds, and alike."""
    lirpa = pytest.importorskip("auto_LiRPA", reason="auto_LiRPA, another verifier, is not installed")
    instances = holdfast.export_vnnlib("zoo:digits-simclr-adv", "digits", out=tmp_path, eps=0.05, images=4, negatives=3)
    for instance in instances:
        files = tmp_path / instance.onnx, tmp_path / instance.vnnlib
        query = read_vnnlib(files[1])
        network = open_encoder(f"onnx:{files[0]}?mean=0&std=1").module
        low, high = (end.float().view(1, 1, 8, 8) for end in (query.low, query.high))
        x = (low + high) / 2
        ball = lirpa.PerturbationLpNorm(norm=float("inf"), x_L=low, x_U=high)
        bounded = lirpa.BoundedModule(network, x, device="cpu")
        theirs, _ = bounded.compute_bounds(x=(lirpa.BoundedTensor(x, ball),), method="CROWN")
        answer = holdfast.verify_vnnlib(*files, certifiers=["crown"])
        ours = torch.tensor(answer.lower)
        corners = low + torch.rand(256, 1, 8, 8).round() * (high - low)
        with torch.no_grad():
            reached = network(corners).amin(0).double()
        if answer.result == "sat":
            assert float(theirs.min()) <= 0
        else:
            assert bool((ours <= reached + 1e-5).all())
            assert bool((ours >= theirs[0].double() - 1e-4 * reached.abs().max()).all())
        assert bool((theirs[0].double() <= reached + 1e-5).all())
