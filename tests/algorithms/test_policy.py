"""The policy: what it reads where, that padding is no information, and that precision and files
keep it.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_models import save_tiny
from token_worlds import VOCABULARY, act, empty_row, observe, tiny_policy
from torch import Tensor, nn

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import TokenRecord
from fctncalling.algorithms.minibatches import make_batch
from fctncalling.algorithms.policy import actor_critic
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch
from fctncalling.algorithms.policy.value_head import ValueHead
from fctncalling.training.load_policy import load_policy
from fctncalling.training.run_config import RunConfig

torch.set_num_threads(1)

KINDS = ("llama", "gpt2")


def rows_of_several_lengths() -> list[TokenRecord]:
    """Return three rows of 5, 9 and 12 tokens, two of them with context between their actions;
    token 0 occurs.
    """
    rows = []
    for prompt, first, gap, second in (
        ([1, 0, 3], [4, 0], [], []),
        ([1, 2], [5], [0, 0, 7], [8, 9, 1]),
        ([3, 3, 3, 3], [0, 1, 2], [4], [5, 6, 7, 8]),
    ):
        row = empty_row()
        for context, action in ((prompt, first), (gap, second)):
            observe(row, context)
            for index, token in enumerate(action):
                act(row, token, 0.0, index == len(action) - 1)
        rows.append(row)
    return rows


class EchoModel(nn.Module):
    """A stub language model that predicts the token it just read; its hidden state also carries its
    position.
    """

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(hidden_size=VOCABULARY + 1)
        self.lm_head = nn.Linear(VOCABULARY + 1, VOCABULARY, bias=False)
        with torch.no_grad():
            self.lm_head.weight.copy_(100.0 * torch.eye(VOCABULARY, VOCABULARY + 1))

    def get_decoder(self) -> nn.Module:
        return self

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head

    def forward(
        self, *, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, use_cache: bool
    ) -> SimpleNamespace:
        one_hot = nn.functional.one_hot(input_ids, VOCABULARY).float()
        return SimpleNamespace(
            last_hidden_state=torch.cat([one_hot, position_ids[..., None].float()], dim=-1)
        )


def echo_policy() -> ActorCritic:
    policy = ActorCritic(EchoModel(), critic_head="linear")
    with torch.no_grad():
        policy.value_head.out.weight[0, -1] = 1.0  # the value is the position
    return policy


def test_logprob_and_value_of_a_token_are_read_from_the_position_before_it() -> None:
    prompt, action = [7, 8, 9], [9, 9, 2]  # the echo predicts: right, right, wrong
    ids = torch.tensor([prompt + action])
    acted = torch.tensor([[False] * 3 + [True] * 3])
    outputs = echo_policy()(Batch(ids, torch.ones_like(acted), acted))
    assert outputs.logprobs.tolist() == pytest.approx([0.0, 0.0, -100.0], abs=1e-4)
    assert outputs.values.tolist() == [2.0, 3.0, 4.0]  # the first: at the prompt's last token


def test_the_value_at_the_end_has_read_the_last_token() -> None:
    batch = make_batch(rows_of_several_lengths())
    columns = batch.attention_mask.sum(1) - 1
    assert echo_policy().values_at(batch, columns).tolist() == [4.0, 8.0, 11.0]


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_equal_the_full_models_log_softmax(kind: str) -> None:
    policy = tiny_policy(kind=kind).eval()
    batch = make_batch(rows_of_several_lengths()[2:])
    outputs = policy(batch, temperature=0.7)
    full = (policy.model(input_ids=batch.ids).logits / 0.7).log_softmax(-1)[0, :-1]  # (T-1, V)
    places = batch.acted[0, 1:]
    wanted = full[places].gather(1, batch.ids[0, 1:][places][:, None])[:, 0]
    assert torch.allclose(outputs.logprobs, wanted, atol=1e-5)
    assert torch.allclose(outputs.entropies, -(full.exp() * full).sum(-1)[places], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_layouts_agree_padded_right_padded_left_trimmed_and_one_by_one(kind: str) -> None:
    policy = tiny_policy(kind=kind, critic_head="linear").eval()
    nn.init.normal_(policy.value_head.out.weight)
    rows = rows_of_several_lengths()
    right = make_batch(rows)
    shifts = [int((~mask).sum()) for mask in right.attention_mask]
    left = Batch(
        *(
            torch.stack([row.roll(shift) for row, shift in zip(field, shifts, strict=True)])
            for field in right[:3]
        )
    )
    singly = [policy(make_batch([row])) for row in rows]
    wanted = [torch.cat(field) for field in zip(*singly, strict=True)]
    for outputs in (policy(right), policy(left), policy(make_batch(rows, trim=True))):
        for got, expected in zip(outputs, wanted, strict=True):
            assert torch.allclose(got, expected, atol=1e-5)
    gradients = []
    for batch in (right, left):
        policy.zero_grad()
        outputs = policy(batch)
        (outputs.logprobs.sum() + outputs.values.sum()).backward()
        gradients.append(
            torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
        )
    assert torch.allclose(gradients[0], gradients[1], atol=1e-4)


def test_chunks_of_logits_change_neither_outputs_nor_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = make_batch(rows_of_several_lengths())
    results = []
    for max_logits in (2**24, 3 * VOCABULARY):
        monkeypatch.setattr(actor_critic, "MAX_LOGITS", max_logits)
        policy = tiny_policy().eval()
        outputs = policy(batch, entropy_gradient=True)
        (outputs.logprobs.sum() + outputs.entropies.sum()).backward()
        results.append(
            (outputs.logprobs, torch.cat([p.grad.flatten() for p in policy.model.parameters()]))
        )
    assert torch.allclose(results[0][0], results[1][0], atol=1e-6)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-5)


def test_context_and_padding_get_no_gradient() -> None:
    policy = tiny_policy().eval()
    logits: list[Tensor] = []
    policy.model.get_output_embeddings().register_forward_hook(lambda *call: logits.append(call[2]))
    batch = make_batch(rows_of_several_lengths())
    policy(batch)
    assert [len(chunk) for chunk in logits] == [
        int(batch.acted.sum())
    ]  # no logits exist anywhere else


def test_an_end_token_that_is_also_the_padding_keeps_its_loss() -> None:
    row = empty_row()
    observe(row, [1, 2])
    act(row, 5, 0.0, False)
    act(row, 0, 0.0, True)  # the end token, id 0, which also fills the padding
    longer = rows_of_several_lengths()[2]
    outputs = tiny_policy().eval()(make_batch([row, longer], trim=True))
    assert len(outputs.logprobs) == 2 + sum(longer.acted)


def test_values_start_at_zero() -> None:
    for head in ("linear", "mlp"):
        assert not tiny_policy(critic_head=head)(make_batch(rows_of_several_lengths())).values.any()


@pytest.mark.parametrize("detach", [True, False])
def test_the_value_loss_trains_the_language_model_only_where_asked(detach: bool) -> None:
    policy = tiny_policy(critic_head="linear", critic_detach=detach)
    nn.init.normal_(policy.value_head.out.weight)
    policy(make_batch(rows_of_several_lengths())).values.sum().backward()
    touched = any(p.grad is not None and bool(p.grad.any()) for p in policy.model.parameters())
    assert touched is not detach


@pytest.mark.parametrize(
    ("flags", "detached"),
    [
        ({}, True),
        ({"critic_detach": False}, False),
        ({"critic_detach": False, "permute_advantages": True}, True),
    ],
)
def test_a_run_detaches_the_critic_unless_asked_not_to_and_in_the_control_experiment(
    tmp_path: Path, flags: dict[str, Any], detached: bool
) -> None:
    config = TrainConfig(model_name_or_path=str(save_tiny(tmp_path)), **flags)
    policy, _ = load_policy(config, RunConfig(), None, torch.device("cpu"))
    assert policy.critic_detach is detached


def test_an_acted_first_token_is_refused() -> None:
    ids = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="first token of a row"):
        tiny_policy()(Batch(ids, ids.bool(), ids.bool()))


def test_trainable_half_precision_is_refused_and_frozen_half_precision_is_not() -> None:
    model = tiny_policy().model.half()
    with pytest.raises(TypeError, match="float16"):
        ActorCritic(model)
    ActorCritic(model.requires_grad_(False))


def test_a_hundred_steps_at_a_tiny_rate_move_the_weights() -> None:
    policy = tiny_policy().eval()
    before = [parameter.clone() for parameter in policy.policy_parameters()]
    optimiser = torch.optim.AdamW(policy.policy_parameters(), lr=1e-7, weight_decay=0.0)
    batch = make_batch(rows_of_several_lengths())
    for _ in range(100):
        optimiser.zero_grad()
        policy(batch).logprobs.sum().backward()
        optimiser.step()
    assert all(
        not torch.equal(old, new)
        for old, new in zip(before, policy.policy_parameters(), strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_a_saved_policy_loads_with_the_same_outputs_as_an_ordinary_model_folder(
    kind: str, head: str, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    policy = tiny_policy(kind=kind, critic_head=head).eval()
    nn.init.normal_(policy.value_head.out.weight)
    policy.save(tmp_path)
    batch = make_batch(rows_of_several_lengths())
    loaded = ActorCritic.load(tmp_path, critic_head=head).eval()
    for got, expected in zip(loaded(batch), policy(batch), strict=True):
        assert torch.equal(got, expected)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(plain(batch.ids).logits, policy.model(batch.ids).logits)


def test_half_precision_files_load_in_full_precision(tmp_path: Path) -> None:
    tiny_policy().model.half().save_pretrained(tmp_path)
    loaded = ActorCritic.load(tmp_path)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    assert not loaded(
        make_batch(rows_of_several_lengths())
    ).values.any()  # no head was saved: a fresh one


def test_a_value_head_of_another_shape_is_refused_by_its_flags(tmp_path: Path) -> None:
    policy = tiny_policy(critic_head="mlp")
    nn.init.normal_(policy.value_head.out.weight)
    policy.save(tmp_path)
    with pytest.raises(ValueError, match=r"--critic_head.* --value_bins"):
        ActorCritic.load(tmp_path, critic_head="linear")
    with pytest.raises(ValueError, match='expected "linear" or "mlp"'):
        ValueHead(8, kind="deep")


def test_a_head_that_learned_nothing_makes_room_for_one_of_another_shape(tmp_path: Path) -> None:
    """Supervised fine-tuning saves such a head; what is learned next may have another critic."""
    policy = tiny_policy()
    policy.save(tmp_path)
    hidden = policy.value_head.state_dict()["hidden.weight"]
    assert torch.equal(ActorCritic.load(tmp_path).value_head.state_dict()["hidden.weight"], hidden)
    for shape in ({"critic_head": "linear"}, {"critic_layers": 2}):
        loaded = ActorCritic.load(tmp_path, **shape)
        assert not loaded(make_batch(rows_of_several_lengths())).values.any()


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        ("Gemma2", {"final_logit_softcapping": 2.0, "head_dim": 16}),
        ("Granite", {"logits_scaling": 4.0}),
        ("Cohere", {"logit_scale": 0.3}),
        ("Qwen2", {}),
        ("Qwen3", {"head_dim": 16}),
    ],
)
def test_models_that_scale_or_cap_their_logits_are_read_as_they_speak(
    kind: str, extra: dict[str, float]
) -> None:
    import transformers

    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
    }
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = getattr(transformers, f"{kind}Config")(
        **shape,
        **tokens,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=0.3,
        **extra,
    )
    policy = ActorCritic(getattr(transformers, f"{kind}ForCausalLM")(config)).eval()
    batch = make_batch(rows_of_several_lengths()[2:])
    full = policy.model(input_ids=batch.ids).logits.log_softmax(-1)[0, :-1]
    wanted = full.gather(1, batch.ids[0, 1:, None])[:, 0][batch.acted[0, 1:]]
    assert torch.allclose(policy(batch).logprobs, wanted, atol=1e-5)
