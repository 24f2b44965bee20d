"""One line of a run's output: the answer, its verdicts and every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fctncalling.cli.run.planned_tasks import PlannedTask
from fctncalling.data.types import Task, Verdict
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.agents.agent import PlayedEpisode
from fctncalling.evaluation.agents.tool_call_answers import as_tool_calls
from fctncalling.evaluation.episode_log import (
    as_json,
    episode_json,
    episode_response,
    verdict_fields,
)

INFERENCE_ERROR = "Error during inference: "
"""How BFCL begins the answer of a dialogue that broke off."""


def result_line(
    item: PlannedTask,
    played: PlayedEpisode,
    form: str,
    more: Mapping[str, Any],
    tools: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the output line of an episode; `more` fields precede the answer."""
    steps, episode = played.episode.steps, played.episode
    line = {"category": item.category, "id": item.task.id, "handler": item.handler, **more}
    line |= {"dataset_path": item.dataset_path} if item.dataset_path else {}
    line["ground_truth"] = item.task.ground_truth
    if episode.invalid:
        return {**line, "response": None, **episode_json(played)}
    response = episode_response(item.task, steps)
    if played.failure:
        response = f"{INFERENCE_ERROR}{played.failure}"
    elif form != "prompting" and item.handler != "tool_calls":  # the model's own form
        calls = {step.text: tuple(step.calls) for step in steps}
        response = as_tool_calls(response, calls)
    verdict = episode.verdict
    if verdict is None:  # cut by a budget: what there is, is judged as `score` will judge it
        judged_form = "prompting" if form == "prompting" else "tool_call"
        verdict = judge(item.task, response, judged_form, extra_tools=dict(tools))
    verdicts = verdict_fields(item.task, steps, verdict)
    if played.failure:
        verdicts |= failed_fields(item.task, verdict, played.failure)
    verdicts["verdict"] = as_json(episode.verdict) if episode.verdict else None
    return {**line, "response": response, **verdicts, **episode_json(played)}


def failed_fields(task: Task, verdict: Verdict, failure: str) -> dict[str, Any]:
    """Return the output fields of an episode that broke off.

    BFCL judges the error text as the answer: a failure everywhere but where no call is expected.
    The strict verdict fails it there, too.
    """
    fields = {"strict_valid": False, "strict_error_type": failure, "progress": 0.0}
    return fields if verdict.valid else {**fields, "error_type": failure}
