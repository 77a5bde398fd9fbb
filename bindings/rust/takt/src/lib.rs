//! takt decides what an LLM serving engine runs next.
//!
//! [`Ranker`] computes the key of one request, [`Queue`] orders waiting requests, and [`Router`] places requests on
//! engines, or scores engines for a host that chooses. Texts name policies and placements.
//!
//! ```
//! use takt::{Queue, Request};
//!
//! let mut queue = Queue::new("sjf")?;
//! queue.push(&Request::new(1).prompt_tokens(200).output_tokens(900.0), 0)?;
//! queue.push(&Request::new(2).prompt_tokens(200).output_tokens(30.0), 0)?;
//! queue.begin(0)?;
//! assert_eq!(queue.top()?, Some(2));
//! # Ok::<(), takt::Error>(())
//! ```
//!
//! Times are `i64` nanoseconds of the host's clock, which takt never reads. The host chooses ids; 0 means none. Only
//! one thread at a time may use a handle: it can move to another thread, but threads never share it.
//!
//! ```compile_fail
//! fn shared<T: Sync>() {}
//! shared::<takt::Router>();
//! ```
//!
//! The crate `takt-sys` gives access to the scheduler, a host's own keys, the inbox, predictors and logs.

mod error;
mod metrics;
mod queue;
mod request;
mod router;

pub use error::{Error, Result};
pub use metrics::{ClassBy, MetricsOptions, Saturation, Transition};
pub use queue::{Outcome, Place, Queue, Ran, Ranker, Trait};
pub use request::{Estimate, Request, WorkAfter};
pub use router::{
    http_status, retry_after, ClassLimits, CostModel, Instance, Placement, Report, Router, RouterOptions, Routing,
    Stage, Tokens, Workflow,
};
pub use takt_sys::{takt_failure as Failure, TAKT_NEVER as NEVER, TAKT_UNSET as UNSET};

/// Returns the library's version, such as "0.1.0".
pub fn version() -> &'static str {
    // SAFETY: a static zero-terminated text.
    unsafe { error::text(takt_sys::takt_version()) }
}
