"""Learning of the jobs with tools in mid-generation: many seeds of one training command.

`python benchmarks/tool_jobs.py --job calculator --seeds 10` does what `fctncalling train --env_name
calculator` does once a seed and writes runs.json into --output. Finished runs are kept: the same
command again goes on where the last one was stopped. `--keep` also writes the runs to
results/kept/jobs, from which docs/evidence_tables.py makes the table of docs/evidence/results.md.
"""

from __future__ import annotations

from typing import Any

from job_runs import JobRun, job_parser, run_job


def figures(run: JobRun) -> dict[str, Any]:
    """Return a run's figures: success on held-out questions by episodes played, and costs."""
    episodes = {line["update"]: line["episodes"] for line in run.metrics if "episodes" in line}

    def held_out(rate: str) -> list[tuple[int, float]]:
        curve = run.curve(f"eval/{rate}_success_rate")
        return [(episodes.get(update, 0), success) for update, success in curve]

    return {
        "algorithm": run.arm,
        "seed": run.seed,
        "greedy": held_out("greedy"),
        "sampled": held_out("sampled"),
        "training": run.curve("env/success_rate"),
        "cpu_seconds": run.evaluation["train_cpu_seconds"],
    }


def main() -> None:
    """Run the missing runs, and write the figures of all."""
    parser = job_parser(__doc__, seeds=10)
    parser.add_argument("--job", choices=("calculator", "python_math"), default="calculator")
    options = parser.parse_args()
    run_job(options.job, {"TPPO": {}}, figures, options)


if __name__ == "__main__":
    main()
