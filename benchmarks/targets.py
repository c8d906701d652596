"""Every target of a benchmark, what was measured, whether it is met, and what else is to be known.

    python -m benchmarks.targets     # of what is stored in measured.json; as Markdown

The worst row counts. What the newest state of the code has not measured says in which state it was.
"""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks import store
from benchmarks.result import Result
from benchmarks.store import Runs
from benchmarks.tables import ends, figures, markdown, measured


@dataclass(frozen=True)
class Target:
    """What a benchmark should measure at most.

    Attributes:
        what: what is measured, in words.
        limit: how much is allowed, in words.
        benchmark: which measures it.
        rows: beginnings of the names of its rows.
        most: the largest value allowed.
        why: why it is not met, or what else is to be known.
    """

    what: str
    limit: str
    benchmark: str
    rows: tuple[str, ...]
    most: float
    why: str = ""

    def worst(self, runs: Runs) -> Result | None:
        """Return the largest of its rows; None where none was measured."""
        run = runs.get(self.benchmark)
        rows = [result for result in run.results if result.name.startswith(self.rows)] if run else []
        return max(rows, key=lambda result: result.value, default=None)


COMPILED = "the peer is a compiled filter of SciPy or OpenCV"
CORRUPTIONS = {
    "zoom_blur": "",
    "glass_blur": "",
    "motion_blur": "ImageMagick, or the same sum in NumPy",
    "elastic_transform": COMPILED,
    "gaussian_blur": COMPILED,
    "defocus_blur": COMPILED,
}

ATTACKS = ("Pgd step", "Apgd step", "Square query", "minimum-norm step", "breaking-radius step")
NETWORKS = (
    ("ResNet-18", "resnet18_32", "the attack's own work"),
    ("ResNet-20", "resnet20_32", "breaking radii; the others take less"),
    ("CNN-B", "cnn_b_cifar", "breaking radii; the others take less"),
)

TARGETS = (
    Target("passes of the Table 5 set / measures alone", "≤ 0.5", "sharing", ("Table 5 set, passes",), 0.5),
    Target("passes counted - predicted", "0", "sharing",
          ("digits audit, counted", "digits audit with checks, counted"), 0.0),
    Target("whole audit / its parts, time", "≤ 0.5", "whole_audit", ("whole audit / measures",), 0.5),
    Target("whole audit / its bare passes", "≤ 1.1", "whole_audit", ("whole audit / its bare passes",), 1.1,
           "the worst row is of digits, whose encoder takes microseconds a pass"),
    *(Target(f"attack step / bare step, {title}", "≤ 1.03", "attack_step",
            tuple(f"{attack}, from its own work, {network}" for attack in ATTACKS), 1.03, why)
      for title, network, why in NETWORKS),
    Target("attack step through ONNX / in torch", "≤ 1.05", "onnx_step",
           ("ONNX step, torch batch norms folded",), 1.05),
    Target("all pairs of 10,000 x 2,048, memory", "≤ 2 GiB", "pair_memory", ("share_below (", "closer ("), 2.0),
    Target("certified radii / pair by pair", "≤ 0.033", "certified_radius", ("certified radii,",), 1 / 30,
          "the peer is auto_LiRPA's CROWN in float32"),
    Target("α-CROWN radii / pair by pair", "≤ 0.05", "certified_radius", ("α-CROWN radii,",), 0.05,
          "the peer is auto_LiRPA's α-CROWN; one step of it, scaled"),
    Target("published certified accuracy / ours at ≤ 10 x CROWN", "≤ 1", "certified_accuracy",
          ("published / ours",), 1.0, "other pairs than the paper's"),
    Target("sampling / bare forward, ResNet-18", "≤ 1.11", "sampling", ("sampling ResNet-18",), 1 / 0.9),
    Target("sampling / bare forward, CNN-A, CNN-B", "≤ 1.11", "sampling", ("sampling CNN",), 1 / 0.9,
          "16 images share the numbers drawn; one alone draws for itself"),
    Target("learning step / bare passes", "≤ 1.10", "learning_step", ("learning step,",), 1.10),
    Target("rare events, passes / plain draws, linear", "≤ 0.01", "rare_events", ("rare events, linear",), 0.01),
    Target("rare events, passes / plain draws, digits", "≤ 0.01", "rare_events", ("rare events, convolutional",), 0.01,
          "600 rivals"),
    *(Target(f"corruption / published code, {name}", "≤ 0.1", "common_corruptions",
            (f"{name} /", f"{name}_in_numpy /"), 0.1, why) for name, why in CORRUPTIONS.items()),
    Target("kNN / bare product", "≤ 2, aim 1.3", "knn",
          ("nearest of a bank / product", "nearest of a bank / whole"), 2.0),
    Target("SynBench outside the encoder / encoder", "≤ 0.05", "synbench", ("outside the encoder",), 0.05),
    Target("adversarial training step / bare", "≤ 1.1", "adversarial_step", ("adversarial step",), 1.1),
    Target("training step / bare loop, with an adversary", "≤ 1.08", "training_step",
          ("training step, cnn_b_cifar, adversary", "training step, resnet20_32, adversary"), 1.08),
    Target("training step / bare loop", "≤ 1.05", "training_step",
          ("training step, cnn_b_cifar, plain", "training step, resnet20_32, plain"), 1.05),
    Target("loss of a step, against lightly's", "equal to 1e-6", "peer_training", ("loss of",), 1e-6),
    Target("kNN after a training, against lightly's", "equal to half a point", "peer_training", ("kNN of",), 0.5),
    Target("fingerprint of 60,000 images", "≤ 1 s", "fingerprints", ("fingerprint of",), 1.0,
          "a quarter of it is SHA-256"),
    Target("exponent of time, 10³ to 10⁶ images, free encoder", "≤ 1.03", "scale", ("scale, exponent of time",), 1.03),
    Target("memory beyond representations, 10⁶ images", "≤ 64 MiB", "scale", ("scale, memory beyond",), 64.0),
    Target("exponent of time over images", "≤ 1.05", "images", ("images, exponent", "images, less fixed"), 1.05,
          "comparing all pairs grows with their number: it shows where the encoder costs next to nothing"),
    Target("memory beyond representations", "≤ 64 MiB", "images", ("images, memory",), 64.0),
    Target("index of 10⁶: images read, not chosen", "0", "index",
          ("index of 1,000,000, images", "index of 1,000,000, read"), 0.0),
    Target("holdfast --help", "≤ 0.2 s", "startup", ("holdfast --help, processor",), 0.2),
    Target("holdfast list, show, Tab", "≤ 0.5 s, without torch", "startup",
          ("holdfast list, processor", "holdfast list measures, processor", "holdfast list encoders, processor",
           "holdfast show breakaway_risk, processor", "holdfast show quick, processor", "Tab after"), 0.5),
    Target("the same audit again", "≤ 0.5 s, without torch", "startup", ("the same audit again, processor",), 0.5),
    Target("first encoder pass after torch's import", "≤ 2 s", "startup",
          ("first encoder pass of an audit, processor",), 2.0),
    Target("2 workers / 1", "≤ 0.588", "workers", ("2 workers / 1 worker, busy",), 1 / 1.7,
          "wall time of an audit of three seconds, with two cores free of other work"),
)  # fmt: skip
"""From what is shared by measures to single loops, growth and start-up."""

HEADS = ("what", "target", "worst row", "lowest to highest", "", "measured", "remark")


def rows(runs: Runs) -> list[tuple[str, ...]]:
    """Return for each what `HEADS` says."""
    return [_row(target, runs) for target in TARGETS]


def _row(target: Target, runs: Runs) -> tuple[str, ...]:
    worst = target.worst(runs)
    if worst is None:
        return target.what, target.limit, "not measured", "", "", "", target.why
    verdict = "met" if worst.value <= target.most else "**not met**"
    value = f"{figures(worst.value)} {worst.unit}".strip()
    return target.what, target.limit, value, ends(worst), verdict, measured(runs, target.benchmark), target.why


def show(runs: Runs) -> None:
    """Print the targets as a table."""
    table = Table(*HEADS, title="Targets")
    for row in rows(runs):
        table.add_row(*row)
    Console(width=None if Console().is_terminal else 180).print(table)


def table(runs: Runs) -> str:
    """Return the same as a Markdown table."""
    return markdown(HEADS, rows(runs))


if __name__ == "__main__":
    print(table(store.load()))
