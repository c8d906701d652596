"""What the code that the papers' authors published gives for the inputs of `inputs.py`, kept in theirs.json.

    git clone https://github.com/wzekai99/RVCL            # and the other three of SOURCES, into one folder
    python -m benchmarks.same.theirs FOLDER

It takes torch 2.0, NumPy 1.26, pandas 1.5, cvxpy, scikit-learn, PyYAML and appdirs, and needs nothing of Holdfast: the
comparisons themselves read theirs.json. Nothing of the authors' code is changed but what it asks of the machine:
tensors stay on the CPU, packages that draw or download are stand-ins, one process loads images, and random starts and
draws are those of `inputs.py`.
"""

import ast
import collections
import collections.abc
import contextlib
import io
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.same import inputs

FILE = Path(__file__).with_name("theirs.json")

SOURCES = {
    "RVCL": ("https://github.com/wzekai99/RVCL", "MIT"),
    "unsupervised-robustness": ("https://github.com/AleksandarPetrov/unsupervised-robustness", "no licence stated"),
    "nppr": ("https://github.com/squarewang2077/nppr", "no licence stated"),
    "synbench": ("https://github.com/IBM/synbench", "Apache-2.0"),
}
"""Where the code is, and under which licence; the authors of the fifth paper published none."""

ABSENT = (
    "torchvision", "torchvision.datasets", "torchvision.transforms", "diffdist", "diffdist.functional", "seaborn",
    "oslo_concurrency", "timm", "matplotlib", "matplotlib.pyplot",
)  # fmt: skip
"""Packages that the authors import and that compute nothing here."""

Outputs = dict[str, Any]


def plain(value: Any) -> Any:
    """Return numbers as JSON has them: as many digits as their precision has."""
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    if isinstance(value, np.ndarray | np.generic):
        digits = 9 if value.dtype == np.float32 else 17
        return json.loads(json.dumps(value.tolist()), parse_float=lambda text: float(f"{float(text):.{digits}g}"))
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


@contextlib.contextmanager
def at_hand(folder: Path) -> Iterator[None]:
    """Let the modules of a repository be imported, on a CPU and without the packages that are absent."""
    kept, path = dict(sys.modules), list(sys.path)
    sys.modules.update({name: MagicMock() for name in ABSENT})
    sys.modules["torchvision.datasets"].ImageFolder = object  # type: ignore
    sys.path.insert(0, str(folder))
    # Where Python 3.9 and torch 1.6 had them
    collections.Sequence = collections.abc.Sequence  # type: ignore
    torch._C.Node.__getitem__ = lambda node, name: getattr(node, node.kindOf(name))(name)  # type: ignore
    try:
        with patch.object(Tensor, "cuda", lambda tensor, *_, **__: tensor):
            yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - set(kept):
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        sys.modules.update(kept)


def defined(path: Path, *names: str, **known: Any) -> SimpleNamespace:
    """Return functions of a script whose top level would train or download, with what they know of it."""
    found = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    exec(compile(ast.Module([found[name] for name in names], []), str(path), "exec"), known)
    return SimpleNamespace(**{name: known[name] for name in names})


def beginning(at: Tensor) -> Callable[..., Tensor]:
    """Return what stands for `Tensor.uniform_`: the starts of `inputs.py`, or given ones."""
    return lambda tensor, low=0.0, high=1.0: tensor.copy_(high * at)


# --- RVCL ---


def rvcl(folder: Path) -> Outputs:
    """Losses, attacks on representations, and bounds."""
    with at_hand(folder):
        package = ModuleType("rocl")  # its own beginning asks for data sets
        package.__path__ = [str(folder / "rocl")]
        sys.modules["rocl"] = package
        from rocl.attack_lib import RepresentationAdv  # type: ignore
        from rocl.loss import NT_xent, pairwise_similarity  # type: ignore

        found: Outputs = {}
        for name, kind, views in (("NT-Xent", "None", 2), ("RoCL", "Rep", 3)):
            z = inputs.single(inputs.normal(11, views * 6, 7))
            found[name] = NT_xent(pairwise_similarity(z, temperature=0.5, adv_type=kind)[0], kind)
        x, net = inputs.images(8), inputs.network()
        target, ends = inputs.images(8, seed=5), (torch.zeros(1), torch.ones(1))
        for name, kind in (("attack", "attack"), ("attack towards", "sim")):
            attack = RepresentationAdv(net, None, inputs.RADIUS, inputs.STEP, *ends, 20, loss_type="mse")
            with patch.object(Tensor, "uniform_", beginning(inputs.starts(tuple(x.shape)))):
                found[name] = attack.attack_pgd(x, x if kind == "attack" else target, kind)
        return found | _bounds(folder)


def _bounds(folder: Path) -> Outputs:
    from beta_crown.auto_LiRPA import BoundedModule, BoundedTensor  # type: ignore
    from beta_crown.auto_LiRPA.perturbations import PerturbationLpNorm  # type: ignore
    from beta_crown.model_beta_CROWN import return_modify_model  # type: ignore
    from beta_crown.modules import Flatten  # type: ignore

    x, net, found = inputs.images(4), inputs.network(), collections.defaultdict(list)
    net[4] = Flatten()
    search = defined(
        folder / "binary_search_unsupervised.py", "unsupervised_search", np=np, torch=torch, copy=__import__("copy"),
        return_modify_model=return_modify_model, BoundedModule=BoundedModule, BoundedTensor=BoundedTensor,
        PerturbationLpNorm=PerturbationLpNorm,
    )  # fmt: skip
    unit = nn.functional.normalize(net(x), p=2, dim=1)
    for i, j in ((0, 1), (0, 2), (1, 2), (3, 0)):
        at, pair = x[i : i + 1], (unit[i : i + 1], unit[j : j + 1])
        margin = return_modify_model(net, *pair, inputs.DIM, contrastive=True)
        found["margin"].append(margin(at).item())
        bounded = BoundedModule(margin, torch.empty_like(at), bound_opts={"conv_mode": "patches"}, device="cpu")
        for radius in (0.01, 0.05, 0.2):
            box = {"x_L": (at - radius).clamp(0, 1), "x_U": (at + radius).clamp(0, 1)}
            image = BoundedTensor(at, PerturbationLpNorm(norm=np.inf, eps=radius, **box))
            for name, method in (("IBP", "IBP"), ("CROWN-IBP", "IBP+backward"), ("CROWN", "backward")):
                found[name].append(bounded.compute_bounds(x=(image,), method=method)[0].item())
        with contextlib.redirect_stdout(io.StringIO()):
            radius, *_ = search.unsupervised_search(
                net, at, *pair, np.inf, SimpleNamespace(device="cpu"), inputs.DIM, torch.ones(1), torch.zeros(1),
                max_steps=200,
            )  # fmt: skip
        found["radius"].append(radius)
    return dict(found)


# --- Robustness of Unsupervised Representation Learning without Labels ---


class Loader(list[Any]):
    """Stands for a loader of images: in their order, in this process."""

    def __init__(self, dataset: Any, batch_size: int, **_: Any):
        rows = [dataset[i] for i in range(len(dataset))]
        parts = [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
        super().__init__((torch.stack([x for x, _ in part]), [name for _, name in part]) for part in parts)


def scripts(folder: Path) -> Outputs:
    """The authors' scripts from one end to the other, on a few images: what stands in their table of results."""
    import pandas
    import yaml

    x, found = inputs.images(60), {}
    named = [(image, f"{number:03}") for number, image in enumerate(x)]
    halves = [named[i] for i in range(0, 40, 2)] + [named[i] for i in range(1, 40, 2)]  # pairs (0, 1), (2, 3) and so on

    def run(script: str, images: Any, start: float, **options: Any) -> None:
        """Run a script on some images, where random starts are so many times those of `inputs.py`."""
        models, given = ModuleType("models"), [part for name, value in options.items() for part in (name, str(value))]
        net = inputs.network()
        models.get_model = lambda *_, **__: (net, None, None, None)  # type: ignore
        sys.modules["models"] = models
        flags = [f"--{part.replace('_', '-')}" if part in options else part for part in given if part != "True"]
        at = start * inputs.starts(
            (len(images) // (2 if options.get("targeted") or script == "margin" else 1), *x.shape[1:])
        )
        utils = __import__("utils")
        with (
            patch.object(sys, "argv", [script, "--model", "m", "--dataset", "d", *flags]),
            patch.object(utils, "ImageFolderWithFilenames", lambda **_: images),
            patch.object(utils.tools, "ImageFolderWithFilenames", lambda **_: images),
            patch.object(torch.utils.data, "DataLoader", Loader),
            patch.object(torch.cuda, "synchronize", lambda *_: None),
            patch.object(Tensor, "uniform_", beginning(at)),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            runpy.run_path(str(folder / "scripts" / f"{script}.py"), run_name="__main__")

    with at_hand(folder), tempfile.TemporaryDirectory() as place:
        out, attack = Path(place) / "results", {"alpha": inputs.STEP, "ball_size": inputs.RADIUS}
        run("representation_distance_distribution", named, 0, batch_size=60, output=out / "quantiles.yaml")
        run(
            "breakaway",
            named,
            1,
            n_samples=60,
            batch_size=60,
            iterations=10,
            output=out / "eval_selfsim_1.4m",
            **attack,
        )
        run("margin", halves, 0, n_samples=20, batch_size=20, iterations=10, output=out / "margin.csv", **attack)
        for kind, images, start, count in (("untargeted", named, 1, 60), ("targeted", halves, 0, 20)):
            run(
                "whitebox_attack", images, start, n_samples=count, batch_size=count, attack="pgd", max_iterations=51,
                output=out / f"eval_{kind}_pgd_0.05", history=True, **{kind: True}, **attack,
            )  # fmt: skip
        (out / "noisy_certified_accuracy.csv").write_text(certified())
        constants = {"ATTACK_ITERATION_MARKS": [5, 10, 30, 50], "CERT_ACC_RADII": [0.0, 0.1, 0.25, 0.75, 0.90]}
        evaluation = defined(
            folder / "scripts" / "model_eval_results.py", "distances_to_universal_quantiles", "disance_norms_at_iter",
            "relative_at_iter", "normalized_at_iter", "make_a_row_attacks", "process_directory",
            os=os, yaml=yaml, pd=pandas, np=np, tqdm=MagicMock(tqdm=lambda rows, **_: rows), Pool=Pool,
            ATTACK_SUBDIRS=["eval_targeted_pgd_0.05", "eval_untargeted_pgd_0.05"], NN_SUBDIRS=["eval_selfsim_1.4m"],
            all_margin_ratios=[], certified_accuracy_plots=[], **constants,
        )  # fmt: skip
        with contextlib.redirect_stdout(io.StringIO()):
            results = evaluation.process_directory("m", str(out))
    for name in sorted(results):
        if any(text in name for text in ("l2 U", "l2 R", "cosine", "margin", "risk", "NN Top-1", "Cert", "Certified")):
            found[name] = float(results[name])
    return found


def certified() -> str:
    """Return certified radii as the authors' table holds them."""
    rows = [f"{n},{int(r > 0.2)},{r:.6f}" for n, r in enumerate(inputs.uniform(21, 40))]
    return "\n".join(["idx,correct,radius", *rows]) + "\n"


class Pool:
    """Stands for a pool of processes."""

    def __init__(self, _: int):
        self.imap = map

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def unsupervised(folder: Path) -> Outputs:
    """Attacks and center smoothing, and what all scripts together give."""
    with at_hand(folder):
        from utils.center_smoothing import CenterSmooth  # type: ignore
        from utils.pgd_attack import pgd_attack  # type: ignore

        found, x, net = {}, inputs.images(8), inputs.network()
        for name, target in (("U-PGD", None), ("U-PGD towards", net(inputs.images(8, seed=5)))):
            with patch.object(Tensor, "uniform_", beginning(inputs.starts(tuple(x.shape)))):
                found[name] = pgd_attack(
                    net, target, x, "cpu", verbose=False, iterations=10, ball_size=inputs.RADIUS, alpha=inputs.STEP
                )
        draws = iter(inputs.single(inputs.normal(22, 3, 1201, *x[0].shape)))
        smooth = CenterSmooth(net, lambda a, b: (a - b).flatten(1).norm(dim=1).numpy(), 0.2, 1201, 1201)
        with patch.object(torch, "randn_like", lambda _: next(draws)):
            found["center smoothing"] = smooth.certify(x[0], 0.1, batch_size=1201)[0]
    return found | {"scripts": scripts(folder)}


# --- Non-parametric probabilistic robustness ---


def nppr(folder: Path) -> Outputs:
    """Heads, draws, the up-sampler, the loss and the ratio of entropies."""
    with at_hand(folder), contextlib.redirect_stdout(io.StringIO()):
        from configs.train_gmm_cfg import TemperatureScheduler  # type: ignore
        from src.gmm4pr import GMM4PR, build_decoder_from_flag  # type: ignore

        model, found, heads = GMM4PR(3, 10, "cpu"), {}, inputs.heads()
        model.set_y_embedding(4, 6)
        model.set_condition("xy", "full", 0, 5, 4, 8)
        model.set_feat_extractor(nn.Identity())
        model.load_state_dict({name: heads[name] for name in model.state_dict()})
        steps = TemperatureScheduler(model, 3, 1, 3, 1, 1.5, 1, 1.5, 1, warmup_epochs=10)
        found["temperatures"] = [steps.step(epoch) for epoch in (1, 4, 9, 10, 30)]
        steps.step(4)
        reps, labels = inputs.single(inputs.normal(31, 6, 5)), torch.tensor([0, 1, 2, 3, 0, 1])
        cache = model.eval()(reps, labels)["cache"]
        found |= {"logits": cache["pi_logits"], "means": cache["mu"]}
        cache = inputs.mixture()
        zeta = inputs.single(inputs.normal(33, 7, 6, 1, 10)).expand(7, 6, 3, 10)
        with (
            patch.object(torch, "rand", lambda *shape, **_: inputs.single(inputs.uniform(32, *shape))),
            patch.object(torch, "randn", lambda *_, **__: zeta),
        ):
            found["draws"] = model._rsample_from_gmm(cache, 7, temperature=0.4)
        found["1 - entropy ratio"] = model.compute_regularization(cache)["pi_entropy"]
        model.set_budget("linf", 8 / 255)
        found["in the ball"] = model._project_to_budget(inputs.single(inputs.normal(34, 2, 1, 4, 4)))
        decoder = build_decoder_from_flag("bicubic_trainable", 10, (2, 12, 12), "cpu")
        decoder.latent_to_spatial.load_state_dict({"weight": heads["up"], "bias": heads["up bias"]})
        found["picture"] = decoder(inputs.single(inputs.normal(35, 3, 10)))
        guesses = torch.from_numpy(np.random.RandomState(36).randint(0, 3, (50, 8)))
        found["PR"] = GMM4PR.compute_pr(guesses, torch.arange(8) % 3, reduction="none")
        logits = inputs.single(inputs.normal(37, 32, 6, 4))
        with patch.object(GMM4PR, "_sample_and_classify", lambda *_, **__: logits):
            found["loss"] = model.pr_loss(reps, labels, None, 32, kappa=1.0, chunk_size=32)["main"]
    return found


# --- SynBench ---


def synbench(folder: Path) -> Outputs:
    """The bound of the raw data, the nearest shift, classifiers of a mixture, and the score."""
    with at_hand(folder):
        code = runpy.run_path(str(folder / "evaluate_synbench.py"), run_name="code")
        found: Outputs = {"bound": code["func_bound_correct"](np.linspace(0.55, 0.999, 12))}
        values, half = np.array([2.0, 1.0, 0.5, 0.25, 0.1]), np.array([1.0, -0.8, 0.6, 0.3, 0.2])
        budgets = torch.tensor([0.3, 0.8, 1.2], dtype=torch.float64)
        diagonal = torch.diag(1 / torch.from_numpy(values))
        found["shift"] = [code["qcqp_solve"](torch.from_numpy(half), diagonal, e)[0] for e in budgets]
        code["get_bound_rep"].__globals__["args"] = SimpleNamespace(device="cpu")
        tested: dict[str, list[Any]] = {"bound": [], "accuracy": []}
        for separation in (0.5, 1.0, 2.0):
            first, signs, second = inputs.classes(separation)
            plus, minus = first[signs > 0], first[signs < 0]
            pooled = sum(np.cov(part, rowvar=False) * (len(part) - 1) for part in (plus, minus)) / (len(first) - 2)
            means = [torch.from_numpy(part.mean(0)) for part in (plus, minus)]
            batch = torch.from_numpy(second), torch.from_numpy(signs > 0).long()
            with contextlib.redirect_stdout(io.StringIO()):
                answer = code["get_bound_rep"]([batch], *means, torch.from_numpy(pooled), (0.0, 0.3, 0.7))
            for name, row in zip(tested, answer, strict=True):
                tested[name].append([float(value) for value in row])
        found["tested bound"], found["tested accuracy"] = tested["bound"], tested["accuracy"]
        return found | {"score": _score(folder)}


def _score(folder: Path) -> list[float]:
    """Run the script on stored accuracies and bounds, and read the scores that it prints."""
    accuracy, bound, best, ideal = inputs.trade_off()
    stored = {"mu_scales": accuracy, "accuracy_raw": best, "bounds_raw": ideal}
    stored |= {"accuracy_rep_0.2": accuracy, "bounds_rep_0.2": bound}
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place), contextlib.redirect_stdout(printed):
        Path("test_m/results").mkdir(parents=True)
        Path("config.yaml").write_text((folder / "config.yaml").read_text())
        for name, values in stored.items():
            np.save(f"test_m/results/{name}.npy", values)
        np.set_printoptions(precision=17)
        sys.modules["matplotlib"].pyplot.subplots = lambda: (None, MagicMock())
        with patch.object(sys, "argv", ["evaluate", "--fm_name", "m", "--calculate", "0"]):
            runpy.run_path(str(folder / "evaluate_synbench.py"), run_name="__main__")
    text = printed.getvalue()
    return [float(number) for number in text[text.rindex("[") + 1 : text.rindex("]")].split()]


def main() -> None:
    """Run as a program."""
    place, record = Path(sys.argv[1]).resolve(), {}
    torch.set_num_threads(1)
    made = {"RVCL": rvcl, "unsupervised-robustness": unsupervised, "nppr": nppr, "synbench": synbench}
    for name, make in made.items():
        address, licence = SOURCES[name]
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=place / name, capture_output=True, text=True, check=True
        ).stdout.strip()
        outputs = make(place / name)
        record[name] = {
            "source": address, "commit": commit, "licence": licence,
            "outputs": {key: plain(value) for key, value in outputs.items()},
        }  # fmt: skip
        print(f"{name}: {', '.join(outputs)}")
    FILE.write_text(json.dumps(record, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
