"""Every end that template, tokenizer or generation_config.json names stops an action at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chat_templates import ENDS, GLM, SWITCHED
from stub_vllm import vllm_stub
from tiny_models import constant_model, sample_always

from fctncalling.algorithms.config import SettingError
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import Request
from fctncalling.algorithms.policy.answer_ends import add_ends, listed_ends
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.template_file import load_template
from fctncalling.algorithms.vllm.engine import VllmEngine
from fctncalling.algorithms.vllm.servers import VllmServers
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.types import Message
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.evaluation.agents.local_model import LocalChatModel
from fctncalling.lab.doctor.examine import stop_finding
from fctncalling.lab.gateway.served_model import ServedModel
from fctncalling.training.demonstrations import play_ground_truths

QUESTION: Message = {"role": "user", "content": "q"}
RESULT: Message = {"role": "tool", "name": "f", "content": "r"}


@pytest.mark.parametrize("family", ENDS)
def test_a_model_that_always_samples_one_of_its_ends_stops_at_once(
    family: str, tmp_path: Path
) -> None:
    shape, names = ENDS[family]
    tokenizer = shape.tokenizer()
    tokenizer.save_pretrained(tmp_path)
    model = constant_model(len(tokenizer))
    ends = tokenizer.convert_tokens_to_ids(list(names))
    model.generation_config.eos_token_id = ends
    for end in ends:
        sample_always(model, end)
        template = load_template(tokenizer, model=model)
        engine = GenerationEngine(model, template.stop_ids, max_new_tokens=9)
        engine.allocate_slots(1)
        engine.begin_sequence(0, seed=0)
        [action] = engine.generate([Request(0, template.render_prompt([QUESTION]))])
        assert (action.ids, action.stop_reason) == ([end], "end")
        assert template.decode(action.ids) == ""

        model.save_pretrained(tmp_path)
        user = LocalChatModel(str(tmp_path))  # samples with transformers' generate
        assert _sampled_by_server(tmp_path, template) == ([end], "end")
        passes = _count_passes(user._model)
        assert (user([QUESTION]), len(passes)) == ("", 1)
    assert stop_finding(template, listed_ends(str(tmp_path))).level == "sound"
    letter = template.encode("a")
    assert stop_finding(template, [*ends, *letter]).is_fault  # never a stop: texts hold it
    assert letter[0] not in load_template(tokenizer, model=_listing(letter)).stop_ids


def _sampled_by_server(folder: Path, template: ChatTemplate) -> tuple[list[int], str]:
    """Return an action that a vLLM server samples, and why it ended."""
    with vllm_stub(folder) as stub:
        servers = VllmServers([stub.url])
        ServedModel(servers)
        engine = VllmEngine(servers, "served", template.stop_ids, max_new_tokens=9)
        engine.allocate_slots(1)
        engine.begin_sequence(0, seed=0)
        [action] = engine.generate([Request(0, template.render_prompt([QUESTION]))])
        engine.release()
        servers.close()
    return action.ids, action.stop_reason


def _count_passes(model: Any) -> list[None]:
    passes: list[None] = []
    model.register_forward_hook(lambda *_: passes.append(None))
    return passes


def _listing(ends: list[int]) -> Any:
    model = constant_model(2)
    model.generation_config.eos_token_id = ends
    return model


@pytest.mark.parametrize("family", ENDS)
@pytest.mark.parametrize("behind", [QUESTION, RESULT])
def test_what_follows_an_action_writes_no_end_twice_and_closes_what_ended_otherwise(
    family: str, behind: Message
) -> None:
    shape, names = ENDS[family]
    tokenizer = shape.tokenizer()
    ends = tokenizer.convert_tokens_to_ids(list(names))
    template = ChatTemplate(tokenizer, listed_ends=ends)
    behind = behind if template.tool_role else QUESTION
    whole = tokenizer.apply_chat_template(
        [QUESTION, {"role": "assistant", "content": "WORDS"}, behind],
        tokenize=False,
        add_generation_prompt=True,
    )
    tail = whole.partition("WORDS")[2]
    assert template.spell(template.render_delta([behind], template.encode("S")[-1])) == tail
    for name, end in zip(names, ends, strict=True):
        grown = name + template.spell(template.render_delta([behind], end))
        assert grown == (tail if tail.startswith(name) else name + tail)


def test_demonstrations_teach_the_mark_of_the_role_that_is_next() -> None:
    template = ChatTemplate(GLM.tokenizer())
    known = load_tasks(embedded_path("held_out"))
    tasks = [
        next(task for task in known if kind in task.category)
        for kind in ("simple", "irrelevance", "multi_turn")
    ]
    played = play_ground_truths(
        tasks, lambda tasks: FunctionCallingEnv(tasks=tasks), template, "", 10**6
    )
    taught = set()
    for record in played:
        [row] = record.rows
        ends = [row.ids[at] for at, is_end in enumerate(row.ends_action) if is_end]
        episode: Any = record.episode
        taught |= {
            (bool(step.calls), template.spell([end]))
            for step, end in zip(episode.steps, ends, strict=True)
        }
        text = template.spell(row.ids)
        assert not any(mark * 2 in text for mark in ("<|user|>", "<|observation|>"))
        assert "<|endoftext|>" not in text
    assert taught == {(True, "<|observation|>"), (False, "<|user|>")}


def test_arguments_reach_every_rendering_and_unknown_ones_are_refused() -> None:
    off = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    for kwargs, empty in ((None, False), ('{"enable_thinking": false}', True)):
        template = load_template(SWITCHED.tokenizer(), kwargs=kwargs)
        answer: Message = {"role": "assistant", "content": "a"}
        for ids in (
            template.render_prompt([QUESTION]),
            template.render_delta([RESULT]),
            template.render_full([QUESTION, answer, QUESTION]),
        ):
            assert template.spell(ids).endswith(off) is empty
    other = template.with_kwargs({"enable_thinking": True})
    assert not other.spell(other.render_prompt([QUESTION])).endswith(off)
    assert other is template.with_kwargs({"enable_thinking": True})
    assert template.with_kwargs({}) is template
    for kwargs, told in (
        ('{"enable_thinkng": false}', "does not use enable_thinkng"),
        ('{"tools": []}', "tools is given by every rendering"),
        ("[1]", "expected a JSON object"),
        ("{", "expected a JSON object"),
    ):
        with pytest.raises(SettingError, match=told):
            load_template(SWITCHED.tokenizer(), kwargs=kwargs)


def test_added_ends_are_listed_once_and_saved(tmp_path: Path) -> None:
    model = constant_model(8)
    model.generation_config.eos_token_id = 3
    add_ends(model, [3])
    assert model.generation_config.eos_token_id == 3  # as it was, to the byte
    add_ends(model, [5, 3, 5])
    model.save_pretrained(tmp_path)
    assert listed_ends(str(tmp_path)) == [3, 5]
    (tmp_path / "generation_config.json").unlink()
    assert listed_ends(str(tmp_path)) == listed_ends(model.config)
