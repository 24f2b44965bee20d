"""Log-probabilities of the same tokens: engine, transformers, adapter and vLLM server."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import torch

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine
from fctncalling.algorithms.generation.engine_api import EngineError, RolloutError
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.vllm.client import Completion, VllmClient
from fctncalling.data.types import Task
from fctncalling.lab.doctor.finding import HealthCheck, fault, sound, unchecked
from fctncalling.lab.export import require_plain_adapter

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.1}
"""Mean difference of a log-probability, in nats, that rounding explains, by the weights' type."""
NUM_EPISODES = 4
MAX_NEW_TOKENS = 32
MAX_OFF = 1e-4
"""Change of a log-probability, in nats, that an adapter which is off may leave."""


def sampled_episodes(
    model: Any,
    template: ChatTemplate,
    tasks: Sequence[Task],
    context: int | None,
    make_env: Callable[..., Any],
) -> list[EpisodeRecord]:
    """Return a few episodes that the model plays, as in training; RolloutError if it cannot.

    `make_env`: tasks and limits -> an environment.
    """
    engine = GenerationEngine(
        model, template.stop_ids, max_new_tokens=MAX_NEW_TOKENS, decode=template.decode
    )
    chosen = tasks[:: max(1, len(tasks) // NUM_EPISODES)][:NUM_EPISODES]
    envs = [make_env(tasks=chosen, max_steps_per_turn=3) for _ in chosen]
    ids = [task.id for task in chosen]
    played = collect(envs, engine, template, ids, max_episode_tokens=min(context or 4096, 4096))
    return [each for each in played if each.rows and not each.invalid]


@torch.inference_mode()
def token_logprobs(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """Return (T - 1,) log-probabilities of all tokens but the first, by one plain forward."""
    tensor = torch.tensor([list(ids)], device=next(model.parameters()).device)
    logits = model(tensor, use_cache=False).logits[0, :-1].float()
    logprobs: torch.Tensor = logits.log_softmax(-1).gather(1, tensor[0, 1:, None])[:, 0].cpu()
    return logprobs


def engine_finding(model: Any, episodes: Sequence[EpisodeRecord]) -> HealthCheck:
    """Return whether the engine's log-probabilities are those of a plain forward, turn by turn."""
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    by_turn: dict[int, list[float]] = {}
    for episode in episodes:
        turn = 0
        for row in episode.rows:
            plain = token_logprobs(model, row.ids)
            for at in range(1, len(row.ids)):
                if row.acted[at]:
                    difference = abs(row.rollout_logprobs[at] - float(plain[at - 1]))
                    by_turn.setdefault(turn, []).append(difference)
                turn += row.ends_action[at]
    differences = list(itertools.chain.from_iterable(by_turn.values()))
    if not differences:
        return unchecked("engine", "the model sampled no token that could be compared")
    mean, largest = sum(differences) / len(differences), max(differences)
    turns = {str(turn): max(each) for turn, each in by_turn.items()}
    shown = ", ".join(f"turn {turn} {each:.1e}" for turn, each in list(turns.items())[:4])
    message = f"log-probabilities against a plain forward: mean {mean:.1e}, largest {largest:.1e}"
    if not mean <= TOLERANCE.get(dtype, 0.1):  # NaN too
        return fault("engine", f"{message} ({shown})", "Report it: sampling and training differ")
    return sound("engine", f"{message} ({shown})", mean=mean, largest=largest, by_turn=turns)


def retokenisation_finding(
    template: ChatTemplate, episodes: Sequence[EpisodeRecord]
) -> HealthCheck:
    """Return how many sampled actions would get other ids if their text were encoded again."""
    changed, count, place = 0, 0, ""
    for episode in episodes:
        for row in episode.rows:
            for ids in _actions(row.ids, row.acted, row.ends_action):
                count += 1
                again = template.encode(template.spell(ids))
                if again != ids:
                    changed += 1
                    at = sum(takewhile(bool, map(eq, ids, again)))
                    first = template.spell(again[at : at + 1])
                    split = f"{template.spell(ids[at : at + 3])!r}, which begins with {first!r}"
                    place = place or f"{split} when encoded"
    if not count:
        return unchecked("re-tokenisation", "no action was sampled")
    message = f"{count - changed} of {count} sampled actions encode to the same ids again"
    message += f"; one splits at {place}" if place else ""
    kept = "; training keeps the sampled ids either way"
    return sound("re-tokenisation", message + kept, rate=changed / count)


def _actions(
    ids: Sequence[int], acted: Sequence[bool], ends: Sequence[bool]
) -> Iterator[list[int]]:
    action: list[int] = []
    for id_, is_acted, end in zip(ids, acted, ends, strict=True):
        if is_acted:
            action.append(id_)
        if end:
            yield action
            action = []


def adapter_effect_finding(
    model: Any, folder: Path | None, episodes: Sequence[EpisodeRecord]
) -> tuple[HealthCheck, Any]:
    """Return whether an adapter changes the model only when on, and the adapted model.

    The adapter is a saved one or a fresh one with random weights; the model is None where it fits
    none.
    """
    ids = max((row.ids for each in episodes for row in each.rows), key=len, default=[])[:256]
    if len(ids) < 2:
        return unchecked("adapter", "no episode to compare log-probabilities on"), None
    before = token_logprobs(model, ids)
    try:
        adapted = _adapted(model, folder)
    except (ValueError, RuntimeError, OSError, KeyError, ImportError) as error:
        line = (str(error).splitlines() or [""])[0][:160]
        return fault("adapter", f"{folder or 'a fresh one'} does not fit the model: {line}"), None
    on = token_logprobs(adapted, ids)
    with adapted.disable_adapter():
        off = token_logprobs(adapted, ids)
    name = str(folder) if folder else "a fresh one with random weights"
    changed, kept = float((on - before).abs().max()), float((off - before).abs().max())
    if changed == 0.0:
        reason = "it is untrained, or of another model's layers"
        message = f"{name} changes no log-probability: {reason}"
        cure = "Check base_model_name_or_path in adapter_config.json"
        return fault("adapter", message, cure), adapted
    if kept > MAX_OFF:
        message = f"{name}, switched off, leaves the base changed by {kept:.1e} nats"
        return fault("adapter", message), adapted
    effect = f"by up to {changed:.1e} nats when on, by none when off"
    message = f"{name} changes log-probabilities {effect}"
    return sound("adapter", message, largest=changed), adapted


def _adapted(model: Any, folder: Path | None) -> Any:
    # peft reads an attribute that transformers has renamed; the user cannot mend that.
    warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
    from peft import LoraConfig, PeftModel, get_peft_model

    if folder is not None:
        require_plain_adapter(folder)
        return PeftModel.from_pretrained(model, str(folder)).eval()
    config = LoraConfig(
        task_type="CAUSAL_LM", r=2, target_modules="all-linear", init_lora_weights=False
    )
    return get_peft_model(model, config).eval()


SERVER_TOLERANCE = 0.1
"""Mean difference in nats that the rounding of a server in bfloat16 explains."""
MAX_SERVED_TOKENS = 24
MAX_PROMPTS = 6


class TurnPrompt(NamedTuple):
    """Prompt that the policy had read before an action, and that action's number from 0."""

    ids: list[int]
    turn: int


Written = Sequence[tuple[TurnPrompt, Completion]]


def turn_prompts(episodes: Sequence[EpisodeRecord]) -> list[TurnPrompt]:
    """Return a few prompts out of episodes, early turns first, with every episode in."""
    found: list[TurnPrompt] = []
    for episode in episodes:
        turn = 0
        for row in episode.rows:
            for at, acted in enumerate(row.acted):
                if acted and at and (not row.acted[at - 1] or row.ends_action[at - 1]):
                    found.append(TurnPrompt(row.ids[:at], turn))
                turn += row.ends_action[at]
    return sorted(found, key=lambda each: each.turn)[:MAX_PROMPTS]


def server_finding(
    url: str, model: Any, adapter: Path | None, prompts: Sequence[TurnPrompt]
) -> HealthCheck:
    """Return whether a server samples from this model, with its adapter if one is given.

    `model` bears the adapter, if any; `prompts` are what it is asked to go on from.
    """
    server = VllmClient(url, timeout_s=120.0)
    try:
        names = server.models()
        name = names[0] if adapter is None else f"doctor-{uuid4().hex[:8]}"
        if adapter is not None:
            server.load_adapter(name, str(adapter.resolve()))
        try:
            complete = partial(
                server.complete, max_tokens=MAX_SERVED_TOKENS, temperature=1.0, seed=0
            )
            written = [(prompt, complete(name, prompt.ids)) for prompt in prompts]
        finally:
            if adapter is not None:
                server.unload_adapter(name)
    except (EngineError, RolloutError, ValueError) as error:
        line = (str(error).splitlines() or [""])[0]
        return unchecked("vLLM", f"{url} does not answer: {line}", "Is the server up?")
    finally:
        server.close()
    return _compared(name if adapter is None else str(adapter), model, adapter, written)


def _compared(name: str, model: Any, adapter: Path | None, written: Written) -> HealthCheck:
    by_turn = _differences(model, written)
    mean = _mean(by_turn)
    turns = ", ".join(f"turn {turn} {_mean({turn: each}):.1e}" for turn, each in by_turn.items())
    compared = f"log-probabilities of {name} as served against a plain forward here"
    message = f"{compared}: mean {mean:.1e} ({turns})"
    with contextlib.nullcontext() if adapter is None else model.disable_adapter():
        of_base = _mean(_differences(model, written))
    if mean <= SERVER_TOLERANCE and (adapter is None or mean <= of_base):
        return sound("vLLM", message, mean=mean)
    if adapter is not None and of_base < mean:
        nearer = f"mean {of_base:.1e} from it, {mean:.1e} from the adapter"
        message = f"the server answers for {name} with the base model ({nearer})"
        return fault("vLLM", message, "Serve with --enable-lora, and the folder that was trained")
    cure = "Does it serve this model, in this precision, from this checkpoint?"
    return fault("vLLM", message, cure)


def _differences(model: Any, written: Written) -> dict[int, list[float]]:
    """Return by turn how far each token's log-probability is from that of a plain forward."""
    by_turn: dict[int, list[float]] = {}
    for prompt, completion in written:
        plain = token_logprobs(model, [*prompt.ids, *completion.ids])[len(prompt.ids) - 1 :]
        pairs = zip(plain.tolist(), completion.logprobs, strict=True)
        by_turn.setdefault(prompt.turn, []).extend(abs(own - served) for own, served in pairs)
    return by_turn


def _mean(by_turn: Mapping[int, Sequence[float]]) -> float:
    differences = [each for turn in by_turn.values() for each in turn]
    return sum(differences) / max(1, len(differences))
