"""The run subcommand."""
