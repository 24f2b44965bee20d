#!/usr/bin/env bash
# SmolLM2-135M plays BFCL's multi-turn tasks on two CPU cores: from the row "all" of
# recipes/smollm2_cpu.sh, supervised on demonstrations of 140 official tasks of base and miss_func
# with the compact prompt, then of official and forged tasks of one API, twice; tested on 30 official
# tasks of each category, whose numbers no demonstration has.
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

forge forged 200 5 multi_turn_base multi_turn_miss_func
one_api() { "$python" recipes/one_api_tasks.py "$@"; }
one_api "$folder/train.jsonl" --apis TradingBot GorillaFileSystem VehicleControlAPI > "$folder/one_api.jsonl"
one_api "$folder/forged.jsonl" --apis TradingBot GorillaFileSystem --first_number 1000 >> "$folder/one_api.jsonl"
run one_api "$(checkpoint demonstrated)" "$folder/one_api.jsonl" --max_microbatch_tokens 2560 \
    --sft_tasks dataset --sft_lr 3e-4 --sft_batch_size 4 --sft_epochs 2 --sft_group_by_prefix true \
    --num_updates 0

for name in demonstrated one_api; do
    answer_tests $name "$(checkpoint $name)" --prompt_style compact \
        --max_episode_tokens 4096 --torch_threads 2 --concurrency 16
done
write_page "SmolLM2-135M on official multi-turn tasks" demonstrated one_api
