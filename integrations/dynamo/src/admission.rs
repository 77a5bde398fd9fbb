//! takt's gate as a request classifier of Dynamo: admits, defers and rejects requests, and sets their class and deadline.
//! Dynamo's own plug-in of this kind is ThunderAgent.
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dynamo_kv_router::plugins::request_classifier::{
    ClassifyEvent, ClassifyFuture, ClassifyRequest, RequestClassifier, RequestClassifierContext,
    RequestClassifierFactory, RequestClassifierProvider, RequestClassifierProviderError, RequestProgress,
};
use tokio::sync::oneshot;

use crate::gate::{Decision, Gate, Options, Rejection, Turn};

const LOOK: Duration = Duration::from_millis(100); // time between two looks at the gate while requests wait

/// Why a request was rejected. Dynamo reports the text.
#[derive(Debug)]
pub struct Rejected(Rejection);

impl fmt::Display for Rejected {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self.0 {
            Rejection::Full => "takt: too many requests wait",
            Rejection::Waited => "takt: the request waited too long",
        })
    }
}

impl Error for Rejected {}

/// Values that a classifier sets on each admitted request.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Policy class of a turn whose session has KV; None: unchanged.
    pub warm_class: Option<String>,
    /// Policy class of every other request; None: unchanged.
    pub cold_class: Option<String>,
    /// Queue deadline, from the ingress [s]; 0: none.
    pub deadline_s: f64,
}

struct State {
    gate: Gate,
    numbers: HashMap<String, u64>, // of the requests that Dynamo names
    progress: HashMap<u64, RequestProgress>,
    deferred: HashMap<u64, oneshot::Sender<Decision>>,
    last: u64,
    ticks: bool,
    faults: u64,
}

struct Shared {
    state: Mutex<State>,
    context: RequestClassifierContext,
    began: Instant,
    names: RandomState, // secret keys, because clients choose the names of sessions
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        self.began.elapsed().as_nanos().min(i64::MAX as u128) as i64
    }

    /// Lets the gate decide. After an error of takt every waiting request is admitted, so that none is lost.
    fn advance(&self, state: &mut State) {
        let workers = self.context.workers();
        let blocks =
            workers.iter().map(|each| each.total_kv_blocks()).sum::<Option<u64>>().filter(|&blocks| blocks > 0);
        let tokens = blocks.map(|blocks| blocks.saturating_mul(u64::from(self.context.block_size())) as usize);
        state.gate.capacity(workers.len(), tokens);
        match state.gate.advance(self.now()) {
            Ok(decisions) => {
                for decision in decisions {
                    if let Some(deferred) = state.deferred.remove(&decision.request) {
                        let _ = deferred.send(decision); // its client may have left
                    }
                }
            }
            Err(_) => {
                state.faults += 1;
                for (request, deferred) in state.deferred.drain() {
                    let _ = deferred.send(Decision { request, rejected: None, warm: false });
                }
            }
        }
    }

    fn ended(&self, request: u64, context: Option<usize>) {
        let mut state = self.state();
        state.deferred.remove(&request);
        state.progress.remove(&request);
        if state.gate.ended(request, context, self.now()).is_err() {
            state.faults += 1;
        }
        self.advance(&mut state);
    }
}

/// Removes a deferred request whose client leaves, which drops its future.
struct Waits {
    shared: Arc<Shared>,
    request: Option<u64>,
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            self.shared.ended(request, None);
        }
    }
}

/// The classifier. A request without a name in Dynamo, or one that takt cannot store, passes unchanged.
pub struct Admission {
    shared: Arc<Shared>,
    marks: Marks,
}

impl Admission {
    pub fn new(options: Options, marks: Marks, context: RequestClassifierContext) -> takt::Result<Self> {
        let state = State {
            gate: Gate::new(options)?,
            numbers: HashMap::new(),
            progress: HashMap::new(),
            deferred: HashMap::new(),
            last: 0,
            ticks: false,
            faults: 0,
        };
        let shared = Shared { state: Mutex::new(state), context, began: Instant::now(), names: RandomState::new() };
        Ok(Self { shared: Arc::new(shared), marks })
    }

    /// Returns the number of requests that wait, and of errors of takt.
    pub fn counts(&self) -> (usize, u64) {
        let state = self.shared.state();
        (state.gate.waiting(), state.faults)
    }

    /// Returns the turn that a request is. Dynamo reads the session from the body, or from the headers of coding agents.
    fn turn(&self, request: &ClassifyRequest) -> Turn {
        let session = request.session_context();
        let name = session.map_or("", |session| session.session_id());
        let number = if name.is_empty() { 0 } else { self.shared.names.hash_one(name).max(1) };
        let last = session.and_then(|session| session.session_final()) == Some(true);
        Turn { session: number, tokens: request.input_tokens(), last }
    }
}

fn marked(mut request: ClassifyRequest, marks: &Marks, warm: bool) -> ClassifyRequest {
    if let Some(class) = if warm { &marks.warm_class } else { &marks.cold_class } {
        request.set_policy_class(class.as_str());
    }
    if marks.deadline_s > 0.0 {
        if let Some(due) = request.ingress_at().checked_add(Duration::from_secs_f64(marks.deadline_s)) {
            request.set_due_at(due);
        }
    }
    request
}

/// Looks at the gate while requests wait, because some decisions depend on time alone. Ends with the classifier.
async fn ticks(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut state = shared.state();
        shared.advance(&mut state);
        if state.deferred.is_empty() {
            state.ticks = false;
            return;
        }
    }
}

#[async_trait]
impl RequestClassifier for Admission {
    fn classify(&mut self, request: ClassifyRequest) -> ClassifyFuture {
        let marks = self.marks.clone();
        let Some(name) = request.request_id().map(str::to_owned) else {
            return Box::pin(async move { Ok(marked(request, &marks, false)) });
        };
        let turn = self.turn(&request);
        let (send, receive) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        state.last += 1;
        let number = state.last;
        if state.gate.arrive(number, turn, shared.now()).is_err() {
            state.faults += 1;
            return Box::pin(async move { Ok(marked(request, &marks, false)) });
        }
        state.numbers.insert(name.clone(), number);
        state.progress.insert(number, request.progress().clone());
        state.deferred.insert(number, send);
        self.shared.advance(&mut state);
        if !state.deferred.is_empty() && !std::mem::replace(&mut state.ticks, true) {
            tokio::spawn(ticks(Arc::downgrade(&shared)));
        }
        drop(state);
        let mut waits = Waits { shared, request: Some(number) };
        Box::pin(async move {
            let decision = receive.await.unwrap_or(Decision { request: number, rejected: None, warm: false });
            waits.request = None;
            match decision.rejected {
                None => Ok(marked(request, &marks, decision.warm)),
                Some(rejection) => {
                    let mut state = waits.shared.state();
                    state.progress.remove(&number);
                    if state.numbers.get(&name) == Some(&number) {
                        state.numbers.remove(&name);
                    }
                    drop(state);
                    Err(Rejected(rejection).into())
                }
            }
        })
    }

    async fn on_event(&mut self, event: ClassifyEvent) {
        let (name, failed, tokens) = match event {
            ClassifyEvent::Completed { request_id, context_tokens, .. } => (request_id, false, context_tokens),
            ClassifyEvent::Aborted { request_id, .. } => (request_id, true, None),
            _ => return,
        };
        let mut state = self.shared.state();
        let Some(number) = state.numbers.remove(&name) else { return };
        let seen = state.progress.get(&number).map(RequestProgress::context_tokens);
        drop(state);
        self.shared.ended(number, if failed { None } else { tokens.or(seen) });
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Parameters {
    policy: String,
    max_requests: usize,
    max_waiting: usize,
    max_wait_s: f64,
    price: bool,
    kappa: f64,
    patience_s: f64,
    door_s: f64,
    door_share: f64,
    prefill_s: f64,
    warm_class: Option<String>,
    cold_class: Option<String>,
    deadline_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        let o = Options::default();
        Self {
            policy: o.policy,
            max_requests: o.max_requests,
            max_waiting: o.max_waiting,
            max_wait_s: o.max_wait_s,
            price: o.price,
            kappa: o.kappa,
            patience_s: o.patience_s,
            door_s: o.door_s,
            door_share: o.door_share,
            prefill_s: o.prefill_s,
            warm_class: None,
            cold_class: None,
            deadline_s: 0.0,
        }
    }
}

/// The provider for Dynamo's registry. Parameters are the fields of [`Options`] and [`Marks`]. A start fails on an
/// unknown parameter or an invalid value.
pub fn admission() -> RequestClassifierProvider {
    Arc::new(|parameters| {
        let p: Parameters = parameters.deserialize()?;
        let numbers = [
            ("max_wait_s", p.max_wait_s),
            ("kappa", p.kappa),
            ("patience_s", p.patience_s),
            ("door_s", p.door_s),
            ("door_share", p.door_share),
            ("prefill_s", p.prefill_s),
            ("deadline_s", p.deadline_s),
        ];
        for (name, value) in numbers {
            if !(0.0..=1e9).contains(&value) {
                let text = format!("{name} is {value}; expected a number from 0 to 1e9");
                return Err(RequestClassifierProviderError::new(text));
            }
        }
        let options = Options {
            policy: p.policy,
            max_requests: p.max_requests,
            max_waiting: p.max_waiting,
            max_wait_s: p.max_wait_s,
            price: p.price,
            kappa: p.kappa,
            patience_s: p.patience_s,
            door_s: p.door_s,
            door_share: p.door_share,
            prefill_s: p.prefill_s,
        };
        let marks = Marks { warm_class: p.warm_class, cold_class: p.cold_class, deadline_s: p.deadline_s };
        if let Err(error) = Gate::new(options.clone()) {
            return Err(RequestClassifierProviderError::new(format!("policy is invalid: {error}")));
        }
        let factory: RequestClassifierFactory = Arc::new(move |context| {
            Box::new(Admission::new(options.clone(), marks.clone(), context).expect("it was created before"))
        });
        Ok(factory)
    })
}
