#!/usr/bin/env bash
# SmolLM2-135M plays BFCL's multi-turn tasks on two CPU cores: from the row "all" of
# recipes/smollm2_cpu.sh, supervised on demonstrations of 140 official tasks of base and miss_func
# with the compact prompt; tested on 30 of each whose numbers no demonstration has.
#
#     recipes/smollm2_multi_turn_cpu.sh [FOLDER] [FOLDER of smollm2_cpu.sh]
#
# Interrupted at any point, the same command goes on.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2_multi_turn} single_turn=${2:-results/smollm2} python=${PYTHON:-python}
split_file=recipes/multi_turn_split.json
common=(--torch_threads 2 --eval_episodes 1 --prompt_style compact --max_episode_tokens 4096
    --max_new_tokens 96 --n_rollout_threads 32 --max_microbatch_tokens 2816)
recipes/smollm2_cpu.sh "$single_turn" all
. recipes/steps.sh
export OMP_NUM_THREADS=2

split_tasks
run demonstrated "$(echo "$single_turn"/runs/all/*/*/*/checkpoints/last)" "$folder/demonstrations.jsonl" \
    --sft_tasks dataset --sft_lr 3e-4 --sft_batch_size 4 --num_updates 0
answer_tests demonstrated "$(checkpoint demonstrated)" --prompt_style compact \
    --max_episode_tokens 4096 --torch_threads 2 --concurrency 16
write_page "SmolLM2-135M on official multi-turn tasks" demonstrated
