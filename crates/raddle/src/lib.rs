//! A runtime for parallel work.
#![forbid(unsafe_code)]
pub use raddle_core::*;
