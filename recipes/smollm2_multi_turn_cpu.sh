#!/usr/bin/env bash
# SmolLM2-135M plays multi-turn tasks of three APIs on two CPU cores; no official task is learned from.
#
#     recipes/smollm2_multi_turn_cpu.sh [FOLDER] [ROW...]
#
#   supervised             from the pretrained model: 600 forged tasks, one pass, compact prompt
#   tppo_SEED and other arms (cold, state, appo, grpo, rloo: recipes/steps.sh)
#                          from supervised: rewards on the same tasks, groups of eight
#
# Without rows it makes supervised. Tests: 200 forged tasks of another seed, half of them with names
# that no training task has (test.jsonl, names.json); the official tasks of base and miss_func that
# involve one of the three APIs alone (official), but for those that were looked at in former
# versions (former).
# Interrupted at any point, the same command goes on. One thread: two rows can be made at a time.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2_multi_turn} python=${PYTHON:-python}
rows=("${@:2}")
apis=(TradingBot GorillaFileSystem VehicleControlAPI)
held_out=look.jsonl test_names="test official former"
common=(--preset 0.1B --torch_threads 1 --compute_dtype bfloat16 --prompt_style compact
    --max_episode_tokens 4096 --max_new_tokens 96 --n_rollout_threads 16 --max_microbatch_tokens 2560
    --gradient_checkpointing false --max_steps_per_turn 8 --eval_episodes 1)
demonstrated=(--sft_tasks dataset --sft_lr 4e-4 --sft_batch_size 8 --sft_group_by_prefix
    --sft_fixed_prefixes --num_updates 0)
reinforced=(--num_updates 10 --episodes_per_update 64 --group_size 8 --dynamic_sampling 2
    --task_sampling success --reward strict_progress --num_mini_batch 2 --lora_r 16 --lora_alpha 32
    --lr 4e-4 --lr_schedule linear --min_lr_ratio 0.2 --warmup_updates 1 --eval_interval 0)
. recipes/steps.sh
export OMP_NUM_THREADS=1

for name in "${rows[@]}"; do
    [[ $name =~ ^(supervised|(tppo|cold|state|appo|grpo|rloo)_[0-9]+)$ ]] ||
        { echo "error: row $name: the head of recipes/smollm2_multi_turn_cpu.sh lists the rows" >&2 && exit 2; }
done

get_model_and_data
forge look 1 1 irrelevance
forge forged 1700 31 multi_turn_base multi_turn_miss_func --apis "${apis[@]}"
forge files 330 32 multi_turn_base multi_turn_miss_func --apis GorillaFileSystem
forge pool 600 131 multi_turn_base multi_turn_miss_func --apis "${apis[@]}"
"$python" recipes/names_held_out.py --train "$folder/forged.jsonl" "$folder/files.jsonl" --num_train 600 \
    --test "$folder/pool.jsonl" --num_test 200 --output "$folder"
"$python" recipes/split_tasks.py --data_dir data/bfcl --split recipes/multi_turn_split.json --output "$folder/split"
"$python" recipes/one_api_tasks.py "$folder/split/train.jsonl" --apis "${apis[@]}" > "$folder/official.jsonl"
"$python" recipes/one_api_tasks.py "$folder/split/test.jsonl" --apis "${apis[@]}" > "$folder/former.jsonl"

for name in supervised "${rows[@]}"; do
    start=$folder/model
    [ "$name" = supervised ] || start=$(checkpoint supervised)
    case $name in
    supervised) learn=("${demonstrated[@]}") ;;
    *) arm "$name" 128 ;;
    esac
    run "$name" "$start" "$folder/train.jsonl" "${learn[@]}"
    model=$(checkpoint "$name")
    if [ "$name" != supervised ]; then merge_adapter "$name" && model=$folder/${name}_model; fi
    answer_tests "$name" "$model" --prompt_style compact --max_episode_tokens 4096 --concurrency 16 \
        --max_steps_per_turn 8
done
write_page "SmolLM2-135M on multi-turn tasks of three APIs" $(printf '%s\n' supervised "${rows[@]}" | awk '!seen[$0]++')
