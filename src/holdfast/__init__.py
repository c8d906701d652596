"""Holdfast: how well do an image encoder's representations hold when the image is disturbed?

    import holdfast
    record = holdfast.audit(model, images, mean=0.5, std=0.25)
    print(record)

`audit`, `compare`, `check`, `open` and `harden` are all there is to begin with; the command line is `holdfast`.
`certify` proves how far one image can change and stay apart from another; `compare_index` compares the encoder behind
an index with its successor, and `audit_index` looks at one index by itself.
`measure`, `quantity`, `loss` and `divergence` make functions of yours part of an audit; `export_vnnlib` and
`verify_vnnlib` exchange questions with other verifiers. What they are made of is in `holdfast.core` (the nouns),
`holdfast.sources.encoders.open_encoder`, `holdfast.sources.data.open_images`, `holdfast.auditing.plan_file.make_plan`
and `holdfast.auditing.run.run_audit`; `holdfast.extend` is what parts of your own are written with.
"""

from typing import TYPE_CHECKING

from holdfast.runtime.lazy import lazy
from holdfast.runtime.version import VERSION

if TYPE_CHECKING:
    from holdfast.api.audit import audit as audit
    from holdfast.api.audit_index import audit_index as audit_index
    from holdfast.api.certify import certify as certify
    from holdfast.api.check import CheckResult as CheckResult
    from holdfast.api.check import check as check
    from holdfast.api.compare import Comparison as Comparison
    from holdfast.api.compare import compare as compare
    from holdfast.api.compare_index import compare_index as compare_index
    from holdfast.api.harden import harden as harden
    from holdfast.api.record import Record as Record
    from holdfast.api.record import open as open
    from holdfast.core.own_divergence import divergence as divergence
    from holdfast.parts.measures.shared.own_measure import measure as measure
    from holdfast.parts.objectives.shared.own_loss import loss as loss
    from holdfast.parts.quantities.shared.own_quantity import quantity as quantity
    from holdfast.runtime.errors import HoldfastError as HoldfastError
    from holdfast.workflows.exchange.export import export_vnnlib as export_vnnlib
    from holdfast.workflows.exchange.verify import verify_vnnlib as verify_vnnlib

__version__ = VERSION

__all__ = [
    "CheckResult", "Comparison", "HoldfastError", "Record", "__version__", "audit", "audit_index", "certify", "check",
    "compare",
    "compare_index", "divergence", "export_vnnlib", "harden", "loss", "measure", "open", "quantity",
    "verify_vnnlib",
]  # fmt: skip

_HOME = {
    "audit": "holdfast.api.audit", "audit_index": "holdfast.api.audit_index", "certify": "holdfast.api.certify",
    "check": "holdfast.api.check", "CheckResult": "holdfast.api.check",
    "compare": "holdfast.api.compare", "Comparison": "holdfast.api.compare",
    "compare_index": "holdfast.api.compare_index", "harden": "holdfast.api.harden",
    "open": "holdfast.api.record", "Record": "holdfast.api.record",
    "divergence": "holdfast.core.own_divergence", "measure": "holdfast.parts.measures.shared.own_measure",
    "quantity": "holdfast.parts.quantities.shared.own_quantity",
    "loss": "holdfast.parts.objectives.shared.own_loss", "HoldfastError": "holdfast.runtime.errors",
    "export_vnnlib": "holdfast.workflows.exchange.export", "verify_vnnlib": "holdfast.workflows.exchange.verify",
}  # fmt: skip
"""Name -> the module that holds it, imported when the name is first used: `import holdfast` brings no torch."""


__getattr__, __dir__ = lazy(__name__, _HOME)
