"""What a library's own preprocessing makes of a picture reaches the network, or a line says what to write instead."""

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn

from holdfast.core import Encoder
from holdfast.numerics.bounds.trace import trace
from holdfast.runtime.errors import Failed, Missing
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.data.shared.geometry import render
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.channels import Reversed
from holdfast.sources.encoders.shared.copies import copy_encoder, trainable
from holdfast.sources.encoders.shared.hf_processor import preprocessing

pytestmark = pytest.mark.filterwarnings(  # raised while third-party packages are imported
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::PendingDeprecationWarning"
)

SQUARE = {"height": 64, "width": 64}
FEW = {"patch_size": 16, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
MODELS = {
    "ViT": {"image_size": 64, "intermediate_size": 64, **FEW},
    "Dinov2": {"image_size": 64, **FEW},
    "Levit": {
        "image_size": 64, "hidden_sizes": [16, 32, 48], "num_attention_heads": [2, 2, 3], "key_dim": [8, 8, 8],
        "depths": [1, 1, 1],
    },
    "MobileViT": {
        "image_size": 64, "hidden_sizes": [16, 20, 24], "neck_hidden_sizes": [8, 8, 12, 16, 16, 20, 32],
        "num_attention_heads": 2, "output_stride": 32,
    },
    "ConvNext": {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]},
}  # fmt: skip
"""Configurations of small models, by the names of their classes."""

EQUAL: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "enlarged before the crop": (
        "Levit", "LevitImageProcessor", {"size": {"shortest_edge": 64}, "crop_size": SQUARE}, "the shorter side to 73",
    ),
    "an odd rest": (
        "Dinov2", "BitImageProcessor", {"size": {"shortest_edge": 72}, "crop_size": SQUARE}, "the shorter side to 72",
    ),
    "blue, green, red, and black around it": (
        "MobileViT", "MobileViTImageProcessor", {"size": {"shortest_edge": 55}, "crop_size": SQUARE}, "black beyond",
    ),
    "a share": (
        "ConvNext", "ConvNextImageProcessor", {"size": {"shortest_edge": 64}, "crop_pct": 0.9}, "side to 71",
    ),
    "squashed, then cropped": (
        "ViT", "DeiTImageProcessor", {"size": {"height": 73, "width": 80}, "crop_size": SQUARE}, "squashed to 73 × 80",
    ),
    "a longest side": (
        "ViT", "CLIPImageProcessor", {"size": {"shortest_edge": 64, "longest_edge": 90}, "crop_size": SQUARE},
        "the shorter side to 64 pixels, the longer one to at most 90",
    ),
    "neither rescaled nor normalised": (
        "ViT", "ViTImageProcessor", {"size": SQUARE, "do_rescale": False, "do_normalize": False}, "squashed",
    ),
    "one number": ("ViT", "ViTImageProcessor", {"size": SQUARE, "image_mean": 0.3, "image_std": 0.6}, "squashed"),
    "from -1 to 1, then divided twice": (
        "ViT", "EfficientNetImageProcessor", {"size": SQUARE, "rescale_factor": 1 / 127.5, "rescale_offset": True},
        "squashed",
    ),
    "another filter": ("ViT", "ViTImageProcessor", {"size": SQUARE, "resample": 1}, "squashed to 64 × 64 (lanczos)"),
    "no filter": ("ViT", "ViTImageProcessor", {"size": SQUARE, "resample": 0}, "squashed to 64 × 64 (nearest)"),
}  # fmt: skip
"""Model, processor, its configuration, and a word of what is done."""

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "padded": (
        "SamImageProcessor",
        {"size": {"longest_edge": 64}, "pad_size": SQUARE},
        "does to pictures what no resize",
    ),
    "cropped first": ("PerceiverImageProcessor", {"size": SQUARE}, "does to pictures what no resize"),
    "never resized": ("ViTImageProcessor", {"do_resize": False}, r"gives images of different sizes, \[3, 23, 31\]"),
    "not cropped": ("BitImageProcessor", {"do_center_crop": False}, "gives images of different sizes"),
    "rescaled twice": (
        "ViTImageProcessor",
        {"size": SQUARE, "rescale_factor": 255**-2, "do_normalize": False},
        "twice",
    ),
    "patches": (
        "Pix2StructImageProcessor",
        {},
        "gives flattened_patches, attention_mask of a picture and no pixel_val",
    ),
    "pieces": ("Qwen2VLImageProcessor", {}, "cuts a picture into 24 pieces"),
    "a film": ("VideoMAEImageProcessor", {}, r"gives \[1, 3, 224, 224\] of a picture and not"),
    "clusters": ("ImageGPTImageProcessor", {}, r"fails on a picture alone \(ValueError: Clusters"),
}
"""Processor, its configuration, and why it is refused."""


@pytest.fixture(scope="module")
def transformers() -> Any:
    guard_torchvision()
    return pytest.importorskip("transformers")


def folder(path: Path, transformers: Any, model: str, processor: str, config: dict[str, Any], **changes: Any) -> Path:
    """Save a small model with random weights and a processor."""
    torch.manual_seed(3)
    of_model = getattr(transformers, f"{model}Config")(**{**MODELS[model], **changes})
    getattr(transformers, f"{model}Model")(of_model).save_pretrained(path)
    getattr(transformers, processor)(**config).save_pretrained(path)
    return path


def pictures() -> list[PIL.Image.Image]:
    """Return coloured pictures of odd sizes that no opening has seen, lying, standing and thin, noise and smooth."""
    rng, made = np.random.default_rng(5), []
    for height, width, coarse in [(49, 64, 1), (101, 67, 1), (31, 209, 1), (257, 341, 5), (333, 250, 5), (63, 65, 1)]:
        noise = rng.integers(0, 256, (height // coarse, width // coarse, 3), dtype=np.uint8)
        made.append(PIL.Image.fromarray(noise).resize((width, height), PIL.Image.Resampling.BICUBIC))
    return made


def given(encoder: Encoder, picture: PIL.Image.Image) -> torch.Tensor:
    """Return what the model inside an encoder is given of a picture."""
    caught: list[torch.Tensor] = []
    model: nn.Module = encoder.module.get_submodule(encoder.root)
    hook = model.register_forward_pre_hook(
        lambda _, args, named: caught.append(named["pixel_values"]), with_kwargs=True
    )
    with torch.no_grad():
        encoder(render(picture, encoder.geometry)[None])
    hook.remove()
    return caught[0]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("backend", ["torchvision", "pil"])
@pytest.mark.parametrize("name", EQUAL)
def test_the_model_is_given_what_its_processor_makes(tmp_path, monkeypatch, transformers, name, backend):
    model, processor, config, words = EQUAL[name]
    auto = transformers.AutoImageProcessor
    monkeypatch.setattr(auto, "from_pretrained", functools.partial(auto.from_pretrained, backend=backend))
    encoder = open_encoder(f"hf:{folder(tmp_path, transformers, model, processor, config)}?pool=flatten")
    own = auto.from_pretrained(tmp_path)
    for picture in pictures():
        theirs = torch.as_tensor(np.asarray(own(images=picture, return_tensors="pt")["pixel_values"])).float()
        torch.testing.assert_close(given(encoder, picture), theirs, atol=1e-4 * float(theirs.std()), rtol=1e-5)
    assert encoder.geometry is not None
    assert words in str(encoder.origin["pictures"])
    assert encoder.origin["processor"] == f"{type(own).__name__} ({backend})"
    assert encoder.geometry.resampler == {"torchvision": "torch", "pil": "pillow"}[backend]
    assert ("channels" in encoder.origin) == (model == "MobileViT")


def test_what_scales_numbers_is_equal_to_a_level(tmp_path, transformers):
    """DINOv3's processor rescales first, so that nothing is rounded."""
    processor = transformers.DINOv3ViTImageProcessor(size=SQUARE)
    ours = preprocessing(processor, (3, 64, 64))
    std = torch.tensor(ours.std).view(3, 1, 1)
    for picture in pictures():
        theirs = processor(images=picture, return_tensors="pt")["pixel_values"][0]
        pixels = (render(picture, ours.geometry) - torch.tensor(ours.mean).view(3, 1, 1)) / std
        assert 0 < float((theirs - pixels).abs().max()) < 0.02


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_repeated_is_refused_with_what_to_write(tmp_path, transformers, name):
    processor, config, why = REFUSED[name]
    spec = f"hf:{folder(tmp_path, transformers, 'ViT', processor, config)}"
    with pytest.raises(Missing, match=f"{processor} .*{why}") as caught:
        open_encoder(spec)
    assert "\n" not in str(caught.value)
    words = "size=64&resize=73" + ("&mean=0.5&std=0.25" if "mean=" in str(caught.value) else "")
    encoder = open_encoder(f"{spec}?{words}")
    assert encoder.geometry is not None
    assert (encoder.geometry.size, encoder.geometry.resize) == ((64, 64), 73)
    assert "given in the spec" in str(encoder.origin["geometry"])


def test_a_processor_is_taken_at_its_deeds(transformers):
    """Whatever the configuration says: what is done to colours is measured, and what is neither is refused."""
    honest = transformers.ViTImageProcessor(size=SQUARE)

    def of(change: Any) -> Any:
        class Other(type(honest)):  # pyright: ignore[reportUntypedBaseClass]
            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return {"pixel_values": change(super().__call__(*args, **kwargs)["pixel_values"])}

        return preprocessing(Other(size=SQUARE), (3, 64, 64))

    doubled = of(lambda x: 2 * x)
    assert (doubled.mean, doubled.std, doubled.problem) == ([0.5] * 3, [0.25] * 3, "")
    swapped = of(lambda x: x.flip(1))
    assert (swapped.mean, swapped.reversed, swapped.problem) == ([0.5] * 3, True, "")
    for change, why in {
        lambda x: x.roll(1, 3): "what no resize",  # a pixel aside
        lambda x: x.flip(3): "what no resize",
        lambda x: x.roll(1, 1): "changes colours by more",
        lambda x: -x: "changes colours by more",
        lambda x: x.mean(1, keepdim=True).expand_as(x): "changes colours by more",
        lambda x: (0.5 + x / 2) ** 2: "what no resize",  # black and white stay what they are
        lambda x: x * torch.nan: "changes colours by more",
        lambda x: x[:, :2]: "gives [2, 64, 64] of a picture",
    }.items():
        refused = of(change)
        assert why in refused.problem
        assert refused.geometry is None


@pytest.mark.parametrize("rounding", ["even", "down", "zero"])
def test_where_a_centre_begins_is_found_out(transformers, rounding):
    """Half a pixel aside, which is all that tells older processors from newer ones."""
    from torchvision.transforms.functional import center_crop

    crop = {
        "size": {"shortest_edge": 84},
        "crop_size": SQUARE,
    }  # which the other pictures of a comparison do not tell apart
    backend = transformers.CLIPImageProcessorPil if rounding == "down" else transformers.CLIPImageProcessor

    class Own(backend):
        def center_crop(self, image: Any, size: Any, **named: Any) -> Any:
            if rounding != "even":
                return super().center_crop(image, size, **named)
            return center_crop(image, [size.height, size.width])

    found = preprocessing(Own(**crop), (3, 64, 64)).geometry
    assert found is not None
    assert found.rounding == rounding or rounding == "down"  # which is the same as zero where nothing is black
    for size in [{"shortest_edge": 55}, {"shortest_edge": 64, "longest_edge": 96}]:
        beyond = preprocessing(Own(size=size, crop_size=SQUARE), (3, 64, 64)).geometry
        assert beyond is not None
        assert beyond.rounding == rounding or rounding == "even"  # which is the same as zero where black is put


def test_the_model_and_its_processor_fit(tmp_path, transformers):
    square = {"size": SQUARE}
    spec = f"hf:{folder(tmp_path / 'grey', transformers, 'ViT', 'ViTImageProcessor', square, num_channels=1)}"
    with pytest.raises(Missing, match="ViTModel"):
        open_encoder(spec)
    assert open_encoder(f"{spec}?size=64&resize=squash&mean=0.5&std=0.5")(torch.rand(1, 1, 64, 64)).shape == (1, 32)
    other = {"size": {"height": 80, "width": 80}}
    with pytest.raises(Failed, match=r"\[3, 80, 80\]"):
        open_encoder(f"hf:{folder(tmp_path / 'other', transformers, 'ViT', 'ViTImageProcessor', other)}")
    silent = folder(tmp_path / "silent", transformers, "Dinov2", "ViTImageProcessor", other)
    assert open_encoder(f"hf:{silent}").origin["image_size"] == "80x80, and the model was built for 64x64"


def test_a_spec_that_says_all_needs_no_processor(tmp_path, transformers):
    _, processor, config, _ = EQUAL["blue, green, red, and black around it"]
    spec = f"hf:{folder(tmp_path, transformers, 'MobileViT', processor, config)}?size=64&resize=72&mean=0.1&std=0.2"
    assert "channels" in open_encoder(spec).origin  # nobody said another order
    (tmp_path / "preprocessor_config.json").unlink()
    encoder = open_encoder(spec)
    assert encoder.origin["processor"] == "none: the spec says how pictures become the input"
    assert "channels" not in encoder.origin
    with pytest.raises(Failed):
        open_encoder(f"hf:{tmp_path}?size=64&resize=72")


def test_reversed_channels_belong_to_the_network():
    """Attacks and certificates see them, fingerprints tell them apart, and nothing trains them."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 5))
    straight = Encoder(network, mean=[0.1, 0.2, 0.3], std=[0.5, 0.6, 0.7])
    swapped = Encoder(Reversed(network, 3), mean=[0.3, 0.2, 0.1], std=[0.7, 0.6, 0.5])
    x = torch.rand(2, 3, 8, 8)
    assert torch.equal(swapped(x), straight(x.flip(1)))
    moved = x.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(swapped(moved).sum(), moved)
    still = x.flip(1).requires_grad_(True)
    (other,) = torch.autograd.grad(straight(still).sum(), still)
    torch.testing.assert_close(gradient, other.flip(1))
    torch.testing.assert_close(trace(swapped, (3, 8, 8))(x.double()).float(), straight(x.flip(1)))
    same = Encoder(Reversed(network, 3), mean=straight.mean, std=straight.std)
    assert same.fingerprint != straight.fingerprint
    assert len(list(trainable(same).parameters())) == len(list(network.parameters()))
    assert torch.equal(copy_encoder(swapped)(x), swapped(x))


def test_every_source_compares(monkeypatch):
    """Transforms that put pictures one pixel aside: none of the sources believes what they say."""
    guard_torchvision()
    import open_clip.transform
    import timm.data
    from torchvision.models import ResNet18_Weights

    from holdfast.sources.encoders import openclip as of_openclip
    from holdfast.sources.encoders import timm as of_timm
    from holdfast.sources.encoders import torchvision as of_torchvision

    preset = ResNet18_Weights.IMAGENET1K_V1.transforms()
    of_resnet = timm.data.resolve_data_config({}, pretrained_cfg={"input_size": (3, 64, 64)})
    of_clip = asdict(open_clip.transform.PreprocessCfg(size=64))

    def opened() -> list[Any]:
        rebuilt = (
            of_timm.preprocessing(of_resnet),
            of_torchvision.preprocessing(preset, ""),
            of_openclip.preprocessing(of_clip),
        )
        return [ours.geometry and ours.geometry.resize for ours in rebuilt]

    assert opened() == [73, 256, 64]
    for module, name in [(timm.data, "create_transform"), (open_clip.transform, "image_transform_v2")]:
        make = getattr(module, name)
        aside = lambda *args, make=make, **named: lambda picture: make(*args, **named)(picture).roll(1, -1)  # noqa: E731
        monkeypatch.setattr(module, name, aside)
    forward = type(preset).forward
    monkeypatch.setattr(type(preset), "forward", lambda self, picture: forward(self, picture).roll(1, -1))
    assert opened() == [None, None, None]
