"""Tasks of a user's API: drawn, worded, proven, written with a ledger."""
