"""conformance --parser: what a template wrote is read back, faults are found where they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fctncalling.cli.command import main

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}"
    "{% for each in m.tool_calls or [] %}{{ '\\n<tool_call>\\n' + ({'name': each.function.name, "
    "'arguments': each.function.arguments} | tojson) + '\\n</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
PARSER = """
import json, re

def read(text, tools):
    found = re.findall(r"<tool_call>\\n(.*?)\\n</tool_call>", text, re.DOTALL)
    calls = [json.loads(each) for each in found]
    CHANGE
    return calls
"""


@pytest.fixture
def command(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    template = tmp_path / "template.jinja"
    template.write_text(TEMPLATE, "utf-8")
    monkeypatch.chdir(tmp_path)
    return ["conformance", f"--data_dir={shared / 'bfcl/data'}", f"--chat_template={template}"]


def strata(command: list[str], parser: str, code: int) -> dict[str, Any]:
    """Return a report's strata, of three categories."""
    chosen = ["--category", "parallel", "multiple", "live_parallel", "irrelevance"]
    assert main([*command, "--parser", parser, *chosen, "--json", "report.json"]) == code
    found: dict[str, Any] = json.loads(Path("report.json").read_text("utf-8"))["strata"]
    return found


def test_ours_reads_all_that_the_template_writes(command: list[str]) -> None:
    found = strata(command, "self", 0)
    assert {each["agreement"] for each in found.values()} == {1.0}
    assert sum(each["count"] for each in found.values()) == 200 + 200 + 16 + 240
    assert {"valid/several_calls", "valid/words_before", "wrong/without_calls"} <= set(found)


@pytest.mark.parametrize(
    ("change", "wrong", "right"),
    [
        ("pass", set(), {"valid/one_call", "valid/several_calls", "wrong/without_calls"}),
        ("calls = calls[:1]", {"valid/several_calls"}, {"valid/one_call", "wrong/without_calls"}),
        (
            "for each in calls: each['name'] = each['name'].replace('.', '_')",
            {"valid/dotted_name"},
            {"valid/one_call", "valid/several_calls"},
        ),
        ("calls = calls if text[0] == '\\n' else []", {"valid/words_before"}, {"valid/one_call"}),
        (
            "for each in calls: each['arguments'] = json.dumps(each['arguments'])",
            set(),
            {"valid/one_call", "valid/nested_values"},
        ),
    ],
)
def test_a_fault_is_found_in_the_stratum_that_shows_it(
    change: str, wrong: set[str], right: set[str], command: list[str]
) -> None:
    module = f"parser_{abs(hash(change))}"
    Path(f"{module}.py").write_text(PARSER.replace("CHANGE", change), "utf-8")
    found = strata(command, f"{module}:read", int(bool(wrong)))
    assert all(found[name]["agreement"] < 1 for name in wrong)
    assert all(found[name]["agreement"] == 1 for name in right)
    for name in wrong:
        assert "the parser reads" in found[name]["counterexample"]


@pytest.mark.parametrize(
    ("parser", "told"),
    [
        ("cat", "expected lines"),
        ("false", "it ended after 0 verdicts"),
        ("PYTHON 'print(chr(123) + chr(34) + \"id\" + chr(34))'", "expected lines"),
        ('PYTHON \'print("{\\"id\\": \\"1\\", \\"calls\\": [1]}")\'', "calls is [1]: expected"),
    ],
)
def test_a_hostile_parser_ends_in_one_line(
    parser: str, told: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = parser.replace("PYTHON", f"{sys.executable} -c")
    assert main([*command, "--parser", given, "--category", "live_parallel"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("template", ["{{ messages[7].content }}", "{{ 1 / 0 }}", "{% if", "none"])
def test_a_template_that_writes_no_calls_is_refused_in_one_line(
    template: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("template.jinja").write_text(template, "utf-8")
    assert main([*command, "--parser", "self", "--category", "live_parallel"]) == 2
    error = capsys.readouterr().err
    assert "the chat template cannot write the answer to live_parallel_0" in error
    assert error.count("\n") == 1


def test_categories_without_calls_in_json_are_refused(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--parser", "self", "--category", "multi_turn_base"]) == 2
    assert "--parser expects some of" in capsys.readouterr().err
