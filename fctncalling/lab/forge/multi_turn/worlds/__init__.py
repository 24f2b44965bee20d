"""Worlds: initial states of the tools, what they hold of each kind, and the pools behind them."""
