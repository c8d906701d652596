"""What somebody may have meant: of numbered names the one with the nearest number."""

import pytest
import torch

from holdfast.runtime.errors import UnknownName
from holdfast.runtime.guess import nearest
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import check_encoder


def test_of_numbered_names_the_nearest_number_was_meant() -> None:
    blocks = [f"blocks.{number}" for number in range(12)]
    assert nearest("blocks.12", [*blocks, "blocks.1.norm2"], 2) == ["blocks.11", "blocks.10"]
    assert nearest("resnet51", ["resnet5", "resnet50", "resnet152"]) == ["resnet50"]
    assert nearest("cifar_10", ["cifar100", "cifar10"]) == ["cifar10"]
    assert nearest("block.3", ["blocks.1", "blocks.3"]) == ["blocks.3"]


@pytest.mark.parametrize(
    ("spec", "block"),
    [("timm:vit_tiny_patch16_224", "blocks."), ("torchvision:vit_b_16", "encoder.layers.encoder_layer_")],
)
def test_a_layer_is_looked_up_before_anything_is_fetched(spec: str, block: str) -> None:
    guard_torchvision()
    pytest.importorskip(spec.partition(":")[0])
    with pytest.raises(UnknownName, match=rf"'{block}11'\?"):
        check_encoder(f"{spec}?layer={block}12")
    check_encoder(f"{spec}?layer={block}11.input")
    check_encoder(f"{spec}?layer=pooled")


@pytest.mark.parametrize(
    ("spec", "package", "wrong", "meant"),
    [
        ("zoo:resnet18_32", "", "layer4.1.con1", "layer4.1.conv1"),
        ("openclip:RN50/openai", "open_clip", "visual.layer4.2.con1", "visual.layer4.2.conv1"),
    ],
)
def test_a_layer_of_any_source_that_builds_its_network_is_looked_up(
    spec: str, package: str, wrong: str, meant: str
) -> None:
    guard_torchvision()
    if package:
        pytest.importorskip(package)
    before = torch.get_rng_state()
    with pytest.raises(UnknownName) as error:
        check_encoder(f"{spec}?layer={wrong}")
    assert f"unknown layer {wrong!r}; did you mean {meant!r}" in str(error.value)
    check_encoder(f"{spec}?layer={meant}")
    assert torch.equal(torch.get_rng_state(), before)
