from pathlib import Path

import pytest
import torch

from holdfast.sources.data.digits import Digits, train_images
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.zoo import SHIPPED
from holdfast.training.loop import train
from holdfast.training.recipe_file import read_recipe

ROOT = Path(__file__).parents[1]
ACCURACY = {"digits-supervised": 0.978, "digits-simclr": 0.988, "digits-simclr-adv": 0.988}


def heldout():
    digits = Digits()
    return torch.stack([digits.load(i) for i in range(600)]), torch.tensor([digits.label(i) for i in range(600)])


def knn_accuracy(encoder, k=5):
    (images, labels), (queries, truth) = train_images(), heldout()
    with torch.no_grad():
        near = torch.cdist(encoder(queries), encoder(images)).topk(k, largest=False).indices
    return (labels[near].mode(1).values == truth).double().mean().item()


def share_that_stays(encoder, epsilon=0.1, steps=15):
    """Share of held-out digits whose attacked representation is still nearest to their own."""
    x, _ = heldout()
    with torch.no_grad():
        clean = encoder(x)
    moved = (x + epsilon * (2 * torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) - 1)).clamp(0, 1)
    for _ in range(steps):
        moved.requires_grad_(True)
        (gradient,) = torch.autograd.grad((encoder(moved) - clean).square().sum(), moved)
        moved = (moved.detach() + epsilon / 5 * gradient.sign()).clamp(x - epsilon, x + epsilon).clamp(0, 1)
    with torch.no_grad():
        return (torch.cdist(encoder(moved), clean).argmin(1) == torch.arange(len(x))).double().mean().item()


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.slow
def test_shipped_encoders_know_digits(name):
    encoder = open_encoder(f"zoo:{name}")
    assert knn_accuracy(encoder) == pytest.approx(ACCURACY[name], abs=0.004)
    assert (encoder.mean, encoder.std) == ([0.0], [1.0])
    assert "shipped" in str(encoder.origin["weights"])
    assert open_encoder(f"zoo:{name}?weights=random").fingerprint != encoder.fingerprint
    size = (ROOT / f"src/holdfast/sources/encoders/weights/{name}.safetensors").stat().st_size
    assert size < 300_000


@pytest.mark.slow
def test_the_hardened_encoder_holds():
    stays = {name: share_that_stays(open_encoder(f"zoo:{name}")) for name in SHIPPED}
    assert stays["digits-simclr-adv"] > 0.75
    assert max(stays["digits-simclr"], stays["digits-supervised"]) < 0.5


@pytest.mark.slow(minutes=10)
@pytest.mark.parametrize("name", SHIPPED)
def test_their_recipes_reproduce_them(name, tmp_path):
    """Same recipe, same quality; equal to the bit only on a machine with the same arithmetic."""
    recipe = read_recipe(ROOT / f"recipes/{name.replace('-', '_')}.toml")
    trained, shipped = train(recipe, tmp_path).encoder, open_encoder(f"zoo:{name}")
    assert knn_accuracy(trained) == pytest.approx(ACCURACY[name], abs=0.012)
    assert share_that_stays(trained) == pytest.approx(share_that_stays(shipped), abs=0.08)
