"""`holdfast.harden`: a network in memory, hardened and audited; yours stays as it is."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import holdfast
from holdfast.auditing import profile_files
from holdfast.core import HoldfastError
from holdfast.runtime.errors import BadPlace, BadValue, Failed, Missing, UnknownName, Unsupported
from holdfast.sources.data import open_images
from holdfast.storage.entry import as_json


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 8, 3, 2), nn.Linear(72, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.conv(x)).flatten(1))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.toml").write_text(
        'description = "one measure"\nimages = 40\nattacked = 20\nexamined = 2\nqueries = 10\n'
        'measures = ["cosine_to_self"]\ndefaults = { attack = { name = "pgd", steps = 5 } }\n'
    )
    monkeypatch.setattr(profile_files, "FOLDER", tmp_path)


@pytest.fixture
def net() -> Net:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Net()


HOW = {"mean": 0.5, "std": 0.5, "eps": 0.1, "views": "none", "profile": "small", "batch_size": 32}


@pytest.mark.usefixtures("small")
def test_a_network_in_memory(net: Net) -> None:
    x = open_images("digits?part=train", images=300).batch(0, 300)
    before, drawn = {name: value.clone() for name, value in net.state_dict().items()}, torch.get_rng_state()
    hardened = holdfast.harden(net, x, steps=6, **HOW)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    module, record = hardened.module, hardened.record
    assert isinstance(module, Net)
    assert not module.training
    assert all(value.requires_grad for value in module.parameters())
    assert not torch.equal(module.head.weight, net.head.weight)
    with torch.no_grad():
        assert torch.equal(module((x[:4] - 0.5) / 0.5), hardened.encoder(x[:4]))
    net.load_state_dict(module.state_dict())
    assert record.steps == 6
    assert [encoder["name"] for encoder in hardened.audit.data["encoders"]] == ["before", "after"]
    assert hardened.audit.data["hardening"]["price"] == as_json(record.price)
    told = str(hardened)
    assert repr(hardened) == told
    assert "<table>" in hardened._repr_html_()
    assert hardened.figures == hardened.audit.figures
    assert re.search(r"Price: clean representations moved by 0\.\d+", told)
    assert "holdfast harden" not in told  # there is no command that does it again


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_another_network_pays_another_price(net: Net) -> None:
    x = open_images("digits?part=train", images=300).batch(0, 300)
    first, other = (holdfast.harden(one, x, steps=6, **HOW).record for one in (net, Net()))
    assert first.price != other.price


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_labels_and_folders(net: Net, tmp_path) -> None:
    images = open_images("digits?part=train", images=300)
    x, labels = images.batch(0, 300).numpy()[:, 0], np.array(images.labels)
    first = holdfast.harden(net, x, labels=labels, steps=4, out=tmp_path, **HOW)
    assert {row.measure for row in first.record.measures if row.needs_labels} == {
        "probe_accuracy", "robust_accuracy",
    }  # fmt: skip
    again = holdfast.harden(net, x, labels=labels, steps=4, out=tmp_path, **HOW)  # done already
    assert torch.equal(first.module.head.weight, again.module.head.weight)
    with pytest.raises(BadPlace):
        holdfast.harden(net, x, labels=labels, steps=5, out=tmp_path, **HOW)


@pytest.mark.parametrize(
    ("more", "kind", "said"),
    [
        ({"rates": 1.0}, UnknownName, r"'rate'\?"),
        ({"mean": None}, Missing, "mean"),
        ({"batchnorm": "split up"}, UnknownName, r"'split'\?"),
        ({"budget": "soon"}, BadValue, "budget"),
    ],
)
def test_what_cannot_be_done_is_one_line(net: Net, more: dict, kind: type[HoldfastError], said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        holdfast.harden(net, torch.rand(20, 1, 8, 8), **{**HOW, "profile": "quick", **more})
    assert "\n" not in str(caught.value)


def test_pictures_of_another_shape_are_one_line(net: Net) -> None:
    with pytest.raises(Failed, match="Net") as caught:
        holdfast.harden(net, torch.rand(80, 3, 8, 8), steps=1, **{**HOW, "profile": "quick"})
    assert "\n" not in str(caught.value)


def test_one_of_several_processes_is_refused_before_it_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"), ("RANK", "0")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("holdfast.api.harden.run", lambda *_, **__: pytest.fail("it trained"))
    with pytest.raises(Unsupported) as error:
        holdfast.harden(Net(), torch.rand(80, 1, 8, 8), steps=6, **HOW)
    assert "expected one process, got several" in str(error.value)
