"""Fine-tuning in whole audits: against a plain training loop, against known answers, and what must not change."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.auditing.session import Session
from holdfast.core import Encoder, HoldfastError, Measure, Passes, Rng, Shard
from holdfast.parts.measures.classifiers.probe_accuracy import ProbeAccuracy
from holdfast.parts.measures.corruptions.fine_tuned_accuracy import FineTunedAccuracy
from holdfast.parts.measures.corruptions.fine_tuned_drop import FineTunedDrop
from holdfast.parts.observations import fine_tuned
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.fine_tuned import FineTuned
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.tuned import Tuned
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.global_shuffle import GlobalShuffle
from holdfast.runtime.errors import BadValue, Conflict, Missing, NotEnough, NotFinite, Unsupported
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.encoders.shared.copies import copy_with_state
from holdfast.storage.run_folder import Store
from json_records import run_audit

TRAIN, TEST = 300, 100
SHUFFLE = GlobalShuffle(4)


def pixels(name: str = "pixels") -> Encoder:
    """The image itself as its representation: nothing but the layer can learn."""
    return Encoder(nn.Flatten(), mean=0, std=1, name=name)


def network(*more: nn.Module) -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), *more, nn.Flatten())
        return Encoder(net, mean=0.2, std=0.3, name="network")


def saved(folder: Path, part: str, count: int) -> str:
    images = open_images(f"digits?part={part}")
    path = folder / f"{part}.npz"
    np.savez(path, images=images.batch(0, count).numpy()[:, 0], labels=images.labels[:count])
    return str(path)


def audit(folder: Path, encoder: Encoder, *measures: Measure, train: bool = True, **plan) -> dict:
    images, learned = saved(folder, "heldout", TEST), saved(folder, "train", TRAIN) if train else None
    asked = Plan((encoder.name,), images, measures, train=learned, **plan)
    return run_audit(asked, folder / "out", encoders={encoder.name: encoder}, overwrite=True)


def scores(record: dict) -> list[dict[str, float]]:
    assert record["failures"] == []
    entries = record["encoders"][0]["measures"].values()
    return [{name: score["value"] for name, score in entry["scores"].items()} for entry in entries]


def few(seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    return torch.rand(30, 1, 8, 8, generator=random), torch.randint(3, (30,), generator=random) + 4


def subject_of(folder: Path, encoder: Encoder, batch_size: int = 8) -> Session:
    """Thirty images, of which the first six are attacked."""
    images = ImageSet(Arrays(*few()), seed=3)
    return Session(encoder, images, attacked=6, seed=3, batch_size=batch_size, device="cpu", store=Store(folder))


def observed(folder: Path, encoder: Encoder, tuning: FineTuned, batch_size: int = 8) -> dict[str, Tensor]:
    """Fine-tune on images that are not attacked, the last 24 of 30."""
    subject = subject_of(folder, encoder, batch_size)
    subject.observe(Clean())
    subject.observe(tuning)
    return subject.read(tuning)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_a_plain_loop_finds_the_same_weights(optimiser: str, tmp_path: Path) -> None:
    """All images in one batch, so their order does not matter."""
    encoder = network()
    rate = {"sgd": 0.05, "adamw": 0.01}[optimiser]
    seen = observed(tmp_path, encoder, FineTuned(None, 4, optimiser, rate, batch_size=24, weight_decay=0.01))
    x, labels = few()
    images = ImageSet(Arrays(x, labels), seed=3)
    x, y = images.batch(6, 30), torch.tensor(images.labels[6:]) - 4
    net = network().module.train().requires_grad_(True)
    layer = nn.Linear(128, 3)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    kind = {"sgd": lambda p: torch.optim.SGD(p, rate, 0.9, weight_decay=0.01)}
    kind["adamw"] = lambda p: torch.optim.AdamW(p, rate, weight_decay=0.01)
    steps = kind[optimiser]([*net.parameters(), *layer.parameters()])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(steps, 4)
    losses = []
    for _ in range(4):
        loss = F.cross_entropy(layer(net((x - 0.2) / 0.3)), y)
        steps.zero_grad()
        loss.backward()
        steps.step()
        schedule.step()
        losses.append(float(loss.detach()))
    assert seen["loss"].tolist() == pytest.approx(losses, rel=1e-4)
    assert seen["classes"].tolist() == [4, 5, 6]
    for name, value in {**net.state_dict(prefix="network."), "weights": layer.weight, "bias": layer.bias}.items():
        assert torch.allclose(seen[name], value, rtol=1e-3, atol=1e-5), name
    assert losses[-1] < losses[0]


def test_the_encoder_stays_as_it_is_and_the_copy_does_not(tmp_path: Path) -> None:
    encoder = network()
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    fingerprint = encoder.fingerprint
    seen = observed(tmp_path, encoder, FineTuned(epochs=2, rate=0.1))
    assert encoder.take_fingerprint() == fingerprint
    assert not any(module.training for module in encoder.modules())
    assert not any(value.requires_grad or value.grad is not None for value in encoder.parameters())
    for key, value in encoder.state_dict().items():
        assert torch.equal(value, before[key])
    for key in ("0.weight", "1.weight", "1.running_mean", "1.running_var", "1.num_batches_tracked"):
        assert not torch.equal(seen[f"network.{key}"], before[f"module.{key}"]), key
    made = copy_with_state(encoder, seen)
    assert not any(module.training for module in made.modules())
    assert not any(value.requires_grad for value in made.parameters())


def test_the_seed_decides_and_nothing_else(tmp_path: Path) -> None:
    tuning = FineTuned(epochs=2, rate=0.1, batch_size=5)
    with_dropout = nn.Dropout(0.5)
    first = observed(tmp_path / "a", network(with_dropout), tuning)
    torch.rand(7)  # torch's own generator moves
    again = observed(tmp_path / "b", network(with_dropout), tuning, batch_size=3)
    for name, value in first.items():
        assert torch.allclose(again[name], value, atol=1e-6), name
    without = observed(tmp_path / "c", network(), tuning)
    assert not torch.allclose(without["weights"], first["weights"], atol=1e-3)


def test_images_are_read_in_blocks_each_once_an_epoch_with_its_own_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fine_tuned, "BLOCK", 4 * 10)  # ten images of four pixels
    x = torch.arange(37.0)[:, None, None, None].expand(-1, 1, 2, 2) / 37
    asked: list[Tensor] = []

    def others(places: Tensor) -> Tensor:
        asked.append(places)
        return x[places]

    rng = Rng(0, ids=tuple(map(str, range(37))))
    shard = Shard(pixels(), x[:1], torch.arange(1), rng, None, others, torch.arange(37))
    random, orders = torch.Generator().manual_seed(0), []
    everything = list(FineTuned(epochs=2, batch_size=4)._batches(shard, torch.arange(37), random))
    for epoch in range(2):
        parts = [(images, targets) for number, images, targets in everything if number == epoch]
        assert all(4 <= len(images) < 8 for images, _ in parts)
        places = torch.cat([targets for _, targets in parts])
        assert torch.equal(torch.cat([images[:, 0, 0, 0] for images, _ in parts]), places / 37)
        assert places.sort().values.tolist() == list(range(37))
        orders.append(places.tolist())
        assert sum(b == a + 1 for a, b in pairwise(orders[-1])) < 12  # by chance one in each block
    assert orders[0] != orders[1]
    assert all(len(block) <= 10 and (block.diff() == 1).all() for block in asked)
    assert len(asked) in (7, 8)  # seven where an epoch begins with the last one's last block
    noisy = FineTuned(Gaussian(0.1), epochs=3)._batches(shard, torch.arange(37), random)
    means = {round(float(image.mean()), 6) for _, images, _ in noisy for image in images}
    same = Gaussian(0.1).sample(x, rng.child("training"))
    assert means == {round(float(image.mean()), 6) for image in same}  # the noise knows neither batch nor epoch


def test_a_single_block_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    before = ImageSet.batch
    monkeypatch.setattr(ImageSet, "batch", lambda self, a, b: asked.append(b - a) or before(self, a, b))
    observed(tmp_path, pixels(), FineTuned(epochs=5))
    assert asked.count(24) == 1


def test_a_noise_disturbs_tested_images_as_it_does_for_probes(tmp_path: Path) -> None:
    subject, tuning = subject_of(tmp_path, pixels(), batch_size=4), FineTuned(epochs=1)
    looks = Tuned(tuning, Gaussian(0.1)), Represented(Gaussian(0.1))
    for observation in (Clean(), tuning, *looks):
        subject.observe(observation)
    learned, (logits, reps) = subject.read(tuning), (next(iter(subject.read(look).values())) for look in looks)
    assert torch.allclose(logits, reps @ learned["weights"].T + learned["bias"], atol=1e-6)


def test_images_are_found_by_their_places(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, pixels())
    places = torch.tensor([4, 5, 6, 2, 9, 8, 8, 0])
    assert torch.equal(subject._all.at(places), subject.images.batch(0, 30)[places])
    assert torch.equal(subject._training.at(places), subject.images.batch(6, 30)[places])


@pytest.mark.slow
def test_pixels_learn_what_a_linear_probe_learns(tmp_path: Path) -> None:
    tuning = FineTuned(epochs=25, rate=0.2, batch_size=16, weight_decay=0.0)
    threats = (SHUFFLE,)
    alike, clean, probe = scores(
        audit(
            tmp_path,
            pixels(),
            FineTunedDrop(tuning, threats, consistent=True),
            FineTunedAccuracy(tuning, threats),
            ProbeAccuracy(Linear()),
        )
    )
    assert clean["no corruption"] == pytest.approx(probe["top-1"], abs=0.04)
    assert alike == {"G4x4": 0.0, "average": 0.0}  # a shuffle of all images alike loses nothing
    assert clean["G4x4"] == clean["average"] < 0.5


@pytest.mark.slow
def test_fine_tuning_finds_what_a_frozen_network_does_not_hold(tmp_path: Path) -> None:
    pooled = nn.AdaptiveAvgPool2d(1)  # eight numbers of a random network
    tuned, probe = scores(
        audit(
            tmp_path,
            network(pooled),
            FineTunedAccuracy(FineTuned(None, 60, "adamw", 0.02, 16)),
            ProbeAccuracy(Linear()),
        )
    )
    assert list(tuned) == ["no corruption"]
    assert tuned["no corruption"] > probe["top-1"] + 0.1


def test_passes_are_those_predicted_and_a_second_run_makes_none(tmp_path: Path) -> None:
    tuning = FineTuned(epochs=3, batch_size=50)
    measures = FineTunedAccuracy(tuning, (SHUFFLE,)), FineTunedDrop(tuning, (SHUFFLE, Gaussian(0.2)), consistent=True)
    record = audit(tmp_path, network(), *measures, batch_size=64)
    (entry,) = record["encoders"]
    assert record["failures"] == []
    for observation in entry["observations"]:
        assert observation["passes"] == observation["predicted"], observation["title"]
    passes = entry["passes"]
    assert passes["forward"] == TEST * (1 + 1 + 1 + 1 + 1) + TRAIN * (1 + 3 * 3)  # clean; tests; training, three times
    assert passes["backward"] == TRAIN * 3 * 3
    again = audit(tmp_path, network(), *measures, batch_size=64)
    assert again["run"]["resumed_shards"] == sum(
        2 if o["part"]["name"] in ("clean", "tuned") else 1 for o in entry["observations"]
    )
    assert scores(again) == scores(record)


def test_without_training_images_it_learns_from_what_is_not_attacked(tmp_path: Path) -> None:
    record = audit(
        tmp_path, pixels(), FineTunedAccuracy(FineTuned(epochs=2, rate=0.1, batch_size=4)), train=False, attacked=40
    )
    assert scores(record)[0]["no corruption"] > 0.2
    titles = {o["title"] for o in record["encoders"][0]["observations"]}
    assert {"fine-tuning, 2 epochs, sgd 0.1", "fine-tuning, 2 epochs, sgd 0.1; tested"} < titles
    cost = {o["part"]["name"]: o["passes"] for o in record["encoders"][0]["observations"]}
    assert cost["fine_tuned"]["backward"] == 2 * (TEST - 40)
    assert cost["tuned"]["forward"] == 40
    nobody = audit(tmp_path, pixels(), FineTunedAccuracy(FineTuned(epochs=2)), train=False)
    assert "got none: all images are attacked" in nobody["encoders"][0]["measures"]["fine_tuned_accuracy"]["error"]


class Buffers(nn.Module):
    """Holds its weights as a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.randn(64, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.weights


class Detached(nn.Module):
    """Gives no gradient."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return 1 * self.net(x)


def test_networks_that_cannot_be_trained_are_refused(tmp_path: Path) -> None:
    def refused(module: nn.Module, match: str) -> None:
        with pytest.raises(Unsupported, match=match):
            observed(tmp_path / type(module).__name__, Encoder(module, mean=0, std=1), FineTuned(epochs=1))

    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    refused(torch.fx.symbolic_trace(linear), "got a traced one")
    refused(Buffers(), "got buffers only")
    refused(Detached(linear), "a gradient to the network's weights")
    refused(Detached(nn.Flatten()), "a gradient to the network's weights")


def test_bad_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFinite, match=r"1e\+20"):
        observed(tmp_path, network(), FineTuned(rate=1e20))
    x, _ = few()
    for labels, kind, match in ((None, Missing, "labels"), (torch.zeros(30, dtype=torch.long), NotEnough, "2 classes")):
        subject = Session(
            pixels(), ImageSet(Arrays(x, labels)), attacked=6, seed=0, batch_size=8, device="cpu", store=Store(tmp_path)
        )
        subject.observe(Clean())
        with pytest.raises(kind, match=match):
            subject.observe(FineTuned())
    for wrong in ({"epochs": 0}, {"rate": 0.0}, {"optimiser": "lars"}, {"batch_size": 0}, {"weight_decay": -1.0}):
        with pytest.raises(HoldfastError, match="fine_tuned"):
            FineTuned(**wrong)
    with pytest.raises(Conflict, match="consistent"):
        FineTunedAccuracy(consistent=True)
    with pytest.raises(Conflict, match="fine_tuned_accuracy"):
        FineTunedAccuracy(FineTuned(SHUFFLE), (SHUFFLE,), consistent=True)
    with pytest.raises(BadValue, match="threats"):
        FineTunedDrop(threats=())
    with pytest.raises(BadValue, match="fine_tuned_accuracy"):
        FineTunedAccuracy(threats=(SHUFFLE, SHUFFLE))


def test_costs_are_predicted_for_every_image() -> None:
    assert FineTuned(epochs=7).passes == Passes(7, 7)
    assert Tuned().passes == Passes(1)
