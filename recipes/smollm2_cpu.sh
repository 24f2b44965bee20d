#!/usr/bin/env bash
# SmolLM2-135M learns official BFCL tasks on a CPU core: a supervised start on forged tasks, then
# TPPO on official tasks; beside it, supervised learning from demonstrations of these.
#
#     recipes/smollm2_cpu.sh [FOLDER] [ROW ...]
#
# A row is a model of the results page; what it starts from is made first. Rows:
#   base                the pretrained model
#   forged              supervised, forged tasks alone; forged_2: the same with seed 2
#   forged_tppo_SEED    from forged: TPPO on 590 official tasks; forged_grpo_SEED: GRPO instead
#   forged_only_tppo_SEED, forged_only_grpo_SEED: from forged, on 600 other forged tasks
#   forged_1800         as forged with three times the tasks, computed in bf16 on two cores
#   forged_1800_tppo_SEED, forged_1800_only_tppo_SEED: from forged_1800
#   forged_1800_more_tppo_SEED: from forged_1800_tppo_1, as many updates again;
#   forged_1800_mixed_tppo_SEED: the same with each category's share of the tasks held
#   compact             as forged, with the compact prompt
#   some                from forged: supervised on 200 of the 590
#   some_tppo_SEED      from some: TPPO on the other 390; some_grpo_SEED
#   all                 from forged: supervised on all 590; all_tppo_SEED, all_grpo_SEED
# Without rows it makes forged and forged_tppo_1.
# The model comes out of a pinned wheel, the tasks out of another; nothing else is downloaded.
# Interrupted at any point, the same command goes on. FOLDER/results_test.md and results_live_test.md
# are the results pages. One thread, as sums round otherwise with two: two rows can be made at a time.
cd "$(dirname "$0")/.."
folder=${1:-results/smollm2} python=${PYTHON:-python}
rows=("${@:2}")
[ ${#rows[@]} -gt 0 ] || rows=(forged forged_tppo_1)
common=(--torch_threads 1 --eval_episodes 1 --max_episode_tokens 1280 --max_new_tokens 96
    --n_rollout_threads 32 --max_microbatch_tokens 2048)
demonstrations=(--sft_tasks dataset --sft_lr 2e-4 --sft_batch_size 8 --num_updates 0)
reinforced=(--num_updates 18 --episodes_per_update 64 --group_size 8 --dynamic_sampling 2
    --task_sampling success --num_mini_batch 2 --gamma 1 --lam 1 --entropy_coef 0
    --lora_r 16 --lora_alpha 32 --lr 1e-3 --warmup_updates 2 --lr_schedule linear
    --min_lr_ratio 0.2 --eval_interval 0)
more_demonstrations=(--sft_lr 3e-4 --sft_batch_size 16 --max_microbatch_tokens 4096
    --compute_dtype bfloat16 --torch_threads 2)
with_critic=(--group_baseline true --critic_lr 1e-3 --critic_detach true)
held_out=look.jsonl
. recipes/steps.sh
export OMP_NUM_THREADS=1

for name in "${rows[@]}"; do
    [[ $name =~ ^(base|forged|forged_[2-9]|forged_1800|compact|some|all)$ ||
        $name =~ ^(forged|forged_only|forged_1800|forged_1800_only|forged_1800_more|forged_1800_mixed|some|all)_(tppo|grpo)_[0-9]+$ ]] ||
        { echo "error: row $name: the head of recipes/smollm2_cpu.sh lists the rows" >&2 && exit 2; }
done

prompt_of() { [ "$1" != compact ] || echo --prompt_style compact; } # flags for a row's prompt

declare -A models # of the rows that are made
make_row() { # name of a row: makes its model and those that it starts from
    [ -z "${models[$1]:-}" ] || return 0
    local start=${1%%_*} tasks=$folder/train.jsonl learn_more=()
    case $1 in
    forged | compact) start=base tasks=$folder/forged.jsonl ;;
    forged_[0-9]) start=base tasks=$folder/forged.jsonl learn_more=(--seed "${1##*_}") ;;
    forged_1800)
        forge forged_1800 1800 1 "${kinds[@]}"
        start=base tasks=$folder/forged_1800.jsonl learn_more=("${more_demonstrations[@]}")
        ;;
    forged_1800_more_*) start=forged_1800_tppo_1 ;;
    forged_1800_mixed_*)
        start=forged_1800_tppo_1 learn_more=(--mixture simple_python=2,multiple=1,irrelevance=1)
        ;;
    forged_1800_*) start=forged_1800 ;;&
    forged_only_* | forged_1800_only_*) tasks=$folder/more_forged.jsonl ;;
    some) start=forged tasks=$folder/demonstrations.jsonl ;;
    all) start=forged ;;
    some_*) tasks=$folder/practice.jsonl ;;
    esac
    make_row "$start"
    local learn=(run "$1" "${models[$start]}" "$tasks")
    case $1 in
    *_tppo_*) "${learn[@]}" "${reinforced[@]}" "${with_critic[@]}" "${learn_more[@]}" --seed "${1##*_}" ;;
    *_grpo_*) "${learn[@]}" "${reinforced[@]}" --algorithm_name GRPO --seed "${1##*_}" ;;
    *) "${learn[@]}" "${demonstrations[@]}" "${learn_more[@]}" $(prompt_of "$1") ;;
    esac
    models[$1]=$(checkpoint "$1")
    [[ $1 != *_*_* ]] || { merge_adapter "$1" && models[$1]=$folder/${1}_model; }
}

kinds=(simple_python multiple irrelevance)
get_model_and_tasks 600 "${kinds[@]}"
forge more_forged 600 2 "${kinds[@]}"
forge look 1 1 irrelevance # the runs play one task; the tests come at the end
models[base]=$folder/model
for name in "${rows[@]}"; do
    make_row "$name"
    answer_tests "$name" "${models[$name]}" --torch_threads 1 --concurrency 32 $(prompt_of "$name")
done
write_page "SmolLM2-135M on official tasks" "${rows[@]}"
