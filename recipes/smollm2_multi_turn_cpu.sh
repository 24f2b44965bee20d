#!/usr/bin/env bash
# SmolLM2-135M plays multi-turn tasks of three APIs on two CPU cores; no official task is learned from.
#
#     recipes/smollm2_multi_turn_cpu.sh [FOLDER] [ROW...]
#
#   supervised_1500        from the pretrained model: adapters learn 1,500 forged tasks, and to decline
#                          100 that no function fits; one pass, compact prompt
#   tppo_SEED and other arms (cold, state, appo, grpo, rloo: recipes/steps.sh)
#                          from supervised_1500: rewards on 1,000 other forged tasks, groups of eight
#   mean_of_arms           the mean of the weights of all arms that the folder has
#
# Without rows it makes supervised_1500. Where a folder has none of its own, arms start from the adapter
# that is kept of that row (results/kept/smollm2/multi_turn_adapter). Tests: 200 forged tasks of another seed, half of
# them with names that no training task has (test.jsonl, names.json); the official tasks of base and
# miss_func that involve one of the three APIs alone (official), but for those that were looked at
# in former versions (former); 100 of irrelevance.
# Interrupted at any point, the same command goes on. One thread: two rows can be made at a time.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2_multi_turn} python=${PYTHON:-python}
rows=("${@:2}")
[ ${#rows[@]} -gt 0 ] || rows=(supervised_1500)
apis=(TradingBot GorillaFileSystem VehicleControlAPI)
held_out=look.jsonl test_names="test official former irrelevance"
common=(--preset 0.1B --torch_threads 1 --compute_dtype bfloat16 --prompt_style compact
    --max_episode_tokens 4096 --max_new_tokens 96 --n_rollout_threads 24
    --gradient_checkpointing false --max_steps_per_turn 8 --eval_episodes 1)
adapters=(--lora_r 16 --lora_alpha 32)
demonstrated=(--sft_tasks dataset --sft_lr 3e-3 --sft_batch_size 8 --sft_group_by_prefix
    --sft_fixed_prefixes --max_microbatch_tokens 4096 --num_updates 0)
# At 2e-3 in four minibatches TPPO solved after five updates 7, GRPO after four 11 of 46 forged tests, of which
# the start solves 15 (64 episodes an update; results/kept/smollm2/multi_turn_high_rate.jsonl). The kept tppo_1
# and grpo_1 are resumed runs: two updates in microbatches of 2,560 tokens, tppo_1's warm-up with 16 threads.
# The kept state_1 went on from that warm-up, which is the same episodes and fit. All of seed 1 but cold
# and appo had microbatches of 4,096 tokens. The kept state_1_at_20 is state_1 resumed with --num_updates 30 and
# ended after update 20; mean_of_arms is of all kept arms but appo_1, state_3 and grpo_3, mean_of_tppo of tppo_1,
# cold_1 and three of state.
reinforced=(--num_updates 10 --episodes_per_update 48 --group_size 8 --dynamic_sampling 1
    --task_sampling success --reward strict_progress --num_mini_batch 2 --max_microbatch_tokens 3072
    --log_tokens_interval 5 --lr 1e-3 --lr_schedule linear --min_lr_ratio 0.2 --warmup_updates 1 --eval_interval 0)
. recipes/steps.sh
export OMP_NUM_THREADS=1
# Blocks of 1 MiB and more go back to the system when they are freed: grpo_3's first three updates peaked at 5.1 GB,
# with 8 MiB, as the kept arms had at most, at 6.5 (appo_1 at 8.5, grpo_3 at 8.7 in the end). An update takes
# 1.08 times as long.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1048576

for name in "${rows[@]}"; do
    [[ $name =~ ^(supervised_1500|mean_of_arms|(tppo|cold|state|appo|grpo|rloo)_[0-9]+)$ ]] ||
        { echo "error: row $name: the head of recipes/smollm2_multi_turn_cpu.sh lists the rows" >&2 && exit 2; }
done

get_model_and_data
forge look 1 1 irrelevance
forge forged 5100 31 multi_turn_base multi_turn_miss_func --apis "${apis[@]}"
forge files 990 32 multi_turn_base multi_turn_miss_func --apis GorillaFileSystem
forge declined 100 33 irrelevance
forge pool 600 131 multi_turn_base multi_turn_miss_func --apis "${apis[@]}"
"$python" recipes/names_held_out.py --train "$folder/forged.jsonl" "$folder/files.jsonl" --num_train 1500 \
    --num_practice 1000 --test "$folder/pool.jsonl" --num_test 200 --output "$folder"
cat "$folder/declined.jsonl" >> "$folder/train.jsonl"
"$python" recipes/split_tasks.py --data_dir data/bfcl --split recipes/multi_turn_split.json --output "$folder/split"
"$python" recipes/one_api_tasks.py "$folder/split/train.jsonl" --apis "${apis[@]}" > "$folder/official.jsonl"
"$python" recipes/one_api_tasks.py "$folder/split/test.jsonl" --apis "${apis[@]}" > "$folder/former.jsonl"
"$python" recipes/split_tasks.py --data_dir data/bfcl --output "$folder/single_turn"
grep '"id": "irrelevance' "$folder/single_turn/test.jsonl" > "$folder/irrelevance.jsonl"

for name in "${rows[@]}"; do
    start=$folder/supervised_1500_model tasks=$folder/practice.jsonl
    case $name in
    mean_of_arms)
        arms=("$folder"/*_[0-9]_model)
        [ ${#arms[@]} -gt 1 ] || { echo "error: row $name: make two arms in $folder first, as tppo_1 cold_1" >&2 && exit 2; }
        [ -e "$folder/${name}_model" ] || "${evaluate[@]}" export --checkpoint "${arms[0]}" \
            --average_with "${arms[@]:1}" --output "$folder/${name}_model" ;;
    supervised_1500) start=$folder/model tasks=$folder/train.jsonl learn=("${demonstrated[@]}") ;;
    *)
        [ -e "$start" ] || "${evaluate[@]}" export --checkpoint results/kept/smollm2/multi_turn_adapter \
            --base "$folder/model" --output "$start"
        arm "$name" 128 ;;
    esac
    if [ "$name" != mean_of_arms ]; then
        run "$name" "$start" "$tasks" "${adapters[@]}" "${learn[@]}"
        merge_adapter "$name"
    fi
    answer_tests "$name" "$folder/${name}_model" --prompt_style compact --max_episode_tokens 4096 \
        --concurrency 32 --max_steps_per_turn 8 --compute_dtype bfloat16
done
write_page "SmolLM2-135M on multi-turn tasks of three APIs" "${rows[@]}"
