"""Run folders with a planted bug each, as a viewer must show them: two tasks, two episodes each,
one real update of a tiny random model with the embedded tokenizer.

`planted_run(folder, "tool_text_in_loss")` writes config.json, metrics.jsonl, episodes/ and tokens/;
`planted_run(folder)` the same without a bug.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord, episode_metrics
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.ppo import TokenDiagnostics, make_optimisers, update
from fctncalling.algorithms.run.logs import RunLog
from fctncalling.algorithms.run.token_log import TokenLog, TokenTexts, exclusion_reasons
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.types import Call, Episode, StepRecord, Verdict

END = "<|end|>"
CONFIG = TrainConfig(overlong="mask", gamma=0.99, lam=0.95, num_mini_batch=1, target_kl=None)
WRONG_GAMMA = 0.5
TURNS = (
    ("make a folder called old", "mkdir", {"dir_name": "old"}, "null"),
    ("now count the lines of notes.txt", "wc", {"file_name": "notes.txt", "mode": "l"}, "4"),
)
Records = list[EpisodeRecord]


def planted_run(folder: Path, bug: str | None = None, *, algorithm: str = "TPPO") -> Path:
    """Write a run folder of one update whose trainer has the bug, and return it."""
    template = ChatTemplate(_tokenizer())
    config = dataclasses.replace(CONFIG, algorithm_name=algorithm, group_size=2)
    logged, learned, trained_with = (
        BUGS[bug](_episodes(template), config)
        if bug
        else (
            *(2 * [_episodes(template)]),
            config,
        )
    )
    return write_run(folder, template, logged, learned, config, trained_with)


def write_run(
    folder: Path,
    template: ChatTemplate,
    logged: Records,
    learned: Records,
    config: TrainConfig,
    trained_with: TrainConfig | None = None,
) -> Path:
    """Write the folder of a run of one update from `learned`, and return it."""
    policy, trace = _policy(len(template.tokenizer)), TokenDiagnostics()
    trained_with = config if trained_with is None else trained_with
    optimisers, generator = make_optimisers(policy, config), torch.Generator().manual_seed(0)
    metrics = update(policy, optimisers, learned, trained_with, generator, trace=trace)
    log = RunLog(folder, dataclasses.asdict(config), tensorboard=False)
    log.write_metrics(1, {**episode_metrics(logged), **metrics})
    reasons = exclusion_reasons(logged, [*logged, *learned], config)
    log.write_episodes("train_000001", logged, template.spell, reasons)
    tokens = TokenLog(folder, config, TokenTexts(template))
    tokens.write(1, logged, reasons, trace)
    log.close()
    assert tokens.failures == 0
    return folder


def _mask_off_by_one(records: Records, config: TrainConfig) -> tuple[Records, Records, TrainConfig]:
    """The mask, and all that goes with it, lies one token to the right."""
    for record in records:
        row = record.rows[0]
        for name in ("acted", "ends_action", "rollout_logprobs", "rewards"):
            values = getattr(row, name)
            setattr(row, name, [type(values[0])(0), *values[:-1]])
    return records, records, config


def _wrong_gamma(records: Records, config: TrainConfig) -> tuple[Records, Records, TrainConfig]:
    """The estimate discounts by another gamma than the run's settings say."""
    return records, records, dataclasses.replace(config, gamma=WRONG_GAMMA)


def _truncated_as_whole(
    records: Records, config: TrainConfig
) -> tuple[Records, Records, TrainConfig]:
    """The trainer does not know which action was cut, so --overlong mask leaves it in the loss."""
    unaware = [dataclasses.replace(record, cut_actions=[]) for record in records]
    return records, unaware, config


def _tool_text_in_loss(
    records: Records, config: TrainConfig
) -> tuple[Records, Records, TrainConfig]:
    """The first tool result counts as written by the policy, as a part of the action after it."""
    for record in records:
        acted = record.rows[0].acted
        first = acted.index(False, acted.index(True))
        for place in range(first, acted.index(True, first)):
            acted[place] = True
    return records, records, config


def _reward_on_wrong_turn(
    records: Records, config: TrainConfig
) -> tuple[Records, Records, TrainConfig]:
    """The last action's reward is paid to the first."""
    for record in records:
        row = record.rows[0]
        ends = [place for place, is_end in enumerate(row.ends_action) if is_end]
        row.rewards[ends[0]] += row.rewards[ends[-1]]
        row.rewards[ends[-1]] = 0.0
    return records, records, config


BUGS: dict[str, Callable[[Records, TrainConfig], tuple[Records, Records, TrainConfig]]] = {
    "mask_off_by_one": _mask_off_by_one,
    "wrong_gamma": _wrong_gamma,
    "truncated_as_whole": _truncated_as_whole,
    "tool_text_in_loss": _tool_text_in_loss,
    "reward_on_wrong_turn": _reward_on_wrong_turn,
}
"""Each returns (episodes as logged, as learned from, settings of the update)."""


def _episodes(template: ChatTemplate) -> Records:
    """Return two episodes of each of two tasks; the last one's second action is cut."""
    return [
        _episode(
            template, f"multi_turn_base_{number // 2}", solved=number % 2 == 0, cut=number == 3
        )
        for number in range(4)
    ]


def _episode(template: ChatTemplate, task_id: str, *, solved: bool, cut: bool) -> EpisodeRecord:
    row, steps = TokenRecord([], [], [], [], []), []
    for turn, (question, function, arguments, result) in enumerate(TURNS):
        arguments = arguments if solved else dict(list(arguments.items())[:1])
        written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        text = f"[{function}({written})]"
        is_cut, is_last = cut and turn == len(TURNS) - 1, turn == len(TURNS) - 1
        text = text[: len(text) // 2] if is_cut else text
        reward = float(solved and is_last)
        _add_context(row, template.encode(f"<|user|>{question}{END}<|assistant|>"))
        _add_action(row, template.encode(text if is_cut else text + END), reward)
        call = () if is_cut else (Call(function, arguments),)
        shown = () if is_cut else (result,)
        _add_context(row, template.encode(f"{END if is_cut else ''}<|tool|>{''.join(shown)}{END}"))
        names = tuple(each.name for each in call)
        error = "malformed" if is_cut else None
        steps.append(StepRecord(turn, text, call, names, shown, error, reward))
    verdict = Verdict(
        solved, float(solved), None if solved else "multi_turn:instance_state_mismatch"
    )
    return EpisodeRecord(
        task_id,
        "multi_turn_base",
        [row],
        terminated=True,
        success=solved,
        episode_return=float(solved),
        num_steps=len(TURNS),
        num_actions_truncated=int(cut),
        cut_actions=[len(TURNS) - 1] if cut else [],
        errors=["malformed"] if cut else [],
        env_seed=1,
        episode=Episode(task_id, "multi_turn_base", tuple(steps), verdict, terminated=True, seed=1),
        messages=[[{"role": "user", "content": TURNS[0][0]}]],
    )


def _add_context(row: TokenRecord, ids: list[int]) -> None:
    _add(row, ids, acted=False, logprob=0.0)


def _add_action(row: TokenRecord, ids: list[int], reward: float) -> None:
    _add(row, ids, acted=True, logprob=-2.0)
    row.ends_action[-1] = True
    row.rewards[-1] = reward


def _add(row: TokenRecord, ids: list[int], *, acted: bool, logprob: float) -> None:
    row.ids += ids
    row.acted += [acted] * len(ids)
    row.ends_action += [False] * len(ids)
    row.rollout_logprobs += [logprob] * len(ids)
    row.rewards += [0.0] * len(ids)


def _tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(embedded_path("model"))


def _policy(vocabulary: int) -> ActorCritic:
    """Return a tiny random policy whose critic already says something."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=256,
    )
    policy = ActorCritic(LlamaForCausalLM(config), critic_head="linear").eval()
    torch.nn.init.normal_(policy.value_head.out.weight, std=0.3)
    return policy
