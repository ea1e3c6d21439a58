//! Periodic checks: operations that take too long, lost files of the store, and old entries of the
//! dead-letter file.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{
    Alert, AlertNote, Clock, DeadLetter, Inspect, Journal, Operation, Recovery, Severity,
};
use clinch_core::protocol::Phase;
use clinch_core::{OpId, Result, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::serve::Look;
use crate::telemetry::OVERDUE;

/// Operations that one check reads: an operator with more overdue operations has been warned.
const LOOK_MAX: usize = 1_000;
/// The shortest and the longest interval between two checks.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// How often old entries are removed from the dead-letter file.
const FILE_EVERY: Duration = Duration::from_secs(3_600);
/// How often the store's files are checked.
const LOST_EVERY: Duration = Duration::from_secs(2);

/// Warns of operations that stay IN_PROGRESS for longer than `limit`, once for each operation.
pub(crate) struct Overdue {
    pub(crate) inspect: Arc<dyn Inspect>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) alert: Option<Arc<dyn Alert>>,
    pub(crate) limit: Duration,
}

impl Overdue {
    pub(crate) async fn watch(self, stop: CancellationToken) {
        let mut told = BTreeSet::new();
        let pause = (self.limit / 2).clamp(LOOK_EVERY.0, LOOK_EVERY.1);
        while !stop.is_cancelled() {
            // A failed read is repeated at the next check.
            if let Ok(overdue) = self.look().await {
                metrics::gauge!(OVERDUE).set(overdue.len() as f64);
                self.tell(&overdue, &told).await;
                told = overdue;
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    async fn look(&self) -> Result<BTreeSet<OpId>> {
        let before = self.inspect.now().await? - self.limit;
        let overdue = self.inspect.long_in_progress(before, LOOK_MAX).await?;
        let rows = self.inspect.get(&overdue).await?;
        let now = self.inspect.now().await?;
        // An operation that waits for a time, such as the end of a rate limit, is not stuck.
        let is_stuck = |row: &Operation| {
            let is_waiting = row.state.phase == Some(Phase::Waiting);
            !(is_waiting && row.state.next_attempt_at.is_some_and(|at| at > now))
        };
        let stuck = rows.into_iter().flatten().filter(is_stuck);
        Ok(stuck.map(|row| row.op_id).collect())
    }

    async fn tell(&self, overdue: &BTreeSet<OpId>, told: &BTreeSet<OpId>) {
        let mut fresh = overdue.difference(told);
        let Some(first) = fresh.next() else { return };
        let count = 1 + fresh.count();
        tracing::event!(target: "clinch", tracing::Level::WARN, op.id = %first, count, "operations are in progress for longer than reaper.in_progress_warn");
        if let Some(alert) = &self.alert {
            let message = format!(
                "{count} operations are in progress for longer than reaper.in_progress_warn; op_id is the first"
            );
            let note = AlertNote {
                count: count as u64,
                ..AlertNote::new(Severity::Warning, "in_progress_long", message).about(Some(*first))
            };
            // The alert's sender logs its own failures.
            let _ = alert.raise(&note).await;
        }
    }
}

/// Raises an alert when the store's files are lost, once for each loss.
pub(crate) async fn watch_files(
    look: Arc<Look>,
    clock: Arc<dyn Clock>,
    alert: Option<Arc<dyn Alert>>,
    stop: CancellationToken,
) {
    let mut is_raised = false;
    while !stop.is_cancelled() {
        let lost = look().err();
        if let Some(error) = lost.as_ref().filter(|_| !is_raised) {
            tracing::error!(target: "clinch", "{error}");
            let note = AlertNote::new(Severity::Critical, "store_lost", error.message());
            if let Some(alert) = &alert {
                // The alert's sender logs its own failures.
                let _ = alert.raise(&note).await;
            }
        }
        is_raised = lost.is_some();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = clock.sleep(LOST_EVERY) => {}
        }
    }
}

/// Removes entries of the dead-letter file that are older than `retention`, by the time
/// that the store has seen: a clock that jumped ahead makes no entry old.
pub(crate) async fn remove_old_letters(
    file: impl Journal,
    recovery: Arc<dyn Recovery>,
    clock: Arc<dyn Clock>,
    retention: Duration,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let forgotten = async {
            match recovery.seen_time().await? {
                Some(time) => remove_old(&file, time.trusted() - retention).await,
                // No prune has checked the clock yet.
                None => Ok(0),
            }
        };
        match forgotten.await {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!(target: "clinch", count, "old entries removed from the dead-letter file");
            }
            Err(error) => {
                tracing::warn!(target: "clinch", "old entries cannot be removed from the dead-letter file: {}", error.message());
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = clock.sleep(FILE_EVERY) => {}
        }
    }
}

/// Entries are ordered by age, the oldest first. An entry that cannot be read is kept, with all
/// entries after it: an operator has to look at the file.
async fn remove_old(file: &impl Journal, before: Timestamp) -> Result<usize> {
    let filed = file.read().await?;
    let is_old = |record: &[u8]| {
        let letter = serde_json::from_slice::<DeadLetter>(record);
        letter.is_ok_and(|letter| letter.failed_at < before)
    };
    let old = filed
        .records
        .iter()
        .take_while(|(_, record)| is_old(record));
    let positions: Vec<u64> = old.map(|(position, _)| *position).collect();
    if let Some(last) = positions.last() {
        file.forget(*last).await?;
    }
    Ok(positions.len())
}

#[cfg(test)]
mod tests {
    use clinch_core::ports::{Ids, PlainText, Sealer};
    use clinch_core::{
        BizKey, ContentHash, Domain, Effect, EventType, Fail, Failure, IdemKey, Keys,
    };
    use clinch_system::{FileJournal, SystemIds};

    use super::*;

    fn letter(failed_at: i64) -> Vec<u8> {
        let op_id = SystemIds.op_id();
        let keys = Keys {
            domain: Domain::new("pay").expect("a name"),
            event_type: EventType::new("charge").expect("a name"),
            biz_key: BizKey::new("order-1").expect("a key"),
            idem_key: IdemKey::new("k1").expect("a key"),
        };
        let letter = DeadLetter {
            op_id,
            failure: Failure::from_fail(Fail::new("declined", "no"), Effect::None),
            attempts: 1,
            content_hash: ContentHash::of(&op_id, &keys.event_type, b"1"),
            payload: PlainText.seal(op_id, b"1").expect("plain"),
            keys,
            failed_at: Timestamp::from_millis(failed_at),
            late_ok: false,
        };
        serde_json::to_vec(&letter).expect("JSON")
    }

    #[tokio::test]
    async fn core_19_old_dead_letters_leave_the_file_and_what_cannot_be_read_stays() {
        let name = format!("clinch-letters-{}", SystemIds.op_id());
        let path = std::env::temp_dir().join(name);
        let file = FileJournal::open(&path).await.expect("a file");
        let records = [
            letter(1_000),
            letter(2_000),
            b"damaged".to_vec(),
            letter(1_000),
        ];
        file.append(&records).await.expect("written");
        let before = |millis| Timestamp::from_millis(millis);
        assert_eq!(remove_old(&file, before(1_000)).await.expect("read"), 0);
        assert_eq!(remove_old(&file, before(1_500)).await.expect("read"), 1);
        assert_eq!(remove_old(&file, before(9_000)).await.expect("read"), 1);
        assert_eq!(remove_old(&file, before(9_000)).await.expect("read"), 0);
        assert_eq!(file.read().await.expect("read").records.len(), 2);
        for end in ["", ".lock"] {
            let _ = std::fs::remove_file(format!("{}{end}", path.display()));
        }
    }
}
