//! A stack whose forks are loaded.

use super::*;

fn followed_from(slot: usize) -> Stack {
    Stack::new().followed_from(slot)
}

/// All forks are seen to before a thief has them.
fn follows_and_forks(stack: &Stack, ran: &Tally) {
    stack.fork.follow(&stack.slots[0]);
    two_nested(stack, ran);
}

/// The slot is used again, and what was loaded for the first fork is not the second's.
fn follows_and_forks_again(stack: &Stack, ran: &Tally) {
    stack.fork.follow(&stack.slots[0]);
    stack.join_while(false, 0, ran, || {});
    stack.join_while(false, 0, ran, || {});
}

/// The lower one need not be, and may be under way to a thief.
fn follows_within_a_fork(stack: &Stack, ran: &Tally) {
    stack.join(0, ran, || {
        stack.fork.follow(&stack.slots[1]);
        stack.join(1, ran, || {});
    });
}

#[test]
fn loaded_forks_against_two_steals() {
    race_on(3, || followed_from(0), follows_and_forks, 2, &[steals_twice]);
}

#[test]
fn loaded_forks_against_an_escalation() {
    race_on(3, || followed_from(0), follows_and_forks, 2, &[escalates_and_steals_twice]);
}

#[test]
fn a_slot_loaded_again_against_an_escalation() {
    race_on(3, || followed_from(0), follows_and_forks_again, 2, &[escalates_and_steals_twice]);
}

#[test]
fn a_stack_that_is_followed_from_now_on_against_an_escalation() {
    race_on(3, || followed_from(1), follows_within_a_fork, 2, &[escalates_and_steals_twice]);
}

/// The first fork that is pushed slowly is the first to be loaded, unless a thief has it by then.
fn follows_late(stack: &Stack, ran: &Tally) {
    stack.follows_late.set(true);
    two_nested(stack, ran);
}

#[test]
fn forks_that_are_loaded_once_one_is_pushed_against_an_escalation() {
    race(3, follows_late, 2, &[escalates_and_steals_twice]);
}

#[test]
fn forks_that_are_loaded_once_one_is_pushed_against_two_thieves() {
    race(2, follows_late, 2, &[escalates, steals]);
}
