"""The memory plan: its terms beside what autograd holds, its peak beside what a process takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from fctncalling.algorithms.config import TrainConfig
from fctncalling.algorithms.config.model_presets import PRESETS
from fctncalling.algorithms.generation import fused_decoder
from fctncalling.algorithms.policy.actor_critic import ActorCritic, Batch
from fctncalling.algorithms.policy.precision import weights_dtype
from fctncalling.algorithms.ppo import make_optimisers
from fctncalling.algorithms.run.checkpoint import save_checkpoint
from fctncalling.cli.train import main
from fctncalling.data.bfcl import embedded_path
from fctncalling.lab.memory_plan import planning, policy_sizes, printed_plan
from fctncalling.lab.memory_plan.episode_lengths import EpisodeLengths, measure_episode_lengths
from fctncalling.lab.memory_plan.printed_plan import ProductTimes, RunTime, remedies, time_text
from fctncalling.progress_bar import duration_text
from fctncalling.training.load_policy import configure_policy
from fctncalling.training.run_config import RunConfig

torch.set_num_threads(1)
CPU = torch.device("cpu")
ROWS, ROW = 3, 160  # more than one block of queries


def write_model(folder: Path, kind: str = "llama", **changes: int) -> Path:
    """Write a random model, and a tokenizer."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 4}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    config = AutoConfig.for_model(kind, **{**sizes, **heads, "pad_token_id": 0, **changes})
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def policy_of(folder: Path, config: TrainConfig) -> ActorCritic:
    policy = ActorCritic.load(folder, critic_hidden=config.critic_hidden).eval()
    configure_policy(policy, config, None, CPU)
    return policy


def held_bytes(policy: ActorCritic, *, shared: bool) -> int:
    """Return the bytes, weights aside, that autograd holds after a pass over rows that begin
    alike.
    """
    weights = {it.untyped_storage().data_ptr() for it in policy.parameters()}
    held: dict[int, int] = {}

    def hold(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            held[storage.data_ptr()] = storage.nbytes()
        kept.append(tensor)  # or its memory would be given to another
        return tensor

    kept: list[torch.Tensor] = []
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 64, (ROWS, ROW), generator=draw)
    ids[:, : ROW // 2] = ids[0, : ROW // 2]
    acted = torch.zeros(ids.shape, dtype=torch.bool)
    acted[:, 1:] = True
    sharing: Any = policy.prefix_sharing
    every_token = sharing._replace(layer_flops=10**9)  # is shared
    tree = every_token.build_tree([row.numpy() for row in ids]) if shared else None
    with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
        policy(Batch(ids, torch.ones_like(acted), acted, tree))
    return sum(held.values())


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("llama", {}),
        ("llama", {"lora_r": 4}),
        ("llama", {"critic": "full"}),
        ("llama", {"group_size": 4}),
        ("qwen3", {}),
        ("qwen3", {"lora_r": 4, "critic": "lora"}),
    ],
)
def test_activations_of_two_layers_are_those_that_autograd_holds(
    tmp_path: Path, kind: str, changes: dict[str, Any]
) -> None:
    shared = "group_size" in changes
    tokens = ROWS * ROW - shared * (ROWS - 1) * (ROW // 2)
    held, planned = [], []
    for num_layers in (2, 4):  # the difference leaves out heads, embedding and the last layer
        folder = write_model(tmp_path / str(num_layers), kind, num_hidden_layers=num_layers)
        config = TrainConfig(model_name_or_path=str(folder), **changes)
        sizes = policy_sizes(config, CPU)
        planned.append(
            planning.RunMemory(
                config, sizes, planning.MicrobatchSize(tokens, ROW, shared, True)
            ).activation_bytes()
        )
        held.append(held_bytes(policy_of(folder, config), shared=shared))
    assert planned[1] - planned[0] == pytest.approx(held[1] - held[0], rel=0.02)


@pytest.mark.parametrize("changes", [{}, {"critic": "full"}, {"lora_r": 4, "critic": "lora"}])
def test_a_checkpoint_takes_the_disk_that_the_plan_tells(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    folder = write_model(tmp_path / "model", hidden_size=256, intermediate_size=512)
    config = TrainConfig(model_name_or_path=str(folder), **changes)
    policy = policy_of(folder, config)
    optimisers = make_optimisers(policy, config)
    for weight in policy.parameters():
        weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
    optimisers.policy.step()  # type: ignore[union-attr]
    optimisers.critic.step()
    state = {name: each.state_dict() for name, each in optimisers._asdict().items()}
    save_checkpoint(tmp_path, "update_000001", policy=policy, state=state)
    files = [path for path in (tmp_path / "update_000001").rglob("*") if path.is_file()]
    planned = planning.make_plan(config).checkpoint_bytes
    assert planned == pytest.approx(sum(file.stat().st_size for file in files), rel=0.08)


@pytest.mark.parametrize(
    "changes", [{}, {"critic": "full"}, {"lora_r": 4, "critic": "lora"}, {"kl_coef": 0.1}]
)
def test_weights_are_counted_as_the_policy_has_them(model: Path, changes: dict[str, Any]) -> None:
    config = TrainConfig(model_name_or_path=str(model), **changes)
    sizes, policy = policy_sizes(config, CPU), policy_of(model, config)
    trained = [*policy.policy_parameters(), *policy.critic_parameters()]
    assert sizes.num_weights == sum(it.numel() for it in policy.parameters())
    assert sizes.num_trained == sum(it.numel() for it in trained)
    reference = policy._reference[0].model.parameters() if policy._reference else ()
    held = [*policy.parameters(), *reference]
    assert sizes.weight_bytes == sum(it.numel() * it.element_size() for it in held)


@pytest.mark.parametrize("most_fused", [0, 2**30])
@pytest.mark.parametrize(
    ("changes", "cast"),
    [
        ({}, (0, 0)),
        ({"compute_dtype": "bfloat16"}, (2, 0)),
        ({"lora_r": 4, "base_dtype": "bfloat16", "compute_dtype": "bfloat16"}, (0, 4)),
    ],
    ids=["fp32", "passes in bf16", "all in bf16"],
)
def test_copies_of_weights_are_those_that_the_rollout_makes(
    model: Path,
    changes: dict[str, Any],
    cast: tuple[int, int],  # bytes a weight of layers, and of the output layer
    most_fused: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (fused_decoder, sys.modules[policy_sizes.__module__]):
        monkeypatch.setattr(module, "MAX_FUSED_PARAMETERS", most_fused)
    config = TrainConfig(model_name_or_path=str(model), **changes)
    policy = ActorCritic.load(model, critic_hidden=8, dtype=weights_dtype(config, CPU)).eval()
    configure_policy(policy, config, None, CPU)
    decoder: Any = fused_decoder.FusedDecoder(policy.model, 1)
    layers = [*decoder._layers]
    layers = [one for it in layers for one in (it.qkv, it.output, it.inner, it.down)]
    copied = [layer._weight for layer in (*layers, decoder._head) if layer._weight is not None]
    sizes, half = policy_sizes(config, CPU), 2 * bool(changes)
    adapters = half * sum(it.numel() for n, it in policy.named_parameters() if "lora_" in n)
    whole = sum(it.numel() * it.element_size() for it in copied)
    assert sizes.copied_bytes == whole + adapters
    head = policy.model.get_output_embeddings()
    linear = [it for it in policy.model.modules() if type(it) is nn.Linear and it is not head]
    of_layers = sum(it.weight.numel() for it in linear)
    assert sizes.cast_bytes == cast[0] * of_layers + cast[1] * head.weight.numel() + adapters


def test_each_role_has_its_adapter_its_value_head_and_its_rollouts_copies(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = ("planner", "caller", "checker")
    own = {"lora_r": 4, "role_adapters": True, "team_critic": "per_role"}
    config = TrainConfig(model_name_or_path=str(model), critic_hidden=8, **own)
    policy = ActorCritic.load(model, critic_hidden=8, critic_roles=roles)
    configure_policy(policy, config, None, CPU, roles)
    sizes, alone = policy_sizes(config, CPU, roles), policy_sizes(config, CPU, roles[:1])
    assert sizes.num_weights == sum(it.numel() for it in policy.parameters())
    assert sizes.layer.lora_rank == alone.layer.lora_rank == 7 * 4  # linear layers of a layer
    monkeypatch.setattr(planning, "free_memory", lambda device: 10**9)
    three, one = (planning.make_plan(config, each).phases[0] for each in (roles, roles[:1]))
    for name in ("decoder's copies", "KV cache", "prefix tree"):
        many, single = (
            next(it.num_bytes for it in phase.terms if it.name == name) for phase in (three, one)
        )
        assert many == pytest.approx(3 * single)


def test_a_central_critics_pass_holds_the_rows_of_all_roles_and_the_state(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "free_memory", lambda device: 10**9)
    settings = {"critic": "full", "group_size": 4, "max_microbatch_tokens": 1024}
    config = TrainConfig(model_name_or_path=str(model), team_critic="central", **settings)
    batch = planning.make_plan(config, ("planner", "caller")).microbatch
    assert (batch.tokens, batch.row, batch.shared) == (3 * 1024, 3 * 1024, False)


def test_the_command_plans_for_the_roles_of_the_team(capsys: pytest.CaptureFixture[str]) -> None:
    weights = []
    for more in ([], ["--role_adapters=true"]):
        assert main(["--env_name=team", "--lora_r=8", "--plan=json", *more]) == 0
        weights.append(json.loads(capsys.readouterr().out)["num_trained"])
    assert weights[1] > 1.5 * weights[0]


def plan_of(model: Path, available: int, patch: pytest.MonkeyPatch, **changes: Any) -> Any:
    patch.setattr(planning, "free_memory", lambda device: available)
    patch.setattr(planning, "resident_memory", lambda: 0)
    settings = {"model_name_or_path": str(model), "n_rollout_threads": 1, "critic_hidden": 8}
    return planning.make_plan(TrainConfig(**{**settings, **changes}))


def test_the_largest_microbatch_fits_and_one_row_more_does_not(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    available = 200_000_000
    first = plan_of(model, available, monkeypatch)
    assert first.largest_microbatch is not None
    most = first.largest_microbatch
    row = TrainConfig().max_episode_tokens
    many = {"episodes_per_update": 4096}  # so that a pass is as large as it may be
    assert plan_of(model, available, monkeypatch, max_microbatch_tokens=most, **many).fits
    assert not plan_of(model, available, monkeypatch, max_microbatch_tokens=most + row, **many).fits


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"gradient_checkpointing": True}),
        ({"critic": "full"}, {}),
        # Without checkpointing malloc holds more beside adapters than their gradients save.
        ({"gradient_checkpointing": True}, {"gradient_checkpointing": True, "lora_r": 4}),
        ({"max_microbatch_tokens": 8192}, {}),
    ],
)
def test_what_saves_memory_saves_it_in_the_plan(
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: dict[str, Any],
    second: dict[str, Any],
) -> None:
    more, less = (plan_of(model, 10**9, monkeypatch, **each) for each in (first, second))
    update = next(phase for phase in more.phases if phase.name == "update")
    lighter = next(phase for phase in less.phases if phase.name == "update")
    assert lighter.num_bytes < update.num_bytes


@pytest.mark.parametrize("name", ["0.1B", "0.1B-cpu", "0.5B", "8B-lora"])
@pytest.mark.parametrize("longest", [300, 10**9])
def test_no_preset_plans_more_than_a_run_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, longest: int
) -> None:
    sizes = {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536}
    heads = {"num_attention_heads": 9, "num_key_value_heads": 3, "num_hidden_layers": 30}
    model = tmp_path  # of which a plan reads the configuration alone
    AutoConfig.for_model("llama", **sizes, **heads, pad_token_id=0).save_pretrained(model)
    monkeypatch.setattr(planning, "free_memory", lambda device: 10**9)
    start = {"model_name_or_path": str(model)}
    with_preset = TrainConfig(**{**start, **PRESETS[name], "preset": name})
    needed = []
    for config in (TrainConfig(**start), with_preset):
        lengths = EpisodeLengths(longest, 50, 100, longest + config.max_new_tokens, 40)
        needed.append(planning.make_plan(config, lengths=lengths).needed_bytes)
    assert needed[1] <= 1.001 * needed[0]  # a longer row has a larger bias of its attention


def test_a_device_that_is_not_here_is_planned_for(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model_name_or_path", str(model), "--device", "cuda", "--plan=json"]
    found = []
    for memory in ("24GB", "40MB", None):
        code = main([*words, *(["--memory", memory] if memory else [])])
        found.append((code, json.loads(capsys.readouterr().out)))
    (code, roomy), (refused, narrow), (_, unknown) = found
    assert (code, refused) == (0, 1)
    assert (roomy["device"], roomy["available_bytes"]) == ("cuda", 24 * 10**9)
    assert narrow["available_bytes"] == 40 * 10**6
    assert roomy["seconds"] is None
    assert unknown["available_bytes"] is None or torch.cuda.is_available()
    assert main([*words, "--memory", "much"]) == 2
    assert '--memory: got "much", expected a size such as 24GB' in capsys.readouterr().err


def test_the_time_of_a_run_is_that_of_its_products(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed_plan, "OVERHEAD", 1.0)
    monkeypatch.setattr(printed_plan, "LAYER_S", 0.0)
    config = TrainConfig(model_name_or_path=str(model), critic_hidden=8, share_prefixes=False)
    config = replace(config, num_updates=3, eval_interval=2, episodes_per_update=6, group_size=2)
    config = replace(config, n_rollout_threads=4, max_new_tokens=50, sft_batch_size=5)
    sizes = policy_sizes(config, CPU)
    layers, head = 4 * sizes.layer_weights, 32 * 64
    lengths = EpisodeLengths(300, 0, 200, 350, 10, 200.0, 20.0, 2.0, 12)
    stages = RunTime(config, sizes, lengths, ProductTimes(1e-9, 1e-7)).stages()

    def playing(episodes: int, answer: float) -> float:
        read = episodes * 200 * (layers + 4 * 32 * (200 + answer)) * 1e-9
        return read + -(-episodes // 4) * answer * (layers + head) * 1e-7

    def learning(rows: int) -> float:
        return rows * 220 * (layers + 4 * 32 * 220) * 1e-9

    expected = {
        "evaluation before": playing(20, 100),  # two answers of 50
        "supervised stage": 3 * 3 * learning(5),
        "evaluation": playing(20, 20),
        "updates": 3 * (playing(6, 20) + 4 * learning(6)),
        "evaluations": 2 * playing(20, 20),  # after updates 2 and 3
    }
    assert [stage.name for stage in stages] == [*expected]
    for stage in stages:
        assert stage.seconds == pytest.approx(expected[stage.name]), stage.name


class BusyTime:
    """Clocks that a product moves on: one of it by a CPU second, the other by `busy` seconds."""

    def __init__(self, busy: float) -> None:
        self.busy, self.now = busy, 0.0

    def product(self, *_: Any) -> None:
        self.now += 1.0

    def process_time(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        return self.busy * self.now


@pytest.mark.parametrize("busy", [1.0, 6.0])
def test_on_a_busy_machine_a_plan_counts_cpu_seconds_and_says_the_range(
    busy: float, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainConfig(model_name_or_path=str(model), critic_hidden=8)
    sizes, clock = policy_sizes(config, CPU), BusyTime(busy)
    monkeypatch.setattr(printed_plan, "time", clock)
    monkeypatch.setattr(printed_plan, "F", SimpleNamespace(linear=clock.product))
    products = printed_plan.measure_products(config, sizes)
    assert products.reading == pytest.approx(1 / (sizes.layer.hidden * sizes.layer.inner * 256))
    assert products.slowdown == busy
    lengths = EpisodeLengths(300, 0, 200, 350, 10, 200.0, 20.0, 2.0, 12)
    planned = RunTime(config, sizes, lengths, ProductTimes(1e-6, 1e-4, products.slowdown))
    told = time_text(planned).splitlines()[0]
    total = sum(stage.seconds for stage in planned.stages())
    assert f"about {duration_text(total)} on free cores" in told
    assert (f"{duration_text(busy * total)} where they stay as busy as now" in told) == (busy > 1)


def test_the_command_estimates_the_time_of_each_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(printed_plan, "MEASURED_S", 0.001)
    words = ["--dataset_path", str(embedded_path("held_out")), "--sft_tasks=dataset"]
    words += ["--num_updates=0", "--eval_episodes=4"]
    assert main([*words, "--plan=json"]) == 0
    seconds = json.loads(capsys.readouterr().out)["seconds"]
    assert list(seconds) == ["evaluation before", "supervised stage", "evaluation"]
    assert min(seconds.values()) > 0


def test_fewer_episodes_side_by_side_are_offered_gently(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainConfig(model_name_or_path=str(model), n_rollout_threads=64, critic_hidden=8)
    monkeypatch.setattr(planning, "resident_memory", lambda: 0)
    need = {n: _needed(config, n) for n in (64, 32, 16)}
    memory = (need[16] + need[32]) // 2
    plan_of = partial(planning.make_plan, memory=memory)
    first, *_ = remedies(plan_of(config), config, plan_of)
    assert first.startswith("--n_rollout_threads 16: ")


def _needed(config: TrainConfig, threads: int) -> int:
    """Return the bytes that the settings need with so many episodes side by side."""
    return planning.make_plan(replace(config, n_rollout_threads=threads)).needed_bytes


def test_lengths_are_those_of_the_ground_truths(capsys: pytest.CaptureFixture[str]) -> None:
    config = TrainConfig(dataset_path=str(embedded_path("held_out")), max_new_tokens=16)
    found = measure_episode_lengths(config, RunConfig())
    assert found is not None
    assert found.shared <= found.prompt < found.demonstration == found.episode - 16 < 400
    assert 8 <= found.num_held_out < 100
    assert capsys.readouterr().out == ""  # a plan in JSON stays JSON
    assert measure_episode_lengths(TrainConfig(env_name="calculator"), RunConfig()) is None


@pytest.mark.parametrize(("num_updates", "slots"), [(0, 3), (1, 8)])
def test_a_run_that_only_evaluates_caches_no_more_than_its_evaluation_plays(
    model: Path, monkeypatch: pytest.MonkeyPatch, num_updates: int, slots: int
) -> None:
    threads = {"n_rollout_threads": 8, "eval_episodes": 3, "episodes_per_update": 64}
    plan = plan_of(model, 10**9, monkeypatch, num_updates=num_updates, **threads)
    terms_of = {it.name: it.num_bytes for it in plan.phases[0].terms}
    row = TrainConfig().max_episode_tokens
    a_token = 4 * 2 * 16 * 4  # layers, keys and values, their width, bytes
    assert terms_of["prefix tree"] == slots * row * a_token


def test_the_command_loads_no_weights_and_says_whether_the_run_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    results = tmp_path / "results"
    flags = ["--model_name_or_path", str(folder), "--results_dir", str(results)]
    assert main([*flags, "--plan"]) == 0
    text = capsys.readouterr().out
    assert "fits." in text
    assert "Largest --max_microbatch_tokens that fits: " in text
    assert "Time: not estimated" in text
    assert text.endswith("next: the same command without --plan\n")
    monkeypatch.setattr(planning, "free_memory", lambda device: 60_000_000)
    monkeypatch.setattr(planning, "resident_memory", lambda: 0)
    assert main([*flags, "--plan", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["fits"]
    assert found["needed_bytes"] > found["available_bytes"] == 60_000_000
    assert found["remedies"]
    assert all(each.startswith("--") for each in found["remedies"])
    assert not results.exists()
    assert main(["--plan", "--model_name_or_path", str(tmp_path / "none")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "there is no such folder" in line


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "full": {},
    "LoRA": {"lora_r": 16},
    "full critic": {"critic": "full"},
    "checkpointing": {"gradient_checkpointing": True, "max_microbatch_tokens": 4096},
    "shared prefixes": {"group_size": 4, "episodes_per_update": 8},
    "two processes": {"episodes_per_update": 8},
    "two processes, FSDP": {"fsdp": True, "episodes_per_update": 8},
}


@pytest.mark.prove
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_planned_peak_is_within_15_per_cent_of_the_measured_one(
    tmp_path: Path, name: str
) -> None:
    sizes = {"vocab_size": 32768, "hidden_size": 384, "intermediate_size": 1024}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 64}
    write_model(tmp_path, num_hidden_layers=12, tie_word_embeddings=True, **sizes, **heads)
    AutoTokenizer.from_pretrained(embedded_path("model")).save_pretrained(tmp_path)
    program = str(Path(__file__).parent / "support" / "memory_child.py")
    launcher = [sys.executable]
    if "processes" in name:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    subprocess.run(
        [*launcher, program, str(tmp_path), json.dumps(CONFIGURATIONS[name])],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"},
    )
    for file in tmp_path.glob("found_*.json"):
        found = json.loads(file.read_text())
        print(name, found)
        assert found["planned"] == pytest.approx(found["measured"], rel=0.15)


def test_free_memory_of_a_gpu_includes_what_this_process_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3_000, 10_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2_000)
    assert planning.free_memory(torch.device("cuda")) == 5_000
