"""Losses: tables of closed forms for value and gradient,
and masks that keep everything else out.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fctncalling.algorithms.losses import (
    aggregate,
    kl_k1,
    kl_k2,
    kl_k3,
    log_ratio,
    policy_loss,
    value_loss,
)

torch.set_num_threads(1)


def value_and_slope(loss: Tensor, argument: Tensor) -> tuple[float, float]:
    (slope,) = torch.autograd.grad(loss, argument)
    return loss.item(), slope.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "clip_high", "dual_clip", "loss", "slope"),
    [
        (1.5, 1.0, 0.2, None, -1.2, 0.0),
        (0.5, 1.0, 0.2, None, -0.5, -0.5),
        (1.5, -1.0, 0.2, None, 1.5, 1.5),
        (0.5, -1.0, 0.2, None, 0.8, 0.0),
        (1.0, 1.0, 0.2, None, -1.0, -1.0),
        (5.0, -1.0, 0.2, 3.0, 3.0, 0.0),
        (1.25, 1.0, 0.28, None, -1.25, -1.25),
        (1.25, 1.0, 0.2, None, -1.2, 0.0),
    ],
)
def test_clip_table(
    ratio: float,
    advantage: float,
    clip_high: float,
    dual_clip: float | None,
    loss: float,
    slope: float,
) -> None:
    log = torch.tensor(math.log(ratio), dtype=torch.float64, requires_grad=True)
    losses = policy_loss(
        log,
        torch.tensor(advantage, dtype=torch.float64),
        clip_low=0.2,
        clip_high=clip_high,
        dual_clip=dual_clip,
    )
    assert value_and_slope(losses, log) == pytest.approx((loss, slope), abs=1e-9)


@pytest.mark.parametrize(
    ("value", "old_value", "target", "loss", "slope"),
    [
        (0.5, 0.0, 1.0, 0.32, 0.0),
        (0.1, 0.0, 1.0, 0.405, -0.9),
        (1.0, 0.0, 0.5, 0.125, 0.5),
        (0.3, 0.0, 0.1, 0.02, 0.2),
    ],
)
def test_clipped_value_loss_table(
    value: float, old_value: float, target: float, loss: float, slope: float
) -> None:
    values = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    losses = value_loss(values, torch.tensor(target), torch.tensor(old_value), value_clip=0.2)
    assert value_and_slope(losses, values) == pytest.approx((loss, slope), abs=1e-6)


def test_without_a_value_clip_a_far_target_still_pulls() -> None:
    values = torch.tensor(0.5, requires_grad=True)
    losses = value_loss(values, torch.tensor(1.0), torch.tensor(0.0))
    assert value_and_slope(losses, values) == pytest.approx((0.125, -0.5))


@pytest.mark.parametrize(
    ("error", "loss"), [(20.0, 150.0), (-20.0, 150.0), (3.0, 4.5), (-3.0, 4.5)]
)
def test_huber_loss_is_the_same_for_errors_of_either_sign(error: float, loss: float) -> None:
    zero = torch.tensor(0.0)
    assert value_loss(torch.tensor(error), zero, zero, huber_delta=10.0).item() == pytest.approx(
        loss
    )


def test_kl_estimators_at_a_ratio_of_three_halves() -> None:
    log = torch.tensor(math.log(1.5))
    assert [kl(log).item() for kl in (kl_k1, kl_k2, kl_k3)] == pytest.approx(
        [-0.405465, 0.082201, 0.094535], abs=1e-6
    )


def test_kl_estimators_average_to_the_divergence() -> None:
    policy, reference = torch.tensor([0.8, 0.2]), torch.tensor([0.5, 0.5])
    logs = (reference / policy).log()  # of reference against the policy that samples
    means = [(policy * kl(logs)).sum().item() for kl in (kl_k1, kl_k2, kl_k3)]
    assert means == pytest.approx([0.192745, 0.172320, 0.192745], abs=1e-6)


def test_a_log_ratio_past_the_clamp_stays_finite() -> None:
    ratios = log_ratio(torch.tensor([0.0, -300.0]), torch.tensor([-300.0, 0.0])).exp()
    assert torch.isfinite(ratios).all()
    assert ratios.tolist() == pytest.approx([math.exp(20.0), math.exp(-20.0)], rel=1e-5)


@pytest.mark.parametrize("garbage", [1e6, math.nan, math.inf])
def test_what_the_mask_leaves_out_reaches_neither_loss_nor_gradient(garbage: float) -> None:
    mask = torch.tensor([True, False, True, False])
    total = mask.sum()

    def spoiled(numbers: list[float]) -> Tensor:
        return torch.where(mask, torch.tensor(numbers), garbage)

    def losses_of(
        logits: Tensor, values: Tensor, advantages: Tensor, old: Tensor, returns: Tensor
    ) -> Tensor:
        logs = log_ratio(logits, old, mask)
        actor = policy_loss(logs, advantages, mask, clip_low=0.2, clip_high=0.2)
        critic = value_loss(values, returns, old, mask, value_clip=0.3, huber_delta=1.0)
        return aggregate(actor + critic, mask, total)

    clean = [torch.tensor([-1.0, -2.0, -0.5, -3.0]) * scale for scale in (1.0, 0.9, 0.3, 1.1, 0.2)]
    dirty = [spoiled(tensor.tolist()) for tensor in clean]
    for tensor in (*clean[:2], *dirty[:2]):
        tensor.requires_grad_()
    wanted, got = losses_of(*clean), losses_of(*dirty)
    assert got.item() == wanted.item()
    for clean_slope, dirty_slope in zip(
        torch.autograd.grad(wanted, clean[:2]), torch.autograd.grad(got, dirty[:2]), strict=True
    ):
        assert torch.equal(clean_slope, dirty_slope)
        assert not dirty_slope[~mask].any()


@pytest.mark.parametrize("garbage", [7.0, math.nan, math.inf])
def test_the_sum_of_losses_is_over_the_mask_alone(garbage: float) -> None:
    losses = torch.tensor([1.0, garbage, 3.0, garbage])
    mask = torch.tensor([True, False, True, False])
    assert aggregate(losses, mask, 2).item() == 2.0


def test_parts_divided_by_the_whole_count_add_up_to_the_whole_mean() -> None:
    losses = torch.tensor([1.0, 2.0, 3.0, 10.0, 20.0])
    parts = [aggregate(part, None, 5) for part in (losses[:1], losses[1:])]
    assert sum(part.item() for part in parts) == pytest.approx(losses.mean().item())
