//! Waits of strands.

use std::sync::mpsc;

use raddle::{Failure, Future};

use crate::exec::{HOUR, State};
use crate::ir::{Any, How, Value};
use crate::oracle::{digest, part};
use crate::world::outcome;

impl State {
    /// What a wait contributes.
    pub(crate) fn waited(&self, value: Value, result: &Result<u64, Failure>) -> Option<u64> {
        self.world.check(&self.by(), value, result);
        (!self.world.program.values[value].frail).then(|| digest(&outcome(result)))
    }

    /// Waits for one, and returns what that contributes.
    pub(crate) fn wait(&mut self, value: Value, how: How) -> Option<u64> {
        let future = self.future(value);
        let result = match how {
            How::Wait => future.wait(),
            How::Timeout => match future.wait_timeout(HOUR) {
                Ok(result) => result,
                Err(_) => {
                    self.world.complain(format!("{}: v{value}: an hour is over", self.by()));
                    Ok(0)
                }
            },
            How::Blocking => raddle::blocking(|| future.wait()),
            How::Channel => {
                let (sender, receiver) = mpsc::channel();
                future
                    .transform(move |result| {
                        // Who waits for it is there.
                        drop(sender.send(result));
                        Future::ready(())
                    })
                    .detach();
                raddle::blocking(|| receiver.recv()).unwrap_or_else(|_| {
                    self.world.complain(format!("{}: v{value} was never told", self.by()));
                    Ok(0)
                })
            }
            How::Await => unreachable!("of async strands only"),
        };
        self.waited(value, &result)
    }

    pub(crate) fn wait_all(&mut self, values: &[Value], in_turn: bool) -> u64 {
        let futures: Vec<_> = values.iter().map(|value| self.future(*value)).collect();
        let results: Vec<_> = if in_turn {
            raddle::wait_all(futures).into_iter().enumerate().collect()
        } else {
            raddle::as_completed(futures).collect()
        };
        self.waited_for(values, &results)
    }

    /// Waits for so many, and drops the others.
    pub(crate) fn wait_any(&mut self, values: &[Value], count: usize, by: Any) -> u64 {
        let mut futures: Vec<_> = values.iter().map(|value| self.future(*value)).collect();
        let results: Vec<_> = match by {
            Any::WaitAny => {
                // What is left keeps its order.
                let mut left: Vec<usize> = (0..values.len()).collect();
                let mut any = || {
                    let (index, result) = raddle::wait_any(&mut futures);
                    (left.remove(index), result)
                };
                (0..count).map(|_| any()).collect()
            }
            Any::Completed => raddle::as_completed(futures).take(count).collect(),
        };
        let sum = self.waited_for(values, &results);
        if count < values.len() { count as u64 } else { sum }
    }

    /// What several waits contribute, each by its index.
    fn waited_for(&self, values: &[Value], results: &[(usize, Result<u64, Failure>)]) -> u64 {
        results.iter().fold(0, |sum: u64, (index, result)| {
            let waited = self.waited(values[*index], result);
            sum.wrapping_add(waited.map_or(0, |waited| part(*index, waited)))
        })
    }

    /// Some times here, or once by each of so many tasks.
    pub(crate) fn wait_ref(&self, value: Value, tasks: usize) {
        let future = self.seen(value);
        let wait = || {
            future.wait_ref();
            if !future.is_done() {
                self.world.complain(format!("{}: v{value} is not there", self.by()));
            }
        };
        if tasks == 0 {
            (0..3).for_each(|_| wait());
        } else {
            raddle::scope(|scope| (0..tasks).for_each(|_| scope.spawn(|_| wait())));
        }
    }
}
