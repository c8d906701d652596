"""Which workers an audit has, and one part of its shards."""

import os
from typing import Any

from rich.text import Text

from holdfast.cli.common import listening, partly, show, warn
from holdfast.runtime.errors import Conflict, Unsupported


def engine_of(
    name: str | None, workers: int | None, device: str, address: str | None = None, gpus: float | None = None
) -> Any:
    """Return the engine that options ask for; without options this process."""
    from holdfast.core import registry

    if name != "ray" and (address is not None or gpus is not None):
        raise Conflict("--address and --gpus are for --engine ray")
    if name is None and workers in (None, 1):
        name, workers = "inline", None
    values: dict[str, Any] = {} if workers is None else {"workers": workers}
    on_gpus = device.partition(":")[0] == "cuda"
    if name == "ray":
        # Ray tells on stdout how its workers fare, where --json wants the record alone
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
        values |= {"address": address or "", "gpus": gpus if gpus is not None else float(on_gpus)}
    elif on_gpus and name != "inline":
        import torch

        if not (count := torch.cuda.device_count()):
            raise Unsupported(f"device {device!r} cannot be used here: torch finds no GPU")
        values["gpus"] = 0 if ":" in device else count  # a worker that sees one GPU only calls it the first
    return registry.configure(registry.find("engines", name or "processes"), values)


def begin_workers(name: str | None, workers: int | None) -> None:
    """Begin what the workers that options ask for need, while this process imports torch and reads plan and images."""
    from holdfast.core import registry

    if (name or workers not in (None, 1)) and (name or "processes") in registry.names("engines"):
        engine: Any = registry.find("engines", name or "processes")
        engine.begin(("holdfast.auditing.plan_file", "holdfast.auditing.work"))


def make_shard(plan: Any, folder: str, shard: str, json_output: bool, overwrite: bool, quiet: bool) -> None:
    """Make one part of an audit's shards, and say what was made; what failed ends the command as `partly` says."""
    from holdfast.auditing.partition import make_part, part_of
    from holdfast.auditing.prepare import prepare
    from holdfast.report.document import ToCopy
    from holdfast.sources.trust import executes

    part = part_of(shard)
    with listening(quiet) as bars:
        result = make_part(prepare(plan, folder, overwrite=overwrite, verify=False, shared=True, listener=bars), part)
    trust = " --trust" if any(map(executes, (*plan.encoders, plan.data, plan.train or "digits"))) else ""
    shown = [
        Text(f"part {part}: {result.shards} shards made, {result.stored} of its own were stored already"),
        ToCopy({f"when all {part.count} parts are done": f"holdfast merge {folder}{trust}"}),
    ]
    data = {"part": str(part), "made": result.shards, "stored": result.stored, "failures": result.failures}
    show(data, json_output, lambda: shown)
    for failure in result.failures:
        warn(failure)
    partly(result.failures, bool(result.shards or result.stored))
