#!/usr/bin/env bash
# SmolLM2-135M learns official BFCL tasks on one GPU: forged tasks alone, and the split; TPPO beside
# GRPO from the same start, three seeds.
#
#     recipes/smollm2_gpu.sh [FOLDER]
#
# Not run so far: no GPU was at hand. Interrupted at any point, the same command goes on.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2_gpu} python=${PYTHON:-python}
common=(--device cuda --eval_episodes 1 --max_episode_tokens 2048 --max_new_tokens 96
    --n_rollout_threads 256 --max_microbatch_tokens 32768)
demonstrations=(--sft_tasks dataset --sft_lr 3e-4 --sft_batch_size 32 --num_updates 0)
reinforced=(--num_updates 60 --episodes_per_update 512 --group_size 8 --task_sampling success
    --num_mini_batch 4 --lr 2e-5 --critic_lr 1e-3 --gamma 1 --lam 1 --entropy_coef 0 --eval_interval 0)
. recipes/steps.sh

get_model_and_tasks 12000 simple_python multiple irrelevance
run sft_forged "$folder/model" "$folder/forged.jsonl" "${demonstrations[@]}"
run sft_split "$(checkpoint sft_forged)" "$folder/train.jsonl" "${demonstrations[@]}" --sft_epochs 2
answer_tests base "$folder/model" --concurrency 128
names=(base)
for start in forged split; do
    tasks=$([ $start = forged ] && echo "$folder/forged.jsonl" || echo "$folder/train.jsonl")
    answer_tests sft_$start "$(checkpoint sft_$start)" --concurrency 128
    names+=(sft_$start)
    for algorithm in TPPO GRPO; do
        for seed in 1 2 3; do
            name=${algorithm}_${start}_$seed
            run "$name" "$(checkpoint sft_$start)" "$tasks" "${reinforced[@]}" \
                --algorithm_name $algorithm --seed $seed
            answer_tests "$name" "$(checkpoint "$name")" --concurrency 128
            names+=("$name")
        done
    done
done
write_page "SmolLM2-135M on official tasks, one GPU" "${names[@]}"
