//! Tests of the gate inside Dynamo's own scheduler: it calls the classifier, and reports the ends of requests.
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dynamo_kv_router::plugins::request_classifier::{RequestClassifierContext, RequestClassifierWorker};
use dynamo_kv_router::plugins::RouterPluginRegistry;
use dynamo_kv_router::protocols::{RoutingConstraints, WorkerWithDpRank};
use dynamo_kv_router::scheduling::config::RouterQueuePolicy;
use dynamo_kv_router::scheduling::{
    NoopOverlapScoresRefresh, OverlapSignals, PolicyProfile, ScheduleMode, ScheduleRequest, SessionContext,
};
use dynamo_kv_router::test_utils::{NoopSequencePublisher, SimpleWorkerConfig};
use dynamo_kv_router::{
    ActiveSequencesMultiWorker, DefaultWorkerSelector, KvRouterConfig, KvSchedulerError, LocalScheduler,
};
use takt_dynamo::admission::{admission, Admission, Marks};
use takt_dynamo::gate::Options;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

type Scheduler = LocalScheduler<NoopSequencePublisher, SimpleWorkerConfig, DefaultWorkerSelector>;

struct Site {
    scheduler: Arc<Scheduler>,
    stop: CancellationToken,
    _workers: watch::Sender<HashMap<u64, SimpleWorkerConfig>>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A scheduler of Dynamo with one worker of 10 blocks of 64 tokens, and takt's gate.
fn site(options: Options, marks: Marks) -> Site {
    let workers = HashMap::from([(0, SimpleWorkerConfig::default())]);
    let slots = Arc::new(ActiveSequencesMultiWorker::new(
        NoopSequencePublisher,
        64,
        HashMap::from([(0, (0, 1))]),
        false,
        0,
        "t",
    ));
    let (sender, receiver) = watch::channel(workers);
    let stop = CancellationToken::new();
    let scheduler = Arc::new(LocalScheduler::new(
        slots,
        receiver,
        PolicyProfile::synthetic(None, RouterQueuePolicy::Fcfs),
        64,
        DefaultWorkerSelector::new(None, "t"),
        None,
        None::<Arc<NoopOverlapScoresRefresh>>,
        None,
        None,
        Duration::from_secs(60),
        true,
        stop.clone(),
        "t",
        true,
    ));
    let worker = RequestClassifierWorker::new(WorkerWithDpRank::from_worker_id(0), Some(10));
    let context = RequestClassifierContext::new(64, move || vec![worker]);
    let gate = Admission::new(options, marks, context).unwrap();
    assert!(scheduler.install_request_classifier(Box::new(gate), stop.clone()));
    Site { scheduler, stop, _workers: sender }
}

fn request(name: &str, session: &str) -> ScheduleRequest {
    ScheduleRequest {
        mode: ScheduleMode::TrackedWithLifecycle { request_id: name.into() },
        token_seq: Some(vec![1, 2, 3, 4]),
        block_hashes: None,
        isl_tokens: 64,
        lora_name: None,
        expected_output_tokens: None,
        affinity_target: None,
        pinned_worker: None,
        allowed_worker_ids: None,
        routing_constraints: RoutingConstraints::default(),
        router_config_override: None,
        priority_jump: 0.0,
        strict_priority: 0,
        policy_class: None,
        session_context: Some(SessionContext::new(session.into(), None, None, None)),
        overlap: OverlapSignals::default(),
        kv_transfer_candidates: None,
        retain_kv_transfer_chain: false,
        shared_cache_hits: None,
    }
}

const SOON: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_deferred_request_runs_when_another_has_ended() {
    let site = site(Options { max_requests: 1, ..Options::default() }, Marks::default());
    let mut first = site.scheduler.begin_request_lifecycle("1").unwrap().unwrap();
    let sent = site.scheduler.schedule_request(request("1", "a")).await.unwrap();
    first.sent(sent.best_worker);
    let _second = site.scheduler.begin_request_lifecycle("2").unwrap().unwrap();
    let scheduler = Arc::clone(&site.scheduler);
    let waits = tokio::spawn(async move { scheduler.schedule_request(request("2", "b")).await });
    sleep(SOON).await;
    assert!(!waits.is_finished());
    first.complete();
    timeout(Duration::from_secs(5), waits).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let site = site(Options { max_requests: 1, max_waiting: 1, ..Options::default() }, Marks::default());
    let first = site.scheduler.begin_request_lifecycle("1").unwrap().unwrap();
    site.scheduler.schedule_request(request("1", "a")).await.unwrap();
    let second = site.scheduler.begin_request_lifecycle("2").unwrap().unwrap();
    assert!(timeout(SOON, site.scheduler.schedule_request(request("2", "b"))).await.is_err());
    drop(second);
    let _third = site.scheduler.begin_request_lifecycle("3").unwrap().unwrap();
    let scheduler = Arc::clone(&site.scheduler);
    let waits = tokio::spawn(async move { scheduler.schedule_request(request("3", "c")).await });
    sleep(SOON).await;
    assert!(!waits.is_finished(), "it is not rejected, because 2 has left");
    drop(first); // aborted
    timeout(Duration::from_secs(5), waits).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn requests_are_rejected_with_a_reason() {
    let options = Options { max_requests: 1, max_waiting: 1, max_wait_s: 0.2, ..Options::default() };
    let site = site(options, Marks::default());
    let _first = site.scheduler.begin_request_lifecycle("1").unwrap().unwrap();
    site.scheduler.schedule_request(request("1", "a")).await.unwrap();
    let _second = site.scheduler.begin_request_lifecycle("2").unwrap().unwrap();
    let scheduler = Arc::clone(&site.scheduler);
    let waits = tokio::spawn(async move { scheduler.schedule_request(request("2", "b")).await });
    sleep(Duration::from_millis(50)).await;
    let _third = site.scheduler.begin_request_lifecycle("3").unwrap().unwrap();
    let full = site.scheduler.schedule_request(request("3", "c")).await.err().unwrap();
    assert!(matches!(&full, KvSchedulerError::RequestClassifierFailed(_)) && format!("{full:?}").contains("Full"));
    let late = timeout(Duration::from_secs(5), waits).await.unwrap().unwrap().err().unwrap();
    assert!(format!("{late:?}").contains("Waited"));
}

#[tokio::test]
async fn a_deadline_counts_from_the_ingress() {
    let site = site(Options::default(), Marks { deadline_s: 1e-9, ..Marks::default() });
    let _first = site.scheduler.begin_request_lifecycle("1").unwrap().unwrap();
    let error = site.scheduler.schedule_request(request("1", "a")).await.err().unwrap();
    assert!(matches!(error, KvSchedulerError::DeadlineExceeded), "{error:?}");
}

#[test]
fn the_registry_checks_the_parameters() {
    let resolve = |parameters: &str| {
        let file = std::env::temp_dir().join(format!("takt-admission-{}-{}", std::process::id(), parameters.len()));
        std::fs::write(&file, format!("request_classifier:\n  type: takt\n  parameters: {parameters}\n")).unwrap();
        let mut registry = RouterPluginRegistry::default();
        registry.register_request_classifier("takt", admission()).unwrap();
        let config =
            KvRouterConfig { router_policy_config: Some(file.display().to_string()), ..KvRouterConfig::default() };
        let resolved = registry.resolve_request_classifier(&config);
        std::fs::remove_file(&file).unwrap();
        resolved.map(|factory| factory.unwrap()(RequestClassifierContext::new(16, Vec::new))).map_err(|e| e.to_string())
    };
    assert!(resolve("{}").is_ok());
    assert!(resolve("{policy: stjf, max_requests: 64, max_wait_s: 120, warm_class: returning}").is_ok());
    for (parameters, message) in [
        ("{policy: no_such}", "no_such"),
        ("{max_wait_s: -1}", "max_wait_s is -1; expected"),
        ("{kappa: .nan}", "kappa is NaN; expected"),
        ("{max_request: 3}", "max_request"),
    ] {
        let error = resolve(parameters).err().unwrap();
        assert!(error.contains(message), "{error}");
    }
}
