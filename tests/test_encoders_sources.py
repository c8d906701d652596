"""Every source against its own library: the same picture, its preprocessing and forward pass, to 1e-4."""

import json
import logging
from dataclasses import replace

import numpy as np
import PIL.Image
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from holdfast.runtime.errors import Failed, HoldfastError, Mismatch, Missing, UnknownName, Unsupported
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.data.shared.geometry import render
from holdfast.sources.encoders import check_encoder, open_encoder

pytestmark = pytest.mark.filterwarnings(  # raised while third-party packages are imported or export
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::PendingDeprecationWarning"
)


@pytest.fixture(scope="module")
def picture():
    """Return a smooth colour picture, wider than high; its crops are even, where libraries round odd ones apart."""
    noise = np.random.default_rng(0).integers(0, 256, (7, 9, 3), dtype=np.uint8)
    return PIL.Image.fromarray(noise).resize((96, 72), PIL.Image.Resampling.BICUBIC)


def check(encoder, picture, expected):
    """Check what every encoder owes: shape, frozen, the source's own result, a gradient, a fingerprint."""
    assert encoder.geometry is not None
    x = render(picture, encoder.geometry)[None].repeat(2, 1, 1, 1).requires_grad_(True)
    reps = encoder(x)
    assert reps.shape == (2, expected.shape[-1])
    torch.testing.assert_close(reps[0].detach(), expected.reshape(-1), atol=1e-4, rtol=1e-4)
    assert not any(p.requires_grad for p in encoder.parameters())
    assert not any(module.training for module in encoder.module.modules())
    (gradient,) = torch.autograd.grad((reps * torch.randn(reps.shape)).sum(), x)
    assert gradient.isfinite().all()
    assert (gradient.flatten(1).abs().sum(1) > 0).all()
    before = encoder.fingerprint
    with torch.no_grad():
        next(encoder.parameters()).view(-1)[0] += 1
    encoder._fingerprint = None
    assert encoder.fingerprint != before
    assert {"source", "weights", "layer", "pool", "normalisation", "geometry"} <= set(encoder.origin)


# --- torchvision --------------------------------------------------------------------------------


def test_torchvision(picture, tmp_path):
    guard_torchvision()
    import torchvision

    torch.manual_seed(5)
    theirs = torchvision.models.resnet18(weights=None).eval()
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    enum = torchvision.models.ResNet18_Weights.IMAGENET1K_V1
    encoder = open_encoder(f"torchvision:resnet18@IMAGENET1K_V1?weights={tmp_path}/w.safetensors")
    preset = enum.transforms()
    assert (encoder.mean, encoder.std) == (preset.mean, preset.std)
    assert encoder.origin["layer"] == "fc.input"
    theirs.fc = nn.Identity()  # type: ignore[assignment]
    with torch.no_grad():
        expected = theirs(preset(picture)[None])
    check(encoder, picture, expected)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", ["vit_b_32", "mobilenet_v3_small", "squeezenet1_0?layer=features&pool=avg"])
def test_torchvision_families(name):
    encoder = open_encoder(f"torchvision:{name}{'&' if '?' in name else '?'}weights=random&size=64")
    assert encoder(torch.rand(2, 3, 64, 64)).ndim == 2
    assert encoder.geometry is not None
    assert encoder.geometry.size == (64, 64)


def test_torchvision_errors(monkeypatch):
    for spec, message in {
        "resnet81": r"'resnet18'\?",
        "resnet18@IMAGENET1K_V9": r"'IMAGENET1K_V1'\?",
        "squeezenet1_0?weights=random": r"nn\.Linear",
    }.items():
        with pytest.raises(HoldfastError, match=message):
            open_encoder(f"torchvision:{spec}")
    import torchvision

    def offline(*args, **kwargs):
        raise OSError("[Errno -2] Name or service not known")

    monkeypatch.setattr(torchvision.models._api, "load_state_dict_from_url", offline)
    disabled = logging.root.manager.disable
    with pytest.raises(Failed, match="weights=random"):
        open_encoder("torchvision:resnet18")
    assert logging.root.manager.disable == disabled


def test_pickled_code_is_refused(tmp_path, monkeypatch):
    """A download that holds code instead of tensors must not run it."""
    guard_torchvision()
    import torchvision

    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("unpickled code was run",))

    torch.save({"x": Evil()}, tmp_path / "evil.pth")
    monkeypatch.setattr(
        torchvision.models._api,
        "load_state_dict_from_url",
        lambda *args, **kwargs: torch.load(tmp_path / "evil.pth", weights_only=False),
    )
    with pytest.raises(Exception, match=r"(?i)weights.only"):
        open_encoder("torchvision:resnet18")


# --- timm ---------------------------------------------------------------------------------------


def timm_folder(folder, name, **kwargs):
    guard_torchvision()
    import timm

    torch.manual_seed(6)
    model = timm.create_model(name, num_classes=4, **kwargs).eval()
    folder.mkdir()
    timm.models.save_for_hf(model, folder, safe_serialization=True)
    return model


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["resnet10t", "vit_tiny_patch16_224"])
def test_timm(picture, tmp_path, name):
    guard_torchvision()
    from timm.data import create_transform, resolve_data_config

    theirs = timm_folder(tmp_path / "m", name)
    config = resolve_data_config({}, model=theirs)
    encoder = open_encoder(f"timm:local-dir:{tmp_path}/m")
    assert (encoder.mean, encoder.std) == (list(config["mean"]), list(config["std"]))
    theirs.reset_classifier(0)
    transform = create_transform(**config, is_training=False)
    with torch.no_grad():
        expected = theirs(torch.as_tensor(transform(picture))[None])
    save_file(load_file(tmp_path / "m/model.safetensors"), tmp_path / "w.safetensors")
    again = open_encoder(f"timm:{name}?weights={tmp_path}/w.safetensors")  # the classifier in the file is left out
    assert again.geometry is not None
    assert again.geometry.source == "as for the published weights (timm data config); the weights file does not say"
    assert encoder.geometry == replace(again.geometry, source="timm data config")
    check(again, picture, expected)
    check(encoder, picture, expected)


def test_timm_geometry(tmp_path):
    squash = {"crop_mode": "squash", "crop_pct": 1.0, "input_size": (3, 64, 64), "interpolation": "bilinear"}
    timm_folder(tmp_path / "m", "resnet10t", pretrained_cfg_overlay=squash)
    geometry = open_encoder(f"timm:local-dir:{tmp_path}/m").geometry
    assert geometry is not None
    assert (geometry.size, geometry.resize, geometry.interpolation) == ((64, 64), None, "bilinear")
    timm_folder(tmp_path / "c", "resnet10t", pretrained_cfg_overlay={**squash, "crop_pct": 0.8})
    geometry = open_encoder(f"timm:local-dir:{tmp_path}/c").geometry
    assert geometry is not None
    assert geometry.in_words == "squashed to 80 × 80 (bilinear), then the central 64 × 64 is cropped"
    timm_folder(tmp_path / "b", "resnet10t", pretrained_cfg_overlay={**squash, "crop_mode": "border"})
    with pytest.raises(Missing, match="resize=squash"):
        open_encoder(f"timm:local-dir:{tmp_path}/b")  # padding is not a geometry: asked for, not guessed
    geometry = open_encoder(f"timm:local-dir:{tmp_path}/b?size=64&resize=squash").geometry
    assert geometry is not None
    assert geometry.source == "size=64&resize=squash given in the spec, bilinear"
    resized = open_encoder("timm:vit_tiny_patch16_224?weights=random&size=32x48")
    assert resized(torch.rand(1, 3, 32, 48)).shape == (1, 192)


def test_timm_errors(tmp_path):
    (tmp_path / "vit.pth").touch()
    for spec, message in {
        "resnt18": r"'resnet18'\?",
        "resnet18.fb_nothing": "tag",
        "org/name": "timm:local-dir:org/name",
        f"local-dir:{tmp_path}": r"config\.json",
        f"{tmp_path}/vit.pth": rf"write timm:NAME\?weights={tmp_path}/vit.pth",
    }.items():
        with pytest.raises(HoldfastError, match=message):
            open_encoder(f"timm:{spec}")


# --- Hugging Face -------------------------------------------------------------------------------

TINY = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SQUARE = {"height": 32, "width": 32}


def hf_folder(folder, model, processor):
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return model, processor


def pixels(transformers, folder, picture):
    """Return what the library's own processor makes of the picture."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    return torch.as_tensor(np.asarray(processor(images=picture, return_tensors="pt")["pixel_values"]))


def hf_models(transformers):
    t = transformers
    vit = {**TINY, "intermediate_size": 64}
    text = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 1}
    text |= {"num_attention_heads": 2, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2}
    square, edge = {"size": SQUARE}, {"size": {"shortest_edge": 32}}
    return {
        "vit": lambda: (t.ViTModel(t.ViTConfig(**vit)), t.ViTImageProcessor(**square)),
        "dino": lambda: (
            t.Dinov2Model(t.Dinov2Config(**TINY, mlp_ratio=2)),
            t.BitImageProcessor(size={"shortest_edge": 36}, crop_size=SQUARE),
        ),
        "convnext": lambda: (
            t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])),
            t.ConvNextImageProcessor(**edge),
        ),
        "resnet": lambda: (
            t.ResNetModel(t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")),
            t.ConvNextImageProcessor(**edge),
        ),
        "clip": lambda: (
            t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=vit, projection_dim=24)),
            t.CLIPImageProcessor(**edge, crop_size=SQUARE),
        ),
        "mae": lambda: (t.ViTMAEModel(t.ViTMAEConfig(**vit)), t.ViTImageProcessor(**square)),
        "classifier": lambda: (
            t.ViTForImageClassification(t.ViTConfig(**vit)),
            t.ViTImageProcessor(size=SQUARE, do_rescale=False, image_mean=[51.0] * 3, image_std=[127.5] * 3),
        ),
    }


@pytest.fixture(scope="module")
def transformers():
    guard_torchvision()
    return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def hub(transformers, tmp_path_factory):
    """Return a function that saves a tiny random model and returns (folder, model, processor)."""
    root = tmp_path_factory.mktemp("hf")

    def make(kind):
        torch.manual_seed(7)
        return root / kind, *hf_folder(root / kind, *hf_models(transformers)[kind]())

    return make


@pytest.mark.parametrize("kind", ["vit", "dino", "convnext", "resnet", "clip"])
def test_huggingface(picture, hub, transformers, kind):
    folder, model, processor = hub(kind)
    encoder = open_encoder(f"hf:{folder}")
    assert (encoder.mean, encoder.std) == (list(processor.image_mean), list(processor.image_std))
    x = pixels(transformers, folder, picture)
    with torch.no_grad():
        outputs = model.get_image_features(x) if kind == "clip" else model(x)
    expected = outputs if isinstance(outputs, torch.Tensor) else outputs.pooler_output
    check(encoder, picture, expected.reshape(-1))


def test_huggingface_pooling(picture, hub, transformers):
    folder, model, _ = hub("vit")
    x = pixels(transformers, folder, picture)
    with torch.no_grad():
        hidden = model(x).last_hidden_state
        first = model(x, output_hidden_states=True).hidden_states[1]
    check(open_encoder(f"hf:{folder}?pool=cls"), picture, hidden[:, 0])
    check(open_encoder(f"hf:{folder}?pool=mean"), picture, hidden.mean(1))
    layer = next(name for name, _ in model.named_modules() if name.endswith(("layers.0", "layer.0.output")))
    check(open_encoder(f"hf:{folder}?layer={layer}&pool=cls"), picture, first[:, 0])
    with pytest.raises(Unsupported, match="pool=avg"):
        open_encoder(f"hf:{folder}?pool=avg")
    (folder / "model.safetensors").rename(folder / "away")  # which nobody reads to look a layer up
    check_encoder(f"hf:{folder}?layer={layer}")
    with pytest.raises(UnknownName) as error:
        check_encoder(f"hf:{folder}?layer={layer}x")
    assert f"unknown layer '{layer}x'; did you mean '{layer}'" in str(error.value)
    (folder / "away").rename(folder / "model.safetensors")
    assert open_encoder(f"hf:{folder}?size=64")(torch.rand(1, 3, 64, 64)).shape == (1, 32)


def test_huggingface_needs_a_choice(hub):
    folder, _, _ = hub("classifier")  # has no pooler: transformers would add a random one
    with pytest.raises(Missing, match="pool=cls"):
        open_encoder(f"hf:{folder}")
    encoder = open_encoder(f"hf:{folder}?pool=cls&weights=random")
    assert encoder.mean == pytest.approx([0.2] * 3)  # this processor leaves pixels at 0 to 255
    assert encoder.std == pytest.approx([0.5] * 3)


def test_masked_autoencoders_mask_nothing(picture, hub, transformers):
    folder, model, _ = hub("mae")
    with pytest.raises(Missing, match="pooler_output"):
        open_encoder(f"hf:{folder}")
    encoder = open_encoder(f"hf:{folder}?pool=mean")
    assert "mask_ratio 0.75 set to 0" in str(encoder.origin["masking"])
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(encoder(x), encoder(x))
    model.config.mask_ratio = 0.0
    with torch.no_grad():
        expected = model(pixels(transformers, folder, picture)).last_hidden_state.mean(1)
    check(encoder, picture, expected)


def test_huggingface_weights_must_be_whole(hub, tmp_path):
    folder, _, _ = hub("dino")
    state = load_file(folder / "model.safetensors")
    save_file(state, tmp_path / "whole.safetensors")
    whole = open_encoder(f"hf:{folder}?weights={tmp_path}/whole.safetensors")
    assert whole.fingerprint == open_encoder(f"hf:{folder}").fingerprint
    state.pop(next(key for key in state if key.endswith("layernorm.weight")))
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(Mismatch, match=r"layernorm\.weight"):
        open_encoder(f"hf:{folder}")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")  # pickle is not read
    with pytest.raises(Failed):
        open_encoder(f"hf:{folder}")
    with pytest.raises(Missing, match="nowhere"):
        open_encoder("hf:./nowhere")


# --- OpenCLIP -----------------------------------------------------------------------------------


@pytest.fixture
def tiny_clip(tmp_path, monkeypatch):
    guard_torchvision()
    import open_clip

    vision = {"image_size": 32, "layers": 1, "width": 64, "head_width": 32, "patch_size": 8}
    text = {"context_length": 8, "vocab_size": 99, "width": 32, "heads": 2, "layers": 1}
    config = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}
    (tmp_path / "tiny-test.json").write_text(json.dumps(config))
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIG_PATHS", list(open_clip.factory._MODEL_CONFIG_PATHS))
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIGS", dict(open_clip.factory._MODEL_CONFIGS))
    open_clip.add_model_config(tmp_path)
    return open_clip


def test_open_clip(picture, tiny_clip, tmp_path):
    torch.manual_seed(8)
    theirs, _, transform = tiny_clip.create_model_and_transforms("tiny-test")
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    encoder = open_encoder(f"openclip:tiny-test?weights={tmp_path}/w.safetensors")
    config = theirs.visual.preprocess_cfg
    assert (encoder.mean, encoder.std) == (list(config["mean"]), list(config["std"]))
    with torch.no_grad():
        expected = theirs.eval().encode_image(transform(picture)[None])
    check(encoder, picture, expected)
    assert open_encoder("openclip:tiny-test?weights=random&size=64")(torch.rand(1, 3, 64, 64)).shape == (1, 24)
    assert open_encoder("openclip:tiny-test?weights=random&layer=visual.ln_pre&pool=cls").origin["pool"] == "cls"


def test_open_clip_errors(tiny_clip):
    for spec, message in {
        "ViT-B-23": r"'ViT-B-32'\?",
        "ViT-B-32": "openclip:ViT-B-32/WEIGHTS",
        "ViT-B-32/laion2b_s34b_b79": r"'laion2b_s34b_b79k'\?",
    }.items():
        with pytest.raises(HoldfastError, match=message):
            open_encoder(f"openclip:{spec}")
