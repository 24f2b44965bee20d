"""Format sensitivity: 26 configurations, their handlers, their prompts and BFCL's verdicts under
them.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path

import pytest
from conftest import VerdictCounter
from hypothesis import given
from hypothesis import strategies as st

from fctncalling.cli.shared.jsonl_records import InputError, SourceRecord, read_records
from fctncalling.cli.verdicts import RecordJudge
from fctncalling.data.errors import TaskError
from fctncalling.data.format_sensitivity import (
    VARIANTS,
    PromptVariant,
    load_format_sensitivity_tasks,
    parse_variant_id,
)
from fctncalling.data.types import FunctionDoc
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import DecodeError, get_handler
from fctncalling.envs.handlers.return_formats import RETURN_HANDLERS, first_list_of_objects
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.prompting import prompts
from fctncalling.envs.prompting.format_variants import variant_system_prompt

SCHEMA = {
    "type": "dict",
    "properties": {"n": {"type": "array", "items": {"type": "float"}, "default": [1]}},
}
DOC = FunctionDoc("g", 'Says """ and <b>.', {**SCHEMA, "required": ["n"]})


def test_there_are_26_configurations_and_each_reads_back() -> None:
    assert len(set(map(str, VARIANTS))) == 26
    assert [PromptVariant.parse(str(variant)) for variant in VARIANTS] == list(VARIANTS)


def test_an_id_names_the_variant_and_the_entry() -> None:
    variant, asked = parse_variant_id(f"format_sensitivity_24:{VARIANTS[7]}:live_multiple_3-2-0")
    assert (variant, asked) == (VARIANTS[7], "live_multiple_3-2-0")


@pytest.mark.parametrize(
    "entry_id", ["simple_python_0", "a:b:c", "x:ret_fmt=yaml:simple_python_0", f"x:{VARIANTS[0]}"]
)
def test_what_is_no_such_id_is_refused(entry_id: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_variant_id(entry_id)


def test_verdicts_of_format_sensitivity_are_the_official_ones(
    shared: Path, verdict_counter: VerdictCounter
) -> None:
    judge = RecordJudge(shared / "bfcl/data")
    lines = list(read_records(shared / "bfcl/verdicts/format_sensitivity.jsonl.gz"))
    assert [line.number for line in lines if judge.judge_record(line) != line.record] == []
    verdict_counter.add(len(lines))


def test_decoders_give_the_official_values_and_failures(
    shared: Path, verdict_counter: VerdictCounter
) -> None:
    with gzip.open(shared / "bfcl/verdicts/decode_cases.jsonl.gz", "rt", encoding="utf-8") as file:
        cases = [
            case
            for case in map(json.loads, file)
            if (case["format"], case["tool_call_tag"]) in RETURN_HANDLERS
        ]
    for case in cases:
        try:
            decoded = repr(
                RETURN_HANDLERS[case["format"], case["tool_call_tag"]].decode_ast(case["input"])
            )
        except DecodeError:
            decoded = None
        assert decoded == case.get("ast_repr"), case
    assert len(cases) > 100
    verdict_counter.add(len(cases))


@given(
    st.text(alphabet="[]{}, a\n", max_size=14)
    | st.lists(st.sampled_from(["[{", "}", "}]", "},{", " "])).map("".join)
)
def test_the_list_of_objects_is_the_one_that_the_official_expression_finds(text: str) -> None:
    found = re.search(r"\[\s*{.*?}\s*(?:,\s*{.*?}\s*)*\]", text, re.DOTALL)
    assert first_list_of_objects(text) == (found[0] if found else text)


@pytest.mark.parametrize(
    "text", ["[" * 99_000, "[{},{" * 19_000, "<functions>" * 9_000, "<TOOLCALL>" * 9_900]
)
def test_long_texts_are_searched_at_once(text: str) -> None:
    start = time.process_time()
    for handler in RETURN_HANDLERS.values():
        try:
            assert handler.decode(text) == []
        except DecodeError:
            continue
    assert time.process_time() - start < 3  # seconds, for all eight


def test_true_answers_pass_in_the_environment_under_every_variant(shared: Path) -> None:
    tasks = load_format_sensitivity_tasks(shared / "bfcl/data")
    assert len(tasks) == 5200
    env, unwritable = FunctionCallingEnv(tasks=tasks), []
    for task in tasks[::37]:
        info = env.reset(options={"task_id": task.id})[1]
        handler = get_handler(str(task.extra["prompt_variant"]))
        docs = prompts.docs_for_prompt(task.functions, task.category)
        assert info["instructions"] == variant_system_prompt(parse_variant_id(task.id)[0], docs)
        try:
            text = handler.render(oracle_calls(task)[0])
        except ValueError:
            unwritable.append(parse_variant_id(task.id)[1])
            continue
        assert env.step(text)[1] == 1.0, task.id
    assert set(unwritable) <= {"simple_python_96"}  # BFCL cuts its lists of objects


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_prompt_shows_its_form_its_docs_and_nothing_that_closes_them(
    variant: PromptVariant,
) -> None:
    text = variant_system_prompt(variant, [DOC])
    assert ("<TOOLCALL>" in text) == variant.tagged
    assert ("```json" in text) == (variant.return_format == "json")
    assert ("## Task" in text) == (variant.markup == "markdown")
    assert "g" in text.splitlines()[-1] or variant.doc_format in text
    assert text.count('"""') == (2 if variant.doc_format == "python" else 0) + (
        variant.doc_format == "xml"
    )
    assert ("<b>" in text) == (variant.doc_format != "xml")


def test_all_26_prompts_differ() -> None:
    assert len({variant_system_prompt(variant, [DOC]) for variant in VARIANTS}) == 26


def test_a_folder_without_the_entries_is_told(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="BFCL_v4_format_sensitivity"):
        load_format_sensitivity_tasks(tmp_path)
    (tmp_path / "BFCL_v4_format_sensitivity.json").write_text('{"multiple": ["multiple_0"]}')
    (tmp_path / "BFCL_v4_parallel_multiple.json").write_text("")
    with pytest.raises(TaskError, match="BFCL_v4_multiple"):
        load_format_sensitivity_tasks(tmp_path)


def test_records_of_format_sensitivity_are_prompted(shared: Path) -> None:
    record = {
        "category": "format_sensitivity",
        "form": "tool_call",
        "id": f"x:{VARIANTS[0]}:multiple_9999",
        "response": "",
    }
    with pytest.raises(InputError, match=r'a line 1: field "form".*prompting'):
        RecordJudge(shared / "bfcl/data").judge_record(SourceRecord(Path("a"), 1, record))
    prompted = SourceRecord(Path("a"), 1, {**record, "form": "prompting"})
    with pytest.raises(InputError, match=r'field "id".*multiple_9999'):
        RecordJudge(shared / "bfcl/data").judge_record(prompted)
