"""Hand-made values that replace a critic's: the truth, as a ceiling, and two process rewards.

Each function returns V of the state before every action of every episode; the credit of an action
is its reward, plus V of the state behind it, less V of the state before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from fctncalling.algorithms.algorithm import AdvantageEstimate, Trajectories
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.ppo import TPPO
from fctncalling.data.types import Call, StepRecord, Task
from fctncalling.lab.embedded.demonstrator import demonstrations, parse_truth_call
from fctncalling.lab.embedded.fit import acted_logits
from fctncalling.lab.embedded.make_stream_model import StreamDemonstrator
from fctncalling.training.training_run import TrainingRun

Values = list[list[float]]  # of each episode, before each action


class PlayedUpdate(NamedTuple):
    """Episodes of an update, with the run and the tasks by id."""

    run: TrainingRun
    tasks: Mapping[str, Task]
    episodes: Sequence[EpisodeRecord]


class GivenCredit:
    """TPPO's estimate with a given credit for all tokens of an action."""

    def __init__(self, episodes: Sequence[EpisodeRecord], values: Values) -> None:
        self.credit = [
            [
                step.reward + after - before
                for step, before, after in zip(steps(e), v, [*v[1:], 0.0], strict=True)
            ]
            for e, v in zip(episodes, values, strict=True)
        ]

    def __call__(self, trajectories: Trajectories, config: TrainConfig) -> AdvantageEstimate:
        """Return the estimate; the critic's targets stay."""
        estimate = TPPO.estimate(trajectories, config)
        number = trajectories.action_number().clamp(min=0)  # (E, L)
        credit = torch.zeros_like(estimate.advantages)
        for episode, by_action in enumerate(self.credit):
            own = torch.tensor(by_action).to(credit)
            credit[episode] = own[number[episode].clamp(max=len(by_action) - 1)]
        return estimate._replace(advantages=torch.where(estimate.loss_mask, credit, 0.0))


def steps(episode: EpisodeRecord) -> Sequence[StepRecord]:
    """Return the steps of an episode."""
    played: Any = episode.episode
    return played.steps  # type: ignore[no-any-return]


# -- stream: one path is right, and a mistake stays


def truth_path(task: Task) -> list[Call | None]:
    """Return the truth's actions, one call each; None ends a turn."""
    path: list[Call | None] = []
    for turn in task.ground_truth or ():
        path += [Call(*parse_truth_call(text)) for text in turn]
        path.append(None)
    return path


def right_so_far(task: Task, episode: EpisodeRecord) -> list[bool]:
    """Return before each action whether all earlier ones were right; True in a success."""
    if episode.strict_success or (episode.strict_success is None and episode.success):
        return [True] * len(steps(episode))
    right, flags = True, list[bool]()
    path = truth_path(task)
    for number, step in enumerate(steps(episode)):
        flags.append(right)
        called = [] if number >= len(path) or path[number] is None else [path[number]]
        right = right and number < len(path) and list(step.calls) == called
    return flags


def path_errors(played: PlayedUpdate) -> Values:
    """Return 1 before the first error, else 0, so that the first error costs 1."""
    return [[float(r) for r in right_so_far(played.tasks[e.task_id], e)] for e in played.episodes]


def path_potential(played: PlayedUpdate) -> Values:
    """Return the share of the truth's actions that are done, 0 after an error."""
    values = []
    for episode in played.episodes:
        task = played.tasks[episode.task_id]
        total = len(truth_path(task))
        right = right_so_far(task, episode)
        values.append([min(t / total, 1.0) * r for t, r in enumerate(right)])
    return values


def path_truth(played: PlayedUpdate) -> Values:
    """Return the probability of the rest of the truth's path, 0 after an error."""
    chosen = [played.tasks[name] for name in dict.fromkeys(e.task_id for e in played.episodes)]
    to_come = path_probabilities(played.run, chosen)
    values = []
    for episode in played.episodes:
        probabilities = to_come[episode.task_id]
        right = right_so_far(played.tasks[episode.task_id], episode)
        last = len(probabilities) - 1
        values.append([probabilities[min(t, last)] * r for t, r in enumerate(right)])
    return values


@torch.no_grad()
def path_probabilities(run: TrainingRun, tasks: Sequence[Task]) -> dict[str, list[float]]:
    """Return the policy's probability of the truth's remaining actions, by task."""
    records = demonstrations(tasks, StreamDemonstrator(tasks), run.template)
    values = {}
    for record in records:
        (row,) = record.rows
        ids, acted = torch.tensor([row.ids]), torch.tensor([row.acted])
        logits = acted_logits(run.policy.model, ids, acted)
        logprobs = logits.log_softmax(-1).gather(1, ids[acted][:, None])[:, 0]
        ends = torch.tensor(row.ends_action)[acted[0]].long()
        number = ends.cumsum(0) - ends
        actions = torch.zeros(int(ends.sum())).index_add(0, number, logprobs)
        values[record.task_id] = actions.flip(0).cumsum(0).flip(0).exp().tolist()
    return values


# -- mended: the state of the office decides what can still come


class Place(NamedTuple):
    """Remaining work before an action."""

    lost: bool  # a turn ended wrong
    todo: int  # files of this turn that wait, unwrapped
    wrapped: int
    torn: int
    wrong: int  # in another folder
    later: int  # files of later turns
    turns: int  # later turns

    @property
    def work(self) -> int:
        """Calls still to come, ends of turns among them."""
        return self.todo + self.wrapped + 2 * (self.torn + self.wrong) + self.later + self.turns + 1


def office_places(task: Task, episode: EpisodeRecord) -> Iterator[Place]:
    """Yield the place before each action of an episode of a mended task."""
    turns = [dict(_file_and_folder(text) for text in turn) for turn in task.ground_truth or ()]
    sent, wrapped, torn = dict[str, str](), set[str](), set[str]()
    lost = False
    played = steps(episode)
    for number, step in enumerate(played):
        wanted = turns[step.turn]
        state = Counter(
            _state(name, folder, sent, wrapped, torn) for name, folder in wanted.items()
        )
        rest = turns[step.turn + 1 :]
        yield Place(
            lost, state["todo"], state["wrapped"], state["torn"], state["wrong"],
            sum(map(len, rest)), len(rest),
        )  # fmt: skip
        for call, result in zip(step.calls, step.results, strict=False):
            name = str(call.arguments.get("file_name"))
            if result == "torn":
                torn.add(name)
            elif call.name == "wrap":
                wrapped.add(name)
            elif result == "done":
                if call.name == "send":
                    sent[name] = str(call.arguments.get("destination"))
                    wrapped.discard(name)
                elif call.name == "recall":
                    sent.pop(name, None)
                else:
                    torn.discard(name)
        goes_on = number + 1 < len(played) and played[number + 1].turn == step.turn
        lost = lost or (not goes_on and any(sent.get(n) != f for n, f in wanted.items()))


def _file_and_folder(text: str) -> tuple[str, str]:
    arguments = parse_truth_call(text)[1]
    return arguments["file_name"], arguments["destination"]


def _state(
    name: str, folder: str, sent: Mapping[str, str], wrapped: set[str], torn: set[str]
) -> str:
    if name in sent:
        return "right" if sent[name] == folder else "wrong"
    return "torn" if name in torn else "wrapped" if name in wrapped else "todo"


def office_errors(played: PlayedUpdate) -> Values:
    """Return 1 until a file is first sent wrong or a turn ends wrong, then 0."""
    values = []
    for episode in played.episodes:
        right, own = True, list[float]()
        for place in office_places(played.tasks[episode.task_id], episode):
            right = right and not (place.wrong or place.lost)
            own.append(float(right))
        values.append(own)
    return values


def office_potential(played: PlayedUpdate) -> Values:
    """Return the share of the calls that are done, less for mistakes; 0 after a wrong turn."""
    values = []
    for episode in played.episodes:
        places = list(office_places(played.tasks[episode.task_id], episode))
        total = places[0].work
        values.append([0.0 if place.lost else 1.0 - place.work / total for place in places])
    return values


HAND_MADE: dict[str, dict[str, Callable[[PlayedUpdate], Values]]] = {
    "stream": {"truth": path_truth, "error": path_errors, "potential": path_potential},
    "mended": {"error": office_errors, "potential": office_potential},
}
