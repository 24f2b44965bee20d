"""--profile: the table adds up, and knows the parts that a slow tool and a slow update
make long.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

from fctncalling.cli.train import main

PARTS = ["prefill", "decode", "environment", "tools", "update", "tokens", "idle", "rest"]


def test_a_profile_tells_where_the_time_went_and_writes_a_trace(tmp_path: Path) -> None:
    flags = {
        "num_updates": 3,
        "n_rollout_threads": 4,
        "episodes_per_update": 8,
        "eval_episodes": 2,
        "eval_interval": 0,
        "max_new_tokens": 4,
        "save_interval": 0,
        "results_dir": tmp_path,
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    assert main([*words, "--profile", "--tensorboard=false", "--log_tokens_interval=1"]) == 0
    (table,) = tmp_path.rglob("profile/table.txt")
    text = table.read_text()
    total = float(re.search(r"Where ([\d.]+) s of .* went, 2 updates", text)[1])  # type: ignore[index]
    found = {line.split()[0]: line.split()[1:4] for line in text.splitlines()[2:-1]}
    assert list(found) == PARTS
    seconds = {name: float(columns[0]) for name, columns in found.items()}
    assert all(value >= 0 for value in seconds.values())
    assert abs(sum(seconds.values()) - total) < 0.05 * total + 0.01
    assert seconds["update"] > 0
    assert found["update"][2] == found["tokens"][2] == "2"
    assert 0 < seconds["tokens"] < 0.1 * total
    assert (
        int(found["environment"][2]) >= 2 * 8 * 2
    )  # a reset and a step of every episode that is counted
    assert int(found["decode"][2]) > 0
    assert len(text.splitlines()) <= 24
    with gzip.open(table.parent / "trace.json.gz") as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert any("aten::" in str(name) for name in names)
