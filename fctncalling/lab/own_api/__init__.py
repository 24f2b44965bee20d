"""Own APIs: from a specification to functions, kinds of values, words and proven tasks."""
