//! Plans of single cases, from what was read to what is written. No store is involved.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where an expectation does not hold"
)]

mod alone;
mod batches;
mod settling;

use std::time::Duration;

use clinch_core::policy::{EventTypes, Order, Routes, Rules};
use clinch_core::ports::{
    Accepted, Amendment, Answer, AnswerBody, Batch, BeginRequest, Known, NewBatch, NewOperation,
    Refused, Restriction, Scan, StoredOk, Write, Written,
};
use clinch_core::protocol::{Event, Inherited};
use clinch_core::{
    AttemptId, BatchId, BizKey, ContentHash, Domain, ErrorKind, EventType, Fail, Fingerprint,
    IdemKey, Keys, LaneKey, OpId, Options, Payload, Sealed, Status, Timestamp, WorkerId,
};
use uuid::Uuid;

use clinch_stored::commit::{
    Awaits, BatchRow, Extent, KnownKey, Members, Next, Plan, Row, RowWrite, Seen, SpawnWrite, Unit,
    is_provisional,
};

fn now() -> Timestamp {
    Timestamp::from_millis(1_000)
}

fn routes() -> Routes {
    let domain = |name: &str| Domain::new(name).expect("a name");
    let ordered = Rules {
        order: Order::Key,
        ..Rules::default()
    };
    Routes::new()
        .with(domain("pay"), EventTypes::Any, Rules::default())
        .with(domain("ordered"), EventTypes::Any, ordered)
}

fn op(number: u128) -> OpId {
    OpId(Uuid::from_u128(number))
}

fn new(domain: &str, number: u128) -> NewOperation {
    let keys = Keys {
        domain: Domain::new(domain).expect("a name"),
        event_type: EventType::new("call").expect("a name"),
        biz_key: BizKey::new("biz").expect("a key"),
        idem_key: IdemKey::new(format!("idem-{number}")).expect("a key"),
    };
    let payload = Payload::parse(&number.to_string(), 100).expect("json");
    let stored = Sealed::new(payload.as_bytes().to_vec());
    NewOperation {
        op_id: op(number),
        content_hash: ContentHash::of(&op(number), &keys.event_type, stored.as_bytes()),
        outbound_key: keys.outbound_key(),
        payload: stored,
        fingerprints: vec![Fingerprint::plain(&payload)],
        options: Options::default(),
        batch_id: None,
        redrive_of: None,
        inherited: Inherited::default(),
        by: None,
        trace: None,
        begin: None,
        keys,
    }
}

fn worker() -> WorkerId {
    WorkerId::new("w").expect("a name")
}

fn begin(number: u128) -> BeginRequest {
    BeginRequest {
        op_id: op(number),
        attempt_id: AttemptId(Uuid::from_u128(number + 1_000)),
        worker: worker(),
        lease: Duration::from_secs(30),
    }
}

fn yes(number: u128, fence: Option<u64>, spawn: Vec<NewOperation>) -> Answer {
    let ok = StoredOk {
        provider_txn_id: Some("t".into()),
        result: None,
        spawn,
    };
    Answer {
        op_id: op(number),
        fence,
        worker: worker(),
        body: AnswerBody::Ok(ok),
        attempt_id: None,
    }
}

fn no(number: u128, fence: u64) -> Answer {
    Answer {
        fence: Some(fence),
        body: AnswerBody::Fail(Fail::new("declined", "no money")),
        ..yes(number, None, Vec::new())
    }
}

/// Loads nothing: whatever is wanted is absent. The plan of the first writes that fit together.
fn plan(writes: &[Write], seen: Seen) -> Plan {
    let routes = routes();
    let mut unit = Unit::with(writes, &routes, seen);
    loop {
        match unit.next(now()).expect("a plan") {
            Next::Load => {}
            Next::Write(plan) => return plan,
            Next::Done(_) => panic!("there is something to write"),
        }
    }
}

/// The row of a new operation as a store would read it back.
fn stored(new: NewOperation) -> Row {
    let mut plan = plan(&[Write::Accept(new)], Seen::default());
    let mut row = plan.rows.remove(0).row;
    row.seq = row.op_id.0.as_u128() as u64;
    row
}

/// The row of an operation whose first attempt runs.
fn live(number: u128) -> Row {
    let mut new = new("pay", number);
    new.begin = Some(begin(number));
    stored(new)
}

fn having(rows: impl IntoIterator<Item = Row>) -> Seen {
    let mut seen = Seen::default();
    rows.into_iter().for_each(|row| seen.row(row));
    seen
}

fn events(write: &RowWrite) -> Vec<&'static str> {
    write.lines.iter().map(|line| line.event).collect()
}

#[test]
fn an_accept_asks_for_all_that_it_needs_at_once() {
    let routes = routes();
    let mut one = new("ordered", 1);
    one.batch_id = Some(BatchId(Uuid::from_u128(9)));
    one.redrive_of = Some(op(7));
    one.begin = Some(begin(1));
    let writes = [Write::Accept(one), Write::Extend(extension(5))];
    let mut unit = Unit::new(&writes, &routes);
    assert!(matches!(unit.next(now()), Ok(Next::Load)));
    let wanted = unit.wanted();
    assert_eq!(wanted.keys.len(), 1);
    assert!(wanted.ids.contains(&op(1)));
    assert_eq!(wanted.lanes.len(), 1);
    assert_eq!(wanted.batches.len(), 1);
    assert_eq!(wanted.domains.len(), 1);
    assert_eq!(wanted.rows.get(&op(7)), Some(&false));
    assert_eq!(wanted.rows.get(&op(5)), Some(&false), "of the other write");
}

fn extension(number: u128) -> clinch_core::ports::Extension {
    clinch_core::ports::Extension {
        op_id: op(number),
        fence: 1,
        lease: Duration::from_secs(60),
        attempt_id: None,
    }
}

#[test]
fn a_new_operation_is_a_row_a_key_a_line_and_a_count() {
    let plan = plan(&[Write::Accept(new("pay", 1))], Seen::default());
    let [write] = &plan.rows[..] else {
        panic!("one row")
    };
    assert!(write.before.is_none());
    assert!(is_provisional(write.row.seq));
    assert_eq!(write.awaits, Awaits::Begin(now()));
    assert_eq!(
        write.key.map(|key| key.hash),
        Some(new("pay", 1).keys.hash())
    );
    assert_eq!(events(write), ["Accept"]);
    assert_eq!(plan.counts[0].1, [1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(plan.due.len(), 1);
    assert!(plan.lanes.is_empty() && plan.batches.is_empty());
}

#[test]
fn a_begin_in_the_same_commit_is_a_running_row() {
    let mut one = new("pay", 1);
    one.begin = Some(begin(1));
    let plan = plan(&[Write::Accept(one)], Seen::default());
    let write = &plan.rows[0];
    assert_eq!(events(write), ["Accept", "Begin"]);
    assert_eq!(plan.counts[0].1, [0, 1, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(
        write.awaits,
        Awaits::Recovery(Scan::LeaseEnded, _)
    ));
    assert_eq!(plan.needs.len(), 1);
    assert!(plan.due.is_empty(), "nobody else may take it");
}

#[test]
fn a_begin_is_left_out_where_a_guard_forbids_it() {
    let mut one = new("pay", 1);
    one.begin = Some(begin(1));
    let mut seen = Seen::default();
    seen.paused(one.keys.domain.clone());
    let paused = plan(&[Write::Accept(one.clone())], seen);
    one.keys.domain = Domain::new("undeclared").expect("a name");
    let undeclared = plan(&[Write::Accept(one)], Seen::default());
    for plan in [paused, undeclared] {
        assert_eq!(plan.rows[0].row.state.status, Status::Pending);
        assert_eq!(events(&plan.rows[0]), ["Accept"]);
    }
}

fn answers(writes: &[Write], seen: Seen) -> Vec<Written> {
    let routes = routes();
    let mut unit = Unit::with(writes, &routes, seen);
    loop {
        match unit.next(now()).expect("a plan") {
            Next::Load => {}
            Next::Write(plan) => {
                let seqs: Vec<u64> = plan.new_rows().zip(70..).map(|(_, seq)| seq).collect();
                unit.written(plan, &seqs);
            }
            Next::Done(answers) => return answers,
        }
    }
}

#[test]
fn known_keys_answer_the_operation_that_has_them() {
    let (one, mut other) = (new("pay", 1), new("pay", 1));
    other.fingerprints = new("pay", 2).fingerprints;
    let mut seen = Seen::default();
    let known = Known {
        op_id: op(5),
        status: Status::Completed,
        pruned: true,
    };
    let key = KnownKey {
        known: known.clone(),
        fingerprint: one.fingerprints.first().copied(),
    };
    seen.key(one.keys.hash(), key);
    let writes = [Write::Accept(one), Write::Accept(other)];
    let expected = [
        Written::Accepted(Accepted::Known(known.clone())),
        Written::Accepted(Accepted::Mismatch(known)),
    ];
    assert_eq!(answers(&writes, seen), expected);
}

#[test]
fn the_same_keys_twice_in_a_call_are_one_operation() {
    let mut twin = new("pay", 1);
    twin.op_id = op(2);
    let writes = [Write::Accept(new("pay", 1)), Write::Accept(twin)];
    let answers = answers(&writes, Seen::default());
    let [
        Written::Accepted(Accepted::New { seq: 70, .. }),
        Written::Accepted(Accepted::Known(known)),
    ] = &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!(known.op_id, op(1));
}

#[test]
fn an_id_that_names_another_operation_fails_the_call() {
    let mut twin = new("pay", 2);
    twin.op_id = op(1);
    let writes = [Write::Accept(new("pay", 1)), Write::Accept(twin)];
    let routes = routes();
    let mut unit = Unit::new(&writes, &routes);
    let failed = loop {
        match unit.next(now()) {
            Ok(Next::Load) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(failed.kind(), ErrorKind::Invalid);
}

#[test]
fn a_follower_of_a_lane_is_not_in_line_until_it_is_the_head() {
    let lane = |new: &NewOperation| LaneKey::of(&new.keys.domain, &new.keys.biz_key);
    let second = new("ordered", 2);
    let mut seen = Seen::default();
    let members = Members {
        open: [(1, Some(op(1)))].into(),
        has_more: false,
    };
    seen.lane(lane(&second), members);
    let joined = plan(&[Write::Accept(second.clone())], seen);
    assert_eq!(joined.rows[0].awaits, Awaits::Nothing);
    assert_eq!(joined.rows[0].row.is_head, Some(false));
    assert_eq!(joined.lanes[0].joined, [joined.rows[0].row.seq]);
    assert_eq!(joined.lanes[0].lined_up, None);

    let mut first = new("ordered", 1);
    first.begin = Some(begin(1));
    let mut seen = having([stored(first)]);
    let members = Members {
        open: [(1, None), (2, None)].into(),
        has_more: false,
    };
    seen.lane(lane(&second), members);
    let left = plan(&[Write::Settle(yes(1, Some(1), Vec::new()))], seen);
    assert_eq!(left.lanes[0].left, [1]);
    assert_eq!(left.lanes[0].lined_up, Some((2, None)));
    assert!(!left.lanes[0].is_empty);
    assert_eq!(left.due_domains().len(), 1);
}

#[test]
fn a_row_is_written_before_it_is_changed_by_the_same_call() {
    let cancel = Write::Amend(Amendment {
        op_id: op(1),
        event: Event::Cancel,
        ok: None,
        checkpoint: None,
        by: worker(),
        reason: String::new(),
        attempt_id: None,
    });
    let writes = [Write::Accept(new("pay", 1)), cancel];
    let routes = routes();
    let mut unit = Unit::new(&writes, &routes);
    assert!(matches!(unit.next(now()), Ok(Next::Load)));
    let Ok(Next::Write(first)) = unit.next(now()) else {
        panic!("a plan")
    };
    assert!(!unit.is_last(&first));
    let mut row = first.rows[0].row.clone();
    row.seq = 70;
    unit.written(first, &[70]);
    assert!(matches!(unit.next(now()), Ok(Next::Load)));
    unit.seen_mut().row(row);
    let Ok(Next::Write(second)) = unit.next(now()) else {
        panic!("a plan")
    };
    assert!(unit.is_last(&second));
    assert_eq!(second.rows[0].row.state.status, Status::Failed);
    assert!(!second.rows[0].dead_letter, "a cancel is no dead letter");
}

#[test]
fn what_does_not_exist_is_refused() {
    let writes = [
        Write::Begin(begin(1)),
        Write::Extend(extension(1)),
        Write::Finalize(op(1)),
        Write::Settle(yes(1, Some(1), Vec::new())),
    ];
    let refused = Written::Refused(Refused::NotFound);
    let expected = vec![refused; writes.len()];
    assert_eq!(answers(&writes, Seen::default()), expected);
}

#[test]
fn a_begin_hands_out_the_whole_row_or_says_why_not() {
    let mut row = stored(new("pay", 1));
    row.is_intact = true;
    let begun = answers(
        &[Write::Begin(begin(1)), Write::Begin(begin(1))],
        having([row.clone()]),
    );
    let [Written::Begun(operation), Written::Refused(_)] = &begun[..] else {
        panic!("{begun:?}")
    };
    assert_eq!(operation.state.fence, 1);
    assert_eq!(operation.started_at, Some(now()));
    row.is_intact = false;
    let withheld = answers(&[Write::Begin(begin(1))], having([row]));
    assert!(matches!(
        &withheld[..],
        [Written::Refused(Refused::Withheld(_))]
    ));
}
