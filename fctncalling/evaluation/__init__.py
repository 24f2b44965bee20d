"""Evaluation without training: agents, canaries, lint."""

from fctncalling.evaluation.episode_log import play_episode

__all__ = ["play_episode"]
