"""Rollout backends: where the episodes of a run are played."""
