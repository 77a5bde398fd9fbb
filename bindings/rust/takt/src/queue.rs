use std::mem::size_of;
use std::ptr::{null, null_mut, NonNull};

use takt_sys as sys;

use crate::error::{check, create, initialised, spec, text, Error, Result};
use crate::request::Request;

/// How long a key is valid: see `takt_sys::TAKT_TRAIT_FIXED` and the constants after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trait(pub u32);

impl Trait {
    /// The key is valid as long as the request waits.
    pub fn is_fixed(self) -> bool {
        self.0 & sys::TAKT_TRAIT_FIXED != 0
    }
    /// Every key changes with time.
    pub fn moves(self) -> bool {
        self.0 & sys::TAKT_TRAIT_MOVING != 0
    }
    /// The key may depend on earlier input of the policy.
    pub fn learns(self) -> bool {
        self.0 & sys::TAKT_TRAIT_LEARNS != 0
    }
}

/// Computes the key of one request, for hosts that sort requests themselves. It keeps no requests.
///
/// ```
/// let mut ranker = takt::Ranker::new("sjf")?;
/// let requests = [900.0, 30.0].map(|tokens| takt::Request::new(1).output_tokens(tokens));
/// let mut keys = [0.0; 2];
/// ranker.keys(&requests, 0, &mut keys)?;
/// assert!(ranker.traits().is_fixed() && keys[1] < keys[0]);
/// # Ok::<(), takt::Error>(())
/// ```
pub struct Ranker {
    handle: NonNull<sys::takt_ranker>,
}

// SAFETY: any thread may use a handle, one at a time.
unsafe impl Send for Ranker {}

impl Ranker {
    pub fn new(policy: &str) -> Result<Self> {
        let policy = spec(policy)?;
        let mut handle = null_mut();
        // SAFETY: the text is zero-terminated, and read only during the call.
        create(|error| unsafe { sys::takt_ranker_create(policy.as_ptr(), null(), &mut handle, error) })?;
        Ok(Self { handle: NonNull::new(handle).ok_or_else(|| Error::invalid("no ranker was created"))? })
    }

    pub fn traits(&self) -> Trait {
        // SAFETY: the handle is alive.
        Trait(unsafe { sys::takt_ranker_traits(self.handle.as_ptr()) })
    }

    /// Writes the key of each request. A smaller key runs sooner; equal keys rank by arrival, then by id. `keys` has
    /// room for all.
    pub fn keys(&mut self, requests: &[Request], now: i64, keys: &mut [f64]) -> Result<()> {
        if keys.len() < requests.len() {
            return Err(Error::invalid(format!("keys: room for {} of {} requests", keys.len(), requests.len())));
        }
        let raw = requests.as_ptr().cast::<sys::takt_request>();
        // SAFETY: each Request begins with its takt_request, a Request apart; keys has room.
        check(
            unsafe {
                sys::takt_ranker_keys(
                    self.handle.as_ptr(),
                    raw,
                    requests.len(),
                    size_of::<Request>(),
                    now,
                    keys.as_mut_ptr(),
                )
            },
            "keys",
        )
    }
}

impl Drop for Ranker {
    fn drop(&mut self) {
        // SAFETY: nothing uses the handle after this.
        unsafe { sys::takt_ranker_destroy(self.handle.as_ptr()) };
    }
}

/// Result of a call that names a request. All results except `Done` and `Requeued` mean that nothing changed.
#[must_use]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The request is unknown.
    Unknown,
    /// The id is already in use.
    InUse,
    /// The id is 0, or the request has no sequence.
    Invalid,
    /// The request's state does not allow the call, or no iteration has begun.
    OutOfPlace,
    Ended,
    /// From `put`: the request was known, and waits again.
    Requeued,
    /// A result of a later version of the library.
    Other(i32),
}

fn outcome(result: sys::takt_result, call: &str) -> Result<Outcome> {
    if result < 0 {
        check(-result, call)?;
    }
    Ok(match result as u32 {
        sys::TAKT_RESULT_DONE => Outcome::Done,
        sys::TAKT_RESULT_UNKNOWN => Outcome::Unknown,
        sys::TAKT_RESULT_IN_USE => Outcome::InUse,
        sys::TAKT_RESULT_INVALID => Outcome::Invalid,
        sys::TAKT_RESULT_OUT_OF_PLACE => Outcome::OutOfPlace,
        sys::TAKT_RESULT_ENDED => Outcome::Ended,
        sys::TAKT_RESULT_REQUEUED => Outcome::Requeued,
        _ => Outcome::Other(result),
    })
}

/// State of a request in a queue.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Waiting,
    Taken,
    Held,
    Running,
    /// In a tool call.
    Paused,
}

/// Work of an iteration on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    pub request: u64,
    /// Known tokens.
    pub prefill: i32,
    /// New tokens per sequence.
    pub output: i32,
}

/// Waiting requests in the order of a policy, for hosts that handle admission and KV themselves.
///
/// An iteration is `begin`, any number of `top`, `list`, `take` and `hold`, then `end` with the requests that ran. A
/// request that was taken waits again as before, unless `end` lists it or `requeue` returned it.
///
/// ```
/// use takt::{Outcome, Queue, Ran, Request};
/// let mut queue = Queue::new("fcfs")?;
/// assert_eq!(queue.push(&Request::new(7).prompt_tokens(100), 0)?, Outcome::Done);
/// assert_eq!(queue.push(&Request::new(7).prompt_tokens(100), 0)?, Outcome::InUse);
/// queue.begin(1)?;
/// let first = queue.top()?.expect("one waits");
/// assert_eq!(queue.take(first)?, Outcome::Done);
/// assert_eq!(queue.end(&[Ran { request: first, prefill: 100, output: 1 }], 2)?, 1);
/// assert!(queue.is_empty());
/// # Ok::<(), takt::Error>(())
/// ```
pub struct Queue {
    handle: NonNull<sys::takt_queue>,
    ran: Vec<sys::takt_ran>,
}

// SAFETY: as for Ranker.
unsafe impl Send for Queue {}

macro_rules! of_a_request {
    ($($(#[$doc:meta])* $name:ident => $call:ident ($($now:ident)?);)*) => {
        $($(#[$doc])* pub fn $name(&mut self, request: u64 $(, $now: i64)?) -> Result<Outcome> {
            // SAFETY: the handle is alive.
            outcome(unsafe { sys::$call(self.handle.as_ptr(), request $(, $now)?) }, stringify!($name))
        })*
    };
}

impl Queue {
    pub fn new(policy: &str) -> Result<Self> {
        let policy = spec(policy)?;
        let mut options = initialised!(takt_queue_options, takt_queue_options_init);
        options.policy = policy.as_ptr();
        let mut handle = null_mut();
        // SAFETY: the text is zero-terminated, and read only during the call.
        create(|error| unsafe { sys::takt_queue_create(&options, &mut handle, error) })?;
        let handle = NonNull::new(handle).ok_or_else(|| Error::invalid("no queue was created"))?;
        Ok(Self { handle, ran: Vec::new() })
    }

    /// Returns the policy in use as a text that creates the same policy again.
    pub fn policy(&self) -> &str {
        // SAFETY: the text lives as long as the handle.
        unsafe { text(sys::takt_queue_policy(self.handle.as_ptr())) }
    }

    pub fn traits(&self) -> Trait {
        // SAFETY: the handle is alive.
        Trait(unsafe { sys::takt_queue_traits(self.handle.as_ptr()) })
    }

    /// Returns the number of waiting requests.
    pub fn len(&self) -> usize {
        // SAFETY: the handle is alive.
        unsafe { sys::takt_queue_size(self.handle.as_ptr()) }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the place of a request; None: unknown.
    pub fn place(&self, request: u64) -> Option<Place> {
        // SAFETY: the handle is alive.
        match unsafe { sys::takt_queue_place(self.handle.as_ptr(), request) } as u32 {
            sys::TAKT_PLACE_WAITING => Some(Place::Waiting),
            sys::TAKT_PLACE_TAKEN => Some(Place::Taken),
            sys::TAKT_PLACE_HELD => Some(Place::Held),
            sys::TAKT_PLACE_RUNNING => Some(Place::Running),
            sys::TAKT_PLACE_PAUSED => Some(Place::Paused),
            _ => None,
        }
    }

    pub fn push(&mut self, request: &Request, now: i64) -> Result<Outcome> {
        // SAFETY: the request and the data that it points to are read only during the call.
        outcome(unsafe { sys::takt_queue_push(self.handle.as_ptr(), &request.raw, now) }, "push")
    }

    /// Pushes a request, or requeues it if it is known; a known request keeps its fields.
    pub fn put(&mut self, request: &Request, now: i64) -> Result<Outcome> {
        // SAFETY: as for push.
        outcome(unsafe { sys::takt_queue_put(self.handle.as_ptr(), &request.raw, now) }, "put")
    }

    /// Updates the given `fields` (`takt_sys::TAKT_REVISED_...`) of the request with this id.
    pub fn revise(&mut self, request: &Request, fields: u32, now: i64) -> Result<Outcome> {
        // SAFETY: as for push.
        outcome(unsafe { sys::takt_queue_revise(self.handle.as_ptr(), &request.raw, fields, now) }, "revise")
    }

    of_a_request! {
        /// Removes a request that has ended or was cancelled.
        erase => takt_queue_erase();
        take => takt_queue_take();
        /// Blocks a request until `requeue`.
        hold => takt_queue_hold();
        /// Marks a request as in a tool call.
        pause => takt_queue_pause(now);
        /// Makes a request wait again after it was taken, held, preempted or in a tool call.
        requeue => takt_queue_requeue(now);
    }

    /// Begins an iteration.
    pub fn begin(&mut self, now: i64) -> Result<()> {
        // SAFETY: the handle is alive.
        check(unsafe { sys::takt_queue_begin(self.handle.as_ptr(), now) }, "begin")
    }

    /// Returns the first waiting request without removing it.
    pub fn top(&self) -> Result<Option<u64>> {
        let mut request = 0;
        // SAFETY: the handle is alive.
        let found = unsafe { sys::takt_queue_top(self.handle.as_ptr(), &mut request) };
        if found < 0 {
            check(-found, "top")?;
        }
        Ok((found > 0).then_some(request))
    }

    /// Writes the first waiting requests, best first, as many as there is room for. Returns their number.
    pub fn list(&self, requests: &mut [u64]) -> usize {
        // SAFETY: requests has room for its length.
        unsafe { sys::takt_queue_list(self.handle.as_ptr(), requests.as_mut_ptr(), requests.len()) }
    }

    /// Ends the iteration, which ran these requests. Returns how many of them are running; the others are unknown or in
    /// a tool call.
    pub fn end(&mut self, ran: &[Ran], now: i64) -> Result<usize> {
        self.keep(ran);
        let (ran, mut counted) = (&self.ran, 0);
        // SAFETY: the array is read only during the call.
        let status =
            unsafe { sys::takt_queue_end(self.handle.as_ptr(), ran.as_ptr(), ran.len(), null(), now, &mut counted) };
        check(status, "end").map(|()| counted)
    }

    /// Reports the work of a step if the host learns it after `end`. `rest_output`: new tokens per sequence of each
    /// other running request. Returns the number of valid entries of `ran`.
    pub fn computed(&mut self, ran: &[Ran], rest_output: i32) -> Result<usize> {
        self.keep(ran);
        let (ran, mut counted) = (&self.ran, 0);
        // SAFETY: the array is read only during the call.
        let status = unsafe {
            sys::takt_queue_computed(self.handle.as_ptr(), ran.as_ptr(), ran.len(), rest_output, &mut counted)
        };
        check(status, "computed").map(|()| counted)
    }

    fn keep(&mut self, ran: &[Ran]) {
        self.ran.clear();
        let raw = |it: &Ran| sys::takt_ran { request: it.request, prefill: it.prefill, output: it.output };
        self.ran.extend(ran.iter().map(raw));
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: nothing uses the handle after this.
        unsafe { sys::takt_queue_destroy(self.handle.as_ptr()) };
    }
}
