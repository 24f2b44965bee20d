"""All checks of the doctor, in order: files, template, tasks, weights, engine, adapter, server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from fctncalling.lab.doctor.finding import (
    NOTHING,
    HealthCheck,
    fault,
    note,
    sound,
    unchecked,
)
from fctncalling.model_folder import missing_model_message

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
    on_stage: Callable[[str], None] = lambda stage: None  # called as each part begins


@dataclass
class ExaminationResult:
    """Findings, and an episode to look at."""

    findings: list[HealthCheck] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    task_id: str = ""
    prompt_style: str = "bfcl"  # of the episodes, and of the training that comes next


def examine(wanted: ExaminationSettings) -> ExaminationResult:
    """Return all findings on a model; never raises."""
    examination = _Examination(wanted)
    with _quietly():
        examination.result.findings += examination.findings()
    return examination.result


class _Examination:
    """Examination of one model; checks that need more than is sound are left out."""

    source: str  # folder or name of the model
    template: ChatTemplate
    tasks: Sequence[Task]
    tools: Mapping[str, Any]
    context: int | None  # tokens that an episode may have

    def __init__(self, wanted: ExaminationSettings) -> None:
        self.wanted = wanted
        self.result = ExaminationResult()

    def make_env(self, **more: Any) -> FunctionCallingEnv:
        """Make an environment of tasks and limits, as training does."""
        style = self.result.prompt_style
        return FunctionCallingEnv(tools=self.tools, prompt_style=style, **more)

    def findings(self) -> Iterator[HealthCheck]:
        """Yield the findings on files, template, tokenizer and tasks, then on weights."""
        from transformers import AutoConfig, AutoTokenizer

        from fctncalling.lab.doctor.template_findings import template_findings

        wanted = self.wanted
        folder = Path(wanted.model).expanduser()
        if message := missing_model_message(wanted.model, weights=not wanted.quick):
            yield unchecked("model", f"cannot be loaded: {message}")
            return
        self.source = str(folder) if folder.is_dir() else wanted.model
        try:
            config = AutoConfig.from_pretrained(self.source, trust_remote_code=False)
            tokenizer: Any = AutoTokenizer.from_pretrained(self.source, trust_remote_code=False)
        except _LOADING as error:
            yield unchecked("model", f"cannot be loaded: {_first_line(error)}")
            return
        wanted.on_stage("chat template")
        listed = listed_ends(self.source)
        of_template = template_findings(tokenizer, wanted.chat_template, listed)
        yield from of_template
        if any(each.check == "template" and each.is_fault for each in of_template):
            return  # nothing can be rendered
        try:
            self.tasks, self.tools, left_out = _tasks_and_tools(wanted)
        except (TaskError, ToolDefinitionError, OSError) as error:
            yield unchecked("tasks", _first_line(error))
            return
        if left_out:  # figures would be wrong by it
            yield unchecked("tasks", f"some conversations are left out: {left_out}")
        self.template = ChatTemplate(tokenizer, wanted.chat_template, listed_ends=listed)
        if not self.template.takes_tools and resolve_device("auto").type == "cpu":
            self.result.prompt_style = "compact"  # short prompts, where reading is slow
        yield stop_finding(self.template, listed)
        limits = (getattr(config, "max_position_embeddings", None), wanted.max_episode_tokens)
        self.context = min((limit for limit in limits if limit is not None), default=None)
        yield from self._episodes()
        if not wanted.quick:
            yield from self._weights()

    def _episodes(self) -> Iterator[HealthCheck]:
        """Yield the findings on played ground truths, and keep one of them to look at."""
        self.wanted.on_stage("episodes of the ground truth")
        played = ground_truth_findings(self.tasks, self.template, self.context, self.make_env)
        yield from played[0]
        for episode in played[1][:1]:
            self.result.spans = spans_by_author(episode, self.template)
            self.result.task_id = episode.task_id

    def _weights(self) -> Iterator[HealthCheck]:
        """Yield the findings on loaded weights; stops if they are unusable."""
        from fctncalling.algorithms.policy.pretrained_model import load_pretrained_model

        self.wanted.on_stage("loading the weights")
        try:
            loaded = load_pretrained_model(self.source, output_loading_info=True)
        except _LOADING as error:
            yield unchecked("weights", f"cannot be loaded: {_first_line(error)}")
            return
        model, info = loaded[0].eval(), loaded[1]
        num_embeddings = model.get_input_embeddings().num_embeddings
        vocabulary = vocabulary_finding(self.template, num_embeddings)
        weights = list(weight_findings(model, info["missing_keys"]))
        yield from (vocabulary, *weights, *precision_findings(model), memory_finding(model))
        if not any(each.is_fault for each in (vocabulary, *weights)):
            yield from self._logprobs(model)  # else what such a model says means nothing

    def _logprobs(self, model: Any) -> Iterator[HealthCheck]:
        """Yield whether all who compute log-probabilities of the model agree."""
        from fctncalling.algorithms.generation.engine_api import RolloutError
        from fctncalling.lab.doctor.logprob_findings import (
            adapter_effect_finding,
            engine_finding,
            retokenisation_finding,
            sampled_episodes,
            server_finding,
            turn_prompts,
        )

        wanted = self.wanted
        wanted.on_stage("sampling a few short episodes, a minute or more without a GPU")
        try:
            episodes = sampled_episodes(
                model, self.template, self.tasks, self.context, self.make_env
            )
        except (RolloutError, *_LOADING) as error:
            message = f"the model cannot write answers: {_first_line(error)}"
            yield fault("engine", message, why="Training would fail in the same way")
            return
        yield engine_finding(model, episodes)
        yield retokenisation_finding(self.template, episodes)
        wanted.on_stage("adapter and server")
        prompts, url = turn_prompts(episodes), wanted.vllm_url
        if url is not None and wanted.adapter is None:
            yield server_finding(url, model, None, prompts)
        finding, adapted = adapter_effect_finding(model, wanted.adapter, episodes)
        yield finding
        if url is not None and wanted.adapter is not None and adapted is not None:
            yield server_finding(url, adapted, wanted.adapter, prompts)


def _tasks_and_tools(
    wanted: ExaminationSettings,
) -> tuple[Sequence[Task], Mapping[str, Any], str]:
    """Return the documented tasks, the user's tool classes, and a note on tasks left out."""
    path = wanted.dataset_path or embedded_path("held_out")
    own = UserTools(wanted.tools)
    if path.is_file() and holds_conversations(path):
        log = ConversationLog(path)
        tasks = list(logged_tasks(log))
        if not tasks:
            raise TaskError(f"{path}: no answer can be played; left out: {log.left_out()}")
        return tasks, own.classes, log.left_out() if log.num_left_out else ""
    tasks = load_tasks(path, self_documented=own.classes)
    own.import_task_tools(tasks, str(path), allowed=wanted.allow_task_tools)
    return [own.with_tool_docs(task) for task in tasks], own.classes, ""


def _first_line(error: Exception) -> str:
    line = next(iter(str(error).splitlines()), "").strip()[:240]
    tells = isinstance(error, OSError | ValueError) and line
    return line if tells else f"{type(error).__name__}: {line}"


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the libraries' notes: checks report what matters in them."""
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
    """Return whether rollouts stop at the ends of answers in generation_config.json."""
    missed = [template.spell([id_]) for id_ in listed if id_ not in template.stop_ids]
    stops = ", ".join(repr(template.spell([id_])) for id_ in sorted(template.stop_ids))
    if missed:
        names = ", ".join(map(repr, missed))
        message = f"generation_config.json ends answers at {names}, an ordinary token of texts"
        why = "A server would cut answers there; it may be another tokenizer's number"
        cure = f"Write the numbers of {stops} into its eos_token_id: training stops there"
        return fault("stops", message, cure, why=why)
    if unlisted := [id_ for id_ in template.ends.taught if id_ not in listed]:
        names = ", ".join(repr(template.spell([id_])) for id_ in unlisted)
        message = f"answers end at {stops} in training; generation_config.json lacks {names}"
        why = "A server of this folder may write on behind the end"
        cure = f"{NOTHING}: the folder of a trained or exported model lists it"
        return note("stops", message, cure, why=why)
    return sound("stops", f"answers end at {stops}, also by generation_config.json")


def vocabulary_finding(template: ChatTemplate, num_embeddings: int) -> HealthCheck:
    """Return whether the model reads every token that its tokenizer writes."""
    largest = max(template.tokenizer.get_vocab().values(), default=-1)
    cure = "Use the tokenizer of the model, or resize its embeddings and train them"
    if template.end_of_turn_id >= num_embeddings:
        end = template.spell([template.end_of_turn_id])
        message = f"{end!r}, the end of an answer, is token number {template.end_of_turn_id}"
        message += f", the model knows {num_embeddings}"
        return fault("vocabulary", message, cure, why="It can neither read nor write it")
    if largest >= num_embeddings:
        message = f"the tokenizer has tokens up to number {largest}"
        message += f", the model knows {num_embeddings}"
        why = "Texts with the others would end in an error; it may be another model's"
        return fault("vocabulary", message, cure, why=why)
    return sound("vocabulary", f"{largest + 1} tokens, all known to the model ({num_embeddings})")


def weight_findings(model: Any, missing: Iterable[str]) -> Iterator[HealthCheck]:
    """Yield the faults of loaded weights; `missing`: those that no file held."""
    import torch

    lost = sorted(missing)
    if lost:
        message = f"{len(lost)} weights are in no file and start at random: {', '.join(lost[:3])}"
        why = "Such a model answers at random"
        cure = "The folder is not complete, or of another architecture: fetch it again"
        yield fault("weights", message, cure, why=why)
    broken = [name for name, each in model.named_parameters() if not torch.isfinite(each).all()]
    if broken:
        message = f"{len(broken)} weights are not finite (NaN or infinite): {', '.join(broken[:3])}"
        why = "Every answer would be made of them"
        yield fault("weights", message, "Take an earlier checkpoint", why=why)
    if not lost and not broken:
        count = sum(each.numel() for each in model.parameters())
        yield sound("weights", f"{count:,} weights, all from the files, none NaN or infinite")


def memory_finding(model: Any) -> HealthCheck:
    """Return the memory of weights and optimiser, without activations and caches."""
    count = sum(each.numel() for each in model.parameters())
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    rank = LORA_RANK * sum(sum(each.shape) for each in model.parameters() if each.dim() == 2)
    adamw, lora = weights + _ADAMW_BYTES * count, weights + (4 + _ADAMW_BYTES) * rank
    message = (
        f"weights take {_megabytes(weights)}, to train all of them {_megabytes(adamw)}, to train a "
        f"LoRA adapter of rank {LORA_RANK} about {_megabytes(lora)}; what is computed comes on "
        "top: fctncalling train --plan with your flags counts it"
    )
    return sound("memory (--plan)", message, weights_bytes=weights, num_weights=count)


def precision_findings(model: Any) -> Iterator[HealthCheck]:
    """Yield a note if weights are stored in half precision."""
    names = {str(each.dtype).removeprefix("torch.") for each in model.parameters()}
    if names & {"float16"}:
        why = "Sums in float16 overflow; training computes in float32 or bfloat16"
        yield note("precision", "the weights are stored as float16", NOTHING, why=why)


def _megabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
