"""The policy: a causal language model with a value head."""

from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.policy.value_head import ValueHead

__all__ = ["ActorCritic", "ChatTemplate", "ValueHead"]
