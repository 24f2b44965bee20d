"""The policy: a causal language model with a value head."""

from fctncalling.algorithms.policy.actor_critic import ActorCritic, ValueHead
from fctncalling.algorithms.policy.chat_template import ChatTemplate

__all__ = ["ActorCritic", "ChatTemplate", "ValueHead"]
