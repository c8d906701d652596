"""`holdfast.harden`: a network in memory becomes robust without labels, and is audited before and after."""

import io
import os
import shutil
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn

from holdfast.api import Images, Model, Numbers, _encoders, _listener, _run_folder, _source
from holdfast.comparison.records import open_run
from holdfast.core import Encoder, HoldfastError
from holdfast.report.hardening import print_hardening
from holdfast.results import Record
from holdfast.runtime.checked import checked
from holdfast.runtime.durations import seconds
from holdfast.storage.filesystem import local_folder
from holdfast.workflows.harden.audits import Opened
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.harden.run import harden as run
from holdfast.workflows.monitor.snapshot import undisturbed


@dataclass(frozen=True, eq=False)
class HardenedModel:
    """What `holdfast.harden` returns. Print it.

    Attributes:
        module: a hardened copy of your network, in eval mode, whose state dict your own network loads.
        encoder: the same as an `Encoder`, with its normalisation.
        record: every measure before and after, the price, warnings; what `harden.json` holds.
        audit: the audit of both, `holdfast.open`ed.
    """

    module: nn.Module
    encoder: Encoder
    record: dict[str, Any]
    audit: Record

    def __str__(self) -> str:
        """Return the text that the command `holdfast harden` prints."""
        text = io.StringIO()
        print_hardening(self.record, Console(file=text, width=110))
        return text.getvalue()


@checked
def harden(
    model: Model,
    images: Images,
    *,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    labels: Tensor | np.ndarray | None = None,
    steps: int | None = None,
    budget: str | float = "30m",
    test: Images = None,
    test_labels: Tensor | np.ndarray | None = None,
    train: Images = None,
    train_labels: Tensor | np.ndarray | None = None,
    out: str | os.PathLike[str] | None = None,
    device: str | torch.device | None = None,
    quiet: bool = False,
    **options: Any,
) -> HardenedModel:
    """Fine-tune a copy of an encoder on attacked images, without labels, and audit both; as `holdfast harden` does.

    Your network is not touched, and random numbers outside go on as before.

    Args:
        model: a network that maps normalised images [B, C, H, W] to representations [B, D], an `Encoder`, or a spec.
        images: to learn from, see `holdfast.audit`; some are held out for the audits where `test` is not given.
        mean: per channel, what your preprocessing subtracts from [0, 1] pixels; for a bare network, see `audit`.
        std: per channel, what it divides by.
        labels: a class for each image of an array; only for the accuracy before and after.
        steps: of the training; None: the budget decides.
        budget: time that the training takes, "90s", "30m", or seconds; the audits come on top.
        test: images of the audits.
        test_labels: a class for each of an array.
        train: labelled images that probes learn from.
        train_labels: a class for each of an array.
        out: run folder, where an interrupted call goes on; a temporary one that lives as long as what is returned
            where None.
        device: where to compute; where the network is where None.
        quiet: say nothing meanwhile.
        options: objective, attack, norm, eps, views, rate, batch_size, batchnorm, head, profile, seed; see
            `holdfast.workflows.harden.plan.Hardening`.

    Raises:
        HoldfastError: a network that cannot be trained, or whose weights could not be loaded again; images too few; a
            request that cannot be answered.
    """
    own = {"encoder", "data", "pace", "steps", "budget", "test", "train", "device"}
    if wrong := sorted(set(options) - (Hardening.__dataclass_fields__.keys() - own)):
        fields = ", ".join(sorted(Hardening.__dataclass_fields__.keys() - own))
        raise HoldfastError(f"harden: expected {fields}, got {', '.join(wrong)}")
    # the network and the images, opened or as specs
    opened = _encoders(model, mean, std)
    if len(opened) != 1:
        raise HoldfastError(f"harden: expected one network, got {len(opened)}; give them one after the other")
    ((name, encoder),) = opened.items()
    network = encoder if isinstance(encoder, Encoder) else None
    data, spec = _source("images", images, labels)
    tested, test_spec = _source("test", test, test_labels)
    learned, train_spec = _source("train", train, train_labels)
    if spec is None:
        raise HoldfastError("harden: expected images to learn from, got None")
    plan = Hardening(
        name if network is not None else str(encoder),
        spec,
        steps=steps,
        budget=seconds(budget) if isinstance(budget, str) else float(budget),
        test=test_spec,
        train=train_spec,
        device=str(device or (network.device if network is not None else "cpu")),
        **options,
    )
    # train and audit; then the copy's weights may be trained where yours may
    with _run_folder(out) as place:
        folder = local_folder(place)
        with undisturbed(), _listener(quiet) as bars:
            hardened = run(plan, folder, opened=Opened(network, data, tested, learned), listener=bars)
        module = hardened.encoder.module.get_submodule(hardened.encoder.root)
        originals = _bare(model).parameters() if network else ()
        for original, copy in zip(originals, module.parameters(), strict=bool(network)):
            copy.requires_grad_(original.requires_grad)
        result = HardenedModel(module, hardened.encoder, hardened.record, Record(open_run(str(folder / "audit"))))
    if out is None:
        weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


def _bare(model: Any) -> nn.Module:
    return model.module.get_submodule(model.root) if isinstance(model, Encoder) else model
