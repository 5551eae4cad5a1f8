//! Operations on futures.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use raddle::{Failure, Future, Promise};

use crate::exec::{HOUR, State};
use crate::formula::{Context, eval};
use crate::ir::{From, Op, Value};
use crate::oracle::{WON, called, digest, of_call};
use crate::rng::mix;
use crate::world::{Token, World, outcome, panic_on_purpose};

/// A closure given to an operation.
struct Closure {
    world: &'static World,
    call: usize,
    _token: Token,
}

impl Closure {
    fn call(self, given: u64) -> u64 {
        self.world.calls[self.call].fetch_add(1, SeqCst);
        let context = Context { world: self.world, counted: false };
        let formula = &self.world.program.calls[self.call].formula;
        called(self.call, given, eval(context, formula, of_call(self.call), None))
    }
}

/// Does what the origin of `out` says.
pub(crate) fn derive(state: &mut State, out: Value) {
    let world = state.world;
    let From::Derived(op, inputs) = &world.program.values[out].from else { unreachable!() };
    let closure = |call: usize| Closure { world, call, _token: world.token() };
    let mut futures: Vec<Future<u64>> = inputs.iter().map(|input| state.future(*input)).collect();
    let more = if futures.len() > 1 { futures.split_off(1) } else { Vec::new() };
    let source = futures.pop().expect("operations have an input");
    let made = match *op {
        Op::Same => source,
        Op::Map(call) => {
            let closure = closure(call);
            source.map(move |given| closure.call(given))
        }
        Op::Fail(call) => {
            let closure = closure(call);
            source.and_then(move |given| {
                closure.call(given);
                Err(Failure::message("on purpose"))
            })
        }
        Op::MapPanics(call) => {
            let closure = closure(call);
            source.map(move |given| {
                closure.call(given);
                panic_on_purpose()
            })
        }
        Op::FlatReady(call) => {
            let closure = closure(call);
            source.flat_map(move |given| Future::ready(closure.call(given)))
        }
        Op::FlatSpawn(call, pool) => {
            let closure = closure(call);
            source.flat_map(move |given| world.pool(pool).spawn(move || closure.call(given)))
        }
        Op::FlatInput(call) => {
            let closure = closure(call);
            let second = more.into_iter().next().expect("a second input");
            source.flat_map(move |given| second.map(move |second| closure.call(mix(given, second))))
        }
        Op::Recover(call) => {
            let closure = closure(call);
            source.recover(move |failure| Ok(closure.call(digest(&outcome(&Err(failure))))))
        }
        Op::Rescue(call) => {
            let closure = closure(call);
            source
                .rescue(move |failure| Future::ready(closure.call(digest(&outcome(&Err(failure))))))
        }
        Op::Transform(call) => {
            let closure = closure(call);
            source.transform(move |result| Future::ready(closure.call(digest(&outcome(&result)))))
        }
        Op::OnComplete(call) => {
            let closure = closure(call);
            source.on_complete(move |_| {
                closure.call(0);
            })
        }
        Op::Ensure(call) => {
            let closure = closure(call);
            source.ensure(move || {
                closure.call(0);
            })
        }
        Op::Within => source.within(HOUR),
        Op::InterruptAfter => source.interrupt_after(HOUR),
        Op::Delayed(micros) => source.delayed(Duration::from_micros(micros)),
        Op::Masked => source.masked(),
        Op::On(pool) => source.on(&world.pool(pool)),
        Op::Zip => {
            let second = more.into_iter().next().expect("a second input");
            normal(source.zip_with(second, mix))
        }
        Op::Collect => {
            let all = std::iter::once(source).chain(more);
            normal(raddle::collect(all).map(|values| values.into_iter().fold(0, mix)))
        }
        Op::JoinAll => normal(raddle::join_all(std::iter::once(source).chain(more)).map(|()| 7)),
        Op::CollectResults => {
            let all = std::iter::once(source).chain(more);
            raddle::collect_results(all).map(|results| {
                results.iter().fold(0, |acc, result| mix(acc, digest(&outcome(result))))
            })
        }
        Op::Or => source.or(more.into_iter().next().expect("a second input")),
        Op::First => raddle::first(std::iter::once(source).chain(more).map(won)),
        Op::Select => {
            let count = 1 + more.len();
            raddle::select(std::iter::once(source).chain(more).map(won)).and_then(
                move |(winner, index, rest)| {
                    if index >= count || rest.len() + 1 != count {
                        world.complain(format!("{index} of {count} won, {} are left", rest.len()));
                    }
                    winner
                },
            )
        }
        Op::Against(pool) => {
            let shared = source.shared();
            raddle::first([
                shared.future().on(&world.pool(pool)),
                shared.future(),
                shared.map(|value| value),
                shared.future().flat_map(Future::ready),
            ])
        }
        Op::Alone => {
            let (promise, nothing) = Promise::new();
            world.kept.lock().unwrap().push(promise);
            raddle::first([Future::never(), nothing, source, Future::delay(HOUR).map(|()| 0)])
        }
    };
    state.keep(out, made);
}

/// Whoever wins a race of such, it is the same.
fn won(future: Future<u64>) -> Future<u64> {
    future.transform(|_| Future::ready(WON))
}

/// Which of several failures comes first is not said: they are made equal.
fn normal(future: Future<u64>) -> Future<u64> {
    future.map_failure(|_| Failure::message("one of several"))
}
