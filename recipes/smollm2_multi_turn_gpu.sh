#!/usr/bin/env bash
# SmolLM2-135M plays BFCL's multi-turn tasks on one GPU; no official task is learned from.
#
#     recipes/smollm2_multi_turn_gpu.sh [FOLDER] [ROW...]
#
#   mixture                from the pretrained model: 12,000 forged tasks, of three APIs, of all, and
#                          of one turn (recipes/mixed_tasks.py), one pass, compact prompt
#   tppo_SEED and other arms (cold, state, appo, grpo, rloo: recipes/steps.sh)
#                          from mixture: rewards on other tasks of the three APIs, groups of eight
#
# Without rows it makes mixture. Tests: those of smollm2_multi_turn_cpu.sh, the same tasks, and those
# of irrelevance. Run so far: mixture, in 282 s on an H200 beside two smaller runs; the other rows
# began and were not finished. Interrupted at any point, the same command goes on.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2_multi_turn_gpu} python=${PYTHON:-python}
rows=("${@:2}")
apis=(TradingBot GorillaFileSystem VehicleControlAPI)
multi_turn=(multi_turn_base multi_turn_miss_func)
held_out=look.jsonl test_names="test official former irrelevance"
common=(--device cuda --preset 0.1B --torch_threads 1 --prompt_style compact --max_episode_tokens 4096
    --max_new_tokens 96 --n_rollout_threads 64 --gradient_checkpointing false --max_steps_per_turn 8
    --eval_episodes 1)
# A step takes .3 s of an H100, a checkpoint of all weights several: one in 250 steps, not in 25.
demonstrated=(--sft_tasks dataset --sft_lr 5e-4 --sft_batch_size 16 --max_microbatch_tokens 40000
    --share_prefixes false --num_updates 0 --sft_save_interval 250)
reinforced=(--num_updates 10 --episodes_per_update 128 --group_size 8 --dynamic_sampling 2
    --task_sampling success --reward strict_progress --num_mini_batch 2 --lora_r 16 --lora_alpha 32
    --lr 8e-4 --lr_schedule linear --min_lr_ratio 0.2 --warmup_updates 1 --eval_interval 0
    --max_microbatch_tokens 6144)
. recipes/steps.sh

for name in "${rows[@]}"; do
    [[ $name =~ ^(mixture|(tppo|cold|state|appo|grpo|rloo)_[0-9]+)$ ]] ||
        { echo "error: row $name: the head of recipes/smollm2_multi_turn_gpu.sh lists the rows" >&2 && exit 2; }
done

get_model_and_data
forge look 1 1 irrelevance
forge three_apis 14000 41 "${multi_turn[@]}" --apis "${apis[@]}"
forge files 9000 44 "${multi_turn[@]}" --apis GorillaFileSystem
forge all_apis 8000 42 "${multi_turn[@]}"
forge calls 2400 43 irrelevance simple_python multiple
forge more_calls 2800 45 parallel parallel_multiple live_simple live_multiple
forge declined 1200 46 irrelevance
forge pool 600 131 "${multi_turn[@]}" --apis "${apis[@]}"
forge all_test 300 142 "${multi_turn[@]}"
"$python" recipes/names_held_out.py --train "$folder/three_apis.jsonl" --num_train 600 \
    --test "$folder/pool.jsonl" --num_test 200 --output "$folder"
"$python" recipes/mixed_tasks.py --folder "$folder"
"$python" recipes/split_tasks.py --data_dir data/bfcl --split recipes/multi_turn_split.json --output "$folder/split"
"$python" recipes/one_api_tasks.py "$folder/split/train.jsonl" --apis "${apis[@]}" > "$folder/official.jsonl"
"$python" recipes/one_api_tasks.py "$folder/split/test.jsonl" --apis "${apis[@]}" > "$folder/former.jsonl"
"$python" recipes/split_tasks.py --data_dir data/bfcl --output "$folder/single_turn"
grep '"id": "irrelevance' "$folder/single_turn/test.jsonl" > "$folder/irrelevance.jsonl"

for name in mixture "${rows[@]}"; do
    start=$folder/model tasks=$folder/practice.jsonl
    [ "$name" = mixture ] || start=$(checkpoint mixture)
    case $name in
    mixture) learn=("${demonstrated[@]}") tasks=$folder/train.jsonl ;;
    *) arm "$name" 1024 ;;
    esac
    run "$name" "$start" "$tasks" "${learn[@]}"
    model=$(checkpoint "$name")
    if [ "$name" != mixture ]; then merge_adapter "$name" && model=$folder/${name}_model; fi
    answer_tests "$name" "$model" --device cuda --prompt_style compact --max_episode_tokens 4096 \
        --concurrency 48 --max_steps_per_turn 8
done
write_page "SmolLM2-135M on multi-turn tasks, one GPU" $(printf '%s\n' mixture "${rows[@]}" | awk '!seen[$0]++')
