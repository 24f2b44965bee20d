"""Demonstrations of --sft_tasks and --sft_episodes, as a policy's episodes.

Ground truths are played by GroundTruthPolicy, message by message, through the run's own environment
and the ordinary rollout: tool results stand in the context, and ids and masks are those of
reinforcement learning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord
from fctncalling.algorithms.generation.engine_api import RolloutError, ScriptedEngine
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.algorithms.rollout.collect import collect
from fctncalling.conversations import ConversationLog, holds_conversations, logged_tasks
from fctncalling.data.bfcl import load_tasks
from fctncalling.data.types import Call, Task
from fctncalling.envs.judging.oracle import oracle_calls
from fctncalling.envs.tools import load_bfcl_table
from fctncalling.evaluation.agents.agent import ScriptedPlayer
from fctncalling.evaluation.scripted_policies import (
    DONE,
    LOGGED_ANSWER,
    ONE_CALL_A_STEP,
    PolicyInput,
    message_end,
    oracle,
    render,
)
from fctncalling.progress_bar import Stage
from fctncalling.specification.api import OwnApi
from fctncalling.training.announce import announce, is_first_process
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import TaskSetup, check_tasks
from fctncalling.training.user_code import run_tool_classes


def load_successful_episodes(
    source: Path, template: ChatTemplate, *, strict: bool
) -> list[EpisodeRecord]:
    """Load the successful episodes, without repeats, of a run's folder or file.

    Of a folder only training episodes are taken (train_*.jsonl): those of evaluations are of
    held-out tasks. Raises SettingError, naming file and line, where there is none, and for another
    tokenizer's.
    """
    records, seen, num_lines = list[EpisodeRecord](), set[str](), 0
    for path in _files(source):
        for number, line in enumerate(_lines(path), 1):
            num_lines += 1
            success = line.get("strict_success", line["success"]) if strict else line["success"]
            if success is None:  # unjudged
                success = (line.get("return") or 0) > 0
            if not success:
                continue
            where = f"--sft_episodes {path} line {number}"
            record = _record(line, template, where)
            key = json.dumps([[row.ids, row.acted] for row in record.rows])
            if key not in seen and record.num_actions_truncated == 0:
                records.append(record)
            seen.add(key)
    if not records:
        raise SettingError(f"--sft_episodes {source}: none of {num_lines} episodes succeeded")
    announce(
        f"{source}: {len(records)} distinct successful episodes of {num_lines} are demonstrations."
    )
    return records


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    folder = source / "episodes" if (source / "episodes").is_dir() else source
    files = sorted(folder.glob("train_*.jsonl"))
    if not files:
        raise SettingError(
            f"--sft_episodes {source}: there are no logged training episodes: expected a run's "
            "folder with episodes/train_*.jsonl (--log_episodes_interval 1 logs every update's), "
            "or one such file"
        )
    return files


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
                if not isinstance(line, dict) or "success" not in line:
                    raise ValueError("no success in it")
            except ValueError as error:
                raise SettingError(
                    f"--sft_episodes {path} line {number}: expected an episode of a run's log "
                    f"({error})"
                ) from None
            yield line


def _record(line: Mapping[str, Any], template: ChatTemplate, where: str) -> EpisodeRecord:
    try:
        rows = _rows(line["tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise SettingError(f"{where}: the episode has no token ids ({error!r})") from None
    prompt = line.get("prompt")
    if prompt is not None and rows and any(rows[0].acted):
        opening = rows[0].ids[: rows[0].acted.index(True)]
        if max(opening, default=0) >= len(template.tokenizer) or template.spell(opening) != prompt:
            raise SettingError(f"{where}: its token ids are another tokenizer's than this model's")
    return EpisodeRecord(
        task_id=str(line.get("task_id", "")),
        category=str(line.get("category", "")),
        rows=rows,
        terminated=True,
        success=True,
        num_actions_truncated=int(line.get("num_actions_truncated", 0)),
    )


def _rows(tokens: Any) -> list[TokenRecord]:
    """Parse the token rows of a log line's `tokens`."""
    rows, before = list[TokenRecord](), list[int]()
    for row in tokens:
        ids = [*before[: row["shared"]], *row["ids"]]
        acted = [bool(at % 2) for at, length in enumerate(row["runs"]) for _ in range(length)]
        if len(ids) != len(acted):
            raise ValueError(f"{len(ids)} ids, {len(acted)} in runs")
        ends = [now and not then for now, then in zip(acted, [*acted[1:], False], strict=True)]
        zeros = [0.0] * len(ids)
        rows.append(TokenRecord(ids, acted, ends, zeros, list(zeros)))
        before = ids
    return rows


DATASET = "dataset"
"""What --sft_tasks calls the training tasks of --dataset_path."""
_NUM_ENVS = 16


def load_demonstrations(
    config: TrainConfig, run_config: RunConfig, setup: TaskSetup, template: ChatTemplate
) -> list[EpisodeRecord]:
    """Load the demonstrations that the settings ask for.

    Raises SettingError or TaskError, naming file and task, for missing files, tasks that cannot be
    demonstrated, and demonstrations without a trained token.
    """
    episodes = list[EpisodeRecord]()
    if config.sft_tasks is not None:
        episodes += _of_tasks(config, run_config, setup, template)
    if config.sft_episodes is not None:
        strict = config.reward.startswith("strict")
        logged = load_successful_episodes(Path(config.sft_episodes), template, strict=strict)
        _warn_of_held_out({episode.task_id for episode in logged} & set(setup.held_out_ids))
        episodes += logged
    rows = [row for episode in episodes for row in episode.rows if any(row.acted)]
    if not rows:
        named = {"--sft_tasks": config.sft_tasks, "--sft_episodes": config.sft_episodes}
        flags = ", ".join(f"{flag} {value}" for flag, value in named.items() if value is not None)
        raise SettingError(
            f"{flags}: none of {len(episodes)} demonstrations has a token to be trained "
            "(--max_episode_tokens may leave no room for an action)"
        )
    num_tokens, num_trained = sum(len(row.ids) for row in rows), sum(sum(row.acted) for row in rows)
    announce(
        f"Supervised fine-tuning on {len(episodes)} demonstrations: {num_tokens:,} tokens, "
        f"{num_trained:,} of them trained."
    )
    return episodes


def _of_tasks(
    config: TrainConfig, run_config: RunConfig, setup: TaskSetup, template: ChatTemplate
) -> list[EpisodeRecord]:
    """Play the ground truths of --sft_tasks as episodes."""
    if setup.make_env_over is None:
        raise SettingError(
            f"--sft_tasks: --env_name {config.env_name} has no ground truths to play; "
            "--sft_episodes takes its logged episodes"
        )
    tasks = setup.training_tasks
    if config.sft_tasks != DATASET:
        path = str(config.sft_tasks)
        if not Path(path).is_file():
            raise SettingError(
                f'--sft_tasks {path}: there is no such file; expected one, or "{DATASET}" for the '
                "training tasks of --dataset_path"
            )
        if holds_conversations(Path(path)):
            tasks = load_logged_tasks(Path(path), setup.training_tasks)
        else:
            tasks = load_tasks(path, self_documented=run_tool_classes(run_config))
            check_tasks(tasks, path, config, run_config)
    # Files number their tasks alike, so ids alone do not tell what is held out.
    by_id = {task.id: task for task in tasks}
    held_out = {task.id for task in setup.held_out_tasks if by_id.get(task.id) == task}
    _warn_of_held_out(held_out)
    handler = "" if run_config.handler == "auto" else run_config.handler
    played = play_ground_truths(
        tasks, setup.make_env_over, template, handler, config.max_episode_tokens
    )
    return _usable(played, config)


def load_logged_tasks(path: Path, training_tasks: Sequence[Task]) -> list[Task]:
    """Load the answers of logged conversations as tasks; what is left out is announced.

    Conversations that list no function are offered those of the training tasks. Raises SettingError
    where no answer can be used.
    """
    docs = {doc.name: doc for task in training_tasks for doc in task.functions}
    log = ConversationLog(path, OwnApi("tasks", tuple(docs.values()), str(path)))
    tasks = list(logged_tasks(log))
    note = f"{len(tasks)} answers of {path} are demonstrations; left out: {log.left_out()}"
    if not tasks:
        raise SettingError(f"--sft_tasks: {note}")
    announce(note)
    return tasks


def _warn_of_held_out(task_ids: Collection[str]) -> None:
    """Announce how many held-out tasks are among the demonstrations."""
    if task_ids:
        announce(
            f"Note: {len(task_ids)} held-out tasks are demonstrated too, such as {min(task_ids)}."
        )


def play_ground_truths(
    tasks: Sequence[Task],
    make_env_over: Callable[[Sequence[Task]], Any],
    template: ChatTemplate,
    handler: str,
    max_episode_tokens: int,
) -> list[EpisodeRecord]:
    """Play the ground truth of each task; return the episodes.

    SettingError where one cannot be played.
    """
    unknown = [t.id for t in tasks if t.kind == "agentic" or t.category.endswith("_relevance")]
    if unknown:
        raise SettingError(
            f"--sft_tasks: {unknown[0]}: {len(unknown)} of {len(tasks)} tasks do not say which "
            "calls solve them (agentic and relevance tasks); leave them out"
        )
    players = {task.id: ScriptedPlayer(GroundTruthPolicy(), task, handler, DONE) for task in tasks}

    def script(task_id: str, turn: int, step_in_turn: int, info: Mapping[str, Any]) -> str:
        return players[task_id].answer("", info)

    engine = ScriptedEngine(script, template.encode, message_end(template.ends, tasks, handler))
    envs = [make_env_over(tasks) for _ in range(min(_NUM_ENVS, len(tasks)))]
    ids = [task.id for task in tasks]
    try:
        with Stage("playing ground truths", len(tasks), "task", shown=is_first_process()) as stage:
            played = collect(
                envs,
                engine,
                template,
                ids,
                max_episode_tokens=max_episode_tokens,
                on_episode=stage.count,
            )
    except (RolloutError, ValueError) as error:
        raise SettingError(f"--sft_tasks: no ground truth can be played: {error}") from error
    finally:
        for env in envs:
            env.close()
    # a logged answer that cannot be written fails its own check
    errors = {task.id: players[task.id].error for task in tasks if LOGGED_ANSWER not in task.extra}
    failed = [task_id for task_id, error in errors.items() if error]
    failed += [episode.task_id for episode in played if episode.invalid]
    if failed:
        cause = errors.get(failed[0]) or "its environment failed, see the message above"
        raise SettingError(
            f"--sft_tasks: {failed[0]}: the ground truth cannot be played ({cause}); "
            f"{len(failed)} of {len(played)} tasks: leave them out"
        )
    return played


def _usable(played: Sequence[EpisodeRecord], config: TrainConfig) -> list[EpisodeRecord]:
    """Return the successful, complete episodes; announce the others."""
    success = "strict_success" if config.reward.startswith("strict") else "success"
    cut = [episode for episode in played if episode.truncated]
    whole = [episode for episode in played if not episode.truncated]
    failed = [episode for episode in whole if not getattr(episode, success)]
    if cut:
        announce(
            f"Note: {len(cut)} of {len(played)} demonstrations are longer than "
            f"--max_episode_tokens ({config.max_episode_tokens}) and left out, such as "
            f"{cut[0].task_id}."
        )
    if failed:
        announce(
            f"Note: {len(failed)} of {len(played)} ground truths fail their own check and are left "
            f"out, such as {failed[0].task_id}."
        )
    return [episode for episode in whole if getattr(episode, success)]


NO_CALL = "I call no function: none of them fits."
"""What it answers to a request that no function serves."""
MISSING_VALUE = "I call no function yet: something that it needs is missing."
"""What it answers where a user tells the missing value in a later turn, unasked."""
COMPANIES: dict[str, str] = {
    symbol: name for name, symbol in load_bfcl_table("trading_bot")["symbol_map"].items()
}
"""Symbol of a stock -> name of the company, of those that TradingBot knows by name."""


class GroundTruthPolicy:
    """Policy that plays the ground truth, looking up values first where an agent must.

    A logged answer is said as it was. A call of a turn waits for the results of those before it
    where it takes a value that was neither said nor shown so far and stands in no function's
    documentation. In one message with them it would teach to guess what a result is about to tell.
    Where no result of the truth tells a value, a look-up comes first.
    """

    def __init__(self) -> None:
        self._left: list[Call] = []  # calls of this turn that are still to be made
        self._look_ups: list[Call] = []  # of this turn; none is made twice

    def __call__(self, situation: PolicyInput) -> str:
        """Return the next message; words if a request needs no call.

        ValueError if the calls cannot be written.
        """
        task = situation.task
        takes_turns = task.is_multi_turn and task.kind != "clarify"
        if not takes_turns or task.extra.get(ONE_CALL_A_STEP):
            return _shown(situation, oracle(situation))
        if situation.step_in_turn == 0:
            turns = oracle_calls(task)
            self._left = list(turns[situation.turn]) if situation.turn < len(turns) else []
            self._look_ups = []
        if not self._left:
            return _shown(situation, DONE)
        offered = [tool["function"]["name"] for tool in situation.tools]
        needed = [prerequisite_lookup(call, situation.heard, offered) for call in self._left]
        look_up = needed[0]
        if look_up is not None and look_up not in self._look_ups:
            self._look_ups.append(look_up)
            return render(situation, [look_up])
        conversation = situation.heard + json.dumps(list(situation.tools), ensure_ascii=False)
        number = 1
        while number < len(self._left) and not needed[number]:
            values = self._left[number].arguments.values()
            words = (word for value in values for word in _words(value))
            if not all(occurs_as_word(word, conversation) for word in words):
                break
            number += 1
        calls, self._left = self._left[:number], self._left[number:]
        return render(situation, calls)


def _shown(situation: PolicyInput, text: str) -> str:
    if text != DONE or situation.step_in_turn:
        return text
    return MISSING_VALUE if situation.task.category.endswith("miss_param") else NO_CALL


def prerequisite_lookup(call: Call, heard: str, offered: Collection[str]) -> Call | None:
    """Return the look-up call that must precede a call; None if no value is missing.

    BFCL's truths know the state of the tools. One who plays them has to ask for what nobody has
    said: demonstrated without a look-up, such a value teaches to guess. A look-up changes no state,
    and verdicts allow more results than the truth's.

    heard: all that users said and tools returned; offered: names of the functions on offer.
    """
    if call.name == "fillFuelTank":
        amount = f"{call.arguments.get('fuelAmount', 0):g}"
        is_known = occurs_as_word(amount, heard) or "fuelLevel" in heard
        look_up = Call("displayCarStatus", {"option": "fuel"})
    else:
        symbol = call.arguments.get("symbol", call.arguments.get("stock"))
        company = COMPANIES.get(symbol) if isinstance(symbol, str) else None
        is_known = company is None or company not in heard or occurs_as_word(str(symbol), heard)
        look_up = Call("get_symbol_by_name", {"name": company})
    return None if is_known or look_up.name not in offered else look_up


def occurs_as_word(word: str, text: str) -> bool:
    """Whether a word or number occurs in a text, not as part of another word."""
    return re.search(rf"(?<![\w.]){re.escape(word)}(?!\w|\.\d)", text) is not None


def _words(value: Any) -> Iterator[str]:
    """Yield the texts of a value's parts, except values that can be guessed: true, false."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _words(item)
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
    elif value is not None and not isinstance(value, bool):
        yield str(value)
