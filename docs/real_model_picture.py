"""Draw docs/real_model.png from docs/runs/smollm2: `python docs/real_model_picture.py`."""

from __future__ import annotations

import json
from pathlib import Path

from fctncalling.evaluation.pass_at_k import wilson_interval

DOCS = Path(__file__).parent
RUNS = DOCS / "runs" / "smollm2"
SEEDS = (1, 2, 3)
CURVES = {f"forged_tppo_{seed}": f"TPPO, seed {seed}" for seed in SEEDS}
CURVES["forged_grpo_1"] = "GRPO, seed 1"
MODELS = {
    "forged": "SFT on\nforged tasks",
    **{f"forged_tppo_{seed}": f"then TPPO\nseed {seed}" for seed in SEEDS},
    "forged_grpo_1": "or GRPO\nseed 1",
    "all": "or SFT on\n590 official",
}


def test_shares() -> dict[str, tuple[int, int]]:
    """Return (valid, all) of each model's test tasks of simple_python and multiple."""
    shares: dict[str, tuple[int, int]] = dict.fromkeys(MODELS, (0, 0))
    for line in (RUNS / "answers.jsonl").read_text(encoding="utf-8").splitlines():
        answer = json.loads(line)
        if answer["model"] in shares and not answer["id"].startswith("irrelevance"):
            valid, count = shares[answer["model"]]
            shares[answer["model"]] = (valid + answer["valid"], count + 1)
    return shares


def colour(model: str) -> str:
    """Return the colour of a model's bar: that of its algorithm, grey without one."""
    return "C0" if "tppo" in model else "C3" if "grpo" in model else "C7"


def main() -> None:
    """Draw sampled success on training tasks, update by update, and the shares on test tasks."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(3, 3))
    for run, label in CURVES.items():
        text = (RUNS / run / "metrics.jsonl").read_text(encoding="utf-8")
        updates = [
            it for line in text.splitlines() if "env/success_rate" in (it := json.loads(line))
        ]
        success = [100 * update["env/success_rate"] for update in updates]
        numbers = [update["update"] for update in updates]
        style = "--" if "grpo" in run else "-"
        left.plot(numbers, success, style, marker="o", markersize=3, label=label)
    left.legend()
    left.set(xlabel="update", ylabel="success, %", ylim=(0, 80))
    left.set_xticks(range(2, 19, 4))
    left.set_title("sampled, official training tasks (drawn near one half)", fontsize=10)
    for place, (name, (valid, count)) in enumerate(test_shares().items()):
        share, (low, high) = valid / count, wilson_interval(valid / count, count)
        right.bar(place, 100 * share, color=colour(name))
        right.plot([place, place], [100 * low, 100 * high], color="black")
        right.text(place + 0.05, 100 * share + 1, f"{100 * share:.1f} %")
    right.set_xticks(range(len(MODELS)), MODELS.values())
    right.set_ylim(0, 80)
    right.set_title("greedy, 150 official test tasks, 95 % intervals", fontsize=10)
    figure.tight_layout()
    figure.savefig(DOCS / "real_model.png", dpi=100)


if __name__ == "__main__":
    main()
