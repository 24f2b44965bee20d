"""Requests in words: a call as a user would ask for it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from fctncalling.lab.forge.single_turn.frames import fill_phrase
from fctncalling.lab.forge.single_turn.made_calls import MadeArgument, MadeCall

_ORDERS = {
    "compute": (
        *("Calculate", "Calculate", "Calculate", "Find", "Find", "Find", "Compute"),
        *("Determine", "Work out", "Figure out", "Estimate"),
    ),
    "look": ("Tell me", "Look up", "Find out", "Get", "Give me", "Show me"),
    "find": ("Find", "Find me", "Show me", "Search for", "Look for", "List", "Get me"),
}
_ASKS = ("Can you {}?", "Could you {}?", "Please {}.", "Could you please {}?", "Would you {}?")
_WISHES = ("I want to {}.", "I need to {}.", "I'd like to {}.", "Help me {}.", "I need you to {}.")
_FIND_WISHES = ("I'm looking for {}.", "I need {}.", "I am interested in {}.", "I'd like {}.")

_USUAL = frozenset({"calculate", "compute", "estimate", "determine"})
_AN = re.compile(  # a capital one at the beginning of a sentence alone: "Serie A in 2012"
    r"(?<!\d )\b(a|(?:^|(?<=[.?!] ))A) (?=[\"']?[aeiouAEIOU])"
    r"(?![\"']?(?:uni|use|eu|one|Uni|Eu|One|UK|US))"
)
_PERSON = re.compile(
    r"the (?:top scorer|ruler|director|head coach|author|architect|manager|judge|artist|champion"
    r"|winner|developer) "
)
_HEAD_END = re.compile(
    r" (?:of|for|in|on|to|with|between|from|by|over|at|per|through|under|after|around|during) "
)
_SINGULAR = {"people": "person", "calories": "calorie", "inches": "inch", "successes": "success"}
_ONE = re.compile(
    r"(?<![\w.,-])(1|one) (people|calories|inches|successes|[a-z]{2,}(?<!s)s)(?![\w])(?! (?:of|is))"
)

ASKED_SHARE = 0.08  # of orders put as a polite question
WISHED_SHARE = 0.14  # of the others put as a wish


def request_for_call(call: MadeCall, rng: random.Random, *, question_share: float = 0.25) -> str:
    """Return one sentence that asks for a call."""
    return request_sentence(call, request_body(call, rng), rng, question_share=question_share)


def request_sentence(
    call: MadeCall, body: str, rng: random.Random, *, question_share: float
) -> str:
    """Return a body (a noun phrase with its clauses) as an order, a wish or a question."""
    mode = call.function.frame.mode
    is_question = rng.random() < question_share
    if is_question and mode in ("compute", "look") and rng.random() < 0.8:
        asked = "Who" if _PERSON.match(body) else "What"
        return f"{asked} {'are' if is_plural(body) else 'is'} {_bare(body)}?"
    if is_question and mode == "find" and rng.random() < 0.5:
        return f"Are there any {_bare(body)}?"
    if mode == "find" and rng.random() < 0.2:
        return rng.choice(_FIND_WISHES).format(_bare(body))
    ordered = request_as_order(call, body, rng)
    if is_question or rng.random() < ASKED_SHARE:
        return rng.choice(_ASKS).format(_lower(ordered))
    if rng.random() < WISHED_SHARE:
        wish = rng.choice(_WISHES)
        if "need you" not in wish:
            ordered = _own(ordered, "Find out" if "Help me" in wish else "Know")
        return wish.format(_lower(ordered))
    return f"{ordered}."


def request_body(call: MadeCall, rng: random.Random) -> str:
    """Return the noun phrase with all that is said of the arguments."""
    said = call.said()
    frame = call.function.frame
    texts = {name: each.value.text for name, each in said.items() if each.value is not None}
    phrase = fill_phrase(rng.choice(frame.phrases), texts)
    rest = [each for name, each in said.items() if name not in frame.slots]
    return use_an_before_vowels(_singular(phrase + argument_clauses(rest, rng)))


def use_an_before_vowels(text: str) -> str:
    """Return a text in which `a` before a vowel is `an`."""
    return _AN.sub(r"\1n ", text)


def argument_clauses(arguments: Sequence[MadeArgument], rng: random.Random) -> str:
    """Return the clauses of arguments, joined as one writes them, with a blank before each."""
    texts = [argument_clause(each, rng) for each in arguments]
    texts.sort(key=lambda text: text.startswith(","))  # what hangs behind a comma comes last
    said = ""
    for index, text in enumerate(texts):
        if text.startswith(","):
            said += text
        elif index and text.startswith("with ") and texts[index - 1].startswith("with "):
            goes_on = index + 1 < len(texts) and texts[index + 1].startswith("with ")
            said += f"{',' if goes_on else ' and'} {text.removeprefix('with ')}"
        else:  # never two numbers in a row
            said += f"{',' if said[-1:].isdigit() and text[0].isdigit() else ''} {text}"
    return said


def argument_clause(argument: MadeArgument, rng: random.Random) -> str:
    """Return how an argument is said; of a truth value the clause for true or for false."""
    assert argument.value is not None
    if argument.value.clause:
        return argument.value.clause
    pattern = rng.choice(argument.parameter.frame.clauses)
    if argument.parameter.frame.kind.name == "bool":
        true, _, false = pattern.partition(" ~ ")
        return true if argument.value.value else false
    return pattern.replace("{}", argument.value.text)


def _singular(text: str) -> str:
    """Return a text in which one of a thing is one thing: `1 guests` becomes `1 guest`."""
    return _ONE.sub(lambda found: f"{found[1]} {_SINGULAR.get(found[2], found[2][:-1])}", text)


def request_as_order(call: MadeCall, body: str, rng: random.Random) -> str:
    """Return a body as an order, without a full stop: `Find me hotels in Porto`."""
    frame = call.function.frame
    if frame.mode == "act":
        verb = rng.choice(frame.verbs).replace("_", " ")
        return f"{verb[0].upper()}{verb[1:]} {_bare(body)}"
    orders = _ORDERS[frame.mode]
    if frame.mode == "compute" and not _USUAL.intersection(frame.verbs):
        orders = tuple(verb.capitalize().replace("_", " ") for verb in frame.verbs)
    return f"{rng.choice(orders)} {_bare(body)}"


def is_plural(body: str) -> bool:
    """Whether a noun phrase is of several things: marked, or its first noun ends like one."""
    head = _HEAD_END.split(body)[0]
    is_many = head.endswith("s") and not head.endswith(("ss", "us", "is", " takes", " needs"))
    return body.startswith("are:") or is_many


def _bare(body: str) -> str:
    return body.removeprefix("are:")


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def _own(order: str, told: str) -> str:
    """Return an order as a wish of one's own: nobody needs to show himself something."""
    for given, wished in (
        ("Tell me", told),
        ("Give me", "Get"),
        ("Show me", "See"),
        ("Find me", "Find"),
        ("Get me", "Get"),
    ):
        if order.startswith(given):
            return wished + order.removeprefix(given)
    return order
