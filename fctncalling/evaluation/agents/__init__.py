"""Agents that play benchmark tasks: scripted policies, models served over HTTP or local."""
