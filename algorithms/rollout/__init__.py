"""Collecting episodes: environments side by side, token records out."""

from fctncalling.algorithms.rollout.collect import collect

__all__ = ["collect"]
