"""ONNX files: exported here by torch, run by onnxruntime, opened by Holdfast."""

from typing import Any

import pytest
import torch
from torch import nn

from holdfast.encoders import open_encoder
from holdfast.errors import HoldfastError

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
    with pytest.raises(HoldfastError, match=r"several outputs; give .*one of: reps, tokens"):
        open_encoder(f"onnx:{path}?mean=0&std=1")
    with pytest.raises(HoldfastError, match="did you mean 'tokens'"):
        open_encoder(f"onnx:{path}?mean=0&std=1&output=token")
    with pytest.raises(HoldfastError, match="holds no mean and std; give them"):
        open_encoder(f"onnx:{path}?output=reps")
    with pytest.raises(HoldfastError, match="holds its own weights"):
        open_encoder(f"onnx:{path}?output=reps&mean=0&std=1&weights=random")
    annotate(path, mean="0.1,0.2,0.3", std="0.5,0.5,0.4")
    encoder = open_encoder(f"onnx:{path}?output=tokens&pool=mean")
    assert (encoder.mean, encoder.std) == ([0.1, 0.2, 0.3], [0.5, 0.5, 0.4])
    assert encoder(torch.rand(4, 3, 8, 8)).shape == (4, 8)
    assert encoder.origin["normalisation"] == f"metadata of {path}"
    with pytest.raises(HoldfastError, match="pool=cls, mean or flatten"):
        open_encoder(f"onnx:{path}?output=tokens")


def test_files_that_are_no_encoder(tmp_path):
    (tmp_path / "text.onnx").write_text("not a network")
    with pytest.raises(HoldfastError, match="is not a readable ONNX file"):
        open_encoder(f"{tmp_path}/text.onnx?mean=0&std=1")
    fixed = tmp_path / "fixed.onnx"
    flat = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    export(flat, fixed, dynamic=False)
    assert open_encoder(f"{fixed}?mean=0&std=1")(torch.rand(3, 3, 8, 8)).shape == (3, 5)
    torch.onnx.export(
        nn.Linear(4, 2), (torch.rand(2, 4),), str(tmp_path / "flat.onnx"), dynamo=False, input_names=["x"]
    )
    with pytest.raises(HoldfastError, match=r"expected one input \[batch, channel, height, width\], got x \[2, 4\]"):
        open_encoder(f"{tmp_path}/flat.onnx?mean=0&std=1")
