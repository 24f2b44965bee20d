"""Agents that play benchmark tasks: scripted policies, models served over HTTP or local."""

from fctncalling.evaluation.agents.agent import Agent, PlayedEpisode, Player

__all__ = ["Agent", "PlayedEpisode", "Player"]
