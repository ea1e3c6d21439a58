//! What a server looks after besides its callers: operations that take too long, and the file
//! of dead letters.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{
    Alert, AlertNote, Clock, DeadLetter, Filter, Inspect, Journal, Recovery, Severity,
};
use clinch_core::{OpId, Result, Status, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::serve::Look;

/// Operations of one look: whoever has more of them in trouble knows.
const LOOK_MAX: usize = 1_000;
/// No two looks are closer, and none are further apart.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// The file of dead letters is looked at so often.
const FILE_EVERY: Duration = Duration::from_secs(3_600);
/// The store's files are looked at so often.
const LOST_EVERY: Duration = Duration::from_secs(2);
/// Operations in progress for longer than `reaper.in_progress_warn`.
const OVERDUE: &str = "orchestrator.in_progress.overdue";

/// Warns of operations that stay IN_PROGRESS for longer than `limit`, each once.
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
            // What cannot be read now is looked at the next time.
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
        let filter = Filter {
            status: Some(Status::InProgress),
            to: Some(before),
            ..Filter::default()
        };
        let (mut overdue, mut looked_at, mut cursor) = (BTreeSet::new(), 0, None);
        loop {
            let left = LOOK_MAX.saturating_sub(looked_at);
            let page = self.inspect.list(&filter, cursor.as_deref(), left).await?;
            looked_at += page.items.len();
            let rows = page.items.into_iter();
            let late = rows.filter(|row| row.started_at.is_some_and(|at| at < before));
            overdue.extend(late.map(|row| row.op_id));
            match page.next_cursor {
                Some(next) if looked_at < LOOK_MAX => cursor = Some(next),
                _ => return Ok(overdue),
            }
        }
    }

    async fn tell(&self, overdue: &BTreeSet<OpId>, told: &BTreeSet<OpId>) {
        let mut fresh = overdue.difference(told);
        let Some(first) = fresh.next() else { return };
        let count = 1 + fresh.count();
        tracing::warn!(target: "clinch", op_id = %first, count, "operations are in progress for longer than reaper.in_progress_warn");
        if let Some(alert) = &self.alert {
            let note = AlertNote {
                severity: Severity::Warning,
                code: "in_progress_long",
                message: format!(
                    "{count} operations are in progress for too long; the first is named"
                ),
                op_id: Some(*first),
            };
            // A pager that fails is logged where it fails.
            let _ = alert.raise(&note).await;
        }
    }
}

/// Pages someone when the store's files are lost under the server. Once for each loss.
pub(crate) async fn watch_files(
    look: Arc<Look>,
    clock: Arc<dyn Clock>,
    alert: Option<Arc<dyn Alert>>,
    stop: CancellationToken,
) {
    let mut is_told = false;
    while !stop.is_cancelled() {
        let lost = look().err();
        if let Some(error) = lost.as_ref().filter(|_| !is_told) {
            tracing::error!(target: "clinch", "{error}");
            let note = AlertNote {
                severity: Severity::Critical,
                code: "store_lost",
                message: error.message().to_owned(),
                op_id: None,
            };
            if let Some(alert) = &alert {
                // A pager that fails is logged where it fails.
                let _ = alert.raise(&note).await;
            }
        }
        is_told = lost.is_some();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = clock.sleep(LOST_EVERY) => {}
        }
    }
}

/// Forgets what lies in the file of dead letters for longer than `retention`, by the time that the
/// store has seen: a clock that jumped ahead makes no letter old.
pub(crate) async fn tidy_letters(
    file: impl Journal,
    recovery: Arc<dyn Recovery>,
    clock: Arc<dyn Clock>,
    retention: Duration,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let forgotten = async {
            match recovery.seen_time().await? {
                Some(time) => forget_old(&file, time.trusted() - retention).await,
                // No prune has looked at the clock yet.
                None => Ok(0),
            }
        };
        match forgotten.await {
            Ok(0) => {}
            Ok(count) => {
                tracing::info!(target: "clinch", count, "old dead letters were removed from the file");
            }
            Err(error) => {
                tracing::warn!(target: "clinch", "the file of dead letters cannot be tidied: {}", error.message());
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = clock.sleep(FILE_EVERY) => {}
        }
    }
}

/// The oldest come first. A record that cannot be read is kept, with all behind it: a person
/// has to look.
async fn forget_old(file: &impl Journal, before: Timestamp) -> Result<usize> {
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
        assert_eq!(forget_old(&file, before(1_000)).await.expect("read"), 0);
        assert_eq!(forget_old(&file, before(1_500)).await.expect("read"), 1);
        assert_eq!(forget_old(&file, before(9_000)).await.expect("read"), 1);
        assert_eq!(forget_old(&file, before(9_000)).await.expect("read"), 0);
        assert_eq!(file.read().await.expect("read").records.len(), 2);
        for end in ["", ".lock"] {
            let _ = std::fs::remove_file(format!("{}{end}", path.display()));
        }
    }
}
