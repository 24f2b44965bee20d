"""The numbered checks of the algorithms' specification and the tests that hold each: none is left
without one.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HELD_BY = {
    "T1 length invariance": [
        "test_advantages::test_with_no_critic_the_target_is_the_discounted_outcome_at_any_length",
        "test_advantages::test_discounting_every_token_gives_the_naive_targets_which_ours_must_not_be",
        "test_wrong_credit::test_a_trace_discounted_inside_actions_is_the_naive_estimate_where_nothing_is_known",
    ],
    "T2 general values, and properties": [
        "test_advantages::test_general_values_give_the_hand_computed_advantages",
        "test_advantages::test_action_level_estimate_of_the_same_episode",
        "test_advantages::test_first_token_advantage_is_the_action_level_advantage",
        "test_advantages::test_spelling_a_token_as_several_changes_no_advantage_and_no_target",
        "test_advantages::test_merging_actions_changes_nothing_without_discount_and_reward_between",
        "test_wrong_credit::test_targets_of_other_recursions_on_the_two_actions",
    ],
    "T3 actions of one token": [
        "test_advantages::test_one_token_actions_make_every_variant_the_action_level_one",
        "test_algorithms::test_on_actions_of_one_token_all_algorithms_with_a_critic_are_one",
    ],
    "T4 enumerated world": [
        "test_enumerated_world::test_expected_targets_are_the_values_of_the_enumerated_world",
        "test_enumerated_world::test_at_the_exact_values_advantages_are_those_of_the_action_values_and_add_up",
        "test_enumerated_world::test_a_tabular_critic_trained_by_the_value_loss_finds_the_values",
        "test_enumerated_world::test_the_expected_gradient_is_that_of_the_discounted_return_for_any_critic",
        "test_enumerated_world::test_tabular_ppo_solves_it_and_its_critic_finds_the_optimal_value",
    ],
    "T5 context between actions": [
        "test_advantages::test_context_between_actions_changes_nothing_whatever_it_holds",
        "test_advantages::test_unacted_positions_may_hold_nan_anywhere",
        "test_wrong_credit::test_what_becomes_of_credit_where_context_between_actions_is_not_skipped",
    ],
    "T6 clip and KL tables": [
        "test_losses::test_clip_table",
        "test_losses::test_kl_estimators_at_a_ratio_of_three_halves",
    ],
    "T7 value loss": [
        "test_losses::test_clipped_value_loss_table",
        "test_losses::test_huber_loss_is_the_same_for_errors_of_either_sign",
    ],
    "T8 gradient identities": [
        "test_ppo::test_at_ratio_one_the_summed_token_gradient_is_the_action_likelihood_gradient",
        "test_algorithms::test_at_ratio_one_summed_tokens_are_the_actions_likelihood_and_the_token_norm_its_share",
        "test_algorithms::test_away_from_ratio_one_clipping_tokens_is_not_clipping_actions",
    ],
    "T9 log-probability of an action": [
        "test_algorithms::test_an_actions_log_probability_by_each_norm"
    ],
    "T10 length bias": [
        "test_ntpo::test_to_the_naive_algorithm_alone_the_better_action_is_worth_less",
        "test_ntpo::test_trained_the_naive_algorithm_takes_the_worse_action_and_exact_backup_the_better",
    ],
    "T11 whitening": [
        "test_advantages::test_a_zero_advantage_is_whitened_like_any_other_and_garbage_outside_the_mask_is_not_seen"
    ],
    "T12 explained variance": [
        "test_advantages::test_explained_variance_is_a_share_and_absent_for_constant_targets",
        "test_ppo::test_constant_targets_leave_explained_variance_out",
    ],
    "T13 truncation": [
        "test_advantages::test_truncation_bootstraps_and_termination_does_not",
        "test_targets::test_a_truncated_episode_goes_on_with_the_value_after_its_last_token",
    ],
    "T14 masks": [
        "test_policy::test_context_and_padding_get_no_gradient",
        "test_policy::test_an_end_token_that_is_also_the_padding_keeps_its_loss",
        "test_losses::test_what_the_mask_leaves_out_reaches_neither_loss_nor_gradient",
        "test_ppo::test_context_garbage_in_a_record_changes_no_weight",
    ],
    "T15 alignment": [
        "test_policy::test_logprob_and_value_of_a_token_are_read_from_the_position_before_it",
        "test_policy::test_the_value_at_the_end_has_read_the_last_token",
    ],
    "T16 ratio one": [
        "test_ppo::test_the_first_ratio_is_exactly_one",
        "test_ppo::test_the_training_pass_agrees_with_the_sampling_one",
    ],
    "T17 layout": [
        "test_policy::test_layouts_agree_padded_right_padded_left_trimmed_and_one_by_one",
        "test_batch_layout::test_how_rows_are_grouped_changes_no_logprob_no_value_and_no_gradient",
        "test_targets::test_one_row_an_episode_and_one_row_a_step_are_the_same_learning",
    ],
    "T18 accumulation and processes": [
        "test_ppo::test_accumulating_gradients_changes_nothing_but_memory",
        "test_losses::test_parts_divided_by_the_whole_count_add_up_to_the_whole_mean",
        "test_processes::test_both_processes_have_the_gradient_of_one",
        "test_processes::test_after_two_updates_both_have_the_weights_and_the_figures_of_one",
        "test_processes::test_both_processes_meet_equally_often",
        "test_processes::test_a_checkpoint_of_two_processes_is_gone_on_from_bit_for_bit",
    ],
    "T19 divergence from the reference": [
        "test_losses::test_kl_estimators_average_to_the_divergence",
        "test_lora::test_the_reference_is_the_base_from_the_first_update_to_the_last",
    ],
    "T20 precision": [
        "test_lora::test_a_hundred_steps_at_a_tiny_rate_move_an_adapter_on_any_base",
        "test_lora::test_the_same_steps_in_half_precision_would_move_nothing",
        "test_policy::test_trainable_half_precision_is_refused_and_frozen_half_precision_is_not",
    ],
    "T21 resume": [
        "test_train::test_ctrl_c_then_resume_equals_an_uninterrupted_run",
        "test_train::test_every_option_of_the_update_resumes_to_the_same_end",
        "test_train::test_adapters_resume_to_the_same_end_and_are_exported_as_an_ordinary_model",
        "test_kills::test_ten_kills_at_random_moments_leave_no_trace_in_the_numbers",
    ],
    "T22 learning": [
        "test_learning::test_a_constant_target_is_found",
        "test_learning::test_an_action_can_depend_on_the_observation",
        "test_learning::test_a_step_cost_teaches_the_shortest_way",
        "test_learning::test_microwave_is_solved_and_its_first_observation_valued_at_gamma_squared",
    ],
}


def test_every_number_of_the_specification_is_held() -> None:
    assert [check.split()[0] for check in HELD_BY] == [f"T{number}" for number in range(1, 23)]


@pytest.mark.parametrize("check", HELD_BY)
def test_the_tests_that_hold_it_are_there(check: str) -> None:
    for name in HELD_BY[check]:
        module, function = name.split("::")
        [file] = Path(__file__).parents[1].rglob(f"{module}.py")
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (
            name
        )
