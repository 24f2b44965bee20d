# Steps of the recipes, sourced by them. Each goes on where it was interrupted.
# Set before: folder (of all outputs), python, common (flags of every training run); split_file, where
# the tasks are split otherwise; held_out, a file of the folder that runs play instead of test.jsonl;
# test_names, files of the folder that are answered instead of test and live_test.
set -euo pipefail
train=("$python" train_fctncalling.py --results_dir "$folder/runs")
evaluate=("$python" evaluate_fctncalling.py)
split_file=${split_file:-recipes/official_split.json}
export OMP_WAIT_POLICY=PASSIVE
mkdir -p "$folder/answers"

get_model_and_data() {
    [ -e "$folder/model/config.json" ] ||
        "${evaluate[@]}" import-model smollm2-135m --output "$folder/model"
    [ -e data/bfcl/BFCL_v4_simple_python.json ] || "${evaluate[@]}" import-bfcl --data_dir data/bfcl
}

get_model_and_tasks() { # number of forged tasks, their categories
    get_model_and_data
    forge forged "$1" 1 "${@:2}"
    split_tasks
}

forge() { # name of the file, number of tasks, seed, categories and more flags
    [ -e "$folder/$1.jsonl" ] || "${evaluate[@]}" forge --num_tasks "$2" --seed "$3" \
        --category "${@:4}" --official_dir data/bfcl --output "$folder/$1.jsonl"
}

split_tasks() {
    "$python" recipes/split_tasks.py --data_dir data/bfcl --split "$split_file" --output "$folder"
}

checkpoint() { # name of a run: its newest checkpoint, a model folder
    echo "$folder"/runs/"$1"/*/*/*/checkpoints/last
}

run() { # name, model folder, task file, more flags
    echo "== $1"
    local resume=(--resume)
    if ! [ -e "$(checkpoint "$1")" ]; then # a run that saved nothing starts anew
        rm -rf "${folder:?}/runs/$1" && resume=()
    fi
    "${train[@]}" "${resume[@]}" "${common[@]}" --experiment_name "$1" --model_name_or_path "$2" --dataset_path "$3" \
        --eval_dataset_path "$folder/${held_out:-test.jsonl}" "${@:4}"
}

arm() { # name of a row, ARM_SEED, episodes of the critic's warm-up: its flags, set in `learn`
    local with_critic=(--critic_sees progress --critic_warmup_episodes "$2" --critic_window_updates 5)
    case $1 in
    tppo_*) learn=("${with_critic[@]}") ;;
    cold_*) learn=(--critic_warmup_episodes 0) ;; # TPPO without a warmed critic
    state_*) learn=("${with_critic[@]}" --group_baseline state) ;;
    appo_*) learn=("${with_critic[@]}" --algorithm_name APPO) ;;
    grpo_*) learn=(--algorithm_name GRPO) ;;
    rloo_*) learn=(--group_baseline leave_one_out --gamma 1 --lam 1 --critic_lr 0 --critic_warmup_episodes 0) ;;
    esac
    learn=("${reinforced[@]}" "${learn[@]}" --seed "${1#*_}")
}

merge_adapter() { # name of a run of adapters: writes the model folder NAME_model
    [ -e "$folder/$1_model" ] ||
        "${evaluate[@]}" export --checkpoint "$(checkpoint "$1")" --output "$folder/$1_model"
}

answer_tests() { # name, model folder, more flags
    local tests
    for tests in $(test_sets); do
        echo "== answers of $1: $tests"
        "${evaluate[@]}" run --agent "hf:$2" --dataset_path "$folder/$tests.jsonl" --resume \
            --output "$folder/answers/$1.$tests.jsonl" --max_new_tokens 96 "${@:3}"
    done
}

test_sets() { # those that the split has
    local tests
    for tests in ${test_names:-test live_test}; do
        [ ! -e "$folder/$tests.jsonl" ] || echo $tests
    done
}

write_page() { # title, names of answers: a page for each test set
    local tests name pairs
    for tests in $(test_sets); do
        pairs=()
        for name in "${@:2}"; do pairs+=("$name=$folder/answers/$name.$tests.jsonl"); done
        "$python" recipes/results_page.py --answers "${pairs[@]}" --title "$1: $tests" \
            --dataset_path "$folder/$tests.jsonl" --output "$folder/results_$tests.md"
    done
}
