"""A verdict as JUnit XML, one case for each gate, so that CI viewers show it."""

from xml.etree import ElementTree as ET

from policies import ContrastVerdict, Gate
from reproduce.report import words
from reproduce.report.model import Account
from reproduce.report.text import one_line

_BEYOND_XML = {0xFFFE: None, 0xFFFF: None}
"""What XML 1.0 cannot hold, besides what is not printable (section 2.2)."""


def verdict_junit(account: Account) -> str:
    """One suite for each contrast; a gate that does not hold is shown as a failed case.

    While outcomes are sealed there is one suite with one skipped case.
    """
    root = ET.Element("testsuites", {"name": _text(account.plan.title)})
    if account.is_sealed():
        _sealed(root, account)
    else:
        for contrast in account.verdict.contrasts:
            _suite(root, account, contrast)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _sealed(root: ET.Element, account: Account) -> None:
    suite = ET.SubElement(root, "testsuite", _counts("sealed", cases=1, skipped=1))
    case = ET.SubElement(suite, "testcase", {"classname": "reproduce", "name": "verdict"})
    ET.SubElement(case, "skipped", {"message": _text(words.withheld(account))})


def _suite(root: ET.Element, account: Account, contrast: ContrastVerdict) -> None:
    treatment, control = account.arms(contrast)
    name = f"{words.arm_name(treatment)} against {words.arm_name(control)}: {contrast.status}"
    broken = sum(not gate.holds for gate in contrast.gates)
    attributes = _counts(_text(name), cases=len(contrast.gates), failures=broken)
    suite = ET.SubElement(root, "testsuite", attributes)
    for gate in contrast.gates:
        _case(suite, account.verdict.policy.name, gate)
    out = ET.SubElement(suite, "system-out")
    out.text = _text(f"{words.counts(treatment, control)}; root {account.root}")


def _case(suite: ET.Element, policy: str, gate: Gate) -> None:
    names = {"classname": _text(policy), "name": _text(gate.title)}
    case = ET.SubElement(suite, "testcase", names)
    measured = _text(f"declared {gate.declared}, measured {gate.measured}")
    if gate.holds:
        ET.SubElement(case, "system-out").text = measured
    else:
        ET.SubElement(case, "failure", {"message": measured})


def _counts(name: str, *, cases: int, failures: int = 0, skipped: int = 0) -> dict[str, str]:
    return {
        "name": name,
        "tests": str(cases),
        "failures": str(failures),
        "errors": "0",
        "skipped": str(skipped),
    }


def _text(text: str) -> str:
    return one_line(text).translate(_BEYOND_XML)
