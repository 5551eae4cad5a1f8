//! What `pool::gate` names of a pool, under loom: as little as it takes to see who uses it when. The gate is the real one.

#[path = "../../pool/gate.rs"]
pub(crate) mod gate;
#[path = "../../pool/policy.rs"]
pub(crate) mod policy;

/// Each guest is recorded, so that the gate notes its end where it must.
pub(crate) mod recorder {
    use raddle_trace::Subject;

    use super::registry::WorkerMemory;

    pub(crate) type Place = &'static std::panic::Location<'static>;

    pub(crate) fn stamp_if_recording() -> u64 {
        0
    }

    pub(crate) fn begin_region(
        memory: &WorkerMemory,
        _: u64,
        _: Option<Place>,
    ) -> Option<(Subject, u32)> {
        memory.lane.touch();
        Some((Subject::Any, 0))
    }
}

/// A pool that its guests use, and its end frees.
pub(crate) mod registry {
    use std::io;
    use std::mem::ManuallyDrop;
    use std::ops::Index;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use raddle_sync::atomic::AtomicUsize;
    use raddle_sync::cell::UnsafeCell;
    use raddle_trace::{EventKind, Subject};

    use super::gate::GateHandle;
    use super::worker::Worker;
    use crate::models::{Memory, Tally};

    pub(crate) const FORKED: &str = "models do not fork";

    pub(crate) struct Config {
        pub(crate) stack_size: Option<usize>,
    }

    pub(crate) struct Registry {
        pub(crate) config: Config,
        pub(crate) calls: AtomicUsize,
        pub(crate) gate: ManuallyDrop<GateHandle>,
        pub(crate) memories: Memories,
        /// What all of it lies in, freed by whoever ends the pool.
        memory: Memory,
        /// Whether a guest gets a place.
        pub(crate) has_place: AtomicBool,
    }

    // SAFETY: what lies in cells is used under the gate's protocol, which the models check.
    unsafe impl Send for Registry {}
    // SAFETY: as above.
    unsafe impl Sync for Registry {}

    impl Registry {
        /// With memory for so many guests. Its gate is open.
        pub(crate) fn open(guests: usize) -> Arc<Registry> {
            let registry = Arc::new(Registry {
                config: Config { stack_size: None },
                calls: AtomicUsize::new(0),
                gate: ManuallyDrop::new(GateHandle::new(guests)),
                memories: Memories((0..guests).map(WorkerMemory::new).collect()),
                memory: Memory::new(Tally::default()),
                has_place: AtomicBool::new(true),
            });
            registry.gate.open(&registry);
            registry
        }

        /// Somebody uses it.
        pub(crate) fn touch(&self) {
            self.memory.touch();
        }

        /// Its end, when it has been closed.
        pub(crate) fn free(&self) {
            self.memory.free();
        }

        /// Then the gate is for the next pool.
        pub(crate) fn recycle(&self) {
            // SAFETY: it owns nothing, and is dropped here alone.
            drop(unsafe { std::ptr::read(&*self.gate) });
        }

        /// Whether that is a guest of this pool.
        pub(crate) fn has(&self, worker: &Worker) -> bool {
            std::ptr::eq(self.memories[worker.0].base(), worker)
        }

        pub(crate) fn assert_here(&self) {
            self.touch();
        }

        pub(crate) fn is_seated(&self) -> bool {
            false
        }

        pub(crate) fn first_guest(&self) -> usize {
            0
        }

        pub(crate) fn equip(&self, _: usize) {}

        pub(crate) fn place_for_guest(&self, _: bool) -> bool {
            self.touch();
            self.has_place.load(std::sync::atomic::Ordering::Relaxed)
        }

        pub(crate) fn has_nobody_for_more(&self) -> bool {
            self.touch();
            true
        }

        pub(crate) fn has_nobody_else(&self) -> bool {
            false
        }
    }

    impl std::fmt::Debug for Registry {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Registry").finish_non_exhaustive()
        }
    }

    pub(crate) struct Memories(Vec<WorkerMemory>);

    impl Memories {
        pub(crate) fn make(&self, index: usize, _: &Registry) -> io::Result<&WorkerMemory> {
            Ok(&self.0[index])
        }
    }

    impl Index<usize> for Memories {
        type Output = WorkerMemory;

        fn index(&self, index: usize) -> &WorkerMemory {
            &self.0[index]
        }
    }

    /// A guest's, while it is inside.
    pub(crate) struct WorkerMemory {
        pub(crate) index: usize,
        pub(crate) lane: Lane,
        owned: UnsafeCell<bool>,
        worker: Worker,
    }

    impl WorkerMemory {
        fn new(index: usize) -> WorkerMemory {
            let lane = Lane(UnsafeCell::new(()));
            WorkerMemory { index, lane, owned: UnsafeCell::new(false), worker: Worker(index) }
        }

        pub(crate) fn base(&self) -> &Worker {
            &self.worker
        }

        fn set_owned(&self, owned: bool) {
            self.owned.with_mut(|place| {
                // SAFETY: loom finds whoever is here at the same time.
                let before = unsafe { std::ptr::replace(place, owned) };
                assert_ne!(before, owned, "two guests in one memory");
            });
        }

        pub(crate) fn guest_arrives(&self, _: usize) {
            self.set_owned(true);
        }

        pub(crate) fn guest_leaves(&self) {
            self.set_owned(false);
        }
    }

    /// Written by the guest whose memory it is.
    pub(crate) struct Lane(UnsafeCell<()>);

    impl Lane {
        pub(crate) fn touch(&self) {
            self.0.with_mut(|_| ());
        }

        pub(crate) fn note(&self, _: EventKind, _: usize, _: (Subject, u32)) {
            self.touch();
        }
    }
}

/// Nobody is a worker of a pool but as its guest.
pub(crate) mod worker {
    use super::registry::Registry;

    #[derive(Debug)]
    pub(crate) struct Worker(pub(crate) usize);

    #[derive(Debug)]
    pub(crate) struct CurrentGuard;

    impl Worker {
        pub(crate) fn beneath<'a>(_: impl Fn(&Registry) -> bool) -> Option<&'a Worker> {
            None
        }

        pub(crate) fn registry(&self) -> &Registry {
            unreachable!("see `beneath`")
        }

        pub(crate) fn enter(&self) -> CurrentGuard {
            CurrentGuard
        }
    }
}
