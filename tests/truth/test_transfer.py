"""Transferred attacks where the right answer is known: copies, rotations, encoders that read other pixels, lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Geometry, Passes, Rng
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.transfer_order import TransferOrder
from holdfast.parts.measures.transfer.transfer_quantile import TransferQuantile
from holdfast.parts.measures.transfer.transfer_rate import TransferRate
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked_images import AttackedImages
from holdfast.parts.observations.transferred import Transferred
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue
from holdfast.sources.data.arrays import Arrays
from json_records import run_audit

SHAPE, COUNT, ATTACKED, EPS = (1, 4, 6), 40, 12, 0.1
BALL = Linf(EPS)
APGD = Apgd(10)
ASKED = {"ball": BALL, "asking": Square(20)}


class Read(nn.Module):
    """A function of the pixels, flat, as a network."""

    def __init__(self, read: Callable[[Tensor], Tensor], weights: Tensor | None = None):
        super().__init__()
        self.read = read
        self.weights = nn.Parameter(torch.zeros(1) if weights is None else weights)  # what fingerprints tell apart

    def forward(self, x: Tensor) -> Tensor:
        return self.read(x)


def matrix(rows: int, columns: int, seed: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) / columns**0.5


def linear(weights: Tensor, name: str) -> Encoder:
    return Encoder(Read(lambda x: x.flatten(1) @ weights.T, weights), mean=0, std=1, name=name)


def pictures(shape: tuple[int, ...] = SHAPE) -> Tensor:
    """Images so far from black and white that the box cuts nothing off the ball."""
    return 0.2 + 0.6 * torch.rand(COUNT, *shape, generator=torch.Generator().manual_seed(0))


def audit(folder: Path, audited: Encoder, *others: Encoder, x: Tensor | None = None, measures=(), **plan: Any) -> dict:
    encoders = {encoder.name: encoder for encoder in (audited, *others)}
    asked = Plan(
        (audited.name,), "arrays", tuple(measures), images=COUNT, attacked=ATTACKED, **{"batch_size": 8, **plan}
    )
    record = run_audit(asked, folder, encoders=encoders, source=Arrays(pictures() if x is None else x))
    assert record["failures"] == []
    return record


def columns(folder: Path, record: dict, measure: str, encoder: int = 0) -> dict[str, Tensor]:
    table = pq.read_table(folder / record["encoders"][encoder]["measures"][measure]["table"])
    names = (name for name in table.column_names if name != "id")
    return {name: torch.tensor(table[name].to_pylist(), dtype=torch.float64) for name in names}


def drifts(folder: Path, audited: Encoder, *others: Encoder, attack=APGD, x=None) -> dict[str, Tensor]:
    names = tuple(other.name for other in others)
    asked = TransferQuantile(names, attack=attack, **ASKED)
    table = columns(folder, audit(folder, audited, *others, x=x, measures=[asked]), "transfer_quantile")
    return {name[6:]: values[:ATTACKED] for name, values in table.items() if name.startswith("drift@")}


def test_a_copy_as_surrogate_is_the_whitebox_attack_to_the_last_bit(tmp_path: Path) -> None:
    weights = matrix(8, 24, 1)
    audited, copy = linear(weights, "audited"), linear(weights.clone(), "copy")
    asked = [kind(("copy", "audited"), attack=Apgd(10), **ASKED) for kind in (TransferRate, TransferQuantile)]
    record = audit(tmp_path, audited, copy, measures=asked)
    for name, column in (("transfer_rate", "fails"), ("transfer_quantile", "drift")):
        table = columns(tmp_path, record, name)
        for source in ("from copy", "from audited"):
            torch.testing.assert_close(
                table[f"{column}@{source}"], table[f"{column}@whitebox"], rtol=0, atol=0, equal_nan=True
            )
            assert bool(table[f"same@{source}"].all())
        scores = record["encoders"][0]["measures"][name]["scores"]
        assert "the encoder itself" in scores["from copy"]["note"]
        assert scores["any surrogate"]["value"] is None  # there is no other encoder
        assert scores["whitebox - any surrogate"]["value"] is None


def test_a_rotated_copy_is_as_good(tmp_path: Path) -> None:
    """Drift in l2 does not change with a rotation, so the same images are worst."""
    weights, rotation = matrix(8, 24, 1), torch.linalg.qr(matrix(8, 8, 2).double()).Q.float()
    seen = drifts(tmp_path, linear(weights, "audited"), linear(rotation @ weights, "rotated"))
    torch.testing.assert_close(seen["from rotated"], seen["whitebox"], rtol=1e-4, atol=0)
    torch.testing.assert_close(seen["any surrogate"], seen["from rotated"])  # it is another encoder


def test_nothing_transfers_from_pixels_that_are_not_read(tmp_path: Path) -> None:
    left, right = matrix(8, 12, 1), matrix(8, 12, 2)
    audited = Encoder(Read(lambda x: x[..., 3:].flatten(1) @ right.T, right), mean=0, std=1, name="right")
    other = Encoder(Read(lambda x: x[..., :3].flatten(1) @ left.T, left), mean=0, std=1, name="left")
    seen = drifts(tmp_path, audited, other, attack=Pgd(10, start="nudge"))  # from the image itself, not a random point
    assert seen["from left"].tolist() == [0.0] * ATTACKED
    assert float(seen["whitebox"].min()) > 0.01


def test_from_a_line_the_drift_is_known(tmp_path: Path) -> None:
    """The worst image for w·x is x ± ε sign(w), and both signs move a linear encoder W by ε ‖W sign(w)‖."""
    line, weights = matrix(1, 24, 3), matrix(8, 24, 1)
    seen = drifts(tmp_path, linear(weights, "audited"), linear(line, "line"), attack=Pgd(20))
    expected = EPS * (weights @ line[0].sign()).norm()
    torch.testing.assert_close(seen["from line"], expected.expand(ATTACKED).double(), rtol=1e-4, atol=0)
    assert bool((seen["whitebox"] > seen["from line"]).all())


def test_any_surrogate_is_the_worst_of_each_image(tmp_path: Path) -> None:
    audited = linear(matrix(8, 24, 1), "audited")
    others = [linear(matrix(8, 24, seed), f"other {seed}") for seed in (2, 3, 4)]
    names = tuple(other.name for other in (*others, audited))
    record = audit(
        tmp_path,
        audited,
        *others,
        measures=[kind(names, Apgd(10), **ASKED) for kind in (TransferRate, TransferQuantile)],
    )
    for measure, column in (("transfer_rate", "fails"), ("transfer_quantile", "drift")):
        table = columns(tmp_path, record, measure)
        each = torch.stack([table[f"{column}@from {other.name}"][:ATTACKED] for other in others])
        worst = torch.tensor([max(values) for values in each.T.tolist()])
        torch.testing.assert_close(table[f"{column}@any surrogate"][:ATTACKED], worst.to(each))
    # counted by hand from the representations: another clean image is nearer than the own one
    scores = record["encoders"][0]["measures"]["transfer_rate"]["scores"]
    fails = columns(tmp_path, record, "transfer_rate")
    assert scores["any surrogate"]["value"] == pytest.approx(float(fails["fails@any surrogate"].mean()))
    assert scores["whitebox - any surrogate"]["value"] == pytest.approx(
        scores["whitebox"]["value"] - scores["any surrogate"]["value"]
    )


def test_failures_are_those_of_the_audited_encoder(tmp_path: Path) -> None:
    """The images of `AttackedImages`, found here by the surrogate alone, are judged by hand."""
    audited, other = linear(matrix(8, 24, 1), "audited"), linear(matrix(8, 24, 2), "other")
    record = audit(tmp_path, audited, other, measures=[TransferRate(("other",), Apgd(10), **ASKED)])
    ids = pq.read_table(tmp_path / record["encoders"][0]["measures"]["transfer_rate"]["table"])["id"].to_pylist()
    x = pictures()[[int(i.split("/")[-1].split("-")[-1]) for i in ids]] if all(i[-1].isdigit() for i in ids) else None
    assert x is not None
    with torch.no_grad():
        clean, everything = other(x), audited(pictures()).double()
    goal = Untargeted().pursue(other, clean)
    attacked = Apgd(10)(goal, x, BALL, Rng(0, ids=tuple(ids)), (10,)).images[10]
    with torch.no_grad():
        reps, own = audited(attacked).double(), audited(x).double()
    apart, mine = torch.cdist(reps, everything), (reps - own).norm(dim=1)
    by_hand = (apart < mine[:, None] - 1e-9).any(1)
    assert columns(tmp_path, record, "transfer_rate")["fails@from other"].bool().tolist() == by_hand.tolist()


def test_the_ball_is_of_the_audited_pixels_where_sizes_and_channels_differ(tmp_path: Path) -> None:
    """The surrogate is f_s ∘ resize ∘ grey, attacked as if it were written by hand."""
    weights, small = matrix(8, 3 * 8 * 8, 1), matrix(5, 4 * 4, 2)
    audited = linear(weights, "audited")
    x = pictures((3, 8, 8))
    geometry = Geometry((4, 4), channels=1)
    other = Encoder(Read(lambda x: x.flatten(1) @ small.T, small), mean=0.5, std=0.25, geometry=geometry, name="small")

    def composed(x: Tensor) -> Tensor:
        grey = 0.299 * x[:, :1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:]
        scaled = F.interpolate(grey, (4, 4), mode="bilinear", antialias=True, align_corners=False)
        return ((scaled - 0.5) / 0.25).flatten(1) @ small.T

    by_hand = Encoder(Read(composed, small), mean=0, std=1, name="by hand")
    seen = drifts(tmp_path, audited, other, by_hand, x=x)
    torch.testing.assert_close(seen["from small"], seen["from by hand"], rtol=1e-3, atol=0)
    assert float(seen["from small"].min()) > 0
    # the other way round: a colour surrogate of another size on grey images
    colour = Encoder(
        Read(lambda x: x.flatten(1) @ weights.T, weights), mean=0, std=1, geometry=Geometry((8, 8)), name="colour"
    )
    assert float(drifts(tmp_path / "grey", linear(matrix(8, 24, 1), "audited"), colour)["from colour"].min()) > 0


class Counted(nn.Module):
    """A linear network that counts the images that it sees, and those whose gradient it gives."""

    def __init__(self, weights: Tensor):
        super().__init__()
        self.weights, self.passes = nn.Parameter(weights), Passes()

    def forward(self, x: Tensor) -> Tensor:
        self.passes += Passes(forward=len(x))
        if x.requires_grad:
            x.register_hook(self._back)
        return x.flatten(1) @ self.weights.T

    def _back(self, gradient: Tensor) -> None:
        self.passes += Passes(backward=len(gradient))


def test_passes_of_both_encoders_are_counted_and_each_source_is_attacked_once(tmp_path: Path) -> None:
    networks = {name: Counted(matrix(8, 24, seed)) for seed, name in enumerate("abc")}
    encoders = {name: Encoder(network, mean=0, std=1, name=name) for name, network in networks.items()}
    attack = Apgd(5)
    asked = TransferRate(tuple("abc"), attack, **ASKED)
    plan = Plan(tuple("abc"), "arrays", (asked,), images=COUNT, attacked=ATTACKED, batch_size=8)
    record = run_audit(plan, tmp_path, encoders=encoders, source=Arrays(pictures()))
    assert record["failures"] == []
    assert record["run"]["resumed_shards"] == 0
    for entry in record["encoders"]:
        for observation in entry["observations"]:
            assert observation["passes"] == observation["predicted"], observation["title"]
        assert {key: entry["passes"][key] for key in ("forward", "backward", "bounds")} == entry["passes"]["predicted"]
    # N attacks on surrogates, N² judgements, and what each encoder costs by itself; grey images of trials are uncounted
    own = attack.passes + ASKED["asking"].passes
    once = Passes(forward=1) + attack.passes  # its images, for whoever is judged
    for network in networks.values():
        wanted = Passes(forward=COUNT) + (own + once + Passes(forward=3)) * ATTACKED
        assert network.passes.backward == wanted.backward
        assert wanted.forward <= network.passes.forward <= wanted.forward + 2 * 3 * 3  # trials


def test_shards_follow_the_weights_of_the_surrogate(tmp_path: Path) -> None:
    """Another surrogate of the same name in the same folder makes other images."""
    audited = linear(matrix(8, 24, 1), "audited")
    first = drifts(tmp_path, audited, linear(matrix(8, 24, 2), "other"))
    (tmp_path / "record.json").unlink()
    (tmp_path / "plan.json").unlink()
    again = drifts(tmp_path, audited, linear(matrix(8, 24, 3), "other"))
    assert not torch.equal(first["from other"], again["from other"])
    torch.testing.assert_close(first["whitebox"], again["whitebox"])


@pytest.mark.sweep(2)
@pytest.mark.parametrize("batch_size", [3, 64])
def test_batches_change_nothing(batch_size: int, tmp_path: Path) -> None:
    audited, other = linear(matrix(8, 24, 1), "audited"), linear(matrix(8, 24, 2), "other")
    asked = [TransferQuantile(("other",), Apgd(5), **ASKED)]
    records = [audit(tmp_path / str(b), audited, other, measures=asked, batch_size=b) for b in (8, batch_size)]
    tables = [columns(tmp_path / str(b), r, "transfer_quantile") for b, r in zip((8, batch_size), records, strict=True)]
    torch.testing.assert_close(*(table["drift@from other"] for table in tables), rtol=1e-5, atol=0, equal_nan=True)


def test_what_transfers_counts_for_others_in_the_same_ball() -> None:
    seen = {"reps": torch.ones(2, 3), "same": torch.zeros(2)}
    transferred = Transferred(AttackedImages("zoo:digits-simclr", ball=Linf(0.1)))
    assert transferred.collect_points(Linf(0.1), seen).shape == (2, 1, 3)
    assert transferred.collect_points(Linf(0.05), seen) is None


def masked(name: str) -> Encoder:
    """A linear encoder whose gradient points nowhere useful: the sign of a few pixels, behind which all others hide."""
    weights = matrix(8, 24, 1)

    def read(x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return (flat @ weights.T).detach() + 1e-3 * flat[:, :8]

    return Encoder(Read(read, weights), mean=0, std=1, name=name)


def test_an_attack_that_gets_farther_from_outside_says_that_gradients_are_masked(tmp_path: Path) -> None:
    open_copy = linear(matrix(8, 24, 1) + 0.01 * matrix(8, 24, 5), "open")
    asked = TransferRate(("open",), Apgd(10), **ASKED)
    (check,) = TransferOrder.checks_for(_examination(asked))
    for audited, status in ((masked("masked"), "fail"), (linear(matrix(8, 24, 1), "plain"), "pass")):
        record = audit(tmp_path / audited.name, audited, open_copy, measures=[asked], checks=(check,))
        (entry,) = record["encoders"]
        assert entry["checks"]["transfer_order"]["status"] == status
        scores = entry["measures"]["transfer_rate"]["scores"]
        assert scores["whitebox"]["standing"] == ("at least" if status == "fail" else "sound")
        assert scores["any surrogate"]["standing"] == "sound"  # it relies on no search on this encoder


def _examination(*measures: Any) -> Any:
    from holdfast.core import Examination

    return Examination(tuple(measures), 4, 20)


class Rounded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1)[:, :8] * 20).round() + 0 * x.flatten(1)[:, :8]


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (Rounded(), "expected gradients with respect to the pixels, got zeros alone"),
        (Read(lambda x: x.flatten(1).detach()), "has no gradient with respect to the pixels"),
        (Read(lambda x: x.flatten(1) / 0), "expected finite representations, got NaN or infinity"),
        (nn.Sequential(nn.Flatten(), nn.Linear(7, 3)), "expected an encoder that takes images [1, 4, 6]"),
    ],
)
def test_surrogates_that_cannot_be_attacked(network: nn.Module, words: str, tmp_path: Path) -> None:
    other = Encoder(network, mean=0, std=1, name="other")
    asked = Plan(
        ("it",), "arrays", (TransferRate(("other",), Apgd(3), **ASKED),), images=COUNT, attacked=ATTACKED, batch_size=8
    )
    encoders = {"it": linear(matrix(8, 24, 1), "it"), "other": other}
    record = run_audit(asked, tmp_path, encoders=encoders, source=Arrays(pictures()))
    (failure,) = set(record["failures"])
    assert words in failure
    assert "\n" not in failure
    assert words in record["encoders"][0]["measures"]["transfer_rate"]["error"]


def test_odd_parameters() -> None:
    from holdfast.parts.objectives.targeted import Targeted

    with pytest.raises(BadValue, match="transfer_rate"):
        TransferRate(("a", "a"))
    with pytest.raises(BadValue, match="attacked_images"):
        TransferRate(objective=Targeted())
    assert TransferRate(("zoo:digits-simclr?label=mine",)).names == ("from mine",)
