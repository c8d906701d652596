"""Checkpoints as their authors write them, opened with one spec, against the authors' networks built by hand."""

import argparse
import copy
import itertools
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.parts.checks.preprocessing import Preprocessing
from holdfast.report.documents.encoder import document
from holdfast.report.render import to_text
from holdfast.runtime.errors import BadData, BadValue, Mismatch, Missing, UnknownName
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import save

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

MEAN = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
STD = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
State = dict[str, Tensor]


def randomised(module: nn.Module, seed: int = 0) -> nn.Module:
    """Return the module in eval mode, with statistics and biases that no fresh network has."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            noise = torch.rand(value.shape, generator=generator)
            value.copy_(noise + 0.5 if "var" in name else (noise - 0.5) / 4 if value.ndim < 2 else (noise - 0.5) / 2)
    return module.eval()


def mlp(
    *widths: int, bias: bool, norm: bool, last: bool = False, activation: type[nn.Module] = nn.ReLU
) -> nn.Sequential:
    """Return linear layers with what stands between them; `last` is a BatchNorm without weights behind them."""
    layers: list[nn.Module] = []
    for place, (before, after) in enumerate(itertools.pairwise(widths)):
        layers.append(nn.Linear(before, after, bias=bias))
        if place < len(widths) - 2:
            layers += [nn.BatchNorm1d(after), activation()] if norm else [activation()]
    return nn.Sequential(*layers, *([nn.BatchNorm1d(widths[-1], affine=False)] if last else []))


def under(prefix: str, module: nn.Module) -> State:
    return {f"{prefix}{name}": value.clone() for name, value in module.state_dict().items()}


@pytest.fixture(scope="module")
def resnet() -> nn.Module:
    guard_torchvision()
    import torchvision

    trunk = torchvision.models.resnet18(weights=None)
    trunk.fc = nn.Identity()  # type: ignore[assignment]
    return randomised(trunk)


@pytest.fixture(autouse=True)
def _nothing_is_drawn_that_files_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let networks begin with constants: a third of the time of opening one is to draw what its file replaces."""
    for name in ("kaiming_normal_", "kaiming_uniform_"):
        monkeypatch.setattr(nn.init, name, lambda weight, *_, **__: nn.init.constant_(weight, 0.01))


@pytest.fixture
def x() -> Tensor:
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def opens(spec: str, x: Tensor, expected: Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(open_encoder(spec)(x), expected, atol=1e-5, rtol=1e-5)


def normalised(x: Tensor) -> Tensor:
    return (x - MEAN) / STD


def stored(path: Path, state: Mapping[str, object], container: str = "state_dict") -> Path:
    torch.save({"epoch": 200, "arch": "resnet18", container: OrderedDict(state), "optimizer": {"state": {0: {}}}}, path)
    return path


def of_zeros(value: Tensor) -> Tensor:
    """Return as many zeros, which take no place in a file."""
    return value.new_zeros(()).expand(value.shape)


Heads = dict[str, nn.Module]


def moco_v2(trunk: nn.Module, path: Path) -> Heads:
    heads: Heads = {"projection": randomised(mlp(512, 512, 16, bias=True, norm=False), 1)}
    state = under("module.encoder_q.", trunk) | under("module.encoder_q.fc.", heads["projection"])
    state |= {name.replace("encoder_q", "encoder_k"): of_zeros(value) for name, value in state.items()}
    stored(path, state | {"module.queue": torch.rand(16, 8), "module.queue_ptr": torch.zeros(1, dtype=torch.long)})
    return heads | {"projection.last": heads["projection"][2]}  # type: ignore[index]


def moco_v3(trunk: nn.Module, path: Path) -> Heads:
    projection = randomised(mlp(512, 32, 16, bias=False, norm=True, last=True), 1)
    predictor = randomised(mlp(16, 32, 16, bias=False, norm=True), 2)
    state = under("module.base_encoder.", trunk) | under("module.base_encoder.fc.", projection)
    state |= {name.replace("base", "momentum"): of_zeros(value) for name, value in state.items()}
    stored(path, state | under("module.predictor.", predictor))
    return {"projection": projection, "prediction": nn.Sequential(projection, predictor)}


def simsiam(trunk: nn.Module, path: Path) -> Heads:
    projection = randomised(mlp(512, 32, 32, 16, bias=False, norm=True, last=True), 1)
    predictor = randomised(mlp(16, 8, 16, bias=True, norm=True), 2)
    state = under("module.encoder.", trunk) | under("module.encoder.fc.", projection)
    stored(path, state | under("module.predictor.", predictor))
    return {"projection": projection, "prediction": nn.Sequential(projection, predictor)}


def pixpro(trunk: nn.Module, path: Path) -> Heads:
    state = under("module.encoder.", trunk) | {
        "module.projector.linear1.weight": torch.rand(8, 512, 1, 1),
        "module.encoder_k.conv1.weight": torch.rand(64, 3, 7, 7),
    }
    stored(path, state, "model")
    return {}


def swav(trunk: nn.Module, path: Path) -> Heads:
    heads: Heads = {"projection": randomised(mlp(512, 32, 16, bias=True, norm=True), 1)}
    state = under("module.", trunk) | under("module.projection_head.", heads["projection"])
    torch.save(state | {"module.prototypes.weight": torch.rand(20, 16)}, path)  # the published ones are bare
    return heads


def barlow_twins(trunk: nn.Module, path: Path) -> Heads:
    heads: Heads = {"projection": randomised(mlp(512, 32, 32, 16, bias=False, norm=True), 1)}
    state = under("module.backbone.", trunk) | under("module.projector.", heads["projection"])
    stored(path, state | {"module.bn.running_mean": torch.zeros(16)}, "model")
    return heads


def dino(trunk: nn.Module, path: Path) -> Heads:
    heads: Heads = {"projection": randomised(mlp(512, 32, 32, 16, bias=True, norm=False, activation=nn.GELU), 1)}
    teacher = under("module.backbone.", trunk) | under("module.head.mlp.", heads["projection"])
    teacher["module.head.last_layer.weight_g"] = torch.ones(20, 1)
    student = {name: of_zeros(value) for name, value in teacher.items()}
    settings = argparse.Namespace(arch="resnet18", lr=0.1)
    torch.save({"student": student, "teacher": teacher, "epoch": 1, "args": settings, "dino_loss": {}}, path)
    return heads


def nonsem(trunk: nn.Module, path: Path) -> Heads:
    fc = randomised(nn.Linear(512, 30), 1)
    stored(path, under("module.", trunk) | under("module.fc.", fc))
    return {"fc": fc, "projection": fc}


def vissl(trunk: nn.Module, path: Path) -> Heads:
    model = {"trunk": under("_feature_blocks.", trunk), "heads": {"0.clf.0.weight": torch.rand(8, 512)}}
    torch.save({"classy_state_dict": {"base_model": {"model": model}}, "phase_idx": 3}, path)
    return {}


def bare(trunk: nn.Module, path: Path) -> Heads:
    save_file(trunk.state_dict(), path)
    return {}


FORMATS: dict[str, Callable[[nn.Module, Path], Heads]] = {
    "MoCo v1, v2": moco_v2, "MoCo v3": moco_v3, "SimSiam": simsiam, "PixPro": pixpro, "SwAV, DeepCluster v2": swav,
    "Barlow Twins": barlow_twins, "DINO": dino, "the network's own names": nonsem, "VISSL": vissl, "": bare,
}  # fmt: skip


@pytest.mark.sweep(9)
@pytest.mark.parametrize("name", FORMATS)
def test_a_checkpoint_opens_with_one_spec(name: str, resnet: nn.Module, tmp_path: Path, x: Tensor) -> None:
    """Pooled features, and every head on them, are those of the authors' network."""
    path = tmp_path / "checkpoint.pth.tar"
    heads = FORMATS[name](resnet, path)
    spec = f"torchvision:resnet18?weights={path}"
    with torch.no_grad():
        pooled = resnet(normalised(x))
        opens(spec, x, pooled)
        opens(f"{spec}&layer=pooled", x, pooled)
        for layer, head in heads.items():
            opens(f"{spec}&layer={layer}", x, head(pooled))
    if name:
        assert open_encoder(spec).origin.get("format", "the network's own names") == name
    for layer in {"projection", "prediction"} - heads.keys():
        with pytest.raises(Missing, match=f"{layer}.*pooled"):
            open_encoder(f"{spec}&layer={layer}")


@pytest.mark.slow
def test_timm_opens_them_alike(resnet: nn.Module, tmp_path: Path, x: Tensor) -> None:
    heads = simsiam(resnet, tmp_path / "w.pth")
    spec = f"timm:resnet18?weights={tmp_path}/w.pth&mean=0.485,0.456,0.406&std=0.229,0.224,0.225"
    with torch.no_grad():
        pooled = resnet(normalised(x))
        opens(spec, x, pooled)
        opens(f"{spec}&layer=pooled", x, pooled)
        opens(f"{spec}&layer=prediction", x, heads["prediction"](pooled))


@pytest.mark.slow
def test_the_preprocessing_of_a_file_that_says_none_is_assumed(resnet: nn.Module, tmp_path: Path) -> None:
    simsiam(resnet, tmp_path / "w.pth")
    for spec in (f"timm:resnet18?weights={tmp_path}/w.pth", f"torchvision:resnet18?weights={tmp_path}/w.pth"):
        encoder = open_encoder(spec)
        assert re.fullmatch(
            r"as for the published weights \(.*\); the weights file does not say", encoder.origin["normalisation"]
        )
        assert encoder.geometry is not None
        assert encoder.geometry.source.startswith("as for the published weights (")
        shown = " ".join(to_text(document(encoder)).split())
        assert "if it was trained with others, add mean=…&std=… to its name" in shown
        subject: Any = SimpleNamespace(encoder=encoder)
        verdict = Preprocessing().judge(subject)
        assert verdict.status == "warn"
        assert "add mean=…&std=… to the encoder's name" in verdict.meaning
        stated = open_encoder(f"{spec}&mean=0.5&std=0.5")
        assert stated.origin["normalisation"] == "given by the caller"
        assert stated.geometry is not None
        assert "published" not in stated.geometry.source
    published = open_encoder("timm:resnet18?weights=random")
    assert "published" not in published.origin["normalisation"]


def test_a_size_that_is_not_the_sources_is_said_and_patches_must_be_whole() -> None:
    spec = "timm:vit_tiny_patch16_224?weights=random"
    with pytest.raises(BadValue, match=r"size=96x96.*size=112x112"):
        open_encoder(f"{spec}&size=100")
    moved = open_encoder(f"{spec}&size=96")
    assert moved.origin["size"] == "96 x 96; its source says 224 x 224"
    assert "its source says 224 x 224" in to_text(document(moved))
    assert "size" not in open_encoder(f"{spec}&size=224").origin


def test_what_is_no_part_of_the_encoder_is_named(resnet: nn.Module, tmp_path: Path) -> None:
    moco_v2(resnet, tmp_path / "w.pth")
    assert (
        open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.pth").origin["left out"]
        == "encoder_k, queue, queue_ptr"
    )
    dino(resnet, tmp_path / "w.pth")
    left = open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.pth").origin["left out"]
    assert left == "student.backbone, student.head, teacher.head"


@pytest.mark.slow
def test_heads_survive_being_written_again(resnet: nn.Module, tmp_path: Path, x: Tensor) -> None:
    """What a training writes opens by the same spec, heads included."""
    moco_v3(resnet, tmp_path / "w.pth")
    for layer in ("pooled", "projection", "prediction"):
        encoder = open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.pth&layer={layer}")
        save(encoder, tmp_path / "again.safetensors", {})
        opens(f"torchvision:resnet18?weights={tmp_path}/again.safetensors&layer={layer}", x, encoder(x))


@pytest.mark.slow
def test_moco_v3_has_twelve_heads_in_its_small_transformer(tmp_path: Path) -> None:
    """timm's vit_small has six: the same weights, another network."""
    timm = pytest.importorskip("timm")
    theirs = randomised(timm.create_model("vit_small_patch16_224", num_classes=0, num_heads=12))
    for module in theirs.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)  # so that attention differs from token to token
    projection = randomised(mlp(384, 32, 32, 16, bias=False, norm=True, last=True), 1)
    path = stored(
        tmp_path / "vit.pth.tar",
        under("module.base_encoder.", theirs) | under("module.base_encoder.head.", projection),
    )
    spec = f"timm:vit_small_patch16_224?weights={path}&mean=0.5&std=0.5"
    x = torch.rand(1, 3, 224, 224)
    with torch.no_grad():
        pooled = theirs((x - 0.5) / 0.5)
        six = timm.create_model("vit_small_patch16_224", num_classes=0).eval()
        six.load_state_dict(theirs.state_dict())
        assert not torch.allclose(six((x - 0.5) / 0.5), pooled, atol=1e-2)
    opens(spec, x, pooled)
    opens(f"{spec}&layer=projection", x, projection(pooled))
    encoder = open_encoder(spec)
    save(encoder, tmp_path / "again.safetensors", {})
    opens(f"timm:vit_small_patch16_224?weights={tmp_path}/again.safetensors", x, pooled)


@pytest.mark.slow
def test_simclr_v2_has_names_of_its_own(tmp_path: Path, x: Tensor) -> None:
    """SimCLRv2-Pytorch keeps torchvision's ResNet-50 in other names, its head beside it, and no normalisation."""
    guard_torchvision()
    import torchvision

    trunk = torchvision.models.resnet50(weights=None)
    randomised(trunk)
    head = randomised(mlp(2048, 32, 32, 16, bias=False, norm=True), 1)
    ours = dict(trunk.state_dict())
    names = {"conv1": "net.0.0", "bn1": "net.0.1.0", "fc": "fc"}
    for stage, blocks in enumerate((3, 4, 6, 3), 1):
        for block in range(blocks):
            start, theirs = f"layer{stage}.{block}", f"net.{stage}.blocks.{block}"
            names |= {f"{start}.conv{i + 1}": f"{theirs}.net.{2 * i}" for i in range(3)}
            names |= {f"{start}.bn{i + 1}": f"{theirs}.net.{2 * i + 1}.0" for i in range(3)}
        names[f"layer{stage}.0.downsample.0"] = f"net.{stage}.blocks.0.projection.shortcut"
        names[f"layer{stage}.0.downsample.1"] = f"net.{stage}.blocks.0.projection.bn.0"
    renamed = {f"{names[key.rpartition('.')[0]]}.{key.rpartition('.')[2]}": value for key, value in ours.items()}
    torch.save({"resnet": renamed, "head": under("layers.", head)}, tmp_path / "r50_1x_sk0.pth")
    spec = f"torchvision:resnet50?weights={tmp_path}/r50_1x_sk0.pth&mean=0&std=1"
    trunk.fc = nn.Identity()  # type: ignore[assignment]
    with torch.no_grad():
        opens(spec, x, trunk(x))
        opens(f"{spec}&layer=projection", x, head(trunk(x)))


def test_classifiers_that_normalise_bring_their_mean_and_std(resnet: nn.Module, tmp_path: Path, x: Tensor) -> None:
    mean, std = torch.tensor([0.4914, 0.4822, 0.4465]), torch.tensor([0.2023, 0.1994, 0.2010])
    fc = randomised(nn.Linear(512, 10), 1)
    state = under("backbone.", resnet) | under("backbone.fc.", fc)
    state |= {"mean": mean.view(1, 3, 1, 1), "std": std.view(1, 3, 1, 1)}
    path = stored(tmp_path / "resnet18_cifar10.pth", state, "model_state")
    with torch.no_grad():
        pooled = resnet((x - mean[:, None, None]) / std[:, None, None])
        opens(f"torchvision:resnet18?weights={path}&size=32", x, pooled)
        opens(f"torchvision:resnet18?weights={path}&size=32&layer=fc", x, fc(pooled))
    assert open_encoder(f"torchvision:resnet18?weights={path}&size=32").origin["normalisation"] == f"metadata of {path}"


@pytest.mark.slow
def test_the_state_of_an_opened_encoder_opens_again(resnet: nn.Module, tmp_path: Path, x: Tensor) -> None:
    encoder = open_encoder("torchvision:resnet18?weights=random&seed=3")
    torch.save(encoder.state_dict(), tmp_path / "w.pt")
    opens(f"torchvision:resnet18?weights={tmp_path}/w.pt", x, encoder(x))
    torch.save(under("module.network.model.", resnet), tmp_path / "inner.pt")  # as of OpenCLIP's
    with torch.no_grad():
        opens(f"torchvision:resnet18?weights={tmp_path}/inner.pt", x, resnet(normalised(x)))


@pytest.mark.parametrize("inner", [False, True], ids=["encoder", "module"])
def test_the_state_of_an_opened_zoo_network_opens_again(inner: bool, tmp_path: Path) -> None:
    encoder = open_encoder("zoo:digits-simclr")
    images = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    state = (encoder.module if inner else encoder).state_dict()
    save_file(state, tmp_path / "w.safetensors")
    torch.save(state, tmp_path / "w.pt")
    for spec in (
        f"file:{tmp_path}/w.safetensors?",
        *(f"zoo:digits_cnn?weights={tmp_path}/w.{end}&" for end in ("pt", "safetensors")),
    ):
        opens(f"{spec}mean=0&std=1", images, encoder(images))


def test_unknown_prefixes_are_named(resnet: nn.Module, tmp_path: Path) -> None:
    save_file(under("wrapper.encodr.", resnet), tmp_path / "w.safetensors")
    with pytest.raises(UnknownName, match=r"wrapper\.encodr.*'encoder\.'"):
        open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.safetensors")
    state = under("module.encoder_q.", resnet)
    del state["module.encoder_q.layer3.0.conv1.weight"]
    stored(tmp_path / "w.pth", state)
    with pytest.raises(Mismatch, match=r"layer3\.0\.conv1\.weight"):
        open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.pth")


def test_a_head_needs_a_file_that_brings_it(resnet: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(Missing, match="layer=projection"):
        open_encoder("torchvision:resnet18?weights=random&layer=projection")
    save_file(resnet.state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(Missing, match="layer=fc"):
        open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.safetensors&layer=fc")


def test_nothing_but_data_is_unpickled(resnet: nn.Module, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("unpickled code was run",))

    stored(tmp_path / "w.pth", {**resnet.state_dict(), "extra": Evil()})
    with pytest.raises(BadData, match="save_file"):
        open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.pth")
    torch.save(copy.deepcopy(resnet), tmp_path / "w.pth")
    with pytest.raises(BadData):
        open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.pth")
    (tmp_path / "w.pth").write_bytes(b"PK nothing of the kind")
    with pytest.raises(BadData):
        open_encoder(f"torchvision:resnet18?weights={tmp_path}/w.pth")
