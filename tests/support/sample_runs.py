"""A small training run with a token file, its numbers by the trainer's own estimates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fctncalling.algorithms.algorithm import Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.ppo import ALGORITHMS
from fctncalling.data.token_file import (
    FLOAT_FIELDS,
    SCHEMA_VERSION,
    TokenFile,
    token_file_path,
    write_token_file,
)

UPDATE = 3
GAMMA, LAM = 0.95, 0.9
END = "<|end|>"


class Turn(NamedTuple):
    """A user's words and the policy's answers, each with the tool's result or None."""

    user: str
    answers: list[tuple[list[str], str | None]]


def _dialogue(first: str, second: str) -> list[Turn]:
    return [
        Turn("list files", [(["[", "ls", "()]"], first), (["done"], None)]),
        Turn("now remove one", [(["[", "rm", "(file=", "'a'", ")]"], second), (["done"], None)]),
    ]


class SampleEpisode(NamedTuple):
    turns: list[Turn]
    earned: float
    terminated: bool = True
    learned: bool = True
    group: int = 0


EPISODES = (
    SampleEpisode(_dialogue("a b", "None"), 1.0),
    SampleEpisode(_dialogue("a b", "no such file"), 0.0),
    SampleEpisode(_dialogue("c", "busy"), 0.0, terminated=False, group=1),
    SampleEpisode(_dialogue("d", "None"), 0.0, learned=False, group=2),
)


def write_sample_run(folder: Path, contents: TokenFile | None = None, **config: Any) -> Path:
    """Write a run's folder: `contents` instead of the sound token file, settings changed."""
    contents = sample_contents() if contents is None else contents
    (folder / "episodes").mkdir(parents=True)
    settings = {"algorithm_name": contents.header["algorithm_name"], "max_new_tokens": 64}
    settings |= {"truncation_bootstrap": True, "overlong": "keep", "reward_scale": 1.0}
    (folder / "config.json").write_text(
        json.dumps({**settings, "resolved": {"gamma": GAMMA}, **config})
    )
    metrics = [{"update": n, "env/success_rate": 0.2 * n, "x/y/z": 1.0} for n in range(1, 4)]
    lines = {
        "metrics.jsonl": metrics,
        f"episodes/train_{UPDATE:06d}.jsonl": [_line(each) for each in EPISODES],
        "episodes/train_000001.jsonl": [_line(EPISODES[1])],
        "alarms.jsonl": [
            {"update": 3, "alarm": "entropy", "message": "low", "episodes": [f"{_name()}:2"]}
        ],
    }
    for name, records in lines.items():
        (folder / name).write_text("".join(f"{json.dumps(each)}\n" for each in records))
    (folder / "evaluation.json").write_text("{}")
    write_token_file(token_file_path(folder, UPDATE), contents)
    return folder


def sample_contents(algorithm: str = "TPPO", **changes: Any) -> TokenFile:
    """Return the sound token file of an algorithm; `changes`: gamma, rewards_at, bootstrap."""
    texts, acted, ends, lengths = _tokens()
    vocabulary = {text: number for number, text in enumerate(sorted(set(texts)))}
    learned = np.repeat([each.learned for each in EPISODES], lengths) & acted
    numbers = _numbers(algorithm, acted, ends, lengths, changes)
    bootstrap = numbers.pop("bootstrap")
    floats = {name: np.full(len(texts), np.nan, dtype=np.float32) for name in FLOAT_FIELDS}
    for name, values in numbers.items():
        floats[name][learned] = values[learned[acted]]
    in_loss = learned.copy()
    if algorithm == "APPO":
        in_loss = learned & np.concatenate([[False], ~acted[:-1]])
    raw = floats["raw_advantages"][in_loss].astype(np.float64)
    whitened = algorithm != "GRPO"
    mean, deviation = (float(raw.mean()), float(raw.std())) if whitened else (None, None)
    floats["advantages"] = floats["raw_advantages"].copy()
    if mean is not None and deviation is not None:
        floats["advantages"] = ((floats["raw_advantages"] - mean) / deviation).astype(np.float32)
    return TokenFile(
        header=_header(algorithm, vocabulary, mean, deviation),
        ids=np.array([vocabulary[text] for text in texts], dtype=np.int32),
        acted=acted,
        ends_action=ends,
        in_loss=in_loss,
        clipped=np.where(learned, np.arange(len(texts)) % 7 == 0, 0).astype(np.int8),
        row_offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        row_episode=np.arange(len(EPISODES), dtype=np.int32),
        bootstrap=np.where([each.learned for each in EPISODES], bootstrap, np.nan).astype("f4"),
        **_blank_spaces(len(texts)),
        **floats,
    )


def _blank_spaces(count: int) -> dict[str, Any]:
    known = "space_before" in TokenFile.__dataclass_fields__
    return {"space_before": np.zeros(count, dtype=bool)} if known else {}


def _tokens() -> tuple[list[str], Any, Any, list[int]]:
    """Return the text of each token, mask, ends of actions, and the length of each episode."""
    texts: list[str] = []
    acted: list[bool] = []
    ends: list[bool] = []
    lengths = []
    for episode in EPISODES:
        start = len(texts)
        for turn in episode.turns:
            _extend(texts, acted, ends, ["<|user|>", turn.user, "<|assistant|>"], False)
            for _number, (answer, result) in enumerate(turn.answers):
                _extend(texts, acted, ends, [*answer, END], True)
                if result is not None:
                    _extend(texts, acted, ends, ["<|tool|>", result, "<|assistant|>"], False)
        lengths.append(len(texts) - start)
    return texts, np.array(acted), np.array(ends), lengths


def _extend(
    texts: list[str], acted: list[bool], ends: list[bool], more: list[str], sampled: bool
) -> None:
    texts += more
    acted += [sampled] * len(more)
    ends += [False] * (len(more) - 1) + [sampled]


def _numbers(
    algorithm: str, acted: Any, ends: Any, lengths: list[int], changes: dict[str, Any]
) -> dict[str, Any]:
    """Return the numbers of all acted tokens, by the trainer's own estimate."""
    generator = np.random.default_rng(7)
    episode = np.repeat(np.arange(len(EPISODES)), lengths)[acted]
    count = int(np.bincount(episode)[0])  # every episode has as many acted tokens
    shape = (len(EPISODES), count)
    has_critic = ALGORITHMS[algorithm].critic
    rewards = np.zeros(shape)
    rewards[:, changes.get("rewards_at", -1)] = [each.earned for each in EPISODES]
    values = generator.normal(size=shape)
    bootstrap = np.array([0.0 if each.terminated else 0.4 for each in EPISODES])
    bootstrap = np.full(4, np.nan) if not has_critic else changes.get("bootstrap", bootstrap)
    learned = [index for index, each in enumerate(EPISODES) if each.learned]
    trajectories = Trajectories(
        rewards=torch.tensor(rewards[learned]),
        values=torch.tensor(values[learned] * has_critic),
        acted=torch.ones((len(learned), count), dtype=torch.bool),
        ends_action=torch.tensor(ends[acted].reshape(shape)[learned]),
        bootstrap=torch.tensor(np.nan_to_num(bootstrap)[learned]),
        group=torch.tensor([EPISODES[index].group for index in learned]),
    )
    config = TrainConfig(
        algorithm_name=algorithm, gamma=changes.get("gamma", GAMMA), lam=LAM, **_sizes(algorithm)
    )
    estimate = ALGORITHMS[algorithm].estimate(trajectories, config)
    full = {name: np.zeros(shape) for name in ("raw_advantages", "returns")}
    full["raw_advantages"][learned] = estimate.advantages.numpy()
    full["returns"][learned] = estimate.returns.numpy()
    logprobs = -generator.exponential(size=shape)
    full |= {"rewards": rewards, "rollout_logprobs": logprobs, "old_logprobs": logprobs + 1e-4}
    full |= {"new_logprobs": logprobs + 0.1, "ratio": np.full(shape, np.exp(0.1))}
    full |= {"entropy": generator.exponential(size=shape)}
    full |= {"values": values} if has_critic else {}
    return {name: array.reshape(-1) for name, array in full.items()} | {"bootstrap": bootstrap}


def _sizes(algorithm: str) -> dict[str, Any]:
    return {"group_size": 2, "episodes_per_update": 4} if algorithm == "GRPO" else {}


def _header(
    algorithm: str, vocabulary: dict[str, int], mean: float | None, deviation: float | None
) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "algorithm_name": algorithm,
        "update": UPDATE,
        "episodes_file": f"episodes/{_name()}.jsonl",
        "gamma": GAMMA,
        "lam": LAM,
        "lam_value": None,
        "gamma_token": 1.0,
        "lam_token": 1.0,
        "clip_low": 0.2,
        "clip_high": 0.2,
        "dual_clip": None,
        "group_size": 2,
        "group_std": True,
        "group_credit": "episode",
        "has_signal": True,
        "whitening_mean": mean,
        "whitening_std": deviation,
        "episodes": [
            {
                "episode_id": f"{_name()}:{line}",
                "line": line,
                "task_id": _task(each),
                "category": "toy",
                "success": each.earned > 0,
                "invalid": not each.learned,
                "terminated": each.terminated,
                "truncated": not each.terminated,
                "return": each.earned,
                "group": each.group,
                "learned_from": each.learned,
                "reason": None if each.learned else "invalid: the tool server died",
            }
            for line, each in enumerate(EPISODES, 1)
        ],
        "pieces": {str(number): text for text, number in vocabulary.items()},
        "fields": [],
    }


def _line(episode: SampleEpisode) -> dict[str, Any]:
    """Return an episode's line of the log."""
    steps = [
        {
            "turn": number,
            "text": "".join(answer),
            "calls": [],
            "executed": ["".join(answer)[1:-1]] * (result is not None),
        }
        | {"results": [] if result is None else [result], "error": None, "reward": 0.0}
        for number, turn in enumerate(episode.turns)
        for answer, result in turn.answers
    ]
    steps[-1]["reward"] = episode.earned
    steps[1]["messages"] = [{"role": "user", "content": episode.turns[1].user}]
    failed: dict[str, Any] = (
        {} if episode.earned else {"error_type": "toy:wrong", "message": "<b>not</b> removed"}
    )
    return {
        "task_id": _task(episode),
        "category": "toy",
        "steps": steps,
        "seed": 1,
        "verdict": {**failed, "valid": episode.earned > 0, "per_turn": [True, episode.earned > 0]},
        "terminated": episode.terminated,
        "truncated": not episode.terminated,
        "invalid": not episode.learned,
        "success": episode.earned > 0,
        "return": episode.earned,
        "num_actions_truncated": 0,
        "ground_truth": [["ls()"]],
        "messages": [{"role": "user", "content": episode.turns[0].user}],
    }


def _task(episode: SampleEpisode) -> str:
    return f"toy_{episode.group}"


def _name() -> str:
    return f"train_{UPDATE:06d}"


def shifted_mask() -> TokenFile:
    """Return a file with the mask, and all that goes with it, one token late."""
    sound = sample_contents()
    names = ("acted", "ends_action", "in_loss", *FLOAT_FIELDS)
    return replace(sound, **{name: np.roll(getattr(sound, name), 1) for name in names})


def tool_text_in_the_loss() -> TokenFile:
    """Return a file whose first action goes on through the tool's result."""
    sound = sample_contents()
    end = int(np.flatnonzero(sound.ends_action)[0])
    changes = {
        name: getattr(sound, name).copy() for name in ("acted", "ends_action", *FLOAT_FIELDS)
    }
    tool = slice(end + 1, end + 4)  # <|tool|>, result, <|assistant|>
    changes["acted"][tool] = True
    changes["ends_action"][end] = False
    changes["ends_action"][end + 3] = True
    for name in FLOAT_FIELDS:
        changes[name][tool] = changes[name][end]
    return replace(sound, in_loss=changes["acted"] & sound.in_loss | changes["acted"], **changes)
