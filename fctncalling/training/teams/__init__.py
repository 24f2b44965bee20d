"""Environments of --env_name team."""

from fctncalling.training.teams.team_envs import parcels_of_run, team_envs

__all__ = ["parcels_of_run", "team_envs"]
