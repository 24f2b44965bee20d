"""Parts that subcommands share."""
