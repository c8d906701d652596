"""Encoders outside torch: functions, runtimes; what they are given, what they return, and audits without a gradient."""

import copy
import pickle
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.core import Encoder, HoldfastError
from holdfast.core.geometry import BY_CALLER
from holdfast.core.outside import BYTES, Outside, Wanted, as_tensor
from holdfast.core.registry import part_name
from holdfast.numerics.rng import Rng
from holdfast.parts.attacks.shared.asking import LEAST, ask
from holdfast.parts.attacks.shared.tournament import Sought
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Failed, Missing
from holdfast.sources.encoders import files_of, open_encoder
from holdfast.sources.encoders.call import AS_GIVEN, COMMAND, function_encoder, identify

pytestmark = pytest.mark.filterwarnings(  # raised inside exporters
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)

CODE = """
import numpy as np
W = np.random.default_rng(0).normal(size=(192, 6)).astype(np.float32)
def embed(x):
    assert x.dtype == np.float32 and x.shape[1:] == (3, 8, 8)
    return x.reshape(len(x), -1) @ W
def of_bytes(x):
    assert x.dtype == np.uint8 and x.shape[1:] == (8, 8, 3) and len(x) == 4
    own = x[..., ::-1].transpose(0, 3, 1, 2).astype(np.float32) / 255
    return (own.reshape(len(x), -1) @ W).tolist()
def one(x):
    return x[:1].reshape(1, -1) @ W
number = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "holdfast_test_outside.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("holdfast_test_outside", None)


@pytest.fixture(scope="module")
def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 6)).eval()


@pytest.fixture(scope="module")
def file(network: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    with torch.no_grad():
        torch.onnx.export(
            network, (torch.rand(2, 3, 8, 8),), str(path), dynamo=False, verbose=False, input_names=["x"],
            output_names=["reps"], dynamic_axes={"x": {0: "b"}},
        )  # fmt: skip
    return path


@pytest.fixture
def x() -> Tensor:
    return torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(1)).mul(255).round() / 255


def test_arrays_are_what_was_asked_for() -> None:
    x = torch.tensor([[[[0.0, 1.0]], [[0.2, 0.4]], [[0.6, 0.8]]]])  # [1, 3, 1, 2]
    assert np.array_equal(Wanted().array(x), x.numpy())
    assert Wanted("nhwc").array(x)[0, 0, 1].tolist() == pytest.approx([1.0, 0.4, 0.8])
    assert Wanted("nhwc", "bgr").array(x)[0, 0, 1].tolist() == pytest.approx([0.8, 0.4, 1.0])
    assert Wanted(dtype="uint8", quantisation=BYTES).array(x)[0, :, 0].tolist() == [[0, 255], [51, 102], [153, 204]]
    # whole numbers are the nearest ones, halves go up, and what lies beyond the ends stays there
    of_two = Wanted(dtype="int8", quantisation=(0.5, -2))
    assert of_two.array(torch.tensor([[[[0.25, 100.0, -100.0, 0.24]]]])).tolist() == [[[[-1, 127, -128, -2]]]]


class Foreign:
    """An array that NumPy cannot read by itself, as those of accelerators."""

    def numpy(self) -> np.ndarray:
        return np.ones((2, 3), np.float64)


@pytest.mark.parametrize(
    "values",
    [np.ones((2, 3), np.int8), [[True] * 3] * 2, torch.ones(2, 3, dtype=torch.bfloat16), Foreign(), np.ones((2, 3))],
)
def test_arrays_of_any_library_are_read(values: Any) -> None:
    assert torch.equal(as_tensor(values), torch.ones(2, 3))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"reps": np.ones((2, 3))}, "got dict"),
        ([[1.0], [1.0, 2.0]], "all of one length"),
        (None, "got NoneType"),
        (np.ones((2, 3), np.complex64), "real numbers"),
        ([["a"], ["b"]], "real numbers"),
        (torch.ones(2, 3, dtype=torch.complex64), "real numbers"),
    ],
)
def test_what_is_no_array_is_refused(values: Any, said: str) -> None:
    with pytest.raises(Failed) as error:
        as_tensor(values)
    assert said in str(error.value)


def start_flattening() -> Any:
    return lambda x: x.reshape(len(x), -1)


def test_batches_have_the_size_that_is_asked_for() -> None:
    sizes = []

    def sums(x: np.ndarray) -> np.ndarray:
        sizes.append(len(x))
        return x.sum((1, 2, 3))[:, None]

    x = torch.rand(5, 1, 2, 2)
    network = Outside(lambda: sums, Wanted(batch=2), b"")
    assert torch.allclose(network(x), x.sum((1, 2, 3))[:, None])
    assert sizes == [2, 2, 2]
    # it goes to other processes, which start it themselves
    sent = pickle.loads(pickle.dumps(Outside(start_flattening, Wanted(), b"")))
    assert torch.equal(sent(x), x.flatten(1))
    # one image at a time may give one vector
    alone = Outside(lambda: lambda x: x.reshape(-1), Wanted(batch=1), b"")
    assert torch.equal(alone(x), x.flatten(1))


def test_a_copy_has_seen_no_image() -> None:
    def start() -> Any:
        seen: list[int] = []
        return lambda x: (seen.append(1), np.full((len(x), 2), len(seen)))[1]

    network = Outside(start, Wanted(), b"it")
    assert [network(torch.zeros(1, 1, 1, 1))[0, 0] for _ in range(2)] == [1, 2]
    twin = copy.deepcopy(network)
    assert twin(torch.zeros(1, 1, 1, 1))[0, 0] == 1
    assert torch.equal(twin.identity, network.identity)
    assert not torch.equal(Outside(start, Wanted("nhwc"), b"it").identity, network.identity)


@pytest.mark.usefixtures("mine")
def test_a_function_is_given_its_images(x: Tensor) -> None:
    plain = open_encoder("call:holdfast_test_outside:embed")
    assert not plain.differentiable
    of_bytes = open_encoder("call:holdfast_test_outside:of_bytes?dtype=uint8&layout=nhwc&channels=bgr&batch=4")
    assert torch.allclose(of_bytes(x), plain(x), atol=1e-4)
    normalised = open_encoder("call:holdfast_test_outside:embed?mean=0.5&std=0.25")
    assert torch.allclose(normalised(x), plain((x - 0.5) / 0.25), atol=1e-4)
    assert len({encoder.fingerprint for encoder in (plain, of_bytes, normalised)}) == 3
    pictures = open_encoder("call:holdfast_test_outside:embed?resize=squash&size=8")
    assert pictures.geometry is not None
    assert pictures.geometry.channels == 3


def test_what_cannot_be_told_apart_is_not_taken_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()

    def reads_a_lock(x: np.ndarray) -> np.ndarray:
        with lock:  # whose content cannot be told, as that of a session or a client
            return x

    monkeypatch.setenv(COMMAND, "")  # put back when this ends
    monkeypatch.delenv(COMMAND)
    first = identify(reads_a_lock, "it")
    assert identify(reads_a_lock, "it") == first  # in one command
    monkeypatch.delenv(COMMAND)
    assert identify(reads_a_lock, "it") != first  # in another one
    assert identify(np.mean, "it") == identify(np.mean, "it")


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("embed?dtype=uint8&mean=0&std=1", "pixels from 0 to 255"),
        ("embed?layer=fc", "this source takes"),
        ("embed?size=8", "says nothing of pictures"),
        ("number", "expected a function, got int"),
        ("embd", "did you mean 'embed'"),
        ("one?resize=squash&size=8", "expected one vector for each of 2 images, got [1, 6]"),
    ],
)
def test_what_is_no_function_of_images_is_refused(name: str, said: str) -> None:
    with pytest.raises(HoldfastError) as error:
        open_encoder(f"call:holdfast_test_outside:{name}")
    assert said in str(error.value)


def test_onnx_runtime_gives_what_the_network_gives(file: Path, network: nn.Module, x: Tensor) -> None:
    encoder = open_encoder(f"ort:{file}?mean=0.5&std=0.25")
    with torch.no_grad():
        assert torch.allclose(encoder(x), network((x - 0.5) / 0.25), atol=1e-5)
        turned = open_encoder(f"ort:{file}?mean=0.5&std=0.25&channels=bgr")
        assert torch.allclose(turned(x), network((x.flip(1) - 0.5) / 0.25), atol=1e-5)
    assert torch.equal(copy.deepcopy(encoder)(x), encoder(x))  # a session of its own
    assert not encoder.differentiable
    assert str(encoder.origin["runtime"]).startswith("ONNX Runtime")
    assert encoder.fingerprint != open_encoder(f"ort:{file}?mean=0.5&std=0.25&optimisation=off").fingerprint


def test_an_int8_build_is_opened_as_it_is_deployed(file: Path, x: Tensor, tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(file, tmp_path / "int8.onnx", weight_type=QuantType.QUInt8)
    built, exact = (open_encoder(f"ort:{path}?mean=0&std=1") for path in (tmp_path / "int8.onnx", file))
    apart = float((built(x) - exact(x)).norm() / exact(x).norm())
    assert 1e-4 < apart < 0.1


def test_weights_in_a_file_of_their_own_tell_encoders_apart(file: Path, tmp_path: Path) -> None:
    import onnx

    path, weights = tmp_path / "net[1].onnx", tmp_path / "weights.bin"
    model = onnx.load(file)
    onnx.save_model(model, path, save_as_external_data=True, location=weights.name, size_threshold=0)
    spec = f"ort:{path}?mean=0&std=1"
    before = open_encoder(spec)
    assert files_of(spec) == [path, weights]
    weights.write_bytes(bytes(len(weights.read_bytes())))
    after = open_encoder(spec)
    assert before.fingerprint != after.fingerprint
    assert not after(torch.rand(2, 3, 8, 8)).any()  # they are all 0 now


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "holds no mean and std"),
        ("?mean=0&std=1&provider=Abacus", "expected a provider that this ONNX Runtime has"),
        ("?mean=0&std=1&output=logits", "unknown output"),
        ("?mean=0&std=1&threads=-3", "expected a whole number above 0"),
        ("?mean=0&std=1&pool=avg", "this source takes"),
    ],
)
def test_what_onnx_runtime_cannot_run_is_said(file: Path, options: str, said: str) -> None:
    with pytest.raises(HoldfastError) as error:
        open_encoder(f"ort:{file}{options}")
    assert said in str(error.value)


@pytest.mark.parametrize("source", ["ort", "tflite", "openvino"])
def test_a_file_that_is_none_is_refused(source: str, tmp_path: Path) -> None:
    package = {"ort": "onnxruntime", "tflite": "ai_edge_litert", "openvino": "openvino"}[source]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    (tmp_path / "it.bin").write_bytes(b"no network")
    for name, said in (("it.bin", "is no"), ("gone.bin", "does not exist")):
        with pytest.raises(HoldfastError) as error:
            open_encoder(f"{source}:{tmp_path}/{name}?mean=0&std=1")
        assert said in str(error.value)


def test_openvino_gives_what_the_network_gives(file: Path, network: nn.Module, x: Tensor) -> None:
    pytest.importorskip("openvino")
    encoder = open_encoder(f"openvino:{file}?mean=0.5&std=0.25&precision=f32")
    with torch.no_grad():
        assert torch.allclose(encoder(x), network((x - 0.5) / 0.25), atol=1e-4)


def test_litert_gives_what_its_onnx_twin_gives(shared: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    real, options = shared / "data" / "real", "?mean=0.5&std=0.5"
    phone = open_encoder(f"tflite:{real}/MobileFaceNet.tflite{options}")
    twin = open_encoder(f"ort:{real}/face_mobilefacenet.onnx{options}")
    x = torch.rand(3, 3, 112, 112, generator=torch.Generator().manual_seed(0))  # its batches are of two
    assert phone.origin["batch"] == 2
    assert torch.allclose(phone(x), twin(x), atol=1e-3)


def test_a_function_in_python_is_audited_by_queries() -> None:
    weights = np.random.default_rng(0).normal(size=(64, 12)).astype(np.float32)

    def embed(x: np.ndarray) -> np.ndarray:
        return np.maximum(x.reshape(len(x), -1) @ weights, 0)

    images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    record = holdfast.audit(embed, images, attacked=4, settings={"breaking_radius.queries": 200}, examined=2)
    (entry,) = record.data["encoders"]
    assert record.data["plan"]["profile"] == "black_box"
    assert not record.failures
    assert 0 < (record["breaking_radius"].value or 0) < 0.5
    assert entry["passes"]["measures"]["backward"] == 0
    assert "fail" not in {check["status"] for check in entry["checks"].values()}
    assert "queries" in entry["measures"]["breaking_radius"]["in_words"]["further"][-1]


def test_what_needs_a_gradient_is_refused_before_any_pass() -> None:
    calls = []

    def embed(x: np.ndarray) -> np.ndarray:
        calls.append(len(x))
        return x.reshape(len(x), -1)

    images = torch.rand(12, 1, 4, 4)
    record = holdfast.audit(embed, images, attacked=4, measures=["cosine_to_self"], examined=2)
    assert "ask by queries" in " ".join(record.failures)
    assert record.data["encoders"][0]["measures"]["cosine_to_self"]["scores"] == {}


@pytest.mark.parametrize("ball", [Linf(0.1), L2(1.0)], ids=["linf", "l2"])
def test_queries_find_about_what_is_there(ball: Any) -> None:
    """Of a half-space the smallest change is known; what is found is at least that, and not far from it."""
    random = torch.Generator().manual_seed(0)
    x = 0.4 + 0.2 * torch.rand(6, 1, 6, 6, generator=random)
    normal = torch.randn(36, generator=random)
    normal = normal / (normal.abs().sum() if ball.is_box else normal.norm())  # ||normal||_* = 1
    offset = x.flatten(1) @ normal + torch.linspace(0.02, 0.07, 6)

    def goal(at: Tensor) -> tuple[Tensor, Tensor]:
        value = at.flatten(1) @ normal - offset
        return value, value[:, None]

    truth = torch.linspace(0.02, 0.07, 6)
    rng = Rng(0, ids=tuple("abcdef"))
    found, halfway = ask(Sought(goal, lambda reps: reps[:, 0] > 0), x, ball, 800, rng)
    assert (found.radius >= truth - 1e-6).all()
    assert (found.radius < (1.4 if ball.is_box else 1.6) * truth).all()
    assert (found.radius <= halfway).all()
    # nobody's search depends on its company
    part = [4, 1]
    chosen = offset[part]

    def own(at: Tensor) -> tuple[Tensor, Tensor]:
        value = at.flatten(1) @ normal - chosen
        return value, value[:, None]

    alone, _ = ask(Sought(own, lambda reps: reps[:, 0] > 0), x[part], ball, 800, Rng(0, ids=("e", "b")))
    assert torch.allclose(alone.radius, found.radius[part], rtol=0.05)


def test_a_query_is_a_pass() -> None:
    passes = []

    def goal(at: Tensor) -> tuple[Tensor, Tensor]:
        passes.append(len(at))
        value = at.mean((1, 2, 3)) - 0.6
        return value, value[:, None]

    x = torch.full((2, 1, 4, 4), 0.5)
    for queries in (LEAST, 300):
        passes.clear()
        ask(Sought(goal, lambda reps: reps[:, 0] > 0), x, Linf(0.1), queries, Rng(0, ids=("a", "b")))
        assert len(passes) == queries


def test_an_encoder_says_whether_it_has_a_gradient() -> None:
    assert Encoder(nn.Flatten(), mean=0, std=1).differentiable
    assert not Encoder(
        nn.Sequential(Outside(lambda: np.asarray, Wanted(), b""), nn.Flatten()), mean=0, std=1
    ).differentiable


def test_a_profile_that_lies_over_quick_keeps_its_own_questions(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('like = "quick"\nimages = 64\nmeasures = ["effective_rank"]\n')
    plans = {
        name: make_plan(AuditRequest(encoders=("embed",), data="digits", profile=name), opened={"embed": of_arrays()})
        for name in ("quick", "standard", str(own))
    }
    assert [plan.profile for plan in plans.values()] == ["black_box", "standard", "own"]
    assert [part_name(measure) for measure in plans[str(own)].measures] == ["effective_rank"]


def of_arrays() -> Encoder:
    return function_encoder(np.asarray, "embed", None, None)


def test_the_record_says_what_is_done_to_pixels(x: Tensor) -> None:
    as_given, normalised = of_arrays(), function_encoder(start_flattening(), "embed", 0.5, 0.25)
    assert as_given.origin["normalisation"] == AS_GIVEN
    assert normalised.origin["normalisation"] == BY_CALLER
    assert torch.allclose(normalised(x), ((x - 0.5) / 0.25).flatten(1))
    with pytest.raises(Missing) as error:
        function_encoder(np.asarray, "embed", 0.5, None)
    assert "mean and std together" in str(error.value)
