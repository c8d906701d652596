"""Trained networks of other people in ONNX files: certified, and the same with float16 weights behind Cast."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from holdfast.core import Margin, Rng
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.sources.encoders import open_encoder

CIFAR = ["cifar10_cnn_a_adv", "cifar10_resnet2b_adv"]


@pytest.mark.parametrize("ball", [Linf(1 / 255), L2(0.03)], ids=lambda ball: type(ball).__name__)
@pytest.mark.parametrize("name", [CIFAR[0], pytest.param(CIFAR[1], marks=pytest.mark.slow)])
def test_certificates_hold_against_attacks_in_float64(name: str, ball: Linf | L2, shared: Path) -> None:
    """The shapes of these files' flattens are tensors; both networks resist 1/255, so most bounds say something."""
    encoder = open_encoder(f"onnx:{shared}/data/real/{name}.onnx")
    x = images(shared, 2)
    reps = encoder(x).detach().double()
    weights = torch.stack([reps - reps.roll(1, 0), torch.randn(2, 100, generator=torch.Generator().manual_seed(0))], 1)
    margin = Margin(weights, torch.zeros(2, 2, dtype=torch.float64))
    bound = Crown()(encoder, margin, x, ball)
    assert not bool(bound.vacuous.any())
    double = copy.deepcopy(encoder).double()
    for row in range(2):

        def goal(at: Tensor, row: int = row) -> tuple[Tensor, Tensor]:
            reps = double(at)
            return -(weights[:, row] * reps).sum(1), reps

        values = Pgd(20)(goal, x.double(), ball, Rng(0, ids=("a", "b"))).values
        reached, clean = -values[-1], -values[0]
        assert bool((bound.lower[:, row] <= reached).all())
        assert bool((bound.lower[:, row] > clean - 8 * (clean - reached)).all())  # within the attack's order


@pytest.mark.parametrize("name", [*CIFAR, "imagenet_mobilenet_v1_025"])
def test_float16_weights_behind_cast(name: str, shared: Path, tmp_path: Path) -> None:
    import onnx
    import onnxruntime

    model = onnx.load(shared / "data" / "real" / f"{name}.onnx")
    casts = []
    for tensor in [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT and len(t.dims) > 1]:
        half = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        model.graph.initializer.remove(tensor)
        model.graph.initializer.append(onnx.numpy_helper.from_array(half, f"{tensor.name}_half"))
        casts.append(onnx.helper.make_node("Cast", [f"{tensor.name}_half"], [tensor.name], to=onnx.TensorProto.FLOAT))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*casts, *nodes])
    onnx.save(model, tmp_path / "half.onnx")
    encoder = open_encoder(f"onnx:{tmp_path}/half.onnx")
    assert encoder.geometry is not None
    x = torch.rand(3, 3, *encoder.geometry.size, generator=torch.Generator().manual_seed(0))
    normalised = (x - torch.tensor(encoder.mean).view(-1, 1, 1)) / torch.tensor(encoder.std).view(-1, 1, 1)
    (theirs,) = onnxruntime.InferenceSession(tmp_path / "half.onnx").run(None, {"image": normalised.numpy()})
    torch.testing.assert_close(encoder(x), torch.tensor(theirs), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # of the quantiser
def test_activations_that_are_rounded(shared: Path, tmp_path: Path) -> None:
    """A file as onnxruntime quantises it (QDQ): rounded alike, and attacked nearly as well as the float file."""
    import onnxruntime
    from onnxruntime import quantization

    real, x = shared / "data" / "real" / f"{CIFAR[0]}.onnx", images(shared, 20)
    whole = open_encoder(f"onnx:{real}")
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (whole.mean, whole.std))
    normalised = ((x - mean) / std).numpy()

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{"image": normalised}]

        def get_next(self) -> dict[str, np.ndarray]:
            return self.left.pop() if self.left else {}

    quantization.quantize_static(str(real), str(tmp_path / "q.onnx"), Reader(), per_channel=True)
    said = "&".join(f"{key}={','.join(map(str, getattr(whole, key)))}" for key in ("mean", "std"))
    encoder = open_encoder(f"onnx:{tmp_path}/q.onnx?{said}")
    options = onnxruntime.SessionOptions()
    # Where a CPU lacks VNNI, onnxruntime's integer kernels saturate at 16 bits: take what the file says, in floats.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (theirs,) = onnxruntime.InferenceSession(tmp_path / "q.onnx", options).run(None, {"image": normalised})
    torch.testing.assert_close(encoder(x), torch.tensor(theirs), rtol=1e-4, atol=1e-4)
    moved = {}
    for name, network in (("whole", whole), ("rounded", encoder)):
        clean = network(x).detach()
        goal = Untargeted("l2").pursue(network, clean=clean)
        moved[name] = Pgd(10)(goal, x, Linf(4 / 255), Rng(0, ids=tuple(map(str, range(20))))).values[-1].mean()
    assert moved["rounded"] > 0.9 * moved["whole"]


def images(shared: Path, count: int) -> Tensor:
    with np.load(shared / "data" / "cifar10_lossless300.npz", allow_pickle=False) as stored:
        pixels = torch.tensor(stored["images"][:count]).float() / 255
    return pixels.permute(0, 3, 1, 2).contiguous()
