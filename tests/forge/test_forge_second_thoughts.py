"""Second thoughts: settled and open sentences that no word tells apart."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest

from fctncalling.lab.forge.clarify_entries import (
    HesitationPair,
    Twins,
    second_thoughts,
    twins_naming_two_values,
)
from fctncalling.lab.forge.forged_entry import NoTaskDrawn

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/jobs"))
from likeness import character_ngrams, discriminate, word_tokens

TERMS = (word_tokens, character_ngrams)


def thoughts(count: int) -> list[HesitationPair]:
    rng = random.Random("second thoughts")
    return [second_thoughts(rng) for _ in range(count)]


def test_no_word_of_a_sentence_tells_whether_it_settles_which_candidate_is_meant() -> None:
    drawn = thoughts(400)
    assert len(set(drawn)) > 390
    settled, unsettled = ([pair[place] for pair in drawn] for place in (0, 1))
    assert 0.4 < discriminate(settled, unsettled, terms=word_tokens).auc < 0.6
    # what two fixed sentences would give
    assert discriminate(["Make it teal."] * 40, ["One of both."] * 40, terms=word_tokens).auc == 1.0


VOTE = re.compile(r"(my \w+) .*?\{(\w+)\}.*? (my \w+) .*?\{(\w+)\}.* (my \w+).* (my \w+)\.")


def test_sentences_on_people_have_the_same_words_and_differ_in_who_decides() -> None:
    votes = [pair for pair in thoughts(400) if VOTE.search(pair.settled)]
    assert len(votes) > 80
    for pair in votes:
        assert sorted(re.findall(r"\w+", pair.settled)) == sorted(re.findall(r"\w+", pair.open))
        for text, is_settled in zip(pair, (True, False), strict=True):
            found = VOTE.search(text)
            assert found is not None
            one, for_one, other, for_other, decides, _ = found.groups()
            chosen = {one: for_one, other: for_other}.get(decides)
            assert chosen == ("meant" if is_settled else None)


def twins(count: int) -> list[Twins]:
    made, rng = list[Twins](), random.Random("twins")
    while len(made) < count:
        try:
            made.append(twins_naming_two_values(rng))
        except NoTaskDrawn:
            continue
    return made


@pytest.mark.prove
def test_a_bag_of_words_does_not_learn_which_requests_settle_what_they_name() -> None:
    drawn = twins(1000)
    settled = [complete.question for complete, *_ in drawn[::2]]
    unsettled = [unclear.question for _, unclear, *_ in drawn[1::2]]
    found = {each.__name__: discriminate(settled, unsettled, terms=each).auc for each in TERMS}
    print(found)
    assert 0.43 < found["word_tokens"] < 0.57  # of 400 a side: three standard deviations are 0.06
