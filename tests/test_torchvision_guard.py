import subprocess
import sys

import pytest

from holdfast.runtime.torchvision_guard import guard_torchvision

SCRIPT = """
import sys

import pytest
try:
    import torchvision
    broken = False
except RuntimeError:
    broken = True
from holdfast.runtime.torchvision_guard import guard_torchvision
assert guard_torchvision() is broken, "the guard steps in exactly where the import fails"
import torch, torchvision.models, torchvision.transforms.v2, torchvision.datasets, timm
assert torchvision.models.resnet18().eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 1000)
"""


@pytest.mark.slow
def test_torchvision_and_timm_import_after_the_guard_even_if_the_import_failed_before():
    # a process of its own: importing torchvision twice is what is tested
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-2000:]


def test_the_guard_leaves_an_absent_torchvision_to_the_loader(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    assert guard_torchvision.__wrapped__() is False
