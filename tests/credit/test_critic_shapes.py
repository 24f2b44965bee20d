"""What the critic reads and says: several layers, the truth in front, bins of returns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from token_worlds import CPU, episode, gradient, settings, some_episodes, tiny_policy
from torch import Tensor, nn
from transformers import AutoTokenizer

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.losses import binned_value_loss
from fctncalling.algorithms.minibatches import Passes, make_passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.shared_prefixes import PrefixSharing
from fctncalling.algorithms.rollout.roles import add_critic_rows
from fctncalling.data.bfcl import embedded_path
from fctncalling.training.training_run import TrainingRun

CENTRES = [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_layers_are_those_of_the_models_own_forward(kind: str, shares: bool, own: bool) -> None:
    policy = tiny_policy(kind=kind, critic_head="linear", critic_layers=2).eval()
    nn.init.normal_(policy.value_head.out.weight)
    if own:
        policy.add_critic_model()
    records = some_episodes(tiny_policy(), 3)
    passes = Passes(build_experience(records, CPU), settings())
    if shares:
        assert isinstance(policy.prefix_sharing, PrefixSharing)
        passes = passes._replace(sharing=policy.prefix_sharing)
    batch, _ = passes.batch(range(len(records)))
    plain = ActorCritic(policy.model, critic_head="linear").eval()
    wanted: list[Tensor] = []
    for record in records:
        row = record.rows[0]
        ids = torch.tensor([list(row.ids)])
        states = policy.model(input_ids=ids, output_hidden_states=True).hidden_states[-2:]
        before = torch.tensor(row.acted).nonzero().squeeze(1) - 1
        wanted.append(torch.cat([layer[0, before] for layer in states], dim=-1))
    for recompute in (False, True):
        outputs = policy(batch, gradient_checkpointing=recompute)
        assert torch.allclose(outputs.values, policy.value_head(torch.cat(wanted)), atol=1e-4)
        assert torch.allclose(outputs.logprobs, plain(batch).logprobs, atol=1e-5)
    assert torch.allclose(policy.critic_states(batch), torch.cat(wanted), atol=1e-4)


def test_a_return_between_two_bins_is_shared_so_that_their_mean_is_the_return() -> None:
    """The loss is least, the entropy of the shares, where the logits are their logarithms."""
    returns = torch.tensor([0.35, 1.0, 0.0, 7.0])  # 7 counts as 1
    shares = torch.tensor([[0, 0.6, 0.4, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]])
    centres = torch.tensor(CENTRES)
    assert (shares[:3] @ centres).tolist() == pytest.approx(returns[:3].tolist())
    scores = (shares + 1e-12).log()
    losses = binned_value_loss(scores, returns, centres)
    assert losses.tolist() == pytest.approx([0.6730117, 0.0, 0.0, 0.0], abs=1e-6)
    flat = binned_value_loss(torch.zeros(4, 5), returns, centres)
    assert flat.tolist() == pytest.approx([torch.log(torch.tensor(5.0)).item()] * 4)
    masked = binned_value_loss(
        torch.zeros(1, 5), torch.tensor([torch.nan]), centres, torch.tensor([False])
    )
    assert masked.tolist() == [0.0]


def test_the_least_loss_of_several_returns_has_their_mean_as_its_value() -> None:
    """Returns 0.1 and 0.8 from one state: the value of the best distribution is 0.45 exactly."""
    scores = torch.zeros(1, 5, requires_grad=True)
    optimiser = torch.optim.LBFGS([scores], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = binned_value_loss(
            scores.expand(2, 5), torch.tensor([0.1, 0.8]), torch.tensor(CENTRES)
        ).sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    value = scores.softmax(-1)[0] @ torch.tensor(CENTRES)
    assert value.item() == pytest.approx(0.45, abs=1e-3)


def test_the_update_learns_by_bins() -> None:
    """The gradient of the head's bias is the distribution less the shares, value_coef / tokens."""
    config = settings(value_bins=5, critic_head="linear", value_coef=1.0, entropy_coef=0.0, gamma=1)
    policy = tiny_policy(**config.critic_shape).eval()
    records = [episode([(1, 0.35)], terminated=True), episode([(1, 1.0)], terminated=True)]
    gradient(policy, records, config)
    assert policy.value_head.out.bias.grad is not None
    shares = torch.tensor([[0, 0.6, 0.4, 0, 0], [0, 0, 0, 0, 1]])
    assert torch.allclose(policy.value_head.out.bias.grad, 0.2 - shares.mean(0), atol=1e-6)


def test_bins_need_a_range() -> None:
    for wrong in ({"value_bins": 1}, {"value_bins": 5, "value_high": 0.0}):
        with pytest.raises(SettingError, match="--value_bins"):
            TrainConfig(**wrong)


def test_a_critic_of_its_own_reads_the_truth_in_front_and_the_policy_does_not() -> None:
    template = ChatTemplate(AutoTokenizer.from_pretrained(str(embedded_path("model"))))
    policy = tiny_policy(critic_head="linear").eval()
    policy.model.resize_token_embeddings(len(template.tokenizer))
    nn.init.normal_(policy.value_head.out.weight)
    policy.add_critic_model()
    config = settings(critic="full", critic_sees="truth")
    record = episode([(2, 0.0), (1, 1.0)], terminated=True)
    row = record.rows[0]
    plain = policy(Passes(build_experience([record], CPU), config).batch([0])[0])
    with pytest.raises(SettingError, match="has no ground_truth"):
        add_critic_rows([record], config, template)
    record.ground_truth = [["cd(folder='a')"]]
    add_critic_rows([record], config, template)
    truth = template.encode_untrusted("[[\"cd(folder='a')\"]]\n")
    batch = make_passes(build_experience([record], CPU), policy, config).batch([0])[0]
    outputs = policy(batch)
    read = torch.tensor([truth + list(row.ids)])
    assert policy.critic_model is not None
    states = policy.critic_model(input_ids=read).last_hidden_state[0]
    before = torch.tensor(row.acted).nonzero().squeeze(1) - 1
    assert torch.allclose(outputs.values, policy.value_head(states[before + len(truth)]), atol=1e-5)
    assert torch.equal(outputs.logprobs, plain.logprobs)
    assert not torch.allclose(outputs.values, plain.values, atol=1e-3)
    with pytest.raises(SettingError, match="--critic_sees truth: reads other rows"):
        TrainConfig(critic_sees="truth")


@pytest.mark.parametrize("sees", ["episode", "truth"])
def test_a_run_gives_its_rows_the_truth_where_the_critic_is_to_see_it(sees: str) -> None:
    template = ChatTemplate(AutoTokenizer.from_pretrained(str(embedded_path("model"))))
    run: Any = SimpleNamespace(config=settings(critic="full", critic_sees=sees), template=template)
    record = episode([(1, 1.0)], terminated=True, ground_truth=[["cd(folder='a')"]])
    [learned] = TrainingRun._learnable(run, [record])
    assert (learned.rows[0].joint is not None) == (sees == "truth")
