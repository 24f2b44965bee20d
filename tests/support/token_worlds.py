"""Tiny language models, tiny Gymnasium worlds of tokens,
and the parts of an update by themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import gymnasium
import torch
from gymnasium import spaces
from torch import Tensor, nn

from fctncalling.algorithms.algorithm import Trajectories
from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.losses import Targets
from fctncalling.algorithms.minibatches import Passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import accumulate_gradients, find_algorithm
from fctncalling.algorithms.targets import compute_targets

CPU = torch.device("cpu")
VOCABULARY = 16
START = 15
OPEN, PUT, CLOSE = 1, 2, 3  # of a command token modulo 4
LEFT, RIGHT = 0, 1  # of a command token modulo 2

Tokens = Sequence[int]


def tiny_policy(seed: int = 0, *, kind: str = "llama", **head: Any) -> ActorCritic:
    """Return an untrained two-layer model ("llama": rotary positions, "gpt2": absolute ones) with a
    value head.
    """
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    if kind == "gpt2":
        return ActorCritic(
            GPT2LMHeadModel(
                GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=2)
            ),
            **head,
        )
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
        initializer_range=0.1,
    )
    return ActorCritic(LlamaForCausalLM(config), **head)


class TokenWorld(gymnasium.Env[Tokens, Tokens]):
    """An environment that shows and takes tokens; a subclass says what they mean."""

    observation_space = spaces.Sequence(spaces.Discrete(VOCABULARY))
    action_space = spaces.Sequence(spaces.Discrete(VOCABULARY))
    action_tokens = 1


class ConstantDigit(TokenWorld):
    """One action: digit 3 earns 1, any other token 0."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tokens, dict[str, Any]]:
        super().reset(seed=seed)
        return [START], {}

    def step(self, action: Tokens) -> tuple[Tokens, float, bool, bool, dict[str, Any]]:
        return [], float(action[0] == 3), True, False, {}


class ShownDigit(TokenWorld):
    """One action: the digit shown earns 1, any other token 0."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tokens, dict[str, Any]]:
        super().reset(seed=seed)
        self.digit = int(self.np_random.integers(4))
        return [START, self.digit], {}

    def step(self, action: Tokens) -> tuple[Tokens, float, bool, bool, dict[str, Any]]:
        return [], float(action[0] == self.digit), True, False, {}


class Corridor(TokenWorld):
    """Walk to the right end of five cells: every step costs 0.1, arriving earns 1.

    Actions are two tokens: the first one's parity is the direction, the second means nothing.
    """

    action_tokens = 2

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tokens, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 1
        return [START, 4 + self.cell], {}

    def step(self, action: Tokens) -> tuple[Tokens, float, bool, bool, dict[str, Any]]:
        self.cell = max(0, self.cell + (1 if action[0] % 2 == RIGHT else -1))
        arrived = self.cell == 4
        return [4 + self.cell], float(arrived) - 0.1, arrived, False, {}


class Microwave(TokenWorld):
    """Open, put, close: in this order earns 1; five steps without earn -1.

    Actions are two tokens: the first one modulo 4 is the command, the second means nothing. The
    case study of Wen et al. 2024: with gamma 0.95 the first observation is worth 0.95^2 = 0.9025.
    """

    action_tokens = 2
    NEXT: ClassVar = {
        ("closed", OPEN): "open",
        ("open", PUT): "filled",
        ("open", CLOSE): "closed",
        ("filled", CLOSE): "done",
    }
    SHOWN: ClassVar = {"closed": 5, "open": 6, "filled": 7, "done": 8}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Tokens, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.num_steps = "closed", 0
        return [START, self.SHOWN[self.state]], {}

    def step(self, action: Tokens) -> tuple[Tokens, float, bool, bool, dict[str, Any]]:
        self.num_steps += 1
        self.state = self.NEXT.get((self.state, action[0] % 4), self.state)
        done = self.state == "done"
        failed = not done and self.num_steps == 5
        return [self.SHOWN[self.state]], float(done) - float(failed), done or failed, False, {}


@torch.no_grad()
def play(
    policy: ActorCritic,
    make_world: Callable[[], gymnasium.Env[Tokens, Tokens]],
    num_episodes: int,
    generator: torch.Generator,
) -> list[EpisodeRecord]:
    """Return sampled episodes of num_episodes worlds that run side by side, one row an episode."""
    worlds = [make_world() for _ in range(num_episodes)]
    action_tokens = worlds[0].unwrapped.action_tokens  # type: ignore[attr-defined]
    episodes = [
        EpisodeRecord(f"world_{index}", "world", [empty_row()]) for index in range(num_episodes)
    ]
    for world, episode in zip(worlds, episodes, strict=True):
        observation, _ = world.reset(seed=int(torch.randint(2**31, (1,), generator=generator)))
        observe(episode.rows[0], observation)
    live = list(range(num_episodes))
    while live:
        for position in range(action_tokens):
            last = position == action_tokens - 1
            for index, (token, logprob) in zip(
                live, sample(policy, [episodes[i] for i in live], generator), strict=True
            ):
                act(episodes[index].rows[0], token, logprob, last)
        live = [index for index in live if not _step(worlds[index], episodes[index], action_tokens)]
    return episodes


def _step(world: gymnasium.Env[Tokens, Tokens], episode: EpisodeRecord, action_tokens: int) -> bool:
    row = episode.rows[0]
    observation, reward, episode.terminated, episode.truncated, _ = world.step(
        row.ids[-action_tokens:]
    )
    row.rewards[-1] = float(reward)
    episode.episode_return += float(reward)
    episode.num_steps += 1
    observe(row, observation)
    return episode.terminated or episode.truncated


def sample(
    policy: ActorCritic, episodes: Sequence[EpisodeRecord], generator: torch.Generator
) -> list[tuple[int, float]]:
    """Return one sampled token and its log-probability for each episode's row."""
    rows = [episode.rows[0].ids for episode in episodes]
    lengths = torch.tensor([len(ids) for ids in rows])
    padded = torch.tensor([list(ids) + [0] * (int(lengths.max()) - len(ids)) for ids in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    logits: Tensor = policy.model(input_ids=padded, attention_mask=mask).logits
    logprobs = logits[torch.arange(len(rows)), lengths - 1].log_softmax(-1)
    tokens = torch.multinomial(logprobs.exp(), 1, generator=generator)
    return list(zip(tokens[:, 0].tolist(), logprobs.gather(1, tokens)[:, 0].tolist(), strict=True))


def empty_row() -> TokenRecord:
    return TokenRecord([], [], [], [], [])


def observe(row: TokenRecord, tokens: Tokens) -> None:
    """Append context tokens to a row."""
    for token in tokens:
        _append(row, token, False, False, 0.0, 0.0)


def act(
    row: TokenRecord, token: int, logprob: float, ends_action: bool, reward: float = 0.0
) -> None:
    """Append one acted token to a row."""
    _append(row, token, True, ends_action, logprob, reward)


def _append(
    row: TokenRecord, token: int, acted: bool, ends_action: bool, logprob: float, reward: float
) -> None:
    row.ids.append(token)
    row.acted.append(acted)
    row.ends_action.append(ends_action)
    row.rollout_logprobs.append(logprob)
    row.rewards.append(reward)


def settings(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"target_kl": None, "num_mini_batch": 1, **changes})


def policy_with_values() -> ActorCritic:
    """Return a tiny policy whose critic already says something."""
    policy = tiny_policy(critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight, std=0.3)
    return policy


def some_episodes(policy: ActorCritic, num_episodes: int = 12) -> list[EpisodeRecord]:
    return play(policy, Microwave, num_episodes, torch.Generator().manual_seed(5))


def episode(values: list[tuple[int, float]], **ending: Any) -> EpisodeRecord:
    """Return an episode of actions (number of tokens, reward) with context before, between and
    after them.
    """
    row = empty_row()
    for length, reward in values:
        observe(row, [1, 2])
        for index in range(length):
            last = index == length - 1
            act(row, 3 + index, -2.0, last, reward if last else 0.0)
    observe(row, [4, 5])
    return EpisodeRecord("task", "world", [row], **ending)


def one_row_a_step(record: EpisodeRecord) -> EpisodeRecord:
    """Return the same episode with a row for every action: all that came before it is context."""
    (row,) = record.rows
    rows, start = [], 0
    ends = [index + 1 for index, last in enumerate(row.ends_action) if last]
    for end in ends:
        length = (
            len(row.ids) if end == ends[-1] else end
        )  # the last row keeps the context after its action
        old = [index < start for index in range(length)]
        rows.append(
            TokenRecord(
                row.ids[:length],
                [acted and not past for acted, past in zip(row.acted, old, strict=False)],
                [
                    ends_action and not past
                    for ends_action, past in zip(row.ends_action, old, strict=False)
                ],
                [
                    0.0 if past else logprob
                    for logprob, past in zip(row.rollout_logprobs, old, strict=False)
                ],
                [0.0 if past else reward for reward, past in zip(row.rewards, old, strict=False)],
            )
        )
        start = end
    return dataclasses.replace(record, rows=rows)


def targets_of(policy: ActorCritic, episodes: list[EpisodeRecord], config: TrainConfig) -> Targets:
    passes = Passes(build_experience(episodes, CPU), config)
    generator = torch.Generator().manual_seed(0)
    algorithm, plan = find_algorithm(config.algorithm_name), passes.minibatches(generator)
    return compute_targets(policy, passes, plan, algorithm, config, generator)


def gradient(
    policy: ActorCritic, episodes: list[EpisodeRecord], config: TrainConfig, push: float = 0.0
) -> Tensor:
    """Return the gradient of the first minibatch; push moves the old log-probabilities so that
    ratios differ from 1.
    """
    passes = Passes(build_experience(episodes, CPU), config)
    generator = torch.Generator().manual_seed(0)
    (minibatch,) = passes.minibatches(generator)
    algorithm = find_algorithm(config.algorithm_name)
    targets = compute_targets(policy, passes, [minibatch], algorithm, config, generator)
    shift = push * torch.sin(torch.arange(len(targets.old_logprobs)))
    accumulate_gradients(
        policy,
        passes,
        targets._replace(old_logprobs=targets.old_logprobs + shift),
        minibatch,
        algorithm,
        config,
    )
    return torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])


Action = tuple[list[float], float]  # values of its tokens, reward


def trajectories(
    *episodes: list[Action], groups: list[int] | None = None, bootstrap: float = 0.0
) -> Trajectories:
    """Return the trajectories of episodes made of actions."""
    length = max(sum(len(values) for values, _ in actions) for actions in episodes)
    rows: list[tuple[list[float], list[float], list[bool], list[bool]]] = []
    for actions in episodes:
        values = [value for tokens, _ in actions for value in tokens]
        ends = [i == len(tokens) - 1 for tokens, _ in actions for i in range(len(tokens))]
        rewards = [
            reward * (i == len(tokens) - 1)
            for tokens, reward in actions
            for i in range(len(tokens))
        ]
        gap = length - len(values)
        rows.append(
            (
                rewards + [0.0] * gap,
                values + [0.0] * gap,
                [True] * len(values) + [False] * gap,
                ends + [False] * gap,
            )
        )
    rewards_, values_, acted, ends_action = (
        torch.tensor(field) for field in zip(*rows, strict=True)
    )
    numbers = torch.tensor(groups or list(range(len(episodes))))
    end = torch.full((len(episodes),), bootstrap)
    return Trajectories(rewards_, values_, acted, ends_action, end, numbers)
