//! The gate: decides when a request of a session may enter the router, by takt's order and by the KV of sessions that
//! will return. It knows no type of Dynamo, and reads no clock.
//!
//! The rule is the price gate of docs/reference/gates.md, over the KV of all workers together. Workers evict by LRU, so
//! the KV of sessions is taken to be evicted in the order in which their turns ended.
use std::collections::{BTreeMap, BTreeSet, HashMap};

use takt::{Queue, Ran, Request};

const SECOND: f64 = 1e9;
const LOOKS: usize = 64; // waiting turns that one call examines, with the one that arrived first; the others wait
const MOST_TOKENS: usize = 1 << 28;
const BINS: usize = 24; // bins of ages, each twice as long as the one before; the first ends at FIRST_S
const FIRST_S: f64 = 0.25;
const PRIOR_RETURNS: f64 = 4.0; // weight of the prior, in returns per bin
/// Prior return hazard [1/s] after a turn of a coding agent, from an age [s] on.
const PRIOR: [(f64, f64); 10] = [
    (0.0, 0.003),
    (4.0, 0.10),
    (8.0, 0.11),
    (16.0, 0.053),
    (32.0, 0.022),
    (64.0, 0.013),
    (128.0, 0.007),
    (256.0, 0.004),
    (512.0, 0.001),
    (1024.0, 0.0003),
];

fn edge(bin: usize) -> f64 {
    if bin == 0 {
        0.0
    } else {
        FIRST_S * 2f64.powi(bin as i32 - 1)
    }
}

fn bin_of(age: f64) -> usize {
    if age < FIRST_S {
        0
    } else {
        (1.0 + (age / FIRST_S).log2()).min((BINS - 1) as f64) as usize
    }
}

/// Estimates when sessions return after a turn, as returns over time at risk, by age.
pub struct Returns {
    returned: [f64; BINS],
    at_risk: [f64; BINS],
    worth: Option<[f64; BINS]>,
}

impl Default for Returns {
    fn default() -> Self {
        let hazard = |bin| PRIOR.iter().rev().find(|(age, _)| *age <= edge(bin)).map_or(PRIOR[0].1, |each| each.1);
        let at_risk = std::array::from_fn(|bin| PRIOR_RETURNS / hazard(bin));
        Self { returned: [PRIOR_RETURNS; BINS], at_risk, worth: None }
    }
}

impl Returns {
    /// Records a gap [s] between turns, or the time so far of a session whose KV was evicted before it returned.
    pub fn observe(&mut self, gap: f64, returned: bool) {
        let gap = if gap.is_finite() { gap.max(0.0) } else { 0.0 };
        let last = bin_of(gap);
        for bin in 0..last {
            self.at_risk[bin] += edge(bin + 1) - edge(bin);
        }
        self.at_risk[last] += gap - edge(last);
        self.returned[last] += f64::from(u8::from(returned));
        self.worth = None;
    }

    /// Returns the largest ratio of return probability to holding time, at this age or later [1/s].
    pub fn worth(&mut self, age: f64) -> f64 {
        let (returned, at_risk) = (&self.returned, &self.at_risk);
        let table = self.worth.get_or_insert_with(|| {
            std::array::from_fn(|from| {
                let (mut stays, mut held, mut best) = (1.0, 0.0, 0.0_f64);
                for bin in from..BINS {
                    let (hazard, width) = (returned[bin] / at_risk[bin], edge(bin + 1) - edge(bin));
                    let gone = (-hazard * width).exp();
                    held += stays * (1.0 - gone) / hazard;
                    stays *= gone;
                    best = best.max((1.0 - stays) / held);
                }
                best
            })
        });
        table[bin_of(age)]
    }
}

/// Options of a [`Gate`].
#[derive(Clone, Debug)]
pub struct Options {
    /// takt's policy for the order of waiting requests.
    pub policy: String,
    /// Maximum requests per worker that may be in the router and its workers; 0: unlimited.
    pub max_requests: usize,
    /// Maximum waiting requests; a further one is rejected unless it is admitted at once.
    pub max_waiting: usize,
    /// Time after which a waiting request is rejected [s]; 0: none.
    pub max_wait_s: f64,
    /// Hold back turns that would evict KV of sessions that will return.
    pub price: bool,
    /// Factor on the cost that a turn may cause to other turns; a smaller factor makes more turns wait.
    pub kappa: f64,
    /// Time after which a waiting turn may cause twice the cost [s].
    pub patience_s: f64,
    /// Minimum wait after which the turn that has waited longest is admitted at any cost [s].
    pub door_s: f64,
    /// Maximum share of all prefill for turns that are admitted at any cost.
    pub door_share: f64,
    /// Prefill time of a token [s], for costs.
    pub prefill_s: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: "room_to_pass".into(),
            max_requests: 0,
            max_waiting: 100_000,
            max_wait_s: 0.0,
            price: true,
            kappa: 1.0,
            patience_s: 300.0,
            door_s: 60.0,
            door_share: 0.1,
            prefill_s: 1e-4,
        }
    }
}

/// Reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// `max_waiting` other requests wait.
    Full,
    /// It waited for `max_wait_s`.
    Waited,
}

/// One call of a session.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// Session; 0: none.
    pub session: u64,
    /// Prompt [tokens].
    pub tokens: usize,
    /// True: no call of the session follows.
    pub last: bool,
}

struct Held {
    at: u64, // key of Gate::oldest
    tokens: usize,
    since: i64,
}

/// A decision of [`Gate::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub request: u64,
    /// None: admitted.
    pub rejected: Option<Rejection>,
    /// Its session had KV.
    pub warm: bool,
}

/// See the module. Times are nanoseconds of one monotonic clock.
pub struct Gate {
    options: Options,
    queue: Queue,
    waiting: HashMap<u64, (Turn, i64)>, // with the arrival
    arrivals: BTreeSet<(i64, u64)>,     // of the waiting requests
    running: HashMap<u64, Turn>,
    held: HashMap<u64, Held>,   // by session: KV of ended turns
    oldest: BTreeMap<u64, u64>, // sessions in the order in which their turns ended
    ended: u64,
    held_tokens: usize,
    running_tokens: usize,
    returns: Returns,
    door_opens: i64,
    at_door: Option<u64>, // waits for memory, and all others wait for it
    workers: usize,
    kv_tokens: Option<usize>, // None: unknown, so nothing is held back by price
}

impl Gate {
    pub fn new(options: Options) -> takt::Result<Self> {
        let queue = Queue::new(&options.policy)?;
        Ok(Self {
            options,
            queue,
            waiting: HashMap::new(),
            arrivals: BTreeSet::new(),
            running: HashMap::new(),
            held: HashMap::new(),
            oldest: BTreeMap::new(),
            ended: 0,
            held_tokens: 0,
            running_tokens: 0,
            returns: Returns::default(),
            door_opens: i64::MIN,
            at_door: None,
            workers: 0,
            kv_tokens: None,
        })
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Sets the number of workers, and the KV of all of them [tokens]; None: unknown.
    pub fn capacity(&mut self, workers: usize, kv_tokens: Option<usize>) {
        (self.workers, self.kv_tokens) = (workers, kv_tokens);
    }

    /// Adds a request to the queue. `advance` decides. Ids are unique among the requests alive, and not 0.
    pub fn arrive(&mut self, request: u64, turn: Turn, now: i64) -> takt::Result<()> {
        let told = Request::new(request)
            .prompt_tokens(turn.tokens.min(MOST_TOKENS) as i32)
            .workflow(turn.session)
            .session(turn.session)
            .arrival(now);
        if self.queue.push(&told, now)? == takt::Outcome::Done {
            self.waiting.insert(request, (turn, now));
            self.arrivals.insert((now, request));
        }
        Ok(())
    }

    /// Removes a request that has ended. `context`: its prompt and output [tokens]; None: it failed, so its KV does not
    /// count. An unknown request has no effect.
    pub fn ended(&mut self, request: u64, context: Option<usize>, now: i64) -> takt::Result<()> {
        let _ = self.queue.erase(request)?;
        self.leave(request);
        let Some(turn) = self.running.remove(&request) else { return Ok(()) };
        self.running_tokens -= turn.tokens;
        self.forget(turn.session);
        // Without a capacity nothing would evict it.
        let holds = self.kv_tokens.is_some() && turn.session != 0 && !turn.last;
        if let Some(tokens) = context.filter(|&tokens| holds && tokens > 0) {
            let tokens = tokens.min(MOST_TOKENS);
            self.ended += 1;
            self.oldest.insert(self.ended, turn.session);
            self.held.insert(turn.session, Held { at: self.ended, tokens, since: now });
            self.held_tokens += tokens;
        }
        Ok(())
    }

    /// Returns the requests that are admitted or rejected at this time. Call it after each change, and from time to time
    /// while requests wait.
    pub fn advance(&mut self, now: i64) -> takt::Result<Vec<Decision>> {
        let mut decisions = Vec::new();
        if self.options.max_wait_s > 0.0 {
            let bound = (self.options.max_wait_s * SECOND) as i64;
            while let Some(&(arrival, request)) = self.arrivals.first() {
                if now.saturating_sub(arrival) < bound {
                    break;
                }
                decisions.push(self.reject(request, Rejection::Waited)?);
            }
        }
        self.queue.begin(now)?;
        let mut listed = [0; LOOKS];
        let count = self.queue.list(&mut listed);
        let mut admitted = Vec::new();
        let first = self.at_door.take().filter(|request| self.waiting.contains_key(request));
        let mut order: Vec<u64> = first.into_iter().chain(listed[..count].iter().copied()).collect();
        order.extend(self.arrivals.first().map(|&(_, request)| request).filter(|request| !order.contains(request)));
        for request in order {
            if self.is_full() || self.at_door.is_some() {
                break;
            }
            if self.keeps_out(request, now) {
                continue;
            }
            let Some(turn) = self.leave(request) else { continue };
            let _ = self.queue.take(request)?;
            let warm = self.admit(request, turn, now);
            admitted.push(Ran { request, prefill: 0, output: 0 });
            decisions.push(Decision { request, rejected: None, warm });
        }
        self.queue.end(&admitted, now)?;
        while self.waiting.len() > self.options.max_waiting {
            let Some(&(_, request)) = self.arrivals.last() else { break };
            decisions.push(self.reject(request, Rejection::Full)?);
        }
        Ok(decisions)
    }

    fn leave(&mut self, request: u64) -> Option<Turn> {
        let (turn, arrival) = self.waiting.remove(&request)?;
        self.arrivals.remove(&(arrival, request));
        Some(turn)
    }

    fn reject(&mut self, request: u64, why: Rejection) -> takt::Result<Decision> {
        self.leave(request);
        let _ = self.queue.erase(request)?;
        Ok(Decision { request, rejected: Some(why), warm: false })
    }

    fn is_full(&self) -> bool {
        let bound = self.options.max_requests.saturating_mul(self.workers.max(1));
        self.options.max_requests > 0 && self.running.len() >= bound
    }

    fn admit(&mut self, request: u64, turn: Turn, now: i64) -> bool {
        let held = self.held.get(&turn.session).map(|held| held.since);
        if let Some(since) = held {
            self.returns.observe((now - since) as f64 / SECOND, true);
            self.forget(turn.session);
        }
        self.running_tokens += turn.tokens;
        self.running.insert(request, turn);
        self.evict(now);
        held.is_some()
    }

    fn forget(&mut self, session: u64) {
        if let Some(held) = self.held.remove(&session) {
            self.oldest.remove(&held.at);
            self.held_tokens -= held.tokens;
        }
    }

    /// Forgets the KV that the workers must have evicted.
    fn evict(&mut self, now: i64) {
        let Some(room) = self.kv_tokens.map(|kv| kv.saturating_sub(self.running_tokens)) else { return };
        while self.held_tokens > room {
            let Some((_, &session)) = self.oldest.first_key_value() else { return };
            self.returns.observe((now - self.held[&session].since) as f64 / SECOND, false);
            self.forget(session);
        }
    }

    /// Returns whether a turn must wait, because it would evict KV that is worth more than its own progress.
    fn keeps_out(&mut self, request: u64, now: i64) -> bool {
        let (Some(kv), true) = (self.kv_tokens, self.options.price) else { return false };
        let Some((turn, arrival)) = self.waiting.get(&request) else { return false };
        if self.running.is_empty() {
            return false; // one turn always runs
        }
        let own = self.held.get(&turn.session).map_or(0, |held| held.tokens);
        let need = turn.tokens.saturating_sub(own).max(1);
        let empty = kv.saturating_sub(self.running_tokens + self.held_tokens);
        let lack = need.saturating_sub(empty);
        if lack == 0 {
            return false;
        }
        let waited = (now - arrival) as f64 / SECOND;
        let (mut loss, mut found) = (0.0, 0);
        for session in self.oldest.values() {
            if found >= lack {
                break;
            }
            let held = &self.held[session];
            if *session == turn.session || held.tokens == 0 {
                continue;
            }
            let part = ((lack - found) as f64 / held.tokens as f64).min(1.0);
            let seconds = held.tokens as f64 * self.options.prefill_s;
            loss += part * seconds * self.returns.worth((now - held.since) as f64 / SECOND);
            found += held.tokens;
        }
        let door = waited >= self.options.door_s && now >= self.door_opens;
        if found < lack {
            // Running turns have the rest. At the door, no other turn may take what they free.
            self.at_door = door.then_some(request);
            return true;
        }
        let present = (self.waiting.len() + self.running.len()) as f64;
        let patience = 1.0 + waited / self.options.patience_s.max(1e-9);
        if loss * present < self.options.kappa * (lack as f64 / need as f64) * patience {
            return false;
        }
        if door {
            let cost = need as f64 * self.options.prefill_s / self.options.door_share.max(1e-6);
            self.door_opens = now.saturating_add((cost * SECOND) as i64);
        }
        !door
    }
}
