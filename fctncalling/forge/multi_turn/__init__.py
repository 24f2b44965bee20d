"""Plans of multi-turn tasks: worlds, moves, walks, proofs, variants."""
