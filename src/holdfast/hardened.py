"""`holdfast.harden`: a network in memory becomes robust without labels, and is audited before and after."""

import os
import shutil
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.api import Data, Model, Numbers, _encoders, _listener, _run_folder, _source
from holdfast.comparison.records import open_run
from holdfast.core import Encoder, HoldfastError
from holdfast.report.document import Document
from holdfast.report.documents.hardening import document
from holdfast.report.media import Shown
from holdfast.report.paper.figure import Figure
from holdfast.results import Record
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.durations import seconds
from holdfast.storage.filesystem import local_folder
from holdfast.storage.hardening import HardeningRecord
from holdfast.workflows.harden.audits import Opened
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.harden.run import harden as run
from holdfast.workflows.monitor.snapshot import isolate_global_state


@dataclass(frozen=True, eq=False, repr=False)
class HardenedModel(Shown):
    """What `holdfast.harden` returns. Print it.

    Attributes:
        module: a hardened copy of your network, in eval mode, whose state dict your own network loads.
        encoder: the same as an `Encoder`, with its normalisation.
        record: every measure before and after, the price, warnings; what `harden.json` holds.
        audit: the audit of both, `holdfast.open`ed.
    """

    module: nn.Module
    encoder: Encoder
    record: HardeningRecord
    audit: Record

    def _document(self) -> Document:
        return document(self.record)

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures of both audits."""
        return self.audit.figures

    def figure(self, name: str, **style: Any) -> Figure:
        """Return a figure of both audits for a paper, see `Record.figure`.

        Raises:
            HoldfastError: a figure that there is not, or a style that no figure can have.
        """
        return self.audit.figure(name, **style)


@check_arguments
def harden(
    model: Model,
    data: Data,
    *,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    labels: Tensor | np.ndarray | None = None,
    objective: str = "auto",
    budget: str | float = "30m",
    steps: int | None = None,
    eps: float | str | None = None,
    norm: str = "linf",
    attack: str | None = None,
    views: str | None = None,
    rate: float | None = None,
    batch_size: int = 64,
    batchnorm: str = "shared",
    test: Data = None,
    test_labels: Tensor | np.ndarray | None = None,
    train: Data = None,
    train_labels: Tensor | np.ndarray | None = None,
    head: str | os.PathLike[str] | None = None,
    profile: str = "hardening",
    seed: int = 0,
    device: str | torch.device | None = None,
    out: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> HardenedModel:
    """Fine-tune a copy of an encoder on attacked images, without labels, and audit both; as `holdfast harden` does.

    Your network is not touched, and random numbers outside go on as before.

    Args:
        model: a network that maps normalised images [B, C, H, W] to representations [B, D], an `Encoder`, or a spec.
        data: images to learn from, see `holdfast.audit`; some are held out for the audits where `test` is not given.
        mean: per channel, what your preprocessing subtracts from [0, 1] pixels; for a bare network, see `audit`.
        std: per channel, what it divides by.
        labels: a class for each image of an array; only for the accuracy before and after.
        objective: what it learns, "auto" (its own clean representations), "fare", "tecoa[path=FILE]" or another method,
            see `holdfast harden`.
        budget: time that the training takes, "90s", "30m", or seconds; the audits come on top.
        steps: of the training, instead of a budget; None: the budget decides.
        eps: radius in pixels of a [0, 1] image, 0.05 or "4/255"; what is usual for such images where None.
        norm: norm of the ball, "linf", "l2" or "patch".
        attack: what the adversary raises, "untargeted", "targeted" or "loss"; as the objective has it where None.
        views: augmentation, "none", "light" or "full"; light where None, full for most methods.
        rate: learning rate, in units of each weight's size; tried on a few steps where None.
        batch_size: images per step.
        batchnorm: whose statistics attacked images share, "shared", "split" or "frozen".
        test: images of the audits.
        test_labels: a class for each of an array.
        train: labelled images that probes learn from.
        train_labels: a class for each of an array.
        head: file of a linear head in use (.safetensors, .onnx), whose accuracy before and after is told.
        profile: what the audits ask; see `holdfast list profiles`.
        seed: the one seed that decides everything.
        device: where to compute; where the network is where None.
        out: run folder, where an interrupted call goes on; a temporary one that lives as long as what is returned
            where None.
        quiet: say nothing meanwhile.

    Raises:
        HoldfastError: a network that cannot be trained, or whose weights could not be loaded again; images too few; a
            request that cannot be answered.
    """
    # the network and the images, opened or as specs
    opened = _encoders(model, mean, std)
    if len(opened) != 1:
        raise HoldfastError(f"harden: expected one network, got {len(opened)}; give them one after the other")
    ((name, encoder),) = opened.items()
    network = encoder if isinstance(encoder, Encoder) else None
    source, spec = _source("data", data, labels)
    tested, test_spec = _source("test", test, test_labels)
    learned, train_spec = _source("train", train, train_labels)
    if spec is None:
        raise HoldfastError("harden: expected data, images to learn from, got None")
    plan = Hardening(
        name if network is not None else str(encoder),
        spec,
        objective,
        attack,
        norm,
        eps,
        steps,
        seconds(budget) if isinstance(budget, str) else budget,
        views=views,
        rate=rate,
        batch_size=batch_size,
        batchnorm=batchnorm,
        test=test_spec,
        train=train_spec,
        head=None if head is None else os.fspath(head),
        profile=profile,
        seed=seed,
        device=str(device or (network.device if network is not None else "cpu")),
    )
    # train and audit; then the copy's weights may be trained where yours may
    with _run_folder(out) as place:
        folder = local_folder(place)
        with isolate_global_state(), _listener(quiet) as bars:
            hardened = run(plan, folder, opened=Opened(network, source, tested, learned), listener=bars)
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
