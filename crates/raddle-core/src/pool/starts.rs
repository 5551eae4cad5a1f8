//! How a pool's threads start and leave, and who sees to mail for those that are not there.

use std::io;
use std::time::Duration;

use raddle_sync::{start, thread, time::Instant};

use crate::pool::registry::{PAUSE, Registry, Waker, longer};
use crate::pool::search::Comes;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;
use crate::timer;

impl Registry {
    /// Starts a thread for a worker whose bit in `vacant` the caller has taken; it begins as a searcher, which the
    /// caller has counted (P2). A hook that it calls counts as a task: what it queues, it may wait for, so the pool does not end
    /// before.
    pub(crate) fn start(&self, worker: usize) -> io::Result<()> {
        self.start_for(Comes::Claimed, worker)
    }

    /// As `start`, one of those that the pool begins with.
    pub(super) fn start_first(&self, worker: usize) -> io::Result<()> {
        self.start_for(Comes::First, worker)
    }

    fn start_for(&self, comes: Comes, worker: usize) -> io::Result<()> {
        let calls_hook = self.config.thread_hooks.has_start();
        if calls_hook {
            self.end.queue_outside(1);
        }
        self.start_thread(worker, comes).inspect_err(|_| {
            if calls_hook {
                self.end.take_back();
                self.end_if_done();
            }
        })
    }

    fn start_thread(&self, worker: usize, comes: Comes) -> io::Result<()> {
        let me = self.handle().ok_or_else(|| io::Error::other("the pool has gone"))?;
        self.memories.make(worker, self)?;
        self.equip(worker);
        let mut builder = thread::Builder::new().name(self.name_of(worker));
        if let Some(size) = self.config.stack_size {
            builder = builder.stack_size(size);
        }
        let mut handles = self.handles.lock();
        let comes = if self.ended() { Comes::Late } else { comes };
        if self.is_over() && !self.memories[worker].has_mail() {
            // Nobody would wait for it: see `terminate`. (Mail that comes so late is of an exit hook's, on a thread that is waited for.)
            self.places.vacant.set(worker);
            if !self.memories[worker].mail.takes_out(&self.places, worker) {
                drop(handles);
                self.give_back();
                return Ok(());
            }
        }
        let handle = start(builder, Box::new(move || me.serve(worker, comes)))?;
        handles.retain(|handle| !handle.is_finished());
        handles.push(handle);
        if worker >= self.first_spare() {
            self.stats.spare_threads.add();
        }
        Ok(())
    }

    /// What a thread does that was started for this worker. Mail that comes while it leaves is for itself (ML1): another thread might not
    /// be had before it is gone.
    fn serve(&self, worker: usize, mut comes: Comes) {
        let memory = &self.memories[worker];
        loop {
            memory.main(comes);
            if !memory.mail.calls_back(&self.places, &self.crew(Waker::Idle), worker) {
                return;
            }
            if self.config.thread_hooks.has_start() {
                self.end.queue_outside(1);
            }
            comes = if self.ended() { Comes::Late } else { Comes::Claimed };
        }
    }

    /// How a worker's thread is called, in the system and in traces.
    pub(crate) fn name_of(&self, worker: usize) -> String {
        let names = &self.config.spare_names;
        if let Some(spare) = worker.checked_sub(self.first_spare()) {
            names[spare % names.len()].clone()
        } else if let Some(guest) = worker.checked_sub(self.first_guest()) {
            format!("guest {guest}")
        } else {
            self.config.names[worker].clone()
        }
    }

    /// After the bit of a worker has been set in `vacant`, or mail has been sent: mail that is there while the worker is in no other
    /// set is for a new thread (ML1). False: the system gives none, and the bit is back.
    fn see_to_mail(&self, worker: usize) -> bool {
        let memory = self.memories.get(worker);
        if !memory.is_some_and(|memory| memory.mail.claim(&self.places, worker)) {
            return true;
        }
        let started = self.start(worker);
        if let Err(error) = &started {
            self.stats.refuse(error);
            self.places.vacant.set(worker);
            // Meanwhile nobody searches.
            self.give_back();
        }
        started.is_ok()
    }

    /// As `see_to_mail`: the caller waits for the system to give a thread, since it waits for what that does.
    pub(crate) fn await_thread_for_mail(&self, worker: usize) {
        let mut pause = Duration::from_nanos(PAUSE.0);
        while !self.see_to_mail(worker) {
            crate::pool::blocking(|| thread::sleep(pause));
            pause = longer(pause);
        }
    }

    /// As `see_to_mail`, by the timer after a while, as the caller may hold locks.
    pub(super) fn see_to_mail_later(&self, worker: usize, pause: Duration) {
        if !self.memories.get(worker).is_some_and(WorkerMemory::has_mail) {
            return;
        }
        let me = self.weak();
        let see_to = move || {
            if let Some(registry) = me.upgrade().filter(|registry| !registry.see_to_mail(worker)) {
                registry.see_to_mail_later(worker, longer(pause));
            }
        };
        // If the timer gets no thread either, then whoever next asks for one.
        if let Ok(timeout) = Worker::upright(|| timer::at(Instant::now() + pause, see_to)) {
            timeout.detach();
        }
    }

    /// Nobody comes for a claimed place after all: as if a searcher had come, and slept.
    pub(super) fn give_back(&self) {
        let _ = self.hand_on(Waker::Idle, || false);
        self.places.release(&self.crew(Waker::Idle));
    }
}
