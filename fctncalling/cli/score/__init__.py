"""The score subcommand."""
