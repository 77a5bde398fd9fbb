//! The C interface of takt as it is: `include/takt/c/takt.h`, where each function is told. The crate `takt` is the safe
//! one. `scripts/mirrors` makes `src/bindings.rs` of the header.
#![no_std]
#![allow(non_camel_case_types, non_upper_case_globals)]

#[rustfmt::skip]
mod bindings;
pub use bindings::*;

/// A time that never comes; of a duration or a bound: none.
pub const TAKT_NEVER: i64 = i64::MAX;
/// A time that is not told.
pub const TAKT_UNSET: i64 = i64::MIN;
/// Of a limit.
pub const TAKT_UNBOUNDED: i32 = i32::MAX;
