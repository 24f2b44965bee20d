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
BASE_CURE = "Check base_model_name_or_path in adapter_config.json"
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
        return unchecked("engine", "the model wrote no token whose probability could be compared")
    mean, largest = sum(differences) / len(differences), max(differences)
    turns = {str(turn): max(each) for turn, each in by_turn.items()}
    shown = ", ".join(f"turn {int(turn) + 1} {each:.1e}" for turn, each in list(turns.items())[:4])
    message = f"log-probabilities of its answers differ by {mean:.1e} between playing and learning"
    message += f", by {largest:.1e} at most ({shown})"
    if not mean <= TOLERANCE.get(dtype, 0.1):  # NaN too
        why = "It would learn from other probabilities than it played by"
        return fault("engine", message, "Please report it as a bug", why=why)
    message += ": no more than rounding"
    return sound("engine", message, mean=mean, largest=largest, by_turn=turns)


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
        return unchecked("re-tokenisation", "the model wrote no answer")
    message = (
        f"{count - changed} of {count} answers become the same tokens when they are read again"
    )
    message += f"; one splits at {place}" if place else ""
    kept = "; training keeps the tokens as they were written either way"
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
        message = f"{folder or 'a fresh adapter'} does not fit the model: {line}"
        cure = BASE_CURE if folder else "Train without --lora_r"
        return fault("adapter", message, cure, why="It could not be trained or used"), None
    on = token_logprobs(adapted, ids)
    with adapted.disable_adapter():
        off = token_logprobs(adapted, ids)
    name = str(folder) if folder else "a fresh adapter (LoRA) with random weights"
    changed, kept = float((on - before).abs().max()), float((off - before).abs().max())
    if changed == 0.0:
        message = f"{name} changes nothing that the model says"
        why = "It is untrained, or made for the layers of another model"
        return fault("adapter", message, BASE_CURE, why=why), adapted
    if kept > MAX_OFF:
        message = f"{name}, switched off, still changes log-probabilities by up to {kept:.1e}"
        why = "Training compares with the model without it"
        cure = "Make an adapter of LoRA alone, without biases or modules_to_save"
        return fault("adapter", message, cure, why=why), adapted
    effect = f"by up to {changed:.1e} when it is on, by nothing when it is off"
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
    turns = ", ".join(
        f"turn {turn + 1} {_mean({turn: each}):.1e}" for turn, each in by_turn.items()
    )
    message = f"the server's log-probabilities of {name} differ from those computed here by"
    message += f" {mean:.1e} on average ({turns})"
    with contextlib.nullcontext() if adapter is None else model.disable_adapter():
        of_base = _mean(_differences(model, written))
    if mean <= SERVER_TOLERANCE and (adapter is None or mean <= of_base):
        return sound("vLLM", message, mean=mean)
    if adapter is not None and of_base < mean:
        nearer = f"{of_base:.1e} from it, {mean:.1e} from the adapter"
        message = f"the server answers for {name} with the base model ({nearer})"
        cure = "Serve with --enable-lora, and the folder that was trained"
        return fault("vLLM", message, cure, why="What was trained would not be used")
    why = "Answers would come from another model than the one that learns"
    cure = "Let it serve this very folder, in the same precision"
    return fault("vLLM", message, cure, why=why)


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
