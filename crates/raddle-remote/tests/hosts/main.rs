//! What a whole process is needed for: programs with a disposition of their own towards signals and children, drivers that
//! are killed, programs without `init`, and counts of all that a process has.
//!
//! Each scenario is a process of its own, started by this program with the scenario's name.

mod clusters;
mod counts;
mod descriptors;
mod drivers;
mod forks;
mod limits;
mod run;
mod signals;
mod slots;
mod sockets;
mod strangers;
mod support;

use std::process::ExitCode;

const SCENARIOS: &[(&str, fn())] = &[
    ("ignored_children_still_resolve", signals::ignored_children_still_resolve),
    ("grandchildren_of_ignored_children_go_too", signals::grandchildren_of_ignored_children_go_too),
    (
        "a_worker_that_has_left_its_group_is_killed",
        signals::a_worker_that_has_left_its_group_is_killed,
    ),
    ("a_stolen_status_is_unknown", signals::a_stolen_status_is_unknown),
    ("children_of_the_host_are_left_alone", signals::children_of_the_host_are_left_alone),
    ("what_the_host_blocks_its_workers_do_not", signals::what_the_host_blocks_its_workers_do_not),
    ("signals_of_a_task_are_its_own", signals::signals_of_a_task_are_its_own),
    ("limits_hold_while_signals_come", signals::limits_hold_while_signals_come),
    ("a_memory_limit_that_is_lower_already", limits::a_memory_limit_that_is_lower_already),
    ("shared_values_longer_than_files_may_be", limits::shared_values_longer_than_files_may_be),
    ("workers_that_cannot_be_heard", limits::workers_that_cannot_be_heard),
    ("a_child_of_a_task_is_no_worker", forks::a_child_of_a_task_is_no_worker),
    (
        "a_killed_driver_with_a_child_leaves_nothing",
        drivers::a_killed_driver_with_a_child_leaves_nothing,
    ),
    ("a_bridge_that_says_much_first", drivers::a_bridge_that_says_much_first),
    (
        "interrupts_of_a_stopped_worker_stop_no_other",
        drivers::interrupts_of_a_stopped_worker_stop_no_other,
    ),
    ("what_a_thread_says_at_its_end", drivers::what_a_thread_says_at_its_end),
    ("slots_without_threads_are_told", strangers::slots_without_threads_are_told),
    ("killed_tasks_leave_the_queue", counts::killed_tasks_leave_the_queue),
    ("without_init_nothing_starts", drivers::without_init_nothing_starts),
    ("a_worker_without_init_starts_nothing", drivers::a_worker_without_init_starts_nothing),
    ("a_token_without_a_socket_is_refused", drivers::a_token_without_a_socket_is_refused),
    ("a_killed_driver_leaves_nothing", drivers::a_killed_driver_leaves_nothing),
    ("a_killed_driver_of_slots_leaves_nothing", drivers::a_killed_driver_of_slots_leaves_nothing),
    ("a_lost_bridge_is_replaced", drivers::a_lost_bridge_is_replaced),
    ("a_lost_bridge_without_another", drivers::a_lost_bridge_without_another),
    ("what_a_lost_bridge_had_is_tried_again", drivers::what_a_lost_bridge_had_is_tried_again),
    ("a_stopped_worker_stops_no_other", drivers::a_stopped_worker_stops_no_other),
    ("the_file_may_be_replaced", drivers::the_file_may_be_replaced),
    ("the_environment_names_the_plan", drivers::the_environment_names_the_plan),
    ("an_engine_that_is_not_there", drivers::an_engine_that_is_not_there),
    ("a_bridge_that_does_not_listen", drivers::a_bridge_that_does_not_listen),
    ("output_waits_for_room", descriptors::output_waits_for_room),
    ("output_is_relayed", drivers::output_is_relayed),
    ("nobody_listens", sockets::nobody_listens),
    ("slots_of_a_machine_share_the_program", slots::slots_of_a_machine_share_the_program),
    ("the_end_of_a_loud_worker_is_seen", slots::the_end_of_a_loud_worker_is_seen),
    ("a_lost_slot_is_replaced", strangers::a_lost_slot_is_replaced),
    ("other_builds_are_refused", strangers::other_builds_are_refused),
    ("other_versions_are_refused", strangers::other_versions_are_refused),
    ("damage_on_the_way_to_a_worker", strangers::damage_on_the_way_to_a_worker),
    ("a_descriptor_that_does_not_come", strangers::a_descriptor_that_does_not_come),
    ("other_programs_are_refused", strangers::other_programs_are_refused),
    ("sockets_of_others_are_refused", strangers::sockets_of_others_are_refused),
    ("damage_at_random_to_a_worker", strangers::damage_at_random_to_a_worker),
    ("damage_at_random_from_a_worker", strangers::damage_at_random_from_a_worker),
    ("damage_at_random_from_the_bridge", strangers::damage_at_random_from_the_bridge),
    ("without_descriptors_tasks_wait", descriptors::without_descriptors_tasks_wait),
    (
        "without_descriptors_the_old_workers_go_on",
        descriptors::without_descriptors_the_old_workers_go_on,
    ),
    (
        "without_descriptors_tasks_wait_for_workers_that_start",
        descriptors::without_descriptors_tasks_wait_for_workers_that_start,
    ),
    (
        "what_follows_others_is_called_elsewhere",
        descriptors::what_follows_others_is_called_elsewhere,
    ),
    ("a_killed_driver_on_ray_leaves_nothing", clusters::a_killed_driver_on_ray_leaves_nothing),
    ("a_wrong_token_is_refused_by_ray", clusters::a_wrong_token_is_refused_by_ray),
    ("auto_finds_the_head_of_ray", clusters::auto_finds_the_head_of_ray),
    ("a_full_cluster_of_ray_goes_on", clusters::a_full_cluster_of_ray_goes_on),
    ("a_machine_of_ray_gets_it_once", clusters::a_machine_of_ray_gets_it_once),
    ("a_lost_node_of_ray_is_told", clusters::a_lost_node_of_ray_is_told),
    ("a_thousand_resets_leave_nothing", counts::a_thousand_resets_leave_nothing),
    ("who_helps_late_leaves_nothing", counts::who_helps_late_leaves_nothing),
    ("a_hundred_rounds_leave_nothing", counts::a_hundred_rounds_leave_nothing),
    ("continuations_that_end_it_leave_nothing", counts::continuations_that_end_it_leave_nothing),
    ("deaths_leave_nothing", counts::deaths_leave_nothing),
    ("a_host_without_standard_input", drivers::a_host_without_standard_input),
    ("a_directory_with_modules_of_its_own", drivers::a_directory_with_modules_of_its_own),
    (
        "an_environment_among_the_locals_of_a_thread",
        drivers::an_environment_among_the_locals_of_a_thread,
    ),
    (
        "a_child_of_the_host_leaves_its_workers_alone",
        drivers::a_child_of_the_host_leaves_its_workers_alone,
    ),
    (
        "a_child_of_the_host_has_none_of_its_workers",
        forks::a_child_of_the_host_has_none_of_its_workers,
    ),
    (
        "a_child_of_the_host_has_none_of_its_threads",
        forks::a_child_of_the_host_has_none_of_its_threads,
    ),
    ("a_child_of_a_busy_host_waits_for_nobody", forks::a_child_of_a_busy_host_waits_for_nobody),
    ("a_child_of_the_host_shares_values", forks::a_child_of_the_host_shares_values),
    ("environments_that_are_too_large", drivers::environments_that_are_too_large),
    ("plans_that_are_too_long", drivers::plans_that_are_too_long),
    ("a_large_host_starts_workers_as_fast", counts::a_large_host_starts_workers_as_fast),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [name, rest @ ..] = args.as_slice() {
        // Whether a scenario calls `init`, and when, is its own affair; in a worker it comes first.
        if let Some(name) = name.strip_prefix("scenario=") {
            if !drivers::without_init(name) {
                raddle::remote::init();
            }
            let found = SCENARIOS.iter().find(|(known, _)| *known == name);
            found.map_or_else(|| drivers::part(name, rest), |(_, run)| run());
            return ExitCode::SUCCESS;
        }
    }
    // A worker has no arguments.
    raddle::remote::init();
    run::run(SCENARIOS, &args)
}
