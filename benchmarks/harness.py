"""Shared parts of the benchmarks: child processes, CPU seconds, random models and episodes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from fctncalling.algorithms.episodes import EpisodeRecord

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class LineProcess:
    """Child process on one thread that answers each JSON line on its stdin with one on stdout."""

    def __init__(self, command: Sequence[str | Path], **variables: str) -> None:
        """variables: environment variables added to those of this process."""
        self._name = " ".join(map(str, command[:2]))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | ONE_THREAD | variables,
        )

    def ask(self, question: Any = None) -> Any:
        """Return the answer to a line; SystemExit if the process ends instead."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        if not (answer := self._process.stdout.readline()):
            status = self._process.wait()
            raise SystemExit(f"{self._name} ended with status {status}; its message is above")
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def random_llama(
    *, hidden: int, layers: int, vocabulary: int, heads: int = 4, **config: Any
) -> Any:
    """Make a random Llama model, by default of the embedded model's proportions."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": hidden * 13 // 6,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 1,
    }
    return LlamaForCausalLM(LlamaConfig(**shape | config)).eval()


def token_episode(
    ids: Sequence[int], acted: Sequence[bool], reward: float, task_id: str, **fields: Any
) -> EpisodeRecord:
    """Make an episode of one row; each run of acted tokens is an action, the last is rewarded."""
    from fctncalling.algorithms.episodes import EpisodeRecord, TokenRecord

    is_last = [this and not after for this, after in zip(acted, [*acted[1:], False], strict=True)]
    row = TokenRecord(
        ids=list(ids),
        acted=list(acted),
        ends_action=is_last,
        rollout_logprobs=[0.0] * len(ids),
        rewards=[0.0] * (len(ids) - 1) + [reward],
    )
    outcome: Mapping[str, Any] = {"terminated": True, "episode_return": reward, **fields}
    return EpisodeRecord(task_id, "random", [row], **outcome)


def random_ids(count: int, vocabulary: int, generator: Any) -> list[int]:
    """Draw token ids, except 0 and 1, which pad and end."""
    import torch

    ids: list[int] = torch.randint(2, vocabulary, (count,), generator=generator).tolist()
    return ids
