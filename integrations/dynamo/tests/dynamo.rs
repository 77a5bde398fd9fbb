//! Tests with Dynamo's own crate: its registry, its policy composition and its selection.
use std::collections::HashMap;
use std::sync::Arc;

use dynamo_kv_router::plugins::worker_selection::WorkerSelectionPolicy;
use dynamo_kv_router::plugins::RouterPluginRegistry;
use dynamo_kv_router::protocols::{RoutingConstraints, WorkerConfigLike, WorkerWithDpRank};
use dynamo_kv_router::scheduling::{OverlapSignals, ScheduleMode};
use dynamo_kv_router::{
    KvRouterConfig, KvSchedulerError, RoutingPartitionRef, SchedulingRequest, WorkerLoadProjection,
    WorkerSelectionInput, WorkerSelector, WorkerType,
};
use takt_dynamo::{provider, Filter, Picker, Scorer};

struct Worker;
impl WorkerConfigLike for Worker {
    fn data_parallel_start_rank(&self) -> u32 {
        0
    }
    fn data_parallel_size(&self) -> u32 {
        1
    }
    fn max_num_batched_tokens(&self) -> Option<u64> {
        None
    }
    fn total_kv_blocks(&self) -> Option<u64> {
        None
    }
}

/// `loads` per worker: requests, and their prefill tokens that are not computed yet.
fn request(prompt: usize, loads: &[(u64, usize, usize)]) -> SchedulingRequest {
    let load = |&(worker, active_requests, active_prefill_tokens): &(u64, usize, usize)| {
        let projection = WorkerLoadProjection { active_requests, active_prefill_tokens, ..Default::default() };
        (WorkerWithDpRank::from_worker_id(worker), projection)
    };
    SchedulingRequest {
        mode: ScheduleMode::QueryOnly { request_id: None },
        token_seq: None,
        isl_tokens: prompt,
        lora_name: None,
        expected_output_tokens: Some(64),
        affinity_target: None,
        pinned_worker: None,
        allowed_worker_ids: None,
        routing_constraints: RoutingConstraints::default(),
        router_config_override: None,
        track_prefill_tokens: true,
        priority_jump: 0.0,
        strict_priority: 0,
        policy_class: None,
        session_context: None,
        overlap: OverlapSignals {
            tier_overlap_blocks: Default::default(),
            effective_overlap_blocks: Default::default(),
            effective_cached_tokens: Default::default(),
        },
        kv_transfer_candidates: None,
        retain_kv_transfer_chain: false,
        shared_cache_hits: None,
        worker_loads: loads.iter().map(load).collect(),
        resp_tx: None,
    }
}

fn select(policy: &WorkerSelectionPolicy, loads: &[(u64, usize, usize)]) -> Result<u64, KvSchedulerError> {
    let workers: HashMap<u64, Worker> = loads.iter().map(|load| (load.0, Worker)).collect();
    let request = request(100, loads);
    let input = WorkerSelectionInput::configured(&workers, &request, request.eligibility(), 16);
    policy.select_worker(input).map(|selected| selected.worker.worker_id)
}

fn policy(placement: &str, max_requests: usize) -> WorkerSelectionPolicy {
    WorkerSelectionPolicy::new_with_filters(
        KvRouterConfig::default(),
        "aggregated",
        vec![Box::new(Filter { max_requests })],
        vec![Box::new(Scorer::new(placement).unwrap())],
        Box::new(Picker),
    )
}

#[test]
fn takes_the_worker_that_the_placement_scores_best() {
    let policy = policy("least_loaded", usize::MAX);
    // least_loaded: -(4 waiting + running); 100 tokens of prefill count as one waiting request.
    assert_eq!(select(&policy, &[(7, 5, 0), (3, 3, 0), (9, 2, 200)]).unwrap(), 3); // 5, 3, 8
    assert_eq!(select(&policy, &[(7, 5, 0), (3, 3, 100), (9, 5, 100)]).unwrap(), 7); // 5, 6, 8
    assert_eq!(select(&policy, &[(7, 0, 0), (3, 0, 0)]).unwrap(), 3); // equal: the lowest worker
}

#[test]
fn full_workers_receive_no_requests() {
    let policy = policy("least_loaded", 3);
    assert_eq!(select(&policy, &[(1, 3, 0), (2, 2, 200)]).unwrap(), 2);
    assert!(matches!(select(&policy, &[(1, 3, 0), (2, 4, 0)]), Err(KvSchedulerError::AllEligibleWorkersFiltered)));
}

#[test]
fn choices_equal_brute_force_over_random_loads() {
    let policy = policy("least_loaded(waiting_weight=3)", usize::MAX);
    let mut state = 9_u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    for _ in 0..300 {
        let loads: Vec<_> =
            (1..=1 + below(9)).map(|worker| (worker, below(20) as usize, 100 * below(4) as usize)).collect();
        let cost = |&(_, requests, prefill): &(u64, usize, usize)| {
            let waiting = (prefill / 100).min(requests);
            3 * waiting + (requests - waiting)
        };
        let best = loads.iter().min_by_key(|load| (cost(load), load.0)).unwrap().0;
        assert_eq!(select(&policy, &loads).unwrap(), best, "{loads:?}");
    }
}

#[test]
fn every_registered_placement_gives_finite_costs() {
    for placement in ["round_robin", "random", "least_outstanding_tokens", "workload_balance", "best_fit", "prefix"] {
        let policy = policy(placement, usize::MAX);
        for _ in 0..5 {
            assert!(select(&policy, &[(1, 1, 0), (2, 2, 50)]).is_ok(), "{placement}");
        }
    }
}

fn resolve(parameters: &str) -> Result<WorkerSelectionPolicy, String> {
    // Factory for the pools that the file does not name.
    let mut registry =
        RouterPluginRegistry::default().with_default_factory(Arc::new(|_, _, _| policy("round_robin", usize::MAX)));
    registry.register_worker_selection("takt", provider()).unwrap();
    let file = std::env::temp_dir().join(format!("takt_dynamo_{}_{}.yaml", std::process::id(), parameters.len()));
    let text = format!(
        "worker_selection:\n  aggregated: best\n  instances:\n    - name: best\n      type: takt\n      parameters: \
         {parameters}\n"
    );
    std::fs::write(&file, text).unwrap();
    let config = KvRouterConfig { router_policy_config: Some(file.display().to_string()), ..Default::default() };
    let plugins = registry.resolve_plugins(&config).map_err(|error| format!("{error:?}"));
    let _ = std::fs::remove_file(&file);
    let plugins = plugins?;
    let factory = plugins.worker_selection().expect("a policy");
    Ok(factory(&config, WorkerType::Aggregated, RoutingPartitionRef::new("model", "default")))
}

#[test]
fn dynamos_registry_and_file_select_the_placement() {
    let policy = resolve("{placement: \"least_loaded(waiting_weight=1)\", max_requests: 9}").unwrap();
    assert_eq!(select(&policy, &[(1, 5, 0), (2, 4, 400)]).unwrap(), 2);
    assert!(resolve("{}").is_ok());
    assert!(resolve("{placement: least}").err().unwrap().contains("least"));
    assert!(resolve("{max_requests: 0}").err().unwrap().contains("max_requests"));
    assert!(resolve("{placements: least_loaded}").err().unwrap().contains("placements"));
}
