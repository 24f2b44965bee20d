"""Simulated users, which answer an agent's questions within a turn (`user=`)."""

from fctncalling.envs.users.language_model_user import LanguageModelUser
from fctncalling.envs.users.rule_user import RuleUser
from fctncalling.envs.users.user_names import LoggedUser, make_user, scripted_user

__all__ = ["LanguageModelUser", "LoggedUser", "RuleUser", "make_user", "scripted_user"]
