//! Rows that wait: for recovery, and for a begin.

use std::time::Duration;

use clinch_core::ports::{NewOperation, NewPause, Operation, Reschedule};
use clinch_core::{Domain, OpId, Retry, WorkerId};

use crate::StorePorts;
use crate::calls::Calls;
use crate::case::{Failure, Verdict};
use crate::fixtures::{self, NATURAL, PROBED, REAPED, Sequence, UNSAFE, VERDICTS};

/// Rows of each kind: more than any call may examine without a reason.
const EACH: usize = 3_000;
/// Writes of one commit.
const COMMIT: usize = 500;
/// Leases and deadlines that have ended by the time they are looked at.
const SOON: Duration = Duration::from_millis(1);

/// Adds rows to a store that has its history: ended leases, recorded answers, due probes, passed
/// deadlines, and fresh rows that are due.
pub async fn add_backlog(ports: &StorePorts) -> Result<(), Failure> {
    let (ids, routes) = (Sequence::default(), fixtures::routes()?);
    // Ids and keys of the templates are taken.
    for _ in 0..100 {
        ids.number();
    }
    let store = &ports.store;
    for _ in 0..EACH / COMMIT {
        begun(ports, &ids, REAPED, SOON).await?;
        let mut answers = Vec::new();
        for row in begun(ports, &ids, NATURAL, fixtures::LEASE).await? {
            answers.push(fixtures::ok_answer(row.0, Some(row.1), "txn")?);
        }
        for changed in store.write_ahead(&answers, &routes).await? {
            changed?;
        }
        let mut unknown = Vec::new();
        for (op_id, fence) in begun(ports, &ids, PROBED, fixtures::LEASE).await? {
            unknown.push(Reschedule {
                op_id,
                fence,
                worker: fixtures::worker(0)?,
                retry: Retry::unknown("timeout"),
                attempt_id: None,
            });
        }
        for changed in store.reschedule(&unknown, &routes).await? {
            changed?;
        }
        let deadline = ports.inspect.now().await? + SOON;
        let mut overdue = fresh(&ids, VERDICTS, COMMIT)?;
        for new in &mut overdue {
            new.options = fixtures::deadline(deadline);
        }
        store.accept(&overdue, &routes).await?;
        store.accept(&fresh(&ids, UNSAFE, COMMIT)?, &routes).await?;
    }
    // Overdue rows pile up only where none begins.
    let paused = Domain::new(VERDICTS)?;
    ports.domains.pause(&paused, &NewPause::default()).await?;
    Ok(())
}

/// New operations of a domain.
pub(super) fn fresh(ids: &Sequence, domain: &str, count: usize) -> Verdict<Vec<NewOperation>> {
    let one = |_| {
        let number = ids.number();
        let (biz, idem) = (format!("backlog-{number}"), format!("key-{number}"));
        let keys = fixtures::keys(domain, &biz, &idem)?;
        let payload = fixtures::payload(number)?;
        Ok(fixtures::operation(ids.op_id(), keys, &payload))
    };
    (0..count).map(one).collect()
}

/// New operations of a domain that have begun: id and fence.
async fn begun(
    ports: &StorePorts,
    ids: &Sequence,
    domain: &str,
    lease: Duration,
) -> Verdict<Vec<(OpId, u64)>> {
    let routes = fixtures::routes()?;
    let new = fresh(ids, domain, COMMIT)?;
    ports.store.accept(&new, &routes).await?;
    let mut begins = Vec::new();
    for one in &new {
        let mut begin = ids.begin(one.op_id, 0)?;
        begin.lease = lease;
        begin.worker = WorkerId::new("backlog")?;
        begins.push(begin);
    }
    let begun = ports.store.begin(&begins, &routes).await?;
    let fence = |row: Result<Operation, _>| Ok(row.map(|row| (row.op_id, row.state.fence))?);
    begun.into_iter().map(fence).collect()
}
