"""What the gate found as JUnit XML, which GitHub, GitLab and Jenkins read."""

import re
from xml.etree import ElementTree

from holdfast.report.documents.gate import actually, holds, statement
from holdfast.storage.gate import Gate

_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold."""


def junit(data: Gate) -> str:
    """Return requirements and verdicts as test cases; what cannot be told is skipped, or failed under --strict."""
    root = ElementTree.Element("testsuites", name="holdfast check")
    if data.findings:
        suite = _suite(root, f"requirements of {data.record}")
        for finding in data.findings:
            case = _case(suite, finding.encoder, finding.requirement)
            if not finding.met:
                _outcome(case, "failure", "not met", f"{finding.compared}: {actually(finding)}")
    if regression := data.regression:
        suite = _suite(root, f"{data.record} against {regression.baseline}")
        for row in regression.verdicts:
            case = _case(suite, row.encoder, f"{row.measure}.{row.score} allowed drop {row.margin.written}")
            holding = holds(row)
            if holding is None:
                _outcome(case, "failure" if data.strict else "skipped", row.verdict, statement(row))
            elif not holding:
                _outcome(case, "failure", row.verdict, statement(row))
            else:
                ElementTree.SubElement(case, "system-out").text = _writable(statement(row))
    for element in (root, *root):
        element.set("tests", str(len(list(element.iter("testcase")))))
        element.set("failures", str(len(list(element.iter("failure")))))
        element.set("errors", "0")
        element.set("skipped", str(len(list(element.iter("skipped")))))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(root: ElementTree.Element, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(root, "testsuite", name=_writable(name))


def _case(suite: ElementTree.Element, encoder: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=_writable(encoder), name=_writable(name), time="0")


def _outcome(case: ElementTree.Element, kind: str, verdict: str, message: str) -> None:
    text = _writable(message)
    element = ElementTree.SubElement(case, kind, message=text)
    if kind == "failure":  # jenkins and its schema know no type of a skipped case
        element.set("type", verdict)
    element.text = text


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("�", text)
