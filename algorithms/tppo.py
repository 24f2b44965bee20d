"""TPPO (token-level PPO with BAD, arXiv:2405.15821), POAD and NTPO.

The Bellman backup (BAD) itself is `decomposed_gae` in `algorithms/advantages.py`.

Deviations from the published code:
1. the default lam_token is 1, so that wording does not change credit for any lambda (the published
   code uses lam between tokens too: that is POAD);
2. advantages are whitened once over the whole batch, and their scale is bounded by the spread of
   the outcomes (`learning_signal.whiten_by_spread`);
3. without any advantage the policy takes no step (`ppo.update`);
4. all minibatches of an update have one divisor (`targets.loss_divisor`);
5. a step too far is halved or refused (`step_guard.py`, --target_kl);
6. truncated episodes bootstrap;
7. the value loss has its own clip range;
8. values and lambda are what the critic was seen to know (`values.py`, --lam auto).
"""

from __future__ import annotations

from torch import Tensor

from fctncalling.algorithms.advantages import decomposed_gae
from fctncalling.algorithms.algorithm import (
    AdvantageEstimate,
    Algorithm,
    Trajectories,
    token_log_ratio,
)
from fctncalling.algorithms.config import TrainConfig


def token_gae_estimate(
    trajectories: Trajectories, config: TrainConfig, *, gamma_token: float, lam_token: float | None
) -> AdvantageEstimate:
    """Return the token GAE estimate, of every token: advantages and returns.

    lam_token None: the same lambda inside an action as between actions. lam_value gives the
    critic's targets a lambda of their own (VC-PPO, arXiv:2503.01491).
    """

    def gae(lam: float | Tensor) -> tuple[Tensor, Tensor]:
        return decomposed_gae(
            rewards=trajectories.rewards,
            values=trajectories.values,
            acted=trajectories.acted,
            ends_action=trajectories.ends_action,
            bootstrap=trajectories.bootstrap,
            gamma=config.resolved_gamma,
            lam=lam,
            gamma_token=gamma_token,
            lam_token=lam if lam_token is None else lam_token,
        )

    advantages, returns = gae(trajectories.lambdas(config))
    if config.lam_value is not None:
        returns = gae(config.lam_value)[1]
    return AdvantageEstimate(advantages, returns, loss_mask=trajectories.acted)


def tppo_estimate(trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return TPPO's estimate (BAD): discount and trace decay between actions only.

    With --gamma_token or --lam_token inside them too.
    """
    return token_gae_estimate(
        trajectories, config, gamma_token=config.gamma_token, lam_token=config.lam_token
    )


def poad_estimate(trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return POAD's estimate: no discount inside an action, but lambda applies there."""
    return token_gae_estimate(trajectories, config, gamma_token=1.0, lam_token=None)


def ntpo_estimate(trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
    """Return NTPO's estimate: discount and lambda at every token.

    Discount and lambda apply at every token, so a longer wording of the same call is worth less.
    """
    return token_gae_estimate(
        trajectories, config, gamma_token=config.resolved_gamma, lam_token=None
    )


TPPO = Algorithm("TPPO", tppo_estimate, token_log_ratio)
POAD = Algorithm("POAD", poad_estimate, token_log_ratio)
NTPO = Algorithm("NTPO", ntpo_estimate, token_log_ratio)
