"""What each of two processes does, for test_processes.py: `python two_processes.py FOLDER CASE
...`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from token_worlds import settings, some_episodes, tiny_policy
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fctncalling.algorithms.batch import build_experience
from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.distributed.fsdp import (
    FSDP,
    full_state_dict,
    full_tensor,
    load_full_state_dict,
)
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.episodes import EpisodeRecord
from fctncalling.algorithms.generation import fused_decoder
from fctncalling.algorithms.generation.engine import GenerationEngine, Request
from fctncalling.algorithms.minibatches import Passes
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.precision import set_compute_dtype
from fctncalling.algorithms.ppo import ALGORITHMS, accumulate_gradients, make_optimisers, update
from fctncalling.algorithms.run.checkpoint import load_state, save_checkpoint
from fctncalling.algorithms.supervised import SupervisedLearner
from fctncalling.algorithms.targets import compute_targets
from fctncalling.algorithms.vllm import weights
from fctncalling.algorithms.vllm.weights import write_model

# Three or more microbatches of unequal length to a step: one process always has more of them than
# the other.
SPLIT = {
    "max_microbatch_tokens": 40,
    "ppo_epoch": 2,
    "num_mini_batch": 2,
    "lr": 1e-3,
    "critic_lr": 1e-3,
}
CASES: dict[str, dict[str, Any]] = {
    "whole model": {},
    "row means, huber": {"loss_aggregation": "row_mean", "huber_delta": 0.5},
    # With a guard: its trial passes have no gradients.
    "adapters": {
        "lora_r": 2,
        "critic": "lora",
        "kl_coef": 0.1,
        "kl_mode": "k2",
        "target_kl": 1.0,
    },
    "critic's own model": {"critic": "full", "algorithm_name": "APPO"},
    "layers computed again": {"gradient_checkpointing": True, "critic": "full"},
    "groups": {"algorithm_name": "GRPO", "group_size": 4, "kl_coef": 0.1},
    "roles": {"lora_r": 2, "role_adapters": True, "team_critic": "per_role"},
}
ROLES = ("a", "b")
UNSHARDED = ("roles",)  # cases that FSDP does not go with


class CollectiveCounter(TorchDispatchMode):
    """Counts collective operations: those in which this process waits for the other."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "c10d" in func.namespace:
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


def config_of(case: str) -> TrainConfig:
    return settings(**SPLIT | CASES[case])


def policy_of(config: TrainConfig) -> ActorCritic:
    """Return the policy that every process starts with."""
    roles = ROLES if config.roles_have_own_weights else ()
    policy = tiny_policy(critic_head="linear", critic_roles=roles).eval()
    for role in roles or ("",):
        nn.init.normal_(policy.value_head.head_of_role(role).out.weight, std=0.3)
    if config.critic == "full":
        policy.add_critic_model()
    if config.lora_r:
        policy.add_lora(r=config.lora_r, alpha=4.0, critic=config.critic == "lora", roles=roles)
    elif config.kl_coef:
        policy.set_reference(tiny_policy(1).model)
    return policy


def episodes_of(config: TrainConfig) -> list[EpisodeRecord]:
    """Return episodes of one to five actions; in groups of four a task."""
    episodes = some_episodes(tiny_policy(), 12)
    for number, episode in enumerate(episodes):
        episode.task_id = f"task_{number // 4}"
        episode.role = ROLES[number % 2] if config.roles_have_own_weights else ""
    return episodes


def gradients(case: str, processes: ProcessGroup) -> dict[str, Tensor]:
    """Return the gradient of every weight that learns, whole, of the first minibatch."""
    config = processes.with_equal_accumulation(config_of(case))
    policy, generator = policy_of(config), torch.Generator().manual_seed(0)
    processes.shard(policy)
    passes = Passes(build_experience(episodes_of(config), torch.device("cpu")), config)
    plan = passes.minibatches(generator)
    algorithm = ALGORITHMS[config.algorithm_name]
    targets = compute_targets(policy, passes, plan, algorithm, config, generator, processes)
    shift = 0.3 * torch.sin(
        torch.arange(len(targets.old_logprobs))
    )  # ratios on both sides of the clip range
    targets = targets._replace(old_logprobs=targets.old_logprobs + shift)
    accumulate_gradients(policy, passes, targets, plan[0], algorithm, config, processes)
    return {
        name: full_tensor(weight.grad)
        for name, weight in policy.named_parameters()
        if weight.grad is not None
    }


def learned(case: str, processes: ProcessGroup, num_updates: int = 2) -> dict[str, Any]:
    """Return the weights, whole, and the metrics after some updates."""
    config = config_of(case)
    policy = policy_of(config)
    processes.shard(policy)
    optimisers = make_optimisers(policy, config)
    metrics = [
        _update(policy, optimisers, config, number, processes) for number in range(num_updates)
    ]
    return {"weights": _weights(policy), "metrics": metrics}


def resumed(folder: Path, processes: ProcessGroup) -> dict[str, Any]:
    """Return what `learned` does, where a checkpoint of the first update was written, read and gone
    on from.
    """
    config = config_of("whole model")
    policy = policy_of(config)
    processes.shard(policy)
    optimisers = make_optimisers(policy, config)
    first = _update(policy, optimisers, config, 0, processes)
    state = {name: full_state_dict(optimiser) for name, optimiser in optimisers._asdict().items()}
    with processes.unsharded(policy) as whole:
        if processes.is_first:
            save_checkpoint(folder, "update_000001", policy=whole, state={"optimisers": state})
    processes.gather(None)  # the others wait for the files
    policy = ActorCritic.load(folder / "update_000001", critic_head="linear").eval()
    processes.shard(policy)
    optimisers = make_optimisers(policy, config)
    saved = load_state(folder / "update_000001")["optimisers"]
    for name, optimiser in optimisers._asdict().items():
        load_full_state_dict(optimiser, saved[name])
    return {
        "metrics": [first, _update(policy, optimisers, config, 1, processes)],
        "weights": _weights(policy),
    }


def handed_over(folder: Path, processes: ProcessGroup) -> dict[str, Tensor]:
    """Return the whole weights of a sharded model, which the first process has written to a
    folder.
    """
    weights.FILE_BYTES = 1000  # so that there are several files
    policy = policy_of(config_of("whole model"))
    processes.shard(policy)
    if processes.is_first:
        folder.mkdir()
    write_model(policy.model, folder if processes.is_first else None)
    return {name: it.clone() for name, it in _weights(policy).items() if "value_head" not in name}


def gathered(processes: ProcessGroup) -> dict[str, Any]:
    """Return what a sharded model samples in bf16 with weights gathered whole, and in bf16.

    Of the latter, too, its weights' dtypes and names, and what its own modules sample.
    """
    policy = policy_of(config_of("adapters"))
    set_compute_dtype(policy.model, torch.bfloat16, torch.device("cpu"))
    processes.shard(policy)
    sampled, most = dict[str, Any](), fused_decoder.MAX_FUSED_PARAMETERS
    for name, dtype in (("whole", None), ("bf16", torch.bfloat16), ("modules", torch.bfloat16)):
        fused_decoder.MAX_FUSED_PARAMETERS = 0 if name == "modules" else most
        with processes.unsharded(policy, dtype) as copy:
            engine = GenerationEngine(copy.model, [], max_new_tokens=8)
            engine.allocate_slots(3)
            requests = [Request(slot, [1 + slot, 5, 9, 2]) for slot in range(3)]
            sampled[name] = [(it.ids, it.logprobs) for it in engine.generate(requests)]
            weights = {n: it.dtype for n, it in copy.named_parameters() if it.numel()}
    fused_decoder.MAX_FUSED_PARAMETERS = most
    return {**sampled, "dtypes": weights}


def supervised(processes: ProcessGroup) -> dict[str, Any]:
    """Return the weights, whole, and the metrics of a supervised stage with a state saved and
    loaded in its middle.
    """
    stage = {"sft_tasks": "dataset", "sft_epochs": 2, "sft_batch_size": 5, "sft_lr": 1e-3}
    config = settings(max_microbatch_tokens=40, **stage)
    policy = policy_of(config)
    processes.shard(policy)
    shown, metrics = episodes_of(config), list[dict[str, float]]()
    learner = SupervisedLearner(policy, shown, config, processes)
    while not learner.is_over:
        if learner.steps == 2:
            state = learner.state()
            learner = SupervisedLearner(policy, shown, config, processes)
            learner.load_state(state)
        metrics.append(learner.compute_gradient() | learner.take_step())
    return {"weights": _weights(policy), "metrics": metrics}


def _update(
    policy: ActorCritic, optimisers: Any, config: TrainConfig, number: int, processes: ProcessGroup
) -> dict[str, float]:
    generator = torch.Generator().manual_seed(number)
    return update(policy, optimisers, episodes_of(config), config, generator, processes)


def _weights(policy: ActorCritic) -> dict[str, Tensor]:
    return {
        name: full_tensor(weight.detach()).clone() for name, weight in policy.named_parameters()
    }


def work(rank: int, folder: Path, cases: list[str]) -> None:
    """Meet the other process and write what this one came to."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    found: dict[str, Any] = {}
    for kind in ("data parallel", "sharded"):
        processes = ProcessGroup(
            rank, 2, "cpu", FSDP.from_environment() if kind == "sharded" else None
        )
        for case in (case for case in cases if kind != "sharded" or case not in UNSHARDED):
            with CollectiveCounter() as collectives:
                found[kind, case] = learned(case, processes)
            found[kind, case]["collectives"] = dict(collectives.counts)
            found[kind, case]["gradients"] = gradients(case, processes)
        found[kind, "supervised"] = supervised(processes)
        found[kind, "resumed"] = resumed(folder / kind, processes)
    found["gathered"] = gathered(processes)
    found["handed over"] = handed_over(folder / "handed over", processes)
    found["folder"] = str(folder / "handed over")
    torch.save(found, folder / f"found_{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    # Slow imports happen once, and no backward pass: torch would not make one after a fork.
    import torch.distributed.fsdp
    import torch.distributed.tensor

    policy_of(config_of("adapters"))
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work(rank, Path(sys.argv[1]), sys.argv[2:])
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
