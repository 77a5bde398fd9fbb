//! Compares results with hand calculations and brute-force sorting.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use takt::{
    http_status, retry_after, ClassBy, ClassLimits, CostModel, Error, Estimate, Instance, MetricsOptions, Outcome,
    Place, Queue, Ran, Ranker, Report, Request, Router, Stage, Tokens,
};
use takt::{Workflow, NEVER, UNSET};

const SECOND: i64 = 1_000_000_000;

/// xorshift64*: the same numbers in every run.
struct Dice(u64);
impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

#[test]
fn the_queue_lists_by_the_rankers_keys() -> Result<(), Error> {
    let mut dice = Dice(7);
    for policy in ["fcfs", "sjf", "edf", "priority", "stjf"] {
        let (mut ranker, mut queue) = (Ranker::new(policy)?, Queue::new(policy)?);
        let arrivals: Vec<i64> = (0..300).map(|_| dice.below(50) as i64).collect();
        let requests: Vec<Request> = (1..=300)
            .map(|id| {
                Request::new(id)
                    .arrival(arrivals[id as usize - 1])
                    .prompt_tokens(1 + dice.below(900) as i32)
                    .output_tokens(Estimate::exact(1.0 + dice.below(40) as f64))
                    .workflow_tokens_left(dice.below(40) as f64)
                    .deadline(1_000 + dice.below(90) as i64)
                    .priority(dice.below(9) as i32)
                    .prefix(vec![dice.below(3), dice.below(3)], 16)
            })
            .collect();
        for request in &requests {
            assert_eq!(queue.push(&request.clone(), 100)?, Outcome::Done);
        }
        let mut keys = vec![0.0; requests.len()];
        ranker.keys(&requests, 100, &mut keys)?;
        assert!(ranker.traits().is_fixed(), "{policy}");
        queue.begin(100)?;
        let mut listed = vec![0; requests.len()];
        assert_eq!(queue.list(&mut listed), requests.len());
        let mut expected: Vec<u64> = (1..=300).collect(); // by key, then arrival, then id
        expected.sort_by(|a, b| {
            let of = |id: &u64| (keys[*id as usize - 1], arrivals[*id as usize - 1], *id);
            of(a).partial_cmp(&of(b)).expect("no NaN")
        });
        assert_eq!(listed, expected, "{policy}");
        let mut distinct = keys.clone();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        assert!(policy == "fcfs" || distinct.len() > 5, "{policy}"); // fcfs orders by arrival alone
    }
    Ok(())
}

#[test]
fn an_iteration() -> Result<(), Error> {
    let mut queue = Queue::new("sjf")?;
    assert_eq!(queue.policy(), "sjf");
    for (id, tokens) in [(1, 30.0), (2, 10.0), (3, 20.0)] {
        let _ = queue.push(&Request::new(id).prompt_tokens(5).output_tokens(tokens), 0)?;
    }
    assert_eq!(queue.push(&Request::new(0), 0)?, Outcome::Invalid);
    assert_eq!(queue.take(2)?, Outcome::OutOfPlace); // no iteration has begun
    queue.begin(1)?;
    assert_eq!(queue.top()?, Some(2));
    assert_eq!((queue.take(2)?, queue.hold(3)?, queue.take(9)?), (Outcome::Done, Outcome::Done, Outcome::Unknown));
    assert_eq!((queue.top()?, queue.len()), (Some(1), 1));
    assert_eq!(queue.end(&[Ran { request: 2, prefill: 5, output: 1 }], 2)?, 1);
    assert_eq!((queue.place(2), queue.place(3), queue.place(9)), (Some(Place::Running), Some(Place::Held), None));
    assert_eq!(queue.computed(&[], 1)?, 0);
    assert_eq!(queue.requeue(3, 3)?, Outcome::Done);
    assert_eq!(queue.put(&Request::new(2), 3)?, Outcome::Requeued); // preempted
    assert_eq!(
        queue.revise(&Request::new(1).output_tokens(1.0), takt_sys::TAKT_REVISED_OUTPUT_TOKENS, 3)?,
        Outcome::Done
    );
    queue.begin(4)?;
    let mut all = [0; 5];
    let n = queue.list(&mut all);
    assert_eq!(all[..n], [1, 2, 3]);
    assert_eq!((queue.erase(1)?, queue.erase(1)?), (Outcome::Done, Outcome::Unknown));
    Ok(())
}

#[test]
fn errors_name_the_mistake() {
    let told = |error: Option<Error>| error.expect("an error").to_string();
    assert!(told(Queue::new("sjff").err()).contains("sjff"));
    assert!(told(Ranker::new("aged(sjf,threshold=-1)").err()).contains("threshold"));
    assert!(told(Router::new("fcfs", "least_loaded(weight=1)").err()).contains("weight"));
    assert!(told(Router::new("fc\0fs", "least_loaded").err()).contains("null"));
    let mut router = Router::new("fcfs", "least_loaded").unwrap();
    assert!(told(router.score(&Request::new(1), &[1, 2], 0, &mut [0.0]).err()).contains("1 of 2"));
    assert_eq!(router.place_at(1, 1, 0).unwrap_err().status(), takt_sys::TAKT_E_INVALID as i32);
}

#[test]
fn cost_models_place_on_the_faster_instance() -> Result<(), Error> {
    let mut router = Router::with("fcfs", "workload_balance(alpha=1)", |o| o.budgets = takt_sys::TAKT_BUDGETS_SHARE)?;
    for (id, ms) in [(1, 50.0), (2, 5.0)] {
        let cost = CostModel { constant_ms: ms, per_prefill_ms: ms / 100.0, ..CostModel::default() };
        let profile = router.add_profile(&format!("{ms}"), Some(&cost))?;
        router.instance_up(&Instance { profile, ..Instance::new(id) }, 0)?;
    }
    router.arrived(&Request::new(1).prompt_tokens(100), 0)?;
    assert_eq!(router.place(0)?.placed[0].instance, 2);
    assert!(router.add_profile("50", None).is_err());
    assert!(router.add_profile("x", Some(&CostModel { constant_ms: -1.0, ..CostModel::default() })).is_err());
    assert!(Router::with("fcfs", "least_loaded", |options| options.budgets = 3).is_err());
    Ok(())
}

#[test]
fn a_routers_life() -> Result<(), Error> {
    let mut router = Router::with("fcfs", "least_loaded(waiting_weight=2)", |options| options.max_outstanding = 2)?;
    for id in [1, 2] {
        router.instance_up(&Instance { capacity: 8, ..Instance::new(id) }, 0)?;
        router.reported(id, Report { waiting: id as i64, running: 3, ..Report::default() }, 0)?;
    }
    let mut scores = [0.0; 3];
    let request = Request::new(9).prompt_tokens(10);
    assert_eq!(router.score(&request, &[1, 2, 3], 0, &mut scores)?, 2);
    assert_eq!((scores[0], scores[1]), (-5.0, -7.0)); // -(2 waiting + running)
    assert!(scores[2].is_nan());
    for id in 11..=15 {
        router.arrived(&Request::new(id).prompt_tokens(10), 1)?;
    }
    router.place_at(15, 2, 1)?;
    let routing = router.place(1)?;
    let placed: Vec<_> = routing.placed.iter().map(|it| (it.request, it.instance)).collect();
    // Instance 1 scores -5 and 2 scores -9; each has room for two, and 15 is on 2.
    assert_eq!(placed, [(11, 1), (12, 1), (13, 2)]);
    assert_eq!((routing.wake_at, routing.failed.len()), (NEVER, 0));
    assert_eq!((router.instance_of(11), router.instance_of(14)), (Some(1), None));
    router.started(11, 1, 0, 2)?;
    router.served(11, 1, 0, Tokens { prefill: 10, output: 2 }, 3)?;
    router.ended(11, 1, 0, false, Some(Tokens { prefill: 10, output: 4 }), 4)?;
    router.instance_down(2, 0, 5)?; // 13 and 15 wait again
    router.cancelled(13, 5)?;
    let again: Vec<_> = router.place(6)?.placed.iter().map(|it| (it.request, it.instance)).collect();
    assert_eq!(again.len(), 1);
    let stats: std::collections::HashMap<_, _> = router.stats().into_iter().collect();
    assert_eq!((stats["ended"], stats["cancelled"], stats["returned"], stats["arrived"]), (1, 1, 2, 5));
    Ok(())
}

#[test]
fn reports_of_kv_blocks_replace_estimates() -> Result<(), Error> {
    let mut router = Router::new("fcfs", "prefix")?;
    router.instance_up(&Instance::new(1), 0)?;
    let hashes: Vec<u64> = (1..=10).collect();
    let request = Request::new(7).prompt_tokens(161).prefix(hashes.clone(), 16);
    let mut scores = [0.0];
    let mut cached = |router: &mut Router| router.score(&request, &[1], 0, &mut scores).map(|_| scores[0]);
    router.kv_stored(1, &hashes, 0, 0)?;
    assert_eq!(cached(&mut router)?, 160.0);
    router.kv_removed(1, &[5], 0, 0)?;
    assert_eq!(cached(&mut router)?, 64.0);
    router.kv_cleared(1, 0, 0)?;
    router.kv_stored(1, &[], 0, 0)?;
    assert_eq!(cached(&mut router)?, 0.0);
    Ok(())
}

#[test]
fn workflows_hold_later_stages() -> Result<(), Error> {
    let mut router = Router::new("fcfs", "round_robin")?;
    router.instance_up(&Instance::new(1), 0)?;
    let stage = |stage, after: &[u32]| Stage { stage, after: after.to_vec(), cost_s: 1.0, calls: 1 };
    let stages = vec![stage(5, &[]), stage(6, &[0])];
    router
        .workflow_declared(&Workflow { id: 4, tenant: 0, arrival: UNSET, deadline: NEVER, open: false, stages }, 0)?;
    router.arrived(&Request::new(2).prompt_tokens(5).workflow(4u64).stage(6u64), 0)?;
    router.arrived(&Request::new(1).prompt_tokens(5).workflow(4u64).stage(5u64), 0)?;
    assert_eq!(router.place(0)?.placed.iter().map(|it| it.request).collect::<Vec<_>>(), [1]);
    router.ended(1, 1, 0, false, None, 1)?;
    assert_eq!(router.place(1)?.placed.iter().map(|it| it.request).collect::<Vec<_>>(), [2]);
    router.ended(2, 1, 0, false, None, 2)?;
    assert_eq!(router.place(2)?.ended.len(), 1);
    Ok(())
}

#[test]
fn handles_move_between_threads() -> Result<(), Error> {
    let mut router = Router::new("fcfs", "least_loaded")?;
    router.instance_up(&Instance::new(1), 0)?;
    let router = std::thread::spawn(move || router.arrived(&Request::new(1).prompt_tokens(1), 0).map(|()| router))
        .join()
        .expect("a thread")?;
    let mut router = router;
    assert_eq!(router.place(0)?.placed.len(), 1);
    Ok(())
}

#[test]
fn bounds_fail_requests_with_a_time_to_come_back() -> Result<(), Error> {
    let mut router = Router::with("fcfs", "least_loaded", |options| {
        options.max_waiting = 3;
        options.tenant_max_waiting = 2;
        options.class_limits = vec![
            ClassLimits::new(0),
            ClassLimits { max_waiting: 1, max_wait: Duration::from_millis(2500), ..ClassLimits::new(10) },
        ];
        options.max_down = Duration::from_secs(30);
    })?;
    router.instance_up(&Instance { capacity: 1, ..Instance::new(1) }, 0)?;
    let failed = |router: &mut Router, now| -> Result<HashMap<u64, (u16, Duration)>, Error> {
        let routing = router.place(now)?;
        Ok(routing.failed.iter().map(|it| (it.request, (http_status(it), retry_after(it)))).collect())
    };
    let waiting = |router: &mut Router, id: u64, tenant: u64, priority: i32, now| {
        router.arrived(&Request::new(id).prompt_tokens(100).tenant(tenant).priority(priority), now)
    };
    waiting(&mut router, 1, 1, 0, 0)?;
    assert!(failed(&mut router, 0)?.is_empty());
    for (id, tenant, priority) in [(2, 7, 0), (3, 7, 0), (4, 7, 0), (5, 1, 10), (6, 2, 10)] {
        waiting(&mut router, id, tenant, priority, SECOND)?;
    }
    let refused = HashMap::from([(4, (429, Duration::ZERO)), (6, (429, Duration::ZERO))]); // no rate is known yet
    assert_eq!(failed(&mut router, SECOND)?, refused);
    assert_eq!(failed(&mut router, SECOND + SECOND * 5 / 2)?, HashMap::from([(5, (504, Duration::ZERO))]));
    router.ended(1, 1, 0, false, None, 4 * SECOND)?; // 2 leaves the queue in which 3 waits, which gives a rate
    assert!(failed(&mut router, 4 * SECOND)?.is_empty());
    for id in [8, 9] {
        waiting(&mut router, id, 7, 0, 5 * SECOND)?;
    }
    let (status, after) = failed(&mut router, 5 * SECOND)?[&9];
    assert!(status == 429 && after > Duration::ZERO && after <= Duration::from_secs(60), "{after:?}");
    router.instance_down(1, 0, 6 * SECOND)?;
    assert!(failed(&mut router, 6 * SECOND)?.is_empty());
    assert_eq!(failed(&mut router, 36 * SECOND)?[&3].0, 503);
    for (classes, limit) in [(vec![ClassLimits::new(1); 2], 1), (vec![ClassLimits::new(1); 17], 1), (vec![], -1)] {
        let error = Router::with("fcfs", "least_loaded", |options| {
            (options.class_limits, options.max_waiting) = (classes.clone(), limit);
        });
        let named = if limit < 0 { "max_waiting" } else { "class_limits" };
        assert!(error.err().expect("an error").to_string().starts_with(named));
    }
    Ok(())
}

#[test]
fn metrics_have_names_of_classes() -> Result<(), Error> {
    let mut router = Router::new("fcfs", "least_loaded")?;
    assert!(router.saturation(0).is_err() && router.name_class(1, "one").is_err()); // nothing is measured
    let window = Duration::from_secs(4);
    router.measure(&MetricsOptions { by: ClassBy::Tenant, max_classes: 2, max_requests: 3, window })?;
    router.name_class(7, "seven")?;
    assert!(router.name_class(7, "again").is_err() && router.name_class(8, "a\0b").is_err());
    router.instance_up(&Instance { capacity: 1, ..Instance::new(1) }, 0)?;
    for id in 1..=3 {
        router.arrived(&Request::new(id).prompt_tokens(100).tenant(7u64), 0)?;
    }
    router.place(0)?;
    router.ended(1, 1, 0, false, None, 2 * SECOND)?;
    router.place(2 * SECOND)?;
    let it = router.saturation(2 * SECOND)?;
    assert!(it.backlog_tokens == 100 && it.drain_tokens_per_s > 0.0 && it.seconds_to_clear > 0.0);
    let text = router.metrics(2 * SECOND, "llm_d", Some("m"))?;
    for sample in [
        r#"llm_d_epp_flow_control_queue_size{model_name="m"} 1"#,
        r#"llm_d_epp_request_total{model_name="m",tenant="seven"} 3"#,
        r#"llm_d_epp_request_duration_seconds_count{model_name="m",tenant="seven"} 1"#,
    ] {
        assert!(text.lines().any(|line| line == sample), "no {sample} in\n{text}");
    }
    assert!(router.metrics(0, "no-such", None).unwrap_err().to_string().contains("no-such"));
    router.stop_measuring()?;
    assert!(!router.metrics(2 * SECOND, "takt", None)?.contains("_bucket"));
    for (classes, named) in [(0, "max_classes"), (65, "max_classes")] {
        let options = MetricsOptions { max_classes: classes, ..MetricsOptions::default() };
        assert!(router.measure(&options).unwrap_err().to_string().contains(named));
    }
    Ok(())
}

#[test]
fn an_observer_sees_every_transition_in_order() -> Result<(), Error> {
    let mut router = Router::with("fcfs", "least_loaded", |options| options.max_waiting = 40)?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let theirs = seen.clone();
    router.watch(move |it| theirs.lock().unwrap().push(*it))?;
    let (mut dice, mut ids) = (Dice(3), 0);
    for i in 0..3000 {
        let now = i * SECOND / 10;
        match dice.below(20) {
            0 => router.instance_down(1 + dice.below(3), 0, now)?,
            1 => router.cancelled(1 + dice.below(ids + 1), now)?,
            2..=8 => router.ended(1 + dice.below(ids + 1), 0, 0, dice.below(9) == 0, None, now)?,
            9..=15 => {
                ids += 1;
                router.arrived(&Request::new(ids).prompt_tokens(10), now)?;
            }
            _ => router.instance_up(&Instance { capacity: 3, ..Instance::new(1 + dice.below(3)) }, now)?,
        }
        router.place(now)?;
    }
    router.unwatch()?;
    router.cancelled(ids, 300 * SECOND)?;
    let seen = seen.lock().unwrap();
    let (mut status, mut ended) = (HashMap::new(), 0);
    let mut last = 0;
    for it in seen.iter() {
        let from = status.insert(it.request, it.to_status).unwrap_or(takt_sys::TAKT_REQUEST_UNKNOWN);
        assert!(from == it.from_status && it.at >= last, "{it:?} after {from}");
        assert_ne!(from, takt_sys::TAKT_REQUEST_DEAD);
        last = it.at;
        ended += u64::from(it.to_status == takt_sys::TAKT_REQUEST_DEAD);
    }
    let stats: HashMap<_, _> = router.stats().into_iter().collect();
    let arrived = seen.iter().filter(|it| it.reason == takt_sys::TAKT_REASON_ARRIVED).count();
    assert!(arrived as u64 == stats["arrived"] && ended > 500, "{stats:?}, {ended} ended");
    Ok(())
}
