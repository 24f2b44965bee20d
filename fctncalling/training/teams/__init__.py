"""Teams: environments of --env_name team, and roles with weights of their own."""

from fctncalling.training.teams.roles_of_run import roles_of_run
from fctncalling.training.teams.team_envs import parcels_of_run, team_envs

__all__ = ["parcels_of_run", "roles_of_run", "team_envs"]
