"""Record the official package's verdicts on the answers of `fctncalling conformance`.

Writes fctncalling/lab/conformance/recorded_verdicts.json: bits, hashes, the seed and the package's
version; no text. `benchmarks/checkers.py` says how the package gets an environment.

  python benchmarks/peers/record_verdicts.py \\
      "/tmp/official/bin/python benchmarks/peers/official_checkers.py scorer" data/bfcl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fctncalling.lab.conformance.made_answers import (
    ANSWERS_A_TASK,
    CATEGORIES,
    FILE,
    category_recording,
    made_answers_of_category,
    scorer_record,
)
from fctncalling.lab.conformance.scorer_process import ScorerProcess, ScorerTimeLimits
from fctncalling.lab.import_bfcl import manifest

SEED = 0


def bits_of(scorer: str, records: list[dict[str, object]]) -> list[bool]:
    """Return the scorer's verdicts on the records, in order."""
    with ScorerProcess(scorer, ScorerTimeLimits()) as process:
        verdicts = {v.answer_id: v.told for v in process.judge_records(iter(records))}
    bits = [verdicts[str(record["id"])] for record in records]
    if None in bits:
        raise SystemExit("error: an answer got no verdict")
    return [bool(bit) for bit in bits]


def main() -> None:
    """Judge all answers and write the file."""
    scorer, folder = sys.argv[1], Path(sys.argv[2])
    categories = {}
    for category in CATEGORIES:
        answers = list(made_answers_of_category(folder, category, SEED, ANSWERS_A_TASK))
        records = [scorer_record(answer, str(number)) for number, answer in enumerate(answers)]
        categories[category] = category_recording(
            folder, category, answers, bits_of(scorer, records)
        )
        print(category, len(answers), flush=True)
    recorded = {
        "package": manifest()["package"],
        "version": manifest()["version"],
        "seed": SEED,
        "answers_a_task": ANSWERS_A_TASK,
        "answers": sum(category["answers"] for category in categories.values()),
        "categories": categories,
    }
    FILE.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
