//! The ends of promises at which they are completed.

use std::sync::{Arc, Mutex};

use raddle::{Future, Promise, SharedPromise};

use crate::exec::{Held, State};
use crate::ir::{From, Kind, PromiseKind, Settled, Value};

/// The end of a promise at which it is completed.
pub(crate) enum Settler {
    Plain(Promise<u64>),
    Shared(SharedPromise<u64>),
    Handled(Slot),
    Trigger(Trigger),
}

/// A promise that its interrupt handler has as well: so it does not go when this does, but has to be taken out.
pub(crate) struct Slot(Arc<Mutex<Option<Promise<u64>>>>);

impl Slot {
    fn take(&self) -> Option<Promise<u64>> {
        self.0.lock().unwrap().take()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Interrupts a future when it is dropped, and so its promise, which is kept.
pub(crate) struct Trigger(
    Future<u64>,
    #[expect(dead_code, reason = "its handler does it")] Promise<u64>,
);

impl Drop for Trigger {
    fn drop(&mut self) {
        self.0.interrupt("triggered");
    }
}

impl State {
    /// Does what the origin of the promise says.
    pub(crate) fn settle(&mut self, value: Value) {
        let Some(Held::Promise(settler)) = self.values.remove(&value) else {
            panic!("strand {} has no promise v{value}", self.strand)
        };
        let From::Settled(settled) = self.world.program.values[value].from else { unreachable!() };
        let promise = match settler {
            Settler::Plain(promise) => promise,
            Settler::Shared(promise) => return self.settle_shared(&promise, settled),
            Settler::Handled(slot) => {
                let Some(promise) = slot.take() else { return };
                promise
            }
            Settler::Trigger(trigger) => return drop(trigger),
        };
        match settled {
            Settled::To(Ok(value)) => promise.set(value),
            Settled::To(Err(Kind::Broken)) => drop(promise),
            Settled::To(Err(_)) => promise.fail(raddle::Failure::message("on purpose")),
            Settled::Link(to) => promise.link(self.future(to)),
            Settled::Not => unreachable!("generated so"),
        }
    }

    /// Tries to complete it twice, unless it is dropped.
    fn settle_shared(&mut self, promise: &SharedPromise<u64>, settled: Settled) {
        let first = match settled {
            Settled::To(Ok(value)) => promise.try_set(value),
            Settled::To(Err(Kind::Broken)) => return,
            Settled::To(Err(_)) => promise.try_fail(raddle::Failure::message("on purpose")),
            Settled::Link(to) => promise.try_link(self.future(to)),
            Settled::Not => unreachable!("generated so"),
        };
        if !first || promise.clone().try_set(0) || !promise.is_completed() {
            self.world.complain(format!("{}: a shared promise is completed", self.by()));
        }
    }
}

pub(crate) fn promise_of(kind: PromiseKind) -> (Settler, Future<u64>) {
    if kind == PromiseKind::Plain {
        let (promise, future) = Promise::new();
        return (Settler::Plain(promise), future);
    }
    if kind == PromiseKind::Shared {
        let (promise, future) = SharedPromise::new();
        return (Settler::Shared(promise), future);
    }
    let place: Arc<Mutex<Option<Promise<u64>>>> = Arc::default();
    let handlers = place.clone();
    let fail = move |why: raddle::Interrupt| {
        let promise = handlers.lock().unwrap().take();
        if let Some(promise) = promise {
            promise.fail(why);
        }
    };
    let (promise, future) = Promise::with_interrupt(fail.clone());
    *place.lock().unwrap() = Some(promise);
    if kind == PromiseKind::Handled {
        return (Settler::Handled(Slot(place)), future);
    }
    let (trigger, triggered) = Promise::with_interrupt(fail);
    (Settler::Trigger(Trigger(triggered, trigger)), future)
}
