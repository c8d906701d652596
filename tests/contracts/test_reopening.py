"""Every source: what a training writes is opened again, and loads into the user's own module; asked before a step."""

import importlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from holdfast.core import Encoder, registry
from holdfast.numerics.geometry.views import Views
from holdfast.parts.methods.simclr import Simclr
from holdfast.runtime.errors import Failed, Unsupported
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.networks import NETWORKS
from holdfast.training import loop
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe
from holdfast.workflows.monitor.snapshot import freeze_copy

pytestmark = pytest.mark.filterwarnings(  # raised while third-party packages are imported
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::PendingDeprecationWarning"
)

CODE = """
import torch
from torch import nn
from holdfast.core.encoder import Encoder

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, 2), nn.BatchNorm2d(4)
        self.head = nn.Linear(900, 8)
    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).flatten(1))

class Drawing(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("drawn", torch.randn(8), persistent=False)
    def forward(self, x):
        return super().forward(x) + self.drawn

class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Net()
    def forward(self, x):
        return self.inner(x)

def wrapped():
    net = Around()
    return Encoder(net, mean=0, std=1, root="inner")
"""

Case = tuple[str, Callable[[], nn.Module]]


def _py(folder: Path, factory: str, options: str = "?mean=0&std=1") -> Case:
    import importlib

    def own() -> nn.Module:
        return importlib.import_module("holdfast_test_mine").Net()

    return f"py:holdfast_test_mine:{factory}{options}", own


def _zoo(folder: Path) -> Case:
    return "zoo:resnet20_32", NETWORKS["resnet20_32"].build


def _file(folder: Path) -> Case:
    path = folder / "given.safetensors"
    save_file(NETWORKS["cnn_a_cifar"].build().state_dict(), path)
    return f"file:{path}?mean=0&std=1", NETWORKS["cnn_a_cifar"].build


def _timm(folder: Path) -> Case:
    timm = pytest.importorskip("timm")
    return "timm:test_resnet?weights=random&size=32", partial(timm.create_model, "test_resnet", num_classes=0)


def _torchvision(folder: Path) -> Case:
    models = pytest.importorskip("torchvision").models
    return "torchvision:shufflenet_v2_x0_5?weights=random&size=32", models.shufflenet_v2_x0_5


def _hf(folder: Path) -> Case:
    t = pytest.importorskip("transformers")
    tiny = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = t.ViTConfig(**tiny, intermediate_size=64)
    t.ViTModel(config).save_pretrained(folder / "hf")
    t.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder / "hf")
    return f"hf:{folder}/hf?pool=cls", partial(t.ViTModel, config)


def _openclip(folder: Path) -> Case:
    open_clip = pytest.importorskip("open_clip")
    vision = {"image_size": 32, "layers": 1, "width": 64, "head_width": 32, "patch_size": 8}
    text = {"context_length": 8, "vocab_size": 99, "width": 32, "heads": 2, "layers": 1}
    (folder / "tiny-reopened.json").write_text(json.dumps({"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}))
    open_clip.add_model_config(folder)
    return "openclip:tiny-reopened?weights=random", partial(open_clip.create_model, "tiny-reopened")


CASES = {
    "py": partial(_py, factory="Net"),
    "py, an Encoder": partial(_py, factory="wrapped", options=""),
    "py, reshaped": partial(_py, factory="Net", options="?mean=0&std=1&input=3x32x32"),
    "py, a layer": partial(_py, factory="Net", options="?mean=0&std=1&layer=norm&pool=avg"),
    "zoo": _zoo,
    "file": _file,
    "timm": _timm,
    "torchvision": _torchvision,
    "hf": _hf,
    "openclip": _openclip,
}
"""Spec of a small random encoder of each source, and how its users build the module themselves."""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import sys

    guard_torchvision()
    (tmp_path / "holdfast_test_mine.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    if find_spec("open_clip"):  # which keeps models that are added as long as the process runs
        factory = importlib.import_module("open_clip.factory")
        monkeypatch.setattr(factory, "_MODEL_CONFIG_PATHS", [*factory._MODEL_CONFIG_PATHS])
        monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    yield
    sys.modules.pop("holdfast_test_mine", None)


def recipe(folder: Path, spec: str) -> Recipe:
    """One step on eight images."""
    np.savez(folder / "x.npz", images=np.random.default_rng(0).random((8, 32, 32, 3), dtype=np.float32))
    plain = Views(crop=(0.8, 1.0), flip=0.0, colour=0.0, grey=0.0)
    return Recipe(spec, str(folder / "x.npz"), Simclr(hidden=8, dim=4), steps=1, batch_size=8, views=plain)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("name", CASES)
def test_what_is_written_opens_and_loads(name: str, tmp_path: Path) -> None:
    spec, own = CASES[name](tmp_path)
    trained = train(recipe(tmp_path, spec), tmp_path / "run")
    again, x = open_encoder(trained.spec), torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(again(x), trained.encoder(x))
        assert not torch.equal(open_encoder(spec)(x), trained.encoder(x))  # one step moved it
    state = load_file(tmp_path / "run" / "encoder.safetensors")
    own().load_state_dict(state, strict=True)
    assert not list((tmp_path / "run").glob("reopened*"))


def test_all_sources_are_asked() -> None:
    # What has no gradient cannot be trained; ONNX files have a test of their own
    trained = {name for name in registry.names("encoders") if registry.find("encoders", name).differentiable}
    assert {name.partition(",")[0] for name in CASES} | {"onnx"} == trained


@pytest.mark.usefixtures("mine")
def test_a_network_in_memory(tmp_path: Path) -> None:
    import importlib

    net = importlib.import_module("holdfast_test_mine").Net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    trained = train(recipe(tmp_path, "mine"), tmp_path / "run", encoder=freeze_copy(net, 0.0, 1.0))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    net.load_state_dict(load_file(tmp_path / "run" / "encoder.safetensors"), strict=True)
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(net.eval()(x), trained.encoder(x))


def _no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop._Training, "_one_step", lambda self: pytest.fail("a step was made"))


@pytest.mark.usefixtures("mine")
def test_what_a_file_of_weights_does_not_hold_is_refused_before_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _no_step(monkeypatch)
    spec = "py:holdfast_test_mine:Drawing?mean=0&std=1&seed=5"  # the seed goes where weights are given
    with pytest.raises(Failed, match="Drawing") as caught:
        train(recipe(tmp_path, spec), tmp_path / "run")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("mine")
def test_a_root_that_the_source_does_not_know_is_refused_before_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `py:` once was: the file names its tensors from another module than the loader does."""
    _no_step(monkeypatch)
    spec = "py:holdfast_test_mine:Net?mean=0&std=1"
    wrong: Encoder = open_encoder(spec)
    wrong.root = "network.conv"
    with pytest.raises(Failed, match="Net"):
        train(recipe(tmp_path, spec), tmp_path / "run", encoder=wrong, opens=spec)


def test_onnx_is_trained_and_written_again(tmp_path: Path) -> None:
    ort, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    path, net = tmp_path / "net.onnx", nn.Sequential(nn.Conv2d(3, 2, 4, stride=4), nn.Flatten(), nn.Linear(128, 4))
    torch.onnx.export(
        net, (torch.rand(1, 3, 32, 32),), path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "b"}}
    )
    spec = f"onnx:{path}?mean=0.5&std=0.25"
    trained = train(recipe(tmp_path, spec), tmp_path / "run")
    x = torch.rand(3, 3, 32, 32)
    before, after = open_encoder(spec)(x), trained.encoder(x)
    assert (before - after).abs().max() > 1e-3
    assert torch.equal(open_encoder(trained.spec)(x), after)
    file = tmp_path / "run" / "encoder.onnx"
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = ort.InferenceSession(file)
    (theirs,) = session.run(None, {session.get_inputs()[0].name: ((x - 0.5) / 0.25).numpy()})
    torch.testing.assert_close(torch.tensor(theirs), after, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(open_encoder(str(file))(x), after, rtol=1e-4, atol=1e-5)  # it brings mean and std


def test_an_onnx_file_is_written_again_where_a_matrix_counts_twice(tmp_path: Path) -> None:
    path = doubled(tmp_path / "net.onnx")
    trained = train(recipe(tmp_path, f"onnx:{path}?mean=0&std=1"), tmp_path / "run")
    x = torch.rand(3, 3, 32, 32)
    assert not torch.equal(trained.encoder(x), open_encoder(f"onnx:{path}?mean=0&std=1")(x))
    torch.testing.assert_close(open_encoder(str(tmp_path / "run" / "encoder.onnx"))(x), trained.encoder(x))


def test_an_onnx_file_that_cannot_be_written_is_refused_before_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are too many for one file, by a limit that is lowered here."""
    path = doubled(tmp_path / "net.onnx")
    _no_step(monkeypatch)
    monkeypatch.setattr("holdfast.sources.encoders.onnx.LARGEST", 40_000)
    with pytest.raises(Unsupported, match="GiB"):
        train(recipe(tmp_path, f"onnx:{path}?mean=0&std=1"), tmp_path / "run")
    assert not list((tmp_path / "run").glob("reopened*"))


def doubled(path: Path) -> Path:
    """Write x ↦ 2 · W x as an ONNX file."""
    onnx = pytest.importorskip("onnx")
    make, real = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [make.make_node("Flatten", ["x"], ["f"]), make.make_node("Gemm", ["f", "w"], ["y"], alpha=2.0)]
    ends = [
        make.make_tensor_value_info(name, real, shape) for name, shape in (("x", ["b", 3, 32, 32]), ("y", ["b", 4]))
    ]
    weights = onnx.numpy_helper.from_array(np.random.default_rng(0).random((3072, 4), dtype=np.float32), "w")
    graph = make.make_graph(nodes, "net", ends[:1], ends[1:], [weights])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.usefixtures("mine")
def test_channels_that_do_not_fit_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_step(monkeypatch)
    asked = recipe(tmp_path, "py:holdfast_test_mine:Net?mean=0&std=1")
    np.savez(tmp_path / "x.npz", images=np.random.default_rng(0).random((8, 32, 32), dtype=np.float32))
    with pytest.raises(Failed, match="channels=") as caught:
        train(asked, tmp_path / "run")
    assert "\n" not in str(caught.value)
