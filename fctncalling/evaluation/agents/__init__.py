"""Agents that play benchmark tasks.

Scripted policies, models behind an HTTP interface, models in a folder.
"""

from fctncalling.evaluation.agents.agent import Agent, PlayedEpisode, Player

__all__ = ["Agent", "PlayedEpisode", "Player"]
