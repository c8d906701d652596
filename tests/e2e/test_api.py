"""The Python API: three lines, on whatever people have at hand."""

import ast
import html.parser
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import holdfast
from holdfast import HoldfastError
from holdfast.api import audit as api
from holdfast.core import Encoder, Score
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import (
    Ambiguous,
    BadData,
    BadPlace,
    BadValue,
    Conflict,
    Failed,
    Missing,
    NotEnough,
    UnknownName,
    UnreadableRecord,
)
from holdfast.sources.data.shared.torch_dataset import TorchDataset

ASKED = ["breakaway_risk", "overlap_risk"]
FAST = {"profile": "quick", "measures": ASKED, "attacked": 6, "settings": {"*.attack.steps": 3}, "eps": 0.3}
FAST |= {"examined": 4, "queries": 20}
CHEAP = {"profile": "quick", "measures": ["uniformity", "effective_rank"]}  # nothing is attacked


class Net(nn.Module):
    """A network of parts that an audit could spoil: BatchNorm in training mode, dropout, a frozen layer, gradients."""

    def __init__(self, width: int = 12):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())
        self.head = nn.Linear(128, width)
        self.body[0].requires_grad_(False)

    def forward(self, x):
        return self.head(self.body(x))


class Pairs(Dataset):
    """A dataset of (picture, class) as torchvision makes them."""

    classes = ["even", "odd"]

    def __init__(self, x, normalised=False, random=False):
        self.x, self.normalised, self.random = x, normalised, random

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        x = (self.x[index] - 0.5) / 0.5 if self.normalised else self.x[index]
        return (torch.rand_like(x) if self.random else x), index % 2


def network(**how) -> Net:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Net(**how).train()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def record(x) -> holdfast.Record:
    return holdfast.audit(network(), x, mean=0.5, std=0.25, **FAST)


def numbers(record: holdfast.Record) -> dict[str, Score]:
    return {name: record[name] for name in record.measures}


def test_three_lines(record, x) -> None:
    assert record.encoders == ("Net",)
    assert record.measures == tuple(ASKED)
    assert record.failures == ()
    score = record["breakaway_risk"]
    assert isinstance(score, Score)
    assert score.low is not None
    assert score.low <= score.value <= score.high
    assert list(record.scores("breakaway_risk")) == ["3 steps"]
    assert "Breakaway risk" in str(record)
    assert "16 images of a tensor [16, 1, 8, 8], 6 attacked" in str(record)
    assert "\x1b[" not in str(record)
    assert json.loads(json.dumps(record.data))["plan"]["attacked"] == 6


def test_the_network_and_random_numbers_stay_as_they_are(x) -> None:
    net = network()
    net.head.weight.grad = torch.ones_like(net.head.weight)
    before = pickle.dumps(net.state_dict())
    state = torch.get_rng_state()
    modes = [module.training for module in net.modules()]
    frozen = [value.requires_grad for value in net.parameters()]
    with torch.no_grad():
        holdfast.audit(net, x, mean=0.5, std=0.25, **FAST)
    assert pickle.dumps(net.state_dict()) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in net.modules()] == modes
    assert [value.requires_grad for value in net.parameters()] == frozen
    assert torch.equal(net.head.weight.grad, torch.ones_like(net.head.weight))


@pytest.mark.slow
def test_images_of_every_kind_are_the_same_images(x, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x.numpy())
    expected = numbers(holdfast.audit(network(), x, mean=0.5, std=0.25, **CHEAP))
    assert expected["uniformity"].value is not None
    same = [x.numpy(), tmp_path / "x.npy", str(tmp_path / "x.npy"), TensorDataset(x), Pairs(x), list(x), x.double()]
    for images in same:
        found = holdfast.audit(network(), images, mean=0.5, std=0.25, **CHEAP)
        assert numbers(found) == expected, type(images)
    encoder = Encoder(network(), mean=0.5, std=0.25, name="mine")
    found = holdfast.audit(encoder, x, **CHEAP)
    assert found.encoders == ("mine",)
    assert numbers(found) == expected


def test_pictures_and_mappings(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8)
    for number, one in enumerate(grey):
        PIL.Image.fromarray(one).save(tmp_path / f"{number:06d}.png")
    pictures = [PIL.Image.fromarray(one) for one in grey]
    of = [pictures, [{"image": one, "label": 3} for one in pictures], list(grey), list(grey[..., None])]
    found = [numbers(holdfast.audit(network(), images, mean=0.5, std=0.25, **CHEAP)) for images in of]
    assert all(one == found[0] for one in found)
    assert TorchDataset(of[1]).label(0) == 3
    folder = holdfast.audit(network(), tmp_path, mean=0.5, std=0.25, **CHEAP)
    assert folder.data["data"]["images"] == 12


def test_normalisation_is_never_guessed(x) -> None:
    with pytest.raises(Missing, match="Net"):
        holdfast.audit(network(), x)
    with pytest.raises(Missing, match="std=None"):
        holdfast.audit(network(), x, mean=0.5)
    for own in ("zoo:digits-simclr", Encoder(network(), mean=0, std=1)):
        with pytest.raises(Conflict, match="std"):
            holdfast.audit(own, x, mean=0.5, std=0.5)
    with pytest.raises(BadData, match="Normalize"):
        holdfast.audit(network(), Pairs(x, normalised=True), mean=0.5, std=0.5)
    other = holdfast.audit(network(), x, mean=torch.zeros(1), std=np.ones(1), **CHEAP)
    assert (other.data["encoders"][0]["mean"], other.data["encoders"][0]["std"]) == ([0.0], [1.0])


def test_mean_and_std_are_one_number_or_one_for_each_channel_whatever_holds_them(x) -> None:
    four = torch.tensor([0.25, 0.5, 0.75]).view(1, 3, 1, 1)
    for mean in (four, four[0], four.numpy(), four.bfloat16().requires_grad_(), [0.25, 0.5, 0.75]):
        assert Encoder(nn.Flatten(), mean=mean, std=1).mean == [0.25, 0.5, 0.75]
    for mean, got in (
        (torch.ones(2, 3), r"the shape \[2, 3\]"),
        ([[0.5, 0.5]] * 2, r"the shape \[2, 2\]"),
        ("a", "'a'"),
    ):
        with pytest.raises(BadValue, match=f"got {got}"):
            Encoder(nn.Flatten(), mean=mean, std=1)
    with pytest.raises(BadValue, match="Net"):
        holdfast.audit(network(), x, mean=0, std=torch.ones(2, 3), **CHEAP)


@pytest.mark.parametrize("key", [0, slice(1, 2), None, 1.5, b"x", True, ("a", 1), ("a",), ("a", "b", "c"), ()])
def test_a_record_is_asked_by_names(record, key) -> None:
    with pytest.raises(BadValue, match=r"record\[\.\.\.\]"):
        record[key]


def test_what_a_record_is_asked_is_checked(record, tmp_path: Path) -> None:
    for name in ("report", "save", "scores", "figure", "model_card", "to_pandas"):
        with pytest.raises(BadValue, match=rf"^{name}\.\w+: .*got 5"):
            getattr(record, name)(5)
    with pytest.raises(BadValue, match="to_markdown"):
        record.to_markdown(5)
    with pytest.raises(UnknownName, match=r"'pictures'\?"):
        record.report(tmp_path / "x.html", picture=True)


def bad(x: torch.Tensor):
    return {
        "layer and a pooling": (nn.Conv2d(1, 2, 3), x, {}),
        "divide 0-255 floats by 255": (network(), x * 255, {}),
        "leave random augmentation out": (network(), Pairs(x, random=True), {}),
        "give its .dataset": (network(), torch.utils.data.DataLoader(IterableOnly()), {}),
        "got str": (network(), ["a.png", "b.png"], {}),
        "no-such": (network(), "no-such", {}),
        "did you mean 'quick'": (network(), x, {"profile": "qick"}),
        "did you mean 'breakaway_risk'": (network(), x, {"measures": ["breakaway_rsk"]}),
        "its own ball; name it": (network(), x, {"measures": [BreakawayRisk()], "eps": 0.1}),
        "beside them, got str": (network(), "digits", {"labels": [1]}),
        "expected 16 labels": (network(), x, {"labels": [1, 2]}),
        "expected images with labels": (network(), x, {"measures": ["probe_accuracy"], "settings": {}}),
    }


class IterableOnly(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([])


def test_what_cannot_be_answered_says_what_to_do(x) -> None:
    for says, (model, images, options) in bad(x).items():
        with pytest.raises(HoldfastError, match=says):
            holdfast.audit(model, images, mean=0, std=1, **{**FAST, **options})


class Planned(Exception):
    """Ends an audit that was planned."""


@pytest.fixture
def planned(x, monkeypatch):
    """Return the measures that an audit would ask."""

    def ended(plan, *rest, **named):
        raise Planned(plan)

    monkeypatch.setattr(api, "run_audit", ended)

    def measures(**options):
        with pytest.raises(Planned) as found:
            holdfast.audit(network(), x, mean=0, std=1, profile="quick", **options)
        return found.value.args[0].measures

    return measures


def test_eps_reaches_measures_that_are_named(planned) -> None:
    for options, ball in (
        ({"eps": 0.2}, Linf(0.2)),
        ({"eps": 1.0, "norm": "l2"}, L2(1.0)),
        ({"measures": [BreakawayRisk(ball=L2(2.0))]}, L2(2.0)),
        ({"measures": {"name": "adversarial_robustness"}, "eps": 0.3}, Linf(0.3)),  # not named, a table
    ):
        (measure,) = planned(**{"measures": "breakaway_risk", **options})
        assert measure.ball == ball


def test_measures_are_asked_as_the_profile_asks_them_and_settings_change_them(planned) -> None:
    assert [one.attack for one in planned(measures="breakaway_risk")] == [Pgd(20)]
    assert [type(one).__name__ for one in planned(measures=["robust_accuracy"])] == ["RobustAccuracy"]  # not of quick
    for settings in ({"*.attack": "apgd"}, ["*.attack=apgd"], "*.attack=apgd"):
        assert [one.attack for one in planned(measures="breakaway_risk", settings=settings)] == [Apgd(50)]


@pytest.mark.slow
def test_a_bare_table_gives_the_number_of_the_profile() -> None:
    def scores(**more) -> dict:
        asked = {"profile": "quick", "eps": 0.15, "images": 40, "attacked": 16, "settings": {"*.attack.steps": 5}}
        record = holdfast.audit("zoo:digits-simclr", "digits", **asked, **more)
        named = record.data["encoders"][0]["measures"]["breakaway_risk"]["scores"]
        return {name: {key: score[key] for key in ("value", "low", "high", "n")} for name, score in named.items()}

    whole = scores()
    assert scores(measures={"name": "breakaway_risk"}) == whole
    weak = {"name": "breakaway_risk", "attack": {"step_size": 0.001}}  # a part of one may be too weak, where it is said
    assert 4 * scores(measures=weak)["5 steps"]["value"] < whole["5 steps"]["value"]


@pytest.mark.slow
def test_several_encoders_are_compared(x) -> None:
    found = holdfast.audit([network(), network(width=3), "zoo:digits-simclr"], x, mean=0, std=1, **FAST)
    assert found.encoders == ("Net", "Net 2", "zoo:digits-simclr")
    with pytest.raises(Ambiguous, match=r"record\['Net', 'breakaway_risk'\]"):
        found["breakaway_risk"]
    assert found["Net", "breakaway_risk"].n == 6
    with pytest.raises(UnknownName, match="'Net 3'"):
        found["Net 3", "breakaway_risk"]
    with pytest.raises(UnknownName, match=r"'breakaway_risk'\?"):
        found["Net", "breakaway_rsk"]
    named = holdfast.audit({"a & b?": "zoo:digits-simclr", "c": network()}, x, mean=0, std=1, **FAST)
    assert named.encoders == ("a & b?", "c")
    assert named["a & b?", "overlap_risk"] == found["zoo:digits-simclr", "overlap_risk"]
    with pytest.raises(BadValue, match="twice"):
        holdfast.audit(["zoo:digits-simclr"] * 2, x, **FAST)


@pytest.mark.slow
def test_what_fails_is_said_and_the_rest_is_measured(x) -> None:
    found = holdfast.audit({"good": network(), "bad": nn.Conv2d(1, 2, 3)}, x, mean=0, std=1, **FAST)
    assert "bad: encoder 'bad'" in found.failures[0]
    assert "choose a layer and a pooling" in " ".join(str(found).split())
    assert found["good", "breakaway_risk"].n == 6
    with pytest.raises(Failed, match="bad"):
        found["bad", "breakaway_risk"]
    uncertified = holdfast.audit(
        nn.Sequential(nn.Flatten(), nn.Hardshrink(), nn.Linear(64, 4)), x, mean=0, std=1,
        **{**FAST, "measures": ["certified_radius", "uniformity"], "settings": ()},
    )  # fmt: skip
    with pytest.raises(Failed, match="certified_radius"):
        uncertified["certified_radius"]
    assert uncertified["uniformity"].value is not None
    assert "not certified" in uncertified._repr_html_()


class Reader(html.parser.HTMLParser):
    """Reads text and tags, and complains about what is not closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        if tag != "br":  # which has no end
            self.open.append(tag)
        self.tags.append(tag)
        assert not {"src", "href", "onload", "onclick"} & {key for key, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


def test_notebooks_show_a_table_in_which_all_text_is_escaped(x) -> None:
    evil = "<script>alert(1)</script>"
    models = {evil: network(), "plain": network(width=3), "bad": nn.Conv2d(1, 2, 3)}
    found = holdfast.audit(models, x, mean=0, std=1, **FAST)
    compared = holdfast.compare(found)
    for shown in (found, compared):
        page = Reader()
        page.feed(shown._repr_html_())
        assert page.open == []
        assert "script" not in page.tags
        assert evil in page.text
        assert "Breakaway risk" in page.text
        assert "http" not in shown._repr_html_()
    assert '<span class="bold red">bad: encoder' in found._repr_html_()
    assert "background: #" not in found._repr_html_()  # its colours are those of the page around it


def test_pandas(record) -> None:
    pandas = pytest.importorskip("pandas")
    table = record.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert set(table.run) == {""}  # the folder is a temporary one, gone before the table
    headline = table[table.headline].set_index("measure")
    assert headline.loc["overlap_risk", "value"] == record["overlap_risk"].value
    rows = record.to_pandas("breakaway_risk")
    assert list(rows.columns[:2]) == ["encoder", "id"]
    assert rows.id.nunique() == 16
    assert rows["broken@3"].count() == 6
    assert rows["broken@3"].mean() == pytest.approx(record["breakaway_risk"].value)


def test_without_pandas_its_extra_is_named(record, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Missing, match=r"\[pandas\]"):
        record.to_pandas()


def test_records_are_kept_opened_and_reported(x, tmp_path: Path) -> None:
    record = holdfast.audit(network(), x, mean=0, std=1, **FAST)
    place = Path(record.folder)
    report = record.report(tmp_path / "new" / "page.html")
    assert Path(report).stat().st_size > 10_000
    saved = record.save(tmp_path / "kept")
    assert not (tmp_path / "kept" / "cache").exists()
    with pytest.raises(BadPlace, match="overwrite=True"):
        record.save(tmp_path / "kept")
    kept = numbers(record)
    assert place.is_dir()
    del record
    assert not place.exists()  # temporary, and gone with the record
    for again in (saved, holdfast.open(tmp_path / "kept")):
        assert numbers(again) == kept
        assert len(again.run.table(again.data["encoders"][0]["measures"]["overlap_risk"]["table"])[0]) == 6
        assert Path(again.report(tmp_path / "again.html")).read_text() == Path(report).read_text()
    with pytest.raises(UnreadableRecord):
        holdfast.open(tmp_path)


def test_an_audit_that_is_refused_leaves_no_folder(x, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(Missing, match="probe_accuracy"):
        holdfast.audit(network(), x, mean=0, std=1, profile="quick", measures=["probe_accuracy"])
    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_continues_and_another_network_is_another(x, tmp_path: Path) -> None:
    one, how = network(), {"mean": 0, "std": 1, "out": tmp_path / "run", **CHEAP}
    first = holdfast.audit(one, x, **how)
    assert holdfast.audit(one, x, **how).data["run"]["resumed_shards"] > 0
    with torch.no_grad():
        one.head.weight.mul_(torch.linspace(-1, 3, 12)[:, None])
    with pytest.raises(BadPlace, match="Net"):
        holdfast.audit(one, x, **how)
    other = holdfast.audit(one, x, **how, overwrite=True)
    assert other.data["run"]["resumed_shards"] == 0
    assert other["uniformity"] != first["uniformity"]
    with pytest.raises(BadPlace):
        holdfast.audit(one, x, **{**how, "seed": 1})


def test_records_are_compared(x) -> None:
    how = {"mean": 0, "std": 1, **CHEAP}
    one, other = holdfast.audit(network(), x, **how), holdfast.audit(network(width=2), x, **how)
    found = holdfast.compare({"before": one, "after": other})
    names = {encoder["name"] for encoder in found.data["encoders"]}
    assert names == {"Net (before)", "Net (after)"}
    assert "Net (before)" in str(found)
    assert len(holdfast.compare(one, other.folder, measures=["uniformity"]).data["measures"]) == 1
    with pytest.raises(BadValue, match="twice"):
        holdfast.compare(one, one)
    with pytest.raises(NotEnough):
        holdfast.compare(one)


def test_a_comparison_converts(x, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    found = holdfast.compare(holdfast.audit([network(), network(width=2)], x, mean=0, std=1, **CHEAP))
    table = found.to_pandas()
    assert set(table[table.headline].encoder) == {"Net", "Net 2"}
    assert {"rank_low", "p_adjusted"} <= set(table.columns)
    assert "Net 2" in Path(found.report(tmp_path / "page.html")).read_text()


def test_labels_and_training_images_of_ones_own(x) -> None:
    labels, how = [index % 2 for index in range(16)], {"mean": 0, "std": 1, "profile": "quick", "attacked": 6}
    asked = {"measures": ["probe_accuracy"], **how}
    alone = holdfast.audit(network(), x, labels=labels, **asked)["probe_accuracy"]
    train = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    taught = holdfast.audit(network(), x, labels=torch.tensor(labels), train=train, train_labels=[0, 1] * 10, **asked)
    assert taught.data["data"]["train"]["images"] == 20
    assert (
        holdfast.audit(network(), Pairs(x), train=Pairs(train), **asked)["probe_accuracy"] == taught["probe_accuracy"]
    )
    assert alone.n == 6


@pytest.mark.slow
def test_workers_come_to_the_same(record, x) -> None:
    shared = holdfast.audit(network(), x, mean=0.5, std=0.25, workers=2, **FAST)
    assert "2" in shared.data["run"]["engine"]
    for name in record.measures:
        assert shared[name].value == pytest.approx(record[name].value)


def run(*code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", *code], capture_output=True, text=True, check=False)


def test_importing_is_light() -> None:
    code = "import sys, holdfast; print(dir(holdfast)); bad = {'torch', 'numpy', 'rich', 'importlib.metadata'}; "
    ended = run(code + "assert not bad & set(sys.modules); holdfast.adit")
    assert "has no attribute 'adit'" in ended.stderr
    assert {"audit", "compare", "open", "__version__"} <= set(ast.literal_eval(ended.stdout))


@pytest.mark.slow
def test_the_function_audit_is_one_in_any_order_of_imports() -> None:
    code = """
import inspect, sys
if sys.argv[1] == "first":
    import holdfast.auditing.plan
import holdfast
assert "mean" in inspect.signature(holdfast.audit).parameters
from holdfast import compare, open, Record, Comparison
from holdfast import audit
from holdfast.auditing.plan import Plan
import holdfast.auditing.plan as plan
assert audit is holdfast.audit and callable(audit) and plan.Plan is Plan is holdfast.auditing.plan.Plan
assert holdfast.__version__.count(".") == 2
"""
    for order in ("first", "last"):
        ended = run(code, order)
        assert ended.returncode == 0, ended.stderr
