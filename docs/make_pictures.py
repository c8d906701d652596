"""Makes the pictures of these pages: `python docs/make_pictures.py [NAME...]`.

Curves and screenshots come from real audits of the shipped encoders; what explains an idea is drawn. The screenshot
needs chromium and is skipped without it.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from screenshots import browser, screenshot

PLACE = Path(__file__).parent / "pictures"
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
        measures = [f"adversarial_robustness[ball=patch[share={size**2 / 64}],attack=apgd]" for size in sizes]
        record = holdfast.audit(encoder, "digits", measures=measures, images=300, attacked=60, quiet=True)
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


def _arrow(axis: plt.Axes, begin: object, end: object, colour: str) -> None:
    axis.add_patch(FancyArrowPatch(begin, end, arrowstyle="->", mutation_scale=10, color=colour, lw=1.1))  # pyright: ignore


def _save(figure: plt.Figure, name: str) -> None:
    figure.savefig(PLACE / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


PICTURES: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        neighbours, smoothing, chances, patches, feature_space, classifiers, synbench, corruptions, drift, bracket,
        theorems, report,
    )
}  # fmt: skip

if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    with mpl.rc_context(STYLE):
        for name in sys.argv[1:] or PICTURES:
            print(name)
            PICTURES[name]()
