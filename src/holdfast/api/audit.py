"""`holdfast.audit`: `import holdfast`, `record = holdfast.audit(model, data)`, `print(record)`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import torch

import holdfast
from holdfast.api.in_memory import (
    Data,
    InMemory,
    Kept,
    Labels,
    Model,
    choose_device,
    listen,
    open_encoders,
    open_source,
    run_folder,
    specs_of,
)
from holdfast.api.record import Record
from holdfast.auditing.execute import INLINE
from holdfast.auditing.plan_file import make_plan, refuse_idle_ball
from holdfast.auditing.request import AuditOptions, AuditRequest
from holdfast.auditing.run import run_audit
from holdfast.comparison.records import open_run
from holdfast.config.overrides import Change
from holdfast.core import Encoder, Measure, registry
from holdfast.core.engine import Engine
from holdfast.runtime.checked import describe_value, plain
from holdfast.runtime.errors import BadValue, Conflict, NothingAudited
from holdfast.runtime.option import Option, convert, takes
from holdfast.workflows.monitor.snapshot import isolate_global_state

Question = Change | Callable[..., Any]
"""A measure by its name, with the fields to change, as a text or a table; a measure; or a function, see `measure`."""


@dataclass(frozen=True)
class Audit(Kept, AuditOptions, InMemory):
    """What an audit is asked in Python: networks and images may be objects."""

    model: Annotated[
        Model | Sequence[Model] | Mapping[str, Model],
        Option(
            "The encoder; a list of several, or a dict that names them.",
            hint="put a function into a module: class Mine(torch.nn.Module): def forward(self, x): return function(x)",
        ),
    ]
    data: Annotated[
        Data,
        Option(
            "What it is audited on: a tensor [N, C, H, W] or an array [N, H, W, C] of pixels in [0, 1] or uint8, a "
            "folder, a spec, a torch Dataset; None for measures that need none (synbench)."
        ),
    ] = None
    _: KW_ONLY
    train: Data = None
    train_labels: Annotated[Labels, Option("A class for each training image of an array."), "signed"] = None
    measures: Annotated[
        Question | Sequence[Question],
        Option(
            'Ask these instead of the profile\'s: names, "breakaway_risk[attack.steps=50]", tables of a name and the '
            "fields to change, measures, or functions of yours, see `holdfast.measure`."
        ),
    ] = ()
    settings: Annotated[
        Mapping[str, Any] | Sequence[str] | str,
        Option('Changes of single parameters, {"breakaway_risk.attack.steps": 100}; "*" is every measure.'),
    ] = ()
    surrogates: Annotated[
        Model | Sequence[Model] | Mapping[str, Model],
        Option(
            "Encoders that an outsider may have, attacked instead of each audited one: specs, `Encoder`s, names "
            'of audited ones, or "each", which is all of these. Adds measures of transferred attacks.'
        ),
    ] = ()
    allow: str | Sequence[str] = ()
    workers: Annotated[
        int | None,
        Option('Worker processes that share the audit. A script then begins under `if __name__ == "__main__":`.'),
    ] = None
    overwrite: Annotated[bool, Option("Replace another audit in that folder.")] = False


@takes(Audit)
def audit(asked: Audit) -> Record:
    """Audit encoders on images and return the record; the same audit as the command `holdfast audit`.

    Your network is not touched: a frozen copy of it is audited, and random numbers outside go on as before.

    Raises:
        HoldfastError: a request that cannot be answered, or no encoder that could be audited. Measures that fail are in
            `record.failures`, and the audit goes on.
    """
    # encoders and images, opened or as specs
    opened = open_encoders(asked.model, asked.mean, asked.std)
    tested, spec = open_source("data", asked.data, asked.labels)
    training, train_spec = open_source("train", asked.train, asked.train_labels)
    others = open_encoders(asked.surrogates, None, None)
    surrogate_networks = {name: network for name, network in others.items() if isinstance(network, Encoder)}
    if twice := sorted(opened.keys() & surrogate_networks.keys()):
        raise BadValue(
            f"surrogates: expected names that no audited encoder has, got {twice[0]!r} twice; name it in a dict, or "
            "give the name alone where it is the same encoder"
        )
    request = convert(
        asked,
        AuditRequest,
        encoders=specs_of(opened),
        data=spec,
        train=train_spec,
        measures=_measures(asked.measures, asked.eps, asked.norm),
        settings=_settings(asked.settings),
        surrogates=specs_of(others),
        device=choose_device(asked.device, opened),
        allow=[asked.allow] if isinstance(asked.allow, str) else asked.allow,
    )
    refuse_idle_ball(request)
    plan = make_plan(request, tested, {n: network for n, network in opened.items() if isinstance(network, Encoder)})
    engine = INLINE if asked.workers in (None, 1) else _processes(asked.workers, plan.device)
    with run_folder(asked.out) as folder, isolate_global_state(), listen(asked.quiet) as bars:
        run_audit(
            plan,
            folder,
            encoders={name: network for name, network in opened.items() if isinstance(network, Encoder)}
            | surrogate_networks,
            source=tested,
            training=training,
            engine=engine,
            listener=bars,
            overwrite=asked.overwrite,
        )
    record = Record(open_run(folder), temporary=asked.out is None)
    if all(encoder.error for encoder in record.run.record.encoders):
        raise NothingAudited("; ".join(record.failures))
    return record


def _measures(
    measures: Question | Sequence[Question], eps: float | str | None, norm: str | float | None
) -> Sequence[Change]:
    """Return a list of measures, functions as such; those that have a ball of their own take no other."""
    questions = measures if isinstance(measures, Sequence) and not isinstance(measures, str) else [measures]
    several: list[Change] = [q if isinstance(q, (str, Mapping, Measure)) else holdfast.measure(q) for q in questions]
    for measure in several:
        if isinstance(measure, Measure) and (eps is not None or norm is not None):
            raise Conflict(
                f"eps and norm: expected none beside the measure {registry.part_name(measure)}, which has its own "
                "ball; name it instead, or leave them out"
            )
    return several


def _settings(settings: Mapping[str, Any] | Sequence[str]) -> list[str]:
    if isinstance(settings, Mapping):
        return [f"{key}={json.dumps(value, default=_number)}" for key, value in settings.items()]
    return [settings] if isinstance(settings, str) else list(settings)


def _number(value: Any) -> Any:
    """Return a number of NumPy or torch as JSON has it."""
    if (number := plain(value)) is value:
        raise BadValue(f"settings: expected numbers, text, lists and tables, got {describe_value(value)}")
    return number


def _processes(workers: int, device: str) -> Engine:
    on_gpus = device.partition(":")[0] == "cuda"
    return registry.part(
        "engines", "processes", workers=workers, gpus=torch.cuda.device_count() if on_gpus and ":" not in device else 0
    )
