//! Compares what clients were told, the store's ledger and the providers' books. Every returned
//! line is a broken promise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::policy::Order;
use clinch_core::ports::{Counts, LedgerLine, LetterStatus, Operation};
use clinch_core::{Domain, Effect, OpId, Status, code};
use clinch_memory::Tables;

use crate::clients::Log;
use crate::machine::EPOCH_MS;
use crate::provider::{Nature, Record, Sent};
use crate::scene::{KINDS, Kind, Scene};

/// Checks one finished history.
pub(crate) fn check(scene: &Scene, log: &Log) -> Vec<String> {
    let mut broken = Vec::new();
    let tables = scene.memory.edit(|tables| tables.clone());
    check_clients(&tables, log, &mut broken);
    for (_, row) in tables.rows.iter() {
        let operation = &row.operation;
        let empty = Vec::new();
        let ledger = tables.ledger.get(&operation.op_id).unwrap_or(&empty);
        let record = scene.providers.record(operation.outbound_key.as_str());
        check_ledger(operation, ledger, &mut broken);
        check_effects(operation, ledger, &record, &mut broken);
        check_calls(operation, ledger, &record, &mut broken);
        check_answers(scene, operation, ledger, &record, &mut broken);
        check_starved(operation, &mut broken);
        if !operation.state.is_terminal() {
            let state = &operation.state;
            let stands = format!("{:?} {:?}", state.status, state.phase);
            broken.push(format!("{} never ended: {stands}", operation.op_id));
        }
    }
    check_lanes(scene, &tables, &mut broken);
    check_spawn(&tables, &mut broken);
    check_counters(&tables, &mut broken);
    check_files(scene, &mut broken);
    check_batches(&tables, &mut broken);
    check_pages(scene, &tables, &mut broken);
    broken
}

fn check_clients(tables: &Tables, log: &Log, broken: &mut Vec<String>) {
    for (keys, told) in log.acknowledged() {
        let ids: BTreeSet<OpId> = told.iter().map(|told| told.op_id).collect();
        if ids.len() > 1 {
            broken.push(format!("one request got {} operations", ids.len()));
        }
        let known = tables.keys.get(&keys.hash());
        let Some(row) = known.and_then(|key| tables.rows.get(&key.op_id)) else {
            broken.push(format!("{ids:?} was acknowledged and is lost"));
            continue;
        };
        let status = row.operation.state.status;
        for told in told {
            if told.op_id != row.operation.op_id {
                broken.push(format!("{} was acknowledged under other keys", told.op_id));
            }
            if told.status.is_terminal() && told.status != status {
                let (was, is) = (told.status, status);
                broken.push(format!("{} was told {was:?} and is {is:?}", told.op_id));
            }
        }
    }
    let wrong = log.wrong_replays.load(Ordering::SeqCst);
    if wrong > 0 {
        broken.push(format!("{wrong} other payloads were taken for replays"));
    }
    let late = log.late_answers.load(Ordering::SeqCst);
    if late > 0 {
        broken.push(format!(
            "{late} callers were not told 202 when their budget ended"
        ));
    }
}

fn check_ledger(operation: &Operation, ledger: &[LedgerLine], broken: &mut Vec<String>) {
    let op = operation.op_id;
    let mut last: Option<&LedgerLine> = None;
    let mut ends = 0;
    for line in ledger {
        let Some(before) = last.replace(line) else {
            continue;
        };
        if line.refused.is_some() || line.event == "Spawn" {
            continue;
        }
        let changed = line.version != before.version;
        if changed && line.version != before.version + 1 {
            broken.push(format!(
                "{op}: version went {} → {}",
                before.version, line.version
            ));
        }
        if changed && before.status.is_terminal() {
            broken.push(format!(
                "{op}: changed after it was terminal, by {}",
                line.event
            ));
        }
        if line.fence < before.fence {
            broken.push(format!("{op}: the fence went down"));
        }
        if before.status == Status::InProgress && line.status == Status::Pending {
            broken.push(format!("{op}: went back to PENDING"));
        }
        ends += usize::from(changed && line.status.is_terminal());
    }
    if ends > 1 {
        broken.push(format!("{op}: became terminal {ends} times"));
    }
}

fn kind_of(domain: &Domain) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.domain == domain.as_str())
}

fn check_effects(
    operation: &Operation,
    ledger: &[LedgerLine],
    record: &Record,
    broken: &mut Vec<String>,
) {
    let (op, state) = (operation.op_id, &operation.state);
    let applied = record.applied.len();
    let nature = kind_of(&operation.keys.domain).map(|kind| kind.nature);
    if applied > 1 && nature != Some(Nature::Natural) {
        broken.push(format!("{op}: {applied} effects on a {nature:?} route"));
    }
    if state.status == Status::Completed && applied == 0 {
        broken.push(format!(
            "{op}: COMPLETED, and the provider never applied it"
        ));
    }
    let failed = state
        .failure
        .as_ref()
        .filter(|_| state.status == Status::Failed);
    let sure = failed.filter(|failure| failure.effect == Effect::None);
    if let Some(failure) = sure.filter(|_| applied > 0) {
        let code = &failure.code;
        broken.push(format!(
            "{op}: FAILED {code} with effect none, and it was applied"
        ));
    }
    if failed.is_some_and(|failure| failure.code == code::CANCELED) {
        let canceled = ledger
            .iter()
            .any(|l| l.event == "Cancel" && l.refused.is_none());
        if !canceled {
            broken.push(format!("{op}: FAILED canceled, and no caller canceled it"));
        }
    }
    let mut wanted = true;
    for line in ledger.iter().filter(|line| line.refused.is_none()) {
        match line.event.as_str() {
            "Cancel" => wanted = false,
            "Resolve" => wanted = true,
            "Begin" if !wanted && line.phase == Some(clinch_core::protocol::Phase::Live) => {
                broken.push(format!("{op}: begun after it was canceled"));
            }
            _ => {}
        }
    }
}

/// An Ok that reached a node which did not crash is in the ledger.
fn check_answers(
    scene: &Scene,
    operation: &Operation,
    ledger: &[LedgerLine],
    record: &Record,
    broken: &mut Vec<String>,
) {
    let op = operation.op_id;
    let lived = |sent: &&Sent| sent.op_id == op && !scene.crashed_since(sent.from - 1, sent.at);
    let answers = record.answered.iter().filter(lived).count();
    let written = ledger.iter().filter(|line| line.event == "Ok").count();
    if written < answers {
        broken.push(format!(
            "{op}: {answers} answers, {written} of them written down"
        ));
    }
}

/// All faults end long before the routes' deadline. So an operation without a deadline of its own
/// must not end by its deadline, unless it waited behind others in its lane.
fn check_starved(operation: &Operation, broken: &mut Vec<String>) {
    let failure = operation.state.failure.as_ref();
    let by_deadline = failure.is_some_and(|failure| failure.code == code::DEADLINE);
    if by_deadline && operation.options.deadline.is_none() && operation.lane.is_none() {
        broken.push(format!("{}: starved until its deadline", operation.op_id));
    }
}

/// Every call had a begin, and no begin has more calls than the route allows copies.
fn check_calls(
    operation: &Operation,
    ledger: &[LedgerLine],
    record: &Record,
    broken: &mut Vec<String>,
) {
    let op = operation.op_id;
    let mut begins = BTreeMap::new();
    for line in ledger.iter().filter(|line| line.refused.is_none()) {
        if is_call(line) {
            begins.insert(line.fence, line.by.clone());
        }
    }
    let copies = kind_of(&operation.keys.domain).map_or(1, |kind| kind.rules().copies);
    let mut called = BTreeMap::new();
    for sent in record.sent.iter().filter(|sent| sent.op_id == op) {
        let by = format!("node-{}", sent.from - 1);
        match begins.get(&sent.fence) {
            Some(owner) if owner.as_ref().is_some_and(|owner| owner.as_str() == by) => {}
            Some(_) => broken.push(format!("{op}: {by} called under another's begin")),
            None => broken.push(format!("{op}: {by} called without a begin")),
        }
        let calls = called.entry(sent.fence).or_insert(0_u32);
        *calls += 1;
        if *calls > copies {
            broken.push(format!("{op}: {calls} calls under one begin"));
        }
    }
}

/// Within a lane, no call is sent while an earlier operation is open.
fn check_lanes(scene: &Scene, tables: &Tables, broken: &mut Vec<String>) {
    let mut lanes: BTreeMap<_, Vec<&Operation>> = BTreeMap::new();
    for (_, row) in tables.rows.iter() {
        let ordered = kind_of(&row.operation.keys.domain).map(|kind| kind.order);
        if ordered == Some(Order::Key) {
            lanes
                .entry(row.operation.lane)
                .or_default()
                .push(&row.operation);
        }
    }
    for operations in lanes.values_mut() {
        operations.sort_by_key(|operation| operation.seq);
        for pair in operations.windows(2) {
            let begun = tables.ledger.get(&pair[1].op_id);
            let begun = begun.and_then(|lines| lines.iter().find(|l| is_call(l)));
            let (Some(begun), Some(ended)) = (begun, pair[0].finished_at) else {
                continue;
            };
            if begun.at < ended {
                broken.push(format!("{} overtook its lane", pair[1].op_id));
            }
        }
    }
    let _ = scene;
}

fn is_call(line: &LedgerLine) -> bool {
    line.event == "Begin" && line.phase == Some(clinch_core::protocol::Phase::Live)
}

/// A COMPLETED parent has exactly its children; any other parent has none.
fn check_spawn(tables: &Tables, broken: &mut Vec<String>) {
    for (_, row) in tables.rows.iter() {
        let operation = &row.operation;
        if operation.keys.domain.as_str() != "parent" {
            continue;
        }
        let child = |number: u32| {
            let idem_key = format!("{}-child-{number}", operation.keys.idem_key);
            let biz_key = operation.keys.biz_key.as_str();
            let command = crate::scene::command("natural", biz_key, &idem_key, "{}").ok()?;
            let key = tables.keys.get(&command.keys.hash())?;
            tables.rows.get(&key.op_id)
        };
        let children = (1..=2).filter_map(child).count();
        let ledger = tables.ledger.get(&operation.op_id);
        let by_person = ledger.is_some_and(|lines| {
            let settles = |line: &&LedgerLine| line.refused.is_none() && line.status.is_terminal();
            lines
                .iter()
                .find(settles)
                .is_some_and(|line| line.event == "Resolve")
        });
        let probed = ledger.is_some_and(|lines| lines.iter().any(|line| line.event == "Probed"));
        let expected = match operation.state.status {
            Status::Completed if !by_person && !probed => 2..=2,
            Status::Completed => 0..=2,
            _ => 0..=0,
        };
        if !expected.contains(&children) {
            let (op, status) = (operation.op_id, operation.state.status);
            broken.push(format!("{op}: {status:?} with {children} children"));
        }
    }
}

fn check_counters(tables: &Tables, broken: &mut Vec<String>) {
    let mut counted: BTreeMap<Domain, Counts> = BTreeMap::new();
    for (_, row) in tables.rows.iter() {
        let counts = counted
            .entry(row.operation.keys.domain.clone())
            .or_default();
        *counts.of(&row.operation.state) += 1;
    }
    for (_, letter) in tables.dead_letters.iter() {
        if letter.status == LetterStatus::Open {
            let domain = letter.keys.domain.clone();
            counted.entry(domain).or_default().dead_letters_open += 1;
        }
    }
    for (domain, row) in tables.domains.iter() {
        let rows = counted.get(domain).copied().unwrap_or_default();
        if rows != row.counts {
            broken.push(format!(
                "{domain}: counters {:?} for rows {rows:?}",
                row.counts
            ));
        }
    }
    if !tables.slots.is_empty() {
        broken.push(format!("{} queue rows are left over", tables.slots.len()));
    }
    if !tables.lanes.is_empty() {
        broken.push(format!("{} lanes are left over", tables.lanes.len()));
    }
}

/// A sealed batch whose members have ended completed once, and its `on_complete` operation was
/// accepted once.
fn check_batches(tables: &Tables, broken: &mut Vec<String>) {
    for (batch_id, row) in tables.batches.iter() {
        let batch = &row.batch;
        let rows = || tables.rows.iter().map(|(_, row)| &row.operation);
        let members = rows().filter(|op| op.batch_id == Some(*batch_id));
        if members.count() as u64 != batch.total {
            broken.push(format!("batch {batch_id}: counts {} members", batch.total));
        }
        let told = format!("batch-{batch_id}");
        let told = rows()
            .filter(|op| op.keys.idem_key.as_str() == told)
            .count();
        let complete = batch.is_complete();
        if complete != batch.completed_at.is_some() || usize::from(complete) != told {
            broken.push(format!(
                "batch {batch_id}: {batch:?} told its end {told} times"
            ));
        }
    }
}

/// For every FAILED operation that was applied after all, an alert was raised.
fn check_pages(scene: &Scene, tables: &Tables, broken: &mut Vec<String>) {
    let paged: BTreeSet<OpId> = scene
        .pager
        .notes()
        .iter()
        .filter(|note| note.code == "late_ok")
        .filter_map(|note| note.op_id)
        .collect();
    for (op, lines) in tables.ledger.iter() {
        let late = |line: &&LedgerLine| line.late.is_some() && line.status == Status::Failed;
        // A node that crashed may not have raised its alert.
        let died = lines.iter().filter(late).any(|line| scene.died_after(line));
        if lines.iter().any(|line| late(&line)) && !died && !paged.contains(op) {
            broken.push(format!(
                "{op}: FAILED, applied after all, and no alert was raised"
            ));
        }
    }
}

/// Every spilled answer was read back.
fn check_files(scene: &Scene, broken: &mut Vec<String>) {
    for index in 0..scene.node_count() {
        let left = scene.machine(index, |machine| machine.spill.len());
        if left > 0 {
            broken.push(format!(
                "{left} answers are left in the spill file of node {index}"
            ));
        }
    }
}

impl Scene {
    /// The node that wrote the line crashed later: it may not have raised the alert.
    fn died_after(&self, line: &LedgerLine) -> bool {
        let name = line.by.as_ref().map(|by| by.as_str());
        let index = name.and_then(|name| name.strip_prefix("node-")?.parse::<usize>().ok());
        let at = Duration::from_millis((line.at.as_millis() - EPOCH_MS).unsigned_abs());
        index.is_some_and(|index| self.crashed_since(index, at))
    }
}
