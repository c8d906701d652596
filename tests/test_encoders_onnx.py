"""ONNX files: exported here by torch, run by onnxruntime, opened by Holdfast."""

from typing import Any

import pytest
import torch
from torch import nn

from holdfast.runtime.errors import Ambiguous, BadData, Conflict, Missing, UnknownName, Unsupported
from holdfast.sources.encoders import open_encoder

pytestmark = pytest.mark.filterwarnings(  # raised inside exporters and converters
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)


class Blocks(nn.Module):
    """A convolution, a residual, a GELU, a split, a layer norm and two kinds of reduction, in one small network."""

    def __init__(self, outputs=1):
        super().__init__()
        self.conv, self.norm, self.outputs = nn.Conv2d(3, 8, 3, padding=1), nn.LayerNorm(8), outputs
        self.out = nn.Linear(8, 5)

    def forward(self, x):
        x = self.conv(x)
        left, right = x.chunk(2, dim=1)
        x = x + torch.cat([nn.functional.gelu(right), left.sigmoid()], dim=1)
        tokens = self.norm(x.flatten(2).transpose(1, 2))
        reps = self.out(tokens.mean(1) + tokens.amax(1))
        return reps if self.outputs == 1 else (reps, tokens)


def export(module, path, *, dynamo=False, opset=None, size=8, names=("reps",), dynamic=True):
    axes: dict[str, Any] = {"dynamic_shapes": ({0: "b"},)} if dynamo else {"dynamic_axes": {"x": {0: "b"}}}
    torch.onnx.export(
        module.eval(), (torch.rand(2, 3, size, size),), str(path), dynamo=dynamo, opset_version=opset,
        input_names=["x"], output_names=list(names), verbose=False, **(axes if dynamic else {}),
    )  # fmt: skip


def annotate(path, **metadata):
    import onnx

    proto = onnx.load(path)
    onnx.helper.set_model_props(proto, {f"holdfast.{key}": value for key, value in metadata.items()})
    onnx.save(proto, path)


@pytest.mark.parametrize(("dynamo", "opset"), [(True, None), (False, 20), (False, 17), (False, 13)])
def test_same_as_onnxruntime(tmp_path, dynamo, opset):
    import onnxruntime

    torch.manual_seed(0)
    path = tmp_path / "m.onnx"
    if opset == 13:
        module = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 5))
    else:
        module = Blocks()
    export(module, path, dynamo=dynamo, opset=opset)
    encoder = open_encoder(f"{path}?mean=0.5&std=0.25")
    x = torch.rand(3, 3, 8, 8, requires_grad=True)
    reps = encoder(x)
    (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": ((x - 0.5) / 0.25).detach().numpy()})
    torch.testing.assert_close(reps.detach(), torch.tensor(theirs), atol=1e-5, rtol=1e-4)
    ours, own = torch.autograd.grad(reps.square().sum(), x)[0], x.detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad(module((own - 0.5) / 0.25).square().sum(), own)
    torch.testing.assert_close(ours, gradient, atol=1e-5, rtol=1e-4)
    assert encoder.geometry is not None
    assert encoder.geometry.size == (8, 8)
    assert not any(p.requires_grad for p in encoder.parameters())


def test_metadata_outputs_and_errors(tmp_path):
    path = tmp_path / "m.onnx"
    export(Blocks(outputs=2), path, names=("reps", "tokens"))
    with pytest.raises(Ambiguous, match=r"\?output="):
        open_encoder(f"onnx:{path}?mean=0&std=1")
    with pytest.raises(UnknownName, match=r"'tokens'\?"):
        open_encoder(f"onnx:{path}?mean=0&std=1&output=token")
    with pytest.raises(Missing, match="mean"):
        open_encoder(f"onnx:{path}?output=reps")
    with pytest.raises(Conflict, match="weights=random"):
        open_encoder(f"onnx:{path}?output=reps&mean=0&std=1&weights=random")
    annotate(path, mean="0.1,0.2,0.3", std="0.5,0.5,0.4")
    encoder = open_encoder(f"onnx:{path}?output=tokens&pool=mean")
    assert (encoder.mean, encoder.std) == ([0.1, 0.2, 0.3], [0.5, 0.5, 0.4])
    assert encoder(torch.rand(4, 3, 8, 8)).shape == (4, 8)
    assert encoder.origin["normalisation"] == f"metadata of {path}"
    with pytest.raises(Unsupported, match="pool=cls"):
        open_encoder(f"onnx:{path}?output=tokens")


def test_files_that_are_no_encoder(tmp_path):
    (tmp_path / "text.onnx").write_text("not a network")
    with pytest.raises(BadData):
        open_encoder(f"{tmp_path}/text.onnx?mean=0&std=1")
    fixed = tmp_path / "fixed.onnx"
    flat = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    export(flat, fixed, dynamic=False)
    assert open_encoder(f"{fixed}?mean=0&std=1")(torch.rand(3, 3, 8, 8)).shape == (3, 5)
    torch.onnx.export(
        nn.Linear(4, 2), (torch.rand(2, 4),), str(tmp_path / "flat.onnx"), dynamo=False, input_names=["x"]
    )
    with pytest.raises(Unsupported, match=r"\[2, 4\]"):
        open_encoder(f"{tmp_path}/flat.onnx?mean=0&std=1")


def _saved(path, nodes, weights, *, opset, batch="b"):
    import onnx
    from onnx import TensorProto, helper

    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])
    reps = helper.make_tensor_value_info("reps", TensorProto.FLOAT, [batch, 5])
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "tiny", [image], [reps], initializer=stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)


def _same_as_onnxruntime(path, images=3):
    """Return the encoder, after a comparison with onnxruntime; networks for one image at a time see one at a time."""
    import onnxruntime

    encoder, session = open_encoder(f"{path}?mean=0&std=1"), onnxruntime.InferenceSession(path)
    x = torch.rand(images, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    size = session.get_inputs()[0].shape[0]
    parts = x.split(size) if isinstance(size, int) else (x,)
    theirs = torch.cat([torch.tensor(session.run(None, {"x": part.numpy()})[0]) for part in parts])
    torch.testing.assert_close(encoder(x), theirs, atol=1e-5, rtol=1e-5)
    return encoder


def test_weights_that_a_graph_computes(tmp_path):
    """Float16 behind Cast, a scaled one, a transposed matrix, a Constant."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(0)
    make = helper.make_node
    weights = {
        "half": draw.normal(size=(4, 3, 3, 3)).astype(np.float16),
        "small": draw.integers(-127, 127, (4, 4, 3, 3), np.int8),
        "scale": np.array(0.01, np.float32),
        "turned": draw.normal(size=(5, 16)).astype(np.float32),
    }
    nodes = [
        make("Cast", ["half"], ["first"], to=TensorProto.FLOAT),
        make("Cast", ["small"], ["whole"], to=TensorProto.FLOAT), make("Mul", ["whole", "scale"], ["second"]),
        make("Transpose", ["turned"], ["matrix"], perm=[1, 0]),
        make("Constant", [], ["bias"], value=numpy_helper.from_array(draw.normal(size=4).astype(np.float32))),
        make("Conv", ["x", "first", "bias"], ["a"], strides=[2, 2]), make("Relu", ["a"], ["b"]),
        make("Conv", ["b", "second"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), make("Flatten", ["c"], ["d"]),
        make("MatMul", ["d", "matrix"], ["reps"]),
    ]  # fmt: skip
    path = tmp_path / "m.onnx"
    _saved(path, nodes, weights, opset=17)
    encoder = _same_as_onnxruntime(path)
    assert sorted(tuple(p.shape) for p in encoder.parameters()) == [(4,), (4, 3, 3, 3), (4, 4, 3, 3), (16, 5)]
    _certifies(encoder)


def test_old_opsets_are_lifted(tmp_path):
    """Slice of opset 9 has its ends among its attributes."""
    import numpy as np
    from onnx import helper

    make, draw = helper.make_node, np.random.default_rng(0)
    nodes = [
        make("Slice", ["x"], ["a"], axes=[1, 3], starts=[1, 2], ends=[3, 2**31], name="cut"),
        make("Pad", ["a"], ["b"], pads=[0, 0, 1, 0, 0, 0, 0, 1]), make("Flatten", ["b"], ["c"]),
        make("MatMul", ["c", "matrix"], ["reps"]),
    ]  # fmt: skip
    path = tmp_path / "m.onnx"
    _saved(path, nodes, {"matrix": draw.normal(size=(126, 5)).astype(np.float32)}, opset=9)
    _certifies(_same_as_onnxruntime(path))


class Shaped(nn.Module):
    """Everything that exporters write with a shape: a flattened batch, a slice, a pad, an unsqueezed axis, an index."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 4, 3, stride=2), nn.Linear(60, 5)

    def forward(self, x):
        x = nn.functional.pad(torch.relu(self.conv(x))[:, :, :, 1:], (0, 1, 2, 0))
        x = x.unsqueeze(1).squeeze(1)
        return torch.cat([self.out(x.view(x.shape[0], -1))[:, 1:], x[:, 0, 1, 1:2]], 1)


def _certifies(encoder):
    from holdfast.core import Margin
    from holdfast.parts.certifiers.crown import Crown
    from holdfast.parts.threats.linf import Linf

    x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    margin = Margin(torch.eye(5).expand(2, -1, -1), torch.zeros(2, 5))
    return Crown()(encoder, margin, x, Linf(0.02)).lower


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("dynamo", "dynamic"),
    [(False, True), (False, False), pytest.param(True, True, marks=SLOW), pytest.param(True, False, marks=SLOW)],
)
def test_shapes_in_tensors_are_certified_like_the_module(tmp_path, dynamo, dynamic):
    """A file for batches of two alone takes any batch."""
    from holdfast.core import Encoder

    torch.manual_seed(0)
    module, path = Shaped(), tmp_path / "m.onnx"
    export(module, path, dynamo=dynamo, opset=None if dynamo else 17, dynamic=dynamic)
    encoder = open_encoder(f"{path}?mean=0&std=1")
    x = torch.rand(5, 3, 8, 8)
    torch.testing.assert_close(encoder(x), module(x))
    torch.testing.assert_close(_certifies(encoder), _certifies(Encoder(module, mean=0, std=1)))


class Crossed(nn.Module):
    """Images of a batch that meet."""

    def forward(self, x):
        return x.flatten(1).reshape(3, 2, -1).transpose(0, 1).reshape(2, -1)


def test_files_of_one_batch_size_that_cannot_be_opened_up_say_so(tmp_path):
    path = tmp_path / "m.onnx"
    export(Crossed(), path, dynamic=False)
    with pytest.raises(Unsupported, match="of 2"):
        open_encoder(f"{path}?mean=0&std=1")


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0)

    def forward(self, x):
        return self.layer(self.embed(x).flatten(2).transpose(1, 2)).mean(1)


class ClassToken(nn.Module):
    """With a token for each image, which exporters write as what depends on the number of images."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.rand(1, 1, 8))
        self.places = nn.Parameter(torch.rand(1, 9, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        first = self.token.expand(x.shape[0], -1, -1) + torch.zeros(x.shape[0], 1, 8)
        index = torch.arange(tokens.shape[1], device=x.device)
        tokens = torch.cat([first, tokens + self.places[:, index]], 1)
        shares = (tokens @ tokens.transpose(1, 2) / 3).softmax(-1)
        return self.head((tokens + shares @ tokens)[:, 0])


@pytest.mark.parametrize("dynamo", [False, pytest.param(True, marks=SLOW)])
def test_a_token_for_each_image_is_a_constant(tmp_path, dynamo):
    from holdfast.core import Encoder

    torch.manual_seed(0)
    module, path = ClassToken().eval(), tmp_path / "m.onnx"
    export(module, path, dynamo=dynamo)
    encoder = open_encoder(f"{path}?mean=0&std=1")
    x = torch.rand(5, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), module(x))
    torch.testing.assert_close(_certifies(encoder), _certifies(Encoder(module, mean=0, std=1)))


@pytest.mark.slow
def test_transformers_are_read_for_bounds(tmp_path):
    from holdfast.numerics.bounds.products import Bilinear
    from holdfast.numerics.bounds.trace import trace

    path = tmp_path / "m.onnx"
    export(Attends(), path, dynamo=True)
    encoder = open_encoder(f"{path}?mean=0&std=1")
    network = trace(encoder, (3, 8, 8))
    assert sum(isinstance(node.operation, Bilinear) for node in network.nodes) == 4  # two of attention, two of norms
