"""The token file of an update: its advantages follow from its values and rewards, its numbers are
those of the update's own passes, and writing it changes nothing else.
"""

from __future__ import annotations

import copy
import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray
from tiny_models import tiny_tokenizer
from token_worlds import (
    Microwave,
    one_row_a_step,
    play,
    policy_with_values,
    settings,
    tiny_policy,
)
from tokenizers_for_text import byte_level, sentencepiece_like

from fctncalling.algorithms.advantages import action_gae, decomposed_gae
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.losses import policy_loss
from fctncalling.algorithms.minibatches import make_batch
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.ppo import TokenDiagnostics, make_optimisers, update
from fctncalling.algorithms.run.logs import RunLog
from fctncalling.algorithms.run.token_log import (
    TokenLog,
    TokenTexts,
    exclusion_reasons,
    token_file_contents,
)
from fctncalling.data.bfcl import embedded_path
from fctncalling.data.token_file import (
    TOKEN_FIELDS,
    TokenFile,
    read_token_file,
    token_file_path,
    write_token_file,
)

torch.set_num_threads(1)


class NumberTexts:
    """Texts of the tokens of a world that has no tokenizer."""

    def token_texts(self, ids: list[int]) -> dict[int, str]:
        return {token: f"<{token}>" for token in ids}

    def implied_spaces(self, rows: list[list[int]]) -> NDArray[np.bool_]:
        return np.zeros(sum(map(len, rows)), dtype=np.bool_)


TEXTS: Any = NumberTexts()


def grouped_episodes(policy: ActorCritic) -> list[EpisodeRecord]:
    """Return 12 episodes in groups of four, some truncated, the fourth invalid, the seventh without
    an action.
    """
    episodes = play(policy, lambda: TimeLimit(Microwave(), 4), 12, torch.Generator().manual_seed(5))
    for index, record in enumerate(episodes):
        record.task_id = f"task_{index // 4}"
        record.cut_actions = [1] if index % 5 == 0 else []
        for place, ends in enumerate(record.rows[0].ends_action):  # the world pays too little
            record.rows[0].rewards[place] += 0.25 * ends * ((index + place) % 3)
    episodes[3].invalid = True
    episodes[3].invalid_reason = "the tool server died"
    episodes[6].rows = [TokenRecord([1, 2], [False] * 2, [False] * 2, [0.0] * 2, [0.0] * 2)]
    return episodes


def traced(
    policy: ActorCritic, episodes: list[EpisodeRecord], config: TrainConfig
) -> tuple[TokenFile, dict[str, float]]:
    """Return the token file of an update on the episodes, and the update's metrics."""
    trace = TokenDiagnostics()
    generator = torch.Generator().manual_seed(3)
    metrics = update(
        policy, make_optimisers(policy, config), episodes, config, generator, trace=trace
    )
    reasons = exclusion_reasons(episodes, episodes, config)
    return token_file_contents(7, episodes, reasons, trace, config, TEXTS), metrics


def recomputed(file: TokenFile, config: TrainConfig) -> NDArray[np.float32]:
    """Return the advantages before whitening, (T,), from stored values and rewards alone."""
    advantages = np.full(len(file.ids), np.nan, dtype=np.float32)
    outcomes: dict[int, list[tuple[NDArray[np.int64], float]]] = {}
    for number, episode in enumerate(file.episodes):
        rows = file.rows(number)
        places = np.concatenate([np.arange(row.start, row.stop) for row in rows])
        places = places[file.acted[places]]
        if not episode["learned_from"]:
            assert np.isnan(file.advantages[places]).all()
            continue
        last_row = np.flatnonzero(file.row_episode == number)[-1]
        header = file.header
        lam = torch.tensor(file.lam[places])[None] if header["lam"] is None else header["lam"]
        gammas = {"gamma": header["gamma"], "lam": lam}
        rewards, values = (torch.tensor(each[places])[None] for each in (file.rewards, file.values))
        bootstrap = torch.tensor(file.bootstrap[last_row : last_row + 1])
        ends = torch.tensor(file.ends_action[places])[None]
        if header["algorithm_name"] == "GRPO":
            discounts = header["gamma"] ** np.arange(int(ends.sum()))
            total = float((rewards[ends].numpy() * discounts).sum())
            outcomes.setdefault(episode["group"], []).append((places, total))
        elif header["algorithm_name"] == "APPO":
            begins = torch.cat([torch.ones(1, 1, dtype=torch.bool), ends[:, :-1]], dim=1)
            of_action = (begins.long().cumsum(1) - 1)[0]
            found, _ = action_gae(
                rewards[ends][None],
                values[begins][None],
                torch.ones(1, int(ends.sum()), dtype=torch.bool),
                bootstrap,
                **gammas,
            )
            advantages[places] = found[0][of_action].numpy()
        else:
            inside = {
                "TPPO": (header["gamma_token"], header["lam_token"]),
                "POAD": (1.0, lam),
                "NTPO": (header["gamma"], lam),
            }[header["algorithm_name"]]
            acted = torch.ones_like(ends)
            gammas |= {"gamma_token": inside[0], "lam_token": inside[1]}
            found, _ = decomposed_gae(rewards, values, acted, ends, bootstrap, **gammas)
            advantages[places] = found[0].numpy()
    for group in outcomes.values():
        totals = np.array([total for _, total in group])
        for places, total in group:
            scale = totals.std() + 1e-6 if file.header["group_std"] else 1.0
            advantages[places] = (total - totals.mean()) / scale
    return advantages


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm_name": "TPPO"},
        {"algorithm_name": "TPPO", "gamma_token": 0.99, "lam_token": 0.9, "reward_scale": 0.5},
        {"algorithm_name": "TPPO", "kl_coef": 0.2, "kl_mode": "reward", "whiten_advantages": False},
        {"algorithm_name": "POAD", "overlong": "mask"},
        {"algorithm_name": "NTPO"},
        {"algorithm_name": "APPO"},
        {"algorithm_name": "GRPO", "group_size": 4},
        {"algorithm_name": "GRPO", "group_size": 4, "group_std": False, "gamma": 0.9},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_advantages_follow_from_stored_values_and_rewards(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    policy, config = (
        policy_with_values(),
        settings(gamma=changes.pop("gamma", 0.95), lam=0.8, num_mini_batch=3, **changes),
    )
    policy.set_reference(tiny_policy(seed=7).model)
    contents, _ = traced(policy, grouped_episodes(policy), config)
    write_token_file(tmp_path / "a.npz", contents)
    file = read_token_file(tmp_path / "a.npz")
    learned = file.acted & np.isfinite(file.new_logprobs)
    assert 0 < file.in_loss.sum() <= learned.sum()
    raw = recomputed(file, config)
    np.testing.assert_allclose(file.raw_advantages[learned], raw[learned], atol=1e-5)
    mean, std = (file.header[f"whitening_{name}"] for name in ("mean", "std"))
    assert (mean is None) == (config.algorithm_name == "GRPO" or not config.whiten_advantages)
    wanted = raw if mean is None else (raw - mean) / std
    shown = np.isfinite(file.advantages)
    assert shown[file.in_loss].all()
    np.testing.assert_allclose(file.advantages[shown], wanted[shown], atol=1e-5)
    cut = config.overlong == "mask"
    assert (shown == learned).all() != cut  # the first token of an APPO action stands for all
    assert np.isfinite(file.values[learned]).all() == (config.algorithm_name != "GRPO")
    assert np.isfinite(file.kl[learned]).all() == bool(config.kl_coef)


def test_one_row_an_episode_and_one_row_a_step_give_the_same_numbers() -> None:
    policy, config = policy_with_values(), settings(gamma=0.9)
    episodes = [it for it in grouped_episodes(policy) if any(it.rows[0].acted)]
    whole, _ = traced(copy.deepcopy(policy), episodes, config)
    stepwise, _ = traced(policy, [one_row_a_step(each) for each in episodes], config)
    assert len(stepwise.row_episode) > len(whole.row_episode)
    for name in ("advantages", "values", "new_logprobs", "entropy", "ratio"):
        one, other = (getattr(file, name)[file.acted] for file in (whole, stepwise))
        np.testing.assert_allclose(one, other, atol=1e-5, err_msg=name)
    ends = stepwise.bootstrap[np.isfinite(stepwise.bootstrap)]
    np.testing.assert_allclose(ends, whole.bootstrap[np.isfinite(whole.bootstrap)], atol=1e-5)


def test_new_logprobs_are_those_of_the_last_epochs_own_pass() -> None:
    policy = policy_with_values()
    episodes = grouped_episodes(policy)
    once, twice = (settings(ppo_epoch=epochs, lr=1e-2) for epochs in (1, 2))
    later = copy.deepcopy(policy)
    first, _ = traced(copy.deepcopy(policy), episodes, once)
    second, _ = traced(copy.deepcopy(policy), episodes, twice)
    learned = np.isfinite(first.new_logprobs)
    np.testing.assert_array_equal(first.new_logprobs[learned], first.old_logprobs[learned])
    np.testing.assert_array_equal(first.ratio[learned], 1.0)
    traced(later, episodes, once)  # the weights that the second epoch's only pass sees
    rows = [row for number, each in enumerate(second.episodes) for row in second.rows(number)]
    expected = np.full(len(second.ids), np.nan, dtype=np.float32)
    entropies = expected.copy()
    records = [row for record in episodes for row in record.rows]
    for row, record in zip(rows, records, strict=True):
        places = np.arange(row.start, row.stop)[second.acted[row]]
        if len(places) and learned[places].all():
            with torch.no_grad():
                outputs = later(make_batch([record]), temperature=1.0)
            expected[places], entropies[places] = outputs.logprobs, outputs.entropies
    assert np.abs(expected[learned] - second.old_logprobs[learned]).max() > 1e-3
    np.testing.assert_allclose(second.new_logprobs, expected, atol=1e-5)
    np.testing.assert_allclose(second.entropy, entropies, atol=1e-4)
    np.testing.assert_allclose(
        second.ratio, np.exp(second.new_logprobs - second.old_logprobs), rtol=1e-5
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"num_mini_batch": 4, "ppo_epoch": 2},
        {"gradient_cp_steps": 3},
        {"max_microbatch_tokens": 40},
        {"share_prefixes": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_minibatches_microbatches_and_shared_prefixes_fill_the_same_places(
    changes: dict[str, Any],
) -> None:
    policy = policy_with_values()
    episodes = grouped_episodes(policy)
    for record in episodes:  # prompts to be shared
        record.rows[0].ids[:2] = [15, 5]
    frozen = {"lr": 1e-12, "critic_lr": 1e-12, "share_prefixes": False}
    plain, _ = traced(copy.deepcopy(policy), episodes, settings(**frozen))
    other, _ = traced(copy.deepcopy(policy), episodes, settings(**frozen | changes))
    for name in TOKEN_FIELDS:
        one, two = getattr(plain, name), getattr(other, name)
        np.testing.assert_allclose(one, two, atol=2e-5, err_msg=name)


def test_a_trace_changes_neither_weights_nor_metrics() -> None:
    policy = policy_with_values()
    episodes, config = grouped_episodes(policy), settings(num_mini_batch=3, ppo_epoch=2)
    bare = copy.deepcopy(policy)
    generator = torch.Generator().manual_seed(3)
    expected = update(bare, make_optimisers(bare, config), episodes, config, generator)
    _, metrics = traced(policy, episodes, config)
    assert metrics == expected
    for one, other in zip(policy.parameters(), bare.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_clipped_tokens_are_those_without_gradient(dual_clip: float | None) -> None:
    policy = policy_with_values()
    config = settings(ppo_epoch=3, lr=0.05, dual_clip=dual_clip, clip_low=0.1, clip_high=0.15)
    file, _ = traced(policy, grouped_episodes(policy), config)
    ratios = torch.tensor(file.ratio[file.in_loss]).log().requires_grad_()
    advantages = torch.tensor(file.advantages[file.in_loss])
    bounds = {"clip_low": 0.1, "clip_high": 0.15, "dual_clip": dual_clip}
    policy_loss(ratios, advantages, **bounds).sum().backward()
    clipped = torch.tensor(file.clipped[file.in_loss])
    assert ratios.grad is not None
    assert torch.equal(ratios.grad == 0, clipped != 0)
    assert {1, -1} <= set(clipped.tolist())
    assert bool((ratios[clipped == 1] > 0).all())
    assert bool((ratios[clipped == -1] < 0).all())


def test_every_episode_that_nothing_is_learned_from_has_its_reason() -> None:
    episodes, config = grouped_episodes(policy_with_values()), settings(overlong="mask")
    episodes[0].cut_actions = list(range(9))
    found = exclusion_reasons(episodes, episodes[2:], config)
    assert {place: reason for place, reason in enumerate(found) if reason is not None} == {
        0: "all of its actions were cut by --max_new_tokens (--overlong mask)",
        1: "its group earned all the same (--dynamic_sampling)",
        3: "invalid: the tool server died",
        6: "no action: the prompt left no room within --max_episode_tokens",
    }


def test_an_update_without_a_pass_stores_the_tokens_without_numbers() -> None:
    policy = policy_with_values()
    episodes = grouped_episodes(policy)
    reasons = ["its group earned all the same"] * len(episodes)
    file = token_file_contents(1, episodes, reasons, TokenDiagnostics(), settings(), TEXTS)
    assert not file.header["has_signal"]
    assert np.isnan(file.advantages).all()
    assert np.isfinite(file.rollout_logprobs[file.acted]).all()
    assert len(file.ids) == sum(len(row.ids) for each in episodes for row in each.rows)


def test_a_file_that_cannot_be_written_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy, config = policy_with_values(), settings()
    episodes = grouped_episodes(policy)
    reasons = exclusion_reasons(episodes, [], config)
    (tmp_path / "tokens").write_text("a file, where the folder should be")
    log = TokenLog(tmp_path, config, TEXTS)
    with caplog.at_level(logging.WARNING):
        log.write(1, episodes, reasons, TokenDiagnostics())
        log.write(2, episodes, reasons, TokenDiagnostics())
    assert log.failures == 2
    assert [record.getMessage()[:25] for record in caplog.records] == [
        "update 1: no token file (",
        "update 2: no token file (",
    ]
    assert all("\n" not in record.getMessage() for record in caplog.records)
    (tmp_path / "tokens").unlink()
    log.write(3, episodes, reasons, TokenDiagnostics())
    assert read_token_file(token_file_path(tmp_path, 3)).header["update"] == 3


def test_the_episode_log_names_lines_and_reasons_as_the_token_file_does(tmp_path: Path) -> None:
    policy, config = policy_with_values(), settings()
    episodes = grouped_episodes(policy)
    file, _ = traced(policy, episodes, config)
    log = RunLog(tmp_path, {}, tensorboard=False)
    log.write_episodes(
        "train_000007", episodes, None, exclusion_reasons(episodes, episodes, config)
    )
    log.close()
    lines = [
        json.loads(line)
        for line in (tmp_path / file.header["episodes_file"]).open(encoding="utf-8")
    ]
    for described in file.episodes:
        line = lines[described["line"] - 1]
        assert described["episode_id"] == f"train_000007:{described['line']}"
        assert line["task_id"] == described["task_id"]
        assert line.get("not_learned_from") == described["reason"]


def template_of(tokenizer: Any) -> Any:
    """Return what `TokenTexts` needs of a chat template."""
    return SimpleNamespace(
        tokenizer=tokenizer,
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
        spell=lambda ids: tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        ),
    )


def word_pieces() -> Any:
    """Return a tokenizer that spells no space and implies one before every word, as BERT's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["[UNK]", "a", "[", "what", "is", "##s", "result", "(", "?", "re"]
    backend = Tokenizer(
        models.WordPiece({it: at for at, it in enumerate(words)}, unk_token=words[0])
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def embedded(name: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(embedded_path(name))


@pytest.mark.parametrize(
    ("make", "texts"),
    [
        (lambda: embedded("model"), ["<|user|>[mv(a='work space')] What is 3 * 14?\n\"x\": null"]),
        (lambda: embedded("python_math"), ["<PYTHON>print(a_b * 2)</PYTHON>  What is it"]),
        (lambda: byte_level(bos=True), ["What is 13 - 3? (a + b)\n\n  Result=10.0"]),
        (lambda: sentencepiece_like(bos=False), ["[What is 13 - 3? Result call"]),
        (tiny_tokenizer, ["<|im_start|>user\nWhat is it?<|im_end|>"]),
        (word_pieces, ["[what is results (a a) ?", "results a"]),
    ],
    ids=["embedded", "python_math", "byte-level", "sentencepiece", "bytes", "word pieces"],
)
def test_texts_of_tokens_join_to_the_text_of_the_row(make: Any, texts: list[str]) -> None:
    template = template_of(make())
    rows = [template.encode(text) for text in [*texts, *texts, *texts]]
    found = TokenTexts(template)
    pieces = found.token_texts([token for row in rows for token in row])
    spaces = iter(found.implied_spaces(rows).tolist())
    for row in rows:
        joined = "".join(" " * next(spaces) + pieces[token] for token in row)
        text = template.spell(row)
        assert joined in (text, f" {text}")  # decoding strips a space at the very beginning
    assert next(spaces, None) is None


def test_a_part_of_a_character_bears_its_name() -> None:
    template = template_of(byte_level(bos=False))
    ids = template.encode("é漢")
    assert any(text.startswith("[") for text in TokenTexts(template).token_texts(ids).values())


def test_a_tokenizer_that_knows_no_bracket_has_texts_too() -> None:
    template: Any = SimpleNamespace(
        encode=lambda text: [ord(each) for each in text if each.isdigit()],
        spell=lambda ids: "".join(map(chr, ids)),
    )
    texts = TokenTexts(template)
    assert texts.token_texts([ord("7")]) == {ord("7"): "7"}
    assert texts.implied_spaces([[ord("7")] * 3]).tolist() == [False] * 3
