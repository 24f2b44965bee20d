"""The subcommand `why`: reading recorded answers, and showing the causes of failure."""
