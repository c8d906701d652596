"""Dense encoders: `pool=none` gives the patches that each library itself calls so, each at its place."""

import json
import sys
import textwrap

import pytest
import torch
from torch import Tensor, nn

from holdfast.core import Encoder, Grid, HoldfastError
from holdfast.numerics.geometry.positions import arrangement
from holdfast.runtime.errors import BadValue, Conflict, Mismatch, Missing, Unsupported
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import open_encoder

pytestmark = pytest.mark.filterwarnings(  # raised inside libraries and exporters
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::PendingDeprecationWarning", "ignore::UserWarning"
)


def maps(encoder: Encoder, x: Tensor) -> Tensor:
    """Return the representation as [B, C, h, w]."""
    assert encoder.grid is not None
    with torch.no_grad():
        tokens = encoder.grid.tokens(encoder(x))
    return tokens.transpose(1, 2).unflatten(2, (encoder.grid.rows, encoder.grid.columns))


# --- timm: its own maps of the last block -------------------------------------------------------


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("name", "size", "grid", "left_out"),
    [
        ("vit_tiny_patch16_224", (64, 96), (4, 6), "1 tokens before"),
        ("vit_small_patch14_reg4_dinov2", (28, 42), (2, 3), "5 tokens before"),
        ("vit_tiny_patch16_224.augreg_in21k", (32, 32), (2, 2), "1 tokens before"),
        ("deit_tiny_distilled_patch16_224", (64, 32), (4, 2), "2 tokens before"),
        ("swin_tiny_patch4_window7_224", (224, 224), (7, 7), ""),
        ("resnet10t", (64, 96), (2, 3), ""),
    ],
)
def test_timm(name: str, size: tuple[int, int], grid: tuple[int, int], left_out: str) -> None:
    guard_torchvision()
    encoder = open_encoder(f"timm:{name}?weights=random&pool=none&size={size[0]}x{size[1]}")
    x = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0))
    model = encoder.module.network.model
    with torch.no_grad():
        (theirs,) = model.forward_intermediates(
            encoder.normalisation(x), indices=1, norm=True, output_fmt="NCHW", intermediates_only=True
        )
    assert (encoder.grid.rows, encoder.grid.columns) == grid == tuple(theirs.shape[2:])
    torch.testing.assert_close(maps(encoder, x), theirs)
    assert left_out in encoder.origin["patches"]
    assert ("left out" in encoder.origin["patches"]) == bool(left_out)


def test_a_layer_inside() -> None:
    encoder = open_encoder("timm:vit_tiny_patch16_224?weights=random&size=64x32&layer=blocks.2&pool=none")
    x = torch.rand(2, 3, 64, 32)
    guard_torchvision()
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=(64, 32), num_classes=0).eval()
    model.load_state_dict(encoder.module.network.state_dict())
    with torch.no_grad():
        (theirs,) = model.forward_intermediates(
            encoder.normalisation(x), indices=[2], output_fmt="NCHW", intermediates_only=True
        )
    torch.testing.assert_close(maps(encoder, x), theirs)


# --- transformers: the last hidden state, without what its configuration puts first ----------------

TINY = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def hf_models(t) -> dict[str, tuple]:
    """Return model, processor and how many tokens its configuration puts before patches."""
    vit = {**TINY, "intermediate_size": 64}
    square, clip = {"size": {"height": 32, "width": 32}}, {"size": {"shortest_edge": 32}}
    text = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 1}
    text |= {"num_attention_heads": 2, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2}
    registers = t.Dinov2WithRegistersConfig(**TINY, mlp_ratio=2, num_register_tokens=4)
    models = {
        "vit": lambda: (t.ViTModel(t.ViTConfig(**vit)), square, 1),
        "dinov2": lambda: (t.Dinov2Model(t.Dinov2Config(**TINY, mlp_ratio=2)), square, 1),
        "registers": lambda: (t.Dinov2WithRegistersModel(registers), square, 5),
        "convnext": lambda: (
            t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[8, 16, 24], depths=[1, 1, 1], num_stages=3)), square, 0
        ),
        "clip": lambda: (
            t.CLIPVisionModel(t.CLIPVisionConfig(**vit)), {**clip, "crop_size": square["size"]}, 1
        ),
        "siglip": lambda: (t.SiglipVisionModel(t.SiglipVisionConfig(**vit)), square, 0),
        "swin": lambda: (
            t.SwinModel(t.SwinConfig(image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2],
                                     window_size=4)), square, 0
        ),
    }  # fmt: skip
    if hasattr(t, "DINOv3ViTModel"):
        three = t.DINOv3ViTConfig(**vit, num_register_tokens=4) if hasattr(t, "DINOv3ViTConfig") else None
        models["dinov3"] = lambda: (t.DINOv3ViTModel(three), square, 5)
    return models


KINDS = ("vit", "dinov2", "registers", "convnext", "clip", "siglip", "swin", "dinov3")


@pytest.mark.parametrize("kind", KINDS)
def test_huggingface(kind: str, tmp_path) -> None:
    guard_torchvision()
    t = pytest.importorskip("transformers")
    known = hf_models(t)
    if kind not in known:
        pytest.skip(f"this transformers has no {kind}")
    torch.manual_seed(7)
    model, processor, prefix = known[kind]()
    model.eval().save_pretrained(tmp_path)
    (t.CLIPImageProcessor if kind == "clip" else t.ViTImageProcessor)(**processor).save_pretrained(tmp_path)
    encoder = open_encoder(f"hf:{tmp_path}?pool=none")
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        hidden = model(encoder.normalisation(x)).last_hidden_state
    if hidden.ndim == 3:
        side = int((hidden.shape[1] - prefix) ** 0.5)
        assert side**2 + prefix == hidden.shape[1]
        hidden = hidden[:, prefix:].transpose(1, 2).unflatten(2, (side, side))
    torch.testing.assert_close(maps(encoder, x), hidden)
    assert (f"{prefix} tokens before them" in encoder.origin["patches"]) == (prefix > 0)


# --- OpenCLIP -----------------------------------------------------------------------------------


def test_open_clip(tmp_path, monkeypatch) -> None:
    guard_torchvision()
    import open_clip

    vision = {"image_size": 32, "layers": 1, "width": 64, "head_width": 32, "patch_size": 8}
    text = {"context_length": 8, "vocab_size": 99, "width": 32, "heads": 2, "layers": 1}
    resnet = {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
    for name, tower in (("tiny-vit", vision), ("tiny-resnet", resnet)):
        config = {"embed_dim": 24, "vision_cfg": tower, "text_cfg": text}
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIG_PATHS", list(open_clip.factory._MODEL_CONFIG_PATHS))
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIGS", dict(open_clip.factory._MODEL_CONFIGS))
    open_clip.add_model_config(tmp_path)
    encoder = open_encoder("openclip:tiny-vit?weights=random&pool=none&size=32x64")
    x = torch.rand(2, 3, 32, 64)
    visual = encoder.module.network.model.visual
    visual.output_tokens = False
    with torch.no_grad():
        (theirs,) = visual.forward_intermediates(
            encoder.normalisation(x), indices=1, normalize_intermediates=True, intermediates_only=True,
            output_fmt="NCHW",
        )["image_intermediates"]  # fmt: skip
    visual.output_tokens = True
    torch.testing.assert_close(maps(encoder, x), theirs)
    layer = open_encoder("openclip:tiny-vit?weights=random&layer=visual.transformer&pool=none")
    assert (layer.grid.rows, layer.grid.columns) == (4, 4)
    assert "1 tokens before them" in layer.origin["patches"]
    deep = open_encoder("openclip:tiny-resnet?weights=random&layer=visual.layer3&pool=none")
    assert (deep.grid.rows, deep.grid.columns) == (2, 2)
    with pytest.raises(Unsupported, match="ModifiedResNet"):
        open_encoder("openclip:tiny-resnet?weights=random&pool=none")


# --- maps and tokens of any network ----------------------------------------------------------------


class Bare(nn.Module):
    """Gives a tensor of any shape, made of the image by no convolution."""

    def __init__(self, *shape: int):
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        values = torch.arange(float(torch.Size(self.shape).numel())).view(1, *self.shape)
        return values + x.mean((1, 2, 3)).view(-1, *[1] * len(self.shape))


@pytest.fixture
def py(tmp_path, monkeypatch):
    """Return a function that opens a module of given shape as `py:` with further options."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "bare_outputs.py").write_text(
        textwrap.dedent(
            """
            from tests.test_encoders_patches import Bare
            def __getattr__(name):
                if name.startswith("of_"):
                    return lambda: Bare(*map(int, name.removeprefix("of_").split("_")))
                raise AttributeError(name)
            """
        )
    )

    def opened(*shape: int, options: str = "", size: str = "12") -> Encoder:
        name = "of_" + "_".join(map(str, shape))
        spec = f"py:bare_outputs:{name}?mean=0&std=1&pool=none&resize=squash&size={size}{options}"
        sys.modules.setdefault("tests.test_encoders_patches", sys.modules[__name__])
        return open_encoder(spec)

    return opened


def test_maps_and_tokens(py) -> None:
    cases = {
        ((5, 4, 6), "12x18", ""): (Grid(4, 6, 5), ""),
        ((4, 6, 5), "12x18", ""): (Grid(4, 6, 5), ""),
        ((5, 3, 4), "12", ""): (Grid(3, 4, 5), ""),  # in other proportions than the image
        ((9, 5), "12", ""): (Grid(3, 3, 5), ""),
        ((10, 5), "12", ""): (Grid(3, 3, 5), "1 tokens"),
        ((13, 5), "12", "&grid=3x4"): (Grid(3, 4, 5), "1 tokens"),
        ((12, 5), "12", "&grid=4x3"): (Grid(4, 3, 5), ""),
        ((2, 3, 4), "12", "&grid=2x3"): (Grid(2, 3, 4), ""),
        ((2, 3, 4), "12", "&grid=3x4"): (Grid(3, 4, 2), ""),
    }
    for (shape, size, options), (grid, left_out) in cases.items():
        encoder = py(*shape, size=size, options=options)
        assert encoder.grid == grid, (shape, options)
        assert left_out in encoder.origin["patches"]
        values = torch.arange(float(torch.Size(shape).numel())).view(shape)
        if len(shape) == 2:
            expected = values[shape[0] - grid.patches :]
        else:
            expected = values.flatten(0, 1) if shape[:2] == (grid.rows, grid.columns) else values.flatten(1).T
        pixels = torch.zeros(1, 3, *map(int, f"{size}x{size}".split("x")[:2]))
        assert torch.equal(grid.tokens(encoder(pixels))[0], expected)


@pytest.mark.parametrize(
    ("shape", "options", "kind", "message"),
    [
        ((7,), "", Unsupported, r"\[2, 7\]"),
        ((2, 3, 4, 5), "", Unsupported, r"got \[2, 2, 3, 4, 5\]"),
        ((5, 1, 1), "", BadValue, "5 numbers"),
        ((12, 5), "", Missing, "12 tokens"),
        ((14, 5), "", Missing, "14 tokens"),
        ((1, 5), "", Missing, "1 tokens"),
        ((12, 5), "&grid=5x3", Mismatch, "grid=5x3"),
        ((40, 5), "&grid=2x3", Mismatch, "grid=2x3"),
        ((5, 4, 6), "&grid=6x4", Mismatch, "grid=6x4"),
        ((12, 5), "&grid=12", BadValue, "grid=12"),
        ((12, 5), "&grid=0x12", BadValue, "grid=0x12"),
        ((12, 5), "&grid=1x1", BadValue, "2 patches"),
    ],
)
def test_what_has_no_patches_is_refused(py, shape, options, kind: type[HoldfastError], message) -> None:
    with pytest.raises(kind, match=message):
        py(*shape, options=options)


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(Conflict, match="pool=none"):
        open_encoder("zoo:resnet18_32?grid=4x4")
    with pytest.raises(Unsupported, match=r"\[2, 512\]"):
        open_encoder("zoo:resnet18_32?pool=none")
    with pytest.raises(Missing, match="patches"):
        open_encoder("py:torch.nn:Flatten?mean=0&std=1&pool=none")


def test_images_of_another_size_have_another_grid() -> None:
    encoder = open_encoder("zoo:resnet18_32?layer=layer3&pool=none")
    assert encoder.grid == Grid(8, 8, 256)
    assert encoder.origin["pool"] == "none"
    with pytest.raises(Mismatch, match="65536"):
        encoder(torch.rand(1, 3, 64, 64))
    with pytest.raises(BadValue, match="1 × 1"):
        Grid(1, 1, 5)


def test_onnx(tmp_path) -> None:
    """A transformer whose patches a convolution makes, exported: the class token is left out there too."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.first = nn.Conv2d(3, 8, 16, 16), nn.Parameter(torch.randn(1, 1, 8))
            self.mixed = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.patches(x).flatten(2).transpose(1, 2)
            return self.mixed(torch.cat([self.first + 0 * tokens[:, :1], tokens], 1))

    torch.manual_seed(3)
    model = Tokens().eval()
    path, x = tmp_path / "tokens.onnx", torch.rand(2, 3, 32, 48)
    torch.onnx.export(
        model, (x,), str(path), dynamo=False, opset_version=17, input_names=["x"], output_names=["tokens"],
        dynamic_axes={"x": {0: "b"}},
    )  # fmt: skip
    encoder = open_encoder(f"onnx:{path}?mean=0&std=1&pool=none")
    with torch.no_grad():
        tokens = model(x)[:, 1:]
    torch.testing.assert_close(encoder.grid.tokens(encoder(x)), tokens, atol=1e-4, rtol=1e-4)
    assert encoder.grid == Grid(2, 3, 8)


def test_arrangements() -> None:
    assert arrangement((2, 7, 7, 768), (224, 224)).layout == "channels last"
    assert arrangement((2, 768, 7, 7), (224, 224)).layout == "channels first"
    assert arrangement((2, 61, 8), (224, 224), [(6, 10)]).prefix == 1
    assert arrangement((2, 8), (224, 224)) is None
