"""Why an answer fails, and the answer near it that passes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fctncalling.data.types import Call, Task, Verdict
from fctncalling.envs.handlers import DecodeError
from fctncalling.envs.handlers.registry import handler_for
from fctncalling.envs.judging.ground_truth import ExtraTools
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.accepted_answers import accepted_answer, render_calls
from fctncalling.lab.error_analysis.call_differences import ComparedCalls, compare_calls
from fctncalling.lab.error_analysis.diagnosis import Diagnosis
from fctncalling.lab.error_analysis.form_repairs import FormRepair, decoded, repair_form, with_names
from fctncalling.lab.error_analysis.multi_turn import diagnose_multi_turn


def diagnose(
    task: Task,
    response: Any,
    form: str = "prompting",
    *,
    extra_tools: ExtraTools | None = None,
    overflowed: bool = False,
) -> Diagnosis:
    """Return the verdict on one answer with everything that has to be mended.

    Arguments are those of `judge`; `overflowed`: the dialogue outgrew its context. Raises what
    `judge` raises.
    """
    verdict = judge(task, response, form, extra_tools=extra_tools)
    if verdict.valid:
        return Diagnosis(verdict)
    if overflowed:
        return Diagnosis(verdict, ("context overflow",), answer=answer_text(response))
    if task.kind == "multi_turn":
        return diagnose_multi_turn(task, response, form, verdict, extra_tools)
    if task.kind == "agentic":
        return _agentic(task, response, verdict)
    if task.kind == "irrelevance":
        return Diagnosis(verdict, ("called without need",), answer=answer_text(response))
    return _single_turn(task, response, form, verdict)


def answer_text(response: Any) -> str:
    """Return an answer as one text."""
    return response if isinstance(response, str) else json.dumps(response, default=str)


def _single_turn(task: Task, response: Any, form: str, verdict: Verdict) -> Diagnosis:
    repair = repair_form(task, form, response)
    text = repair.text
    causes = list(repair.causes)
    named = with_names(task, text) if text and form == "prompting" else None
    if named is not None:
        text = named
        causes.append("positional arguments")
    if text is not None and judge(task, text, form).valid:
        return _diagnosis(response, verdict, repair, causes or ["call order"], text, form=True)
    if task.kind == "relevance":
        return _diagnosis(response, verdict, repair, causes, None)
    calls = decoded(handler_for(task, form), text) if text else []
    compared = _compared(task, [] if isinstance(calls, DecodeError) else calls, form)
    if compared is None:
        return _diagnosis(response, verdict, repair, causes, accepted_answer(task, form))
    if calls:
        causes += dict.fromkeys(each.cause for each in compared.differences)
    nearest = _passing(task, form, compared.mended)
    if nearest is None:
        causes = ["faulty ground truth"]
    typed = bool(calls) and _passing_text(task, form, compared.with_types) is not None
    return _diagnosis(
        response, verdict, repair, causes or ["call order"], nearest, compared, types=typed
    )


def _diagnosis(
    response: Any,
    verdict: Verdict,
    repair: FormRepair,
    causes: Sequence[str],
    nearest: str | None,
    compared: ComparedCalls | None = None,
    *,
    form: bool = False,
    types: bool = False,
) -> Diagnosis:
    first = causes[0] if causes else ""
    differences = compared.differences if compared else ()
    return Diagnosis(
        verdict,
        tuple(causes),
        tuple(each.where for each in differences if each.cause == first),
        repair.complaint or verdict.message,
        answer_text(response),
        nearest,
        form_suffices=form,
        types_suffice=form or types,
    )


def _compared(task: Task, calls: Sequence[Call], form: str) -> ComparedCalls | None:
    try:
        return compare_calls(task, calls, underscores=form == "tool_call")
    except (ValueError, StopIteration, TypeError, KeyError, AttributeError):
        return None  # the ground truth cannot be written as calls


def _passing(task: Task, form: str, calls: Sequence[Call]) -> str | None:
    """Return the mended calls as a text that passes, or else any that does.

    None where none does.
    """
    text = _passing_text(task, form, calls)
    if text is not None:
        return text
    text = accepted_answer(task, form)
    return text if text is not None and judge(task, text, form).valid else None


def _passing_text(task: Task, form: str, calls: Sequence[Call]) -> str | None:
    try:
        if form == "tool_call":
            text = json.dumps([{each.name: json.dumps(dict(each.arguments))} for each in calls])
        elif "prompt_variant" in task.extra:
            text = handler_for(task, form).render(calls)
        else:
            text = render_calls(task, calls)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return text if judge(task, text, form).valid else None


def _agentic(task: Task, response: Any, verdict: Verdict) -> Diagnosis:
    """Return what is wrong with a dialogue whose last message is the answer."""
    steps = response[0] if isinstance(response, list) and len(response) == 1 else response
    texts = [step for step in steps if isinstance(step, str)] if isinstance(steps, list) else []
    accepted = [str(each) for each in task.ground_truth or ()]
    if verdict.error_type == "agentic:inference_error":
        cause = "inference error"
    elif verdict.error_type == "agentic:no_last_message":
        cause = "never answered"
    elif any(judge(task, [[text]]).valid for text in texts[:-1]):
        cause = "answer not in the last message"
    else:
        cause = "wrong answer"
    last = texts[-1] if texts else answer_text(response)
    nearest = accepted[0] if accepted else None
    return Diagnosis(verdict, (cause,), (), verdict.message, last, nearest)
