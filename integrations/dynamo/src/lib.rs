//! takt in NVIDIA Dynamo's KV router. Placements implement the traits `WorkerFilter`, `WorkerScorer` and `WorkerPicker`,
//! with one [`takt::Router`] per policy: Dynamo counts the load in flight, and takt computes the scores. The gate
//! implements `RequestClassifier` ([`admission`]): it admits, defers and rejects requests before Dynamo queues them.
//!
//! ```no_run
//! let mut registry = dynamo_kv_router::plugins::RouterPluginRegistry::default();
//! registry.register_worker_selection("takt", takt_dynamo::provider())?;
//! registry.register_request_classifier("takt", takt_dynamo::admission::admission())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The file of `DYN_ROUTER_POLICY_CONFIG` then contains
//!
//! ```yaml
//! worker_selection:
//!   aggregated: takt
//!   instances:
//!     - name: takt
//!       type: takt
//!       parameters: {placement: "least_loaded(waiting_weight=2)", max_requests: 64}
//! request_classifier:
//!   type: takt
//!   parameters: {max_requests: 64, max_wait_s: 120, warm_class: returning}
//! ```
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

pub mod admission;
pub mod gate;

use dynamo_kv_router::plugins::worker_selection::{
    WorkerCandidate, WorkerCandidates, WorkerFilter, WorkerInputView, WorkerInputs, WorkerPicker, WorkerScorer,
    WorkerSelectionContext, WorkerSelectionPolicy, WorkerSelectionPolicyError, WorkerSelectionPolicyProvider,
    WorkerSelectionPolicyProviderError,
};
use dynamo_kv_router::protocols::WorkerWithDpRank;
use takt::{Instance, Report, Request, Router};

/// Keeps workers with fewer requests than `max_requests`.
pub struct Filter {
    pub max_requests: usize,
}

impl WorkerFilter for Filter {
    fn required_worker_inputs(&self) -> WorkerInputs {
        WorkerInputs::LOAD
    }

    fn keep(
        &mut self,
        _: &WorkerSelectionContext<'_>,
        candidate: WorkerCandidate<'_>,
    ) -> Result<bool, WorkerSelectionPolicyError> {
        Ok(candidate.load().is_none_or(|load| load.active_requests() < self.max_requests))
    }
}

/// Scores all candidates of a request with one call of takt.
///
/// Each pair of worker and rank is an instance; its report is Dynamo's load. Requests with prefill ahead of them count
/// as waiting if Dynamo reports that amount, the others as running. The cost is the negated score, so that the best has
/// the lowest cost. An instance that takt cannot use costs more than every other.
pub struct Scorer {
    router: Router,
    instances: HashMap<WorkerWithDpRank, u64>,
    ids: Vec<u64>,
    began: Instant,
}

impl Scorer {
    pub fn new(placement: &str) -> takt::Result<Self> {
        let (router, ids) = (Router::new("fcfs", placement)?, Vec::new());
        Ok(Self { router, instances: HashMap::new(), ids, began: Instant::now() })
    }

    fn costs(
        &mut self,
        context: &WorkerSelectionContext<'_>,
        candidates: WorkerCandidates<'_>,
        costs: &mut [f64],
    ) -> takt::Result<()> {
        let now = self.began.elapsed().as_nanos() as i64;
        self.ids.clear();
        for candidate in candidates.iter() {
            let next = self.instances.len() as u64 + 1;
            let id = *self.instances.entry(candidate.worker()).or_insert(next);
            if id == next {
                self.router.instance_up(&Instance::new(id), now)?;
            }
            self.ids.push(id);
            let Some(load) = candidate.load().filter(|load| load.is_available()) else { continue };
            let prompt = context.prompt_tokens().max(1);
            let waiting = load.active_prefill_tokens().div_ceil(prompt).min(load.active_requests()) as i64;
            let running = load.active_requests() as i64 - waiting;
            let kv_used = (load.decode_cost_blocks() * f64::from(context.block_size())) as i32;
            self.router.reported(
                id,
                Report { waiting, running, kv_used, as_of: Some(now), ..Report::default() },
                now,
            )?;
        }
        let mut request = Request::new(1).prompt_tokens(context.prompt_tokens().clamp(1, 1 << 28) as i32);
        if let Some(tokens) = context.expected_output_tokens() {
            request = request.output_tokens(f64::from(tokens));
        }
        self.router.score(&request, &self.ids, now, costs)?;
        let worst = costs.iter().filter(|score| !score.is_nan()).fold(0.0_f64, |worst, score| worst.max(-score));
        costs.iter_mut().for_each(|cost| *cost = if cost.is_nan() { 2.0 * worst.abs() + 1.0 } else { -*cost });
        Ok(())
    }
}

impl WorkerScorer for Scorer {
    fn required_worker_inputs(&self) -> WorkerInputs {
        WorkerInputs::LOAD
    }

    fn score(
        &mut self,
        context: &WorkerSelectionContext<'_>,
        candidates: WorkerCandidates<'_>,
        costs: &mut [f64],
    ) -> Result<(), WorkerSelectionPolicyError> {
        self.costs(context, candidates, costs).map_err(|error| WorkerSelectionPolicyError::failed(error.to_string()))
    }
}

/// Picks the lowest cost; among equals the lowest worker and rank, so that the same state gives the same choice.
pub struct Picker;

impl WorkerPicker for Picker {
    fn pick(
        &mut self,
        _: &WorkerSelectionContext<'_>,
        input: WorkerInputView<'_>,
    ) -> Result<usize, WorkerSelectionPolicyError> {
        let rows = input.candidates().iter().enumerate();
        rows.min_by(|(_, a), (_, b)| a.cost().total_cmp(&b.cost()).then_with(|| a.worker().cmp(&b.worker())))
            .map(|(row, _)| row)
            .ok_or_else(|| WorkerSelectionPolicyError::failed("no candidate"))
    }
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Parameter {
    Number(usize),
    Text(String),
}

/// The provider for Dynamo's registry. Parameters: `placement`, any placement of takt as a text (default
/// `least_loaded`), and `max_requests`, the maximum requests per worker (default: unlimited).
pub fn provider() -> WorkerSelectionPolicyProvider {
    Arc::new(|parameters| {
        let told: HashMap<String, Parameter> = parameters.deserialize()?;
        let wrong = |text: String| Err(WorkerSelectionPolicyProviderError::new(text));
        let (mut placement, mut max_requests) = ("least_loaded".to_string(), usize::MAX);
        for (name, value) in told {
            match (name.as_str(), value) {
                ("placement", Parameter::Text(text)) => placement = text,
                ("max_requests", Parameter::Number(n)) if n > 0 => max_requests = n,
                _ => return wrong(format!("{name} is invalid; expected placement: TEXT or max_requests: N, N > 0")),
            }
        }
        if let Err(error) = Scorer::new(&placement) {
            return wrong(error.to_string());
        }
        Ok(Arc::new(move |config, worker_type, _partition| {
            let scorer = Scorer::new(&placement).expect("it was created before");
            WorkerSelectionPolicy::new_with_filters(
                config.clone(),
                worker_type.as_str(),
                vec![Box::new(Filter { max_requests })],
                vec![Box::new(scorer)],
                Box::new(Picker),
            )
        }))
    })
}
