"""Multi-turn tasks: requests in one scene; some wait for a function or a parameter."""

from __future__ import annotations

from dataclasses import dataclass

from fctncalling.lab.embedded.scenes import FileScene, Scene, TicketScene, UserRequest, VehicleScene
from fctncalling.lab.embedded.vocabulary import (
    Entry,
    RejectedDraw,
    VocabularyDraw,
    render,
    wording,
)

SCENES: tuple[type[Scene], ...] = (FileScene, FileScene, TicketScene, VehicleScene)
TELLING = frozenset({"create_ticket", "ls"})  # their answers name what a later request may mean
MISSING_SLOT = {
    "move": "folder",
    "copy": "folder",
    "write": "content",
    "search": "content",
    "create_ticket": "priority",
    "resolve_it": "fix",
    "raise_it": "priority",
    "lock": "door",
    "unlock": "door",
    "climate": "degrees",
}


@dataclass(frozen=True)
class TaskLength:
    """Length of multi-turn tasks; the default is the embedded tasks'."""

    num_offered: tuple[int, int] = (4, 6)  # functions at first, the held-out one not counted
    num_turns: tuple[int, ...] = (2, 2, 3)  # before a request is put off, which adds one
    one_request: bool = False  # in each turn, and none has to lean on an earlier turn


EMBEDDED_LENGTH = TaskLength()


@dataclass
class Turn:
    """User message and the calls that answer it.

    `text` None is BFCL's empty message of a held-out function.
    """

    text: str | None
    calls: list[str]
    requests: list[UserRequest]


def multi_turn_task(
    draw: VocabularyDraw, category: str, length: TaskLength = EMBEDDED_LENGTH
) -> Entry:
    """Draw an entry, without id, of a multi-turn BFCL category."""
    scene = draw.rng.choice(SCENES)(draw)
    config = scene.initial_config()
    turns = [
        next_turn(scene, draw, first=index == 0, two=not length.one_request)
        for index in range(draw.rng.choice(length.num_turns))
    ]
    missed: dict[str, list[str]] = {}
    if category == "multi_turn_miss_param":
        withhold_parameter(turns, draw)
    if category == "multi_turn_miss_func":
        missed = withhold_function(turns, draw)
    require_calls_of_split(turns, draw)
    leans = any(request.needs_history for turn in turns for request in turn.requests)
    must_lean = category == "multi_turn_base" and not length.one_request
    if must_lean and not leans and draw.chance(0.7):
        raise RejectedDraw("no turn leans on an earlier one")
    entry: Entry = {
        "question": [
            [{"role": "user", "content": turn.text}] if turn.text is not None else []
            for turn in turns
        ],
        "initial_config": {scene.class_name: config},
        "involved_classes": [scene.class_name],
        "function": draw_offered_functions(
            scene, turns, draw, length.num_offered, num_held_out=len(missed)
        ),
    }
    if missed:
        entry["missed_function"] = missed
    return {**entry, "ground_truth": [turn.calls for turn in turns]}


def next_turn(scene: Scene, draw: VocabularyDraw, *, first: bool, two: bool = True) -> Turn:
    """Draw the next turn: one request, or two in one message if `two` allows it."""
    requests = [next_request(scene, draw, prefer_history=not first)]
    if two and draw.chance(0.25):
        requests.append(next_request(scene, draw, prefer_history=False))
        if requests[0].call == requests[1].call:
            raise RejectedDraw("the same call twice in one turn")
        if requests[0].call[0] in TELLING and requests[1].needs_history:
            reason = "an answer that nobody has seen when both are called"
            raise RejectedDraw(f"the second request leans on {reason}")
    phrases = wording()["turns"]
    texts = [draw.phrase(phrases[r.kind], r.slots, opens=i == 0) for i, r in enumerate(requests)]
    text = texts[0] + "".join(draw.rng.choice(wording()["joiners"]) + text for text in texts[1:])
    return Turn(text, [render(*request.call) for request in requests], requests)


def next_request(scene: Scene, draw: VocabularyDraw, *, prefer_history: bool) -> UserRequest:
    """Draw a request that the scene allows now.

    With `prefer_history` mostly one that refers to earlier turns.
    """
    kinds = scene.kinds()
    leaning = [kind for kind, needs_history in kinds.items() if needs_history]
    if leaning and prefer_history and draw.chance(0.8):
        return scene.draw_request(draw.rng.choice(leaning))
    return scene.draw_request(draw.rng.choice(list(kinds)))


def withhold_parameter(turns: list[Turn], draw: VocabularyDraw) -> None:
    """Split a turn into a request that lacks a parameter, and the user's answer."""
    candidates = [
        i
        for i, turn in enumerate(turns)
        if len(turn.requests) == 1 and turn.requests[0].kind in MISSING_SLOT
    ]
    if not candidates:
        raise RejectedDraw("no parameter to withhold")
    index = draw.rng.choice(candidates)
    turn = turns[index]
    request = turn.requests[0]
    vague = draw.phrase(wording()["asks"][request.kind], request.slots)
    phrases = wording()["answers"][MISSING_SLOT[request.kind]]
    answer = draw.phrase(phrases, request.slots, opens=False)
    turns[index : index + 1] = [Turn(vague, [], []), Turn(answer, turn.calls, turn.requests)]


def withhold_function(turns: list[Turn], draw: VocabularyDraw) -> dict[str, list[str]]:
    """Delay a turn's calls until its function is offered, in an empty turn later.

    Return BFCL's missed_function.
    """
    used: set[str] = set()
    candidates = []
    for index, turn in enumerate(turns):
        names = {request.call[0] for request in turn.requests}
        candidates += [(index, name) for name in sorted(names - used)]
        used |= names
    index, name = draw.rng.choice(candidates)
    turn = turns[index]
    turns[index : index + 1] = [Turn(turn.text, [], []), Turn(None, turn.calls, turn.requests)]
    return {str(index + 1): [name]}


def require_calls_of_split(turns: list[Turn], draw: VocabularyDraw) -> None:
    """Raise RejectedDraw unless all calls of a task belong to its split.

    A held-out task has a reserved call of its own.
    """
    calls = [request.call for turn in turns for request in turn.requests]
    if not all(draw.allows(*call) for call in calls):
        raise RejectedDraw("a call of the other split")
    if draw.held_out and all(len(arguments) < 2 for _, arguments in calls):
        raise RejectedDraw("nothing in it is reserved")


def draw_offered_functions(
    scene: Scene,
    turns: list[Turn],
    draw: VocabularyDraw,
    number: tuple[int, int],
    *,
    num_held_out: int,
) -> list[str]:
    """Draw the offered functions, needed ones and distractors, in random order."""
    needed = sorted({request.call[0] for turn in turns for request in turn.requests})
    distractors = [name for name in scene.distractor_functions if name not in needed]
    num_offered = draw.rng.randint(*number) + num_held_out  # so that their number betrays nothing
    missing = min(len(distractors), max(0, num_offered - len(needed)))
    names = needed + draw.rng.sample(distractors, missing)
    draw.rng.shuffle(names)
    return names
