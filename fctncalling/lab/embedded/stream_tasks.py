"""Stream tasks: errands under rules that are given once and apply to all later calls.

The first message says whether originals stay, and which folder takes which kind of file. From then
on most calls can be wrong in a way that no result betrays and nothing mends: a file moved that
should be copied, put into the other folder, or written to before it was saved. The final state
tells, long after. A stream of them has no end, so each task is played once.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from fctncalling.evaluation.scripted_policies import ONE_CALL_A_STEP
from fctncalling.lab.embedded.vocabulary import (
    Entry,
    VocabularyDraw,
    distinct_entries,
    is_reserved,
    render,
)

OFFERED = ("cp", "mv", "echo")  # beside some of DISTRACTORS
DISTRACTORS = ("cat", "touch", "rm", "wc", "grep", "ls")
RULES = {
    "keep": ("keep the originals here", "every original stays", "the originals stay here"),
    "clear": ("leave nothing here", "nothing stays behind", "no original stays"),
}
PLACES = (
    "{first} goes to {first_folder} and {second} goes to {second_folder}",
    "{first} belongs in {first_folder} and {second} belongs in {second_folder}",
)
PHRASES = {
    "file": ("file {file}", "put {file} away"),
    "save": ("file {file} as it is then write {content} into it",),
    "renew": ("write {content} into {file} then file it",),
    "write": ("write {content} into {file}", "put the word {content} into {file}"),
}


class ErrandPool(NamedTuple):
    """Pool from which tasks are drawn; the entries of each tuple are equally likely."""

    rules: tuple[str, ...]
    num_turns: tuple[int, ...]
    num_requests: tuple[int, ...]  # of a turn
    kinds: dict[str, tuple[str, ...]]  # rule -> kinds of request
    num_traps: tuple[int, ...]  # requests that the demonstrator's habit spoils
    last_trap: int  # number of the last request that may be one
    most_actions: int  # of the oracle: one call an action, and one word to end a turn
    least_actions: int = 6


HABIT = ErrandPool(
    rules=("clear", "keep", "keep"),
    num_turns=(2, 2, 2, 3),
    num_requests=(2, 3),
    kinds=dict.fromkeys(("clear", "keep"), ("file", "file", "file", "renew")),
    num_traps=(0, 1, 1),
    last_trap=1,
    most_actions=10,
)
LESSON = ErrandPool(
    rules=("clear", "keep"),
    num_turns=(2, 3, 3),
    num_requests=(2, 2, 3),
    kinds={"clear": ("file", "file", "renew"), "keep": ("file", "file", "renew", "write")},
    num_traps=(0, 0, 0, 0, 1, 1, 1, 2, 2),
    last_trap=99,
    most_actions=14,
)
"""The model's careful lessons are long, those that teach it slips and a habit short."""
COLD = ErrandPool(
    rules=("keep",),
    num_turns=(3,),
    num_requests=(2, 3),
    kinds={"keep": ("file", "file", "renew")},
    num_traps=(4,),
    last_trap=99,
    most_actions=17,
    least_actions=13,
)
WARM = COLD._replace(num_traps=(1, 2), most_actions=14, least_actions=12)
"""Streams: the start policy solves about 2 % of the cold tasks and WARM_START of the warm ones."""


@dataclass
class ErrandScene:
    """Folder of files, the rules of the day, and the state of each file."""

    draw: VocabularyDraw
    errands: ErrandPool
    rule: str = ""
    folders: dict[str, str] = field(default_factory=dict)  # ending -> folder
    files: dict[str, str] = field(default_factory=dict)  # those that nothing was done to -> content
    copied: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Draw rule, folders and files."""
        self.rule = self.draw.rng.choice(self.errands.rules)
        self.folders = dict(zip(("csv", "txt"), self.draw.words("folder", 2), strict=True))
        names = self.draw.words("file", 10)
        self.files = {name: str(self.draw.word("content")) for name in names}
        tree: Entry = {}
        for name, content in self.files.items():
            tree[name] = {"type": "file", "content": content}
        for name in sorted(self.folders.values()):
            tree[name] = {"type": "directory", "contents": {}}
        self.config = {"root": {"workspace": {"type": "directory", "contents": tree}}}

    def rules_text(self) -> str:
        """Return the text of the rules."""
        endings = self.draw.rng.sample(sorted(self.folders), 2)
        slots = dict(zip(("first", "second"), endings, strict=True))
        slots |= {f"{key}_folder": self.folders[ending] for key, ending in slots.items()}
        rule = self.draw.rng.choice(RULES[self.rule])
        return f"{rule} and {self.draw.phrase(list(PLACES), slots, opens=False)}"

    def request(self, *, trap: bool) -> tuple[str, list[str]]:
        """Draw a request and its calls; a trap is one that habits get wrong."""
        if self.rule == "clear":
            kind = self.draw.rng.choice(self.errands.kinds[self.rule])
            name = self._take("csv" if trap else "txt")
        else:
            kind = "save" if trap else self.draw.rng.choice(self.errands.kinds[self.rule])
            revisits = kind == "write" and bool(self.copied) and self.draw.chance(0.7)
            name = self.draw.rng.choice(self.copied) if revisits else self._take()
        content = str(self.draw.word("content"))
        verb = "cp" if self.rule == "keep" else "mv"
        put = render(verb, {"source": name, "destination": self.folders[name[-3:]]})
        write = render("echo", {"content": content, "file_name": name})
        calls = {"file": [put], "save": [put, write], "renew": [write, put], "write": [write]}[kind]
        if self.rule == "keep" and kind != "write":
            self.copied.append(name)
        slots = {"file": name, "content": content}
        return self.draw.phrase(list(PHRASES[kind]), slots, opens=False), calls

    def _take(self, ending: str = "") -> str:
        name: str = self.draw.rng.choice([name for name in self.files if name.endswith(ending)])
        del self.files[name]
        return name


def stream_entry(draw: VocabularyDraw, errands: ErrandPool = HABIT) -> Entry | None:
    """Draw an entry without id, with truth; None for an unusable draw."""
    scene = ErrandScene(draw, errands)
    num_turns = draw.rng.choice(errands.num_turns)
    sizes = [draw.rng.choice(errands.num_requests) for _ in range(num_turns)]
    places = [(turn, number) for turn, size in enumerate(sizes) for number in range(size)]
    traps = draw.rng.sample(places[: errands.last_trap], draw.rng.choice(errands.num_traps))
    rules = scene.rules_text()
    texts, truth = list[str](), list[list[str]]()
    for turn, size in enumerate(sizes):
        try:
            made = [scene.request(trap=(turn, number) in traps) for number in range(size)]
        except IndexError:  # no file of the wanted ending is left
            return None
        texts.append(" then ".join(text for text, _ in made))
        truth.append([call for _, calls in made for call in calls])
    texts[0] = f"{rules} . {texts[0]}"
    num_actions = sum(map(len, truth)) + len(truth)
    if not errands.least_actions <= num_actions <= errands.most_actions:
        return None
    if is_reserved(" ".join(texts)) != draw.held_out:
        return None
    offered = [*OFFERED, *draw.rng.sample(DISTRACTORS, draw.rng.randint(1, 3))]
    draw.rng.shuffle(offered)
    return {
        "question": [[{"role": "user", "content": text}] for text in texts],
        "initial_config": {"GorillaFileSystem": scene.config},
        "involved_classes": ["GorillaFileSystem"],
        "function": offered,
        "ground_truth": truth,
        ONE_CALL_A_STEP: True,
    }


def stream_entries(
    split: str, num_tasks: int, *, seed: int = 0, first_id: int = 0, errands: ErrandPool = HABIT
) -> list[Entry]:
    """Return distinct entries of a split ("train" or "held_out")."""
    # the first word is the key that the lessons of the committed model were drawn by
    rng = random.Random(f"critical_{split} {seed}")
    draw = VocabularyDraw(rng, held_out=split == "held_out")
    made = distinct_entries(
        lambda: stream_entry(draw, errands),
        num_tasks,
        "multi_turn_base",
        first_id=first_id,
        seen=set(),
    )
    return list(made)
