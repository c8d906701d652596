import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import holdfast
from holdfast.core import Encoder, registry
from holdfast.runtime.errors import (
    Ambiguous,
    BadData,
    BadValue,
    HoldfastError,
    Mismatch,
    Missing,
    NothingAudited,
    Unsupported,
)
from holdfast.sources.encoders import advise, doctor, open_encoder
from holdfast.sources.encoders.shared.networks import NETWORKS

BAD = {
    "digits-simclr": "names no source; did you mean zoo:digits-simclr\\?",
    "resnet18?layer=layer3": r"did you mean timm:resnet18\?layer=layer3 or torchvision:resnet18\?layer=layer3\?",
    "resnet50@IMAGENET1K_V2": "did you mean torchvision:resnet50@IMAGENET1K_V2",
    "ViT-B32": "did you mean openclip:ViT-B-32 or torchvision:vit_b_32",
    "facebook/dinov2-base": "did you mean hf:facebook/dinov2-base",
    "weights.pth": r"did you mean timm:resnet50\?weights=weights.pth",
    ".": r"did you mean hf:\. or timm:local-dir:\.",
    "gibberish": "names no source: expected source:name",
    "som.safetensors": "did you mean 'some.safetensors'",
    "tim:resnet18?layer=layer3": r"did you mean timm:resnet18\?layer=layer3\?",
    "zo:cnn_a_mnist": "unknown encoder source 'zo'; did you mean zoo:cnn_a_mnist",
    "zoo:cnn_a_mnist?sed=1": "did you mean 'seed'",
    "zoo:cnn_a_mnist?seed=one": "seed=one is not usable",
    "zoo:cnn_a_mnist?mean=0.5": "expected mean and std together",
    "zoo:cnn_a_mnist?mean=a&std=b": "mean=a is not usable",
    "zoo:cnn_a_mnist?mean=0&std=0": "positive stds",
    "zoo:cnn_a_mnist?mean=0,0,0&std=1,1,1": "takes 1 channels, given by the caller has 3 means",
    "zoo:cnn_a_mnist?mean=0&std=1,1": "takes 1 channels, given by the caller has 2 stds",
    "zoo:cnn_a_mnist?size=0": "size=0 is not usable",
    "zoo:cnn_a_mnist?size=40": r"fails on images \[1, 40, 40\]",
    "zoo:cnn_a_mnist?pool=sum": "expected one of avg, cls, mean, flatten, none",
    "zoo:cnn_a_mnist?weights=absent.safetensors": "'absent.safetensors' does not exist",
    "absent.safetensors?mean=0&std=1": "'absent.safetensors' does not exist",
    "absent.onnx?mean=0&std=1": "'absent.onnx' does not exist",
    "file:absent.safetensors?arch=cnn_a_mnst": "did you mean 'cnn_a_mnist'",
    "file:absent.safetensors?weights=random": "file: is itself the weights",
    "py:nowhere_to_be_found": "expected py:package.module:factory",
    "py:nowhere_to_be_found:make": "No module named 'nowhere_to_be_found'",
    "py:holdfast.sources.encoders:open_encodr": "did you mean 'open_encoder'",
}


@pytest.mark.parametrize("spec", BAD)
def test_bad_specs(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_file(NETWORKS["cnn_a_mnist"].build().state_dict(), "some.safetensors")
    with pytest.raises(HoldfastError, match=BAD[spec]) as caught:
        open_encoder(spec.replace("file:absent", "file:some"))
    assert "\n" not in str(caught.value)


def test_names_and_labels():
    assert open_encoder("zoo:digits_cnn?seed=1").name == "zoo:digits_cnn?seed=1"
    assert open_encoder("zoo:digits_cnn?label=mine").name == "mine"
    differentiable = {"zoo", "file", "py", "onnx", "torchvision", "timm", "hf", "openclip"}
    assert set(registry.names("encoders")) == differentiable | {"call", "ort", "tflite", "openvino", "http", "https"}


def test_one_number_stands_for_every_channel_beside_three(monkeypatch):
    encoder = open_encoder("zoo:base_cifar?mean=0.485,0.456,0.406&std=0.25")
    assert (encoder.mean, encoder.std) == ([0.485, 0.456, 0.406], [0.25, 0.25, 0.25])
    spelt = open_encoder("zoo:base_cifar?mean=0.485,0.456,0.406&std=0.25,0.25,0.25")
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encoder(x), spelt(x))
    assert encoder.fingerprint == spelt.fingerprint
    network = torch.nn.Flatten()
    assert torch.equal(
        Encoder(network, mean=0.5, std=[0.1, 0.2, 0.4])(x),
        ((x - 0.5) / torch.tensor([0.1, 0.2, 0.4])[:, None, None]).flatten(1),
    )
    for mean, std in (([0.1, 0.2], [1, 1, 1]), ([], 1), ([0.1] * 3, [1, 1])):
        with pytest.raises(BadValue, match="mean="):
            Encoder(network, mean=mean, std=std)
    said = r"has 3 means and stds, one per channel, and the images have 1 .*or add \?channels=3 to the data"
    with pytest.raises(Mismatch, match=said):
        Encoder(network, mean=[0.1] * 3, std=1)(x[:, :1])
    said = "did you mean mean=0.482,0.459,0.408 and std=0.227,0.224,0.224: divided by 255?"
    with pytest.raises(BadValue, match=re.escape(said)):
        Encoder(network, mean=[123, 117, 104], std=[58, 57, 57])
    assert Encoder(network, mean=2, std=2).mean == [2.0], "unusual, but not in grey levels"
    with pytest.raises(Mismatch, match="2 means"):
        Encoder(network, mean=[0.5, 0.5], std=1)(x)


# --- weights in files ---------------------------------------------------------------------------


def weights(name="cnn_a_mnist"):
    torch.manual_seed(0)
    return NETWORKS[name].build().state_dict()


def test_file_recognises_the_architecture(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(weights(), path)
    by_path, by_source = (
        open_encoder(f"{path}?mean=0&std=1"),
        open_encoder(f"file:{path}?arch=cnn_a_mnist&mean=0&std=1"),
    )
    assert by_path.fingerprint == by_source.fingerprint
    assert "only zoo network" in str(by_path.origin["architecture"])
    assert "given" in str(by_source.origin["architecture"])
    assert open_encoder(f"zoo:cnn_a_mnist?weights={path}&mean=0&std=1").fingerprint == by_path.fingerprint
    with pytest.raises(Missing, match="mean=0&std=1"):
        open_encoder(str(path))
    with pytest.raises(Mismatch, match=r"0\.weight"):
        open_encoder(f"file:{path}?arch=cnn_a_cifar&mean=0&std=1")


def test_file_says_its_own_normalisation(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(weights("base_cifar"), path, {"mean": "0.5,0.4,0.3", "std": "0.2,0.2,0.1"})
    encoder = open_encoder(str(path))
    assert (encoder.mean, encoder.std) == ([0.5, 0.4, 0.3], [0.2, 0.2, 0.1])
    assert encoder.origin["normalisation"] == f"metadata of {path}"
    other = open_encoder(f"{path}?mean=0&std=1")
    assert (other.mean, other.origin["normalisation"]) == ([0.0], "given by the caller")
    assert other.fingerprint != encoder.fingerprint


def test_a_head_behind_the_encoder_is_left_out_or_taken_by_a_word_alone(tmp_path):
    """A file of an encoder and its linear head is not the encoder: who opens it says which of both."""
    path, state = tmp_path / "w.safetensors", weights()
    head = {"6.weight": torch.rand(10, 100), "6.bias": torch.rand(10)}
    save_file({**state, **head}, path)
    said = r"a head behind the encoder \(6.bias \[10\], 6.weight \[10, 100\]\); say layer=pooled .* or layer=projection"
    with pytest.raises(Ambiguous, match=said):
        open_encoder(f"{path}?mean=0&std=1")
    x = torch.rand(2, 1, 28, 28)
    encoder = open_encoder(f"{path}?mean=0&std=1&layer=pooled")
    assert encoder.origin["dropped"] == "head behind the representation: 6.bias, 6.weight"
    expected = encoder(x) @ head["6.weight"].T + head["6.bias"]
    classifier = open_encoder(f"{path}?mean=0&std=1&layer=projection")
    torch.testing.assert_close(classifier(x), expected)
    assert classifier.origin["layer"] == "the head 6.bias, 6.weight"
    save_file(classifier.module.state_dict(), tmp_path / "again.safetensors")
    again = open_encoder(f"{tmp_path}/again.safetensors?mean=0&std=1&layer=projection")
    assert torch.equal(again(x), classifier(x))
    inner = open_encoder(f"{path}?mean=0&std=1&layer=2&pool=flatten")  # in front of either
    assert inner(x).shape == (2, 32 * 7 * 7)
    save_file({**state, **head, "8.weight": torch.rand(3, 10)}, path)
    with pytest.raises(Unsupported, match=r"6\.bias"):
        open_encoder(f"{path}?mean=0&std=1&layer=projection")
    save_file(state, path)
    with pytest.raises(Missing, match="projection"):
        open_encoder(f"{path}?mean=0&std=1&layer=projection")
    assert (
        open_encoder(f"{path}?mean=0&std=1&layer=pooled").fingerprint
        == open_encoder(f"{path}?mean=0&std=1").fingerprint
    )


def test_a_classifier_behind_a_resnet_is_left_out_and_named(tmp_path):
    path, state = tmp_path / "w.safetensors", weights("resnet20_32")
    save_file({**state, "linear.weight": torch.eye(10, 64), "linear.bias": torch.zeros(10)}, path)
    encoder = open_encoder(f"{path}?mean=0&std=1")
    assert encoder.origin["dropped"] == "head behind the representation: linear.bias, linear.weight"
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(open_encoder(f"{path}?mean=0&std=1&layer=projection")(x), encoder(x)[:, :10])


def test_only_heads_behind_the_representation_are_heads(tmp_path):
    path, state = tmp_path / "w.safetensors", weights()
    save_file({**state, "6.weight": torch.rand(10, 99)}, path)  # reads something else
    with pytest.raises(Ambiguous, match=r"\?arch="):
        open_encoder(f"{path}?mean=0&std=1")
    with pytest.raises(Mismatch, match=r"6\.weight"):
        open_encoder(f"{path}?mean=0&std=1&arch=cnn_a_mnist")
    save_file({**state, "1.weight": torch.rand(10, 100)}, path)  # of its shape, but in front of it
    with pytest.raises(Mismatch, match=r"1\.weight"):
        open_encoder(f"{path}?mean=0&std=1&arch=cnn_a_mnist")
    save_file({key: value for key, value in state.items() if key != "0.bias"}, path)
    with pytest.raises(Mismatch, match=r"0\.bias"):
        open_encoder(f"{path}?mean=0&std=1&arch=cnn_a_mnist")
    for head in ({"weight": torch.rand(10, 100)}, {"linear.weight": torch.rand(10, 100)}, {"6.weight": torch.eye(9)}):
        save_file(head, path)
        with pytest.raises(Ambiguous, match=r"\?arch="):
            open_encoder(f"{path}?mean=0&std=1")
        with pytest.raises(Mismatch, match="probe"):
            open_encoder(f"zoo:cnn_a_mnist?weights={path}&mean=0&std=1")


def test_other_formats_are_refused(tmp_path):
    torch.save(weights(), tmp_path / "w.pt")
    with pytest.raises(BadData, match="state_dict"):
        open_encoder(f"file:{tmp_path}/w.pt?mean=0&std=1")


@pytest.mark.slow
def test_all_published_checkpoints_load(shared):
    files = sorted((shared / "data/encoders").glob("*.safetensors"))
    assert len(files) == 11
    for file in files:
        sequence = "linear" in file.name
        encoder = open_encoder(f"{file}?mean=0&std=1{'&layer=pooled' if sequence else ''}")
        assert encoder.geometry is not None
        x = torch.rand(3, encoder.geometry.channels, *encoder.geometry.size, requires_grad=True)
        reps = encoder(x)
        assert reps.shape == (3, 64 if "resnet20" in file.name else 100)
        dropped = {key for key in load_file(file) if key.startswith(("linear.", "6.", "7."))}
        dropped &= {key for key in load_file(file) if "linear" in file.name or key.startswith("linear.")}
        dropped -= {"6.weight", "6.bias"} if "cnn_b" in file.name else set()
        assert str(encoder.origin.get("dropped", "")).endswith(", ".join(sorted(dropped)))
        (gradient,) = torch.autograd.grad(reps.square().sum(), x)
        assert gradient.abs().sum() > 0


# --- your own code ------------------------------------------------------------------------------

CODE = """
import torch
from torch import nn
from holdfast.core.encoder import Encoder
def module(): return nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
def encoder(): return Encoder(module(), mean=0.5, std=0.25, name="theirs", origin={"weights": "mine"})
def sequence(): return nn.Sequential(nn.Conv1d(3, 4, 2), nn.Flatten())
def number(): return 7
def broken(): raise KeyError("no such thing")
"""


def test_python_factories(tmp_path, monkeypatch):
    (tmp_path / "holdfast_test_factory.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec, x = "py:holdfast_test_factory:", torch.rand(2, 3, 2, 2)
    ready = open_encoder(f"{spec}encoder?seed=4")
    assert (ready.mean, ready.name, ready.origin["weights"]) == ([0.5], f"{spec}encoder?seed=4", "mine")
    assert ready(x).shape == (2, 5)
    bare = open_encoder(f"{spec}module?mean=0.5&std=0.25&seed=4")
    torch.testing.assert_close(bare(x), ready(x))
    assert open_encoder(f"{spec}module?mean=0&std=1&layer=0")(x).shape == (2, 12)
    for name, message in {
        "module": "bare",
        "number": r"int$",
        "broken": "KeyError",
        "encoder?layer=0": "layer",
        "encoder?input=12": "layer",
        "sequence?input=3x0&mean=0&std=1": "input=3x0",
    }.items():
        with pytest.raises(HoldfastError, match=message):
            open_encoder(spec + name)


def test_python_modules_whose_inputs_are_no_images(tmp_path, monkeypatch):
    (tmp_path / "holdfast_test_shapes.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec, x = "py:holdfast_test_shapes:sequence?input=3x5&mean=0&std=1", torch.rand(2, 15, 1, 1)
    encoder, first = open_encoder(spec), open_encoder(spec + "&layer=0&pool=flatten")
    torch.testing.assert_close(encoder(x), encoder.module.network.network(x.view(2, 3, 5)))
    torch.testing.assert_close(first(x), encoder(x))  # names of layers are the module's own
    with pytest.raises(Mismatch, match=r"gaussian\?shape=15"):
        encoder(torch.rand(2, 16, 1, 1))


# --- what is installed --------------------------------------------------------------------------


def test_absent_packages_are_named(monkeypatch):
    monkeypatch.setattr("holdfast.runtime.optional.find_spec", lambda name: None)
    for spec, extra in {
        "timm:resnet18": "timm",
        "torchvision:resnet18": "torchvision",
        "hf:a/b": "hf",
        "openclip:ViT-B-32": "openclip",
        "onnx:a.onnx": "onnx",
    }.items():
        with pytest.raises(Missing, match=rf"'\.\[{extra}\]'"):
            open_encoder(spec)


def test_doctor(monkeypatch):
    rows = {name: (status, detail) for name, status, detail in doctor()}
    optional = {"torchvision", "timm", "transformers", "open_clip", "onnx", "onnxruntime", "datasets", "faiss"}
    assert set(rows) == {"torch", "accelerate", "lightly", "starlette", "uvicorn"} | optional
    for name, (status, _) in rows.items():
        assert status == ("ok" if importlib.util.find_spec(name) else "missing")
    monkeypatch.setattr("holdfast.runtime.doctor.guard_torchvision", lambda: True)
    assert "builds for CPU and CUDA are mixed" in {name: detail for name, _, detail in doctor()}["torchvision"]
    ok, timm = ("torch", "ok", "2.13"), ("timm", "missing", "")
    assert advise([ok]) == ("ready", "")
    assert advise([ok, timm]) == (
        "ready; for what is missing, type in the checkout",
        "pip install -c constraints.txt '.[timm]'",
    )
    broken = advise([ok, timm, ("lightly", "broken", ""), ("accelerate", "broken", "")])
    assert broken == (
        "to repair what is broken, type in the checkout",
        "pip install --force-reinstall -c constraints.txt '.[train]'",
    )
    monkeypatch.setattr("holdfast.runtime.doctor.find_spec", lambda name: None)
    assert ("timm", "missing", "pip install -c constraints.txt '.[timm]'") in doctor()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("zoo:digits-simcl", "did you mean 'digits-simclr'"),
        ("zoo:digits-simclr?sede=1", "did you mean 'seed'"),
        ("zoo:digits_cnn?weights=gone.safetensors", "weights file 'gone.safetensors' does not exist"),
        ("gone.safetensors?mean=0&std=1", "weights file 'gone.safetensors' does not exist"),
        ("gone.onnx", "ONNX file 'gone.onnx' does not exist"),
        ("py:no_such_module:build", "No module named 'no_such_module'"),
        ("torchvision:resnet19", "did you mean 'resnet18'"),
        ("timm:resnet18?pool=men", "expected one of"),
        ("hf:./gone", "folder './gone' does not exist"),
    ],
)
def test_what_is_misspelt_is_said_before_an_image_is_read(spec: str, said: str, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(b"no picture")
    with pytest.raises(NothingAudited, match=re.escape(said)):
        holdfast.audit(spec, tmp_path)
