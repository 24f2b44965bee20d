"""All checks of the doctor, in order: files, template, tasks, weights, engine, adapter, server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fctncalling.algorithms.config import resolve_device
from fctncalling.algorithms.policy.answer_ends import listed_ends
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.conversations import ConversationLog, holds_conversations, logged_tasks
from fctncalling.data.bfcl import embedded_path, load_tasks
from fctncalling.data.errors import TaskError
from fctncalling.data.types import Task
from fctncalling.envs.function_calling import FunctionCallingEnv
from fctncalling.envs.tools.box.callables import ToolDefinitionError
from fctncalling.envs.user_tools import UserTools
from fctncalling.lab.doctor.episode_findings import Span, ground_truth_findings, spans_by_author
from fctncalling.lab.doctor.finding import HealthCheck, fault, note, sound, unchecked
from fctncalling.model_folder import missing_model_message

if TYPE_CHECKING:
    from fctncalling.lab.doctor.logprob_findings import TurnPrompt


_LOADING = (OSError, ValueError, RuntimeError, LookupError, ImportError, TypeError, AttributeError)


@dataclass(frozen=True)
class ExaminationSettings:
    """Settings of an examination."""

    model: str  # folder, or name on the hub
    dataset_path: Path | None = None  # none: the embedded held-out tasks
    chat_template: str | None = None  # a template's text, in place of the tokenizer's own
    adapter: Path | None = None
    vllm_url: str | None = None
    max_episode_tokens: int | None = None
    quick: bool = False  # files, template and tasks; no weights are loaded
    tools: Mapping[str, Any] = field(default_factory=dict)  # stateful classes of the user's own
    allow_task_tools: bool = False  # import the classes that tasks name by their path
    prompt_style: str = "bfcl"  # of the episodes
    on_stage: Callable[[str], None] = lambda stage: None  # called as each part begins

    def make_env(self, **more: Any) -> FunctionCallingEnv:
        """Make an environment of tasks, as training does."""
        return FunctionCallingEnv(tools=self.tools, prompt_style=self.prompt_style, **more)


@dataclass
class ExaminationResult:
    """Findings, and an episode to look at."""

    findings: list[HealthCheck] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    task_id: str = ""
    prompt_style: str = "bfcl"  # of the episodes, and of the training that comes next


def examine(wanted: ExaminationSettings) -> ExaminationResult:
    """Return all findings on a model; never raises."""
    found = ExaminationResult()
    with _quietly():
        _examine(wanted, found)
    return found


def _examine(wanted: ExaminationSettings, found: ExaminationResult) -> None:
    from transformers import AutoConfig, AutoTokenizer

    from fctncalling.lab.doctor.template_findings import template_findings

    folder = Path(wanted.model).expanduser()
    if message := missing_model_message(wanted.model, weights=not wanted.quick):
        found.findings.append(unchecked("model", f"cannot be loaded: {message}"))
        return
    source = str(folder) if folder.is_dir() else wanted.model
    try:
        config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except _LOADING as error:
        found.findings.append(unchecked("model", f"cannot be loaded: {_first_line(error)}"))
        return
    wanted.on_stage("chat template")
    found.findings += template_findings(tokenizer, wanted.chat_template, listed_ends(source))
    if any(each.check == "template" and each.level == "fault" for each in found.findings):
        return  # nothing can be rendered
    try:
        tasks, tools = _tasks_and_tools(wanted, found)
    except (TaskError, ToolDefinitionError, OSError) as error:
        found.findings.append(unchecked("tasks", _first_line(error)))
        return
    _check_model(replace(wanted, tools=tools), source, config, tokenizer, tasks, found)


def _tasks_and_tools(
    wanted: ExaminationSettings, found: ExaminationResult
) -> tuple[list[Task], Mapping[str, Any]]:
    """Return the tasks, documented, and the user's own classes that they are played with.

    What is left out of logged conversations is a finding: figures would be wrong by it.
    """
    path = wanted.dataset_path or embedded_path("held_out")
    own = UserTools(wanted.tools)
    if path.is_file() and holds_conversations(path):
        log = ConversationLog(path)
        tasks = list(logged_tasks(log))
        if not tasks:
            raise TaskError(f"{path}: no answer can be played; left out: {log.left_out()}")
        if log.num_left_out:
            found.findings.append(unchecked("tasks", f"left out: {log.left_out()}"))
        return tasks, own.classes
    tasks = load_tasks(path, self_documented=own.classes)
    own.import_task_tools(tasks, str(path), allowed=wanted.allow_task_tools)
    return [own.with_tool_docs(task) for task in tasks], own.classes


def _check_model(
    wanted: ExaminationSettings,
    source: str,
    config: Any,
    tokenizer: Any,
    tasks: Sequence[Task],
    found: ExaminationResult,
) -> None:
    listed = listed_ends(source)
    template = ChatTemplate(tokenizer, wanted.chat_template, listed_ends=listed)
    if not template.takes_tools and resolve_device("auto").type == "cpu":
        found.prompt_style = "compact"  # short prompts, where reading is slow
    wanted = replace(wanted, prompt_style=found.prompt_style)
    found.findings.append(stop_finding(template, listed))
    limits = (getattr(config, "max_position_embeddings", None), wanted.max_episode_tokens)
    context = min((each for each in limits if each is not None), default=None)
    wanted.on_stage("episodes of the ground truth")
    played, episodes = ground_truth_findings(tasks, template, context, wanted.make_env)
    found.findings += played
    if episodes:
        found.spans = spans_by_author(episodes[0], template)
        found.task_id = episodes[0].task_id
    if not wanted.quick:
        found.findings += _weights(wanted, source, tokenizer, template, tasks, context)


def _weights(
    wanted: ExaminationSettings,
    source: str,
    tokenizer: Any,
    template: Any,
    tasks: Sequence[Task],
    context: int | None,
) -> Iterator[HealthCheck]:
    """Yield the findings on loaded weights; stops if they are unusable."""
    from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model

    wanted.on_stage("loading the weights")
    try:
        loaded = load_pretrained_model(source, output_loading_info=True)
    except _LOADING as error:
        yield unchecked("weights", f"cannot be loaded: {_first_line(error)}")
        return
    model, info = loaded[0].eval(), loaded[1]
    num_embeddings = model.get_input_embeddings().num_embeddings
    vocabulary = vocabulary_finding(tokenizer, template, num_embeddings)
    weights = list(weight_findings(model, info["missing_keys"]))
    yield from (vocabulary, *weights, *precision_findings(model), memory_finding(model))
    if any(each.level == "fault" for each in (vocabulary, *weights)):
        return  # what such a model says means nothing
    yield from _logprob_findings(wanted, model, template, tasks, context)


def _logprob_findings(
    wanted: ExaminationSettings,
    model: Any,
    template: Any,
    tasks: Sequence[Task],
    context: int | None,
) -> Iterator[HealthCheck]:
    """Yield whether all who compute log-probabilities of the model agree."""
    from fctncalling.algorithms.generation.engine_api import RolloutError
    from fctncalling.lab.doctor.logprob_findings import (
        adapter_effect_finding,
        engine_finding,
        retokenisation_finding,
        sampled_episodes,
        turn_prompts,
    )

    wanted.on_stage("sampling a few short episodes, a minute or more without a GPU")
    try:
        episodes = sampled_episodes(model, template, tasks, context, wanted.make_env)
    except (RolloutError, *_LOADING) as error:
        yield fault("engine", f"the rollout cannot sample from the model: {_first_line(error)}")
        return
    yield engine_finding(model, episodes)
    yield retokenisation_finding(template, episodes)
    wanted.on_stage("adapter and server")
    prompts = turn_prompts(episodes)
    if wanted.vllm_url is not None and wanted.adapter is None:
        yield _served(wanted, model, prompts)
    finding, adapted = adapter_effect_finding(model, wanted.adapter, episodes)
    yield finding
    if wanted.vllm_url is not None and wanted.adapter is not None and adapted is not None:
        yield _served(wanted, adapted, prompts)


def _served(wanted: ExaminationSettings, model: Any, prompts: list[TurnPrompt]) -> HealthCheck:
    from fctncalling.lab.doctor.logprob_findings import server_finding

    return server_finding(str(wanted.vllm_url), model, wanted.adapter, prompts)


def _first_line(error: Exception) -> str:
    line = next(iter(str(error).splitlines()), "").strip()[:240]
    tells = isinstance(error, OSError | ValueError) and line
    return line if tells else f"{type(error).__name__}: {line}"


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the libraries' own notes off the page: what matters of them is found by a check."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


LORA_RANK = 16  # of the adapter whose memory is estimated
_ADAMW_BYTES = 12  # gradient and two moments of a trained weight, in fp32


def stop_finding(template: ChatTemplate, listed: Sequence[int]) -> HealthCheck:
    """Return whether rollouts stop where the model's generation_config.json says answers end."""
    missed = [template.spell([id_]) for id_ in listed if id_ not in template.stop_ids]
    stops = ", ".join(repr(template.spell([id_])) for id_ in sorted(template.stop_ids))
    if missed:
        names = ", ".join(map(repr, missed))
        message = f"generation_config.json ends answers at {names}, an ordinary token of texts"
        cure = f"Is it another tokenizer's id? Rollouts stop at {stops}: write those there"
        return fault("stops", message, cure)
    if unlisted := [id_ for id_ in template.ends.taught if id_ not in listed]:
        names = ", ".join(repr(template.spell([id_])) for id_ in unlisted)
        message = f"rollouts stop at {stops}; generation_config.json lacks {names}"
        return note("stops", message, "Servers may run on: a trained or exported model lists it")
    return sound("stops", f"rollouts stop at {stops}, those of generation_config.json among them")


def vocabulary_finding(tokenizer: Any, template: ChatTemplate, num_embeddings: int) -> HealthCheck:
    """Return whether the model reads every token that its tokenizer writes."""
    largest = max(tokenizer.get_vocab().values(), default=-1)
    cure = "Use the tokenizer of the model, or resize its embeddings and train them"
    if template.end_of_turn_id >= num_embeddings:
        end = template.spell([template.end_of_turn_id])
        message = f"{end!r} is token {template.end_of_turn_id}, the model reads {num_embeddings}"
        return fault("vocabulary", f"the end of turn {message}", cure)
    if largest >= num_embeddings:
        message = f"the tokenizer has tokens up to {largest}, the model reads {num_embeddings}"
        return fault("vocabulary", f"{message}: is it another model's?", cure)
    return sound("vocabulary", f"{largest + 1} tokens, the model reads {num_embeddings}")


def weight_findings(model: Any, missing: Iterable[str]) -> Iterator[HealthCheck]:
    """Yield what is wrong with loaded weights; `missing`: those that no file held."""
    import torch

    lost = sorted(missing)
    if lost:
        message = f"{len(lost)} weights are in no file and start at random: {', '.join(lost[:3])}"
        yield fault("weights", message, "The folder is not complete, or of another architecture")
    broken = [name for name, each in model.named_parameters() if not torch.isfinite(each).all()]
    if broken:
        message = f"{len(broken)} weights are not finite (NaN or infinite): {', '.join(broken[:3])}"
        yield fault("weights", message, "Take an earlier checkpoint")
    if not lost and not broken:
        count = sum(each.numel() for each in model.parameters())
        yield sound("weights", f"{count:,} weights, all from the files, all finite")


def memory_finding(model: Any) -> HealthCheck:
    """Return the memory of weights and optimiser, without activations and caches."""
    count = sum(each.numel() for each in model.parameters())
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    rank = LORA_RANK * sum(sum(each.shape) for each in model.parameters() if each.dim() == 2)
    adamw, lora = weights + _ADAMW_BYTES * count, weights + (4 + _ADAMW_BYTES) * rank
    message = (
        f"weights {_megabytes(weights)}; all trained by AdamW {_megabytes(adamw)}; LoRA of rank "
        f"{LORA_RANK} about {_megabytes(lora)}; activations and KV cache come on top: "
        "fctncalling train --plan with your flags counts them"
    )
    return sound("memory (--plan)", message, weights_bytes=weights, num_weights=count)


def precision_findings(model: Any) -> Iterator[HealthCheck]:
    """Yield a note where weights are stored in half precision."""
    names = {str(each.dtype).removeprefix("torch.") for each in model.parameters()}
    if names & {"float16"}:
        message = "weights are float16, which overflows: train in bfloat16 or float32"
        yield note("precision", message)


def _megabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
