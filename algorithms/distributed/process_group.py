"""Data-parallel process group: sharded work, identical metrics.

Every process has all episodes of an update, each sent once by the process that played it; only work
is sharded: episodes to play and microbatches to pass through the model, both by whole groups. So
minibatches, advantages and whitening equal those of one process, and the rest of communication
consists of sums.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from fctncalling.algorithms.config import SettingError, TrainConfig, resolve_device
from fctncalling.algorithms.distributed.fsdp import FSDP

if TYPE_CHECKING:
    from fctncalling.algorithms.policy.actor_critic import ActorCritic

T = TypeVar("T")

BROADCAST_BLOCK = 2**26  # bytes of a value that are on the device at once
MAX_REDUCE_SIZE = 2**26  # numbers of one sum between processes, 256 MiB in fp32
# how long a process waits for another: a rollout may be far longer on one than on the next
PATIENCE_S = 7200
ONE_ON_A_CPU = (
    "Note: accelerate launch runs one process on a CPU, whatever --num_processes says; "
    "torchrun --nproc_per_node N runs N."
)


class ProcessGroup:
    """Process group, data-parallel: `count` processes, this one being `rank`; default: one."""

    def __init__(
        self,
        rank: int = 0,
        count: int = 1,
        device: torch.device | str = "cpu",
        sharding: FSDP | None = None,
    ) -> None:
        self.rank = rank
        self.count = count
        self.device = torch.device(device)
        self.sharding = sharding  # with FSDP: every process holds a shard of each weight

    @property
    def is_first(self) -> bool:
        """Whether this process is the first (rank 0), which prints and writes files."""
        return self.rank == 0

    def shard_items(self, items: Sequence[T]) -> list[tuple[T, bool]]:
        """Return this rank's shard of items, padded so that all ranks have equally many.

        Padding items have counts false. A pass through sharded weights is a collective operation,
        so no rank may skip one.
        """
        rounds = -(-len(items) // self.count)
        places = range(self.rank, rounds * self.count, self.count)
        return [(items[min(place, len(items) - 1)], place < len(items)) for place in places]

    def fill(
        self,
        figures: Tensor,  # zeros, (N, ...)
        microbatches: Sequence[T],
        run_pass: Callable[[T], tuple[Tensor, Tensor]],  # -> (indices into N, their figures)
    ) -> None:
        """Fill arrays on every rank with the values that all ranks computed for their microbatches.

        A rank with fewer of them repeats a pass and drops its result (see shard_items).
        """
        for microbatch, counts in self.shard_items(microbatches):
            indices, computed = run_pass(microbatch)
            if counts:
                figures[indices] = computed
        self.all_reduce(figures)

    def accumulate_gradients(
        self,
        module: nn.Module,
        microbatches: Sequence[T],
        run_pass: Callable[[T], tuple[Tensor, Tensor]],  # -> (loss to sum, figures (..., n))
        sizes: Sequence[int],
    ) -> Tensor:
        """Accumulate the gradients of all microbatches' losses, on every rank.

        Returns run_pass's figures of all microbatches side by side in their order, (..., sum of
        sizes); `sizes` are the n of all of them.
        """
        own = list[Tensor]()
        for microbatch, counts in self.shard_items(microbatches):
            loss, figures = run_pass(microbatch)
            self.backward(loss, counts=counts)
            own.append(figures)
        self.all_reduce_gradients(module)
        every = own[0].new_zeros(*own[0].shape[:-1], sum(sizes))
        parts = torch.split(every, list(sizes), -1)[self.rank :: self.count]
        for part, figures in zip(parts, own, strict=False):
            part.copy_(figures)
        self.all_reduce(every)
        return every

    def with_equal_accumulation(self, config: TrainConfig) -> TrainConfig:
        """Return the config with equal gradient accumulation in all processes."""
        parts = -(-config.gradient_cp_steps // self.count) * self.count
        return config if self.count == 1 else dataclasses.replace(config, gradient_cp_steps=parts)

    def gather(self, value: T) -> list[T]:
        """Gather a value from every process, by rank."""
        # One after another: no process holds more than one of them packed.
        return [self.broadcast(value, source=rank) for rank in range(self.count)]

    def broadcast(self, value: T, *, source: int = 0) -> T:
        """Broadcast a value: return that of the source, in all processes."""
        if self.count == 1:
            return value
        packed = torch.empty(0, dtype=torch.uint8)
        if self.rank == source:
            buffer = io.BytesIO()
            pickle.dump(value, buffer)
            packed = torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)
        size = torch.tensor(len(packed), device=self.device)
        torch.distributed.broadcast(size, source)
        packed = packed if self.rank == source else packed.new_empty(int(size))
        for block in torch.split(packed, BROADCAST_BLOCK):
            sent = block.to(self.device)
            torch.distributed.broadcast(sent, source)
            block.copy_(sent)
        data: Any = packed.numpy()  # a buffer
        unpacked: T = value if self.rank == source else pickle.loads(data)
        return unpacked

    def sum(self, number: float) -> float:
        """Sum a number over all processes."""
        if self.count == 1:
            return number
        total = torch.tensor(number, dtype=torch.float64, device=self.device)
        self.all_reduce(total)
        return float(total)

    def all_reduce(self, *tensors: Tensor) -> None:
        """All-reduce tensors: replace each by its sum over all processes, in place."""
        for tensor in tensors if self.count > 1 else ():
            torch.distributed.all_reduce(tensor)

    def backward(self, loss: Tensor, *, counts: bool = True) -> None:
        """Run the backward pass of this rank's part of a loss summed over all ranks.

        Zero with counts false.
        """
        loss = loss if counts else 0.0 * loss
        # Sharded gradients are averaged.
        torch.autograd.backward(loss * self.count if self.sharding else loss)

    def all_reduce_gradients(self, module: nn.Module) -> None:
        """All-reduce the gradients of a module: sum them over all processes.

        FSDP has done so already. A gradient that some processes alone have, as of a role's weights
        where the others passed rows of another role, is 0 in theirs.
        """
        if self.count == 1 or self.sharding is not None:
            return
        self._fill_missing_gradients(list(module.parameters()))
        waiting: list[Tensor] = []
        for parameter in module.parameters():
            if parameter.grad is not None:
                waiting.append(parameter.grad)
            if sum(gradient.numel() for gradient in waiting) > MAX_REDUCE_SIZE:
                _all_reduce_together(waiting)
                waiting = []
        if waiting:
            _all_reduce_together(waiting)

    def _fill_missing_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Fill missing gradients with 0 if another process has one."""
        known = torch.tensor([float(it.grad is not None) for it in parameters], device=self.device)
        self.all_reduce(known)
        for parameter, count in zip(parameters, known.tolist(), strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def shard(self, policy: ActorCritic) -> None:
        """Shard the policy's weights with FSDP, if configured."""
        if self.sharding is not None:
            self.sharding.apply(policy)

    @contextlib.contextmanager
    def unsharded(
        self, policy: ActorCritic, rollout_dtype: torch.dtype | None = None
    ) -> Iterator[ActorCritic]:
        """Context manager: the policy unsharded, for saving, or a rollout in a dtype.

        A collective operation.
        """
        if self.sharding is None:
            yield policy
            return
        with self.sharding.unsharded_copy(policy, self.device, rollout_dtype) as gathered:
            yield gathered

    def __str__(self) -> str:
        shards = ", each with a part of every weight (FSDP)" if self.sharding is not None else ""
        return f"{self.count} process{'es' if self.count > 1 else ''} on {self.device.type}{shards}"


SINGLE_PROCESS = ProcessGroup()


def init_process_group(device: str = "auto", *, fsdp: bool = False) -> ProcessGroup:
    """Initialise the process group under torchrun or accelerate launch; else return one process.

    SettingError where --fsdp or accelerate's configuration asks for something unsupported.
    """
    chosen = resolve_device(device)
    wants_fsdp = fsdp or os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        if wants_fsdp:
            raise SettingError(
                "--fsdp: one process has no one to share its weights with; start several with "
                "torchrun"
            )
        return ProcessGroup(device=chosen)
    from datetime import timedelta

    from accelerate import PartialState  # type: ignore[import-untyped]

    # transformers would leave the weights of all processes but the first empty; each is to read its
    # own.
    os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
    threads = torch.get_num_threads()
    state = PartialState(cpu=chosen.type == "cpu", timeout=timedelta(seconds=PATIENCE_S))
    torch.set_num_threads(threads)
    sharding = FSDP.from_environment() if wants_fsdp else None
    # Each its own accelerator.
    own = chosen if chosen.type == "cpu" else torch.device(str(state.device))
    return ProcessGroup(state.process_index, state.num_processes, own, sharding)


def launch_warning(processes: ProcessGroup) -> str | None:
    """Return a launch warning, if the processes were launched in a doubtful way.

    None where there is nothing.
    """
    launched = any(name.startswith("ACCELERATE_") for name in os.environ)
    if launched and processes.count == 1 and processes.device.type == "cpu":
        return ONE_ON_A_CPU
    return None


def _all_reduce_together(tensors: list[Tensor]) -> None:
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    torch.distributed.all_reduce(flat)
    for tensor, part in zip(
        tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True
    ):
        tensor.copy_(part.view_as(tensor))
