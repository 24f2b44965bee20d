"""Playing the episodes of a run: tasks streamed in, several at once, each written when it ends."""

from __future__ import annotations

import argparse
import difflib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from fctncalling.algorithms.config.template_kwargs import parse_template_kwargs
from fctncalling.cli.run.output_file import OutputFile, require_new_output
from fctncalling.cli.run.planned_tasks import RunTasks
from fctncalling.cli.shared.jsonl_records import InputError, Record
from fctncalling.cli.shared.tool_flags import TaskTools
from fctncalling.data.format_sensitivity import CATEGORY
from fctncalling.data.paths import is_stream
from fctncalling.envs.judging.judge import judge
from fctncalling.evaluation.agents.agent import (
    INFERENCE_ERROR,
    SCRIPTED,
    AgentSetupError,
    PlayedEpisode,
    ScriptedAgent,
    as_tool_calls,
)
from fctncalling.evaluation.agents.endpoint import EndpointAgent, EndpointSettings
from fctncalling.evaluation.agents.local_model import (
    LocalModel,
    LocalSettings,
    PlannedTask,
    require_model_folder,
)
from fctncalling.evaluation.episode_log import (
    dataclass_to_json,
    episode_json,
    episode_response,
    play_episode,
    verdict_fields,
)
from fctncalling.progress_bar import Stage

Item = TypeVar("Item")
Result = TypeVar("Result")


class DaemonThreadPool(Generic[Item, Result]):
    """Pool of daemon threads that apply a function to items.

    An interrupted run does not wait for requests in flight.
    """

    def __init__(self, count: int, work: Callable[[Item], Result]) -> None:
        self.stopped = threading.Event()
        self._count = count
        self._work = work
        self._queue = SimpleQueue[Item]()
        self._ended = SimpleQueue[Result | BaseException]()
        # Items asked and not yet taken; one more for each thread at the end.
        self._free = threading.Semaphore(0)

    def results(self, items: Iterable[Item]) -> Iterator[Result]:
        """Yield results in order of completion, reading items a little ahead.

        Re-raises errors of `work`.
        """
        for _ in range(self._count):
            threading.Thread(target=self._run, daemon=True).start()
        under_way = 0
        for item in items:
            self._queue.put(item)
            self._free.release()
            under_way += 1
            if under_way >= 2 * self._count:
                yield self._next()
                under_way -= 1
        for _ in range(under_way):
            yield self._next()

    def stop(self) -> list[Result]:
        """Stop: start no more items; return the finished results not yielded yet."""
        self.stopped.set()
        self._free.release(self._count)
        ended: list[Result] = []
        while True:
            try:
                result = self._ended.get_nowait()
            except Empty:
                return ended
            if not isinstance(result, BaseException):
                ended.append(result)

    def _next(self) -> Result:
        result = self._ended.get()
        if isinstance(result, BaseException):
            raise result
        return result

    def _run(self) -> None:
        while self._free.acquire() and not self.stopped.is_set():
            try:
                self._ended.put(self._work(self._queue.get()))
            except BaseException as error:  # handed to who waits for results
                self._ended.put(error)


CHUNK = 256
"""Episodes of one handler that a local model is given at a time."""
_AT_LEAST = {
    **dict.fromkeys(("limit", "num_samples", "concurrency", "max_steps_per_turn"), 1),
    **dict.fromkeys(("max_new_tokens", "max_episode_tokens", "torch_threads", "max_invalid"), 1),
    **dict.fromkeys(("temperature", "timeout_s", "retries", "retry_wait_s"), 0),
}
"""Name of a setting -> its least value; None, where it may be left out, is none."""


class Runner:
    """Runner of the subcommand `run`: plays tasks with the agent of the arguments.

    Raises AgentSetupError and InputError.

    What is cheap to check is checked first: arguments, the output, the first task of every file;
    then the agent is made. A local model is loaded when its first episode is due.
    """

    def __init__(self, args: argparse.Namespace, categories: list[str]) -> None:
        _require_sound(args, categories)
        self._args = args
        self._tools = TaskTools(args)
        require_new_output(args.output, resume=args.resume)
        self._tasks = RunTasks(args, categories, self._tools)
        self._tasks.check()
        self._workers = DaemonThreadPool(args.concurrency, self._one)
        self._local = None
        self._agent = None
        kind, _, name = args.agent.partition(":")
        if kind == "hf":
            self._local = _local_model(args, name)
            print(f"Call form: {self._local.call_form.line}.", file=sys.stderr)
        else:
            self._agent = _agent(args, kind, name)
        self.form: str = self._local.form if self._local else args.form or "prompting"
        if args.prompt_style != "bfcl" and self.form != "prompting":
            raise InputError(
                f"--prompt_style {args.prompt_style}: the functions of --form {self.form} stand in "
                "no prompt: pass --form prompting"
            )
        self._own_handler = ""
        if self._local is not None and self.form == "tool_call":
            self._own_handler = self._local.call_form.handler_name
        self.model: str = self._local.name if self._local else name or args.agent
        self.settings = {
            "model": args.agent,
            "form": self.form,
            "prompt_style": args.prompt_style,
            "max_steps_per_turn": args.max_steps_per_turn,
            **{
                name: given
                for name in ("user", "chat_template", "chat_template_kwargs")
                if (given := getattr(args, name)) is not None
            },
        }

    def play(self, output: OutputFile) -> str:
        """Play the episodes missing from the output; return why the run ended early, or "".

        Raises setup errors.
        """
        items = self._tasks.planned_tasks(
            self.form,
            own_handler=self._own_handler,
            is_done=output.is_done,
        )
        stage = Stage(self._args.agent, unit="episode", lines_to=sys.stderr)
        lines = self._local_lines(items) if self._local else self._workers.results(items)
        failed_in_a_row = 0
        try:
            with stage:
                for line in lines:
                    output.write(line)
                    stage.count()
                    failed_in_a_row = failed_in_a_row + 1 if line["invalid"] else 0
                    if failed_in_a_row >= self._args.max_invalid:
                        return (
                            f"{failed_in_a_row} episodes in a row are invalid; the last: "
                            f"{line['invalid_reason']}"
                        )
        except KeyboardInterrupt:
            return "Interrupted"
        finally:  # after Ctrl-C, too: what ended is kept, what is under way is not waited for
            for line in self._workers.stop():
                if not line["invalid"]:
                    output.write(line)
        return ""

    def close(self) -> None:
        """Close the agent's connections and the MCP servers."""
        self._tools.close()
        if self._agent is not None:
            self._agent.close()

    def _one(self, item: PlannedTask) -> dict[str, Any]:
        assert self._agent is not None
        started, seed = time.perf_counter(), self._args.seed + item.sample
        env = self._tasks.make_env((item.task,), item.handler)
        player = _Interruptible(
            self._agent.make_player(item.task, item.handler, seed), self._workers.stopped
        )
        played = play_episode(env, item.task.id, player, seed)
        return self._line(item, played, {"latency": time.perf_counter() - started})

    def _local_lines(self, items: Iterator[PlannedTask]) -> Iterator[dict[str, Any]]:
        assert self._local is not None
        for (handler, _), group in groupby(items, lambda item: (item.handler, item.category)):
            make_env = partial(self._tasks.make_env, handler=handler)
            while chunk := list(islice(group, CHUNK)):
                for item, played in self._local.play_all(chunk, make_env):
                    yield self._line(item, played, {})

    def _line(
        self, item: PlannedTask, played: PlayedEpisode, more: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the line of a played episode, for the output; `more` precedes the answer."""
        steps, episode = played.episode.steps, played.episode
        task = item.task
        line: Record = {"category": item.category, "id": task.id, "handler": item.handler}
        line |= ({"sample": item.sample} if self._args.num_samples > 1 else {}) | more
        line |= {"dataset_path": item.dataset_path} if item.dataset_path else {}
        line["ground_truth"] = task.ground_truth
        if episode.invalid:
            return {**line, "response": None, **episode_json(played)}
        response = episode_response(task, steps)
        if played.failure:
            response = f"{INFERENCE_ERROR}{played.failure}"
        elif self.form != "prompting" and item.handler != "tool_calls":  # the model's own form
            calls = {step.text: tuple(step.calls) for step in steps}
            response = as_tool_calls(response, calls)
        verdict = episode.verdict
        if verdict is None:  # cut by a budget: what there is, is judged as `score` will judge it
            judged_form = "prompting" if self.form == "prompting" else "tool_call"
            classes = self._tools.classes_for((task,), "tasks")
            verdict = judge(task, response, judged_form, extra_tools=dict(classes))
        verdicts = verdict_fields(task, steps, verdict)
        if played.failure:
            # BFCL judges the error text as the answer: a failure everywhere but where no call is
            # expected. The strict verdict fails it there, too.
            failed = {"strict_valid": False, "strict_error_type": played.failure, "progress": 0.0}
            verdicts |= failed if verdict.valid else {**failed, "error_type": played.failure}
        verdicts["verdict"] = dataclass_to_json(episode.verdict) if episode.verdict else None
        return {**line, "response": response, **verdicts, **episode_json(played)}


class _Interruptible:
    def __init__(self, player: Any, given_up: threading.Event) -> None:
        self._player = player
        self._given_up = given_up

    def answer(self, observation: str, info: Any) -> str:
        if self._given_up.is_set():
            raise KeyboardInterrupt
        text: str = self._player.answer(observation, info)
        return text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)


def _require_sound(args: argparse.Namespace, categories: list[str]) -> None:
    """Raise InputError or AgentSetupError for invalid or conflicting arguments."""
    for name, least in _AT_LEAST.items():
        given = getattr(args, name)
        if given is not None and not given >= least:  # not a number, too
            raise InputError(f"--{name}: got {given}, expected at least {least}")
    if args.form not in (None, "prompting") and CATEGORY in categories:
        raise InputError(
            f'--form {args.form}: {CATEGORY} varies the prompt, so its one form is "prompting"'
        )
    kind, _, name = args.agent.partition(":")
    scripted = kind in SCRIPTED and not name
    if args.chat_template is not None and kind != "hf":
        raise InputError("--chat_template: is for --agent hf:FOLDER; a server has its own")
    if args.chat_template_kwargs is not None and scripted:
        raise InputError(f"--chat_template_kwargs: is for models, and {kind} is a script")
    if not scripted and (kind not in ("hf", "openai") or not name):
        known = (*SCRIPTED, "hf:FOLDER", "openai:MODEL")
        near = difflib.get_close_matches(kind, [each.partition(":")[0] for each in known], n=1)
        hint = f"; is {near[0]} meant?" if near else ""
        fault = f'no agent is called "{args.agent}": expected one of {", ".join(known)}{hint}'
        raise AgentSetupError(f"--agent: {fault}")
    if kind == "hf":
        require_model_folder(name)
    if scripted and args.form == "tools_text":
        raise InputError(f"--form tools_text: is for models, and {kind} is a script")
    if args.num_samples > 1 and not scripted and not args.temperature:
        raise InputError(
            f"--num_samples {args.num_samples}: at --temperature 0 all samples are alike: "
            "pass --temperature 0.7, say"
        )
    if args.result_dir and is_stream(args.output):
        raise InputError(f"--result_dir: is made of --output, and {args.output} is no file")
    if args.num_samples > 1 and args.result_dir:
        raise InputError(
            "--result_dir: BFCL's result tree holds one answer a task: no --num_samples"
        )


def _agent(args: argparse.Namespace, kind: str, name: str) -> ScriptedAgent | EndpointAgent:
    if kind in SCRIPTED:
        return ScriptedAgent(kind)
    return EndpointAgent(
        EndpointSettings(
            name,
            form=args.form or "prompting",
            max_tokens=args.max_new_tokens,
            chat_template_kwargs=parse_template_kwargs(args.chat_template_kwargs),
            first_wait_s=args.retry_wait_s,
            **_named(args, "base_url api_key_env temperature timeout_s retries"),
        )
    )


def _local_model(args: argparse.Namespace, folder: str) -> LocalModel:
    names = "chat_template chat_template_kwargs temperature max_episode_tokens seed device"
    return LocalModel(
        LocalSettings(
            folder,
            form="tool_call" if args.form == "tools_text" else args.form or "",
            max_new_tokens=args.max_new_tokens or 256,
            num_envs=args.concurrency,
            **_named(args, f"{names} compute_dtype torch_threads"),
        )
    )


def _named(args: argparse.Namespace, names: str) -> dict[str, Any]:
    return {name: getattr(args, name) for name in names.split()}
