//! One suite over all plans: what holds under one holds under each.
//!
//! `ray` is ignored unless asked for, and needs the address of a cluster in `RADDLE_TEST_RAY`: `cargo xtask ray` starts one, sets
//! it and asks. `loopback` runs the same slots on this machine, by the Python that is there.

#![allow(unreachable_pub, reason = "cases are named by modules of this program")]

mod context;
mod data;
mod failures;
mod follow;
mod kills;
mod life;
mod output;
mod support;
mod values;

raddle::remote::init_tests!();

use support::{On, Where};

/// A test of each case under each plan.
macro_rules! suite {
    ($($module:ident { $($case:ident),* $(,)? })*) => {
        suite!(@plan sequential Sequential $($module { $($case)* })*);
        suite!(@plan threads Threads $($module { $($case)* })*);
        suite!(@plan processes Processes $($module { $($case)* })*);
        suite!(@plan loopback Loopback $($module { $($case)* })*);
        suite!(@plan ray Ray $($module { $($case)* })*);
    };
    (@plan $plan:ident $which:ident $($module:ident { $($case:ident)* })*) => {
        mod $plan {
            use super::{On, Where};
            $(mod $module {
                use super::{On, Where};
                $(suite!(@case $which $module $case);)*
            })*
        }
    };
    (@case Ray $module:ident $case:ident) => {
        #[test]
        #[ignore = "needs a head of Ray: cargo xtask ray"]
        fn $case() {
            crate::$module::$case(&On { which: Where::Ray });
        }
    };
    (@case $which:ident $module:ident $case:ident) => {
        #[test]
        fn $case() {
            crate::$module::$case(&On { which: Where::$which });
        }
    };
}

suite! {
    values {
        functions_methods_instances_and_closures,
        maps_keep_the_order,
        errors_are_values,
        many_at_once,
        rounds_of_futures,
        the_first_of_several,
        threads_that_spawn_at_once,
        continuations_may_wait,
        workers_are_counted,
        waits_of_all_kinds,
    }
    context {
        tasks_know_who_they_are,
        seeds_are_those_of_every_plan,
        nested_environments_are_sequential,
        nested_plans_may_be_others,
        threads_of_tasks_are_in_the_nested_environment,
        locals_of_the_caller_are_not_seen,
        the_token_and_other_descriptors_are_gone,
        hooks_are_called_once,
        hooks_are_told_of_limits,
        what_has_not_started_has_not_finished,
        workers_have_their_own_environment,
        environments_are_bound_for_a_call,
    }
    failures {
        panics_say_what_and_where,
        panics_keep_the_worker,
        signals_are_named,
        exit_codes_are_told,
        aborts_have_their_last_words,
        memory_is_limited,
        time_limits_kill,
        what_does_not_decode_names_its_type,
        what_does_not_encode_names_its_type,
        arguments_that_are_too_long_are_not_sent,
        results_that_are_too_long_are_not_sent,
        workers_that_are_not_ready_in_time_fail_the_queue,
        garbage_ends_the_worker,
        truncated_frames_end_the_worker,
        retries_are_counted,
        retries_run_out,
        hooks_that_panic_fail_the_task,
        hooks_that_panic_concern_nobody,
        functions_of_libraries_are_refused,
        results_whose_decoding_panics,
        messages_are_as_long_as_allowed,
        drops_that_panic,
        workers_that_close_all_they_have,
        workers_that_become_another_program,
        descriptors_that_a_task_has_made_nonblocking,
    }
    follow {
        what_follows_one_waits_for_others,
        a_hook_kills_all,
        the_end_comes_from_what_follows,
        what_follows_a_limit_waits_for_the_task,
        what_follows_waits_for_what_came_before_a_reset,
        kills_wait_for_nobody,
        resets_wait_for_nothing_that_follows,
        the_end_comes_from_what_follows_an_old_task,
    }
    kills {
        queued_tasks_never_start,
        running_tasks_end,
        what_is_done_stays_done,
        twice_is_too_late,
        kills_race_with_completion,
        kills_at_any_time,
        kills_while_somebody_waits,
        grandchildren_go_too,
        all_at_once,
        none_goes_on_after_the_end,
        interrupts_are_the_tasks_choice,
        queued_tasks_are_interrupted,
        interrupts_do_not_reach_the_next_task,
        what_came_before_a_reset_counts,
        what_was_interrupted_is_not_tried_again,
        what_was_killed_is_not_tried_again,
    }
    output {
        all_of_it_comes_and_no_more,
        ten_megabytes_while_it_runs,
        each_task_has_its_own,
        output_that_is_discarded,
        output_that_does_not_cease,
        output_that_is_not_wanted_yet,
        streams_that_others_read,
        progress_comes_in_order,
    }
    data {
        sixty_four_megabytes_both_ways,
        maps_of_long_items,
        shared_values_are_sent_once,
        shared_values_are_forgotten,
        shared_values_come_back,
        large_shared_values,
        strict_plans_encode,
        shared_values_in_shared_values,
        shared_values_of_tasks_that_never_ran,
        hooks_that_panic_keep_no_shared_value,
    }
    life {
        recycling_strands_nothing,
        resets_leave_old_futures,
        many_resets,
        idle_workers_leave,
        the_last_drop_finishes_all,
        shutdown_says_whether_all_was_done,
        shutdown_kills_nothing_that_is_over,
        environments_that_were_shut_down_refuse,
        dropped_by_what_follows_a_future,
        dropped_by_what_follows_a_kill,
        shut_down_by_what_follows_a_future,
        what_was_spawned_under_it_is_finished,
        limits_may_be_the_longest,
    }
}
