"""Tasks of a user's own API: drawn, put into words, proven, written with a ledger."""
