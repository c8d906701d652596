"""Attention maps against networks whose maps are known in closed form, and on every kind of network."""

import pytest
import torch
from torch import nn

from holdfast.auditing.artifacts.grad_cam import attention
from holdfast.core import Encoder, Passes, Rng
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.runtime.errors import UnknownName, Unsupported
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.networks import NETWORKS
from holdfast.sources.encoders.shared.vit import SmallViT


def encoder(*layers: nn.Module, seed: int = 0) -> Encoder:
    """Return an encoder of float64 layers, with random weights."""
    module = nn.Sequential(*layers)
    generator = torch.Generator().manual_seed(seed)
    for weights in module.parameters():
        weights.data = torch.randn(weights.shape, generator=generator)
    return Encoder(module.double(), mean=0, std=1, name="it")


def images(batch: int, channels: int, height: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(batch, channels, height, width, generator=generator, dtype=torch.float64)


def pooled(seed: int = 0) -> Encoder:
    conv = nn.Conv2d(3, 5, 3, padding=1, padding_mode="circular")
    return encoder(conv, nn.AdaptiveAvgPool2d(1), nn.Flatten(), seed=seed)


def test_a_convolution_under_global_pooling_has_the_map_of_its_channels() -> None:
    net, x = pooled(), images(4, 3, 6, 8)
    directions = torch.randn(4, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = attention(net, x, directions)
    features = net.module[0](x)  # s = <d, mean over positions of A>, so w = d / positions
    expected = torch.einsum("bk,bkhw->bhw", directions, features).relu() / 48
    assert found.layer == "0"
    torch.testing.assert_close(found.maps.double(), expected)
    assert 0 < (found.maps == 0).double().mean() < 1


def test_a_linear_head_behind_flattened_features_is_averaged_over_positions() -> None:
    net, x = encoder(nn.Conv2d(1, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16, 7)), images(2, 1, 4, 4)
    directions = torch.eye(7, dtype=torch.float64)[[4, 6]]
    features = net.module[:2](x)
    weights = (directions @ net.module[3].weight).view(2, 3, 16).mean(2)
    expected = torch.einsum("bk,bkhw->bhw", weights, features).relu()
    torch.testing.assert_close(attention(net, x, directions).maps.double(), expected)


def test_the_map_of_a_moved_image_is_the_moved_map() -> None:
    net, x = pooled(), images(3, 3, 8, 8)
    with torch.no_grad():
        reps = net(x)
    here, there = attention(net, x, reps), attention(net, x.roll((2, 3), (2, 3)), reps)
    torch.testing.assert_close(there.maps, here.maps.roll((2, 3), (1, 2)))
    assert not torch.allclose(there.maps, here.maps, rtol=0.1)


def vit(**fields: int) -> SmallViT:
    torch.manual_seed(3)
    return SmallViT(image=16, patch=4, dim=8, depth=3, heads=2, mlp=16, **fields)


def test_a_transformer_without_positions_moves_its_map_with_shuffled_patches() -> None:
    net = vit()
    net.position.data[:] = 0
    told, x = Encoder(net, mean=0, std=1), images(2, 3, 16, 16).float()
    shuffle = GlobalShuffle(grid=4)
    with torch.no_grad():
        reps = told(x)
    here, there = attention(told, x, reps), attention(told, shuffle.sample(x, Rng(0)), reps)
    assert here.maps.shape == (2, 4, 4)
    expected = here.maps.flatten(1)[:, shuffle.order(16, 16)].view(2, 4, 4)
    torch.testing.assert_close(there.maps, expected, rtol=1e-3, atol=1e-7)
    assert not torch.allclose(there.maps, here.maps, rtol=0.1)


def test_a_class_token_reads_the_last_block_but_one_and_is_no_position() -> None:
    net, x = vit(), images(2, 3, 16, 16).float()
    told, directions = Encoder(net, mean=0, std=1), torch.randn(2, 8)
    found = attention(told, x, directions)
    tokens = net.blocks[:2](torch.cat([net.cls.expand(2, -1, -1), net.patch(x).flatten(2).mT], 1) + net.position)
    tokens = tokens.detach().requires_grad_()
    (gradient,) = torch.autograd.grad((net.norm(net.blocks[2](tokens))[:, 0] * directions).sum(), tokens)
    expected = (tokens[:, 1:] @ gradient[:, 1:].mean(1)[..., None])[..., 0].relu().view(2, 4, 4)
    assert found.layer == "blocks.1"
    torch.testing.assert_close(found.maps, expected.detach())


class Averaged(nn.Module):
    """The mean of all tokens instead of the class token; two registers stand before them."""

    def __init__(self) -> None:
        super().__init__()
        self.vit = vit()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.vit.patch(x).flatten(2).mT
        return self.vit.blocks(torch.cat([self.vit.cls.expand(len(x), 2, -1), tokens], 1)).mean(1)


def test_averaged_tokens_are_read_where_they_end() -> None:
    told, x = Encoder(Averaged(), mean=0, std=1), images(2, 3, 16, 16).float()
    assert attention(told, x, torch.ones(2, 8)).layer == "vit.blocks"
    assert attention(told, x, torch.ones(2, 8)).maps.shape == (2, 4, 4)


def test_images_need_not_be_square() -> None:
    net, x = encoder(nn.Conv2d(1, 4, 3, 2), nn.Flatten(), nn.Linear(160, 3)), images(2, 1, 9, 21)
    found = attention(net, x, torch.ones(2, 3, dtype=torch.float64))
    assert found.maps.shape == (2, 4, 10)
    assert found.upsample(9, 21).shape == (2, 9, 21)


class ChannelsLast(nn.Module):
    """Features [B, h, w, C] that are averaged over positions, as in some transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mix(x.permute(0, 2, 3, 1)).mean((1, 2))


def test_channels_may_come_last() -> None:
    net, x = encoder(ChannelsLast()), images(2, 3, 8, 8)
    directions = torch.randn(2, 20, dtype=torch.float64)
    expected = torch.einsum("bk,bhwk->bhw", directions, net.module[0].mix(x.permute(0, 2, 3, 1))).relu() / 64
    torch.testing.assert_close(attention(net, x, directions).maps.double(), expected)


def test_enlarged_maps_keep_constants_and_places() -> None:
    net, x = encoder(nn.AvgPool2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()), torch.zeros(2, 1, 8, 8).double()
    x[0] = 1
    x[1, :, :4, :4] = 1
    found = attention(net, x, torch.ones(2, 1, dtype=torch.float64), layer="0")
    flat, corner = found.upsample(8, 8)
    assert torch.allclose(flat, torch.full((8, 8), 0.25))
    assert corner[0, 0] == corner[1, 1] == 0.25  # half a cell from the edge its own value holds
    assert corner[7, 7] == 0


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_of_the_zoo_has_maps(name: str) -> None:
    net = open_encoder(f"zoo:{name}?weights=random")
    x = images(2, *NETWORKS[name].shape).float()
    with torch.no_grad():
        reps = net(x)
    found = attention(net, x, reps)
    assert found.maps.shape[1] == found.maps.shape[2] > 1
    assert (found.maps.amax((1, 2)) > 0).all()


def test_the_vision_transformer_of_transformers_has_maps() -> None:
    guard_torchvision()
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8
    )

    class Token(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vit = transformers.ViTModel(config, add_pooling_layer=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.vit(x).last_hidden_state[:, 0]

    found = attention(Encoder(Token(), mean=0, std=1), images(2, 3, 32, 32).float(), torch.randn(2, 16))
    assert found.maps.shape == (2, 4, 4)
    assert found.layer.endswith(".1")


def test_an_encoder_that_ends_at_a_layer_has_the_map_of_that_layer() -> None:
    net, x = open_encoder("zoo:resnet20_32?weights=random&layer=layer2&pool=avg"), images(2, 3, 32, 32).float()
    with torch.no_grad():
        directions = net(x)
    found = attention(net, x, directions)
    seen = attention(net, x, directions, layer="layer2.2")
    assert found.layer == "network.layer2"
    assert found.maps.shape == (2, 16, 16)
    torch.testing.assert_close(found.maps, seen.maps)
    assert attention(net, x, directions, layer="layer1").maps.shape == (2, 32, 32)
    assert attention(net, x, directions, layer="conv1").layer == "network.conv1"  # and of none of the blocks


def test_passes_are_counted_and_nothing_is_left_behind() -> None:
    net, x = pooled(), images(3, 3, 6, 6)
    attention(net, x, torch.ones(3, 5, dtype=torch.float64))
    assert net.passes == Passes(3, 3)
    assert not any(module._forward_hooks for module in net.modules())
    assert not x.requires_grad


def test_what_has_no_positions_is_refused() -> None:
    net = encoder(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 3))
    ones = torch.ones(2, 3, dtype=torch.float64)
    with pytest.raises(Unsupported, match="convolutional"):
        attention(net, images(2, 1, 8, 8), ones)
    with pytest.raises(UnknownName, match="conv"):
        attention(net, images(2, 1, 8, 8), ones, layer="conv")
    with pytest.raises(Unsupported, match="'1'"):
        attention(net, images(2, 1, 8, 8), ones, layer="1")


class Silent(nn.Module):
    """Lets no gradient through."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.detach().flatten(1)


def test_what_gives_no_gradient_is_refused() -> None:
    net = encoder(nn.Conv2d(1, 2, 3), Silent())
    with pytest.raises(Unsupported, match="gradients"):
        attention(net, images(2, 1, 8, 8), torch.ones(2, 72, dtype=torch.float64))
    with pytest.raises(Unsupported, match="0 in 0"):
        attention(pooled(), images(2, 3, 8, 8), torch.zeros(2, 5, dtype=torch.float64))
