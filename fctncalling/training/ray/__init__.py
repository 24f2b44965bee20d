"""Rollout on Ray workers."""
