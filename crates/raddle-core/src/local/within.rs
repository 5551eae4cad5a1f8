//! How forks and the tasks of scopes inherit what code of `raddle-lock` is within: as a scope local that is borrowed, which
//! what is only started does not take along.

use crate::local::scoped::ScopeLocal;
use raddle_sync::within::{Inheritance, set_inheritance};
use std::ptr;

static WITHIN: ScopeLocal<Pointer> = ScopeLocal::new("WITHIN");

/// Whoever looks at what it points to answers for that.
struct Pointer(*const ());

// SAFETY: a number, here.
unsafe impl Sync for Pointer {}

/// Says so to `raddle-sync`.
pub(crate) extern "C" fn init() {
    let inheritance = Inheritance {
        current: || WITHIN.try_with(|within| within.0).unwrap_or(ptr::null()),
        run: |what, f| WITHIN.bind_ref(&Pointer(what)).run(f),
    };
    // SAFETY: what is bound is what the innermost `run` was given, or nothing.
    unsafe { set_inheritance(inheritance) };
}

/// Called by the loader, before `main`: the making of a value may itself be what first asks for a pool. Where there is no such
/// loader the first pool does so.
#[cfg(all(unix, not(any(miri, raddle_model))))]
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
// SAFETY: an array of functions without arguments; this one stores two pointers.
static INIT: extern "C" fn() = init;
