//! Deterministic operations, keys and routes that the cases share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clinch_core::policy::{EventTypes, Order, ProbeRules, ReaperStrategy, Routes, Rules, Safety};
use clinch_core::ports::{
    Among, Answer, AnswerBody, BeginRequest, Claim, NewOperation, Silence, StoredOk,
};
use clinch_core::protocol::Inherited;
use clinch_core::{
    AttemptId, BatchId, BizKey, ContentHash, Domain, EventType, Fail, Fingerprint, IdemKey, Keys,
    Labels, OpId, Options, Payload, Priority, Sealed, Timestamp, WorkerId,
};
use uuid::Uuid;

use crate::case::Verdict;

/// Calls may be repeated.
pub(crate) const NATURAL: &str = "natural";
/// Calls may not be repeated; no probe.
pub(crate) const UNSAFE: &str = "unsafe";
/// The provider remembers the outbound key for [`KEY_TTL`].
pub(crate) const KEYED: &str = "keyed";
/// The same; the provider also remembers refusals.
pub(crate) const VERDICTS: &str = "verdicts";
/// Calls may not be repeated, but the provider can be probed.
pub(crate) const PROBED: &str = "probed";
/// One at a time per key; calls may be repeated.
pub(crate) const LANE: &str = "lane";
/// One at a time per key; calls may not be repeated.
pub(crate) const UNSAFE_LANE: &str = "lane.unsafe";
/// The Reaper's strategy is `fail`.
pub(crate) const REAPED: &str = "reaped";
/// No route is declared.
pub(crate) const UNROUTED: &str = "unrouted";

/// Every domain with a route.
pub(crate) const ROUTED: [&str; 8] = [
    NATURAL,
    UNSAFE,
    KEYED,
    VERDICTS,
    PROBED,
    LANE,
    UNSAFE_LANE,
    REAPED,
];

/// How long providers of keyed routes remember a key.
pub(crate) const KEY_TTL: Duration = Duration::from_secs(3_600);
/// Length of a lease.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// How long a claim lasts.
pub(crate) const CLAIM: Duration = Duration::from_secs(60);
/// Longer than any delay of the routes, shorter than any deadline.
pub(crate) const LONG: Duration = Duration::from_secs(2 * 3_600);
/// Longer than every deadline.
pub(crate) const AGES: Duration = Duration::from_secs(48 * 3_600);
/// The deadline of every route.
pub(crate) const DEADLINE: Duration = Duration::from_secs(24 * 3_600);
/// Longer than any wait of a case: a caller that waits this long is woken or hangs.
pub(crate) const FOREVER: Duration = Duration::from_secs(3_600);

/// Seconds.
pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One route for each safety, and one for each rule that concerns stores.
pub(crate) fn routes() -> Verdict<Routes> {
    let keyed = |remembers_refusals| Safety::Keyed {
        ttl: KEY_TTL,
        remembers_refusals,
    };
    let rules = |safety, order, probe, reaper| Rules {
        safety,
        order,
        probe,
        reaper,
        lease: LEASE,
        deadline: Some(DEADLINE),
        ..Rules::default()
    };
    let probe = ProbeRules {
        not_found_final_after: Some(secs(60)),
        inconclusive_max: 3,
        ..ProbeRules::default()
    };
    let auto = ReaperStrategy::Auto;
    let declared = [
        (NATURAL, rules(Safety::Natural, Order::None, None, auto)),
        (UNSAFE, rules(Safety::Unsafe, Order::None, None, auto)),
        (KEYED, rules(keyed(false), Order::None, None, auto)),
        (VERDICTS, rules(keyed(true), Order::None, None, auto)),
        (
            PROBED,
            rules(Safety::Unsafe, Order::None, Some(probe), auto),
        ),
        (LANE, rules(Safety::Natural, Order::Key, None, auto)),
        (UNSAFE_LANE, rules(Safety::Unsafe, Order::Key, None, auto)),
        (
            REAPED,
            rules(Safety::Natural, Order::None, None, ReaperStrategy::Fail),
        ),
    ];
    let mut routes = Routes::new();
    for (name, rules) in declared {
        routes = routes.with(domain(name)?, EventTypes::Any, rules);
    }
    Ok(routes)
}

/// A domain by name.
pub(crate) fn domain(name: &str) -> Verdict<Domain> {
    Ok(Domain::new(name)?)
}

/// A worker by number.
pub(crate) fn worker(number: usize) -> Verdict<WorkerId> {
    Ok(WorkerId::new(format!("worker-{number}"))?)
}

/// Four keys with the event type `call`.
pub(crate) fn keys(domain: &str, biz_key: &str, idem_key: &str) -> Verdict<Keys> {
    Ok(Keys {
        domain: Domain::new(domain)?,
        event_type: EventType::new("call")?,
        biz_key: BizKey::new(biz_key)?,
        idem_key: IdemKey::new(idem_key)?,
    })
}

/// A payload that differs by `number`.
pub(crate) fn payload(number: u64) -> Verdict<Payload> {
    Ok(Payload::parse(&format!("{{\"n\":{number}}}"), 1_000)?)
}

/// An operation with these keys and this payload, and default options.
pub(crate) fn operation(op_id: OpId, keys: Keys, payload: &Payload) -> NewOperation {
    let stored = Sealed::new(payload.as_bytes().to_vec());
    NewOperation {
        op_id,
        fingerprints: vec![Fingerprint::plain(payload)],
        content_hash: ContentHash::of(&op_id, &keys.event_type, stored.as_bytes()),
        outbound_key: keys.outbound_key(),
        keys,
        payload: stored,
        options: Options::default(),
        batch_id: None,
        redrive_of: None,
        inherited: Inherited::default(),
        by: None,
        trace: None,
        begin: None,
    }
}

/// The same operation with other stored bytes.
pub(crate) fn stored(new: NewOperation, bytes: Vec<u8>) -> NewOperation {
    NewOperation {
        content_hash: ContentHash::of(&new.op_id, &new.keys.event_type, &bytes),
        payload: Sealed::new(bytes),
        ..new
    }
}

/// Options with a priority.
pub(crate) fn priority(value: i8) -> Verdict<Options> {
    Ok(Options {
        priority: Priority::new(value)?,
        ..Options::default()
    })
}

/// Options with a `run_at`.
pub(crate) fn run_at(at: Timestamp) -> Options {
    Options {
        run_at: Some(at),
        ..Options::default()
    }
}

/// Options with a deadline.
pub(crate) fn deadline(at: Timestamp) -> Options {
    Options {
        deadline: Some(at),
        ..Options::default()
    }
}

/// Options with one label.
pub(crate) fn label(name: &str, value: &str) -> Verdict<Options> {
    Ok(Options {
        labels: Labels::new(BTreeMap::from([(name.into(), value.into())]))?,
        ..Options::default()
    })
}

/// An Ok with this transaction id.
pub(crate) fn yes(txn: &str) -> StoredOk {
    StoredOk {
        provider_txn_id: Some(txn.into()),
        result: Some(Sealed::new(format!("\"{txn}\"").into_bytes())),
        spawn: Vec::new(),
    }
}

/// A provider's refusal.
pub(crate) fn no() -> Fail {
    Fail::new("http_402", "card declined").because("no money")
}

/// An Ok as an attempt reports it.
pub(crate) fn ok_answer(op_id: OpId, fence: Option<u64>, txn: &str) -> Verdict<Answer> {
    Ok(Answer {
        op_id,
        fence,
        worker: worker(0)?,
        body: AnswerBody::Ok(yes(txn)),
        attempt_id: None,
    })
}

/// A Fail as an attempt reports it.
pub(crate) fn fail_answer(op_id: OpId, fence: u64) -> Verdict<Answer> {
    Ok(Answer {
        op_id,
        fence: Some(fence),
        worker: worker(0)?,
        body: AnswerBody::Fail(no()),
        attempt_id: None,
    })
}

/// A claim of up to `max` rows.
pub(crate) fn claim(number: usize, max: usize) -> Verdict<Claim> {
    Ok(Claim {
        by: worker(number)?,
        lasting: CLAIM,
        max,
        among: Among::All,
    })
}

/// Silent after 10 s, then 20 s, 40 s, and 60 s from then on.
pub(crate) const SILENCE: Silence = Silence {
    grace: secs(10),
    pause_max: secs(60),
};

/// Generates ids: ordered, distinct within a case, the same in every run.
#[derive(Debug, Default)]
pub(crate) struct Sequence(AtomicU64);

/// Ids for this many attempts. No two calls return the same ids.
pub(crate) fn fresh_attempts(count: usize) -> Vec<AttemptId> {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    let fresh = |_| Uuid::from_u64_pair(3, GIVEN.fetch_add(1, Ordering::Relaxed));
    // No adapter hands out more at once.
    (0..count.min(20_000)).map(fresh).map(AttemptId).collect()
}

impl Sequence {
    /// The next number, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A version 7 UUID of the given era: later eras sort after earlier ones.
    fn uuid(&self, era: u64) -> Uuid {
        let number = self.number();
        let millis = (era << 40) | number;
        let time = u128::from(millis & 0xffff_ffff_ffff) << 80;
        Uuid::from_u128(time | 0x7000_8000_0000_0000_0000 | u128::from(number))
    }

    /// For a new operation.
    pub(crate) fn op_id(&self) -> OpId {
        OpId(self.uuid(2))
    }

    /// For a new operation; sorts before every other.
    pub(crate) fn early_op_id(&self) -> OpId {
        OpId(self.uuid(1))
    }

    /// For a batch.
    pub(crate) fn batch_id(&self) -> BatchId {
        BatchId(self.uuid(2))
    }

    /// For a begin.
    pub(crate) fn begin(&self, op_id: OpId, number: usize) -> Verdict<BeginRequest> {
        Ok(BeginRequest {
            op_id,
            attempt_id: AttemptId(self.uuid(2)),
            worker: worker(number)?,
            lease: LEASE,
        })
    }
}
