import pytest

from holdfast.core.source_spec import boolean, finish, one_of, parse, take
from holdfast.runtime.errors import BadValue, UnknownName


@pytest.mark.parametrize(
    ("text", "source", "name", "options"),
    [
        ("digits", None, "digits", {}),
        ("hf:org/name?split=test&config=a%20b", "hf", "org/name", {"split": "test", "config": "a b"}),
        ("py:package.module:factory", "py", "package.module:factory", {}),
        ("torchvision:resnet50@IMAGENET1K_V2", "torchvision", "resnet50@IMAGENET1K_V2", {}),
        ("hf-hub:timm/x", "hf-hub", "timm/x", {}),
        ("C:\\images", None, "C:\\images", {}),
        ("./a:b", None, "./a:b", {}),
        ("a.npz?key=x%3D1%26y", None, "a.npz", {"key": "x=1&y"}),
        ("a?b=c?d", None, "a", {"b": "c?d"}),
        (" digits?part=all ", None, "digits", {"part": "all"}),
    ],
)
def test_a_spec_splits_into_source_name_and_options(text, source, name, options):
    assert parse(text) == (source, name, options)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "name"),
        ("?a=b", "name"),
        ("x?", "key=value"),
        ("x?label=", "'label'"),
        ("x?split", "got 'split'"),
        ("x?=a", "key=value"),
        ("x?a=1&&b=2", "key=value"),
        ("x?a=1&a=2", "twice"),
    ],
)
def test_a_malformed_spec_says_what_is_wrong(text, says):
    with pytest.raises(BadValue, match=says):
        parse(text)


def test_options_are_taken_with_their_type_and_leftovers_are_named():
    _, _, options = parse("x?size=32&flag=yes&part=train&wrokers=3")
    assert take(options, "size", int, None) == 32
    assert take(options, "flag", boolean, False) is True
    assert take(options, "part", one_of("train", "test"), "test") == "train"
    assert take(options, "workers", int, 2) == 2
    with pytest.raises(UnknownName, match=r"'workers'\?"):
        finish(options)


def test_options_that_were_all_taken_finish_quietly():
    _, _, options = parse("x?size=32")
    take(options, "size", int, None)
    finish(options)


def test_a_source_without_options_says_so():
    with pytest.raises(UnknownName, match=r"x\?a=1"):
        finish(parse("x?a=1")[2])


@pytest.mark.parametrize(("convert", "says"), [(int, "size=abc"), (boolean, "true"), (one_of("a", "b"), "a, b")])
def test_a_bad_value_names_the_option(convert, says):
    with pytest.raises(BadValue, match=says):
        take(parse("x?size=abc")[2], "size", convert, None)
