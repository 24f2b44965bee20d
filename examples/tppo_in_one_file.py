"""TPPO in one file: token-level PPO with Bellman backup with action decomposition (BAD).

    python examples/tppo_in_one_file.py

learns the embedded tasks on one core: what `fctncalling train` does, without adapters, processes,
checkpoints, logs, prefix sharing and the points 2 to 7 of `algorithms/tppo.py`. Read it from
`learn` on: episodes are played; one pass gives old log-probabilities and values; `bad_gae` makes
advantages of them; clipped PPO steps follow. B: rows, one an episode. T: tokens of the longest row,
without its first. acted: the policy sampled the token; all else is context and enters no loss.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, fields
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from fctncalling import FunctionCallingEnv, embedded_path, load_tasks, play_episodes


@dataclass
class Settings:
    """Settings of the run; each is a flag."""

    model: str = str(embedded_path("train").parent / "model")
    updates: int = 40
    episodes: int = 256  # an update
    minibatches: int = 4
    lr: float = 8e-5
    critic_lr: float = 3e-3
    gamma: float = 0.99
    lam: float = 0.95
    clip_low: float = 0.2
    clip_high: float = 0.28
    value_coef: float = 0.5
    entropy_coef: float = 0.002
    max_grad_norm: float = 1.0
    seed: int = 1


class Rows(NamedTuple):
    """Episodes as padded rows, shortest first; acted, ends_action and rewards are (B, T)."""

    ids: Tensor  # (B, 1 + T)
    lengths: Tensor  # (B,) tokens of each row
    acted: Tensor  # bool, the policy sampled the token
    ends_action: Tensor  # bool
    rewards: Tensor


class ActorCritic(nn.Module):
    """Causal language model with a value head, both read at the position before a token."""

    def __init__(self, model) -> None:
        super().__init__()
        self.model = model
        size = model.config.hidden_size
        self.value_head = nn.Sequential(nn.Linear(size, 128), nn.Tanh(), nn.Linear(128, 1))
        nn.init.zeros_(self.value_head[-1].weight)  # the first advantages are the returns
        nn.init.zeros_(self.value_head[-1].bias)

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities, entropies and values of the tokens after the first, (B, T)."""
        attended = torch.arange(ids.shape[1]) < lengths[:, None]
        out = self.model(ids, attention_mask=attended, output_hidden_states=True)
        log_probs = out.logits[:, :-1].log_softmax(-1)  # of all words, (B, T, V)
        logprobs = log_probs.gather(-1, ids[:, 1:, None]).squeeze(-1)
        entropies = -(log_probs.exp() * log_probs).sum(-1)
        return logprobs, entropies, self.value_head(out.hidden_states[-1][:, :-1]).squeeze(-1)


def bad_gae(rewards, values, acted, ends_action, *, gamma: float, lam: float):
    """Return advantages and value targets, (B, T): BAD of Wen et al. 2024 (arXiv:2405.15821).

    gamma and lam apply where an action ends, not between its tokens. Context is stepped over.
    """
    advantages = torch.zeros_like(values)
    next_value = next_advantage = torch.zeros(len(values))  # 0 after the end of an episode
    for t in reversed(range(values.shape[1])):
        discount = torch.where(ends_action[:, t], gamma, 1.0)
        trace = torch.where(ends_action[:, t], gamma * lam, 1.0)
        advantage = rewards[:, t] + discount * next_value - values[:, t] + trace * next_advantage
        advantages[:, t] = torch.where(acted[:, t], advantage, 0.0)
        next_value = torch.where(acted[:, t], values[:, t], next_value)
        next_advantage = torch.where(acted[:, t], advantage, next_advantage)
    return advantages, torch.where(acted, advantages + values, 0.0)


def token_losses(outputs, old_logprobs, advantages, returns, acted, settings: Settings) -> Tensor:
    """Return the loss of each token, (B, T): clipped policy loss, value loss, entropy bonus."""
    logprobs, entropies, values = outputs
    ratio = torch.where(acted, logprobs - old_logprobs, 0.0).exp()
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    policy_loss = torch.maximum(-ratio * advantages, -clipped * advantages)
    value_loss = settings.value_coef * 0.5 * (values - returns).square()
    return torch.where(acted, policy_loss + value_loss - settings.entropy_coef * entropies, 0.0)


def rows_of(episodes) -> Rows:
    """Collect the rows of the valid episodes."""
    rows = [row for e in episodes if not e.invalid for row in e.rows if any(row.acted)]
    rows.sort(key=lambda row: len(row.ids))
    lengths = torch.tensor([len(row.ids) for row in rows])
    ids, acted, ends_action, rewards = (
        pad_sequence([torch.tensor(getattr(row, name)) for row in rows], batch_first=True)
        for name in ("ids", "acted", "ends_action", "rewards")
    )
    return Rows(ids, lengths, acted[:, 1:], ends_action[:, 1:], rewards[:, 1:])


def learn(policy: ActorCritic, optimiser, rows: Rows, settings: Settings, order: Tensor) -> None:
    """Take one epoch of clipped PPO steps over the rows, in this order (B,)."""

    def run(index: Tensor):  # rows of similar length: their outputs, and their place in (B, T)
        longest = int(rows.lengths[index].max())
        return policy(rows.ids[index, :longest], rows.lengths[index]), (index, slice(longest - 1))

    old_logprobs, values = torch.zeros(2, *rows.acted.shape)
    with torch.no_grad():
        for index in torch.arange(len(order)).split(32):
            (logprobs, _, value), place = run(index)
            old_logprobs[place], values[place] = logprobs, value
    inputs = (rows.rewards, values, rows.acted, rows.ends_action)
    advantages, returns = bad_gae(*inputs, gamma=settings.gamma, lam=settings.lam)
    used = advantages[rows.acted]
    advantages = (advantages - used.mean()) / (used.std(correction=0) + 1e-5)
    divisor = rows.acted.sum() / settings.minibatches  # one for all: every token weighs the same
    for minibatch in order.tensor_split(settings.minibatches):
        optimiser.zero_grad()
        for index in minibatch.sort().values.split(32):
            outputs, place = run(index)
            fixed = (t[place] for t in (old_logprobs, advantages, returns, rows.acted))
            (token_losses(outputs, *fixed, settings).sum() / divisor).backward()
        nn.utils.clip_grad_norm_(policy.model.parameters(), settings.max_grad_norm)
        nn.utils.clip_grad_norm_(policy.value_head.parameters(), settings.max_grad_norm)
        optimiser.step()


def play(policy: ActorCritic, tokenizer, tasks, ids, **sampling):
    """Play an episode of each task id, rewarded by the strict verdict; print how many succeed."""
    limits = {"num_envs": 128, "max_new_tokens": 64, "max_episode_tokens": 1024}
    make_env = partial(FunctionCallingEnv, tasks=tasks, reward="strict", strict=True)
    episodes = play_episodes(policy.model, tokenizer, make_env, ids, **limits, **sampling)
    print(f"success: {sum(bool(e.success) for e in episodes) / len(episodes):.1%}", flush=True)
    return episodes


def main(settings: Settings) -> None:
    """Train, and play held-out tasks greedily before and after."""
    torch.manual_seed(settings.seed)
    torch.set_num_threads(1)
    drawing = random.Random(settings.seed)
    tokenizer = AutoTokenizer.from_pretrained(settings.model)
    policy = ActorCritic(AutoModelForCausalLM.from_pretrained(settings.model)).eval()
    rates = ((policy.model, settings.lr), (policy.value_head, settings.critic_lr))
    groups = [{"params": list(part.parameters()), "lr": lr} for part, lr in rates]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.0)
    tasks, held_out = (load_tasks(embedded_path(name)) for name in ("train", "held_out"))
    test = {"tasks": held_out, "ids": [task.id for task in held_out], "seed": 0, "temperature": 0.0}
    play(policy, tokenizer, **test)
    for update in range(1, settings.updates + 1):
        print(f"update {update}, ", end="")
        ids = [task.id for task in drawing.sample(tasks, settings.episodes)]
        rows = rows_of(play(policy, tokenizer, tasks, ids, seed=1000 * settings.seed + update))
        learn(policy, optimiser, rows, settings, torch.randperm(len(rows.ids)))
    play(policy, tokenizer, **test)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in fields(Settings):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    main(Settings(**vars(parser.parse_args())))
