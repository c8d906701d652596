"""Images and captions on hand-made representations: ranks by loops, the failure beside them, files that are none."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from holdfast.core import Ball, Encoder, HoldfastError, Observation, Rng, Shard
from holdfast.numerics.geometry import cross_modal
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.failures.miscaptioned import Miscaptioned
from holdfast.parts.measures.retrieval.caption_retrieval import CaptionRetrieval
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadData, BadValue, Mismatch, Missing, NotEnough, Unsupported
from holdfast.workflows.embed_captions import embed_captions
from searched import Unsearched

N, M, DIM = 12, 8, 4
QUERIES = ("clean", "worst found")


@dataclass
class Given(Unsearched):
    """A subject whose representations are given."""

    clean: Tensor
    points: list[Tensor]
    encoder: Encoder = field(default_factory=lambda: Encoder(nn.Flatten(), mean=0, std=1))
    seed: int = 0
    attacked: int = M
    population: int = N
    ids: list[str] = field(default_factory=lambda: [f"image {i}" for i in range(N)])

    def collect_points(self, ball: Ball) -> list[Tensor]:
        return self.points

    def read(self, observation: Observation) -> dict[str, Tensor]:
        assert observation == Clean()
        return {"reps": self.clean}


def file(folder: Path, embeddings: Tensor, ids: Any, name: str = "captions") -> str:
    path = folder / f"{name}.safetensors"
    save_file({"embeddings": embeddings.contiguous()}, path, {"ids": json.dumps(ids)})
    return str(path)


@pytest.fixture
def known(tmp_path: Path) -> tuple[Given, str, Tensor, list[int]]:
    """Images with one to three captions each, one text that two images share, one of an image that nobody knows."""
    random = torch.Generator().manual_seed(3)
    clean = torch.randn(N, DIM, generator=random)
    owners = [i for i in range(N) for _ in range(1 + i % 3)]
    texts = clean[owners] + 1.5 * torch.randn(len(owners), DIM, generator=random)
    texts[-1] = texts[0]
    texts, owners = torch.cat([texts, torch.randn(1, DIM, generator=random)]), [*owners, -1]
    points = [clean[:M, None].double() + torch.randn(M, 2, DIM, generator=random).double() for _ in range(2)]
    points[0][2:, 1], points[1] = torch.nan, points[1][:5]
    ids = [f"image {i}" if i >= 0 else "of another folder" for i in owners]
    return Given(clean, points), file(tmp_path, texts, ids), texts, owners


def cosine(a: Tensor, b: Tensor) -> float:
    a, b = a.double().numpy(), b.double().numpy()
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def image_rank(rep: Tensor, own: int, texts: Tensor, owners: list[int]) -> int:
    """1 + how many texts of others are nearer than the nearest own one."""
    best = max(cosine(rep, text) for text, owner in zip(texts, owners, strict=True) if owner == own)
    others = [text for text, owner in zip(texts, owners, strict=True) if owner != own]
    return 1 + sum(cosine(rep, text) > best + 1e-9 for text in others)


def text_rank(text: Tensor, own: int, rep: Tensor, clean: Tensor) -> int:
    """1 + how many other clean images are nearer to a text than its attacked one."""
    reached = cosine(text, rep)
    return 1 + sum(cosine(text, clean[j]) > reached + 1e-9 for j in range(len(clean)) if j != own)


def met(subject: Given, i: int) -> list[Tensor]:
    """All representations that image i was seen at, its own first."""
    points = [p[i, t] for p in subject.points if i < len(p) for t in range(p.shape[1])]
    return [subject.clean[i], *(point for point in points if not point.isnan().any())]


def test_both_directions_are_ranked_as_by_loops(known, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, path, texts, owners = known
    monkeypatch.setattr(cross_modal, "ENTRIES", 40)  # a few queries at a time
    measure = CaptionRetrieval(path=path, k=(1, 3), attack=Pgd(4))
    table = measure.observe(subject)
    scores = measure.score(table)
    asked = [(text, owner) for text, owner in zip(texts, owners, strict=True) if 0 <= owner < M]
    for query in QUERIES:
        seen = [met(subject, i)[: 1 if query == "clean" else None] for i in range(M)]
        by_image = np.array([max(image_rank(rep, i, texts, owners) for rep in seen[i]) for i in range(M)])
        by_text = np.array([max(text_rank(t, i, rep, subject.clean) for rep in seen[i]) for t, i in asked])
        assert table[f"rank@{query}"].tolist() == by_image.tolist()
        columns = torch.stack([table[f"text rank {number}@{query}"] for number in (1, 2, 3)], 1)
        assert columns[~columns.isnan()].tolist() == by_text.tolist()
        assert len(set(by_image)) > 2
        assert len(set(by_text)) > 3
        for direction, ranks in (("image to text", by_image), ("text to image", by_text)):
            for k in (1, 3):
                assert scores[f"{direction} recall@{k}, {query}"].value == pytest.approx((ranks <= k).mean())
            assert scores[f"{direction} mean reciprocal rank, {query}"].value == pytest.approx((1 / ranks).mean())
    assert list(scores)[-1] == "image to text mean reciprocal rank, worst found"
    assert scores["text to image recall@1, clean"].n == M  # captions of one image are one unit
    assert table["captions"].unique().tolist() == [len(texts)]


def test_what_each_image_contributes_is_what_it_leaves_behind(known) -> None:
    """By leaving its captions out of the index of all others, and itself out of the queries."""
    subject, path, texts, owners = known
    measure = CaptionRetrieval(path=path, k=(1,), attack=Pgd(4))
    table = measure.observe(subject)
    for query in QUERIES:
        seen = [met(subject, i)[: 1 if query == "clean" else None] for i in range(M)]
        ranks = [[image_rank(rep, i, texts, owners) for rep in seen[i]] for i in range(M)]
        worst = [max(own) for own in ranks]
        others = []
        for left in range(M):
            known_to = [owner if owner != left else -2 for owner in owners]
            kept = [place for place, owner in enumerate(known_to) if owner != -2]
            without = [
                worst[i]
                if i == left
                else image_rank(seen[i][ranks[i].index(worst[i])], i, texts[kept], [owners[place] for place in kept])
                for i in range(M)
            ]
            others.append((1 / np.array(without)).mean())
        expected = 1 / np.array(worst) - M * (np.array(others) - np.mean(others))
        np.testing.assert_allclose(table[f"parts@{query}"], expected)
        assert float(table[f"parts@{query}"].mean()) == pytest.approx(float(table[f"reciprocal@{query}"].mean()))
    assert not np.allclose(table["parts@worst found"], table["reciprocal@worst found"])


@pytest.mark.parametrize("query", ["image", "text"])
@pytest.mark.parametrize("k", [1, 3])
def test_miscaptioned_is_what_recall_misses(known, query: str, k: int) -> None:
    subject, path, texts, owners = known
    rows = torch.arange(M)
    shard = Shard(subject.encoder, torch.zeros(M, 1, 2, 2), rows, Rng(0, ids=tuple(subject.ids[:M])), subject.clean)
    moved = torch.randn(M, DIM, generator=torch.Generator().manual_seed(8))
    event = Miscaptioned(path, k, query).bind(shard)
    if query == "image":
        missed = [image_rank(moved[i], i, texts, owners) > k for i in range(M)]
    else:
        own = [[text for text, owner in zip(texts, owners, strict=True) if owner == i] for i in range(M)]
        missed = [all(text_rank(t, i, moved[i], subject.clean) > k for t in own[i]) for i in range(M)]
    assert 0 < sum(missed) < M
    assert (event(moved[:, None], rows).squeeze(1) > 0).tolist() == missed
    part = torch.tensor([5, 2])
    torch.testing.assert_close(event(moved[part, None], part), event(moved[:, None], rows)[part])
    clean = event(subject.clean[:M, None], rows).squeeze(1)
    torch.testing.assert_close(clean.abs(), torch.ones_like(clean))


def test_a_shared_text_is_no_plateau(tmp_path: Path) -> None:
    """Image 0 shares its text with image 1: the third text is the rival, and has a gradient."""
    clean = torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0]])
    path = file(tmp_path, torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), ["a", "b", "c"])
    shard = Shard(
        Given(clean, []).encoder, torch.zeros(3, 1, 1, 2), torch.arange(3), Rng(0, ids=("a", "b", "c")), clean
    )
    event, reps = Miscaptioned(path).bind(shard), clean[:1, None].clone().requires_grad_()
    value = event(reps, torch.tensor([0]))
    (slope,) = torch.autograd.grad(value.sum(), reps)
    assert value.item() == pytest.approx(-1)
    assert slope.abs().sum() > 0.5
    assert event(torch.tensor([[[0.5, 0.6]]]), torch.tensor([0])).item() > 0


def test_an_attack_on_the_event_finds_what_drift_does_not(tmp_path: Path) -> None:
    """f is the identity on two pixels: moving along the own text goes far, and loses nothing."""
    identity = Encoder(nn.Flatten(), mean=0, std=1)
    x = torch.tensor([[0.5, 0.4], [0.2, 0.9]]).view(2, 1, 1, 2)
    path = file(tmp_path, torch.eye(2), ["a", "b"])
    shard = Shard(identity, x, torch.arange(2), Rng(0, ids=("a", "b")), x.flatten(1))
    for ball, lost in ((Linf(0.04), [False, False]), (Linf(0.06), [True, False]), (Linf(0.36), [True, True])):
        for query in ("image", "text"):
            value = Broken(Pgd(20), ball, Miscaptioned(path, 1, query)).run(shard)["value"]
            if query == "image":  # the diagonal is crossed once pixels that differ by d may move by d / 2
                assert (value > 0).tolist() == lost


def test_each_direction_and_number_of_results_is_pursued(known) -> None:
    _, path, *_ = known
    measure = CaptionRetrieval(path=path, k=(1, 3), attack=Pgd(4))
    image, text = (measure.rank_searches[way, 3] for way in ("image to text", "text to image"))
    assert image.failure == Miscaptioned(path, 3, "image")
    assert text.failure == Miscaptioned(path, 3, "text")
    assert measure.relies_on("image to text recall@3, worst found") == image.searches
    assert measure.relies_on("text to image recall@3, worst found") == text.searches
    assert measure.relies_on("text to image recall@3, clean") == ()
    of_texts = (measure.rank_searches["text to image", 1], text)
    assert measure.relies_on("text to image mean reciprocal rank, worst found") == tuple(
        search for observation in of_texts for search in observation.searches
    )
    assert len(measure.searches) == 5
    assert [chart.title for chart in measure.charts(measure.observe(known[0]), {})] == [
        "image to text",
        "text to image",
    ]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda e, i: (e[3:], i[3:]), Mismatch, "2 of 12"),
        (lambda e, i: (e, [*i[:-1], "x", "y"]), BadData, "got 26"),
        (lambda e, i: (e, "image 0"), BadData, "embeddings"),
        (lambda e, i: (e[:0], []), BadData, "--captions"),
        (lambda e, i: (e[:, None], i), BadData, "embeddings"),
        (lambda e, i: (torch.cat([e, e], 1), i), Mismatch, "8 dimensions"),
        (lambda e, i: (e * (torch.arange(25) != 1)[:, None], i), BadData, "caption 2"),
    ],
)
def test_captions_that_do_not_fit_are_refused(
    known, change, kind: type[HoldfastError], message: str, tmp_path: Path
) -> None:
    subject, _, texts, owners = known
    ids = [f"image {i}" for i in owners]
    measure = CaptionRetrieval(path=file(tmp_path, *change(texts, ids), name="other"), k=(1,))
    with pytest.raises(kind, match=message):
        measure.observe(subject)


def test_names_are_no_captions(known, tmp_path: Path) -> None:
    save_file({"embeddings": torch.eye(4)[:, None].contiguous(), "weight": torch.eye(4)}, tmp_path / "n.safetensors")
    with pytest.raises(BadData, match=r"\[4, 1, 4\]"):
        CaptionRetrieval(path=str(tmp_path / "n.safetensors")).observe(known[0])
    with pytest.raises(Missing, match="captions"):
        CaptionRetrieval().observe(known[0])


def test_indexes_of_few_have_no_recall(known) -> None:
    subject, path, *_ = known
    with pytest.raises(NotEnough, match="got 11"):
        CaptionRetrieval(path=path, k=(11,)).observe(subject)
    with pytest.raises(BadValue, match="query"):
        Miscaptioned(path, query="imag")


@pytest.mark.parametrize(
    ("text", "name", "kind", "message"),
    [
        ("", "c.csv", BadData, "empty"),
        ("image,caption\na,b\n", "c.csv", BadData, "'image'"),
        ("id,caption\na,b\n", "c.tsv", BadData, "'id,caption'"),
        ("id,caption\n", "c.csv", BadData, "captions"),
        ("id,caption\na,\n", "c.csv", BadData, "row 1"),
        ("id,caption\na,b\n,c\n", "c.csv", BadData, "row 2"),
        ("id,caption\na,b\na,b\n", "c.csv", BadData, "'b'"),
        ("id\tcaption\na\tb, c\n", "c.tsv", Unsupported, "tower"),
        (None, "absent.csv", BadData, r"absent\.csv"),
    ],
)
def test_tables_that_are_none_are_refused(
    text: str | None, name: str, kind: type[HoldfastError], message: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(kind, match=message):
        embed_captions("zoo:digits-simclr", tmp_path / name, out=tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_other_places_and_codes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("id,caption\na,Füße\n".encode("latin-1"))
    with pytest.raises(BadData, match="UTF-8"):
        embed_captions("zoo:digits-simclr", tmp_path / "latin.csv", out=tmp_path / "out.safetensors")
    with pytest.raises(BadValue, match="out"):
        embed_captions("zoo:digits-simclr", [("a", "b")], out=tmp_path / "out.npz")
