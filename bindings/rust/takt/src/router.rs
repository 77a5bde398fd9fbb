use std::ffi::CString;
use std::ptr::{null_mut, NonNull};
use std::slice;

use takt_sys as sys;

pub use sys::takt_placement as Placement;

use crate::error::{check, create, initialised, spec, text, Error, Result};
use crate::request::Request;

/// An engine before which a router stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Unique among those that are up; 0 is none.
    pub id: u64,
    /// What it serves, where models differ.
    pub model: u64,
    /// Of `Router::add_profile`; 0: nothing is known of how fast it is.
    pub profile: u64,
    /// Size of its KV cache [tokens]; 0: not told, everything fits.
    pub kv_tokens: i32,
    /// Requests that it may hold at once; `NEVER`: unbounded; 0: no new ones.
    pub capacity: i64,
    /// Time of an output token at full batch over that batch [s]; 0: not told.
    pub token_s: f64,
    /// Grows each time the instance starts anew, such as a start time; 0: the router numbers it.
    pub life: u64,
}

impl Instance {
    pub fn new(id: u64) -> Self {
        Self { id, model: 0, profile: 0, kv_tokens: 0, capacity: sys::TAKT_NEVER, token_s: 0.0, life: 0 }
    }
}

/// An engine's own counts, told about every 100 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests in its own queue.
    pub waiting: i64,
    pub running: i64,
    /// Preemptions since it came up.
    pub preempted: i64,
    /// [tokens]
    pub kv_used: i32,
    /// Time up to which the counts are complete [ns]. The report then includes all requests that were placed by that time,
    /// and none that were placed later. None: it includes as many requests as it counts, the oldest first.
    pub as_of: Option<i64>,
    pub life: u64,
}

/// What an engine has computed for a request since it was placed there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Of its context.
    pub prefill: i32,
    /// New tokens of all its sequences.
    pub output: i32,
}

/// Calls that are made in parallel, once all stages before have ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Call site, as its requests bear it.
    pub stage: u64,
    /// Stages that must have ended before, by index in the order of declaration.
    pub after: Vec<u32>,
    /// Expected time of one call alone [s]; 0: what was learnt of the site.
    pub cost_s: f64,
    /// Made in parallel; at least 1.
    pub calls: i32,
}

/// A graph of calls that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    pub id: u64,
    pub tenant: u64,
    /// [ns]; `UNSET`: the time of the event.
    pub arrival: i64,
    /// Of the whole [ns]; `NEVER`: none; `UNSET`: as its tenant's class says.
    pub deadline: i64,
    /// More stages may come after all that are known have ended.
    pub open: bool,
    /// None: nothing is known of the graph.
    pub stages: Vec<Stage>,
}

/// What goes where, until the router's next call.
pub struct Routing<'a> {
    pub placed: &'a [Placement],
    /// Requests that the host fails towards their clients.
    pub failed: &'a [sys::takt_failure],
    /// Workflows that are over.
    pub ended: &'a [sys::takt_workflow_end],
    /// What was said of workflows and cannot be.
    pub faults: &'a [sys::takt_workflow_fault],
    /// Without an event before, place again then [ns]; `NEVER`: only events bring more.
    pub wake_at: i64,
}

/// Requests in, pairs of request and engine out.
///
/// `life` in an event: the life of the instance that sends it, from `Placement` or `Instance`. The router ignores and counts
/// a message of an earlier life; 0: the message is taken for one of the present life.
///
/// ```
/// use takt::{Instance, Report, Request, Router};
/// let mut router = Router::new("fcfs", "least_loaded")?;
/// router.instance_up(&Instance::new(1), 0)?;
/// router.instance_up(&Instance::new(2), 0)?;
/// router.reported(1, Report { running: 9, ..Report::default() }, 0)?;
/// router.reported(2, Report { running: 2, ..Report::default() }, 0)?;
///
/// // The host picks: what is each engine worth to a request?
/// let mut scores = [0.0; 2];
/// router.score(&Request::new(7).prompt_tokens(100), &[1, 2], 0, &mut scores)?;
/// assert_eq!(scores, [-9.0, -2.0]);
///
/// // Or takt picks.
/// router.arrived(&Request::new(7).prompt_tokens(100), 0)?;
/// let routing = router.place(0)?;
/// assert_eq!((routing.placed[0].request, routing.placed[0].instance), (7, 2));
/// # Ok::<(), takt::Error>(())
/// ```
pub struct Router {
    handle: NonNull<sys::takt_router>,
}

// SAFETY: a handle may be used by any thread, by one at a time.
unsafe impl Send for Router {}

fn event(kind: u32) -> sys::takt_event {
    // SAFETY: plain data, for which zeros are values.
    let mut it: sys::takt_event = unsafe { std::mem::zeroed() };
    it.type_ = kind;
    it
}

fn stage(it: &Stage) -> sys::takt_stage {
    let (after, n_after) = (it.after.as_ptr(), it.after.len());
    sys::takt_stage { stage: it.stage, after, n_after, cost_s: it.cost_s, calls: it.calls, reserved: 0 }
}

impl Router {
    /// The order of what waits, such as "fcfs", and where it goes, such as "least_loaded(waiting_weight=2)".
    pub fn new(policy: &str, placement: &str) -> Result<Self> {
        Self::with(policy, placement, |_| {})
    }

    /// The same with other options (window, max_outstanding, ...) than takt's defaults.
    ///
    /// The policy and the placement are the texts given here.
    pub fn with(policy: &str, placement: &str, set: impl FnOnce(&mut sys::takt_router_options)) -> Result<Self> {
        let (policy, placement) = (spec(policy)?, spec(placement)?);
        let mut options = initialised!(takt_router_options, takt_router_options_init);
        set(&mut options);
        (options.policy, options.placement) = (policy.as_ptr(), placement.as_ptr());
        options.key = std::ptr::null();
        options.struct_size = std::mem::size_of::<sys::takt_router_options>() as u32;
        let mut handle = null_mut();
        // SAFETY: the texts end with a zero, and are read during the call.
        create(|error| unsafe { sys::takt_router_create(&options, &mut handle, error) })?;
        let handle = NonNull::new(handle).ok_or_else(|| Error::invalid("no router was made"))?;
        Ok(Self { handle })
    }

    fn on(&mut self, event: sys::takt_event, now: i64, call: &str) -> Result<()> {
        // SAFETY: what the event points to outlives the call, in every caller below.
        check(unsafe { sys::takt_router_on(self.handle.as_ptr(), &event, 1, now) }, call)
    }

    pub fn arrived(&mut self, request: &Request, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_ARRIVED);
        it.u.arrived.request = &request.raw;
        self.on(it, now, "arrived")
    }

    /// Its id says which; `told` (`takt_sys::TAKT_TOLD_...`) what of it holds from here on.
    pub fn revised(&mut self, request: &Request, told: u32, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_REVISED);
        it.u.revised = sys::takt_event_revised { request: &request.raw, told, reserved: 0 };
        self.on(it, now, "revised")
    }

    pub fn cancelled(&mut self, request: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_CANCELLED);
        it.u.request = request;
        self.on(it, now, "cancelled")
    }

    /// Its first step on the instance begins.
    pub fn started(&mut self, request: u64, instance: u64, life: u64, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_REQUEST_STARTED);
        it.u.request_started = sys::takt_event_request_started { request, instance, life };
        self.on(it, now, "started")
    }

    /// Totals so far; told late or twice they do no harm.
    pub fn served(&mut self, request: u64, instance: u64, life: u64, tokens: Tokens, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_REQUEST_SERVED);
        let Tokens { prefill, output } = tokens;
        it.u.request_served = sys::takt_event_request_served { request, instance, prefill, output, life };
        self.on(it, now, "served")
    }

    /// `tokens` None: not told. A failed one's stage of a workflow lacks a call again.
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

    /// It takes requests from now on. Told again, it replaces the description.
    pub fn instance_up(&mut self, instance: &Instance, now: i64) -> Result<()> {
        let mut raw = initialised!(takt_instance, takt_instance_init);
        (raw.id, raw.model, raw.profile, raw.life) = (instance.id, instance.model, instance.profile, instance.life);
        (raw.kv_tokens, raw.capacity, raw.token_s) = (instance.kv_tokens, instance.capacity, instance.token_s);
        let mut it = event(sys::TAKT_EVENT_INSTANCE_UP);
        it.u.instance_up.instance = &raw;
        self.on(it, now, "instance_up")
    }

    /// Its requests wait here again; the next `place` names them.
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

    /// `cancelled`: nothing is learnt of it.
    pub fn workflow_ended(&mut self, workflow: u64, cancelled: bool, now: i64) -> Result<()> {
        let mut it = event(sys::TAKT_EVENT_WORKFLOW_ENDED);
        it.u.workflow_ended.workflow = workflow;
        it.u.workflow_ended.cancelled = cancelled.into();
        self.on(it, now, "workflow_ended")
    }

    /// Ranks of agents, each agent once; `otherwise` is of those that are not among them.
    pub fn agent_ranks(
        &mut self,
        ranks: &[sys::takt_agent_rank],
        otherwise: sys::takt_agent_rank,
        now: i64,
    ) -> Result<()> {
        let mut epoch = initialised!(takt_epoch, takt_epoch_init);
        epoch.told = sys::TAKT_EPOCH_AGENT_RANKS;
        (epoch.ranks, epoch.n_ranks, epoch.otherwise) = (ranks.as_ptr(), ranks.len(), otherwise);
        // SAFETY: the ranks are read during the call.
        check(unsafe { sys::takt_router_epoch(self.handle.as_ptr(), &epoch, now) }, "agent_ranks")
    }

    /// What instances of one model, GPU and parallelism are called. Told twice, it is the same.
    pub fn add_profile(&mut self, name: &str) -> Result<u64> {
        let (name, mut profile): (CString, u64) = (spec(name)?, 0);
        // SAFETY: the text ends with a zero, and is read during the call.
        let status = unsafe { sys::takt_router_add_profile(self.handle.as_ptr(), name.as_ptr(), &mut profile) };
        check(status, "add_profile").map(|()| profile)
    }

    /// Places what waits. Call it after events, and at `wake_at`.
    pub fn place(&mut self, now: i64) -> Result<Routing<'_>> {
        // SAFETY: plain data, for which zeros are values.
        let mut it: sys::takt_routing = unsafe { std::mem::zeroed() };
        it.struct_size = std::mem::size_of::<sys::takt_routing>() as u32;
        // SAFETY: the handle lives.
        check(unsafe { sys::takt_router_place(self.handle.as_ptr(), now, &mut it) }, "place")?;
        // SAFETY: the arrays stay until the router's next call, which the borrow of it keeps away.
        unsafe {
            Ok(Routing {
                placed: array(it.placed, it.n_placed),
                failed: array(it.failed, it.n_failed),
                ended: array(it.ended, it.n_ended),
                faults: array(it.faults, it.n_faults),
                wake_at: it.wake_at,
            })
        }
    }

    /// What the placement gives each of these instances for a request, which need not be known here: larger is better,
    /// NaN: no place now. How many are places. Places nothing. `scores` has room for all.
    pub fn score(&mut self, request: &Request, instances: &[u64], now: i64, scores: &mut [f64]) -> Result<usize> {
        if scores.len() < instances.len() {
            return Err(Error::invalid(format!("score: room for {} of {} scores", scores.len(), instances.len())));
        }
        let mut possible = 0;
        // SAFETY: scores has room for as many as there are instances; the request is read during the call.
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

    /// The host has picked: a request that waits here goes to this instance. An error, and nothing changes, where it does
    /// not wait here or the instance is not up.
    pub fn place_at(&mut self, request: u64, instance: u64, now: i64) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::takt_router_place_at(self.handle.as_ptr(), request, instance, now) }, "place_at")
    }

    /// None: it waits here, or is not alive.
    pub fn instance_of(&self, request: u64) -> Option<u64> {
        let mut instance = 0;
        // SAFETY: the handle lives.
        let status = unsafe { sys::takt_router_instance_of(self.handle.as_ptr(), request, &mut instance) };
        (status == sys::TAKT_OK as i32 && instance != 0).then_some(instance)
    }

    /// The policy in use, as a text that makes the same.
    pub fn policy(&self) -> &str {
        // SAFETY: the text stays as long as the handle.
        unsafe { text(sys::takt_router_policy(self.handle.as_ptr())) }
    }

    /// Its counters by name, at any index.
    pub fn stats(&self) -> Vec<(&'static str, u64)> {
        let handle = self.handle.as_ptr();
        // SAFETY: the handle lives; with no room the call counts only.
        let n = unsafe { sys::takt_router_stats(handle, null_mut(), 0) };
        let mut raw = vec![sys::takt_stat { name: std::ptr::null(), value: 0 }; n];
        // SAFETY: raw has room for n; names stay for ever.
        unsafe {
            sys::takt_router_stats(handle, raw.as_mut_ptr(), n);
            raw.iter().map(|it| (text(it.name), it.value)).collect()
        }
    }
}

/// # Safety
/// As of `slice::from_raw_parts`, but `first` may be NULL where `n` is 0.
unsafe fn array<'a, T>(first: *const T, n: usize) -> &'a [T] {
    if n == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts(first, n) }
}

impl Drop for Router {
    fn drop(&mut self) {
        // SAFETY: nobody uses the handle after this.
        unsafe { sys::takt_router_destroy(self.handle.as_ptr()) };
    }
}
