"""vLLM servers sample: ids in and out, a new name for every version of the adapter, several of
them, patience while they are away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from config_files import config_flag
from stub_vllm import StubVllm, vllm_stub
from tiny_models import EchoEnv, save_tiny, tiny_model

from fctncalling.algorithms.generation.engine_api import Action, EngineError, Request, RolloutError
from fctncalling.algorithms.policy.lora import Adapters
from fctncalling.algorithms.vllm import client as client_module
from fctncalling.algorithms.vllm import servers as server_state
from fctncalling.algorithms.vllm.client import Completion, VllmClient
from fctncalling.algorithms.vllm.engine import VllmEngine
from fctncalling.algorithms.vllm.servers import VllmServers
from fctncalling.algorithms.vllm.weights import PublishedAdapters
from fctncalling.cli.train import main, parse_settings
from fctncalling.training.run_config import RunConfig

END = 2  # <|im_end|>, where a turn of the tiny tokenizer ends


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client_module, "ERROR_WAIT_S", 0.002)
        patch.setattr(server_state, "FIRST_WAIT_S", 0.002)
        patch.setattr(server_state, "MAX_WAIT_S", 0.002)
        gymnasium.register("Echo-v0", entry_point=lambda **_: EchoEnv())
        yield
        del gymnasium.registry["Echo-v0"]


@pytest.fixture(scope="module")
def whole(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[StubVllm, Path]:
    """Return the server of an undisturbed run, as it was left, and the run's results."""
    results = tmp_path_factory.mktemp("whole")
    with vllm_stub(model) as stub:
        assert main(flags(model, results, stub.url)) == 0
    return stub, results


def published(server: VllmServers, folder: Path) -> str:
    return PublishedAdapters(server, folder).publish(Adapters(tiny_model(), r=2, alpha=4.0), 0)


def sampled(actor: VllmEngine, *requests: Request) -> list[Action]:
    actor.allocate_slots(len(requests))
    for request in requests:
        actor.begin_sequence(request.slot, seed=request.slot)
    return actor.generate(requests)


def flags(model: Path, results: Path, url: str, *more: str) -> list[str]:
    chosen = {
        "env_name": "Echo-v0",
        "model_name_or_path": model,
        "results_dir": results,
        "num_updates": 2,
        "episodes_per_update": 4,
        "n_rollout_threads": 4,
        "num_mini_batch": 2,
        "max_new_tokens": 3,
        "max_episode_tokens": 300,
        "eval_episodes": 1,
        "eval_interval": 0,
        "lr": 1e-2,
        "lora_r": 4,
        "device": "cpu",
        "tensorboard": "false",
        "rollout_engine": "vllm",
        "vllm_url": url,
    }
    return [*(f"--{name}={value}" for name, value in chosen.items()), *more]


def metrics_of(results: Path) -> list[dict[str, Any]]:
    text = (results / "check/tiny/Echo-v0/TPPO/metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_an_action_comes_back_as_ids_with_log_probabilities_and_why_it_ended(
    model: Path, tmp_path: Path
) -> None:
    seen: list[tuple[int, float | None]] = []
    with vllm_stub(model) as stub:
        server = VllmServers([stub.url + "/v1"])
        actor = VllmEngine(server, published(server, tmp_path), [END], max_new_tokens=6)
        cut, stopped, ended = sampled(
            actor,
            Request(0, [5, 6, 7], on_token=lambda token, logprob: seen.append((token, logprob))),
            Request(1, [5, 6, 7], stop_ids=range(3, 259)),
            Request(2, [9, 9], max_new_tokens=3),
        )
        bodies = {tuple(body["prompt"]): body for body in stub.bodies}
        server.close()
    assert (cut.stop_reason, len(cut.ids), cut.truncated) == ("length", 6, True)
    assert seen == list(zip(cut.ids, cut.logprobs, strict=True))
    assert (stopped.stop_reason, len(stopped.ids)) == ("stop", 1)
    assert ended.stop_reason in ("length", "end")
    assert all(logprob < 0 for action in (cut, stopped, ended) for logprob in action.logprobs)
    assert cut.acted == [True] * 6
    assert actor.num_sampled_tokens == 7 + len(ended.ids)
    assert bodies[9, 9]["max_tokens"] == 3
    assert bodies[9, 9]["stop_token_ids"] == [END]
    assert bodies[9, 9]["ignore_eos"]


def test_the_next_request_of_a_slot_goes_on_where_its_last_action_ended(
    model: Path, tmp_path: Path
) -> None:
    with vllm_stub(model) as stub:
        server = VllmServers([stub.url])
        actor = VllmEngine(server, published(server, tmp_path), [END], max_new_tokens=4)
        [first] = sampled(actor, Request(0, [5, 6, 7]))
        [second] = actor.generate([Request(0, [8, 9])])
        assert stub.bodies[1]["prompt"] == [5, 6, 7, *first.ids, 8, 9]
        assert stub.bodies[0]["seed"] != stub.bodies[1]["seed"]
        again = sampled(actor, Request(0, [5, 6, 7]))  # begun with the same seed
        server.close()
    assert again == [first]
    assert second.ids


def test_what_answers_a_stop_is_read_and_the_action_goes_on(model: Path, tmp_path: Path) -> None:
    calls: list[int] = []

    def answer(action: Action) -> list[int] | None:
        calls.append(len(action.ids))
        return [40, 41] if len(calls) == 1 else None

    with vllm_stub(model) as stub:
        server = VllmServers([stub.url])
        actor = VllmEngine(server, published(server, tmp_path), [END], max_new_tokens=20)
        [action] = sampled(actor, Request(0, [5, 6, 7], stop_ids=range(3, 259), on_stop=answer))
        server.close()
    assert calls == [1, 4]
    assert action.ids[1:3] == [40, 41]
    assert action.acted == [True, False, False, True]
    assert action.logprobs[1:3] == [0.0, 0.0]
    assert stub.bodies[1]["prompt"] == [5, 6, 7, *action.ids[:3]]


def test_a_run_samples_from_each_version_of_the_adapter_under_a_name_of_its_own(
    whole: tuple[StubVllm, Path],
) -> None:
    stub, results = whole
    updates = [line for line in metrics_of(results) if "losses/policy_loss" in line]
    assert len(updates) == 2
    for line in updates:  # the stub's own passes through the very adapter agree with training's
        assert line["mismatch/mean_logdiff"] < 1e-5
        assert line["mismatch/importance_mean"] == pytest.approx(1.0, abs=1e-4)
        assert line["mismatch/importance_cut_share"] == 0.0
        assert line["env/invalid"] == 0
    names, folders = zip(*stub.loaded, strict=True)
    assert (
        len(set(names)) == len(set(folders)) == len(names) == 3
    )  # before each update, and after the last
    assert stub.most_adapters <= 3
    assert stub.adapters == {}
    assert [folder for folder in folders if Path(folder).exists()] == []


def test_a_server_that_goes_and_comes_back_empty_changes_nothing(
    model: Path, tmp_path: Path, whole: tuple[StubVllm, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with vllm_stub(model) as stub:

        def plan(number: int, body: dict[str, Any]) -> int | str | None:
            if number == 20:
                stub.restart()
            return (
                "drop"
                if 10 <= number < 20
                else 503
                if 20 <= number < 24
                else 500
                if number == 30
                else None
            )

        stub.plan = plan
        assert main(flags(model, tmp_path, stub.url)) == 0
        names = [name for name, _ in stub.loaded]
    assert len(names) > len(
        set(names)
    )  # an adapter that the new server did not know was loaded again
    assert metrics_of(whole[1]) == metrics_of(tmp_path)
    assert f"the vLLM server at {stub.url} does not answer" in caplog.text
    assert "answers again" in caplog.text


def test_of_two_servers_one_that_dies_is_left_out_and_comes_back_with_the_current_adapters(
    model: Path, tmp_path: Path, whole: tuple[StubVllm, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with vllm_stub(model) as first, vllm_stub(model) as second:
        back_at: list[int] = []  # how many requests the first one had had before

        def plan_first(number: int, body: dict[str, Any]) -> str | None:
            if number == 3:
                first.down = True
                first.restart()
                return "drop"
            return None

        def plan_second(number: int, body: dict[str, Any]) -> None:
            if first.down and number == 12:
                back_at.append(len(first.bodies))
                first.down = False

        first.plan, second.plan = plan_first, plan_second
        assert main(flags(model, tmp_path, first.url, f"--vllm_url={second.url}")) == 0
        after = [body["model"] for body in first.bodies[back_at[0] :]]
    assert set(after) <= {name for name, _ in first.loaded[1:]}
    assert after  # it took part again
    assert len(second.bodies) > 13
    assert metrics_of(whole[1]) == metrics_of(tmp_path)
    assert "going on with 1 other server(s)" in caplog.text
    assert f"the vLLM server at {first.url} answers again" in caplog.text


class Recorded:
    """Publication that records which server a slot's request went to; those in `dead` do not
    answer, nor can they be prepared.
    """

    def __init__(self) -> None:
        self.requested: list[tuple[str, int]] = []
        self.dead: set[str] = set()

    def update_server(self, client: VllmClient) -> None:
        if client.url in self.dead:
            raise client_module.ServerAwayError("refused")

    def complete(
        self, client: VllmClient, version: str, prompt: Sequence[int], **_: Any
    ) -> Completion:
        self.update_server(client)
        self.requested.append((client.url, prompt[0]))
        return Completion([1], [0.0], "length", None, version)


def test_slots_are_spread_over_servers_and_each_stays_with_its_own_while_that_answers() -> None:
    urls = ["http://127.0.0.1:9", "http://127.0.0.1:19", "http://127.0.0.1:29"]
    pool, record = VllmServers(urls, patience_s=0.05, offset=1), Recorded()
    pool.publication = record

    def requested(*slots: int) -> dict[int, str]:
        record.requested.clear()
        for slot in slots:
            pool.complete(slot, "policy", [slot])
        return {slot: url for url, slot in record.requested}

    first = requested(*range(6))
    assert [first[slot] for slot in range(3)] == [urls[1], urls[2], urls[0]]  # by the offset
    assert sorted(first.values()) == sorted(urls * 2)
    assert requested(5, 4, 3, 2, 1, 0) == first
    record.dead = {urls[0]}
    moved = requested(*range(6))
    assert {slot for slot in range(6) if moved[slot] != first[slot]} == {2, 5}
    assert set(moved.values()) == {urls[1], urls[2]}
    record.dead = set(urls)
    with pytest.raises(RolloutError, match=r"servers at .* have all been away"):
        pool.complete(0, "policy", [0])
    pool.close()


def test_an_action_that_cannot_be_had_makes_its_episode_invalid_and_no_reward(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[int | None] = []

    def plan(number: int, body: dict[str, Any]) -> int | None:
        if number == 6:
            refused.append(body.get("seed"))
        return 500 if body.get("seed") in refused else None

    with vllm_stub(model, plan) as stub:
        assert main(flags(model, tmp_path, stub.url, "--num_updates=1", "--temperature=0.7")) == 0
    lines = [line for line in metrics_of(tmp_path) if "env/invalid" in line]
    assert sum(line["env/invalid"] for line in lines) == 1
    assert (
        lines[0]["mismatch/mean_logdiff"] < 1e-5
    )  # at a temperature, as the server was told to tell them
    assert "HTTP 500" in caplog.text
    assert "dropped as invalid" in caplog.text


def test_a_server_that_stays_away_ends_the_run_saved_and_resume_goes_on(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    impatient = config_flag(tmp_path, vllm_patience_s=0.05)
    with vllm_stub(model, lambda number, body: "drop" if number >= 16 else None) as stub:
        assert main(flags(model, tmp_path, stub.url, impatient)) == 1
    told = capsys.readouterr().err
    assert f"the vLLM server at {stub.url} has been away for" in told
    assert "--resume" in told
    with vllm_stub(model) as stub:
        assert main(flags(model, tmp_path, stub.url, "--resume")) == 0
    assert [line["update"] for line in metrics_of(tmp_path) if "losses/policy_loss" in line] == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["--vllm_url=none"], "--vllm_url: --rollout_engine vllm needs the address"),
        (["--num_rollout_workers=2"], "--num_rollout_workers: expected 0"),
        (["--vllm_url=http://127.0.0.1:9"], "no vLLM server answers there"),
        (
            ["--rollout_engine=local"],
            "--vllm_url: no effect without --rollout_engine vllm",
        ),
    ],
    ids=lambda it: it[0] if isinstance(it, list) else "",
)
def test_settings_that_do_not_go_together_are_told_at_once(
    model: Path, tmp_path: Path, changes: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(model, tmp_path, "http://127.0.0.1:9", *changes)) == 2
    assert told in capsys.readouterr().err


def test_log_probabilities_of_another_temperature_are_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with vllm_stub(model, processed_logprobs=False) as stub:
        assert main(flags(model, tmp_path / "raw", stub.url, "--temperature=0.7")) == 2
    assert "--logprobs-mode processed_logprobs" in capsys.readouterr().err


def test_addresses_may_be_parted_by_blanks_or_given_one_by_one() -> None:
    words = ["--vllm_url", "http://a:1", "http://b:2", "--vllm_url", "http://c:3"]
    run_config = RunConfig.from_args(parse_settings(words))
    assert run_config.vllm_url == "http://a:1,http://b:2,http://c:3"
    assert RunConfig.from_args(parse_settings([])).vllm_url is None


def test_a_server_that_refuses_the_adapter_or_the_key_ends_the_run_with_the_cure(
    model: Path, tmp_path: Path
) -> None:
    with vllm_stub(model, lambda number, body: 401) as stub:
        server = VllmClient(stub.url)
        with pytest.raises(RolloutError, match="--vllm_adapter_dir names another"):
            server.load_adapter("policy", str(tmp_path / "nowhere"))
        with pytest.raises(RolloutError, match="VLLM_API_KEY"):
            server.complete("policy", [1])
        server.close()


def test_a_closed_connection_frees_those_who_wait(model: Path) -> None:
    server = VllmServers(["http://127.0.0.1:9"])
    server.close()
    with pytest.raises(EngineError, match="the run ended"):
        server.complete(0, "policy", [1])
