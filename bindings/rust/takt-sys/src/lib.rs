//! Raw bindings of takt's C interface: `include/takt/c/takt.h` describes each function. The crate `takt` is the safe
//! interface. `scripts/mirrors` generates `src/bindings.rs` from the header.
#![no_std]
#![allow(non_camel_case_types, non_upper_case_globals)]

#[rustfmt::skip]
mod bindings;
pub use bindings::*;

/// A time that never comes; for a duration or a bound: unlimited.
pub const TAKT_NEVER: i64 = i64::MAX;
/// A time that is not set.
pub const TAKT_UNSET: i64 = i64::MIN;
/// A limit that does not apply.
pub const TAKT_UNBOUNDED: i32 = i32::MAX;
