"""Memories hold what BFCL's bounds allow, begin with what was said before, and find it again."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fctncalling.checkers.agentic import answer_fault
from fctncalling.data.bfcl import load_tasks
from fctncalling.envs.errors import MissingExtra
from fctncalling.envs.handlers.execution import ToolSession
from fctncalling.envs.tools import tool_class
from fctncalling.envs.tools.bfcl.memory_vector import MemoryAPI_vector

KV, REC_SUM = "MemoryAPI_kv", "MemoryAPI_rec_sum"


class LetterMemory(MemoryAPI_vector):
    """Embeds a text by its letters: alike texts share letters, and no model is loaded."""

    @staticmethod
    def _encoder(texts: Sequence[str]) -> list[list[float]]:  # type: ignore[override]
        rows = [[1e-9 + text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
        return [[x / sum(y * y for y in row) ** 0.5 for x in row] for row in rows]


def session(name: str, scenario: dict[str, Any] | None = None, **extra: type) -> ToolSession:
    return ToolSession([name], {name: scenario or {}}, extra_tools=extra)


def result(tools: ToolSession, call: str) -> Any:
    return json.loads(tools.execute(call))


@pytest.mark.parametrize(("part", "entries", "chars"), [("core", 7, 300), ("archival", 50, 2000)])
def test_key_value_memory_refuses_what_exceeds_its_bounds(
    part: str, entries: int, chars: int
) -> None:
    tools = session(KV)
    assert "error" in result(tools, f"{part}_memory_add(key='long', value={'x' * (chars + 1)!r})")
    for number in range(entries):
        assert "status" in result(
            tools, f"{part}_memory_add(key='key_{number}', value={'x' * chars!r})"
        )
    assert "error" in result(tools, f"{part}_memory_add(key='one_more', value='x')")
    assert "error" in result(
        tools, f"{part}_memory_replace(key='key_0', value={'x' * (chars + 1)!r})"
    )
    assert "status" in result(tools, f"{part}_memory_remove(key='key_0')")
    assert "status" in result(tools, f"{part}_memory_add(key='one_more', value='x')")
    assert len(result(tools, f"{part}_memory_list_keys()")["keys"]) == entries


@pytest.mark.parametrize("key", ["Name", "a b", "_a", "a__b", "1a", "", "a-b"])
def test_keys_that_are_not_snake_case_are_refused(key: str) -> None:
    assert "error" in result(session(KV), f"core_memory_add(key={key!r}, value='x')")


def test_a_key_is_found_by_its_words_and_its_value_by_the_key() -> None:
    tools = session(KV)
    for key, value in (
        ("favourite_tea", "oolong"),
        ("birth_place", "Turin"),
        ("tea_pot_colour", "blue"),
    ):
        assert "status" in result(tools, f"archival_memory_add(key={key!r}, value={value!r})")
    found = result(tools, "archival_memory_key_search(query='birth place', k=2)")["ranked_results"]
    assert found[0][1] == "birth_place"
    assert len(found) == 2
    assert found[0][0] > found[1][0]
    assert result(tools, "archival_memory_retrieve(key='birth_place')") == {"value": "Turin"}
    assert "error" in result(tools, "archival_memory_retrieve(key='birth')")
    assert "error" in result(tools, "archival_memory_add(key='birth_place', value='Rome')")


def test_searching_an_empty_memory_is_an_error_text_as_in_bfcl() -> None:
    assert (
        session(KV)
        .execute("core_memory_key_search(query='x')")
        .startswith("Error during execution: ")
    )


def test_summary_memory_refuses_more_than_ten_thousand_characters() -> None:
    tools = session(REC_SUM)
    assert "error" in result(tools, "memory_retrieve()")
    assert "status" in result(tools, f"memory_append(text={'ab' * 5000!r})")
    assert "error" in result(tools, "memory_append(text='c')")
    assert "status" in result(tools, "memory_replace(old_text='a', new_text='')")
    assert result(tools, "memory_retrieve()") == {"memory_content": "b" * 5000}
    assert "error" in result(tools, f"memory_update(text={'x' * 10001!r})")
    assert "error" in result(tools, "memory_replace(old_text='z', new_text='y')")


def test_the_public_state_of_a_memory_is_the_snapshot_another_begins_with() -> None:
    for name, call in (
        (KV, "core_memory_add(key='name', value='Ada')"),
        (REC_SUM, "memory_append(text='Ada')"),
    ):
        first = session(name)
        first.execute(call)
        snapshot = json.loads(json.dumps(first.public_state()[name]))
        assert session(name, {"snapshot": snapshot}).public_state()[name] == snapshot
    first = session("Letters", Letters=LetterMemory)
    first.execute("archival_memory_add(text='Ada')")
    first.execute("archival_memory_add(text='Bob')")
    first.execute("archival_memory_remove(vec_id=0)")
    snapshot = json.loads(json.dumps(first.public_state()["Letters"]))
    again = session("Letters", {"snapshot": snapshot}, Letters=LetterMemory)
    assert result(again, "archival_memory_add(text='Eve')") == {"id": 2}
    assert result(again, "archival_memory_retrieve_all()") == {
        "result": [{"id": 1, "text": "Bob"}, {"id": 2, "text": "Eve"}]
    }


def test_vector_memory_ranks_by_likeness_and_keeps_its_bounds() -> None:
    tools = session("Letters", Letters=LetterMemory)
    for text in ("zebra zoo", "banana", "queue"):
        tools.execute(f"core_memory_add(text={text!r})")
    found = result(tools, "core_memory_retrieve(query='bananas', top_k=2)")["result"]
    assert [each["text"] for each in found] == ["banana", "zebra zoo"]
    assert found[0]["similarity_score"] > 0.9 > found[1]["similarity_score"]
    assert "error" in result(tools, f"core_memory_add(text={'x' * 301!r})")
    for _ in range(4):
        assert "id" in result(tools, "core_memory_add(text='x')")
    assert "error" in result(tools, "core_memory_add(text='x')")
    assert "error" in result(tools, "core_memory_update(vec_id=99, new_text='x')")


def test_vector_memory_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        MissingExtra, match=r"MemoryAPI_vector.*sentence_transformers.*fctncalling\[memory-vector\]"
    ):
        tool_class("MemoryAPI_vector")()._load_scenario({})


def test_replayed_conversations_stay_within_the_bounds_and_hold_most_answers(shared: Path) -> None:
    held = {}
    for category, name in (("memory_kv", KV), ("memory_rec_sum", REC_SUM)):
        tasks = load_tasks(shared / "bfcl/data" / f"BFCL_v4_{category}.json")
        answered = 0
        for task in tasks:
            memory = tool_class(name)()
            memory._load_scenario(task.initial_config[name])
            if name == KV:
                assert len(memory.core_memory) <= 7
                assert 0 < len(memory.archival_memory) <= 50
                assert all(len(value) <= 2000 for value in memory.archival_memory.values())
                assert all(len(value) <= 300 for value in memory.core_memory.values())
                text = " ".join(memory.archival_memory.values())
            else:
                assert 0 < len(memory.memory) <= 10_000
                text = memory.memory
            answered += answer_fault(text, task.ground_truth or ()) is None
        held[category] = answered / len(tasks)
    assert held["memory_kv"] > 0.85
    assert held["memory_rec_sum"] > 0.5
