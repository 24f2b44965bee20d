"""The machine that gpu.py measures: sizes, clock, kernels, and models made on the spot."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

Figures = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model and the measurements."""

    hidden: int = 1536
    layers: int = 28
    heads: int = 12
    kv_heads: int = 2
    inner: int = 8960
    vocabulary: int = 151_936
    copied: int = 2**31  # bytes
    product_rows: int = 8192
    head_rows: tuple[int, ...] = (110, 2048)
    # batch x context, the most telling first
    decodes: tuple[tuple[int, int], ...] = (
        *((8, 1500), (64, 1500), (1, 300), (8, 300), (64, 300), (64, 6000), (1, 6000)),
        *((128, 300), (8, 6000), (1, 1500), (32, 1500), (128, 1500), (32, 300), (32, 6000)),
    )
    steps: int = 48
    prefill: tuple[int, int, int] = (64, 8, 2000)  # rows, rows of a group, tokens
    later_turn: tuple[int, int, int] = (16, 512, 4096)  # rows, new tokens, tokens before
    update: tuple[int, int, int] = (16, 8, 4096)  # rows, rows of a group, tokens, a quarter acted
    microbatch: int = 8192
    episodes: int = 64
    busy_passes: int = 60  # of a round, that are profiled


SMALL = Sizes(
    *(32, 2, 4, 2, 64, 2048, 2**16, 64, (4,), ((1, 8), (2, 8)), 4, (4, 2, 20), (2, 4, 8)),
    *((4, 2, 32), 64, 4, 4),
)


@dataclass
class Machine:
    """Machine: device, measured speeds, and the time limit of a section."""

    device: torch.device
    sizes: Sizes
    card: str
    bandwidth: float = float("nan")  # bytes a second, as measured
    flops: float = float("nan")  # a second, of bf16 products
    until: float = float("inf")

    def has_time(self, seconds: float) -> bool:
        """Whether a measure of so many seconds still fits into the section."""
        return time.perf_counter() + seconds < self.until

    def wait(self) -> None:
        """Wait until the device is idle."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, work: Callable[[], Any], *, times: int = 1, warm: int = 1) -> float:
        """Return the seconds that one call takes, the mean of some after warm ones."""
        for _ in range(warm):
            work()
        self.wait()
        started = time.perf_counter()
        for _ in range(times):
            work()
        self.wait()
        return (time.perf_counter() - started) / times

    def peak_gb(self, work: Callable[[], Any]) -> float | None:
        """Return the peak GB that work() adds on the device."""
        if self.device.type != "cuda":
            work()
            return None
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return round((torch.cuda.max_memory_allocated() - before) / 1e9, 3)

    def kernels(self, work: Callable[[], Any]) -> dict[str, Any]:
        """Return the kernels of work(): number, share of the time that one runs, the longest."""
        activities = [ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities = [ProfilerActivity.CUDA]
        self.wait()
        started = time.perf_counter()
        with profile(activities=activities) as profiler:
            work()
            self.wait()
            wall = time.perf_counter() - started
        return kernel_figures(profiler, wall)

    def randn(self, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        """Return random numbers on the device."""
        return torch.randn(*shape, device=self.device, dtype=dtype)


def kernel_figures(profiler: Any, wall: float) -> dict[str, Any]:
    """Return number and share of the wall time of a profile's kernels, and the longest by name."""
    by_name: dict[str, float] = {}
    ran = [each for each in profiler.events() if "CUDA" in str(each.device_type)]
    for event in ran:
        spent = event.time_range.elapsed_us() / 1e6
        by_name[event.name] = by_name.get(event.name, 0.0) + spent
    longest = sorted(by_name, key=lambda name: -by_name[name])[:5]
    return {
        "kernels": len(ran),
        "device_busy_share": sum(by_name.values()) / wall,
        "longest_kernels": {name[:60]: round(by_name[name] / wall, 3) for name in longest},
    }


def tried(what: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a measure, or the error that it ended in, such as too little memory."""
    try:
        return {"what": what, **measure()}
    except RuntimeError as error:
        return {"what": what, "error": str(error).splitlines()[0][:200]}


def make_model(machine: Machine, dtype: torch.dtype) -> Any:
    """Return a random model of the sizes."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    sizes = machine.sizes
    shape = Qwen2Config(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        intermediate_size=sizes.inner,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    with torch.device(machine.device):
        return AutoModelForCausalLM.from_config(shape, dtype=dtype).eval()


def make_policy(machine: Machine, **settings: Any) -> tuple[Any, Any]:
    """Return settings and a random policy of the sizes, as `train` would configure it."""
    from fctncalling.algorithms.config import TrainConfig
    from fctncalling.algorithms.policy.actor_critic import ActorCritic
    from fctncalling.algorithms.policy.precision import weights_dtype
    from fctncalling.training.load_policy import configure_policy

    config = TrainConfig(
        critic="head",
        target_kl=None,
        num_mini_batch=1,
        ppo_epoch=1,
        max_microbatch_tokens=machine.sizes.microbatch,
        **{"device": machine.device.type, "compute_dtype": "bfloat16"} | settings,
    )
    model = make_model(machine, weights_dtype(config, machine.device))
    policy = ActorCritic(model, **config.critic_shape)
    configure_policy(policy, config, None, machine.device)
    return config, policy.to(machine.device).eval()


def num_parameters(policy: Any) -> int:
    """Return the parameters of the policy's language model."""
    return sum(weight.numel() for weight in policy.model.parameters())


@contextlib.contextmanager
def tf32(*, on: bool) -> Iterator[None]:
    """Context manager: products of fp32 in TF32, or not."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
