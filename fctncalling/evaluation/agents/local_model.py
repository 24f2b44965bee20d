"""Local model as an agent that plays through the trainer's rollout.

Evaluation and training use the same tokens.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium

from fctncalling.data.types import Episode, Message, Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.users import LanguageModelUser, make_user
from fctncalling.envs.users.user_names import User
from fctncalling.evaluation.agents.agent import CONTEXT_OVERFLOW, AgentSetupError, PlayedEpisode
from fctncalling.model_folder import missing_model_message

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord
    from fctncalling.algorithms.generation.engine import GenerationEngine


MakeEnv = Callable[[tuple[Task, ...]], FunctionCallingEnv]


class PlannedTask(NamedTuple):
    """Planned task: one episode to play, with its task as the agent gets it."""

    category: str  # under which its answer is scored
    task: Task
    handler: str
    sample: int = 0  # which of the --num_samples of its task
    dataset_path: str = ""  # the path of --dataset_path that it is from


@dataclass(frozen=True)
class LocalSettings:
    """Settings of a local model."""

    folder: str
    chat_template: str | None = None  # a file; none: the folder's own
    chat_template_kwargs: str | None = None  # JSON
    form: str = ""  # none: tool_call where the chat template takes tools, else prompting
    temperature: float = 0.0  # 0 is greedy
    max_new_tokens: int = 256
    max_episode_tokens: int = 4096
    num_envs: int = 4  # episodes that run side by side
    seed: int = 0
    device: str = "auto"
    compute_dtype: str = "auto"  # as the weights are; bfloat16 keeps the output layer in fp32
    torch_threads: int = 1


class LocalModel:
    """Agent of a local folder or hub name; weights are loaded when first needed."""

    def __init__(self, settings: LocalSettings) -> None:
        try:
            import torch
            from transformers import AutoConfig, AutoTokenizer

            from fctncalling.algorithms.config import SettingError
            from fctncalling.algorithms.policy.template_file import load_template
            from fctncalling.call_form import find_call_form
        except ImportError as error:
            raise AgentSetupError(
                f"--agent hf:... needs the training libraries ({error}): pip install "
                "'fctncalling[train]'"
            ) from None
        torch.set_num_threads(settings.torch_threads)  # more than one only spin on small models
        try:
            config = AutoConfig.from_pretrained(settings.folder, trust_remote_code=False)
            tokenizer = AutoTokenizer.from_pretrained(settings.folder, trust_remote_code=False)
            self._template = load_template(
                tokenizer, settings.chat_template, settings.folder, settings.chat_template_kwargs
            )
        except SettingError as error:
            raise AgentSetupError(f"--agent hf:{settings.folder}: {error}") from None
        except (OSError, ValueError) as error:
            raise _cannot_load(settings, error) from None
        self._settings = settings
        self.name = Path(settings.folder).resolve().name
        context_length = getattr(config, "max_position_embeddings", None)
        self._is_whole_context = (
            context_length is not None and settings.max_episode_tokens >= context_length
        )
        self.call_form = find_call_form(self._template)
        self.form = settings.form or ("tool_call" if self._template.takes_tools else "prompting")

    def play_all(
        self, items: Sequence[PlannedTask], make_env: MakeEnv
    ) -> Iterator[tuple[PlannedTask, PlayedEpisode]]:
        """Play episodes side by side, and yield them as they end.

        make_env: gives an environment over tasks.
        """
        from fctncalling.algorithms.rollout.collect import iter_episodes

        tasks = tuple({item.task.id: item.task for item in items}.values())

        def fresh() -> gymnasium.Env[Any, Any]:
            return _Prompted(make_env(tasks)) if self.form == "prompting" else make_env(tasks)

        for ended in iter_episodes(
            [fresh() for _ in range(min(self._settings.num_envs, len(items)))],
            self._engine,
            self._template,
            [item.task.id for item in items],
            max_episode_tokens=self._settings.max_episode_tokens,
            seed=self._settings.seed,
            numbers=[
                zlib.crc32(f"{item.category} {item.task.id} {item.sample}".encode())
                for item in items
            ],
            make_env=fresh,
        ):
            played = _played_episode(ended.record, is_whole_context=self._is_whole_context)
            yield items[ended.position], played

    @cached_property
    def _engine(self) -> GenerationEngine:
        from fctncalling.algorithms.config import resolve_device
        from fctncalling.algorithms.generation.engine import GenerationEngine
        from fctncalling.algorithms.policy.precision import NAMES, set_compute_dtype
        from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model

        settings = self._settings
        try:
            model: Any = load_pretrained_model(settings.folder)
            model.to(device := resolve_device(settings.device))
        except (OSError, ValueError) as error:
            raise _cannot_load(settings, error) from None
        if settings.compute_dtype != "auto":
            set_compute_dtype(model, NAMES[settings.compute_dtype], device)
        return GenerationEngine(
            model.eval(),
            self._template.stop_ids,
            temperature=settings.temperature,
            max_new_tokens=settings.max_new_tokens,
            decode=self._template.decode,
        )


def require_model_folder(name: str) -> None:
    """Raise AgentSetupError for a model name that cannot be loaded."""
    if missing := missing_model_message(name):
        raise AgentSetupError(f"--agent hf:{name}: the model cannot be loaded: {missing}")


def _cannot_load(settings: LocalSettings, error: Exception) -> AgentSetupError:
    return AgentSetupError(f"--agent hf:{settings.folder}: the model cannot be loaded: {error}")


class _Prompted(gymnasium.Wrapper[str, str, str, str]):
    """Task in BFCL's prompting form, even if the chat template supports tools."""

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


def _played_episode(record: EpisodeRecord, *, is_whole_context: bool) -> PlayedEpisode:
    episode = record.episode
    if not isinstance(episode, Episode):
        raise TypeError(f"task {record.task_id}: the rollout returned no episode")
    if episode.invalid:
        return PlayedEpisode(episode, reason=record.invalid_reason or "the environment failed")
    if not episode.steps and is_whole_context:
        return PlayedEpisode(episode, failure=CONTEXT_OVERFLOW)
    if not episode.steps:  # an empty answer would pass where no call is expected
        return PlayedEpisode(
            replace(episode, invalid=True),
            reason="no room for an answer: raise --max_episode_tokens",
        )
    return PlayedEpisode(episode, cut_steps=record.cut_actions)


MAX_NEW_TOKENS = 60  # a sentence


def user_by_name(name: str, *, seed: int = 0) -> User:
    """Make a simulated user by its name.

    ValueError for one that there is not, or a folder without a model.
    """
    kind, _, folder = name.partition(":")
    if kind == "hf" and folder:
        return LanguageModelUser(LocalChatModel(folder), name=name)
    try:
        return make_user(name, seed=seed)
    except ValueError as error:
        is_unknown = "expected one of scripted" in str(error)
        raise ValueError(f"{error}, hf:FOLDER" if is_unknown else str(error)) from None


class LocalChatModel:
    """Greedy local chat model from a folder or the Hugging Face hub.

    Raises ValueError for a model that cannot be loaded.
    """

    def __init__(self, folder: str) -> None:
        from transformers import AutoTokenizer

        from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model
        from fctncalling.algorithms.policy.template_file import load_template

        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            model = load_pretrained_model(folder)
        except (OSError, ValueError) as error:
            first_line = str(error).partition("\n")[0]
            raise ValueError(
                f"user hf:{folder}: the model cannot be loaded: {first_line}"
            ) from None
        self._model = model.eval()
        self._template = load_template(tokenizer, model=model)

    def __call__(self, messages: list[Message]) -> str:
        """Return the text of the model's answer."""
        import torch

        ids = self._template.render_prompt(messages, tools=(), instructions="")
        with torch.no_grad():
            output = self._model.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=MAX_NEW_TOKENS,
                do_sample=False,
                eos_token_id=sorted(self._template.stop_ids),
                pad_token_id=min(self._template.stop_ids),
            )
        new = [id_ for id_ in output[0, len(ids) :].tolist() if id_ not in self._template.stop_ids]
        return self._template.decode(new)
