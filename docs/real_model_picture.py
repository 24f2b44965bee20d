"""Draw docs/evidence/real_model.png from kept runs: `python docs/real_model_picture.py`."""

from __future__ import annotations

import json
from pathlib import Path

from fctncalling.evaluation.pass_at_k import wilson_interval

DOCS = Path(__file__).parent
RUNS = DOCS.parent / "results/kept/smollm2"
CURVES = {"forged_tppo_1": "official tasks", "forged_only_tppo_1": "forged tasks"}
MODELS = {
    "forged": "SFT on\nforged tasks",
    "forged_2": "SFT,\nseed 2",
    "forged_tppo_1": "then TPPO on\nofficial tasks",
    "forged_only_tppo_1": "or TPPO on\nforged tasks",
}
GROUPS = {"calls": ("simple_python", "multiple"), "irrelevance": ("irrelevance",)}


def test_shares(categories: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return (valid, all) of each model's test tasks of some categories."""
    shares: dict[str, tuple[int, int]] = dict.fromkeys(MODELS, (0, 0))
    for line in (RUNS / "answers.jsonl").read_text(encoding="utf-8").splitlines():
        answer = json.loads(line)
        if answer["model"] in shares and answer["id"].rpartition("_")[0] in categories:
            valid, count = shares[answer["model"]]
            shares[answer["model"]] = (valid + answer["valid"], count + 1)
    return shares


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
        left.plot(numbers, success, marker="o", markersize=3, label=label)
    left.legend()
    left.set(xlabel="update", ylabel="success, %", ylim=(0, 100))
    left.set_xticks(range(2, 19, 4))
    left.set_title("TPPO: sampled, training tasks (drawn near one half)", fontsize=10)
    for offset, (group, categories) in zip((-0.2, 0.2), GROUPS.items(), strict=True):
        for place, (valid, count) in enumerate(test_shares(categories).values()):
            share, (low, high) = valid / count, wilson_interval(valid / count, count)
            at, colour = place + offset, "C0" if group == "calls" else "C7"
            right.bar(at, 100 * share, width=0.38, color=colour, label=group if not place else None)
            right.plot([at, at], [100 * low, 100 * high], color="black", linewidth=1)
            right.text(at - 0.17, 2, f"{100 * share:.0f}", color="white", fontsize=9)
    right.set_xticks(range(len(MODELS)), MODELS.values(), fontsize=9)
    right.set(ylim=(0, 115), ylabel="valid answers, %")
    right.legend(loc="upper left", fontsize=9)
    right.set_title("greedy, 150 and 100 official test tasks, 95 % intervals", fontsize=10)
    figure.tight_layout()
    figure.savefig(DOCS / "evidence/real_model.png", dpi=100)


if __name__ == "__main__":
    main()
