"""Teams: roles of one conversation, read from a small file."""

from fctncalling.envs.teams.team import BUILT_IN_TEAMS, Team, TeamError, TeamRole, load_team

__all__ = ["BUILT_IN_TEAMS", "Team", "TeamError", "TeamRole", "load_team"]
