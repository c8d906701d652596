"""holdfast demo: the main job on what is shipped."""

from holdfast.auditing.request import AuditRequest
from holdfast.cli.common import JsonOption, OutOption, QuietOption, SeedOption, run_plan

DEMO_ENCODERS = ("zoo:digits-supervised", "zoo:digits-simclr", "zoo:digits-simclr-adv")


def demo(
    out_folder: OutOption = "holdfast-demo",
    json_output: JsonOption = False,
    quiet: QuietOption = False,
    seed: SeedOption = None,
) -> None:
    """Audit three small encoders that come with Holdfast on 600 handwritten digits, and write the report."""
    from holdfast.auditing.plan_file import make_plan

    asked = AuditRequest(
        DEMO_ENCODERS,
        "digits",
        profile="quick",
        settings=("breaking_radius.certified=8",),
        images=600,
        attacked=200,
        budget="none",  # so that every machine answers the same
        seed=seed or 0,
    )
    run_plan(make_plan(asked), out_folder, json_output, quiet=quiet)
