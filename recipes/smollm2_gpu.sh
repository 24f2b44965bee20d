#!/usr/bin/env bash
# SmolLM2-135M learns single-turn tasks on one GPU: ten times the forged tasks of smollm2_cpu.sh, two
# seeds; then TPPO and GRPO on official tasks from the first.
#
#     recipes/smollm2_gpu.sh [FOLDER]
#
# Run so far: forged_6000_1 and forged_6000_2, in 142 s each on an H200 beside three other runs.
# Interrupted at any point, the same command goes on.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2_gpu} python=${PYTHON:-python}
common=(--device cuda --torch_threads 1 --eval_episodes 1 --max_episode_tokens 1280 --max_new_tokens 96
    --n_rollout_threads 64 --max_microbatch_tokens 9000)
demonstrations=(--sft_tasks dataset --sft_lr 3e-4 --sft_batch_size 16 --share_prefixes false --num_updates 0)
reinforced=(--num_updates 18 --episodes_per_update 64 --group_size 8 --dynamic_sampling 2
    --task_sampling success --num_mini_batch 2 --gamma 1 --lam 1 --entropy_coef 0
    --lora_r 16 --lora_alpha 32 --lr 1e-3 --warmup_updates 2 --lr_schedule linear
    --min_lr_ratio 0.2 --eval_interval 0)
with_critic=(--group_baseline true --critic_lr 1e-3 --critic_detach true)
. recipes/steps.sh

get_model_and_tasks 6000 simple_python multiple irrelevance
names=()
for seed in 1 2; do
    name=forged_6000_$seed
    run $name "$folder/model" "$folder/forged.jsonl" "${demonstrations[@]}" --seed $seed
    answer_tests $name "$(checkpoint $name)" --device cuda --concurrency 32
    names+=($name)
done
for seed in 1 2 3; do
    for algorithm in TPPO GRPO; do
        name=forged_6000_${algorithm}_$seed
        learn=("${reinforced[@]}" --algorithm_name $algorithm --seed $seed)
        [ $algorithm = GRPO ] || learn+=("${with_critic[@]}")
        run $name "$(checkpoint forged_6000_1)" "$folder/train.jsonl" "${learn[@]}"
        merge_adapter $name
        answer_tests $name "$folder/${name}_model" --device cuda --concurrency 32
        names+=($name)
    done
done
write_page "SmolLM2-135M on official tasks, one GPU" "${names[@]}"
