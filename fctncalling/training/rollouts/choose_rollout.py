"""Choose the rollout backend: local, Ray or vLLM."""

from __future__ import annotations

from fctncalling.algorithms.config import SettingError, TrainConfig
from fctncalling.algorithms.distributed.process_group import ProcessGroup
from fctncalling.algorithms.policy.actor_critic import ActorCritic
from fctncalling.algorithms.policy.chat_template import ChatTemplate
from fctncalling.laboratory import import_laboratory_module
from fctncalling.training.rollouts.rollout_backends import EpisodeSource, LocalRollout, Rollout
from fctncalling.training.run_config import RunConfig
from fctncalling.training.task_setup import TaskSetup


def check_rollout(config: TrainConfig, run_config: RunConfig) -> None:
    """Check the rollout's settings; SettingError where they exclude each other."""
    if config.max_staleness and not run_config.num_rollout_workers:
        raise SettingError(
            f"--max_staleness: got {config.max_staleness}, which needs --num_rollout_workers of at "
            "least 1: who learns cannot play meanwhile"
        )
    if config.role_adapters and (config.rollout_engine == "vllm" or run_config.num_rollout_workers):
        raise SettingError(
            "--role_adapters: does not go with --rollout_engine vllm and --num_rollout_workers: "
            "they know of one adapter; leave these out"
        )
    if run_config.agent_command is not None and (
        run_config.num_rollout_workers or config.role_adapters or config.env_name == "team"
    ):
        raise SettingError(
            "--agent_command: does not go with --num_rollout_workers, --role_adapters or "
            "--env_name team: an agent outside plays on this machine, as one policy; leave these "
            "out"
        )
    if run_config.agent_command is None and run_config.agent_per_episode:
        raise SettingError("--agent_per_episode: expected --agent_command beside it")
    if config.rollout_engine == "vllm":
        if not run_config.vllm_url:
            raise SettingError(
                "--vllm_url: --rollout_engine vllm needs the address of a server that runs"
            )
        if run_config.num_rollout_workers:
            raise SettingError(
                "--num_rollout_workers: expected 0 with --rollout_engine vllm, whose server plays "
                "along"
            )
    if config.max_staleness and config.dynamic_sampling > 1:
        raise SettingError(
            f"--dynamic_sampling: got {config.dynamic_sampling}, expected 1 with --max_staleness "
            f"{config.max_staleness}: how many rounds an update takes is known only after it was "
            "played"
        )


def choose_rollout(
    config: TrainConfig,
    run_config: RunConfig,
    policy: ActorCritic,
    template: ChatTemplate,
    setup: TaskSetup,
    processes: ProcessGroup,
) -> Rollout:
    """Choose the rollout that the settings select, a backend; an agent plays in place of envs."""
    source: EpisodeSource | None = None
    if run_config.agent_command is not None:
        part = import_laboratory_module("gateway.agent_source")
        source = part.AgentEpisodeSource(config, run_config, setup, template, processes.count)
    if run_config.num_rollout_workers:
        from fctncalling.training.rollouts.ray_rollout import RayRollout

        return RayRollout(config, run_config, policy, processes)
    if config.rollout_engine == "vllm":
        from fctncalling.training.rollouts.vllm_rollout import VllmRollout

        return VllmRollout(config, run_config, policy, template, setup.make_env, processes, source)
    return LocalRollout(config, policy, template, setup.make_env, processes, source=source)
