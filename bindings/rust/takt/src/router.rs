use std::ffi::CString;
use std::ptr::{null_mut, NonNull};
use std::slice;
use std::time::Duration;

use takt_sys as sys;

pub use sys::takt_placement as Placement;

use crate::error::{check, create, initialised, spec, text, Error, Result};
use crate::metrics::Watched;
use crate::request::Request;

/// An engine behind a router.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Unique among the instances that are up; not 0.
    pub id: u64,
    /// Model that it serves, if models differ.
    pub model: u64,
    /// Profile from `Router::add_profile`; 0: unknown speed.
    pub profile: u64,
    /// Size of its KV cache [tokens]; 0: unknown, every request fits.
    pub kv_tokens: i32,
    /// Maximum requests at once; `NEVER`: unlimited; 0: accepts none.
    pub capacity: i64,
    /// Time of an output token at full batch divided by the batch size [s]; 0: unknown.
    pub token_s: f64,
    /// A number that grows with each restart, such as the start time; 0: the router numbers restarts.
    pub life: u64,
    /// Maximum LoRA adapters that it keeps loaded; 0: unknown.
    pub max_adapters: i32,
    /// Phases that it serves: `takt_sys::TAKT_ROLE_...`. The role changes only with the life.
    pub role: u32,
}

impl Instance {
    pub fn new(id: u64) -> Self {
        Self {
            id,
            model: 0,
            profile: 0,
            kv_tokens: 0,
            capacity: sys::TAKT_NEVER,
            token_s: 0.0,
            life: 0,
            max_adapters: 0,
            role: sys::TAKT_ROLE_BOTH,
        }
    }
}

/// The time of an iteration, as a linear fit to an engine's served iterations [ms].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    pub constant_ms: f64,
    /// Per prefill token.
    pub per_prefill_ms: f64,
    /// Per decoding sequence.
    pub per_decode_ms: f64,
    /// Per token of the contexts of decoding sequences.
    pub per_context_ms: f64,
    /// Per sampling sequence.
    pub per_sample_ms: f64,
    /// GPUs of an instance.
    pub tp: i32,
    /// KV bytes per token on all its GPUs; 0: unknown.
    pub kv_bytes_per_token: f64,
    /// Bandwidth to host memory per GPU and direction [1e9 bytes/s].
    pub host_link_gb_s: f64,
}

impl Default for CostModel {
    fn default() -> Self {
        let it = initialised!(takt_cost_model, takt_cost_model_init);
        Self {
            constant_ms: it.constant_ms,
            per_prefill_ms: it.per_prefill_ms,
            per_decode_ms: it.per_decode_ms,
            per_context_ms: it.per_context_ms,
            per_sample_ms: it.per_sample_ms,
            tp: it.tp,
            kv_bytes_per_token: it.kv_bytes_per_token,
            host_link_gb_s: it.host_link_gb_s,
        }
    }
}

impl CostModel {
    fn raw(&self) -> sys::takt_cost_model {
        sys::takt_cost_model {
            struct_size: std::mem::size_of::<sys::takt_cost_model>() as u32,
            tp: self.tp,
            constant_ms: self.constant_ms,
            per_prefill_ms: self.per_prefill_ms,
            per_decode_ms: self.per_decode_ms,
            per_context_ms: self.per_context_ms,
            per_sample_ms: self.per_sample_ms,
            kv_bytes_per_token: self.kv_bytes_per_token,
            host_link_gb_s: self.host_link_gb_s,
        }
    }
}

/// An engine's own counts, reported about every 100 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests in its own queue.
    pub waiting: i64,
    pub running: i64,
    /// Preemptions since its start.
    pub preempted: i64,
    /// KV in use [tokens].
    pub kv_used: i32,
    /// Time up to which the counts are complete [ns]. The report then includes all requests placed by that time, and
    /// none placed later. None: it includes as many requests as it counts, oldest first.
    pub as_of: Option<i64>,
    pub life: u64,
}

/// Tokens computed for a request since it was placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Context tokens.
    pub prefill: i32,
    /// New tokens of all its sequences.
    pub output: i32,
}

/// Parallel calls of a workflow, made after all stages in `after` have ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Call site, as in its requests.
    pub stage: u64,
    /// Stages that must end first, by index in the order of declaration.
    pub after: Vec<u32>,
    /// Expected time of one call alone [s]; 0: the time learned for the call site.
    pub cost_s: f64,
    /// Number of parallel calls; at least 1.
    pub calls: i32,
}

/// A graph of calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    pub id: u64,
    pub tenant: u64,
    /// Arrival [ns]; `UNSET`: the time of the event.
    pub arrival: i64,
    /// Deadline of the whole workflow [ns]; `NEVER`: none; `UNSET`: the deadline of the tenant's class.
    pub deadline: i64,
    /// More stages may follow after all known ones have ended.
    pub open: bool,
    /// Empty: unknown graph.
    pub stages: Vec<Stage>,
}

/// Limits of the requests from `priority` on, up to the next class. `NEVER`: unlimited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassLimits {
    pub priority: i32,
    /// Maximum waiting requests that were never placed.
    pub max_waiting: i64,
    /// Maximum prompt tokens of these requests.
    pub max_waiting_tokens: i64,
    /// Longest wait of such a request; 0: unlimited.
    pub max_wait: Duration,
}

impl ClassLimits {
    pub fn new(priority: i32) -> Self {
        let never = sys::TAKT_NEVER;
        Self { priority, max_waiting: never, max_waiting_tokens: never, max_wait: Duration::ZERO }
    }

    fn text(&self) -> String {
        let count = |limit: i64| if limit == sys::TAKT_NEVER { String::new() } else { limit.to_string() };
        let (requests, tokens) = (count(self.max_waiting), count(self.max_waiting_tokens));
        format!("{}:{requests}:{tokens}:{}", self.priority, self.max_wait.as_secs_f64())
    }
}

/// Options of a router. The defaults are takt's. docs/howto/router.md and docs/howto/bounds.md describe them.
#[derive(Clone, Debug, PartialEq)]
pub struct RouterOptions {
    /// Waiting requests examined after the first one that must wait.
    pub window: i32,
    /// Maximum requests per instance; `NEVER`: the instance's own limit only.
    pub max_outstanding: i64,
    /// Storage allocated at creation [requests].
    pub reserve_requests: i64,
    pub hash_seed: u64,
    /// Fail requests that are too large for every instance that is up.
    pub fail_unfit: bool,
    /// Time that a call of a declared workflow gets: `takt_sys::TAKT_BUDGETS_...`.
    pub budgets: u32,
    /// Budget of a call if no time is left: `takt_sys::TAKT_BLOWN_...`.
    pub blown: u32,
    /// Maximum requests that wait in the router and were never placed; `NEVER`: unlimited.
    pub max_waiting: i64,
    /// Maximum prompt tokens of these requests; `NEVER`: unlimited.
    pub max_waiting_tokens: i64,
    /// Maximum such requests of each tenant; `NEVER`: unlimited.
    pub tenant_max_waiting: i64,
    /// Maximum prompt tokens of such requests of each tenant; `NEVER`: unlimited.
    pub tenant_max_waiting_tokens: i64,
    /// Limits of ranges of priorities, in ascending order.
    pub class_limits: Vec<ClassLimits>,
    /// Longest wait for earlier stages of a workflow; 0: unlimited.
    pub max_held: Duration,
    /// Time without an instance before waiting requests fail; 0: unlimited.
    pub max_down: Duration,
    /// Placement among decode instances; empty: as the other placement.
    pub decode_placement: String,
    /// A decode instance runs a whole request with at most this many uncached prompt tokens.
    pub local_tokens: i32,
    /// A decode instance runs a whole request if its prefill would end sooner there.
    pub local_if_sooner: bool,
    /// KV bandwidth between two instances [1e9 bytes/s].
    pub kv_link_gb_s: f64,
}

impl Default for RouterOptions {
    fn default() -> Self {
        let it = initialised!(takt_router_options, takt_router_options_init);
        Self {
            window: it.window,
            max_outstanding: it.max_outstanding,
            reserve_requests: it.reserve_requests,
            hash_seed: it.hash_seed,
            fail_unfit: it.fail_unfit != 0,
            budgets: it.budgets,
            blown: it.blown,
            max_waiting: it.max_waiting,
            max_waiting_tokens: it.max_waiting_tokens,
            tenant_max_waiting: it.tenant_max_waiting,
            tenant_max_waiting_tokens: it.tenant_max_waiting_tokens,
            class_limits: Vec::new(),
            max_held: Duration::from_secs_f64(it.max_held),
            max_down: Duration::from_secs_f64(it.max_down),
            decode_placement: String::new(),
            local_tokens: it.local_tokens,
            local_if_sooner: it.local_if_sooner != 0,
            kv_link_gb_s: it.kv_link_gb_s,
        }
    }
}

impl RouterOptions {
    /// The texts must outlive the result.
    fn raw(&self, texts: &[CString; 4]) -> sys::takt_router_options {
        let mut it = initialised!(takt_router_options, takt_router_options_init);
        let [policy, placement, decode, classes] = texts;
        (it.policy, it.placement, it.class_limits) = (policy.as_ptr(), placement.as_ptr(), classes.as_ptr());
        it.decode_placement = if self.decode_placement.is_empty() { std::ptr::null() } else { decode.as_ptr() };
        (it.local_tokens, it.local_if_sooner) = (self.local_tokens, self.local_if_sooner.into());
        it.kv_link_gb_s = self.kv_link_gb_s;
        (it.window, it.max_outstanding, it.reserve_requests) =
            (self.window, self.max_outstanding, self.reserve_requests);
        (it.hash_seed, it.fail_unfit) = (self.hash_seed, self.fail_unfit.into());
        (it.budgets, it.blown) = (self.budgets, self.blown);
        (it.max_waiting, it.max_waiting_tokens) = (self.max_waiting, self.max_waiting_tokens);
        it.tenant_max_waiting = self.tenant_max_waiting;
        it.tenant_max_waiting_tokens = self.tenant_max_waiting_tokens;
        (it.max_held, it.max_down) = (self.max_held.as_secs_f64(), self.max_down.as_secs_f64());
        it
    }
}

/// Returns the HTTP status for a failure. 429: the client should come back. 503: no instance serves. 504: a time limit
/// ended the request.
pub fn http_status(failure: &sys::takt_failure) -> u16 {
    // SAFETY: any number is valid.
    unsafe { sys::takt_http_status(failure.reason.into()) as u16 }
}

/// Returns the time after which the client should try again; 0: takt knows none.
pub fn retry_after(failure: &sys::takt_failure) -> Duration {
    Duration::from_millis(failure.retry_after_ms.into())
}

/// Placements; valid until the router's next call.
pub struct Routing<'a> {
    pub placed: &'a [Placement],
    /// Requests whose failure the host reports to the clients.
    pub failed: &'a [sys::takt_failure],
    /// Workflows that have ended.
    pub ended: &'a [sys::takt_workflow_end],
    /// Invalid inputs about workflows.
    pub faults: &'a [sys::takt_workflow_fault],
    /// Time to place again if no event occurs before [ns]; `NEVER`: only an event allows more placements.
    pub wake_at: i64,
    /// Instances that take requests over after their prefill; the last of a request counts. Apply them after `placed`.
    pub decodes: &'a [Placement],
    /// Decode instances that no longer get a request. Apply them before `placed`.
    pub withdrawn: &'a [Placement],
}

/// Assigns requests to engines, and orders the waiting ones.
///
/// `life` in an event is the life of the sending instance, from `Placement` or `Instance`; 0: the present life. The
/// router ignores and counts events of an earlier life.
///
/// ```
/// use takt::{Instance, Report, Request, Router};
/// let mut router = Router::new("fcfs", "least_loaded")?;
/// router.instance_up(&Instance::new(1), 0)?;
/// router.instance_up(&Instance::new(2), 0)?;
/// router.reported(1, Report { running: 9, ..Report::default() }, 0)?;
/// router.reported(2, Report { running: 2, ..Report::default() }, 0)?;
///
/// // The host chooses, by the score of each engine for a request.
/// let mut scores = [0.0; 2];
/// router.score(&Request::new(7).prompt_tokens(100), &[1, 2], 0, &mut scores)?;
/// assert_eq!(scores, [-9.0, -2.0]);
///
/// // Or takt chooses.
/// router.arrived(&Request::new(7).prompt_tokens(100), 0)?;
/// let routing = router.place(0)?;
/// assert_eq!((routing.placed[0].request, routing.placed[0].instance), (7, 2));
/// # Ok::<(), takt::Error>(())
/// ```
pub struct Router {
    pub(crate) handle: NonNull<sys::takt_router>,
    pub(crate) watched: Option<Watched>, // dropped after the handle
}

// SAFETY: any thread may use a handle, one at a time.
unsafe impl Send for Router {}

fn event(kind: u32) -> sys::takt_event {
    // SAFETY: plain data; all zeros is valid.
    let mut it: sys::takt_event = unsafe { std::mem::zeroed() };
    it.type_ = kind;
    it
}

fn stage(it: &Stage) -> sys::takt_stage {
    let (after, n_after) = (it.after.as_ptr(), it.after.len());
    sys::takt_stage { stage: it.stage, after, n_after, cost_s: it.cost_s, calls: it.calls, reserved: 0 }
}

impl Router {
    /// Creates a router with a policy that orders waiting requests, such as "fcfs", and a placement, such as
    /// "least_loaded(waiting_weight=2)".
    pub fn new(policy: &str, placement: &str) -> Result<Self> {
        Self::with(policy, placement, |_| {})
    }

    /// Creates a router with further options:
    ///
    /// ```
    /// use std::time::Duration;
    /// use takt::{ClassLimits, Instance, Request, Router};
    /// let mut router = Router::with("fcfs", "least_loaded", |options| {
    ///     options.max_waiting = 1;
    ///     let batch = ClassLimits { max_wait: Duration::from_secs(3600), ..ClassLimits::new(10) };
    ///     options.class_limits = vec![ClassLimits::new(0), batch];
    /// })?;
    /// router.instance_up(&Instance { capacity: 0, ..Instance::new(1) }, 0)?;
    /// for id in [1, 2] {
    ///     router.arrived(&Request::new(id).prompt_tokens(100), 0)?;
    /// }
    /// let routing = router.place(0)?;
    /// assert_eq!((routing.failed[0].request, takt::http_status(&routing.failed[0])), (2, 429));
    /// # Ok::<(), takt::Error>(())
    /// ```
    pub fn with(policy: &str, placement: &str, set: impl FnOnce(&mut RouterOptions)) -> Result<Self> {
        let mut options = RouterOptions::default();
        set(&mut options);
        let classes: Vec<_> = options.class_limits.iter().map(ClassLimits::text).collect();
        let texts = [spec(policy)?, spec(placement)?, spec(&options.decode_placement)?, spec(&classes.join(";"))?];
        let raw = options.raw(&texts);
        let mut handle = null_mut();
        // SAFETY: the texts are zero-terminated, and read only during the call.
        create(|error| unsafe { sys::takt_router_create(&raw, &mut handle, error) })?;
        let handle = NonNull::new(handle).ok_or_else(|| Error::invalid("no router was created"))?;
        Ok(Self { handle, watched: None })
    }

    fn on(&mut self, event: sys::takt_event, now: i64, call: &str) -> Result<()> {
        // SAFETY: in every caller below, the data that the event points to outlives the call.
        check(unsafe { sys::takt_router_on(self.handle.as_ptr(), &event, 1, now) }, call)
    }

    pub fn arrived(&mut self, request: &Request, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_ARRIVED);
        it.u.arrived.request = &request.raw;
        self.on(it, now, "arrived")
    }

    /// Updates the given `fields` (`takt_sys::TAKT_REVISED_...`) of the request with this id.
    pub fn revised(&mut self, request: &Request, fields: u32, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_REVISED);
        it.u.revised = sys::takt_event_revised { request: &request.raw, fields, reserved: 0 };
        self.on(it, now, "revised")
    }

    pub fn cancelled(&mut self, request: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_CANCELLED);
        it.u.request = request;
        self.on(it, now, "cancelled")
    }

    /// Reports that the first step of the request begins on the instance.
    pub fn started(&mut self, request: u64, instance: u64, life: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_REQUEST_STARTED);
        it.u.request_started = sys::takt_event_request_started { request, instance, life };
        self.on(it, now, "started")
    }

    /// Reports totals so far; late or repeated reports do no harm.
    pub fn served(&mut self, request: u64, instance: u64, life: u64, tokens: Tokens, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_REQUEST_SERVED);
        let Tokens { prefill, output } = tokens;
        it.u.request_served = sys::takt_event_request_served { request, instance, prefill, output, life };
        self.on(it, now, "served")
    }

    /// Reports that the instance has computed the prompt. The request moves to its decode instance.
    pub fn prefill_ended(&mut self, request: u64, instance: u64, life: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_PREFILL_ENDED);
        it.u.prefill_ended = sys::takt_event_prefill_ended { request, instance, life };
        self.on(it, now, "prefill_ended")
    }

    /// Reports the end of a request; `tokens` None: unknown. If it failed, its workflow stage misses a call again.
    pub fn ended(
        &mut self,
        request: u64,
        instance: u64,
        life: u64,
        failed: bool,
        tokens: Option<Tokens>,
        now: i64,
    ) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_REQUEST_ENDED);
        let Tokens { prefill, output } = tokens.unwrap_or_default();
        it.u.request_ended = sys::takt_event_request_ended {
            request,
            instance,
            prefill,
            output,
            failed: failed.into(),
            served: tokens.is_some().into(),
            life,
        };
        self.on(it, now, "ended")
    }

    /// Adds an instance, or replaces its description.
    pub fn instance_up(&mut self, instance: &Instance, now: i64) -> Result<()> {
        let mut raw = initialised!(takt_instance, takt_instance_init);
        (raw.id, raw.model, raw.profile, raw.life) = (instance.id, instance.model, instance.profile, instance.life);
        (raw.kv_tokens, raw.capacity, raw.token_s) = (instance.kv_tokens, instance.capacity, instance.token_s);
        (raw.max_adapters, raw.role) = (instance.max_adapters, instance.role);
        let mut it = event(sys::TAKT_EVENT_INSTANCE_UP);
        it.u.instance_up.instance = &raw;
        self.on(it, now, "instance_up")
    }

    /// Removes an instance. Its requests wait in the router again; the next `place` places them.
    pub fn instance_down(&mut self, instance: u64, life: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_INSTANCE_DOWN);
        it.u.instance_down = sys::takt_event_instance_down { instance, life };
        self.on(it, now, "instance_down")
    }

    pub fn reported(&mut self, instance: u64, report: Report, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_INSTANCE_REPORTED);
        let Report { waiting, running, preempted, kv_used, as_of, life } = report;
        it.u.instance_reported = sys::takt_event_instance_reported {
            instance,
            waiting,
            running,
            preempted,
            kv_used,
            dated: as_of.is_some().into(),
            as_of: as_of.unwrap_or_default(),
            life,
        };
        self.on(it, now, "reported")
    }

    /// Reports that the instance has stored these blocks, in the order of the prompt, in its prefix cache. The placement
    /// then knows the instance's cache by its reports alone. Without hashes, the call only begins the reports.
    pub fn kv_stored(&mut self, instance: u64, hashes: &[u64], life: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_KV_STORED);
        it.u.kv_stored = sys::takt_event_kv_stored { instance, hashes: hashes.as_ptr(), n_hashes: hashes.len(), life };
        self.on(it, now, "kv_stored")
    }

    /// Reports that the instance has removed these blocks from its prefix cache.
    pub fn kv_removed(&mut self, instance: u64, hashes: &[u64], life: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_KV_REMOVED);
        it.u.kv_removed =
            sys::takt_event_kv_removed { instance, hashes: hashes.as_ptr(), n_hashes: hashes.len(), life };
        self.on(it, now, "kv_removed")
    }

    /// Reports that the instance has removed all blocks from its prefix cache, or that reports were lost.
    pub fn kv_cleared(&mut self, instance: u64, life: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_KV_CLEARED);
        it.u.kv_cleared = sys::takt_event_kv_cleared { instance, life };
        self.on(it, now, "kv_cleared")
    }

    pub fn workflow_declared(&mut self, workflow: &Workflow, now: i64) -> Result<()> {
        let stages: Vec<_> = workflow.stages.iter().map(stage).collect();
        let mut raw = initialised!(takt_workflow, takt_workflow_init);
        (raw.id, raw.tenant, raw.open) = (workflow.id, workflow.tenant, workflow.open.into());
        (raw.arrival, raw.deadline) = (workflow.arrival, workflow.deadline);
        (raw.stages, raw.n_stages) = (stages.as_ptr(), stages.len());
        let mut it = event(sys::TAKT_EVENT_WORKFLOW_DECLARED);
        it.u.workflow_declared.workflow = &raw;
        self.on(it, now, "workflow_declared")
    }

    /// Ends a workflow; takt learns nothing from a cancelled one.
    pub fn workflow_ended(&mut self, workflow: u64, cancelled: bool, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_WORKFLOW_ENDED);
        it.u.workflow_ended.workflow = workflow;
        it.u.workflow_ended.cancelled = cancelled.into();
        self.on(it, now, "workflow_ended")
    }

    /// Sets the ranks of agents, each once; `otherwise` is the rank of all other agents.
    pub fn agent_ranks(
        &mut self,
        ranks: &[sys::takt_agent_rank],
        otherwise: sys::takt_agent_rank,
        now: i64,
    ) -> Result<()> {
        let mut epoch = initialised!(takt_epoch, takt_epoch_init);
        epoch.fields = sys::TAKT_EPOCH_AGENT_RANKS;
        (epoch.ranks, epoch.n_ranks, epoch.otherwise) = (ranks.as_ptr(), ranks.len(), otherwise);
        // SAFETY: the ranks are read only during the call.
        check(unsafe { sys::takt_router_epoch(self.handle.as_ptr(), &epoch, now) }, "agent_ranks")
    }

    /// Returns the profile id for instances of one model, GPU and parallelism. Equal names have one id.
    /// Placements and budgets that need a cost model assume 1 ms per token without one. Fails if the name has another
    /// cost model.
    pub fn add_profile(&mut self, name: &str, cost: Option<&CostModel>) -> Result<u64> {
        let (name, mut profile): (CString, u64) = (spec(name)?, 0);
        let cost = cost.map(CostModel::raw);
        let cost = cost.as_ref().map_or(std::ptr::null(), |it| it as *const _);
        let router = self.handle.as_ptr();
        // SAFETY: the text is zero-terminated, and it and the costs are read only during the call.
        create(|error| unsafe { sys::takt_router_add_profile(router, name.as_ptr(), cost, &mut profile, error) })?;
        Ok(profile)
    }

    /// Changes options while requests wait or run, for example `"max_waiting=500,local_tokens=0"`
    /// (`takt_router_set_options` in takt.h lists those that may change). The next `place` uses them. The error names
    /// an option that is unknown, invalid or cannot change; then nothing changes.
    pub fn set_options(&mut self, changes: &str, now: i64) -> Result<()> {
        let (changes, router): (CString, _) = (spec(changes)?, self.handle.as_ptr());
        // SAFETY: the text is zero-terminated and read only during the call.
        create(|error| unsafe { sys::takt_router_set_options(router, changes.as_ptr(), now, error) })
    }

    /// Places waiting requests. Call it after events, and at `wake_at`.
    pub fn place(&mut self, now: i64) -> Result<Routing<'_>> {
        // SAFETY: plain data; all zeros is valid.
        let mut it: sys::takt_routing = unsafe { std::mem::zeroed() };
        it.struct_size = std::mem::size_of::<sys::takt_routing>() as u32;
        // SAFETY: the handle is alive.
        check(unsafe { sys::takt_router_place(self.handle.as_ptr(), now, &mut it) }, "place")?;
        // SAFETY: the arrays are valid until the router's next call, which the borrow prevents.
        unsafe {
            Ok(Routing {
                placed: array(it.placed, it.n_placed),
                failed: array(it.failed, it.n_failed),
                ended: array(it.ended, it.n_ended),
                faults: array(it.faults, it.n_faults),
                wake_at: it.wake_at,
                decodes: array(it.decodes, it.n_decodes),
                withdrawn: array(it.withdrawn, it.n_withdrawn),
            })
        }
    }

    /// Writes the placement's score of each instance for a request, which may be unknown to the router. Larger is
    /// better; NaN: not available now. Returns the number of instances with room, and places nothing. `scores`
    /// has room for all.
    pub fn score(&mut self, request: &Request, instances: &[u64], now: i64, scores: &mut [f64]) -> Result<usize> {
        if scores.len() < instances.len() {
            return Err(Error::invalid(format!("score: room for {} of {} scores", scores.len(), instances.len())));
        }
        let mut possible = 0;
        // SAFETY: scores has room for all instances; the request is read only during the call.
        let status = unsafe {
            sys::takt_router_score(
                self.handle.as_ptr(),
                &request.raw,
                instances.as_ptr(),
                instances.len(),
                now,
                scores.as_mut_ptr(),
                &mut possible,
            )
        };
        check(status, "score").map(|()| possible)
    }

    /// Places a waiting request on an instance of the host's choice. Fails without effect if the request is not waiting
    /// or the instance is not up.
    pub fn place_at(&mut self, request: u64, instance: u64, now: i64) -> Result<()> {
        // SAFETY: the handle is alive.
        check(unsafe { sys::takt_router_place_at(self.handle.as_ptr(), request, instance, now) }, "place_at")
    }

    /// Like `place_at`, on a prefill instance. The decode instance takes the request over.
    pub fn place_apart(&mut self, request: u64, instance: u64, decode: u64, now: i64) -> Result<()> {
        // SAFETY: the handle is alive.
        check(
            unsafe { sys::takt_router_place_apart(self.handle.as_ptr(), request, instance, decode, now) },
            "place_apart",
        )
    }

    /// Returns the instance of a request; None: it is waiting or unknown.
    pub fn instance_of(&self, request: u64) -> Option<u64> {
        let mut instance = 0;
        // SAFETY: the handle is alive.
        let status = unsafe { sys::takt_router_instance_of(self.handle.as_ptr(), request, &mut instance) };
        (status == sys::TAKT_OK as i32 && instance != 0).then_some(instance)
    }

    /// Returns the policy in use as a text that creates the same policy again.
    pub fn policy(&self) -> &str {
        // SAFETY: the text lives as long as the handle.
        unsafe { text(sys::takt_router_policy(self.handle.as_ptr())) }
    }

    /// Returns the counters by name, in any order.
    pub fn stats(&self) -> Vec<(&'static str, u64)> {
        let handle = self.handle.as_ptr();
        // SAFETY: the handle is alive; without room the call only counts.
        let n = unsafe { sys::takt_router_stats(handle, null_mut(), 0) };
        let mut raw = vec![sys::takt_stat { name: std::ptr::null(), value: 0 }; n];
        // SAFETY: raw has room for n; names are static.
        unsafe {
            sys::takt_router_stats(handle, raw.as_mut_ptr(), n);
            raw.iter().map(|it| (text(it.name), it.value)).collect()
        }
    }
}

/// # Safety
/// As for `slice::from_raw_parts`, but `first` may be NULL if `n` is 0.
unsafe fn array<'a, T>(first: *const T, n: usize) -> &'a [T] {
    if n == 0 {
        return &[];
    }
    // SAFETY: required of the caller.
    unsafe { slice::from_raw_parts(first, n) }
}

impl Drop for Router {
    fn drop(&mut self) {
        // SAFETY: nothing uses the handle after this.
        unsafe { sys::takt_router_destroy(self.handle.as_ptr()) };
    }
}
