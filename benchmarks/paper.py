"""A plan on paper: what an audit of ImageNet-val's 50,000 images takes for 50 encoders, from passes and constants.

    python -m benchmarks.paper [--json]

Passes are those that the plan predicts for the profile `standard` with its checks (adaptive searches are limits). What
they take is worked out from the stored `constants`, for a ResNet-50 and a ViT-S as the cheap end, and from an assumed
speed of an accelerator. Its tables are in docs/benchmarks.md.
"""

from benchmarks.result import Result, report
from benchmarks.store import Run, Runs
from benchmarks.tables import figures, markdown
from holdfast.auditing.plan import Plan, validity_panel
from holdfast.auditing.profile import profile

IMAGES, ATTACKED, ENCODERS = 50_000, (500, 5000, 50_000), 50
DIM, READOUTS = 768, 20
"""Of a representation, and how often an attacked image is read."""
SPEED = 2500
"""Forward passes a second of an accelerator in mixed precision: the order that timm publishes for an A100."""

NETWORKS = {"ResNet-50": "resnet50", "ViT-S": "vit_small_patch16_224"}


def measure() -> list[Result]:
    """Return the passes that the plan predicts."""
    standard = profile("standard")
    panel = validity_panel(standard.measures, standard.examined, standard.queries)
    results = []
    for attacked in ATTACKED:
        plan = Plan(("timm:resnet50",), "images", standard.measures, panel, images=IMAGES, attacked=attacked)
        passes = plan.predict(IMAGES)
        for kind, count in (("forward", passes.forward), ("backward", passes.backward)):
            name = f"`standard`, {IMAGES:,} images, {attacked:,} attacked, {kind}"
            results.append(Result(name, float(count), None, "passes", None, "predicted by the plan"))
    return results


def constants(run: Run) -> str:
    """Return what `constants` measured: passes by network, and all else."""
    rows = []
    for what in ("forward pass of an image", "attack step of an image"):
        measured = [run.row(f"{network}, {what}") for network in NETWORKS.values()]
        cells = [f"{figures(row.value)} {row.unit} ({row.note})" for row in measured]
        rows.append([what, *cells])
    passes = [f"{network}, " for network in NETWORKS.values()]
    others = [row for row in run.results if not row.name.startswith(tuple(passes))]
    rest = [[row.name, f"{figures(row.value)} {row.unit}", row.note] for row in others]
    return f"{markdown(['constant', *NETWORKS], rows)}\n\n{markdown(['constant', '', 'of'], rest)}"


def backward(run: Run, network: str) -> float:
    """Return how many forward passes a backward pass costs."""
    step, forward = (
        run.row(f"{NETWORKS[network]}, {what} of an image").value for what in ("attack step", "forward pass")
    )
    return step / forward - 1


def worth(runs: Runs, attacked: int, network: str) -> float:
    """Return the passes of one encoder, as so many forward passes."""
    forward, back = (
        runs["paper"].row(f"`standard`, {IMAGES:,} images, {attacked:,} attacked, {kind}").value
        for kind in ("forward", "backward")
    )
    return forward + back * backward(runs["constants"], network)


def predicted(runs: Runs) -> str:
    """Return the predicted passes, and what they are worth in forward passes."""
    rows = []
    for attacked in ATTACKED:
        kinds = (f"`standard`, {IMAGES:,} images, {attacked:,} attacked, {kind}" for kind in ("forward", "backward"))
        counts = [f"{runs['paper'].row(name).value:,.0f}" for name in kinds]
        rows.append([f"{attacked:,}", *counts, *(f"{worth(runs, attacked, n) / 1e6:.3g} M" for n in NETWORKS)])
    shares = " and ".join(f"{backward(runs['constants'], name):.2f} forward passes for {name}" for name in NETWORKS)
    heads = ["attacked", "forward", "backward", *(f"forward passes' worth, {name}" for name in NETWORKS)]
    return f"{markdown(heads, rows)}\n\nA backward pass is {shares}, by the steps above."


def hours(runs: Runs) -> str:
    """Return what one encoder and all of them take, half of each network."""
    run = runs["constants"]
    decode = 1e-3 * run.row("decoding an image").value * IMAGES
    pairs, members = IMAGES * (IMAGES - 1) / 2, ATTACKED[1] * IMAGES
    placed, compared = run.row("placing a pair of representations").value, run.of("comparing with a member").value
    reduce = 1e-9 * (pairs * placed + members * compared)
    rows = []
    for attacked in ATTACKED:
        mean = sum(worth(runs, attacked, name) for name in NETWORKS) / len(NETWORKS)
        each = mean / SPEED / 3600
        what = f"passes, {attacked:,} attacked ({mean / 1e6:.3g} M on average)"
        rows.append([what, f"{figures(each)} GPU-hours", f"{figures(ENCODERS * each)} GPU-hours"])
    many = f"{figures(ENCODERS * reduce / 3600)} core-hours"
    again = f"again for every observation: {IMAGES * 3 * 224 * 224 / 1e9:.1f} GB at 8 bits are not kept"
    held = f"{IMAGES * DIM * 4 / 1e6:.0f} + {IMAGES * DIM * 8 / 1e6:.0f} MB"
    rows += [
        ["decoding, each image once", f"{figures(decode)} s of one core", again],
        [f"all pairs: {pairs:.3g} placed, {members:.2g} compared", f"{figures(reduce)} s of one core", many],
        [f"representations in memory: {IMAGES:,} x {DIM}, float32, and once more in float64", held, "one at a time"],
        [
            f"attacked ones: {ATTACKED[1]:,} x {DIM} for each read-out, about {READOUTS} of them",
            f"{ATTACKED[1] * DIM * 4 * READOUTS / 1e6:.0f} MB",
            "",
        ],
    ]
    core = worth(runs, ATTACKED[1], "ViT-S") * run.row("vit_small_patch16_224, forward pass of an image").value / 3.6e6
    few = worth(runs, ATTACKED[0], "ViT-S") * run.row("vit_small_patch16_224, forward pass of an image").value / 3.6e6
    rows.append([
        f"passes of a ViT-S on one core of this machine, {ATTACKED[1]:,} attacked", f"{figures(core)} hours",
        f"{figures(few)} hours with {ATTACKED[0]:,} attacked",
    ])  # fmt: skip
    return markdown(["", "one encoder", f"{ENCODERS} encoders"], rows)


if __name__ == "__main__":
    report(measure, __doc__)
