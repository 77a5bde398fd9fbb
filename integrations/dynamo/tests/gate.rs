//! Tests of the gate alone: it has no clock and no type of Dynamo.
use std::collections::{HashMap, HashSet};

use takt_dynamo::gate::{Decision, Gate, Options, Rejection, Returns, Turn};

const S: i64 = 1_000_000_000;

fn gate(options: Options, workers: usize, kv: Option<usize>) -> Gate {
    let mut gate = Gate::new(options).unwrap();
    gate.capacity(workers, kv);
    gate
}

fn turn(session: u64, tokens: usize) -> Turn {
    Turn { session, tokens, last: false }
}

fn arrive(gate: &mut Gate, request: u64, session: u64, tokens: usize, now: i64) {
    gate.arrive(request, turn(session, tokens), now).unwrap();
}

fn admitted(decisions: &[Decision]) -> Vec<u64> {
    decisions.iter().filter(|each| each.rejected.is_none()).map(|each| each.request).collect()
}

#[test]
fn a_bound_on_requests_defers_in_takts_order() {
    let options = Options { policy: "footprint".into(), max_requests: 1, ..Options::default() };
    let mut gate = gate(options, 2, None);
    for (request, tokens) in [(1, 500), (2, 300), (3, 400), (4, 100)] {
        arrive(&mut gate, request, 0, tokens, request as i64);
    }
    assert_eq!(admitted(&gate.advance(10).unwrap()), [4, 2]);
    assert_eq!((gate.waiting(), gate.running()), (2, 2));
    assert!(gate.advance(11).unwrap().is_empty());
    gate.ended(4, Some(120), 20).unwrap();
    assert_eq!(admitted(&gate.advance(20).unwrap()), [3]);
    gate.ended(3, None, 30).unwrap();
    gate.ended(99, None, 30).unwrap(); // unknown
    assert_eq!(admitted(&gate.advance(30).unwrap()), [1]);
}

#[test]
fn too_many_and_too_old_requests_are_rejected() {
    let options = Options { max_requests: 1, max_waiting: 2, max_wait_s: 5.0, ..Options::default() };
    let mut gate = gate(options, 1, None);
    arrive(&mut gate, 1, 0, 10, 0);
    assert_eq!(admitted(&gate.advance(0).unwrap()), [1]);
    arrive(&mut gate, 2, 0, 10, 0);
    arrive(&mut gate, 3, 0, 10, S);
    arrive(&mut gate, 4, 0, 10, S);
    let full = gate.advance(S).unwrap();
    assert_eq!(full, [Decision { request: 4, rejected: Some(Rejection::Full), warm: false }]);
    let late = gate.advance(5 * S).unwrap();
    assert_eq!(late, [Decision { request: 2, rejected: Some(Rejection::Waited), warm: false }]);
    gate.ended(2, None, 5 * S).unwrap();
    gate.ended(1, Some(20), 5 * S).unwrap();
    assert_eq!(admitted(&gate.advance(5 * S).unwrap()), [3]);
}

#[test]
fn without_room_to_wait_a_request_runs_at_once_or_not_at_all() {
    let mut gate = gate(Options { max_requests: 1, max_waiting: 0, ..Options::default() }, 1, None);
    arrive(&mut gate, 1, 0, 10, 0);
    assert_eq!(admitted(&gate.advance(0).unwrap()), [1]);
    arrive(&mut gate, 2, 0, 10, S);
    let full = gate.advance(S).unwrap();
    assert_eq!(full, [Decision { request: 2, rejected: Some(Rejection::Full), warm: false }]);
    gate.ended(1, None, S).unwrap();
    arrive(&mut gate, 3, 0, 10, S);
    assert_eq!(admitted(&gate.advance(S).unwrap()), [3]);
}

#[test]
fn without_a_capacity_no_session_is_kept() {
    let mut gate = gate(Options::default(), 1, None);
    for request in 1..=3 {
        arrive(&mut gate, request, 7, 10, request as i64);
        let decisions = gate.advance(request as i64).unwrap();
        assert_eq!(decisions, [Decision { request, rejected: None, warm: false }]);
        gate.ended(request, Some(20), request as i64).unwrap();
    }
    gate.capacity(1, Some(1000));
    arrive(&mut gate, 4, 7, 10, 4);
    assert!(!gate.advance(4).unwrap()[0].warm);
}

#[test]
fn the_door_opens_for_a_turn_behind_many_others() {
    let options =
        Options { policy: "footprint".into(), prefill_s: 10.0, kappa: 1e-9, door_s: 30.0, ..Options::default() };
    let mut gate = full(options);
    arrive(&mut gate, 6, 6, 800, 5 * S); // footprint ranks it last
    for request in 100..200 {
        arrive(&mut gate, request, request, 400, 20 * S);
    }
    assert!(gate.advance(34 * S).unwrap().is_empty());
    assert_eq!(admitted(&gate.advance(35 * S).unwrap()), [6]);
}

/// Four sessions hold 800 of 1,000 tokens, and one more runs with 100.
fn full(options: Options) -> Gate {
    let mut gate = gate(options, 1, Some(1000));
    for session in 1..=4 {
        arrive(&mut gate, session, session, 200, 0);
        assert_eq!(admitted(&gate.advance(0).unwrap()), [session]);
        gate.ended(session, Some(200), S).unwrap();
    }
    arrive(&mut gate, 5, 5, 100, S);
    assert_eq!(admitted(&gate.advance(S).unwrap()), [5]);
    gate
}

#[test]
fn a_cold_turn_waits_while_sessions_are_about_to_return() {
    let options = || Options { prefill_s: 0.1, ..Options::default() };
    let mut gate = full(options());
    arrive(&mut gate, 6, 6, 400, 5 * S);
    assert!(gate.advance(5 * S).unwrap().is_empty());
    arrive(&mut gate, 7, 3, 250, 6 * S); // session 3 returns
    let decisions = gate.advance(6 * S).unwrap();
    assert_eq!(decisions, [Decision { request: 7, rejected: None, warm: true }]);
    // Without the price, the cold turn is admitted at once.
    let mut free = full(Options { price: false, ..options() });
    arrive(&mut free, 6, 6, 400, 5 * S);
    assert_eq!(admitted(&free.advance(5 * S).unwrap()), [6]);
    // The KV of a session that stays away for an hour is worth little.
    assert_eq!(admitted(&gate.advance(3600 * S).unwrap()), [6]);
}

#[test]
fn the_door_bounds_the_wait() {
    let options = Options { prefill_s: 10.0, kappa: 1e-9, door_s: 30.0, ..Options::default() };
    let mut gate = full(options);
    arrive(&mut gate, 6, 6, 400, 5 * S);
    assert!(gate.advance(34 * S).unwrap().is_empty());
    assert_eq!(admitted(&gate.advance(35 * S).unwrap()), [6]);
    arrive(&mut gate, 7, 7, 400, 36 * S);
    assert!(gate.advance(67 * S).unwrap().is_empty(), "the door's share is used up");
}

#[test]
fn at_the_door_a_large_turn_gets_the_memory_that_running_turns_free() {
    let mut gate = gate(Options { door_s: 10.0, ..Options::default() }, 1, Some(1000));
    arrive(&mut gate, 1, 1, 600, 0);
    assert_eq!(admitted(&gate.advance(0).unwrap()), [1]);
    arrive(&mut gate, 2, 2, 900, 0);
    arrive(&mut gate, 3, 3, 100, S);
    assert_eq!(admitted(&gate.advance(S).unwrap()), [3], "small turns pass before the door opens");
    assert!(gate.advance(11 * S).unwrap().is_empty());
    arrive(&mut gate, 4, 4, 100, 12 * S);
    assert!(gate.advance(12 * S).unwrap().is_empty(), "none passes at the door");
    gate.ended(1, None, 13 * S).unwrap();
    assert_eq!(admitted(&gate.advance(13 * S).unwrap()), [2]);
}

#[test]
fn a_turn_larger_than_all_memory_runs_alone() {
    let mut gate = gate(Options::default(), 1, Some(1000));
    arrive(&mut gate, 1, 1, 1 << 40, 0);
    assert_eq!(admitted(&gate.advance(0).unwrap()), [1]);
    gate.ended(1, Some(usize::MAX), S).unwrap();
    arrive(&mut gate, 2, 2, 10, S);
    assert_eq!(admitted(&gate.advance(S).unwrap()), [2]);
}

#[test]
fn returns_are_learnt() {
    let mut returns = Returns::default();
    for _ in 0..500 {
        returns.observe(2.0, true);
        returns.observe(f64::NAN, false);
        returns.observe(-5.0, true);
    }
    assert!(returns.worth(1.0) > 2.0 * Returns::default().worth(1.0));
    assert!((0.0..1e9).contains(&returns.worth(f64::INFINITY)));
}

/// Random sessions: no request is lost, bounds hold, and the same input gives the same decisions.
#[test]
fn no_request_is_lost() {
    let run = |seed: u64| {
        let mut state = seed * 2 + 1;
        let mut dice = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let options = Options { max_requests: 6, max_waiting: 40, max_wait_s: 400.0, ..Options::default() };
        let mut gate = gate(options, 2, Some(20_000));
        let (mut waits, mut runs) = (HashSet::new(), HashMap::new());
        let (mut now, mut log) = (0, Vec::new());
        for request in 1..=3000_u64 {
            now += dice(3 * S as u64) as i64;
            let turn = Turn { session: dice(60), tokens: dice(4000) as usize, last: dice(9) == 0 };
            gate.arrive(request, turn, now).unwrap();
            assert!(waits.insert(request));
            if dice(5) == 0 {
                if let Some(&left) = waits.iter().min() {
                    gate.ended(left, None, now).unwrap(); // its client has left
                    waits.remove(&left);
                }
            }
            for _ in 0..dice(3) {
                if let Some(&done) = runs.keys().min() {
                    runs.remove(&done);
                    gate.ended(done, (dice(4) > 0).then(|| dice(5000) as usize), now).unwrap();
                }
            }
            for decision in gate.advance(now).unwrap() {
                assert!(waits.remove(&decision.request));
                if decision.rejected.is_none() {
                    runs.insert(decision.request, ());
                }
                log.push(decision);
            }
            assert_eq!((gate.waiting(), gate.running()), (waits.len(), runs.len()));
            assert!(waits.len() <= 40 && runs.len() <= 12);
        }
        while !waits.is_empty() {
            now += S;
            if let Some(&done) = runs.keys().min() {
                runs.remove(&done);
                gate.ended(done, None, now).unwrap();
            }
            for decision in gate.advance(now).unwrap() {
                assert!(waits.remove(&decision.request));
                if decision.rejected.is_none() {
                    runs.insert(decision.request, ());
                }
            }
            assert!(now < 100_000 * S);
        }
        log
    };
    for seed in 0..5 {
        let log = run(seed);
        assert!(log.iter().any(|each| each.warm) && log.len() > 1000);
        assert_eq!(log, run(seed));
    }
}
