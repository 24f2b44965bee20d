# Trains on tasks of your own; MODEL is a folder or a name of the hub.
export PYTHONPATH=.
fctncalling train --dataset_path my_tasks.json --allow_task_tools --model_name_or_path "$MODEL"
