"""What is read of an ONNX file is compared with the file itself, whatever it looks like; a difference is refused."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from benchmarks.equal.onnx_operators import graphs
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from holdfast.core import Encoder, HoldfastError
from holdfast.runtime.errors import BadValue, Conflict, Failed, Unsupported
from holdfast.sources.encoders import open_encoder
from holdfast.sources.onnx import compare, reader
from holdfast.sources.onnx.compare import distance
from holdfast.sources.onnx.operator import OPERATORS

make = helper.make_node
DRAW = np.random.default_rng(0)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(autouse=True)
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered of another test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def real(*shape: int) -> np.ndarray[Any, Any]:
    return DRAW.normal(size=shape).astype(np.float32)


def saved(
    path: Path, nodes: Sequence[Any], weights: dict[str, Any], *, shape: Sequence[Any] = ("b", 3, 8, 8),
    kind: int = TensorProto.FLOAT, opset: int = 17, ir: int = 8, out: int = TensorProto.FLOAT, sized: bool = True,
    domains: Sequence[str] = (),
) -> Path:  # fmt: skip
    """Write a model from x to y."""
    x = helper.make_tensor_value_info("x", kind, list(shape))
    y = helper.make_tensor_value_info("y", out, [None, None] if sized else None)
    stored = [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()]
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    graph = helper.make_graph(nodes, "net", [x], [y], stored)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=ir), path)
    return path


LINEAR = [make("Flatten", ["x"], ["f"]), make("Gemm", ["f", "w"], ["y"], transB=1)]
W = real(5, 192)


def pictures(count: int = 3, shape: tuple[int, ...] = (3, 8, 8)) -> Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(0))


def by_hand(x: Tensor) -> Tensor:
    return x.flatten(1) @ torch.tensor(W).T


# --- a difference is noticed ---


def wrong(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs, **options: compute(*inputs, **options) * 1.0005


@pytest.mark.parametrize("op", ["Conv", "Relu", "GlobalAveragePool", "Gemm"])
def test_an_operator_that_computes_something_else_is_named(op: str, tmp_path: Path, monkeypatch: Any) -> None:
    nodes = [
        make("Conv", ["x", "k"], ["a"], name="first"), make("Relu", ["a"], ["r"], name="second"),
        make("GlobalAveragePool", ["r"], ["p"], name="third"), make("Flatten", ["p"], ["g"]),
        make("Gemm", ["g", "m"], ["y"], name="fourth"),
    ]  # fmt: skip
    path = saved(tmp_path / "m.onnx", nodes, {"k": real(6, 3, 3, 3), "m": real(6, 4)})
    open_encoder(f"{path}?mean=0&std=1")
    shutil.rmtree(tmp_path / "cache")
    known = OPERATORS["", op]
    monkeypatch.setitem(OPERATORS, ("", op), replace(known, compute=wrong(known.compute)))
    name = {"Conv": "first", "Relu": "second", "GlobalAveragePool": "third", "Gemm": "fourth"}[op]
    with pytest.raises(Failed, match=f"{op} '{name}'"):
        open_encoder(f"{path}?mean=0&std=1")


def test_a_rounding_to_other_levels_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"], name="rounds"), make("DequantizeLinear", ["q", "s", "z"], ["d"]),
        make("Flatten", ["d"], ["f"]), make("MatMul", ["f", "w"], ["y"]),
    ]  # fmt: skip
    path = saved(tmp_path / "m.onnx", nodes, {"s": np.float32(0.013), "z": np.uint8(7), "w": real(192, 5)}, opset=13)
    encoder = open_encoder(f"{path}?mean=0&std=1")
    assert "rounded as the file says" in str(encoder.origin["quantised"])
    shutil.rmtree(tmp_path / "cache")
    known = OPERATORS["", "QuantizeLinear"]
    down = replace(known, compute=lambda x, *others, **options: known.compute(x - 0.0065, *others, **options))
    monkeypatch.setitem(OPERATORS, ("", "QuantizeLinear"), down)
    with pytest.raises(Failed, match="rounds"):
        open_encoder(f"{path}?mean=0&std=1")


def test_levels_that_flip_are_no_difference(tmp_path: Path) -> None:
    """Sums half way between two levels go either way, and that grows; each node by itself agrees."""
    nodes = [make("Conv", ["x", "k0"], ["c0"], pads=[1, 1, 1, 1])]
    weights: dict[str, Any] = {"k0": real(8, 3, 3, 3), "s": np.float32(0.37), "z": np.uint8(99)}
    for n in range(6):
        weights[f"k{n + 1}"] = real(8, 8, 3, 3)
        nodes += [
            make("QuantizeLinear", [f"c{n}", "s", "z"], [f"q{n}"]),
            make("DequantizeLinear", [f"q{n}", "s", "z"], [f"d{n}"]),
            make("Conv", [f"d{n}", f"k{n + 1}"], [f"c{n + 1}"], pads=[1, 1, 1, 1]),
        ]  # fmt: skip
    path = saved(tmp_path / "m.onnx", [*nodes, make("Flatten", ["c6"], ["y"])], weights, opset=13)
    assert open_encoder(f"{path}?mean=0&std=1")(pictures()).shape == (3, 512)


def test_a_network_is_compared_once(tmp_path: Path, monkeypatch: Any) -> None:
    calls: list[str] = []

    def counted(model: Any, path: str, *others: Any, **options: Any) -> Any:
        calls.append(path)
        return compare.compare(model, path, *others, **options)

    monkeypatch.setattr(reader, "compare", counted)
    path = saved(tmp_path / "m.onnx", LINEAR, {"w": W})
    for _ in range(2):
        open_encoder(f"{path}?mean=0&std=1")
    assert calls == [str(path)]
    open_encoder(f"{path}?mean=0.5&std=1")
    open_encoder(f"{path}?mean=0&std=1&output=f")
    assert len(calls) == 3
    saved(path, LINEAR, {"w": 2 * W})
    open_encoder(f"{path}?mean=0&std=1")
    assert len(calls) == 4
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no/such")  # a folder that cannot be written
    assert torch.equal(open_encoder(f"{path}?mean=0&std=1")(pictures()), 2 * by_hand(pictures()))


def test_what_no_runtime_runs_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    path = saved(tmp_path / "m.onnx", LINEAR, {"w": W})

    def fails(*_: Any) -> Any:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(compare, "_by_runtime", fails)
    assert torch.allclose(open_encoder(f"{path}?mean=0&std=1")(pictures()), by_hand(pictures()), atol=1e-5)
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setattr(compare, "_by_reference", fails)
    with pytest.raises(Failed, match="onnxruntime"):
        open_encoder(f"{path}?mean=0&std=1")


def test_models_too_large_for_one_buffer_are_compared(tmp_path: Path, monkeypatch: Any) -> None:
    path = saved(tmp_path / "m.onnx", LINEAR, {"w": W})
    monkeypatch.setattr(compare, "LARGEST", 1000)
    assert torch.allclose(open_encoder(f"{path}?mean=0&std=1")(pictures()), by_hand(pictures()), atol=1e-5)
    shutil.rmtree(tmp_path / "cache")
    known = OPERATORS["", "Gemm"]
    monkeypatch.setitem(OPERATORS, ("", "Gemm"), replace(known, compute=wrong(known.compute)))
    with pytest.raises(Failed, match="Gemm"):
        open_encoder(f"{path}?mean=0&std=1")


def test_distances() -> None:
    a, nan = torch.tensor([1.0, -4.0]), float("nan")
    assert distance(a, a) == 0
    assert distance(a, torch.tensor([1.0, -2.0])) == 1
    assert distance(torch.tensor([nan, 2.0]), torch.tensor([nan, 2.0])) == 0
    assert distance(torch.tensor([nan, 2.0]), torch.tensor([1.0, 2.0])) == float("inf")
    assert distance(torch.tensor([float("inf"), 2.0]), torch.tensor([float("inf"), 1.0])) == 1


# --- what files take ---


def same(encoder: Encoder, expected: Tensor, x: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(encoder(x), expected, rtol=tolerance, atol=tolerance)


def test_pixels_of_eight_bits(tmp_path: Path) -> None:
    nodes = [make("Cast", ["x"], ["c"], to=1), make("Div", ["c", "d"], ["e"]), make("Flatten", ["e"], ["f"]),
             make("Gemm", ["f", "w"], ["y"], transB=1)]  # fmt: skip
    path = saved(tmp_path / "m.onnx", nodes, {"d": np.float32(255), "w": W}, kind=TensorProto.UINT8)
    x = (255 * pictures()).round() / 255
    for words in ("", "?mean=0&std=1", "?mean=0&std=0.00392156863"):
        encoder = open_encoder(f"onnx:{path}{words}")
        same(encoder, by_hand(x), x)
        assert encoder.origin["pixels"] == "from 0 to 255, as its uint8 input takes them, not rounded"
        x.requires_grad_(True)
        assert bool(torch.autograd.grad(encoder(x).sum(), x)[0].any())
        x = x.detach()
    with pytest.raises(Conflict, match="uint8"):
        open_encoder(f"{path}?mean=0.5&std=0.5")
    whole = [
        make("ConvInteger", ["x", "k", "z"], ["c"]),
        make("Cast", ["c"], ["r"], to=1),
        make("Flatten", ["r"], ["y"]),
    ]
    kernel = DRAW.integers(0, 9, (2, 3, 8, 8)).astype(np.uint8)
    path = saved(tmp_path / "w.onnx", whole, {"k": kernel, "z": np.uint8(4)}, kind=TensorProto.UINT8)
    expected = torch.nn.functional.conv2d(255 * x - 4, torch.tensor(kernel).float()).flatten(1)
    same(open_encoder(str(path)), expected, x, 1e-4)


@pytest.mark.parametrize("kind", ["INT8", "INT32", "INT64", "BOOL", "UINT16"])
def test_other_integers_are_no_pixels(kind: str, tmp_path: Path) -> None:
    nodes = [make("Cast", ["x"], ["c"], to=1), make("Flatten", ["c"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, {}, kind=getattr(TensorProto, kind))
    with pytest.raises(Unsupported, match=f"got x of {kind.lower()}"):
        open_encoder(f"{path}?mean=0&std=1")


@pytest.mark.parametrize("kind", ["FLOAT16", "DOUBLE"])
def test_real_numbers_of_other_precision(kind: str, tmp_path: Path) -> None:
    number, numpy = getattr(TensorProto, kind), {"FLOAT16": np.float16, "DOUBLE": np.float64}[kind]
    path = saved(tmp_path / "m.onnx", LINEAR, {"w": (W / 8).astype(numpy)}, kind=number, out=number)
    same(open_encoder(f"{path}?mean=0&std=1"), by_hand(pictures()) / 8, pictures(), 5e-3)


@pytest.mark.parametrize("options", ["", "&layout=nhwc", "&layout=NHWC"])
def test_channels_that_come_last(options: str, tmp_path: Path) -> None:
    nodes = [make("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), make("Flatten", ["t"], ["f"]),
             make("Gemm", ["f", "w"], ["y"], transB=1)]  # fmt: skip
    path = saved(tmp_path / "m.onnx", nodes, {"w": W}, shape=("b", 8, 8, 3))
    encoder = open_encoder(f"{path}?mean=0&std=1{options}")
    same(encoder, by_hand(pictures()), pictures())
    assert encoder.origin["layout"] == "NHWC: channels last"
    assert encoder.geometry is not None
    assert (encoder.geometry.size, encoder.geometry.channels) == ((8, 8), 3)


def test_blue_first(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", LINEAR, {"w": W})
    encoder = open_encoder(f"{path}?mean=0.1,0.2,0.3&std=1,0.5,0.25&channels=bgr")
    normal = (pictures() - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)) / torch.tensor([1.0, 0.5, 0.25]).view(3, 1, 1)
    same(encoder, by_hand(normal.flip(1)), pictures())
    assert encoder.origin["channels"] == "blue, green, red: channels are reversed before the network"
    with pytest.raises(BadValue, match="channels=grb"):
        open_encoder(f"{path}?mean=0&std=1&channels=grb")


def test_files_that_checkers_and_exporters_disagree_about(tmp_path: Path) -> None:
    old = saved(tmp_path / "old.onnx", LINEAR, {"w": W}, ir=3, opset=11)  # whose weights are no inputs
    bare = saved(tmp_path / "bare.onnx", LINEAR, {"w": W}, sized=False)
    norm = [make("GroupNormalization", ["x", "s", "s"], ["n"], num_groups=3), make("Flatten", ["n"], ["y"])]
    gone = saved(tmp_path / "gone.onnx", norm, {"s": np.ones(3, np.float32)}, opset=18)  # deprecated since
    for path in (old, bare):
        same(open_encoder(f"{path}?mean=0&std=1"), by_hand(pictures()), pictures())
    open_encoder(f"{gone}?mean=0&std=1")
    late = onnx.load(bare)
    late.opset_import[0].version = 99
    onnx.save(late, tmp_path / "late.onnx")
    with pytest.raises(Unsupported, match=r"opset|Opset|version"):
        open_encoder(f"{tmp_path}/late.onnx?mean=0&std=1")


def test_operators_that_are_not_read_are_named(tmp_path: Path) -> None:
    cases = {
        "the operator Unique": [make("Unique", ["x"], ["y"])],
        "the operator RandomNormalLike, which draws random numbers": [make("RandomNormalLike", ["x"], ["y"])],
        "the operator Wonder of my.domain": [make("Wonder", ["x"], ["y"], domain="my.domain")],
        "Reshape 'Reshape_1': its sizes depend on the image": [
            make("ReduceMax", ["x"], ["m"], keepdims=0), make("Cast", ["m"], ["i"], to=7),
            make("Reshape", ["i", "one"], ["s"]), make("Reshape", ["x", "s"], ["y"]),
        ],
        "it gives .* more numbers than there is room for": [
            make("ConstantOfShape", ["huge"], ["h"]), make("Add", ["x", "h"], ["y"]),
        ],
    }  # fmt: skip
    for match, nodes in cases.items():
        constants = {"one": np.array([1]), "huge": np.array([1 << 20, 1 << 20])}
        path = saved(tmp_path / "m.onnx", nodes, constants, sized=False, domains=["my.domain"])
        began = perf_counter()
        with pytest.raises(Unsupported, match=match):
            open_encoder(f"{path}?mean=0&std=1")
        assert perf_counter() - began < 60


def test_branches_that_do_not_depend_on_the_image(tmp_path: Path) -> None:
    """As scripted modules are exported; branches in branches, whose names are the same."""

    def branch(*nodes: Any, gives: str) -> Any:
        return helper.make_graph(list(nodes), "branch", [], [helper.make_tensor_value_info(gives, 1, None)])

    inner = make("If", ["no"], ["r"], then_branch=branch(make("Neg", ["m"], ["r"]), gives="r"),
                 else_branch=branch(make("Mul", ["m", "two"], ["r"]), gives="r"))  # fmt: skip
    outer = make("If", ["yes"], ["z"], then_branch=branch(make("Mul", ["x", "two"], ["m"]), inner, gives="r"),
                 else_branch=branch(make("Identity", ["x"], ["r"]), gives="r"))  # fmt: skip
    nodes = [outer, make("Flatten", ["z"], ["f"]), make("Gemm", ["f", "w"], ["y"], transB=1)]
    constants = {"yes": np.array(True), "no": np.array([False]), "two": np.float32(2), "w": W}
    path = saved(tmp_path / "m.onnx", nodes, constants)
    same(open_encoder(f"{path}?mean=0&std=1"), 4 * by_hand(pictures()), pictures(), 1e-4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU())
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))


def test_weights_have_the_names_that_they_had_in_torch(tmp_path: Path) -> None:
    """So a checkpoint of the network that was exported opens, where the exporter folded nothing."""
    from safetensors.torch import save_file

    first, second = (Net().eval() for _ in range(2))
    path, x = tmp_path / "m.onnx", pictures()
    torch.onnx.export(
        first, (x,), str(path), dynamo=False, opset_version=17, input_names=["x"], dynamic_axes={"x": {0: "b"}},
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, verbose=False,
    )  # fmt: skip
    state = {name: value for name, value in second.state_dict().items() if "num_batches" not in name}
    save_file(state, tmp_path / "w.safetensors")
    same(open_encoder(f"{path}?mean=0&std=1&weights={tmp_path}/w.safetensors"), second(x), x)


def test_batches_of_any_size_and_every_tensor(tmp_path: Path) -> None:
    """What a shape makes of the number of images was worked out for others."""
    import onnxruntime

    chosen = [graph for graph in graphs() if graph.name in ("Reshape by its shape", "zeros by its shape", "GatherND")]
    for graph in chosen:
        path = tmp_path / "m.onnx"
        onnx.save(graph.model(), path)
        session, encoder = onnxruntime.InferenceSession(path), open_encoder(f"{path}?mean=0&std=1")
        for count in (1, 2, 7):
            (theirs,) = session.run(None, {"x": pictures(count).numpy()})
            same(encoder, torch.tensor(theirs), pictures(count))
        for step in graph.steps:
            open_encoder(f"{path}?mean=0&std=1&pool=flatten&output={step[2][0]}") if step[0] in (
                "Add",
                "Reshape",
            ) else None


# --- all that there is ---


@pytest.mark.slow
def test_mutated_files_are_refused_in_a_line_or_compared(tmp_path: Path) -> None:
    """No traceback and no hang; what opens agrees with the runtime, since it was compared."""
    draw, models = np.random.default_rng(1), [graph.model().SerializeToString() for graph in list(graphs())[::9]]
    opened = 0
    for number in range(500):
        data = bytearray(models[number % len(models)])
        for _ in range(int(draw.integers(1, 4))):
            kind, place = draw.integers(3), int(draw.integers(len(data)))
            if kind == 0:
                data[place] = int(draw.integers(256))
            elif kind == 1:
                del data[place : place + int(draw.integers(1, 9))]
            else:
                data[place:place] = draw.bytes(int(draw.integers(1, 9)))
        (tmp_path / "m.onnx").write_bytes(bytes(data))
        began = perf_counter()
        message = ""
        try:
            open_encoder(f"{tmp_path}/m.onnx?mean=0&std=1")(pictures())
            opened += 1
        except HoldfastError as error:
            message = str(error)
        assert "\n" not in message
        assert perf_counter() - began < 60, number
    assert 0 < opened < 500
