"""Section of gpu.py: a whole round, its answers scripted, as random weights never end one."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import torch
from on_gpu.machine import Figures, Machine, kernel_figures, make_policy
from torch import Tensor
from torch.profiler import ProfilerActivity, profile


def scripted_engine(machine: Machine, policy: Any, template: Any, tasks: dict[str, Any]) -> Any:
    """Return an engine that computes all and answers with the truth: random weights never end."""
    from fctncalling.algorithms.generation import engine as engine_module
    from fctncalling.evaluation.agents.agent import ScriptedPlayer
    from fctncalling.training.demonstrations import DONE, GroundTruthPolicy

    scripts: dict[int, deque[int]] = {}
    players: dict[int, ScriptedPlayer] = {}
    sampled, end = engine_module._sample, next(iter(template.stop_ids))

    class ScriptedSampling(engine_module.GenerationEngine):
        passes = 0
        profiler: Any = None
        figures: dict[str, Any] | None = None

        def submit(self, request: Any) -> None:
            if not (request.turn or request.step_in_turn):
                task = tasks[request.task_id]
                players[request.slot] = ScriptedPlayer(GroundTruthPolicy(), task, "", DONE)
            text = players[request.slot].answer("", request.info)
            scripts[request.slot] = deque([*template.encode(text), end])
            super().submit(request)

        def _sample(self, rows: Any, logits: Tensor) -> None:
            found = sampled(rows, logits)
            said = [scripts[slot.number].popleft() if slot else 0 for slot in rows]
            found = found._replace(tokens=torch.tensor(said, device=logits.device))
            engine_module._sample = lambda *_: found
            super()._sample(rows, logits)
            self._watch()

        def _watch(self) -> None:
            """Profile some consecutive passes in the middle of the round."""
            self.passes += 1
            if self.passes == machine.sizes.busy_passes and machine.device.type == "cuda":
                machine.wait()
                self.profiler = profile(activities=[ProfilerActivity.CUDA])
                self.profiler.__enter__()
                self.started = time.perf_counter()
            elif self.passes == 2 * machine.sizes.busy_passes and self.profiler is not None:
                machine.wait()
                wall = time.perf_counter() - self.started
                self.profiler.__exit__(None, None, None)
                self.figures = kernel_figures(self.profiler, wall)

    return ScriptedSampling(
        policy.model, template.stop_ids, max_new_tokens=512, decode=template.decode
    )


def whole_round(machine: Machine) -> Figures:
    """A round of multi-turn tasks, answers scripted: seconds, and how long the device works."""
    from transformers import AutoTokenizer

    from fctncalling.algorithms.generation import engine as engine_module
    from fctncalling.algorithms.policy.chat_template import PLAIN_TEMPLATE, ChatTemplate
    from fctncalling.algorithms.run.interruption import Interruption
    from fctncalling.data.bfcl import embedded_path, load_tasks
    from fctncalling.envs.function_calling import FunctionCallingEnv
    from fctncalling.training.rollouts.rollout_backends import LocalRollout, RolloutRound

    count, group = machine.sizes.episodes, machine.sizes.prefill[1]
    every = load_tasks(embedded_path("train.json"))
    tasks = [task for task in every if task.id.startswith("multi_turn_base")][: count // group]
    tokenizer = AutoTokenizer.from_pretrained(str(embedded_path("model")))
    tokenizer.chat_template = PLAIN_TEMPLATE  # which shows the functions, as larger models need
    template = ChatTemplate(tokenizer)
    config, policy = make_policy(
        machine, n_rollout_threads=count, max_episode_tokens=32_000, group_size=group
    )
    engines = list[Any]()

    def make_engine(policy: Any, _: Any) -> Any:
        by_id = {task.id: task for task in tasks}
        engines.append(scripted_engine(machine, policy, template, by_id))
        return engines[-1]

    make_env = lambda: FunctionCallingEnv(tasks=tasks)  # noqa: E731
    rollout = LocalRollout(config, policy, template, make_env, make_engine=make_engine)
    ids = tuple(task.id for task in tasks for _ in range(group))
    original = engine_module._sample
    try:
        started = time.perf_counter()
        played = rollout.play(RolloutRound(ids, 0, 1.0, 0, group), Interruption())
        spent = time.perf_counter() - started
    finally:
        engine_module._sample = original
        rollout.close()
    yield {
        "what": f"round of {len(ids)} multi-turn episodes, answers scripted",
        "value": spent,
        "unit": "s",
        "solved": sum(bool(episode.success) for episode in played.episodes),
        "sampled_tokens": played.sampled_tokens,
        "forward_tokens": played.forward_tokens,
        **(engines[-1].figures or {}),
    }
