"""The one place that makes `import torchvision` work beside a torch of another build.

PyPI's torchvision is compiled for CUDA. Beside a CPU-only torch its compiled library does not load, and then
`import torchvision` raises "operator torchvision::nms does not exist"; timm, open_clip and others fall with it.
Models, transforms and datasets do not need the compiled operators, only their declarations.
"""

import importlib
import sys
from functools import cache

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_keep: list[object] = []  # a torch.library.Library takes its operators with it when it is collected


@cache
def guard_torchvision() -> bool:
    """Make torchvision importable; call it before importing torchvision, timm or open_clip.

    Does nothing where torchvision imports by itself or is not installed. Otherwise it declares the missing
    operators (detection ops stay unusable), forgets the half-imported modules and imports torchvision again.

    Returns:
        Whether the guard had to step in (`holdfast doctor` reports it).
    """
    try:
        importlib.import_module("torchvision")
        return False
    except ModuleNotFoundError:
        return False
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    import torch.library

    # A fragment: the namespace is that of the library which did not load
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    _keep.append(library)
    # A part of its modules was imported before the error
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    importlib.import_module("torchvision")
    return True
