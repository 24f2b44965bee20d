"""Task forge: official-style tasks whose truths are proven by execution, no language model used."""
