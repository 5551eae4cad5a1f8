//! What threads do: the events of a plan, on futures and promises as they are.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{hint, thread};

use raddle_core::{
    Failure, Future, Interrupt, Killed, Pool, Promise, SharedPromise, as_completed, collect,
    collect_results, first, join_all, select, traverse_sequentially, window,
};

use crate::case::{Case, How, Outcome, Token, Value, Winner, fold, mix, number, outcome};
use crate::plan::{Become, Chance, Ears, Ending, Event, Id, Many, Node, Plan, Step, Way};
use crate::support::ON_PURPOSE;

type Made = Future<Value>;

/// One who plays.
#[derive(Clone, Copy)]
pub(crate) struct Player<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) case: &'static Case,
    pub(crate) pool: &'a Pool,
}

/// What a closure holds, and does first.
struct Closure {
    id: Id,
    how: How,
    case: &'static Case,
    _token: Token,
}

impl Closure {
    fn note(&self, given: Outcome) {
        let notes = &self.case.notes[self.id];
        if notes.calls.fetch_add(1, SeqCst) > 0 {
            self.case.fault(format!("the closure of {} is called again", self.id));
        }
        *notes.given.lock().unwrap() = Some(given);
        if self.how == How::Panic {
            panic!("{ON_PURPOSE} {}", self.id);
        }
    }

    fn call(self, given: Outcome) -> Result<Value, Failure> {
        let n = number(&given);
        self.note(given);
        match self.how.give(self.id, n) {
            Ok(n) => Ok(self.case.value(n)),
            Err(text) => Err(self.case.failure(text)),
        }
    }

    fn map(self, given: Outcome) -> Value {
        let n = number(&given);
        self.note(given);
        self.case.value(mix(self.id, n))
    }

    fn next(self, given: Outcome, next: Made) -> Made {
        match self.call(given) {
            Ok(_) => next,
            Err(failure) => Future::failed(failure),
        }
    }
}

impl Player<'_> {
    /// What a thread does, or what is done before the threads start.
    pub(crate) fn play(self, thread: Option<usize>) {
        let mut chance = Chance(self.plan.seed ^ thread.map_or(0, |thread| thread as u64 + 1));
        for (index, (whose, event)) in self.plan.events.iter().enumerate() {
            if *whose == thread {
                if thread.is_some() {
                    (0..chance.below(40)).for_each(|_| hint::spin_loop());
                }
                let begin = if self.plan.stamped { self.case.now() } else { 0 };
                let was = self.event(index, event);
                if self.plan.stamped && was {
                    let span = (index, begin, self.case.now());
                    self.case.spans.lock().unwrap().push(span);
                }
            }
        }
    }

    fn closure(self, id: Id, how: How) -> Closure {
        Closure { id, how, case: self.case, _token: self.case.token() }
    }

    fn take(self, id: Id) -> Made {
        self.case.notes[id].future.take()
    }

    fn ended(self, id: Id, result: Result<Value, Failure>) {
        *self.case.notes[id].ended.lock().unwrap() = Some(outcome(&result));
    }

    /// False: it is a signal, and was too late.
    fn event(self, index: usize, event: &Event) -> bool {
        let notes = |id: Id| &self.case.notes[id];
        match event {
            &Event::Make(id) => self.make(id),
            &Event::Complete(id, ending) => {
                if let Node::Promise(Ears::Answers) = self.plan.nodes[id] {
                    self.try_to_complete(index, id, ending);
                } else {
                    self.complete(index, id, ending);
                }
            }
            &Event::Part(id) => {
                let uses = self.plan.events.iter().filter(|(_, event)| match event {
                    Event::Make(made) => {
                        matches!(self.plan.nodes[*made], Node::Consumer(of) if of == id)
                    }
                    Event::Complete(promise, _) => *promise == id,
                    _ => false,
                });
                let uses = uses.count();
                while notes(id).uses.load(SeqCst) < uses {
                    thread::yield_now();
                }
                match self.plan.nodes[id] {
                    Node::Shared(_) => drop(notes(id).shared.take()),
                    _ => drop(notes(id).several.take()),
                }
            }
            &Event::Interrupt(id) => {
                let interrupt = |future: &Made| {
                    let why = self.case.failure(format!("stop {index}"));
                    future.interrupt(Interrupt::from(why));
                };
                return notes(id).future.look(interrupt).is_some();
            }
            &Event::Kill(id) => {
                let kill = |future: &Made| {
                    let in_time = future.kill() != Killed::TooLate;
                    notes(id).kills.fetch_add(usize::from(in_time), SeqCst);
                    if !future.is_done() {
                        self.case.fault(format!("{id} is killed, and not done"));
                    }
                    in_time
                };
                return notes(id).future.look(kill) == Some(true);
            }
            &Event::Look(id) => {
                notes(id).future.look(|future| {
                    if future.is_done() && !future.poll_now() {
                        self.case.fault(format!("{id} was done, and is not any more"));
                    }
                });
            }
            &Event::Wait(id, way) => {
                if way == Way::Ref {
                    notes(id).future.look(Future::wait_ref);
                }
                let mut future = self.take(id);
                let result = match way {
                    Way::Wait | Way::Ref => future.wait(),
                    Way::Await => smol::future::block_on(future),
                    Way::Timeout => loop {
                        match future.wait_timeout(Duration::from_micros(20)) {
                            Ok(result) => break result,
                            Err(again) => future = again,
                        }
                    },
                };
                self.ended(id, result);
            }
            Event::AsCompleted(ids) => {
                for (place, result) in as_completed(ids.iter().map(|&id| self.take(id))) {
                    self.ended(ids[place], result);
                }
            }
            &Event::Peek(id) => {
                if let Ok(result) = self.take(id).wait_timeout(Duration::ZERO) {
                    self.ended(id, result);
                }
            }
            &Event::Drop(id) => drop(self.take(id)),
        }
        true
    }

    fn complete(self, index: usize, id: Id, ending: Ending) {
        let notes = &self.case.notes[id];
        let promise = notes.promise.take();
        if self.plan.stamped {
            let asked = (self.case.now(), promise.interrupted().map(|why| why.to_string()));
            *notes.asked.lock().unwrap() = Some(asked);
        }
        notes.won.lock().unwrap().push(Winner::Event(index));
        match ending {
            Ending::Set => promise.set(self.case.value(mix(id, index as u64))),
            Ending::Fail => promise.fail(self.case.failure(format!("no {id}"))),
            Ending::Drop => drop(promise),
            Ending::Link(next) => promise.link(self.take(next)),
            Ending::InTask => {
                let value = self.case.value(mix(id, index as u64));
                self.pool.spawn(move || promise.set(value)).detach();
            }
        }
    }

    fn try_to_complete(self, index: usize, id: Id, ending: Ending) {
        let notes = &self.case.notes[id];
        let completed = notes.several.look(|promise| match ending {
            Ending::Set => promise.try_set(self.case.value(mix(id, index as u64))),
            Ending::Link(next) => promise.try_link(self.take(next)),
            _ => promise.try_fail(self.case.failure(format!("no {id}"))),
        });
        if completed.expect("it is used before it goes") {
            notes.won.lock().unwrap().push(Winner::Event(index));
        }
        notes.uses.fetch_add(1, SeqCst);
    }

    fn make(self, id: Id) {
        let notes = &self.case.notes[id];
        let future = match &self.plan.nodes[id] {
            &Node::Promise(ears) => self.promise(id, ears),
            &Node::Ready(how) => match how.give(id, 0) {
                Ok(n) => Future::ready(self.case.value(n)),
                Err(text) => Future::failed(self.case.failure(text)),
            },
            &Node::Task(how) => {
                let f = self.closure(id, how);
                self.pool.spawn(move || f.call(Ok(0))).lower()
            }
            &Node::Step(step, how, source) => self.step(id, step, how, source),
            &Node::Become(operation, how, source, inner) => {
                let (future, next) = (self.take(source), self.take(inner));
                let f = self.closure(id, how);
                match operation {
                    Become::FlatMap => future.flat_map(move |v| f.next(Ok(v.number), next)),
                    Become::Rescue => future.rescue(move |e| f.next(Err(e.to_string()), next)),
                    Become::Transform => future.transform(move |r| f.next(outcome(&r), next)),
                    Become::Or => future.or(next),
                }
            }
            Node::Many(many, inputs) => self.many(id, *many, inputs),
            &Node::Shared(source) => {
                return notes.shared.put(self.take(source).shared());
            }
            &Node::Consumer(of) => {
                let shared = &self.case.notes[of];
                let future = shared.shared.look(|shared| shared.future());
                shared.uses.fetch_add(1, SeqCst);
                future.expect("it is used before it goes")
            }
        };
        notes.future.put(future);
    }

    fn promise(self, id: Id, ears: Ears) -> Made {
        let (case, notes) = (self.case, &self.case.notes[id]);
        let token = case.token();
        match ears {
            Ears::None => {
                let (promise, future) = Promise::new();
                notes.promise.put(promise);
                future
            }
            Ears::Notes => {
                let (promise, future) = Promise::with_interrupt(move |why| {
                    let _held = &token;
                    case.notes[id].heard.lock().unwrap().push(why.to_string());
                });
                notes.promise.put(promise);
                future
            }
            Ears::Answers => {
                // Held by the handler, which goes when it is completed.
                let own = Arc::new(OnceLock::<SharedPromise<Value>>::new());
                let place = Arc::clone(&own);
                let (promise, future) = Promise::with_interrupt(move |why| {
                    let _held = &token;
                    let text = why.to_string();
                    case.notes[id].heard.lock().unwrap().push(text.clone());
                    if own.get().is_some_and(|promise| promise.try_fail(why)) {
                        case.notes[id].won.lock().unwrap().push(Winner::Heard(text));
                    }
                });
                let promise = SharedPromise::from(promise);
                assert!(place.set(promise.clone()).is_ok(), "it is new");
                notes.several.put(promise);
                future
            }
        }
    }

    fn step(self, id: Id, step: Step, how: How, source: Id) -> Made {
        let (future, f) = (self.take(source), self.closure(id, how));
        match step {
            Step::Map => future.map(move |v| f.map(Ok(v.number))),
            Step::AndThen => future.and_then(move |v| f.call(Ok(v.number))),
            Step::MapResult => future.map_result(move |r| f.call(outcome(&r))),
            Step::Recover => future.recover(move |e| f.call(Err(e.to_string()))),
            Step::OnSuccess => future.on_success(move |v| f.note(Ok(v.number))),
            Step::OnFailure => future.on_failure(move |e| f.note(Err(e.to_string()))),
            Step::OnComplete => future.on_complete(move |r| f.note(outcome(r))),
            Step::Ensure => future.ensure(move || f.note(Ok(0))),
            Step::Filter => future.filter(move |v| {
                f.note(Ok(v.number));
                f.how == How::Value
            }),
            Step::MapFailure => future.map_failure(move |e| {
                let (case, id) = (f.case, f.id);
                f.note(Err(e.to_string()));
                case.failure(format!("no {id}"))
            }),
            Step::Lift => future.lift().map(move |r| f.map(outcome(&r))),
            Step::LiftAndLower => future.lift().lower(),
            Step::Interruptible => future.interruptible(),
            Step::Masked => future.masked(),
            Step::On => future.on(self.pool),
            Step::Async => self.pool.spawn_async(future).lower(),
        }
    }

    fn many(self, id: Id, many: Many, inputs: &[Id]) -> Made {
        let f = self.closure(id, How::Value);
        let mut futures: Vec<Made> = inputs.iter().map(|&input| self.take(input)).collect();
        let sum = |values: Vec<Value>| Ok(fold(values.iter().map(|v| v.number)));
        match many {
            Many::Zip => {
                let (y, x) = (futures.pop(), futures.pop());
                let (x, y) = (x.expect("there are two"), y.expect("there are two"));
                x.zip(y).map(move |(x, y)| f.map(Ok(fold([x.number, y.number]))))
            }
            Many::Collect => collect(futures).map(move |values| f.map(sum(values))),
            Many::Results => collect_results(futures).map(move |results| {
                f.map(Ok(fold(results.iter().map(|result| number(&outcome(result))))))
            }),
            Many::JoinAll => join_all(futures).map(move |()| f.map(Ok(0))),
            Many::First => first(futures),
            Many::FirstOrNever => {
                futures.insert(0, Future::never());
                first(futures)
            }
            Many::Select => select(futures).flat_map(move |(winner, _, mut rest)| {
                f.note(outcome(&winner));
                rest.remove(0)
            }),
            Many::Window(n) => {
                window(futures, n, |future| future).map(move |values| f.map(sum(values)))
            }
            Many::InTurn => traverse_sequentially(futures, |future| future)
                .map(move |values| f.map(sum(values))),
        }
    }
}
