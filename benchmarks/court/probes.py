"""Probes of policies that are not trained further: what they can solve, what in them matters.

`python benchmarks/court/probes.py --seeds 1-5` trains GRPO and supervised models on critical tasks,
seed after seed, and adds lines to results/kept/court/T2_probes.jsonl: pass@k of held-out, longer
tasks; how entropy goes with what forced actions change; whether a teacher reads the truth. Probes
that are there are left out; `--minutes 30` begins none after that time. claims.md says why.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from court import TASK_SETS, probes_file, rate
from critical import EMBEDDED, longer_tasks, numbers
from numpy.typing import NDArray
from relatives import action_entropies, result_tokens, teacher_log_ratios
from tool_jobs import trained
from verdicts import read_grades

from fctncalling.algorithms.batch import Experience, build_experience
from fctncalling.algorithms.minibatches import add_forward_inputs, plan_minibatches
from fctncalling.algorithms.rollout.roles import add_critic_rows
from fctncalling.evaluation.scripted_policies import ONE_CALL_A_STEP
from fctncalling.lab.credit.grades import average_ranks, spearman
from fctncalling.lab.credit.grading import RunToGrade, open_run
from fctncalling.lab.credit.ruler import (
    BranchedTruth,
    BranchingEnv,
    RulerSettings,
    Snapshot,
    Vector,
    discounted_return,
    sample_groups,
)

SAMPLES = {"eval_episodes": 16, "eval_samples": 64}  # tasks, and samples of each
KS = (1, 4, 16, 64)
SFT_RATES = (1e-4, 3e-4, 1e-3)  # tried on TUNING_SEED
TUNING_SEED = 101
NUM_TASKS, NUM_STATES, NUM_ACTIONS, BRANCHES = 24, 100, 4, 8
SWING = 0.25  # deviation of what forced actions earn, from which a state counts as critical


def main() -> None:
    """Train and probe what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="1-5", help="such as 1-3")
    parser.add_argument("--minutes", type=float, default=30.0, help="begin no probe after (30)")
    options = parser.parse_args()
    logging.disable(logging.INFO)  # a training that has ended closed what it wrote to
    deadline = time.monotonic() + 60 * options.minutes
    seeds = numbers(options.seeds)
    jobs = [(arm, seed, 0.0) for seed in seeds for arm in ("start", "GRPO")]
    jobs += [("supervised", TUNING_SEED, lr) for lr in SFT_RATES]
    jobs += [("supervised", seed, 0.0) for seed in seeds]
    for arm, seed, lr in jobs:
        kept = read_grades(probes_file("T2"))
        if (arm, seed, lr) in {(each["arm"], each["seed"], each["tried"]) for each in kept}:
            continue
        if time.monotonic() > deadline:
            break
        line = probe(arm, seed, lr or (sft_rate(kept) if arm == "supervised" else 0.0))
        with probes_file("T2").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"arm": arm, "seed": seed, "tried": lr, **line}) + "\n")
        print(arm, seed, line, flush=True)


def sft_rate(kept: Sequence[Mapping[str, Any]]) -> float:
    """Return the rate that the tuning seed's supervised model solved most with."""
    tried = {each["tried"]: each["pass"]["1"] for each in kept if each["tried"]}
    return max(tried, key=tried.__getitem__)


def probe(arm: str, seed: int, lr: float) -> dict[str, Any]:
    """Return what a model can solve, trained now; of the start and of GRPO's also the rest."""
    flags = {**TASK_SETS["T2"], "algorithm_name": "GRPO", "seed": seed, "lr": rate("T2", "GRPO")}
    if arm != "GRPO":
        flags |= {"num_updates": 0}
    with tempfile.TemporaryDirectory() as results:
        if arm == "supervised":
            flags |= {"sft_tasks": call_by_call(Path(results)), "sft_lr": lr}
        folder = Path(results) / "check" / "critical_model" / "critical_train" / "GRPO"
        longer = longer_tasks(Path(results))["eval_dataset_path"]
        trained(folder, Path(results), {**flags, **SAMPLES, "eval_dataset_path": longer})
        after = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))["after"]
        rates = after["pass_at_k"]["sampled"]["pass@k"]
        found = {"lr": lr, "pass": {str(k): round(rates[str(k)]["estimate"], 4) for k in KS}}
        if arm != "supervised":
            run = open_run(folder, None, NUM_TASKS, 0, RulerSettings(seed=seed))
            truth = sample_groups(run.player, run.task_ids)
            found |= forced_grades(run, truth)
            found["result_nats"] = round(nats_of_results(run, truth), 2)
            found["uniform_nats"] = round(math.log(run.policy.model.config.vocab_size), 2)
            found["teacher"] = round(teacher_auc(run, truth), 3)
    return found


def call_by_call(folder: Path) -> Path:
    """Write the training tasks for a demonstrator that makes a call an action, as policies do."""
    path = folder / "call_by_call.json"
    lines = (EMBEDDED / "critical_train.json").read_text(encoding="utf-8").splitlines()
    entries = [{**json.loads(line), ONE_CALL_A_STEP: True} for line in lines]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


class ForcingEnv(BranchingEnv):
    """Environment that is made to take an action in a state."""

    def force(self, state: Snapshot, text: str) -> tuple[float, Snapshot | None]:
        """Return the action's reward, and the state behind it; None where that is the end."""
        self.origins = {"": state}
        self.reset(options={"task_id": ""})
        self._records, self.trace[""] = True, []
        _, reward, terminated, truncated, _ = self.step(text)
        return float(reward), None if terminated or truncated else self._now


class ForcedState(NamedTuple):
    """A state, the entropy of the action taken there, and the actions to force."""

    state: Snapshot
    entropy: float
    actions: list[str]


def forced_grades(run: RunToGrade, truth: BranchedTruth) -> dict[str, Any]:
    """Return how the entropy of states goes with what forced actions change in them."""
    choices = choose_states(truth, entropies_of_actions(run, truth), run.player.settings.seed)
    spreads = np.asarray([spread(returns) for returns in forced_returns(run, choices)])
    entropies = np.asarray([choice.entropy for choice in choices])
    critical = spreads > SWING**2
    return {
        "states": len(choices),
        "critical": round(float(critical.mean()), 3),
        "spearman": round(spearman(entropies, spreads), 3),
        "auc": round(area_under_roc(entropies, critical), 3),
    }


def choose_states(truth: BranchedTruth, entropies: Vector, seed: int) -> list[ForcedState]:
    """Return NUM_STATES states, each with the actions taken there and others of its group."""
    visits: dict[Any, list[tuple[Snapshot, float, str]]] = defaultdict(list)
    taken: dict[str, dict[str, None]] = defaultdict(dict)
    steps = chain(*(each.episode.steps for each in truth.episodes))  # type: ignore[union-attr]
    for state, entropy, step in zip(chain(*truth.snapshots), entropies, steps, strict=True):
        visits[state.task_id, state.texts].append((state, entropy, step.text))
        taken[state.task_id][step.text] = None
    generator = random.Random(seed)
    chosen = generator.sample(list(visits), min(NUM_STATES, len(visits)))
    choices = []
    for key in chosen:
        own = list(dict.fromkeys(text for _, _, text in visits[key]))
        others = [text for text in taken[key[0]] if text not in own]
        actions = (own + generator.sample(others, len(others)))[:NUM_ACTIONS]
        if len(actions) > 1:
            entropy = float(np.mean([each for _, each, _ in visits[key]]))
            choices.append(ForcedState(visits[key][0][0], entropy, actions))
    return choices


def forced_returns(run: RunToGrade, choices: Sequence[ForcedState]) -> list[Vector]:
    """Return of each choice the returns after each action, (actions, BRANCHES)."""
    env = ForcingEnv(run.player._make_env(), {}, {})
    returns, origins = [np.zeros((len(each.actions), BRANCHES)) for each in choices], {}
    for number, choice in enumerate(choices):
        for index, text in enumerate(choice.actions):
            reward, behind = env.force(choice.state, text)
            returns[number][index] += reward
            if behind is not None:
                origins |= {(number, index, branch): behind for branch in range(BRANCHES)}
    env.close()
    keyed = {"/".join(map(str, place)): state for place, state in origins.items()}
    played, _ = run.player.play(keyed, run.player.settings.seed + 1)
    discount = run.player.settings.discount
    for (number, index, branch), episode in zip(origins, played, strict=True):
        returns[number][index, branch] += discount * discounted_return(episode, discount)
    return returns


def spread(returns: Vector) -> float:
    """Return the variance over actions of their mean return, free of the branches' noise: the
    covariance of two halves. returns: (actions, branches).
    """
    halves = np.stack([returns[:, 0::2].mean(1), returns[:, 1::2].mean(1)])
    return float(np.cov(halves)[0, 1])


def area_under_roc(scores: Vector, positive: NDArray[np.bool_]) -> float:
    """Return the chance that a positive has the higher score, ties counted half; .5 for none."""
    count = int(positive.sum())
    if count in (0, len(positive)):
        return 0.5
    above = float(average_ranks(scores)[positive].sum()) - count * (count - 1) / 2
    return above / (count * (len(positive) - count))


def passes(run: RunToGrade, truth: BranchedTruth) -> tuple[Experience, Any]:
    """Return the episodes as training passes take them."""
    experience = build_experience(truth.episodes, next(run.policy.parameters()).device)
    experience = add_forward_inputs(experience, run.policy, run.config)
    generator = torch.Generator().manual_seed(run.config.seed)
    return experience, plan_minibatches(experience, run.config, generator)


def entropies_of_actions(run: RunToGrade, truth: BranchedTruth) -> Vector:
    """Return the mean entropy of each action's tokens, all episodes end to end."""
    experience, minibatches = passes(run, truth)
    entropies = action_entropies(run.policy, experience, minibatches, run.config)
    _, counts = torch.unique_consecutive(experience.tokens.action, return_counts=True)
    found: Vector = entropies[counts.cumsum(0) - counts].double().numpy()
    return found


@torch.no_grad()
def nats_of_results(run: RunToGrade, truth: BranchedTruth) -> float:
    """Return the mean cross-entropy of the tokens that tools wrote."""
    experience, minibatches = passes(run, truth)
    batches = [experience.batch(rows)[0] for minibatch in minibatches for rows in minibatch]
    found = [
        run.policy(*batch._replace(acted=tokens)).logprobs
        for batch, tokens in ((batch, result_tokens(batch)) for batch in batches)
        if tokens.any()
    ]
    return -float(torch.cat(found).mean())


def teacher_auc(run: RunToGrade, truth: BranchedTruth) -> float:
    """Return how often the teacher's mean log-ratio is greater in a success than in a failure of
    the same task.
    """
    config = replace(run.config, algorithm_name="TPPO", critic="full", critic_sees="truth")
    add_critic_rows(truth.episodes, config, run.player.template)
    experience, minibatches = passes(run, truth)
    ratios = teacher_log_ratios(run.policy, experience, minibatches, run.config).numpy()
    owner = experience.tokens.episode.numpy()
    means = np.bincount(owner, ratios) / np.bincount(owner)
    right = pairs = 0.0
    for good, bad in ((g, b) for g in range(len(means)) for b in range(len(means))):
        first, second = truth.episodes[good], truth.episodes[bad]
        if first.task_id == second.task_id and first.success and not second.success:
            pairs += 1
            right += float(means[good] > means[bad])
    return right / pairs if pairs else 0.5


if __name__ == "__main__":
    main()
