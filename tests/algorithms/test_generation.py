"""Generation with kept caches: equal to plain forwards, whatever runs beside it."""

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import pieces, tiny_model, uncached_logprobs

from fctncalling.algorithms.generation.engine import (
    Action,
    GenerationEngine,
    Request,
    ScriptedEngine,
)

KINDS = ["qwen2", "qwen2-sliding", "qwen3", "llama", "mistral", "gpt2"]
END = 2


def play(
    engine: GenerationEngine, slots: list[int], num_steps: int, *, seed: int = 0, num_slots: int = 6
) -> dict[int, tuple[list[int], list[float | None]]]:
    """Run several steps on some slots; return each slot's ids and the log-probability of those that
    were sampled.
    """
    engine.allocate_slots(num_slots)
    played: dict[int, tuple[list[int], list[float | None]]] = {slot: ([], []) for slot in slots}
    texts = {slot: pieces(100 * seed + slot) for slot in slots}
    for slot in slots:
        engine.begin_sequence(slot, seed=slot)
    for step in range(num_steps):
        requests = [
            Request(slot, next(texts[slot])) for slot in slots if (step + slot) % 3 or step == 0
        ]
        for request, action in zip(requests, engine.generate(requests), strict=True):
            ids, logprobs = played[request.slot]
            ids += request.new_ids + action.ids
            logprobs += [*[None] * len(request.new_ids), *action.logprobs]
    return played


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_sampled_logprobs_equal_one_uncached_forward_over_the_whole_episode(
    kind: str, attention: str
) -> None:
    model = tiny_model(kind, attention=attention)
    engine = GenerationEngine(
        model, [END, 77], temperature=0.7, max_new_tokens=11, max_prefill_tokens=40
    )
    for ids, logprobs in play(engine, [0, 1, 2, 3, 5], 7).values():
        expected = uncached_logprobs(model, ids, 0.7)
        for position, logprob in enumerate(logprobs):
            if logprob is not None:
                assert logprob == pytest.approx(
                    expected[position - 1, ids[position]].item(), abs=1e-5
                )


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_equals_generate_of_transformers_token_for_token(kind: str) -> None:
    model = tiny_model(kind)
    engine = GenerationEngine(model, [END], temperature=0, max_new_tokens=12)
    texts = pieces(3)
    prompts = [next(texts) for _ in range(5)]
    engine.allocate_slots(5)
    actions = engine.generate([Request(slot, prompt) for slot, prompt in enumerate(prompts)])
    for prompt, action in zip(prompts, actions, strict=True):
        expected = model.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=12, eos_token_id=END
        )
        assert action.ids == expected[0, len(prompt) :].tolist()
        assert action.truncated == (action.ids[-1] != END)


def test_what_a_slot_says_does_not_depend_on_the_slots_beside_it() -> None:
    model = tiny_model()
    together = play(GenerationEngine(model, [END, 77], max_new_tokens=9), [0, 1, 2, 3, 4, 5], 6)
    for slot in range(6):
        alone = play(GenerationEngine(model, [END, 77], max_new_tokens=9), [slot], 6)
        assert alone[slot][0] == together[slot][0]


def test_a_slot_begun_again_remembers_nothing() -> None:
    model = tiny_model()
    engine = GenerationEngine(model, [END], temperature=0, max_new_tokens=6)
    engine.allocate_slots(2)
    prompt = next(pieces(9))
    (fresh,) = engine.generate([Request(0, prompt)])
    engine.generate([Request(0, [5, 6, 7]), Request(1, [8])])
    engine.begin_sequence(0)
    assert engine.generate([Request(1, [9]), Request(0, prompt)])[1].ids == fresh.ids


def test_sampling_follows_the_distribution_at_the_temperature() -> None:
    # Chi-square over the tokens expected at least five times, against its mean plus five
    # deviations.
    model, number, temperature = tiny_model(vocabulary=32), 4000, 1.7
    engine = GenerationEngine(model, [], temperature=temperature, max_new_tokens=1)
    engine.allocate_slots(number)
    for slot in range(number):
        engine.begin_sequence(slot, seed=slot)
    actions = engine.generate([Request(slot, [4, 5, 6]) for slot in range(number)])
    counts = torch.bincount(torch.tensor([action.ids[0] for action in actions]), minlength=32)
    expected = number * uncached_logprobs(model, [4, 5, 6, 0], temperature)[-1].exp()
    often = expected >= 5
    chi_square = ((counts - expected)[often] ** 2 / expected[often]).sum().item()
    freedom = int(often.sum()) - 1
    assert freedom > 5
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


def test_the_random_stream_of_a_slot_does_not_depend_on_the_limits_of_others() -> None:
    model = tiny_model()
    engine = GenerationEngine(model, [END], max_new_tokens=8)

    def second_action(limit: int) -> list[int]:
        engine.allocate_slots(2)
        for slot in (0, 1):
            engine.begin_sequence(slot, seed=slot)
        engine.generate([Request(0, [4], max_new_tokens=3), Request(1, [5], max_new_tokens=limit)])
        return engine.generate([Request(0, [6])])[0].ids

    assert second_action(1) == second_action(8)


def test_limits_cut_an_action_and_say_so() -> None:
    engine = GenerationEngine(tiny_model(), [], max_new_tokens=7)
    engine.allocate_slots(2)
    long, short = engine.generate([Request(0, [4]), Request(1, [4], max_new_tokens=3)])
    assert (len(long.ids), long.truncated) == (7, True)
    assert (len(short.ids), short.truncated) == (3, True)


def test_a_stop_string_pauses_an_action_without_calling_it_cut() -> None:
    engine = GenerationEngine(
        tiny_model(),
        [],
        temperature=0,
        max_new_tokens=20,
        decode=lambda ids: " ".join(map(str, ids)),
    )
    engine.allocate_slots(1)
    (whole,) = engine.generate([Request(0, [4, 5])])
    engine.allocate_slots(1)
    (paused,) = engine.generate([Request(0, [4, 5], stop=(str(whole.ids[3]),))])
    first = whole.ids.index(whole.ids[3])
    assert paused.ids == whole.ids[: first + 1]
    assert not paused.truncated


def test_an_empty_prompt_is_refused_by_name() -> None:
    engine = GenerationEngine(tiny_model(), [END])
    engine.allocate_slots(1)
    with pytest.raises(ValueError, match="slot 0"):
        engine.generate([Request(0, [])])


def test_a_model_that_was_training_goes_on_training() -> None:
    model = tiny_model().train()
    engine = GenerationEngine(model, [END], max_new_tokens=2)
    engine.allocate_slots(1)
    engine.generate([Request(0, [4])])
    assert model.training


def test_a_script_speaks_its_texts_with_the_end_of_turn() -> None:
    actor = ScriptedEngine(
        lambda task, turn, step, info: f"{task}{turn}{step}{info['x']}",
        lambda text: [*map(ord, text)],
        2,
    )
    actor.allocate_slots(1)
    (action,) = actor.generate(
        [Request(0, [1], task_id="t", turn=3, step_in_turn=4, info={"x": 5})]
    )
    assert action == Action([*map(ord, "t345"), 2], [0.0] * 5, [True] * 5, "end")
