"""The matcher of patterns says what Python's own says, on random patterns and texts."""

from __future__ import annotations

import random
import re

from fctncalling.lab.own_api.kinds.pattern_text import matches_pattern

ATOMS = "a b 0 [a-c] [^a] [^\\d] \\d \\w \\s . [\\d-] \\b ^ $".split()
REPEATS = "* + ? {2} {1,3} {0,2}? {2,}".split()


def drawn_pattern(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(7) if depth else 0
    one, two = (drawn_pattern(rng, depth - 1) if kind else "" for _ in range(2))
    if kind == 0:
        return rng.choice(ATOMS)
    looks = (f"(?={one})", f"(?!{one})", "(?<=a)", "(?<!b)")
    forms = {3: f"({one}|{two})", 4: f"(?:{one}){rng.choice(REPEATS)}", 5: rng.choice(looks)}
    return forms.get(kind, one + two)


def test_random_patterns_match_what_the_library_matches() -> None:
    rng = random.Random(1)
    matched = 0
    for _ in range(4000):
        pattern = drawn_pattern(rng, 4)
        text = "".join(rng.choice("ab01c-") for _ in range(rng.randint(1, 6)))
        expected = re.fullmatch(pattern, text) is not None
        assert matches_pattern(pattern, text) is expected, (pattern, text)
        matched += expected
    assert matched > 100
