"""Play and log episodes (JSON Lines)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import gymnasium

from fctncalling.data.types import Episode, Message, StepRecord, Task, Verdict
from fctncalling.envs.handlers import split_thought
from fctncalling.envs.judging.strict import strict_verdict
from fctncalling.envs.rewards import progress_share
from fctncalling.evaluation.agents.agent import (
    CONTEXT_OVERFLOW,
    AgentUnavailable,
    ContextOverflow,
    EpisodeCut,
    PlayedEpisode,
    Player,
)

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord


def play_episode(
    env: gymnasium.Env[str, str], task_id: str, player: Player, seed: int | None = None
) -> PlayedEpisode:
    """Play one episode with a player; invalid, with the reason, if infrastructure fails."""
    observation, info = env.reset(seed=seed, options={"task_id": task_id})
    steps: list[StepRecord] = []
    observations: list[str] = []
    messages = [list(info["messages"])]
    cut_steps, thoughts = list[int](), dict[int, str]()
    terminated = truncated = False
    reason, failure = str(info.get("invalid_reason", "")), ""
    while not (terminated or truncated):
        turn = int(info["turn"])
        try:
            text = player.answer(observation, info)
        except AgentUnavailable as error:
            truncated, reason = True, str(error)
            break
        except ContextOverflow:
            truncated, failure = True, CONTEXT_OVERFLOW
            break
        except EpisodeCut:
            truncated = True
            break
        cut_steps += [len(steps)] * bool(getattr(player, "was_cut", False))
        thoughts[len(steps)] = getattr(player, "thought", "")
        observation, reward, terminated, truncated, info = env.step(text)
        steps.append(StepRecord.from_info(turn, text, float(reward), info))
        observations.append(observation)
        messages.append(list(info["messages"]))
        reason = str(info.get("invalid_reason", ""))
    verdict = info.get("verdict") if not reason else None
    episode = Episode(
        task_id,
        str(info["category"]),
        steps,
        verdict,
        terminated=terminated,
        truncated=truncated,
        invalid=bool(reason),
        seed=seed,
    )
    return PlayedEpisode(episode, observations, reason, messages, failure, cut_steps, thoughts)


def episode_response(task: Task, steps: Sequence[StepRecord]) -> Any:
    """Return an episode's response in the form that `score` and `verdicts` read."""
    if not task.executes_calls and task.kind != "clarify":
        return steps[-1].text if steps else ""
    turns = max((step.turn for step in steps), default=-1) + 1
    return [[step.text for step in steps if step.turn == turn] for turn in range(turns)]


def verdict_fields(task: Task, steps: Sequence[StepRecord], verdict: Verdict) -> dict[str, Any]:
    """Return the fields of the verdicts, official and strict, and of the progress."""
    strict = strict_verdict(task, steps, verdict)
    return {
        "valid": verdict.valid,
        "error_type": verdict.error_type,
        "strict_valid": strict.valid,
        "strict_error_type": strict.error_type,
        "progress": progress_share(task, verdict),
        "verdict": dataclass_to_json(verdict),
    }


def episode_json(played: PlayedEpisode) -> dict[str, Any]:
    """Return a played episode as JSON, complete enough for replay.

    `messages` are those that open the episode; a step's own are what users said behind it, its tool
    results are in `results`, its thought, whoever set it apart, in `reasoning_content`, and `cut`
    says that a limit of tokens ended its message. The digests tell whether an observation was the
    same to the letter.
    """
    episode = played.episode
    steps = [dataclass_to_json(step) for step in episode.steps]
    for step, observation in zip(steps, played.observations, strict=False):
        step["observation_sha256"] = text_hash(observation)
    for index, step in enumerate(steps):
        step |= {"cut": True} if index in played.cut_steps else {}
        if thought := played.thoughts.get(index) or split_thought(step["text"]).thought:
            step["reasoning_content"] = thought
    for index, reply in user_replies(steps, played.messages[1:]).items():
        steps[index]["messages"] = [reply]
    fields: dict[str, Any] = {"invalid_reason": played.reason} if episode.invalid else {}
    fields |= {played.failure: True} if played.failure else {}
    return {
        "messages": played.messages[0] if played.messages else [],
        "steps": steps,
        "terminated": episode.terminated,
        "truncated": episode.truncated,
        "invalid": episode.invalid,
        "num_actions_truncated": len(played.cut_steps),
        "seed": episode.seed,
        **fields,
    }


def user_replies(
    steps: Sequence[Mapping[str, Any]], messages: Sequence[Sequence[Message]]
) -> dict[int, Message]:
    """Return the user's replies within turns, by the step that each answered.

    `messages`: those behind each step.
    """
    replies = {}
    for index, (step, behind) in enumerate(zip(steps, messages, strict=False)):
        after = steps[index + 1].get("turn") if index + 1 < len(steps) else None
        in_turn = after == step.get("turn") or step.get("error") == "step_limit"
        if in_turn and not step.get("calls") and len(behind) == 1 and behind[0]["role"] == "user":
            replies[index] = behind[0]
    return replies


def text_hash(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def dataclass_to_json(value: Any) -> Any:
    """Convert a dataclass to JSON, exactly as a line of JSON gives it back."""
    return json.loads(json.dumps(dataclasses.asdict(value), default=repr))


def play_episodes(
    model: Any,
    tokenizer: Any,
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    task_ids: Sequence[str],
    *,
    num_envs: int = 8,
    max_new_tokens: int = 256,
    max_episode_tokens: int = 4096,
    temperature: float = 1.0,
    seed: int = 0,
    group_size: int = 1,
) -> list[EpisodeRecord]:
    """Play one episode for each task id; return them with tokens, masks and log-probs.

    `model` is a transformers causal language model, `tokenizer` has a chat template. `num_envs`
    episodes run at a time and are batched; `temperature` 0 is greedy. Episode i is seeded by (seed,
    i) alone; each `group_size` ids in a row share the environment's seed. `TokenRecord.split` turns
    a row into prompt and completion. Raises RolloutError where every episode is invalid.
    """
    from fctncalling.algorithms.generation.engine import GenerationEngine
    from fctncalling.algorithms.policy.template_file import load_template
    from fctncalling.algorithms.rollout.collect import collect

    template = load_template(tokenizer, model=model)
    sampling: dict[str, Any] = {"temperature": temperature, "max_new_tokens": max_new_tokens}
    engine = GenerationEngine(model.eval(), template.stop_ids, decode=template.decode, **sampling)
    with ExitStack() as opened:
        envs = [make_env() for _ in range(min(num_envs, len(task_ids)))]
        for env in envs:
            opened.callback(env.close)
        return collect(
            envs,
            engine,
            template,
            task_ids,
            max_episode_tokens=max_episode_tokens,
            seed=seed,
            group_size=group_size,
            make_env=make_env,
        )
