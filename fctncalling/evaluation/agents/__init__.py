"""Agents that play benchmark tasks: scripted policies, models behind HTTP or in a folder."""

from fctncalling.evaluation.agents.agent import Agent, PlayedEpisode, Player

__all__ = ["Agent", "PlayedEpisode", "Player"]
