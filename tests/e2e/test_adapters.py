"""Low-rank adapters: they learn alone, and what comes out is the plain network with other weights."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from test_command_line import refused, run
from test_harden import DIGITS as HARDENING
from test_harden import _tiny, unaudited, words  # noqa: F401
from test_training import SIMCLR, recipe, same, weights, write
from test_what_learns import moved
from torch import Tensor, nn

from holdfast.core import Encoder
from holdfast.runtime.errors import BadPlace, Missing, Unsupported
from holdfast.runtime.optional import optional
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import open_encoder
from holdfast.training import loop
from holdfast.training.batchnorm import unwrap_batchnorm
from holdfast.training.learner import learner
from holdfast.training.loop import train
from holdfast.training.lora import Lora, merge
from holdfast.training.recipe import Recipe, entry
from holdfast.training.recipe_file import make_recipe

needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="peft is not installed")


def cnn() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=2), nn.BatchNorm2d(6)]
        module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(6, 8))
    return Encoder(module, mean=0.5, std=0.5, name="cnn")


def vit() -> Encoder:
    guard_torchvision()
    model = optional("timm.models.vision_transformer", "timm", "timm", "a small ViT").VisionTransformer
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = model(img_size=8, patch_size=4, in_chans=1, num_classes=0, embed_dim=16, depth=2, num_heads=2)
    return Encoder(module, mean=0.5, std=0.5, name="vit")


NETWORKS: dict[str, tuple[Callable[[], Encoder], tuple[str, ...], set[str]]] = {
    "cnn": (cnn, ("0", "6"), {"0.weight", "6.weight"}),
    "vit": (
        vit,
        ("qkv", "blocks.1.mlp.fc*"),
        {f"blocks.{n}.attn.qkv.weight" for n in (0, 1)} | {f"blocks.1.mlp.fc{n}.weight" for n in (1, 2)},
    ),
}
ADAM = {"name": "adam", "rate": 0.1, "weight_decay": 0.0, "scaled": True}


def adapted(targets: tuple[str, ...], **values: object) -> Recipe:
    lora = {"targets": list(targets), "rank": 2, "alpha": 4}
    return recipe(SIMCLR, **{"lora": lora, "steps": 3, "optimiser": ADAM, **values})


@pytest.mark.sweep(2)
@needs_peft
@pytest.mark.parametrize("name", NETWORKS)
def test_what_comes_out_is_the_plain_network_with_a_few_other_weights(name: str, tmp_path: Path) -> None:
    make, targets, changed = NETWORKS[name]
    trained = train(adapted(targets, ema=0.5), tmp_path, encoder=make())
    assert moved(make(), trained.encoder) == changed
    before, after = make().module.state_dict(), load_file(tmp_path / "encoder.safetensors")
    assert list(trained.encoder.module.state_dict()) == list(before)
    assert after.keys() == before.keys()
    assert type(trained.encoder.module) is type(make().module)
    assert [type(layer) for layer in trained.encoder.modules()] == [type(layer) for layer in make().modules()]
    for key in changed:  # B A has rank 2 at most
        values = torch.linalg.svdvals((after[key] - before[key]).flatten(1))
        assert values[1] > 1e-6 * values[0] > 0
        assert (values[2:] < 1e-4 * values[0]).all()


@needs_peft
@pytest.mark.parametrize("name", NETWORKS)
def test_merged_adapters_give_the_same_representations(name: str) -> None:
    make, targets, _ = NETWORKS[name]
    found = learner(make(), adapted(targets)).encoder
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    found.module.eval()
    with torch.no_grad():
        torch.testing.assert_close(found(x), make()(x), rtol=0, atol=0)  # before the first step
        for key, value in found.module.named_parameters():
            if "lora_B" in key:
                value.normal_(generator=torch.Generator().manual_seed(1))
        seen = found(x)
        assert (seen - make()(x)).abs().max() > 0.01
        torch.testing.assert_close(merge(unwrap_batchnorm(found))(x), seen, rtol=1e-4, atol=1e-5)
        assert torch.equal(found(x), seen)  # the trained one goes on as it was


@pytest.mark.sweep(2)
@needs_peft
@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_of_adapters_goes_on_to_the_same_weights(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, targets, _ = NETWORKS[name]
    asked, step = adapted(targets, steps=5), loop._Training._one_step

    def interrupted(training: loop._Training) -> None:
        if training.step == 3:
            raise KeyboardInterrupt
        step(training)

    monkeypatch.setattr(loop._Training, "_one_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(asked, tmp_path / "run", encoder=make())
    monkeypatch.undo()
    torch.manual_seed(123)  # how adapters begin does not depend on what was drawn before
    resumed = train(asked, tmp_path / "run", encoder=make())
    torch.manual_seed(7)
    whole = train(asked, tmp_path / "whole", encoder=make())
    assert resumed.resumed == 3
    assert same(weights(resumed), weights(whole))
    assert resumed.rows == whole.rows
    assert asked.lora is not None
    with pytest.raises(BadPlace) as error:
        train(replace(asked, lora=replace(asked.lora, alpha=8.0)), tmp_path / "run", encoder=make())
    assert "of another recipe" in str(error.value)


@needs_peft
@pytest.mark.parametrize("alpha", [1, 16])
def test_a_step_moves_weights_by_the_rate_in_units_of_their_size(alpha: int, tmp_path: Path) -> None:
    lora = {"targets": ["0", "6"], "rank": 4, "alpha": alpha}
    optimiser = {**ADAM, "rate": 0.01, "schedule": "constant"}
    trained = train(recipe(SIMCLR, lora=lora, steps=1, optimiser=optimiser), tmp_path, encoder=cnn())
    old, new = cnn().module.state_dict(), trained.encoder.module.state_dict()
    for key in ("0.weight", "6.weight"):
        share = (new[key] - old[key]).square().mean().sqrt() / old[key].square().mean().sqrt()
        assert 0.005 < share < 0.02


@needs_peft
def test_a_recipe_with_adapters_comes_back_from_its_record() -> None:
    asked = adapted(("qkv", "proj"))
    plain = {key: value for key, value in json.loads(json.dumps(entry(asked))).items() if value is not None}
    assert make_recipe(plain).lora == Lora(("qkv", "proj"), 2, 4)


@pytest.mark.slow
@needs_peft
@pytest.mark.usefixtures("unaudited", "_tiny")
def test_hardening_by_adapters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = replace(HARDENING, steps=2, lora=("0", "5"), lora_rank=2)
    code, out, err = run(capsys, *words(asked, tmp_path))
    assert code == 0, err
    # A and B of a convolution of 1 × 3 × 3 to 16, and of a linear layer of 512 to 64
    count = 2 * (9 + 16) + 2 * (512 + 64)
    assert f"{count:,} of 41,216 weights, trained as adapters beside them" in " ".join(out.split())
    record = json.loads((tmp_path / "harden.json").read_text())
    assert "--lora 0 --lora 5 --lora-rank 2" in record["command"]
    after = open_encoder(f"zoo:digits-supervised?weights={tmp_path}/encoder.safetensors")
    assert moved(open_encoder("zoo:digits-supervised"), after) == {"network.0.weight", "network.5.weight"}


class Attending(nn.Module):
    """Torch's own attention, which reads the weights of its last layer itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.squeeze(1)
        return self.head(self.attention(rows, rows, rows, need_weights=False)[0]).mean(1)


@needs_peft
def test_adapters_that_would_never_run_are_refused(tmp_path: Path) -> None:
    encoder = Encoder(Attending(), mean=0.5, std=0.5, name="attending")
    with pytest.raises(Unsupported) as error:
        train(adapted(("out_proj", "head")), tmp_path, encoder=encoder)
    assert "expected layers that the network runs, got attention.out_proj" in str(error.value)
    assert train(adapted(("head",)), tmp_path, encoder=encoder).steps == 3


@needs_peft
@pytest.mark.parametrize("tied", ["layer", "weight"])
def test_weights_in_several_places_have_no_adapter(tied: str) -> None:
    first, second = nn.Linear(64, 64), nn.Linear(64, 64)
    second.weight = first.weight
    module = nn.Sequential(nn.Flatten(), first, first if tied == "layer" else second, nn.Linear(64, 4))
    encoder = Encoder(module, mean=0.5, std=0.5, name="tied")
    with pytest.raises(Unsupported) as error:
        learner(encoder, adapted(("1",)))
    assert "got 1, whose weights stand in several places" in str(error.value)
    assert learner(encoder, adapted(("3",))).in_words.startswith("136 of ")  # 2 (64 + 4)


@needs_peft
@pytest.mark.parametrize(
    ("lora", "said"),
    [
        ('{targets=["qkv"]}', "unknown linear layer or convolution for lora 'qkv'; known: 0, 2, 5"),
        ('{targets=["1"]}', "unknown linear layer or convolution for lora '1'"),  # a ReLU
        ("{targets=[]}", "lora: expected targets, names of layers such as qkv, got none"),
        ('{targets=["5"], rank=0}', "rank: expected"),
        ('{targets=["5"], ranks=2}', "did you mean 'rank'"),
        ("{rank=2}", "targets"),
        ('{targets=["5"]} freeze=["0"]', "expected no freeze and no batchnorm=split beside it"),
    ],
)
def test_bad_adapters_are_one_clear_line(
    capsys: pytest.CaptureFixture[str], lora: str, said: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "recipe.toml", SIMCLR, steps=1)
    sets = [word for each in f"lora={lora}".replace("} ", "}\n").splitlines() for word in ("--set", each)]
    assert said in refused(capsys, "train", str(path), *sets, "--out", str(tmp_path / "run"))


def test_adapters_need_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.runtime.optional.find_spec", lambda name: None if name == "peft" else find_spec(name))
    with pytest.raises(Missing) as error:
        train(adapted(("5",)), tmp_path)
    assert "lora needs the package 'peft'" in str(error.value)
    assert "'.[peft]'" in str(error.value)
