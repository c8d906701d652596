"""Makes the pictures of these pages: `python docs/make_pictures.py [NAME...]`.

Curves and screenshots come from real audits of the shipped encoders; what explains an idea is drawn. The screenshot
needs chromium and is skipped without it.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import PIL.Image
from matplotlib import pyplot as plt
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from screenshots import browser, screenshot

PLACE = Path(__file__).parent / "pictures"
MEASURED = Path(__file__).parents[1] / "benchmarks" / "measured.json"
BLUE, ORANGE, GREEN, GREY, RED = "#0067a5", "#c2570c", "#2d7d46", "#8a8f94", "#b3202c"
STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "holdfast", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "figure.figsize": (6, 2.8), "figure.constrained_layout.use": True,
}  # fmt: skip
ENCODERS = {"zoo:digits-simclr": ORANGE, "zoo:digits-simclr-adv": BLUE}


def report() -> None:
    """The top of the demo's report, in a browser."""
    if not browser():
        print("report: skipped, there is no chromium")
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        subprocess.run([sys.executable, "-m", "holdfast", "demo", "--out", str(run)], check=True)
        screenshot(run / "report.html", PLACE / "report.png")


def corruptions() -> None:
    """Digits under corruptions."""
    import torch

    from holdfast.core import Rng
    from holdfast.parts.measures.shared.disturbed import SIX
    from holdfast.parts.threats.imagenet_c import CORRUPTIONS, ImagenetC
    from holdfast.sources.data import open_images

    images = open_images("digits", images=3, seed=0)
    x = images.batch(0, 3)
    shown = [("clean", x)]
    for threat in (*SIX[1:2], SIX[3], *(ImagenetC(name, 3) for name in CORRUPTIONS[2::3])):
        shown.append((threat.title, threat.sample(x, Rng(0, ids=tuple(images.ids)))))
    figure, axes = plt.subplots(3, len(shown), figsize=(1.05 * len(shown), 3.4))
    for column, (title, pictures) in enumerate(shown):
        axes[0, column].set_title(title.replace(" ", "\n", 1), fontsize=7)
        for row in range(3):
            axes[row, column].imshow(torch.as_tensor(pictures)[row, 0], cmap="gray", vmin=0, vmax=1)
            axes[row, column].set_axis_off()
    figure.savefig(PLACE / "corruptions.png", dpi=90)
    plt.close(figure)


def everyday() -> None:
    """The share of digits that hold against the strength of some everyday edits."""
    import PIL.Image

    import holdfast

    figure, axes = plt.subplots(1, 3, sharey=True)
    shown = ("cropped to 95 to 50 %", "rotation +2° to +30°", "contrast −0.1 to −0.8")
    for spec, colour in ENCODERS.items():
        record = holdfast.audit(spec, "digits", profile="everyday", images=500, attacked=100)
        drawn = record.data["encoders"][0]["measures"]["breaking_edit"]["charts"]
        for axis, title in zip(axes, shown, strict=True):
            (chart,) = (chart for chart in drawn if chart["title"] == title)
            (line,) = chart["lines"]
            axis.plot(line["x"], line["y"], color=colour, label=spec.removeprefix("zoo:digits-"))
            axis.fill_between(line["x"], line["low"], line["high"], color=colour, alpha=0.15, linewidth=0)
            axis.set(title=title, xlabel=chart["across"])
    axes[0].set(ylabel="images that hold", ylim=(0, 1))
    axes[2].legend(frameon=False, fontsize=7)
    figure.savefig(PLACE / "everyday.png", dpi=100)
    plt.close(figure)
    with PIL.Image.open(PLACE / "everyday.png") as shown:
        few = shown.convert("RGB").quantize(16)
    few.save(PLACE / "everyday.png", optimize=True)


def drift() -> None:
    """Real distances between images, and the drift that an attack causes, of two encoders."""
    import torch

    import holdfast
    from holdfast.sources.data import open_images
    from holdfast.sources.encoders import open_encoder

    figure, axes = plt.subplots(1, 2, sharey=True)
    images = open_images("digits", images=300, seed=0).batch(0, 300)
    for axis, (name, colour) in zip(axes, ENCODERS.items(), strict=True):
        with torch.no_grad():
            distances = torch.pdist(open_encoder(name)(images)).numpy()
        record = holdfast.audit(name, "digits", measures=["universal_quantile"], images=300, attacked=60, eps=0.1)
        drift = record.to_pandas("universal_quantile").filter(like="drift@").iloc[:, -1].dropna().to_numpy()
        middle = np.median(drift)
        usual = np.median(distances)
        axis.hist(distances / usual, bins=50, density=True, color=GREY, alpha=0.6)
        axis.axvspan(0, middle / usual, color=colour, alpha=0.25)
        axis.axvline(middle / usual, color=colour)
        axis.set_title(f"{name}: {np.mean(distances <= middle):.1%} of pairs are nearer", fontsize=8)
        axis.set_xlabel("distance / median distance of two images")
    axes[0].set_ylabel("pairs of images")
    axes[0].set_yticks([])
    _save(figure, "drift")


def transfer() -> None:
    """What attacks on one encoder do to another, of the shipped encoders."""
    import holdfast

    names = [*ENCODERS, "zoo:digits-supervised"]
    record = holdfast.audit(names, "digits", profile="transfer", measures=["transfer_rate"])
    columns = [*(f"from {name}" for name in names), "any surrogate", "queries", "whitebox"]
    figure, axis = plt.subplots(figsize=(6, 2.3))
    for row, encoder in enumerate(record.data["encoders"]):
        for column, source in enumerate(columns):
            score = encoder["measures"]["transfer_rate"]["scores"][source]
            low, high = 100 * score["low"], 100 * score["high"]
            axis.add_patch(Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, color=ORANGE, alpha=score["value"], lw=0))
            axis.text(
                column, row, f"{score['value']:.0%}\n[{low:.0f}, {high:.0f}]", ha="center", va="center", fontsize=7
            )
    shown = [column.removeprefix("from ").removeprefix("zoo:digits-").replace(" ", "\n") for column in columns]
    axis.set_xticks(range(len(columns)), shown, fontsize=8)
    axis.set_yticks(range(len(names)), [name.removeprefix("zoo:digits-") for name in names], fontsize=8)
    axis.set_xlim(-0.5, len(columns) - 0.5)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("top")
    axis.set_xlabel("attacked on")
    axis.set_ylabel("judged on")
    axis.tick_params(length=0)
    axis.spines[["left", "bottom"]].set_visible(False)
    _save(figure, "transfer")


def bracket() -> None:
    """Instance accuracy over ε, from both sides."""
    import holdfast

    figure, axis = plt.subplots()
    radii = [0.03, 0.06, 0.09, 0.12, 0.16, 0.2, 0.25]
    found: dict[str, list[float]] = {"attack": [1.0], "certificate": [1.0]}
    for eps in radii:
        record = holdfast.audit(
            "zoo:digits-simclr-adv", "digits", measures=["instance_accuracy"], profile="certify", eps=eps, images=60,
            attacked=12, settings=["*.certifier.steps=5", "*.attack.steps=20"],
        )  # fmt: skip
        scores = record.scores("instance_accuracy")
        for side, values in found.items():
            values.append(float(scores[side].value or 0))
    where = [0.0, *radii]
    axis.plot(where, found["attack"], color=ORANGE)
    axis.plot(where, found["certificate"], color=BLUE)
    axis.fill_between(where, found["certificate"], found["attack"], color=GREY, alpha=0.25, linewidth=0)
    axis.text(where[-1], found["attack"][-1], " what the attack\n left standing", color=ORANGE, va="center")
    axis.text(where[-1], found["certificate"][-1], " what is proved", color=BLUE, va="bottom")
    at = len(where) - 3
    axis.text(where[at], (found["attack"][at] + found["certificate"][at]) / 2, "not known", ha="center", va="center")
    axis.set_xlim(0, where[-1] * 1.28)
    axis.set_ylim(0, 1.03)
    axis.set_xlabel("ε (pixels of a [0, 1] image)")
    axis.set_ylabel("pairs that hold")
    _save(figure, "bracket")


def synbench() -> None:
    """What two Gaussian classes allow, at every accuracy."""
    from scipy import stats

    figure, axis = plt.subplots()
    points = np.linspace(0.5, 0.999, 200)
    reach = stats.norm.ppf(points)  # the distance at which the best linear classifier is so accurate
    bound = np.maximum(reach, 0) + stats.norm.pdf(reach) / points  # its mean distance from those it gets right
    axis.plot(points, bound, color=GREY, linestyle="--")
    axis.plot(points, 0.62 * bound * np.clip((0.97 - points) / 0.2, 0, 1), color=BLUE)
    axis.text(0.72, 1.9, "images: known exactly", color=GREY)
    axis.text(0.6, 0.25, "representations (drawn, not measured)", color=BLUE)
    axis.set_xlabel("accuracy that is asked for")
    axis.set_ylabel("room to the boundary")
    axis.set_ylim(0)
    _save(figure, "synbench")


def neighbours() -> None:
    """Breaking away, and overlapping."""
    figure, axes = plt.subplots(1, 2)
    rest = np.random.default_rng(4).normal(size=(24, 2)) * 1.1
    for axis, title in zip(axes, ("breakaway", "overlap"), strict=True):
        axis.scatter(*rest.T, color=GREY, s=9)
        axis.set_title(title, fontsize=9)
        axis.set_aspect("equal")
        axis.set_axis_off()
    start, end = np.array([-0.4, 0.3]), np.array([1.25, 0.95])
    _arrow(axes[0], start, end, ORANGE)
    axes[0].scatter(*start, color=BLUE, s=30)
    axes[0].scatter(*end, color=ORANGE, s=30)
    axes[0].add_patch(
        Circle((float(end[0]), float(end[1])), float(np.hypot(*(end - start))), fill=False, color=ORANGE, lw=0.8)
    )
    axes[0].annotate("f(x)", start, xytext=(-22, 4), textcoords="offset points", color=BLUE)
    axes[0].annotate(
        "f(x̂): all in the circle\nare nearer than f(x)", end, xytext=(6, 8), textcoords="offset points", color=ORANGE
    )
    first, second = np.array([-1.0, 0.0]), np.array([1.0, 0.1])
    for begin, stop, colour in ((first, second, BLUE), (second, first, ORANGE)):
        _arrow(axes[1], begin, begin + 0.62 * (stop - begin), colour)
        axes[1].scatter(*begin, color=colour, s=30)
    axes[1].annotate("f(x₁)", first, xytext=(-8, -14), textcoords="offset points", color=BLUE)
    axes[1].annotate("f(x₂)", second, xytext=(-8, -14), textcoords="offset points", color=ORANGE)
    _save(figure, "neighbours")


def smoothing() -> None:
    """Noise around an image and the boundary between two answers."""
    figure, axis = plt.subplots()
    draws = np.random.default_rng(0).normal(size=(200, 2)) * 0.8
    own = draws[:, 0] + 0.15 * np.sin(3 * draws[:, 1]) < 0.75
    axis.scatter(*draws[own].T, color=BLUE, s=5)
    axis.scatter(*draws[~own].T, color=ORANGE, s=5)
    axis.scatter(0, 0, color="black", s=30, zorder=3)
    axis.text(-6.4, 0.9, f"{own.sum()} of 200 draws are\nstill taken for x", color=BLUE)
    axis.text(2.7, 0.9, f"{(~own).sum()} for another image", color=ORANGE)
    axis.add_patch(Circle((0, 0), 0.72, fill=False, color="black", lw=0.9))
    axis.text(-6.4, -1.4, "the more agree, the larger the\nball in which they must")
    axis.set_xlim(-6.6, 6.6)
    axis.set_aspect("equal")
    axis.set_axis_off()
    _save(figure, "smoothing")


def patches() -> None:
    """Patches of some sizes on the digits: how many images hold, each under its own patch."""
    import holdfast

    sizes, (figure, axis) = (1, 2, 3, 4), plt.subplots()
    for number, (encoder, colour) in enumerate(ENCODERS.items()):
        measures = [f"adversarial_robustness[ball=patch[share={size**2 / 64}],attack=pgd[steps=20]]" for size in sizes]
        options = {"images": 300, "attacked": 60, "budget": "none", "quiet": True}  # as many in each as in the others
        record = holdfast.audit(encoder, "digits", measures=measures, **options)
        shares = [next(iter(m["scores"].values())) for m in record.data["encoders"][0]["measures"].values()]
        value, low, high = (np.array([100 * score[end] for score in shares]) for end in ("value", "low", "high"))
        at = np.array([100 * size**2 / 64 for size in sizes]) + 0.25 * number
        axis.errorbar(at, value, (value - low, high - value), color=colour, marker="o", ms=4, lw=1.2)
        axis.annotate(encoder.removeprefix("zoo:"), (at[number], value[number]), xytext=(9, 6), color=colour,
                      textcoords="offset points")  # fmt: skip
    axis.set_xticks([100 * size**2 / 64 for size in sizes], [f"{size} x {size}" for size in sizes])
    axis.set_xlabel("patch, in pixels of 8 x 8, anywhere")
    axis.set_ylabel("images that hold, %")
    axis.set_ylim(-3, 103)
    axis.set_yticks([0, 50, 100])
    _save(figure, "patches")


def chances() -> None:
    """A ball with a small region of failure; the worst point, the worst noise, a given noise."""
    figure, axes = plt.subplots(1, 3)
    random = np.random.default_rng(0)
    given = random.uniform(-1, 1, (120, 2))
    worst = np.clip(random.normal((0.62, 0.6), 0.22, (120, 2)), -1, 1)
    shown = (("worst point", np.array([[0.9, 0.9]])), ("worst noise", worst), ("given noise", given))
    for axis, (title, points) in zip(axes, shown, strict=True):
        axis.fill([0.35, 1, 1], [1, 1, 0.45], color=RED, alpha=0.2, linewidth=0)
        axis.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=GREY, linewidth=0.8)
        fails = (points[:, 0] - 0.35) / 0.65 + (points[:, 1] - 0.45) / 0.55 > 1
        axis.scatter(*points[fails].T, color=RED, s=6)
        axis.scatter(*points[~fails].T, color=GREEN, s=6)
        axis.set_title(f"{title}: {fails.mean():.0%} fail", fontsize=9)
        axis.set_aspect("equal")
        axis.set_axis_off()
    _save(figure, "chances")


def theorems() -> None:
    """RVCL's Theorems 15 and 18, image by image, and its distributions at images that were not fitted."""
    import holdfast

    figure, (bound, likeness, calibration) = plt.subplots(1, 3)
    settings = {"profile": "rvcl", "images": 600, "attacked": 40, "settings": ["*.steps=20", "*.tolerance=1e-4"]}
    for spec, colour in ENCODERS.items():
        measures = ["radius_bound", "radius_likeness", "margin_calibration"]
        record = holdfast.audit(spec, "digits", measures=measures, **settings)
        radii, likes, psi = (record.to_pandas(name) for name in measures)
        bound.scatter(radii["binary"], radii["pair"], s=6, color=colour, label=spec.removeprefix("zoo:digits-"))
        likeness.scatter(likes["likeness@0"], likes["radius@0"], s=6, color=colour)
        for order, line in (("psi@1", "-"), ("psi@5", ":")):
            values = np.sort(psi[order].dropna())
            calibration.plot(values, np.linspace(0, 1, len(values)), color=colour, ls=line)
    bound.axline((0, 0), slope=1, color=GREY, ls="--", lw=0.8)
    calibration.axline((0, 0), slope=1, color=GREY, ls="--", lw=0.8)
    bound.set(title="Theorem 15", xlabel="radius of the binary head", ylabel="radius of the nearest pair")
    likeness.set(title="Theorem 18, one negative", xlabel="Ψ_neg", ylabel="radius of the pair")
    calibration.set(title="Ψ (solid), Ψ_CL, k = 5", xlabel="at images not fitted", ylabel="images at most so")
    bound.legend(frameon=False, fontsize=7)
    _save(figure, "theorems")


def feature_space() -> None:
    """Representations on a circle: collapsed, in clusters, spread evenly."""
    figure, axes = plt.subplots(1, 3)
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(3), 14)
    angles = {
        "collapsed": 0.9 + 0.05 * random.normal(size=42),
        "classes collapsed": 2.1 * groups + 0.06 * random.normal(size=42),
        "uniform, aligned": 2.094 * groups + np.tile(np.linspace(0, 2.0, 14), 3),
    }
    for axis, (title, at) in zip(axes, angles.items(), strict=True):
        axis.add_patch(Circle((0, 0), 1, fill=False, color=GREY, lw=0.8))
        for group, colour in enumerate((BLUE, ORANGE, GREEN)):
            axis.scatter(np.cos(at[groups == group]), np.sin(at[groups == group]), color=colour, s=9, zorder=2)
        z = np.stack([np.cos(at), np.sin(at)], 1)
        squares = ((z[:, None] - z) ** 2).sum(2)[~np.eye(42, dtype=bool)]
        axis.set_title(f"{title}: U = {-np.log(np.exp(-2 * squares).mean()):.2f}", fontsize=8)
        axis.set_aspect("equal")
        axis.set_axis_off()
    _save(figure, "feature_space")


def classifiers() -> None:
    """Where attacks enter."""
    figure, axis = plt.subplots(figsize=(6, 1.9))
    for left, text in ((0, "image"), (2.4, "encoder\n(frozen)"), (4.8, "probe"), (7.2, "class")):
        axis.add_patch(FancyBboxPatch((left, 0), 1.5, 0.8, boxstyle="round,pad=.08", fill=False, color=BLUE))
        axis.text(left + 0.75, 0.4, text, ha="center", va="center")
    for left in (1.6, 4.0, 6.4):
        _arrow(axis, (left, 0.4), (left + 0.7, 0.4), GREY)
    for end, text, height in (
        (8.0, "robust accuracy: the attack knows the probe", -0.45),
        (4.2, "impersonation: the encoder alone", 1.3),
    ):
        axis.annotate("", (0.7, height), (end, height), arrowprops={"arrowstyle": "->", "color": ORANGE})
        axis.text((end + 0.7) / 2, height + 0.1, text, ha="center", color=ORANGE, fontsize=8)
    axis.set_xlim(-0.3, 9)
    axis.set_ylim(-0.7, 1.8)
    axis.set_axis_off()
    _save(figure, "classifiers")


def matching() -> None:
    """Evasion and collision against the radius."""
    import json

    asked = "matching[rate=0.01,ball.radius=0.05,radii=[0.01,0.02,0.03,0.04,0.07],attack=pgd[steps=20]]"
    with tempfile.TemporaryDirectory() as folder:
        images = ["--data", "digits", "--images", "300", "--attacked", "100", "--budget", "none"]
        command = ["audit", *ENCODERS, *images, "--measure", asked, "--out", folder, "--quiet", "--json"]
        run = subprocess.run([sys.executable, "-m", "holdfast", *command], check=True, capture_output=True)
    figure, axis = plt.subplots(figsize=(5, 2.8))
    for encoder in json.loads(run.stdout)["encoders"]:
        colour = ENCODERS[encoder["name"]]
        for line in encoder["measures"]["matching"]["charts"][0]["lines"]:
            name = f"{encoder['name'].partition(':')[2]}, {'evasion' if line['style'] == 'solid' else 'collision'}"
            axis.fill_between(line["x"], line["low"], line["high"], color=colour, alpha=0.12, lw=0)
            axis.plot(line["x"], line["y"], color=colour, ls="-" if line["style"] == "solid" else "--", label=name)
    axis.set_xlabel("ε in pixels, ℓ∞")
    axis.set_ylabel("share of images")
    axis.set_ylim(0)
    axis.legend(frameon=False, fontsize=8)
    _save(figure, "matching")


def upgrade() -> None:
    """Thresholds of two encoders of one index, and what each image keeps of its neighbours."""
    import json

    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        command = ["compare-index", *ENCODERS, "--data", "digits", "--out", folder, "--quiet", "--json"]
        run = subprocess.run([sys.executable, "-m", "holdfast", *command], check=True, capture_output=True)
        record = json.loads(run.stdout)
        kept = pq.read_table(Path(folder) / record["table"])["overlap@10"].to_numpy()
    rows = [row for row in record["translation"] if row["low"] is not None]
    old, new, low, high = (np.array([row[key] for row in rows]) for key in ("old", "new", "low", "high"))
    scale = record["measures"]["distance_scale"]["scores"]["mean"]["value"]
    limits = record["measures"]["threshold"]["scores"]
    figure, (left, right) = plt.subplots(1, 2)
    left.fill_between(old, low, high, color=BLUE, alpha=0.2, lw=0)
    left.plot(old, new, color=BLUE, label="same false-positive rate")
    left.plot(old, scale * old, color=GREY, ls="--", label="one factor")
    left.plot(limits["old"]["value"], limits["new"]["value"], "o", color=ORANGE, label="rate 0.1 %")
    left.set_xlabel("threshold, old encoder")
    left.set_ylabel("threshold, new encoder")
    left.legend(frameon=False, fontsize=8)
    right.bar(np.arange(11) / 10, np.bincount((10 * kept).round().astype(int), minlength=11), 0.08, color=BLUE)
    right.axvline(kept.mean(), color=ORANGE)
    right.set_xlabel("first 10 neighbours kept")
    right.set_ylabel("images")
    _save(figure, "upgrade")


def image_text() -> None:
    """Both towers, and what is done to images."""
    figure, axis = plt.subplots(figsize=(6, 2.6))

    def box(left: float, bottom: float, text: str, colour: str = BLUE, width: float = 1.7) -> None:
        axis.add_patch(FancyBboxPatch((left, bottom), width, 0.7, boxstyle="round,pad=.08", fill=False, color=colour))
        axis.text(left + width / 2, bottom + 0.35, text, ha="center", va="center")

    box(0, 1.6, "image")
    box(2.7, 1.6, "image tower")
    box(0, 0, "names,\ncaptions")
    box(2.7, 0, "text tower")
    box(5.4, 0, ".safetensors", GREY)
    box(8.1, 0.8, "cosine:\nclass, rank")
    for begin, end in (((1.85, 1.95), (2.55, 1.95)), ((1.85, 0.35), (2.55, 0.35)), ((4.55, 0.35), (5.25, 0.35))):
        _arrow(axis, begin, end, GREY)
    _arrow(axis, (4.55, 1.95), (7.95, 1.3), GREY)
    _arrow(axis, (7.25, 0.35), (7.95, 1.0), GREY)
    axis.text(4.9, -0.35, "once: holdfast embed-names", ha="center", color=GREY, fontsize=8)
    axis.annotate("", (0.85, 2.45), (0.85, 2.9), arrowprops={"arrowstyle": "->", "color": ORANGE})
    axis.text(0.0, 3.0, "attack: no own text may be nearest; typographic: a word is written", color=ORANGE, fontsize=8)
    axis.annotate("", (3.55, 1.5), (3.55, 1.05), arrowprops={"arrowstyle": "->", "color": GREEN})
    axis.text(3.7, 1.1, "harden: fare, tecoa", color=GREEN, fontsize=8)
    axis.set_xlim(-0.3, 10.1)
    axis.set_ylim(-0.5, 3.3)
    axis.set_axis_off()
    _save(figure, "image_text")


def dense() -> None:
    """How far the patches of digits move: under attack, and around a covered one."""
    import torch

    from holdfast.core import Rng
    from holdfast.numerics.geometry.divergences import l2
    from holdfast.numerics.geometry.pictures import glowing
    from holdfast.parts.attacks.apgd import Apgd
    from holdfast.parts.objectives.token_drift import TokenDrift
    from holdfast.parts.observations.covered import covered
    from holdfast.parts.threats.linf import Linf
    from holdfast.sources.data import open_images
    from holdfast.sources.encoders import open_encoder

    images = open_images("digits", images=4, seed=0)
    x, rng, ball = torch.as_tensor(images.batch(0, 4)), Rng(0, ids=tuple(images.ids)), Linf(0.1)
    rows: dict[str, torch.Tensor] = {"image": x.expand(-1, 3, -1, -1)}
    for spec in ENCODERS:
        encoder = open_encoder(f"{spec}?layer=3&pool=none")
        grid = encoder.grid
        assert grid is not None
        with torch.no_grad():
            clean = encoder(x)
        grey = covered(x, grid, torch.tensor([5, 6, 9, 10]))
        attacked = Apgd(50).worst(TokenDrift().pursue(encoder, clean), x, ball, rng)
        name = spec.removeprefix("zoo:").removeprefix("digits-")
        for what, moved in (("attacked", attacked), ("one patch grey", grey)):
            with torch.no_grad():
                maps = grid.maps(l2(grid.tokens(encoder(moved)), grid.tokens(clean)))
            side = x.shape[2] // grid.rows
            enlarged = maps.repeat_interleave(side, 1).repeat_interleave(side, 2)
            rows[f"{name}\n{what}"] = glowing(moved, enlarged)
    figure, axes = plt.subplots(4, len(rows), figsize=(1.2 * len(rows), 4.9))
    for column, (title, pictures) in enumerate(rows.items()):
        axes[0, column].set_title(title, fontsize=8)
        for row in range(4):
            axes[row, column].imshow(pictures[row].movedim(0, -1).clamp(0, 1))
            axes[row, column].set_axis_off()
    figure.savefig(PLACE / "dense.png", dpi=80)
    plt.close(figure)


def randomised() -> None:
    """How far a naive and an adaptive attack move digits, without and with a defence in front of an encoder."""
    import io

    import torch
    from torch import nn

    import holdfast
    from holdfast.core import Encoder
    from holdfast.sources.encoders import open_encoder

    class Defence(nn.Module):
        def __init__(self, defend: Callable[[torch.Tensor], torch.Tensor]):
            super().__init__()
            self.defend = defend

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.defend(x)

    def jpeg(x: torch.Tensor) -> torch.Tensor:
        read = []
        for image in x[:, 0]:
            file = io.BytesIO()
            PIL.Image.fromarray(image.clamp(0, 1).mul(255).round().byte().numpy()).save(file, "JPEG", quality=50)
            read.append(torch.from_numpy(np.array(PIL.Image.open(file))))
        return torch.stack(read)[:, None].float() / 255

    def defended(defend: Callable[[torch.Tensor], torch.Tensor], **options: Any) -> Encoder:
        encoder, network = open_encoder("zoo:digits-simclr"), nn.Sequential()
        network.add_module("defence", Defence(defend))
        network.add_module("encoder", nn.Sequential(encoder.normalisation, encoder.module))
        return Encoder(network, mean=0, std=1, **options)

    encoders = {
        "no defence": defended(lambda x: x),
        "half of the pixels dropped": defended(lambda x: nn.functional.dropout(x, 0.5, training=True), draws=16),
        "noise, σ 0.3": defended(lambda x: x + 0.3 * torch.randn_like(x), draws=16),
        "JPEG, quality 50": defended(jpeg, straight_through=["defence"]),
    }
    measure = "naive_overstatement[attack.steps=20]"
    record = holdfast.audit(
        encoders, "digits", measures=measure, profile="randomised", eps=0.05, images=100, attacked=48
    )
    figure, axis = plt.subplots(figsize=(6, 2.4))
    for row, name in enumerate(encoders):
        scores = record.scores("naive_overstatement", name)
        for side, colour, shift in (("naive attack", ORANGE, -0.14), ("adaptive attack", BLUE, 0.14)):
            score = scores[side]
            axis.plot([score.low, score.high], [row + shift] * 2, color=colour)
            axis.plot(score.value, row + shift, "o", color=colour, label=side if row == 0 else None)
    axis.axvline(
        float(record.scores("naive_overstatement", "no defence")["adaptive attack"].value or 0), color=GREY, lw=0.8
    )
    axis.set_yticks(range(len(encoders)), list(encoders))
    axis.invert_yaxis()
    axis.set_xlim(0)
    axis.set_xlabel("drift / usual distance of two images")
    axis.legend(frameon=False, loc="lower right")
    _save(figure, "randomised")


def scale() -> None:
    """Time and memory of audits of a free encoder against their images, as last measured."""
    results = json.loads(MEASURED.read_text(encoding="utf-8"))["scale"]["results"]
    figure, axes = plt.subplots(1, 2)
    for axis, curve in zip(axes, (result["curve"] for result in results if result["curve"]), strict=True):
        sizes, values = np.array(curve["sizes"]), np.array(curve["values"])
        axis.loglog(sizes, values, "o-", color=BLUE, markersize=3)
        if curve["y"] == "MiB":
            axis.loglog(sizes, 2 * sizes * 32 * 4 / 2**20, "--", color=GREY, label="of which representations")
            axis.set_ylabel("peak memory above the start, MiB")
        else:
            axis.loglog(sizes, values[-1] * sizes / sizes[-1], "--", color=GREY, label="in proportion to images")
            axis.set_ylabel("processor seconds")
        axis.set_xlabel("images")
        axis.legend(frameon=False)
    _save(figure, "scale")


def _arrow(axis: plt.Axes, begin: object, end: object, colour: str) -> None:
    axis.add_patch(FancyArrowPatch(begin, end, arrowstyle="->", mutation_scale=10, color=colour, lw=1.1))  # pyright: ignore


def _save(figure: plt.Figure, name: str) -> None:
    figure.savefig(PLACE / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


PICTURES: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        neighbours, smoothing, chances, feature_space, classifiers, synbench, corruptions, drift, bracket, theorems,
        matching, upgrade, everyday, patches, image_text, transfer, dense, randomised, scale, report,
    )
}  # fmt: skip

if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        for name in sys.argv[1:] or PICTURES:
            print(name)
            PICTURES[name]()
