"""Supervised learning: the loss is the mean over acted tokens, however it is cut up, and it comes
down.
"""

from __future__ import annotations

import copy

import pytest
import torch
from tiny_models import EchoEnv, tiny_model, tiny_tokenizer, uncached_logprobs

from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation.engine import GenerationEngine, ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.algorithms.supervised import SupervisedConfig
from fctncalling.lab.embedded.fit import fit_supervised

TEMPLATE = ChatTemplate(tiny_tokenizer())


def demonstrations(number: int = 8) -> list[EpisodeRecord]:
    """Return episodes of a teacher who knows the letter, and repeats it a different number of
    times.
    """

    def letter(task_id: str, turn: int, step: int, info: object) -> str:
        return "ab"[sum(map(ord, task_id)) % 2] * (1 + len(task_id) % 3)

    actor = ScriptedEngine(letter, TEMPLATE.encode, TEMPLATE.end_of_turn_id)
    tasks = ["t" * (1 + i % 4) + str(i) for i in range(number)]
    return collect([EchoEnv()], actor, TEMPLATE, tasks, max_episode_tokens=500)


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
def test_the_loss_is_minus_the_mean_logprob_of_the_acted_tokens(kind: str) -> None:
    model, records = tiny_model(kind), demonstrations()
    logprobs = []
    for record in records:
        (row,) = record.rows
        table = uncached_logprobs(model, row.ids)
        logprobs += [table[t - 1, row.ids[t]].item() for t, acted in enumerate(row.acted) if acted]
    (metrics,) = fit_supervised(model, records, SupervisedConfig(epochs=1, batch_size=100))
    assert metrics["loss"] == pytest.approx(-sum(logprobs) / len(logprobs), rel=1e-5)
    assert metrics["tokens"] == len(logprobs)


def test_cutting_a_batch_into_microbatches_changes_no_step() -> None:
    whole, parts = tiny_model(), tiny_model()
    config = SupervisedConfig(epochs=2, batch_size=8)
    fit_supervised(whole, demonstrations(), config)
    fit_supervised(
        parts,
        demonstrations(),
        SupervisedConfig(**{**vars(config), "max_tokens_per_microbatch": 1}),
    )
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_equal_seeds_fit_equal_weights() -> None:
    models = [tiny_model(), tiny_model(), tiny_model()]
    for model, seed in zip(models, (3, 3, 4), strict=True):
        fit_supervised(model, demonstrations(), SupervisedConfig(epochs=2, batch_size=2, seed=seed))
    one, two, three = ([p.detach() for p in model.parameters()] for model in models)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one, three, strict=True))


def test_a_fitted_model_does_in_the_environment_what_it_was_shown() -> None:
    model = tiny_model()
    history = fit_supervised(
        model, demonstrations(16), SupervisedConfig(epochs=25, batch_size=8, lr=1e-2)
    )
    assert history[-1]["loss"] < 0.1 * history[0]["loss"]
    actor = GenerationEngine(model, TEMPLATE.stop_ids, temperature=0, max_new_tokens=8)
    tasks = ["t" * (1 + i % 4) + str(i) for i in range(16)]
    played = collect([EchoEnv() for _ in range(4)], actor, TEMPLATE, tasks, max_episode_tokens=500)
    assert all(record.success for record in played)


def test_invalid_demonstrations_are_left_out_and_none_at_all_is_an_error() -> None:
    records = demonstrations(2)
    invalid = copy.copy(records[1])
    invalid.invalid = True
    (metrics,) = fit_supervised(tiny_model(), [records[0], invalid], SupervisedConfig())
    assert metrics["tokens"] == sum(records[0].rows[0].acted)
    with pytest.raises(ValueError, match="none of the 1 demonstrations"):
        fit_supervised(tiny_model(), [invalid], SupervisedConfig())
