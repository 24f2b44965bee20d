"""verifiers (tested with 0.4): tasks as a taskset, and a harness that plays them.

verifiers finds a taskset by the name of a module. Write one of two lines, `my_tasks.py` say, then
`PYTHONPATH=. vf-eval my_tasks --model MODEL --client.base-url URL --no-push`:

    Tasks, Player, Episode = plugins(load_tasks("BFCL_v4_multi_turn_base.json"))
    __all__ = ["Tasks", "Player", "Episode"]
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import verifiers.v1 as vf
from openai import APIStatusError, AsyncOpenAI, omit

from fctncalling.data.types import Message, Task
from fctncalling.lab.dialogue import Dialogue, opening

VERDICT = "fctncalling"  # in a trace's info: reward, validity, error type, message


class DialogueTaskData(vf.TaskData):
    """Data of a task that verifiers stores; `id` is the task's id."""

    category: str


class DialogueTask(vf.Task[DialogueTaskData, vf.State, vf.TaskConfig]):
    """Task with its reward and verdict from the played episode."""

    @vf.reward
    async def episode_reward(self, trace: vf.Trace) -> float:
        """Return the environment's reward: by default 1 if BFCL's checker passes."""
        return float(self._found(trace)["reward"])

    @vf.metric
    async def valid(self, trace: vf.Trace) -> float:
        """Return BFCL's verdict as 0 or 1."""
        return float(self._found(trace)["valid"])

    def _found(self, trace: vf.Trace) -> Mapping[str, Any]:
        if VERDICT not in trace.info:
            raise ValueError(
                f'task "{self.data.id}" has no verdict: it was not played by the harness of '
                "fctncalling.lab.integrations.verifiers.plugins; leave --env.agent.harness.id out."
            )
        verdict: Mapping[str, Any] = trace.info[VERDICT]
        return verdict


class DialogueTaskset(vf.Taskset[DialogueTask, vf.TasksetConfig]):
    """Taskset of a subclass's tasks."""

    tasks: ClassVar[Sequence[Task]]
    form: ClassVar[str]

    def load(self) -> Iterator[DialogueTask]:
        """Yield the tasks in order."""
        for task in self.tasks:
            data = DialogueTaskData(
                id=task.id,
                name=task.id,
                category=task.category,
                prompt=opening(task, self.form).messages,
            )
            yield DialogueTask(data, self.config.task)


class DialogueHarness(vf.Harness[vf.HarnessConfig]):
    """Harness that plays a task in this process; model calls go through verifiers."""

    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    APPENDS_SYSTEM_PROMPT = True
    tasks: ClassVar[Mapping[str, Task]]
    form: ClassVar[str]
    keywords: ClassVar[Mapping[str, Any]]

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Play an episode; its verdict and reward go to the trace.

        Raises InfrastructureError where the tools failed: an error of the trace, not a reward.
        """
        dialogue = Dialogue(self.tasks[str(data.id)], form=self.form, **self.keywords)
        client = AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0, timeout=None)
        try:
            await asyncio.to_thread(dialogue.open)
            while not dialogue.done:
                completion = await client.chat.completions.create(
                    model=ctx.model,
                    messages=_with_system(data.system_prompt, dialogue.messages),
                    tools=dialogue.tools or omit,
                )
                message = completion.choices[0].message.model_dump(exclude_none=True)
                await asyncio.to_thread(dialogue.reply, message)
        except APIStatusError:
            if trace.stop_condition is None:  # a limit of the run ends it, nothing failed
                raise
        finally:
            dialogue.close()
            await client.close()
        verdict = dialogue.verdict_so_far()
        about = {name: getattr(verdict, name) for name in ("valid", "error_type", "message")}
        trace.info[VERDICT] = {"reward": dialogue.reward, **about}
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class DialogueEnvConfig(vf.EnvConfig):
    """Configuration of one agent without a sandbox: it executes no code."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class DialogueEnv(vf.Env[DialogueEnvConfig]):
    """Environment in which one agent plays one task."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Play the task."""
        await agents.agent.run(task)


def plugins(
    tasks: Sequence[Task], form: str = "tool_call", **keywords: Any
) -> tuple[type[DialogueTaskset], type[DialogueHarness], type[DialogueEnv]]:
    """Return taskset, harness and environment of these tasks for a module's `__all__`.

    `form` and `keywords` are those of `Dialogue`.
    """
    by_id = {task.id: task for task in tasks}
    played = {"tasks": by_id, "form": form, "keywords": keywords}
    return (
        type("Tasks", (DialogueTaskset,), {"tasks": tasks, "form": form}),
        type("Player", (DialogueHarness,), played),
        type("Episode", (DialogueEnv,), {}),
    )


def _with_system(system: str | None, messages: Sequence[Message]) -> Any:
    """Prepend the system prompt that verifiers was given, if any."""
    if not system:
        return list(messages)
    first, rest = messages[0], messages[1:]
    if first["role"] != "system":
        return [{"role": "system", "content": system}, *messages]
    return [{"role": "system", "content": f"{system}\n\n{first['content']}"}, *rest]
