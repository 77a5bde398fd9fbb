//! takt decides what an LLM serving engine runs next.
//!
//! [`Ranker`] gives the key of one request, [`Queue`] keeps what waits in order, and [`Router`] places requests on
//! engines, or scores them where the host picks. Policies and placements are named by texts, as everywhere in takt.
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
//! Times are `i64` nanoseconds of the host's clock, which takt never reads. Ids are the host's choice; 0 is none. A handle
//! is used by one thread at a time: it may move to another thread, and is never shared.
//!
//! ```compile_fail
//! fn shared<T: Sync>() {}
//! shared::<takt::Router>();
//! ```
//!
//! The scheduler, keys of the host's own, the inbox, predictors and logs are reached through the crate `takt-sys`.

mod error;
mod queue;
mod request;
mod router;

pub use error::{Error, Result};
pub use queue::{Outcome, Place, Queue, Ran, Ranker, Trait};
pub use request::{Estimate, Request, WorkAfter};
pub use router::{Instance, Placement, Report, Router, Routing, Stage, Tokens, Workflow};
pub use takt_sys::{takt_failure as Failure, TAKT_NEVER as NEVER, TAKT_UNSET as UNSET};

/// The library's version, such as "0.1.0".
pub fn version() -> &'static str {
    // SAFETY: a text that ends with a zero and stays.
    unsafe { error::text(takt_sys::takt_version()) }
}
