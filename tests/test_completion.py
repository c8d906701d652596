"""What Tab offers is what there is, told without torch."""

import os
import subprocess
import sys

import pytest

from holdfast.auditing.request import NORMS
from holdfast.cli import completion
from holdfast.core import Ball, registry
from holdfast.numerics.statistics.multiple_testing import CORRECTIONS
from holdfast.runtime.names import list_configured_models, list_registered_models, parse_names
from holdfast.runtime.optional import optional
from holdfast.sources.encoders.shared.networks import NETWORKS
from holdfast.sources.encoders.zoo import SHIPPED


def test_names_read_from_files_are_those_that_are_imported() -> None:
    assert {spec for spec in completion.encoder_specs() if spec.startswith("zoo:")} == {
        f"zoo:{name}" for name in (*NETWORKS, *SHIPPED)
    }
    assert {spec.partition(":")[0] for spec in completion.data_specs()} == set(registry.names("data"))
    balls = {name for name in registry.names("threats") if issubclass(registry.find("threats", name), Ball)}
    assert set(NORMS) == {name for name in balls if name in registry._inside("threats")}
    assert tuple(CORRECTIONS) == completion.CORRECTIONS


def test_models_of_packages_are_those_that_they_list() -> None:
    timm, open_clip, datasets, models = (
        optional(module, "it", "all", "completion")
        for module in ("timm", "open_clip", "torchvision.datasets", "torchvision.models")
    )

    assert set(list_registered_models("timm")) == set(timm.list_models())
    assert set(list_registered_models("torchvision")) == set(models.list_models(module=models))
    assert set(list_configured_models("open_clip")) == set(open_clip.list_models())
    assert set(parse_names("torchvision.datasets", "__all__")) == set(datasets.__all__)


def test_a_package_that_is_not_there_has_no_names() -> None:
    assert list_registered_models("no_such_package") == list_configured_models("no_such_package") == ()
    assert parse_names("no_such_package.inner", "NAMES") == parse_names("holdfast.runtime.names", "NAMES") == ()


def tab(line: str, cursor: int) -> list[str]:
    """Return what bash is offered at a word of a line; it ends words at colons."""
    code = "import sys; from holdfast.cli import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(cursor), "_HOLDFAST_COMPLETE": "complete_bash"}
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True)
    assert not done.stderr
    return done.stdout.split()


def test_tab_in_bash_completes_behind_a_colon_and_imports_no_torch() -> None:
    assert tab("holdfast audit zoo : digits-s", 4) == ["digits-supervised", "digits-simclr", "digits-simclr-adv"]
    assert "CIFAR10" in tab("holdfast audit zoo : x --data torchvision : CIF", 8)


def test_each_option_offers_its_own(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "plan.toml").touch()
    (tmp_path / "notes.txt").touch()
    assert completion.encoders("") == ["hf:", "openclip:", "py:", "series:", "timm:", "torchvision:", "zoo:"]
    assert completion.encoders("pl") == ["plan.toml"]
    assert completion.data("di") == ["digits"]
    assert completion.data("ph") == ["photos/"]
    assert completion.data("nowhere/x") == []
    assert completion.profiles("qu") == ["quick"]
    assert "masking" in completion.of_kind("checks")("m")
    assert {"masking", "matching"} <= set(completion.offer_topics("ma"))
