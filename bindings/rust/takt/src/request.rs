use takt_sys as sys;

use crate::error::initialised;

/// A prediction: its mean, and the quantiles 0.1, 0.25, 0.5, 0.75 and 0.9 if known. A number converts to its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    pub quantiles: [f32; 5],
}

impl Estimate {
    /// Returns the estimate of a value that is known exactly.
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

/// Expected work of the calls of a workflow that have not ended, except for the request itself. Below 0: unknown.
pub use sys::takt_work_after as WorkAfter;

/// One call of a model: counts and estimates. The prompt's text and sampling parameters stay with the host.
///
/// Fields that are not set have takt's defaults. An invalid estimate (NaN, infinite, negative) counts as unknown.
#[repr(C)]
pub struct Request {
    pub(crate) raw: sys::takt_request, // first: C reads arrays of requests with a stride
    hashes: Vec<u64>,
}

// SAFETY: its only pointer is into `hashes`, which it owns.
unsafe impl Send for Request {}
// SAFETY: as above; nothing changes through a shared reference.
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
    /// `id` is unique among the requests alive, and not 0.
    pub fn new(id: u64) -> Self {
        let mut raw = initialised!(takt_request, takt_request_init);
        raw.id = id;
        Self { raw, hashes: Vec::new() }
    }

    pub fn id(&self) -> u64 {
        self.raw.id
    }

    told! {
        /// Workflow; 0: the request is a workflow of its own.
        workflow: u64,
        /// Call site in the workflow; 0: unknown.
        stage: u64,
        /// Role of the agent that calls; 0: unknown.
        agent: u64,
        /// Tenant, for fair sharing.
        tenant: u64,
        /// LoRA adapter that the request needs while it runs.
        adapter: u64,
        /// Session whose turn this is; 0: unknown.
        session: u64,
        /// Branch of the workflow: a context of its own.
        branch: u64,
        /// Arrival [ns]; `UNSET`: the time of the event.
        arrival: i64,
        /// Arrival of the workflow [ns]; `UNSET`: `arrival`.
        workflow_arrival: i64,
        /// Time by which the request should end [ns]; `NEVER`: none.
        deadline: i64,
        /// Time at which the request fails if its first step has not run [ns]; `NEVER`: none.
        expires_at: i64,
        /// Time by which the first token should be generated [ns]; `NEVER`: none.
        first_token_by: i64,
        /// Target time between two output tokens [ns]; 0: the scheduler's.
        token_pace: i64,
        prompt_tokens: i32,
        /// Maximum output, enforced by the host [tokens]; 0: unknown.
        max_output_tokens: i32,
        /// Number of parallel samples of the prompt.
        sequences: i32,
        /// Priority; a lower number runs sooner.
        priority: i32,
        /// Output of this call, per sequence [tokens].
        output_tokens: Estimate,
        /// Output of this call and of all later ones in its workflow [tokens].
        workflow_tokens_left: Estimate,
        after: WorkAfter,
        /// Expected time of this call if it runs alone [ns]; 0: unknown.
        compute: i64,
    }

    /// Hashes of the prompt's leading blocks of `block_tokens` tokens; each covers its block and all blocks before it.
    pub fn prefix(mut self, hashes: Vec<u64>, block_tokens: i32) -> Self {
        self.hashes = hashes;
        self.raw.prefix_hashes = if self.hashes.is_empty() { std::ptr::null() } else { self.hashes.as_ptr() };
        self.raw.n_prefix_hashes = self.hashes.len();
        self.raw.prefix_block_tokens = block_tokens;
        self
    }
}
