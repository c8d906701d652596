"""Class names as a classifier: the probe against cosines one by one, and both text towers with local weights."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import Tensor

import holdfast
from holdfast.core import HoldfastError
from holdfast.numerics.geometry.class_directions import directions
from holdfast.parts.probes.zero_shot import ZeroShot
from holdfast.runtime.errors import BadData, BadValue, Mismatch, Unsupported
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.encoders import open_encoder, open_texts
from holdfast.workflows.embed_captions import embed_captions
from holdfast.workflows.embed_names import embed_names

pytestmark = pytest.mark.filterwarnings(  # raised while third-party packages are imported
    "ignore::DeprecationWarning", "ignore::FutureWarning"
)

WORDS = ("a", "photo", "of", "one", "cat", "dog", "fox", "an", "owl", "drawing")
NAMES = ["cat", "dog", "owl"]
TEMPLATES = ["a photo of a {}", "a drawing of one {}"]


def by_cosine(prompts: Tensor, reps: Tensor) -> Tensor:
    """The class of each image by cosine with the mean of unit prompts, one by one."""
    similar = torch.empty(len(reps), len(prompts))
    for c, own in enumerate(prompts):
        mean = torch.stack([text / text.norm() for text in own]).mean(0)
        for i, rep in enumerate(reps):
            similar[i, c] = torch.nn.functional.cosine_similarity(mean, rep, dim=0)
    return similar.argmax(1)


@pytest.mark.parametrize("prompts", [1, 3])
def test_the_first_class_is_the_nearest_by_cosine(prompts: int, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(5, prompts, 7, generator=generator) * torch.tensor([0.1, 1, 5, 20, 100])[:, None, None]
    reps = torch.randn(200, 7, generator=generator)
    save_file({"embeddings": embeddings if prompts > 1 else embeddings[:, 0].clone()}, tmp_path / "names.safetensors")
    head = ZeroShot(str(tmp_path / "names.safetensors")).fit(reps, torch.arange(5))
    assert torch.equal(head.scores(reps).argmax(1), by_cosine(embeddings, reps))


@pytest.mark.parametrize(
    ("embeddings", "label", "kind", "message"),
    [
        (torch.ones(3), 0, BadData, "embeddings"),
        (torch.ones(1, 4), 0, BadData, "2 classes"),
        (torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0]]), 0, BadData, "class 1"),
        (torch.tensor([[torch.nan, 0, 0, 0], [0, 0, 0, 1]]), 0, BadData, "class 0"),
        (torch.tensor([[[1.0, 0, 0, 0], [-1, 0, 0, 0]], [[1, 0, 0, 0], [1, 0, 0, 0]]]), 0, BadData, "prompts"),
        (torch.eye(5), 0, Mismatch, "5 dimensions"),
        (torch.eye(4), 4, Mismatch, "4 names"),
    ],
)
def test_what_is_no_classifier_is_refused(
    embeddings: Tensor, label: int, kind: type[HoldfastError], message: str, tmp_path: Path
) -> None:
    save_file({"embeddings": embeddings}, tmp_path / "names.safetensors")
    with pytest.raises(kind, match=message):
        ZeroShot(str(tmp_path / "names.safetensors")).fit(torch.ones(1, 4), torch.tensor([label]))


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.eye(4)}, tmp_path / "head.safetensors")
    with pytest.raises(BadData, match="embeddings"):
        ZeroShot(str(tmp_path / "head.safetensors")).fit(torch.ones(1, 4), torch.tensor([0]))


@pytest.mark.slow
def test_an_audit_measures_how_names_hold(tmp_path: Path) -> None:
    """Mean representations of digits stand for names: clean images are classified by cosine, attacked ones worse."""
    encoder, digits = open_encoder("zoo:digits-supervised"), cast(Any, load_digits())
    x, labels = torch.tensor(digits.images / 16).float()[:, None], torch.tensor(digits.target)
    with torch.no_grad():
        reps = encoder(x)
    means = torch.stack([reps[:1000][labels[:1000] == c].mean(0) for c in range(10)])
    save_file({"embeddings": means}, tmp_path / "names.safetensors")
    probe = f"probe=zero_shot[path={tmp_path / 'names.safetensors'}]"
    tested = slice(1000, 1060)
    record = holdfast.audit(
        "zoo:digits-supervised",
        x[tested],
        labels=labels[tested],
        attacked=60,
        measures=[f"probe_accuracy[{probe}]", f"robust_accuracy[{probe}]"],
        budget="none",
        quiet=True,
    )
    right = by_cosine(means[:, None], reps[tested]) == labels[tested]
    clean, attacked = (record.scores(name) for name in ("probe_accuracy", "robust_accuracy"))
    assert clean["top-1"].value == attacked["no attack"].value == pytest.approx(right.float().mean().item())
    assert float(attacked["after all"].value or 0) < 0.6


def searched_with_captions(spec: str, folder: Path) -> None:
    """Captions of twelve images, two of which share one: points as of names, and ranks by cosine."""
    said = [f"a {word} of one {name}" for word in ("photo", "drawing") for name in (*NAMES, "fox", "an")] * 2
    rows = [(f"{i:06d}", said[i]) for i in range(12)]
    table = "\n".join(["other,id,caption", *(f"x,{image},{text}" for image, text in rows)])
    (folder / "captions.csv").write_text(table)
    out = embed_captions(spec, folder / "captions.csv", out=folder / "captions.safetensors")
    with safe_open(out, "pt") as file:
        points, about = file.get_tensor("embeddings"), file.metadata()
    assert json.loads(about["ids"]) == [image for image, _ in rows]
    assert json.loads(about["captions"]) == [text for _, text in rows]
    torch.testing.assert_close(points, open_texts(spec)([text for _, text in rows]), rtol=1e-5, atol=1e-6)
    assert torch.equal(points[0], points[10])  # one text, one point
    x, encoder = torch.rand(12, 3, 16, 16, generator=torch.Generator().manual_seed(0)), open_encoder(spec)
    measure = f"caption_retrieval[path={out},k=[1,3],attack=pgd[steps=2]]"
    record = holdfast.audit(encoder, x, measures=measure, attacked=12, images=12, budget="none", quiet=True)
    with torch.no_grad():
        cosines = torch.nn.functional.normalize(encoder(x)) @ torch.nn.functional.normalize(points).T
    ranks = 1 + (cosines > cosines.diagonal()[:, None] + 1e-6).sum(1)
    assert record.scores("caption_retrieval")["image to text recall@3, clean"].value == pytest.approx(
        (ranks <= 3).double().mean().item()
    )


class TestTransformers:
    """A tiny dual encoder with a tokenizer of ten words, written to a folder."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        guard_torchvision()
        t: Any = pytest.importorskip("transformers")
        tokenizers: Any = pytest.importorskip("tokenizers")
        ids = {word: i for i, word in enumerate(("[PAD]", "[UNK]", *WORDS, "[EOS]"))}
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="[UNK]"))
        words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        end = [("[EOS]", ids["[EOS]"])]
        words.post_processor = tokenizers.processors.TemplateProcessing(single="$A [EOS]", special_tokens=end)
        tokenizer = t.PreTrainedTokenizerFast(
            tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]"
        )
        size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        text = {**size, "vocab_size": len(ids), "max_position_embeddings": 12, "eos_token_id": ids["[EOS]"]}
        vision = {**size, "image_size": 16, "patch_size": 8}
        torch.manual_seed(0)
        folder, square = tmp_path / "clip", {"height": 16, "width": 16}
        t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(folder)
        t.CLIPImageProcessor(size=square, crop_size=square).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    def test_names_are_embedded_as_transformers_does(self, folder: Path, tmp_path: Path) -> None:
        import transformers as t

        out = embed_names(f"hf:{folder}", NAMES, templates=TEMPLATES, out=tmp_path / "names.safetensors")
        with safe_open(out, "pt") as file:
            embeddings, weight, about = file.get_tensor("embeddings"), file.get_tensor("weight"), file.metadata()
        assert json.loads(about["names"]) == NAMES
        assert json.loads(about["templates"]) == TEMPLATES
        model: Any = t.CLIPModel.from_pretrained(folder)
        model, tokenizer = model.eval(), t.AutoTokenizer.from_pretrained(folder)
        for c, name in enumerate(NAMES):
            for i, template in enumerate(TEMPLATES):
                inputs = tokenizer([template.replace("{}", name)], return_tensors="pt")
                with torch.no_grad():
                    theirs = model.text_projection(model.text_model(**inputs).pooler_output)[0]
                torch.testing.assert_close(embeddings[c, i], theirs, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(weight, directions(embeddings, "names"))
        assert open_encoder(f"hf:{folder}")(torch.rand(1, 3, 16, 16)).shape == (1, 8)

    def test_captions_are_embedded_likewise_and_searched_with(self, folder: Path, tmp_path: Path) -> None:
        spec = f"hf:{folder}"
        searched_with_captions(spec, tmp_path)

    def test_a_text_that_would_be_cut_is_refused(self, folder: Path) -> None:
        tower = open_texts(f"hf:{folder}")
        assert tower(["a " * 10 + "cat"]).shape == (1, 8)
        with pytest.raises(BadValue, match="12 tokens"):
            tower(["cat", "a " * 11 + "cat"])


class TestOpenClip:
    """A tiny dual encoder of the package."""

    @pytest.fixture
    def spec(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        guard_torchvision()
        open_clip: Any = pytest.importorskip("open_clip")
        vision = {"image_size": 16, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8}
        text = {"width": 16, "heads": 2, "layers": 1, "context_length": 12, "vocab_size": 49408}
        config = {"embed_dim": 8, "vision_cfg": vision, "text_cfg": text}
        (tmp_path / "tiny-names.json").write_text(json.dumps(config))
        monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIG_PATHS", list(open_clip.factory._MODEL_CONFIG_PATHS))
        monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIGS", dict(open_clip.factory._MODEL_CONFIGS))
        open_clip.add_model_config(tmp_path)
        torch.manual_seed(1)
        save_file(open_clip.create_model("tiny-names").state_dict(), tmp_path / "w.safetensors")
        return f"openclip:tiny-names?weights={tmp_path / 'w.safetensors'}"

    def test_names_are_embedded_as_open_clip_does(self, spec: str, tmp_path: Path) -> None:
        open_clip: Any = pytest.importorskip("open_clip")
        out = embed_names(spec, NAMES, templates=TEMPLATES, out=tmp_path / "names.safetensors")
        with safe_open(out, "pt") as file:
            embeddings = file.get_tensor("embeddings")
        model = open_clip.create_model("tiny-names", pretrained=str(tmp_path / "w.safetensors")).eval()
        tokens = open_clip.get_tokenizer("tiny-names")([t.replace("{}", n) for n in NAMES for t in TEMPLATES])
        with torch.no_grad():
            torch.testing.assert_close(embeddings.flatten(0, 1), model.encode_text(tokens), rtol=1e-5, atol=1e-6)
        assert open_encoder(spec)(torch.rand(1, 3, 16, 16)).shape == (1, 8)

    @pytest.mark.slow
    def test_captions_are_embedded_likewise_and_searched_with(self, spec: str, tmp_path: Path) -> None:
        searched_with_captions(spec, tmp_path)

    def test_a_text_that_would_be_cut_is_refused(self, spec: str) -> None:
        with pytest.raises(BadValue, match="11 tokens"):
            open_texts(spec)(["a " * 20 + "cat"])


@pytest.mark.parametrize(
    ("names", "options", "kind", "message"),
    [
        (NAMES, {}, Unsupported, "tower"),
        (["cat"], {}, BadData, "got 1"),
        (["cat", " "], {}, BadData, "line 2"),
        (["cat", "dog", "cat"], {}, BadData, "'cat'"),
        (NAMES, {"templates": ["a photo"]}, BadValue, "templates"),
        (NAMES, {"templates": []}, BadValue, "templates"),
        ("absent.txt", {}, BadData, r"absent\.txt"),
        (NAMES, {"out": "names.npz"}, BadValue, "out"),
    ],
)
def test_names_that_make_no_classifier_are_refused(
    names: list[str] | str, options: dict[str, Any], kind: type[HoldfastError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        embed_names("zoo:digits-simclr", names, **{"out": tmp_path / "names.safetensors", **options})
    assert not list(tmp_path.iterdir())
