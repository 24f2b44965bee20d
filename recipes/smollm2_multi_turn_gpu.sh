#!/usr/bin/env bash
# SmolLM2-135M plays BFCL's multi-turn tasks on one GPU: forged demonstrations with the compact
# prompt, then TPPO on forged tasks; tested on all official tasks of base and miss_func.
#
#     recipes/smollm2_multi_turn_gpu.sh [FOLDER]
#
# Not run so far: no GPU was at hand. Interrupted at any point, the same command goes on.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2_multi_turn} python=${PYTHON:-python}
common=(--device cuda --eval_episodes 1 --prompt_style compact --max_episode_tokens 8192
    --max_new_tokens 160 --n_rollout_threads 128 --max_microbatch_tokens 32768)
. recipes/steps.sh

get_model_and_tasks 6000 multi_turn_base multi_turn_miss_func
run sft "$folder/model" "$folder/forged.jsonl" --sft_tasks dataset --sft_lr 3e-4 \
    --sft_batch_size 16 --num_updates 0
run tppo "$(checkpoint sft)" "$folder/forged.jsonl" --reward progress --num_updates 60 \
    --episodes_per_update 256 --group_size 8 --task_sampling success --num_mini_batch 4 \
    --lr 2e-5 --critic_lr 1e-3 --critic_warmup_episodes 512 --entropy_coef 0 --eval_interval 0
for name in sft tppo; do
    "${evaluate[@]}" run --agent "hf:$(checkpoint $name)" --prompt_style compact --resume \
        --category multi_turn_base multi_turn_miss_func --max_new_tokens 160 \
        --max_episode_tokens 8192 --concurrency 64 --output "$folder/answers/$name.jsonl"
done
"$python" recipes/results_page.py --answers sft="$folder/answers/sft.jsonl" tppo="$folder/answers/tppo.jsonl" \
    --dataset_path data/bfcl/BFCL_v4_multi_turn_base.json data/bfcl/BFCL_v4_multi_turn_miss_func.json \
    --title "SmolLM2-135M on official multi-turn tasks" --output "$folder/results.md"
