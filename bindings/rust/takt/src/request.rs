use takt_sys as sys;

use crate::error::initialised;

/// A prediction: its mean, and the quantiles 0.1, 0.25, 0.5, 0.75 and 0.9 where they are known. A number is a mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    pub quantiles: [f32; 5],
}

impl Estimate {
    /// Known for certain.
    pub fn exact(value: f64) -> Self {
        Self { mean: value, quantiles: [value as f32; 5] }
    }
}

impl From<f64> for Estimate {
    fn from(mean: f64) -> Self {
        Self { mean, quantiles: [0.0; 5] }
    }
}

impl From<Estimate> for sys::takt_estimate {
    fn from(it: Estimate) -> Self {
        Self { mean: it.mean, quantiles: it.quantiles, reserved: 0 }
    }
}

/// Expected work of the calls of a request's workflow that have not ended, but for the request itself. Below 0: not
/// known.
pub use sys::takt_work_after as WorkAfter;

/// One call of a model: counts and estimates. Text and sampling parameters stay with the host.
///
/// What is not told has takt's default. Estimates that cannot be meant (not a number, endless, negative) read as
/// unknown.
#[repr(C)]
pub struct Request {
    pub(crate) raw: sys::takt_request, // first: arrays of requests are read with a stride
    hashes: Vec<u64>,
}

// SAFETY: its only pointer is into `hashes`, which it owns.
unsafe impl Send for Request {}
// SAFETY: likewise; nothing changes through a shared reference.
unsafe impl Sync for Request {}

impl Clone for Request {
    fn clone(&self) -> Self {
        Self { raw: self.raw, hashes: Vec::new() }.prefix(self.hashes.clone(), self.raw.prefix_block_tokens)
    }
}

macro_rules! told {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        $($(#[$doc])* pub fn $name(mut self, $name: impl Into<$kind>) -> Self {
            self.raw.$name = $name.into().into();
            self
        })*
    };
}

impl Request {
    /// Unique among the living; 0 is none.
    pub fn new(id: u64) -> Self {
        let mut raw = initialised!(takt_request, takt_request_init);
        raw.id = id;
        Self { raw, hashes: Vec::new() }
    }

    pub fn id(&self) -> u64 {
        self.raw.id
    }

    told! {
        /// 0: a workflow of its own.
        workflow: u64,
        /// Call site, where the host knows it.
        stage: u64,
        /// Role, where the host knows it.
        agent: u64,
        /// For fair sharing.
        tenant: u64,
        /// LoRA adapter that it needs while it runs.
        adapter: u64,
        /// Whose turn it is, where the host knows it.
        session: u64,
        /// Of its workflow: contexts of one that grow apart.
        branch: u64,
        /// [ns]; `UNSET`: the time of the event.
        arrival: i64,
        /// [ns]; `UNSET`: `arrival`.
        workflow_arrival: i64,
        /// Of its end [ns], or `NEVER`.
        deadline: i64,
        /// It waits no longer than this before its first step [ns], then fails; or `NEVER`.
        expires_at: i64,
        prompt_tokens: i32,
        /// The host's cap, which the host enforces; 0: none told.
        max_output_tokens: i32,
        /// Parallel samples of one prompt.
        sequences: i32,
        /// Lower is sooner.
        priority: i32,
        /// Of this call, per sequence.
        output_tokens: Estimate,
        /// Output of this call and of all that follow in its workflow.
        workflow_tokens_left: Estimate,
        after: WorkAfter,
        /// Expected time of this call alone, where it runs [ns]; 0: not known.
        compute: i64,
    }

    /// Hashes of the prompt's leading blocks of `block_tokens` tokens, each of a block and all before it.
    pub fn prefix(mut self, hashes: Vec<u64>, block_tokens: i32) -> Self {
        self.hashes = hashes;
        self.raw.prefix_hashes = if self.hashes.is_empty() { std::ptr::null() } else { self.hashes.as_ptr() };
        self.raw.n_prefix_hashes = self.hashes.len();
        self.raw.prefix_block_tokens = block_tokens;
        self
    }
}
