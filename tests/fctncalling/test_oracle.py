"""The oracle under the strict verdict: it fails where an official ground truth is at fault, and
where there is none.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import evaluate_fctncalling
from fctncalling.lab.lint import OFFICIAL_FAULTS


@pytest.mark.prove
def test_what_the_oracle_fails_strictly_over_all_official_tasks(
    shared: Path, tmp_path: Path
) -> None:
    data, output = shared / "bfcl" / "data", tmp_path / "oracle.jsonl"
    told = ["run", "--agent", "oracle", "--data_dir", str(data), "--output", str(output)]
    assert evaluate_fctncalling.main(told) == 0
    failed: dict[str, str] = {}
    num_played = 0
    for line in output.read_text(encoding="utf-8").splitlines():
        episode = json.loads(line)
        num_played += 1
        if not episode["strict_valid"]:
            failed[episode["id"]] = episode["strict_error_type"]
            assert episode["valid"] == (episode["category"] == "live_relevance")
    relevance = data / "BFCL_v4_live_relevance.json"
    without_truth = {json.loads(line)["id"] for line in relevance.read_text().splitlines()}
    assert num_played >= 4951  # and the 155 of memory_vector, where its library is installed
    assert failed.keys() == OFFICIAL_FAULTS.keys() | without_truth
    assert {failed[name] for name in without_truth} == {"strict:arbitrary_call"}
    assert not [name for name in OFFICIAL_FAULTS if failed[name].startswith("strict:")]
