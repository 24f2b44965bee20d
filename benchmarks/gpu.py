"""Profile of a GPU in at most five minutes: `python benchmarks/gpu.py`.

It needs torch, transformers and peft, no network and no weights: a model of Qwen2.5-1.5B's shape is
made on the spot. The section `round` needs gymnasium and jsonschema, too. Each figure is one JSON
line, printed at once, in order of worth, with the card that it was measured on; so a run that is
cut leaves the rest. A section has a budget of seconds, and one that fails says so in one line. On a
CPU everything is small: it shows that the sections run, no speed.

  python benchmarks/gpu.py
  python benchmarks/gpu.py --only roofs,decode --seconds 120
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
from on_gpu.generation import decode, peers, prefill
from on_gpu.learning import learning, mismatch
from on_gpu.machine import SMALL, Figures, Machine, Sizes, tf32
from on_gpu.scripted_round import whole_round

sys.path.insert(0, str(Path(__file__).parents[1]))  # where nothing is installed
if importlib.util.find_spec("gymnasium") is None:  # all sections but `round` do without
    sys.modules["gymnasium"] = MagicMock()


def roofs(machine: Machine) -> Figures:
    """What the machine can do: a copy, a product of a layer, products of the output layer."""
    sizes = machine.sizes
    source = torch.empty(sizes.copied, dtype=torch.uint8, device=machine.device)
    target = torch.empty_like(source)
    spent = machine.seconds(lambda to=target, source=source: to.copy_(source), times=10)
    machine.bandwidth = 2 * sizes.copied / spent  # read and written
    yield {"what": "copy", "value": machine.bandwidth / 1e12, "unit": "TB/s"}
    del source, target
    rows, hidden, inner = sizes.product_rows, sizes.hidden, sizes.inner
    one, other = machine.randn(rows, hidden), machine.randn(hidden, inner)
    spent = machine.seconds(lambda: one @ other, times=20, warm=3)
    machine.flops = 2 * rows * hidden * inner / spent
    yield {"what": f"product bf16, {rows} rows", "value": machine.flops / 1e12, "unit": "TFLOP/s"}
    for rows in sizes.head_rows:
        for name, dtype, on in (
            ("fp32", torch.float32, False),
            ("TF32", torch.float32, True),
            ("bf16", torch.bfloat16, False),
        ):
            states = machine.randn(rows, hidden, dtype=dtype)
            head = machine.randn(hidden, sizes.vocabulary, dtype=dtype)
            with tf32(on=on):
                spent = machine.seconds(lambda s=states, h=head: s @ h, times=5)
            value = 2 * rows * hidden * sizes.vocabulary / spent / 1e12
            yield {"what": f"output layer {name}, {rows} rows", "value": value, "unit": "TFLOP/s"}


SECTIONS: dict[str, tuple[Callable[[Machine], Figures], float]] = {  # with seconds at most
    "roofs": (roofs, 20.0),
    "decode": (decode, 80.0),
    "prefill": (prefill, 30.0),
    "update": (learning, 75.0),
    "round": (whole_round, 45.0),
    "mismatch": (mismatch, 10.0),
    "peers": (peers, 30.0),
}


def run_section(machine: Machine, name: str, seconds: float) -> None:
    """Print a section's lines; one that fails or takes too long ends in a line that says so."""
    measure = SECTIONS[name][0]
    machine.until = time.perf_counter() + seconds

    def stop(*_: Any) -> None:
        raise TimeoutError(f"over its budget of {seconds:.0f} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 1.2 * seconds)
    try:
        for figures in measure(machine):
            say(machine, name, figures)
    except Exception as error:
        words = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        say(machine, name, {"error": words})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
        gc.collect()
        if machine.device.type == "cuda":
            torch.cuda.empty_cache()


def say(machine: Machine, section: str, figures: dict[str, Any]) -> None:
    """Print one JSON line."""
    short = {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in figures.items()
    }
    print(json.dumps({"section": section, **short, "card": machine.card}), flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Run the sections, in order of worth, for as long as there is time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas between")
    parser.add_argument("--seconds", type=float, default=290.0, help="for all sections together")
    options = parser.parse_args(words)
    on_gpu = torch.cuda.is_available()
    card = torch.cuda.get_device_name() if on_gpu else "CPU, small sizes"
    device = torch.device("cuda" if on_gpu else "cpu")
    machine = Machine(device, Sizes() if on_gpu else SMALL, card)
    until = time.perf_counter() + options.seconds
    for name in options.only.split(","):
        left = until - time.perf_counter()
        if left < 5.0:
            say(machine, name, {"error": "not measured: no time left"})
            continue
        run_section(machine, name, min(left, SECTIONS[name][1]) if on_gpu else left)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
