"""Three lines of Python: `import holdfast`, `record = holdfast.audit(model, data)`, `print(record)`."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.auditing.execute import INLINE
from holdfast.auditing.plan_file import make_plan, refuse_idle_ball
from holdfast.auditing.run import run_audit
from holdfast.comparison.records import Run, open_run
from holdfast.config.overrides import Change
from holdfast.core import Encoder, HoldfastError, ImageSource, Measure, registry
from holdfast.core.engine import Engine
from holdfast.extend import measure as own_measure
from holdfast.results import Comparison, Record, build_comparison
from holdfast.runtime.checked import check_arguments, describe_value, plain
from holdfast.runtime.console import Screen
from holdfast.runtime.errors import NothingAudited
from holdfast.runtime.listener import Listener
from holdfast.runtime.progress import LIFE, Bars
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.data.shared.torch_dataset import TorchDataset
from holdfast.storage.standing import allowing, refuse_unknown
from holdfast.workflows.monitor.snapshot import freeze_copy, isolate_global_state

Question = Change | Callable[..., Any]
"""A measure by its name, with the fields to change, as a text or a table; a measure; or a function, see `measure`."""

Model = nn.Module | str
"""An `Encoder`, any network that maps normalised images [B, C, H, W] to representations [B, D], or an encoder spec."""

Numbers = float | Sequence[float] | Tensor | np.ndarray
"""One number, or one per channel."""

Data = Any
"""Images: a tensor [N, C, H, W], an array [N, H, W, C], a folder, a data spec, a torch Dataset, or an `ImageSource`."""


@check_arguments
def audit(
    model: Model | Sequence[Model] | Mapping[str, Model],
    data: Data = None,
    *,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    labels: Tensor | np.ndarray | Sequence[int] | None = None,
    images: int | None = None,
    attacked: int | None = None,
    profile: str = "quick",
    measures: Question | Sequence[Question] = (),
    eps: float | str | None = None,
    norm: str | None = None,
    settings: Mapping[str, Any] | Sequence[str] | str = (),
    surrogates: Model | Sequence[Model] | Mapping[str, Model] = (),
    train: Data = None,
    train_labels: Tensor | np.ndarray | Sequence[int] | None = None,
    train_images: int | None = None,
    examined: int | None = None,
    queries: int | None = None,
    shared_searches: bool | None = None,
    allow: str | Sequence[str] = (),
    budget: str | float | None = None,
    until: str | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    precision: str = "float32",
    compiled: bool = False,
    workers: int | None = None,
    skip_corrupt: bool = False,
    skip_duplicates: bool = False,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Record:
    """Audit encoders on images and return the record; the same audit as the command `holdfast audit`.

    Your network is not touched: a frozen copy of it is audited, and random numbers outside go on as before.

    Args:
        model: the encoder; a list of several, or a dict that names them.
        data: what it is audited on, pixels in [0, 1] or uint8; None for measures that need none (synbench).
        mean: per channel, what your preprocessing subtracts from [0, 1] pixels. A bare network needs it, mean=0 and
            std=1 where nothing is done; an `Encoder` and a spec have their own.
        std: per channel, what it divides by.
        labels: a class for each image of an array, for measures that read them; other images bring their own.
        images: how many of the images; as many as the profile takes where None.
        attacked: how many of them are attacked.
        profile: what is asked; see `holdfast list profiles`. "quick" is a first look, in two minutes; "standard" is for
            a decision.
        measures: ask these instead: names, "breakaway_risk[attack.steps=50]", tables of a name and the fields to change
            (all as the profile asks them otherwise, where it does), measures, or functions of yours, see
            `holdfast.measure`.
        eps: radius in pixels of a [0, 1] image, 0.05 or "4/255"; where None, the profile's or what is usual for such
            images: 4/255 in ℓ∞ for photos, see `holdfast.auditing.balls`.
        norm: norm of the ball, "linf", "l2" or "patch".
        settings: changes of single parameters, {"breakaway_risk.attack.steps": 100}; "*" is every measure.
        surrogates: encoders that an outsider may have, attacked in the place of each audited one: specs, `Encoder`s,
            names of audited ones, or "each", which is all of these. Measures of transferred attacks are then asked too.
        train: labelled images that probes learn from; those that are not attacked where None.
        train_labels: a class for each training image of an array.
        train_images: how many of the training images; all where None.
        examined: how many images the checks that cost passes are made on; the profile's where None.
        queries: of the gradient-free attack among the checks, for each image; the profile's where None.
        shared_searches: whether what any search met in a ball counts for every measure of that ball; the profile's
            where None, which for those of papers is False.
        allow: checks whose failure is accepted: numbers that depend on them are given as they are.
        budget: time after which no further round of the audit begins, "2m", "1h" or seconds; "none" for no limit; the
            profile's where None, two minutes of "quick".
        until: what else ends it, "24 images" or "breaking_radius ± 10%".
        seed: the one seed that decides everything.
        device: where to compute; where the (first) network is where None, "cpu" for specs.
        batch_size: images per encoder pass, and the unit in which a killed audit resumes; by their size where None.
        precision: of searches, "float32", "tf32", "bf16" or "fp16"; what is read out is float32.
        compiled: run the encoder through torch.compile.
        workers: worker processes that share the audit. A script must then begin under `if __name__ == "__main__":`.
        skip_corrupt: leave out files that cannot be read, instead of stopping.
        skip_duplicates: leave out images that look like others.
        out: folder, or URL, of the run, where a killed audit continues; a temporary one that lives as long as the
            record where None.
        overwrite: replace another audit in that folder.
        quiet: show no progress; else bars on a terminal, and elsewhere a line a minute, on stderr.

    Raises:
        HoldfastError: a request that cannot be answered, or no encoder that could be audited. Measures that fail are in
            `record.failures`, and the audit goes on.
    """
    # encoders and images, opened or as specs
    opened = _encoders(model, mean, std)
    networks = [network for network in opened.values() if isinstance(network, Encoder)]
    tested, spec = _source("data", data, labels)
    training, train_spec = _source("train", train, train_labels)
    usual = networks[0].device if networks else "cpu"
    others = _encoders(surrogates, None, None)
    surrogate_networks = {name: network for name, network in others.items() if isinstance(network, Encoder)}
    if twice := sorted(opened.keys() & surrogate_networks.keys()):
        raise HoldfastError(
            f"surrogates: expected names that no audited encoder has, got {twice[0]!r} twice; name it in a dict, or "
            "give the name alone where it is the same encoder"
        )
    if not measures:
        refuse_idle_ball(profile, norm, eps)
    plan = make_plan(
        _specs(opened),
        spec,
        profile=profile,
        measures=_measures(measures, eps, norm),
        eps=eps,
        norm=norm,
        settings=_settings(settings),
        surrogates=_specs(others),
        source=tested,
        images=images,
        attacked=attacked,
        train=train_spec,
        train_images=train_images,
        examined=examined,
        queries=queries,
        shared_searches=shared_searches,
        allow=allow,
        budget=budget,
        until=until,
        seed=seed,
        device=str(usual if device is None else device),
        batch_size=batch_size,
        precision=precision,
        compiled=compiled,
        skip_corrupt=skip_corrupt,
        skip_duplicates=skip_duplicates,
    )
    engine = INLINE if workers in (None, 1) else _processes(workers, plan.device)
    with _run_folder(out) as folder, isolate_global_state(), _listener(quiet) as bars:
        run_audit(
            plan,
            folder,
            encoders={name: network for name, network in opened.items() if isinstance(network, Encoder)}
            | surrogate_networks,
            source=tested,
            training=training,
            engine=engine,
            listener=bars,
            overwrite=overwrite,
        )
    record = Record(open_run(folder), temporary=out is None)
    if all(encoder.error for encoder in record.run.record.encoders):
        raise NothingAudited("; ".join(record.failures))
    return record


@check_arguments
def compare(
    *records: Record | str | os.PathLike[str] | Mapping[str, Record | str | os.PathLike[str]],
    measures: Sequence[str] = (),
    correction: str = "holm",
    allow: Sequence[str] = (),
) -> Comparison:
    """Compare the encoders of several audits on the same images: paired intervals, corrected verdicts, ranks.

    Args:
        records: records or run folders; or one dict of them, whose keys tell encoders of one name apart.
        measures: which measures; all that they share where none is given.
        correction: for many comparisons at once: "holm", "bh" or "none".
        allow: checks whose failure is accepted; the numbers that depend on them are then compared as they are.

    Raises:
        HoldfastError: audits that cannot be compared, with what differs, or fewer than two encoders.
    """
    runs: dict[str, Run] = {}
    for argument in records:
        named = argument.items() if isinstance(argument, Mapping) else [(None, argument)]
        for name, record in named:
            if not isinstance(record, (Record, str, os.PathLike)):
                raise HoldfastError(f"compare: expected records or their folders, got {describe_value(record)}")
            run = record.run if isinstance(record, Record) else open_run(os.fspath(record))
            place = run.place if name is None else str(name)
            if place in runs:
                raise HoldfastError(f"expected different records, got {place!r} twice; give each once")
            runs[place] = replace(run, place=place, record=allowing(run.record, allow))
    refuse_unknown(allow, [run.record for run in runs.values()])
    return build_comparison(list(runs.values()), measures, correction)


@check_arguments
def open(folder: str | os.PathLike[str]) -> Record:
    """Return the record in a run folder, or at its URL.

    Args:
        folder: what `holdfast audit` or `Record.save` wrote.

    Raises:
        HoldfastError: no record that can be read.
    """
    return Record(open_run(os.fspath(folder)))


def _encoders(model: Any, mean: Any, std: Any) -> dict[str, Encoder | str]:
    """Return encoders by name, specs as they are; networks are copied."""
    # By the names of the caller, or by their own, numbered where several have one
    if isinstance(model, Mapping):
        encoders = {
            str(name): _add_label(network, str(name)) if isinstance(network, str) else network
            for name, network in model.items()
        }
    else:
        several = list(model) if isinstance(model, Sequence) and not isinstance(model, (str, nn.Module)) else [model]
        encoders: dict[str, Any] = {}
        for network in several:
            name = _name_of(network)
            if isinstance(network, str) and name in encoders:
                raise HoldfastError(f"expected different encoders, got {name!r} twice; give each once")
            number = sum(key == name or key.startswith(f"{name} ") for key in encoders)
            encoders[f"{name} {number + 1}" if number else name] = network

    # Bare networks become encoders, with the normalisation of the caller
    if (mean is not None or std is not None) and not any(_bare(network) for network in encoders.values()):
        raise HoldfastError(
            "mean and std: expected none, since an Encoder and a spec have their own (?mean=0.5&std=0.25), got "
            f"mean={mean}, std={std}; leave them out"
        )
    return {
        name: network if isinstance(network, str) else _freeze_model(network, name, mean, std)
        for name, network in encoders.items()
    }


def _specs(encoders: Mapping[str, Encoder | str]) -> list[str]:
    """Return what encoders are called in a plan: the names of those that are open, the specs of others."""
    return [network if isinstance(network, str) else name for name, network in encoders.items()]


def _name_of(network: Any) -> str:
    if isinstance(network, str):
        return network
    return network.name if isinstance(network, Encoder) else type(network).__name__


def _bare(model: Any) -> bool:
    return isinstance(model, nn.Module) and not isinstance(model, Encoder)


def _add_label(spec: str, name: str) -> str:
    """Return a spec with a label."""
    return f"{spec}{'&' if '?' in spec else '?'}label={quote(name, safe='')}"


def _freeze_model(model: Any, name: str, mean: Any, std: Any) -> Encoder:
    if not isinstance(model, nn.Module):
        raise HoldfastError(
            f"model: expected a torch module, an Encoder, a spec such as timm:resnet50, or several of them, got "
            f"{type(model).__name__}"
        )
    if _bare(model) and (mean is None or std is None):
        raise HoldfastError(
            f"model: a bare network ({name}) needs mean and std, what its preprocessing subtracts from [0, 1] pixels "
            f"and divides by; got mean={mean}, std={std}; say mean=0, std=1 where nothing is done, for most networks "
            "of ImageNet mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]"
        )
    copied = freeze_copy(model) if isinstance(model, Encoder) else freeze_copy(model, mean, std)
    copied.name = name
    return copied


def _source(argument: str, images: Any, labels: Any) -> tuple[ImageSource | None, str | None]:
    """Return images that are open already, and how the record calls them; a spec is opened by the audit itself."""
    if isinstance(images, (Tensor, np.ndarray)):
        kind = "a tensor" if isinstance(images, Tensor) else "an array"
        title = f"{kind} {list(images.shape)}"
        if isinstance(images, Tensor):
            images = images.float() if images.dtype == torch.bfloat16 else images
            layout = "NCHW" if images.ndim == 4 else None
            return Arrays(images, labels, layout=layout, name=title), title
        return Arrays(images, labels, name=title), title
    if labels is not None:
        raise HoldfastError(
            f"labels: expected {argument} to be a tensor or an array beside them, got {type(images).__name__}; folders "
            "of classes and datasets bring their own"
        )
    if images is None or isinstance(images, str):
        return None, images
    if isinstance(images, os.PathLike):
        return None, os.fspath(images)
    source = images if isinstance(images, ImageSource) else TorchDataset(images)
    return source, str(source)


def _measures(measures: Question | Sequence[Question], eps: float | str | None, norm: str | None) -> Sequence[Change]:
    """Return a list of measures, functions as such; those that have a ball of their own take no other."""
    questions = measures if isinstance(measures, Sequence) and not isinstance(measures, str) else [measures]
    several: list[Change] = [q if isinstance(q, (str, Mapping, Measure)) else own_measure(q) for q in questions]
    for measure in several:
        if isinstance(measure, Measure) and (eps is not None or norm is not None):
            raise HoldfastError(
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
        raise HoldfastError(f"settings: expected numbers, text, lists and tables, got {describe_value(value)}")
    return number


def _processes(workers: int, device: str) -> Engine:
    on_gpus = device.partition(":")[0] == "cuda"
    return registry.part(
        "engines", "processes", workers=workers, gpus=torch.cuda.device_count() if on_gpus and ":" not in device else 0
    )


@contextmanager
def _run_folder(out: str | os.PathLike[str] | None) -> Iterator[str]:
    """Give the folder of a run: `out`, or a temporary one, which is deleted where the run fails."""
    folder = tempfile.mkdtemp(prefix="holdfast-") if out is None else os.fspath(out)
    try:
        yield folder
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _listener(quiet: bool) -> Iterator[Listener]:
    """Give bars on a terminal; elsewhere a line now and then, once it takes longer."""
    with Bars(Screen(stderr=True), quiet or sys.stderr is None, patience=LIFE) as bars:
        yield bars
