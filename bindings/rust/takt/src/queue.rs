use std::mem::size_of;
use std::ptr::{null, null_mut, NonNull};

use takt_sys as sys;

use crate::error::{check, create, initialised, spec, text, Error, Result};
use crate::request::Request;

/// How long a key is good: see `takt_sys::TAKT_TRAIT_FIXED` and its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trait(pub u32);

impl Trait {
    /// As long as the request waits.
    pub fn is_fixed(self) -> bool {
        self.0 & sys::TAKT_TRAIT_FIXED != 0
    }
    /// Every key moves with time.
    pub fn moves(self) -> bool {
        self.0 & sys::TAKT_TRAIT_MOVING != 0
    }
    /// It may depend on what the policy was told before.
    pub fn learns(self) -> bool {
        self.0 & sys::TAKT_TRAIT_LEARNS != 0
    }
}

/// The key of one request, for hosts that compare by themselves: no queue, no memory of requests.
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

// SAFETY: a handle may be used by any thread, by one at a time.
unsafe impl Send for Ranker {}

impl Ranker {
    pub fn new(policy: &str) -> Result<Self> {
        let policy = spec(policy)?;
        let mut handle = null_mut();
        // SAFETY: the text ends with a zero, and is read during the call.
        create(|error| unsafe { sys::takt_ranker_create(policy.as_ptr(), null(), &mut handle, error) })?;
        Ok(Self { handle: NonNull::new(handle).ok_or_else(|| Error::invalid("no ranker was made"))? })
    }

    pub fn traits(&self) -> Trait {
        // SAFETY: the handle lives.
        Trait(unsafe { sys::takt_ranker_traits(self.handle.as_ptr()) })
    }

    /// Of each request: smaller is sooner, equal keys go by arrival, then by id. `keys` has room for all.
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
        // SAFETY: nobody uses the handle after this.
        unsafe { sys::takt_ranker_destroy(self.handle.as_ptr()) };
    }
}

/// What became of a call that names a request. But for `Done` and `Requeued` nothing has changed.
#[must_use]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// No such request is here.
    Unknown,
    /// The id is that of one which is here.
    InUse,
    /// No id, or no sequence.
    Invalid,
    /// It is not where the call expects it, or no iteration has begun.
    OutOfPlace,
    Ended,
    /// Of `put`: it was known, and waits again.
    Requeued,
    /// Of a later version of the library.
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

/// Where a request stands in a queue.
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

/// What an iteration computed for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    pub request: u64,
    /// Known tokens.
    pub prefill: i32,
    /// New tokens per sequence.
    pub output: i32,
}

/// Requests in the order of a policy, for hosts that keep admission and KV to themselves.
///
/// An iteration is `begin`; `top` or `list`, `take` and `hold` as often as the host likes; `end` with what ran. What is
/// taken, and not named by `end` or given back by `requeue` before, waits as though nothing had happened.
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
            // SAFETY: the handle lives.
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
        // SAFETY: the text ends with a zero, and is read during the call.
        create(|error| unsafe { sys::takt_queue_create(&options, &mut handle, error) })?;
        let handle = NonNull::new(handle).ok_or_else(|| Error::invalid("no queue was made"))?;
        Ok(Self { handle, ran: Vec::new() })
    }

    /// The policy in use, as a text that makes the same.
    pub fn policy(&self) -> &str {
        // SAFETY: the text stays as long as the handle.
        unsafe { text(sys::takt_queue_policy(self.handle.as_ptr())) }
    }

    pub fn traits(&self) -> Trait {
        // SAFETY: the handle lives.
        Trait(unsafe { sys::takt_queue_traits(self.handle.as_ptr()) })
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        // SAFETY: the handle lives.
        unsafe { sys::takt_queue_size(self.handle.as_ptr()) }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// None: it is not here.
    pub fn place(&self, request: u64) -> Option<Place> {
        // SAFETY: the handle lives.
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
        // SAFETY: the request and what it points to are read during the call.
        outcome(unsafe { sys::takt_queue_push(self.handle.as_ptr(), &request.raw, now) }, "push")
    }

    /// `push`, or `requeue` where it is known; what is known of it stays.
    pub fn put(&mut self, request: &Request, now: i64) -> Result<Outcome> {
        // SAFETY: as for push.
        outcome(unsafe { sys::takt_queue_put(self.handle.as_ptr(), &request.raw, now) }, "put")
    }

    /// Its id says which; `told` (`takt_sys::TAKT_TOLD_...`) what of it holds from here on.
    pub fn revise(&mut self, request: &Request, told: u32, now: i64) -> Result<Outcome> {
        // SAFETY: as for push.
        outcome(unsafe { sys::takt_queue_revise(self.handle.as_ptr(), &request.raw, told, now) }, "revise")
    }

    of_a_request! {
        /// It has ended, or was cancelled.
        erase => takt_queue_erase();
        take => takt_queue_take();
        /// Blocked, until `requeue`.
        hold => takt_queue_hold();
        /// It is in a tool call.
        pause => takt_queue_pause(now);
        /// It waits again: taken, held, in a tool call, or preempted.
        requeue => takt_queue_requeue(now);
    }

    /// An iteration begins.
    pub fn begin(&mut self, now: i64) -> Result<()> {
        // SAFETY: the handle lives.
        check(unsafe { sys::takt_queue_begin(self.handle.as_ptr(), now) }, "begin")
    }

    /// The first of the order, which stays.
    pub fn top(&self) -> Result<Option<u64>> {
        let mut request = 0;
        // SAFETY: the handle lives.
        let found = unsafe { sys::takt_queue_top(self.handle.as_ptr(), &mut request) };
        if found < 0 {
            check(-found, "top")?;
        }
        Ok((found > 0).then_some(request))
    }

    /// The first of the order, best first: as many as there is room for. Their number.
    pub fn list(&self, requests: &mut [u64]) -> usize {
        // SAFETY: requests has room for its length.
        unsafe { sys::takt_queue_list(self.handle.as_ptr(), requests.as_mut_ptr(), requests.len()) }
    }

    /// The iteration took these in. How many of them run; the others are not here, or in a tool call.
    pub fn end(&mut self, ran: &[Ran], now: i64) -> Result<usize> {
        self.keep(ran);
        let (ran, mut counted) = (&self.ran, 0);
        // SAFETY: the array is read during the call.
        let status =
            unsafe { sys::takt_queue_end(self.handle.as_ptr(), ran.as_ptr(), ran.len(), null(), now, &mut counted) };
        check(status, "end").map(|()| counted)
    }

    /// What was computed in a step, where the host learns it after `end`. Each other request that runs has yielded
    /// `rest_output` tokens per sequence. How many of the named were of use.
    pub fn computed(&mut self, ran: &[Ran], rest_output: i32) -> Result<usize> {
        self.keep(ran);
        let (ran, mut counted) = (&self.ran, 0);
        // SAFETY: the array is read during the call.
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
        // SAFETY: nobody uses the handle after this.
        unsafe { sys::takt_queue_destroy(self.handle.as_ptr()) };
    }
}
