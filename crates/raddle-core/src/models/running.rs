//! Models of the list of running tasks: the worker that adds and removes against killers, who must see
//! no task that has left the list. Two threads, explored with six preemptions. Two killers spin for each
//! other without end, as loom sees it: they are in `mix`.

use std::sync::Arc;

use raddle_sync::thread;

use crate::models::task::{Record, Task};
use crate::models::{Tally, check};
use crate::queue::Task as Header;
use crate::spawn::running::List;

/// A task that is alive while it is listed, and no longer.
struct Listed(Arc<Task>, Record);

impl Listed {
    fn new() -> Listed {
        let record = Record::default();
        Listed(Task::new(&record), record)
    }

    fn run(&self, list: &List, body: impl FnOnce()) {
        list.with(self.0.header(), body);
        self.0.end();
    }
}

fn look(list: &List, seen: &Tally) {
    list.for_each(|header: Header| {
        // SAFETY: the memory lives as long as the model.
        unsafe { Task::of(header) }.look();
        seen.add();
    });
}

fn race(worker: fn(&List, &[Listed; 2])) {
    check(6, move || {
        let list = Arc::new(List::new());
        let killer = {
            let list = Arc::clone(&list);
            thread::spawn(move || look(&list, &Tally::default()))
        };
        // The killer knows them from the list alone.
        let tasks = [Listed::new(), Listed::new()];
        worker(&list, &tasks);
        killer.join().unwrap();
        look(&list, &Tally::default());
        for task in tasks {
            assert_eq!(task.1.freed.count(), 1);
        }
    });
}

fn one_after_another(list: &List, [first, second]: &[Listed; 2]) {
    first.run(list, || {});
    second.run(list, || {});
}

fn one_in_another(list: &List, [outer, inner]: &[Listed; 2]) {
    outer.run(list, || {
        inner.run(list, || {
            assert!(list.contains(outer.0.header()));
            assert!(list.contains(inner.0.header()));
        });
        assert!(!list.contains(inner.0.header()));
    });
}

#[test]
fn tasks_one_after_another_against_a_killer() {
    race(one_after_another);
}

#[test]
fn nested_tasks_against_a_killer() {
    race(one_in_another);
}

/// The killer sees all that is listed while he has the lock.
#[test]
fn a_killer_sees_both_of_two_nested_tasks() {
    check(6, || {
        let list = List::new();
        let [outer, inner] = [Listed::new(), Listed::new()];
        let seen = Tally::default();
        outer.run(&list, || inner.run(&list, || look(&list, &seen)));
        assert_eq!(seen.count(), 2);
    });
}
