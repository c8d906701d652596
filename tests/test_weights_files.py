"""Files of weights: behind which names they keep an encoder, in which of several copies, and what is no weights."""

import json
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from holdfast.core import HoldfastError
from holdfast.runtime.errors import Ambiguous, BadData, Mismatch, Missing, UnknownName, Unsupported
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import files_of, open_encoder
from holdfast.sources.encoders.shared.copies import with_weights
from holdfast.sources.encoders.shared.naming import bare
from holdfast.sources.encoders.shared.networks import NETWORKS

State = dict[str, Tensor]
ARCH, X = "digits_cnn", torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return NETWORKS[ARCH].build().eval()


def state(seed: int = 0) -> State:
    return dict(network(seed).state_dict())


def under(prefix: str, tensors: Mapping[str, Tensor]) -> State:
    return {f"{prefix}{name}": value for name, value in tensors.items()}


def opened(path: Path, options: str = "") -> Any:
    return open_encoder(f"zoo:{ARCH}?weights={path}&mean=0&std=1{options}")


def is_seed(encoder: Any, seed: int) -> bool:
    with torch.no_grad():
        return torch.equal(encoder(X), network(seed)(X))


# --- prefixes and wrappers ----------------------------------------------------------------------

PREFIXES = (
    "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "_fsdp_wrapped_module.", "model.",
    "model._orig_mod.", "model.module.", "module.model.", "net.", "network.", "backbone.", "encoder.", "student.",
    "model.backbone.", "model.encoder.module._orig_mod.", "_orig_mod.model.net.", "_fsdp_wrapped_module.module.net.",
    "model._checkpoint_wrapped_module.", "_forward_module.module.", "trunk.", "model.network.encoder.backbone.",
    "network.model.", "student.module.backbone.",
)  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_wraps_a_network_is_taken_away(prefix: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"w.{ending}"
    tensors = under(prefix, state())
    save_file(tensors, path) if ending == "safetensors" else torch.save({"state_dict": tensors, "epoch": 3}, path)
    encoder = opened(path)
    assert is_seed(encoder, 0)
    table = "" if ending == "safetensors" else "state_dict."
    assert encoder.origin.get("prefix", "") == table + bare(prefix)
    if bare(prefix) != prefix:
        assert {*str(encoder.origin["wrappers"]).split(", ")} <= set(prefix.split("."))
    if ending == "safetensors":
        assert is_seed(open_encoder(f"{path}?mean=0&std=1"), 0)


def test_wrappers_inside_a_network_are_taken_away(tmp_path: Path) -> None:
    guard_torchvision()
    timm = pytest.importorskip("timm")
    model = timm.create_model("test_resnet").eval()
    tensors = {
        name.replace("layer1.", "layer1._orig_mod.").replace("conv2.", "_fsdp_wrapped_module.conv2."): value
        for name, value in model.state_dict().items()
    }
    save_file(under("module.", tensors), tmp_path / "w.safetensors")
    encoder = open_encoder(f"timm:test_resnet?weights={tmp_path}/w.safetensors")
    x = torch.rand(1, 3, 64, 64)
    model.reset_classifier(0)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), model(encoder.normalisation(x)))
    assert encoder.origin["wrappers"] == "_fsdp_wrapped_module, _orig_mod, module"


OWN = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = nn.Flatten()
        self.encoder = nn.ModuleDict({"module": nn.Linear(64, 6), "net": nn.Linear(64, 6)})
        self.model = nn.Linear(6, 6)
    def forward(self, x):
        x = self.module(x)
        return self.model(self.encoder["module"](x) * self.encoder["net"](x))

class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64, 3))
        self.module = nn.Linear(3, 3)
    def forward(self, x):
        return self.module(x.flatten(1) @ self.weight)

def compiled(): return torch.compile(Own(), backend="eager")
def parallel(): return nn.DataParallel(Own())
"""


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "model.", "encoder.", "state_dict.model."])
@pytest.mark.parametrize("factory", ["Own", "Twice", "compiled", "parallel"])
def test_words_of_a_networks_own_are_left_alone(
    factory: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast_test_words.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    import holdfast_test_words as own  # pyright: ignore[reportMissingImports]

    inner = own.Twice() if factory == "Twice" else own.Own()
    save_file(under(prefix, inner.state_dict()), tmp_path / "w.safetensors")
    encoder = open_encoder(f"py:holdfast_test_words:{factory}?mean=0&std=1&weights={tmp_path}/w.safetensors")
    with torch.no_grad():
        assert torch.equal(encoder(X), inner(X))
    assert encoder.origin["weights"] == f"{tmp_path}/w.safetensors"


def test_unknown_prefixes_need_a_word(tmp_path: Path) -> None:
    save_file(under("generator.", state(1)) | under("discriminator.", state(2)), tmp_path / "w.safetensors")
    with pytest.raises(UnknownName, match="prefix="):
        opened(tmp_path / "w.safetensors")
    for prefix, seed in (("generator", 1), ("discriminator.", 2)):
        encoder = opened(tmp_path / "w.safetensors", f"&prefix={prefix}")
        assert is_seed(encoder, seed)
    assert encoder.origin["prefix"] == "discriminator."
    assert encoder.origin["left out"] == "generator"
    with pytest.raises(UnknownName, match="gen"):
        opened(tmp_path / "w.safetensors", "&prefix=gen")
    with pytest.raises(Missing, match="weights=FILE"):
        open_encoder("zoo:digits_cnn?prefix=gen")


def test_trained_weights_have_names_of_their_own() -> None:
    spec = "zoo:digits_cnn?weights=a.pt&prefix=generator&ema=false&mean=0&std=1"
    assert with_weights(spec, "b.safetensors") == "zoo:digits_cnn?mean=0&std=1&weights=b.safetensors"


# --- several copies -----------------------------------------------------------------------------

LIVE, MEAN = 1, 2
"""Seeds of the weights as they are trained, and of those that stand for their running mean."""


def averaged() -> State:
    return dict(AveragedModel(network(MEAN), multi_avg_fn=get_ema_multi_avg_fn(0.9)).state_dict())


COPIES: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "timm": (lambda: {"state_dict": state(LIVE), "state_dict_ema": state(MEAN)}, "state_dict_ema"),
    "older timm": (lambda: {"model": state(LIVE), "model_ema": under("module.", state(MEAN))}, "model_ema"),
    "torchvision": (lambda: {"model": state(LIVE), "model_ema": averaged()}, "model_ema"),
    "Lightning": (
        lambda: {"state_dict": under("model.", state(LIVE)) | under("ema.", state(MEAN)), "epoch": 3}, "state_dict.ema"
    ),
    "DINO": (
        lambda: {"student": under("module.backbone.", state(LIVE)), "teacher": under("backbone.", state(MEAN))},
        "teacher.backbone",
    ),
    "a teacher": (lambda: under("student.", state(LIVE)) | under("teacher.", state(MEAN)), "teacher"),
    "bare, with a mean": (lambda: state(LIVE) | under("ema.", state(MEAN)), "ema"),
    "a mean inside": (lambda: under("model.", state(LIVE)) | under("model.ema.", state(MEAN)), "model.ema"),
    "wrapped": (
        lambda: {"ema_model": under("_orig_mod.module.", state(MEAN)), "net": under("module.", state(LIVE))},
        "ema_model",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", COPIES)
def test_the_running_mean_is_taken_where_there_is_one_and_said(kind: str, tmp_path: Path) -> None:
    make, at = COPIES[kind]
    torch.save(make(), tmp_path / "w.pt")
    encoder = opened(tmp_path / "w.pt")
    assert is_seed(encoder, MEAN)
    assert str(encoder.origin["copy"]).startswith("a running mean of the weights; ema=false: ")
    assert encoder.origin["prefix"] == f"{at}."
    assert is_seed(opened(tmp_path / "w.pt", "&ema=true"), MEAN)
    live = opened(tmp_path / "w.pt", "&ema=false")
    assert is_seed(live, LIVE)
    assert live.origin["copy"] == f"not the running mean; ema=true: {at}"


def test_a_file_of_one_kind_is_no_other(tmp_path: Path) -> None:
    torch.save(averaged(), tmp_path / "mean.pt")
    encoder = opened(tmp_path / "mean.pt")
    assert is_seed(encoder, MEAN)
    assert encoder.origin["copy"] == "a running mean of the weights"
    assert encoder.origin["wrappers"] == "module"
    with pytest.raises(Missing, match="alone"):
        opened(tmp_path / "mean.pt", "&ema=false")
    torch.save({"model": state()}, tmp_path / "w.pt")
    with pytest.raises(Missing, match="ema="):
        opened(tmp_path / "w.pt", "&ema=true")
    assert is_seed(opened(tmp_path / "w.pt", "&ema=false"), 0)


def test_copies_that_nothing_tells_apart_are_refused_unless_they_are_equal(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save(under("backbone.", state(1)) | under("encoder.", state(2)), path)
    with pytest.raises(Ambiguous, match="backbone"):
        opened(path)
    assert is_seed(opened(path, "&prefix=encoder"), 2)
    torch.save(state(1) | under("model.", state(2)), path)
    with pytest.raises(Ambiguous, match="prefix=model"):
        opened(path)
    torch.save(under("backbone.", state(1)) | under("encoder.", state(1)), path)
    assert is_seed(opened(path), 1)
    torch.save({"model": state(1), "state_dict": state(2)}, path)  # as timm reads it
    encoder = opened(path)
    assert is_seed(encoder, 2)
    assert encoder.origin["copy"] == "not model"
    torch.save(under("model.", {**state(1), "0.weight": state(2)["0.weight"]}) | under("net.", state(1)), path)
    with pytest.raises(Ambiguous, match="model"):
        opened(path)


@pytest.mark.slow
def test_timms_own_reader_takes_the_same_copy(tmp_path: Path) -> None:
    guard_torchvision()
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    copies = [timm.create_model("test_resnet").state_dict() for _ in range(2)]
    for tables in ({"state_dict": 0, "state_dict_ema": 1}, {"model": 0, "model_ema": 1}, {"model": 0, "state_dict": 1}):
        torch.save({name: copies[which] for name, which in tables.items()}, tmp_path / "w.pt")
        theirs = timm.models.load_state_dict(str(tmp_path / "w.pt"))
        encoder = open_encoder(f"timm:test_resnet?weights={tmp_path}/w.pt")
        ours = encoder.module.get_submodule(encoder.root).state_dict()
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
        assert encoder.origin["copy"]


# --- libraries that convert or add --------------------------------------------------------------


def test_what_timm_converts_is_read_as_timm_reads_it(tmp_path: Path) -> None:
    guard_torchvision()
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=0).eval()
    larger = timm.create_model("test_vit", num_classes=0, img_size=192).state_dict()
    tensors = {**larger, "mask_token": torch.zeros(1, 64)}  # as DINOv2 is published
    torch.save({"model": tensors}, tmp_path / "w.pt")
    encoder = open_encoder(f"timm:test_vit?weights={tmp_path}/w.pt")
    overlay = {"state_dict": {**larger, "mask_token": torch.zeros(1, 64)}, "source": ""}
    model = timm.create_model("test_vit", pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay).eval()
    x = torch.rand(1, 3, 160, 160)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), model(encoder.normalisation(x)))
    assert encoder.origin["converted"] == "by timm, as vision_transformer"
    torch.save({"model": {**larger, "adapter.weight": torch.zeros(3)}}, tmp_path / "w.pt")
    with pytest.raises(Mismatch, match=r"adapter\.weight"):
        open_encoder(f"timm:test_vit?weights={tmp_path}/w.pt")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["fbnetc_100", "repvit_m0_9"])
def test_networks_that_timm_builds_otherwise_for_weights_of_its_own(name: str, tmp_path: Path) -> None:
    """fbnetc_100 has another ε in its BatchNorms, repvit's file more of a head than timm says."""
    guard_torchvision()
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    tensors = timm.create_model(name).state_dict()
    tensors = {key: torch.rand(v.shape) + 0.5 if "running_var" in key else v for key, v in tensors.items()}
    save_file({key: v.contiguous() for key, v in tensors.items()}, tmp_path / "w.safetensors")
    encoder = open_encoder(f"timm:{name}?weights={tmp_path}/w.safetensors")
    own = {"state_dict": dict(tensors), "source": ""}
    theirs = timm.create_model(name, pretrained=True, num_classes=0, pretrained_cfg_overlay=own).eval()
    x = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), theirs(encoder.normalisation(x)))


def old_names(tensors: State) -> State:
    import re

    return {re.sub(r"(denselayer\d+\.(?:norm|conv))(\d)\.", r"\1.\2.", name): v for name, v in tensors.items()}


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("densenet121", old_names),  # as torchvision's own downloads are
        ("mnasnet0_5", dict),  # whose loader asks for a version that safetensors do not keep
        ("googlenet", dict),
        ("googlenet", lambda tensors: {name: v for name, v in tensors.items() if not name.startswith("aux")}),
        pytest.param(
            "inception_v3",
            lambda tensors: {name: v for name, v in tensors.items() if not name.startswith("Aux")},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_networks_that_torchvision_builds_otherwise_for_weights_of_its_own(
    name: str, held: Callable[[State], State], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard_torchvision()
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    given = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    tensors = models.get_model(name, weights=None, **given).state_dict()
    for key, value in tensors.items():
        value.copy_(torch.rand(value.shape) + 0.5 if "running_var" in key else value)
    monkeypatch.setattr(models._api, "load_state_dict_from_url", lambda *args, **kwargs: tensors)
    theirs = models.get_model(name, weights="DEFAULT").eval()
    save_file({key: v.contiguous() for key, v in held(dict(tensors)).items()}, tmp_path / "w.safetensors")
    encoder = open_encoder(f"torchvision:{name}?weights={tmp_path}/w.safetensors")
    assert getattr(encoder.module.get_submodule(encoder.root), "transform_input", True)
    setattr(theirs, "fc" if hasattr(theirs, "fc") else "classifier", nn.Identity())
    if name.startswith("mnasnet"):
        theirs.classifier = nn.Flatten()
    x = torch.rand(2, 3, 96, 96)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), theirs(encoder.normalisation(x)), rtol=1e-5, atol=1e-5)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
def test_random_networks_are_built_as_published_ones(name: str) -> None:
    encoder = open_encoder(f"torchvision:{name}?weights=random")
    network: Any = encoder.module.get_submodule(encoder.root)
    assert network.transform_input
    assert not any(key.startswith(("aux", "Aux")) for key in network.state_dict())


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weight_norms_of_either_kind_fit_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holdfast_test_norms.py").write_text(
        "from torch import nn\n"
        "def old(): return nn.Sequential(nn.Flatten(), nn.utils.weight_norm(nn.Linear(64, 5)))\n"
        "def new(): return nn.Sequential(nn.Flatten(), nn.utils.parametrizations.weight_norm(nn.Linear(64, 5)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import holdfast_test_norms as norms  # pyright: ignore[reportMissingImports]

    for first, second in (("old", "new"), ("new", "old")):
        theirs = getattr(norms, first)().eval()
        torch.save(theirs.state_dict(), tmp_path / "w.pt")
        encoder = open_encoder(f"py:holdfast_test_norms:{second}?mean=0&std=1&weights={tmp_path}/w.pt")
        with torch.no_grad():
            torch.testing.assert_close(encoder(X), theirs(X))
        assert encoder.origin["format"] == f"{first} weight norm"


# --- what is no weights -------------------------------------------------------------------------


def replaced(name: str, change: Callable[[Tensor], Tensor]) -> State:
    return {key: change(value) if key == name else value for key, value in state().items()}


def holed(value: Tensor) -> Tensor:
    value = value.clone()
    value.view(-1)[3] = torch.nan
    return value


BAD: dict[str, tuple[Callable[[], State], str]] = {
    "NaN": (lambda: replaced("2.weight", holed), r"2.weight is NaN or infinite at 1 of 8192 places"),
    "infinite": (lambda: replaced("0.bias", lambda v: v / 0), r"0.bias is NaN or infinite at 16 of 16 places"),
    "fp8": (lambda: replaced("0.weight", lambda v: v.to(torch.float8_e4m3fn)), r"stored as float8_e4m3fn, whose scal"),
    "whole numbers": (lambda: replaced("0.weight", lambda v: v.to(torch.int8)), r"0.weight holds int8 where float32"),
    "truth values": (lambda: replaced("0.bias", lambda v: v > 0), r"0.bias holds bool where float32 is expected"),
    "complex": (lambda: replaced("0.bias", lambda v: v.to(torch.complex64)), r"0.bias holds complex64 where float32"),
    "a tensor less": (lambda: {k: v for k, v in state().items() if k != "0.bias"}, r"0.bias is missing"),
    "a tensor more": (lambda: state() | {"0.scale": torch.ones(1)}, r"0.scale is extra"),
    "another shape": (lambda: replaced("5.bias", lambda v: v[:-1]), r"5.bias is \[63\] where \[64\] is expected"),
    "no tensors": (dict, r"holds no weights of this network \(0.bias and others\), but no tensors"),
    "a head alone": (
        lambda: {"fc.weight": torch.eye(10, 64), "fc.bias": torch.zeros(10)},
        r"but fc.weight \[10, 64\], fc.bias \[10\]; give a file of the whole encoder; a head alone is one for a probe",
    ),
    "sparse": (lambda: replaced("5.weight", lambda v: v.to_sparse()), r"5.weight is a sparse_coo tensor"),
    "quantised": (
        lambda: replaced("5.weight", lambda v: torch.quantize_per_tensor(v, 0.1, 0, torch.qint8)),
        r"5.weight holds qint8 where float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.filterwarnings("ignore")  # torch's, about how it stores quantised tensors
def test_what_is_no_weights_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    make, says = BAD[kind]
    torch.save(make(), tmp_path / "w.pt")
    with pytest.raises(HoldfastError, match=says) as caught:
        opened(tmp_path / "w.pt")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_in_other_precisions_are_weights(dtype: torch.dtype, tmp_path: Path) -> None:
    save_file({name: value.to(dtype) for name, value in state().items()}, tmp_path / "w.safetensors")
    with torch.no_grad():
        torch.testing.assert_close(opened(tmp_path / "w.safetensors")(X), network()(X), rtol=0.05, atol=0.01)


def test_a_name_that_a_header_has_twice_is_refused(tmp_path: Path) -> None:
    """The package takes the last of them."""
    data = save({"0.bias": torch.zeros(2)})
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size].rstrip().decode()
    twice = header[:-1] + "," + header[1:]
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(twice).to_bytes(8, "little") + twice.encode() + data[8 + size :])
    assert load_file(path)["0.bias"].tolist() == [0, 0]
    for spec in (f"zoo:{ARCH}?weights={path}", f"{path}?mean=0&std=1"):
        with pytest.raises(BadData, match=r"0\.bias"):
            open_encoder(spec)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("key", ["mean", "std"])
@pytest.mark.parametrize("text", ["ImageNet", "0.5;0.5", "", "0.5,,", "nan", "0.1,0.2"])
def test_metadata_that_are_no_numbers_are_said_in_a_line(key: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(state(), path, {"mean": "0", "std": "1", key: text})
    for spec in (f"file:{path}", f"zoo:{ARCH}?weights={path}"):
        with pytest.raises(HoldfastError, match=r"metadata|finite means and positive stds|takes 1 channels") as caught:
            open_encoder(spec)
        assert "\n" not in str(caught.value)
        assert is_seed(open_encoder(f"{spec}{'&' if '?' in spec else '?'}mean=0&std=1"), 0)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "folder.safetensors").mkdir()
    for name in ("pipe", "folder"):
        path = f"{tmp_path}/{name}.safetensors"
        for spec in (f"zoo:{ARCH}?weights={path}", f"{path}?mean=0&std=1"):
            with pytest.raises(BadData, match=r"pipe|folder"):
                open_encoder(spec)
    save_file(state(), tmp_path / "w.safetensors")
    (tmp_path / "link.safetensors").symlink_to("w.safetensors")
    assert is_seed(opened(tmp_path / "link.safetensors"), 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_torchscript_archive_is_a_network(tmp_path: Path) -> None:
    torch.jit.trace(network(), X).save(tmp_path / "w.pt")
    with pytest.raises(Unsupported, match=r"torch\.jit\.load"):
        opened(tmp_path / "w.pt")


def test_tables_that_spell_one_name_twice_are_refused(tmp_path: Path) -> None:
    torch.save({"model": {"0.bias": torch.zeros(2), "0": {"bias": torch.ones(2)}}}, tmp_path / "w.pt")
    with pytest.raises(BadData, match=r"model\.0\.bias"):
        opened(tmp_path / "w.pt")


def test_tables_in_themselves_have_an_end(tmp_path: Path) -> None:
    tables: dict[str, Any] = {"model": state()}
    inner = tables
    for _ in range(60):
        inner |= {"a": {}, "b": tables}
        inner["c"] = inner["a"]
        inner = inner["a"]
    torch.save(tables, tmp_path / "w.pt")
    assert is_seed(opened(tmp_path / "w.pt"), 0)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a file with some bytes changed, cut, doubled or zeroed, most often near its beginning or its end."""
    size = len(data)
    ends = (rng.randrange(min(size, 700)), size - 1 - rng.randrange(min(size, 700)))
    place = rng.choice((*ends, rng.randrange(size)))
    stop = min(size, place + rng.randrange(1, 200))
    match rng.randrange(8):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + bytes(stop - place) + data[stop:]
        case 2:
            return data[:place] + rng.randbytes(rng.randrange(1, 30)) + data[place:]
        case 3:
            return data[:stop] + data[place:stop] + data[stop:]
        case 4:
            length = rng.choice([0, 1, size, size - 7, 2**31, 2**63, 2**63 + 5, 2**64 - 1])
            return length.to_bytes(8, "little") + data[8:]
        case 5:
            old, new = rng.choice(
                [(b"F32", b"F8_"), (b"[16", b"[-1"), (b"_v2", b"_v9"), (b"Float", b"Quant"), (b"0", b"9")]
            )
            return data.replace(old, new, rng.randrange(1, 4))
        case _:
            changed = bytearray(data)
            for offset in range(rng.randrange(1, 6)):
                changed[(place + offset * rng.randrange(1, 40)) % size] = rng.randrange(256)
            return bytes(changed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's, about what it reads
@pytest.mark.parametrize("kind", ["safetensors", "zip", "pickle"])
def test_a_damaged_file_is_one_line_or_opens(kind: str, tmp_path: Path) -> None:
    """500 files of each kind: none makes a traceback or is waited for."""
    path = tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pt")
    if kind == "safetensors":
        save_file(state(), path, {"mean": "0", "std": "1"})
    else:
        torch.save({"model": state(), "epoch": 3}, path, _use_new_zipfile_serialization=kind == "zip")
    whole, refusals = path.read_bytes(), list[str]()
    for seed in range(500):
        path.write_bytes(mutated(whole, random.Random(seed)))
        for spec in (f"zoo:{ARCH}?weights={path}&mean=0&std=1", *([str(path)] if kind == "safetensors" else [])):
            try:
                open_encoder(spec)
            except HoldfastError as error:
                refusals.append(str(error))
    assert len(refusals) > 150
    assert not [refusal for refusal in refusals if "\n" in refusal or len(refusal) > 2000]


# --- several files ------------------------------------------------------------------------------


def sharded(folder: Path, ending: str = "safetensors") -> Path:
    names, tensors = {}, state()
    for number, part in enumerate((["0.weight", "0.bias", "2.weight"], ["2.bias", "5.weight", "5.bias"]), 1):
        name = f"model-0000{number}-of-00002.{ending}"
        held = {key: tensors[key] for key in part}
        save_file(held, folder / name) if ending == "safetensors" else torch.save(held, folder / name)
        names |= dict.fromkeys(part, name)
    index = folder / f"model.{ending}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": names}))
    return index


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_weights_in_several_files(ending: str, tmp_path: Path) -> None:
    index = sharded(tmp_path, ending)
    assert is_seed(opened(index), 0)
    files = files_of(f"zoo:{ARCH}?weights={index}")
    assert files is not None
    assert {file.name for file in files} == {file.name for file in tmp_path.iterdir()}
    with pytest.raises(Mismatch, match=r"2\.bias"):
        opened(tmp_path / f"model-00001-of-00002.{ending}")


def without_a_shard(index: Path) -> None:
    (index.parent / "model-00002-of-00002.safetensors").unlink()


def changed(**entries: Any) -> Callable[[Path], None]:
    def change(index: Path) -> None:
        table = json.loads(index.read_text())
        table["weight_map"] |= {name.replace("_", "."): value for name, value in entries.items()}
        index.write_text(json.dumps(table))

    return change


SHARDS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a file less": (without_a_shard, r"'.*model-00002-of-00002.safetensors' does not exist"),
    "elsewhere": (changed(a="../w.safetensors"), r"names of files beside it, got '../w.safetensors'"),
    "absolute": (changed(a="/etc/passwd"), r"names of files beside it, got '/etc/passwd'"),
    "itself": (changed(a="model.safetensors.index.json"), r"names of files beside it, got 'model.safetensors.index"),
    "a tensor less": (changed(a_b="model-00001-of-00002.safetensors"), r"its files lack 'a.b', which it lists"),
    "no names": (changed(a=3), r"expected 'weight_map' to name a file for each tensor"),
    "no table": (lambda index: index.write_text('{"weight_map": [1]}'), r"expected 'weight_map' to name a file"),
    "no map": (lambda index: index.write_text("{}"), r"expected an index with a table 'weight_map'"),
    "no JSON": (lambda index: index.write_text("{"), r"expected an index with a table 'weight_map'"),
    "twice": (
        lambda index: save_file({"0.bias": torch.zeros(16)}, index.parent / "model-00002-of-00002.safetensors"),
        r"expected each tensor in one file, got '0.bias' again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SHARDS)
def test_an_index_that_is_not_right_is_one_line(kind: str, tmp_path: Path) -> None:
    spoil, says = SHARDS[kind]
    index = sharded(tmp_path)
    spoil(index)
    with pytest.raises(HoldfastError, match=says) as caught:
        opened(index)
    assert "\n" not in str(caught.value)
