//! The global pool, and which pool a call is for.

use std::sync::{Mutex, OnceLock, PoisonError};

use raddle_core::compat::{Team, with_here};

use crate::builder::ThreadPoolBuilder;
use crate::error::ThreadPoolBuildError;
use crate::thread::ThreadSpawn;

static GLOBAL: OnceLock<Team> = OnceLock::new();

/// The global pool, built now unless it is there.
///
/// # Panics
///
/// If it cannot be built.
pub(crate) fn team() -> &'static Team {
    match GLOBAL.get() {
        Some(team) => team,
        None => first_team(),
    }
}

#[cold]
fn first_team() -> &'static Team {
    if let Err(error) = build(ThreadPoolBuilder::new()) {
        // Somebody else has been quicker.
        assert!(
            GLOBAL.get().is_some(),
            "The global thread pool has not been initialized.: {error:?}"
        );
    }
    GLOBAL.get().expect("just built")
}

/// Builds the global pool, unless there is one. It is raddle's as well, so that what a program does with either shares
/// its threads.
pub(crate) fn build<S: ThreadSpawn>(
    builder: ThreadPoolBuilder<S>,
) -> Result<&'static Team, ThreadPoolBuildError> {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if GLOBAL.get().is_some() {
        return Err(ThreadPoolBuildError::GLOBAL_EXISTS);
    }
    let native = || Team::global().map(|native| GLOBAL.get_or_init(|| native));
    if native().is_some() {
        return Err(ThreadPoolBuildError::GLOBAL_EXISTS);
    }
    let team = builder.start()?;
    if !team.make_global() {
        // raddle has been quicker.
        team.end();
        native();
        return Err(ThreadPoolBuildError::GLOBAL_EXISTS);
    }
    Ok(GLOBAL.get_or_init(|| team))
}

/// Calls `op` in the pool that this thread works in, else in the global one. `op` is told whether it was brought there.
pub(crate) fn in_pool<R: Send>(op: impl FnOnce(bool) -> R + Send) -> R {
    with_here(|here| match here {
        Some(_) => op(false),
        None => team().call(|| op(true)),
    })
}
