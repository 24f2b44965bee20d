"""A model in a folder plays through the trainer's own rollout: the tokens it is asked and scored by are the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium

from fctncalling.agents.agent import AgentSetupError
from fctncalling.data.types import Call, Episode, Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.handlers import get_handler
from fctncalling.episodes import Played

if TYPE_CHECKING:
    from fctncalling.algorithms.batch import EpisodeRecord

CHUNK = 4  # tasks a slot that are handed to the rollout at once: enough that few slots idle at a chunk's end


@dataclass(frozen=True)
class LocalSettings:
    """How a local model is asked."""

    folder: str
    form: str = ""  # none: tool_call where the chat template takes tools, else prompting
    temperature: float = 0.0  # 0 is greedy
    max_new_tokens: int = 256
    max_episode_tokens: int = 4096
    num_envs: int = 4  # episodes that run side by side
    seed: int = 0
    device: str = "auto"


class LocalModel:
    """Loads model and tokenizer once; raises AgentSetupError where they cannot be loaded."""

    def __init__(self, settings: LocalSettings) -> None:
        try:
            from transformers import AutoModelForCausalLM, AutoTokenizer

            from fctncalling.algorithms.config import resolve_device
            from fctncalling.algorithms.generation import GenerationEngine
            from fctncalling.algorithms.template import ChatTemplate
        except ImportError as error:
            raise AgentSetupError(
                f"--agent hf:... needs the training libraries ({error}): pip install 'fctncalling[train]'"
            ) from None
        try:
            tokenizer = AutoTokenizer.from_pretrained(settings.folder, trust_remote_code=False)
            model: Any = AutoModelForCausalLM.from_pretrained(
                settings.folder, trust_remote_code=False
            )
            model.to(resolve_device(settings.device))
            self._template = ChatTemplate(tokenizer)
        except (OSError, ValueError) as error:
            raise AgentSetupError(
                f"--agent hf:{settings.folder}: the model cannot be loaded: {error}"
            ) from None
        self._settings, self.name = settings, Path(settings.folder).resolve().name
        self.form = settings.form or ("tool_call" if self._template.takes_tools else "prompting")
        self._actor = GenerationEngine(
            model.eval(),
            self._template.stop_ids,
            temperature=settings.temperature,
            max_new_tokens=settings.max_new_tokens,
            decode=self._template.decode,
        )

    def play_all(
        self, tasks: Iterable[Task], make_env: Callable[[tuple[Task, ...]], FunctionCallingEnv]
    ) -> Iterator[tuple[Task, Played]]:
        """Yield every task's episode, in order; `make_env` gives an environment over some of the tasks."""
        from fctncalling.algorithms.rollout import collect

        waiting, num_envs = iter(tasks), self._settings.num_envs
        while chunk := tuple(islice(waiting, CHUNK * num_envs)):

            def fresh(chunk: tuple[Task, ...] = chunk) -> gymnasium.Env[Any, Any]:
                return _Prompted(make_env(chunk)) if self.form == "prompting" else make_env(chunk)

            records = collect(
                [fresh() for _ in range(min(num_envs, len(chunk)))],
                self._actor,
                self._template,
                [task.id for task in chunk],
                max_episode_tokens=self._settings.max_episode_tokens,
                seed=self._settings.seed,
                make_env=fresh,
            )
            yield from (
                (task, _played(record)) for task, record in zip(chunk, records, strict=True)
            )


class _Prompted(gymnasium.Wrapper[str, str, str, str]):
    """Shows a task as BFCL's prompting models see it, whatever the chat template could do with tools."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        messages, system = list(info["messages"]), str(info.get("instructions", ""))
        if messages and messages[0]["role"] == "system":
            system = f"{system}\n\n{messages.pop(0).get('content') or ''}"
        opening = [{"role": "system", "content": system}, *messages]
        return observation, {**info, "messages": opening, "tools": [], "instructions": ""}

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "tools": []}


def _played(record: EpisodeRecord) -> Played:
    episode = record.episode
    if not isinstance(episode, Episode):
        raise TypeError(f"task {record.task_id}: the rollout returned no episode")
    if episode.invalid:
        return Played(episode, reason="the environment failed; the log tells how")
    if not episode.steps:  # an empty answer would pass where no call is expected
        return Played(
            replace(episode, invalid=True),
            reason="no room for an answer: raise --max_episode_tokens",
        )
    return Played(episode)


def as_tool_calls(response: Any, calls: Mapping[str, tuple[Call, ...]]) -> Any:
    """Return an answer in BFCL's form of tool calls, from the texts of the model's own form."""
    if isinstance(response, list):
        return [as_tool_calls(each, calls) for each in response]
    if not (read := calls.get(response, ())):
        return json.dumps(response) if response.lstrip().startswith("[") else response
    try:
        return get_handler("tool_calls").render(read)
    except ValueError:  # a tuple, say, which JSON cannot say
        return json.dumps(
            [{call.name: json.dumps(dict(call.arguments), default=str)} for call in read]
        )
