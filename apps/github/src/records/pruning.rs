//! Deletes the records of old runs.
//!
//! A run's operations and batches are pruned by the engine, by its own retention. Documents and
//! cursors stay.

use std::time::Duration;

use clinch::Result;
use clinch::ports::{Expected, RecordList, RecordWrite};
use clinch::types::Timestamp;

use super::{CollectorRecords, begun_key, expected, parse, recent_key, run_key};
use crate::model::{Run, RunId, Space};

/// The newest runs of a user, which are always kept.
const KEPT_MIN: u64 = 10;
/// Runs that are deleted in one step. Every end of a run is a step, so that the rest follows.
const STEP: usize = 50;

impl CollectorRecords {
    /// Deletes the oldest runs of a user that ended more than `keep` ago, at most [`STEP`] of them, and
    /// what is left of their progress; returns how many.
    pub(crate) async fn prune_runs(
        &self,
        login: &str,
        space: Space,
        keep: Duration,
        now: Timestamp,
    ) -> Result<u64> {
        let Some(latest) = self.latest(login, space).await? else {
            return Ok(0);
        };
        let newest_pruned = latest.run_id.number.saturating_sub(KEPT_MIN);
        let oldest = RecordList {
            prefix: format!("{}/run/{login}/", space.collection()),
            descending: false,
            after: None,
            limit: STEP,
        };
        let (mut pruned, mut first_kept) = (0, 0);
        for record in self.records.list_records(&oldest).await? {
            let run: Run = parse(&record)?;
            first_kept = run.run_id.number;
            let is_old = |ended: Timestamp| now.since(ended) > keep;
            let is_due = run.status.is_terminal() && run.completed_at.is_some_and(is_old);
            if !is_due || run.run_id.number > newest_pruned {
                break;
            }
            let delete = |key: String, expected: Expected| RecordWrite {
                key,
                expected,
                body: None,
            };
            let mut writes = vec![
                delete(run_key(&run.run_id), expected(Some(record.version))),
                delete(recent_key(&run), Expected::Anything),
            ];
            writes.extend(
                run.begun_by
                    .map(|op| delete(begun_key(op), Expected::Anything)),
            );
            // Another process may have deleted it meanwhile.
            pruned += u64::from(self.records.write_records(&writes).await?);
            first_kept += 1;
        }
        let first_kept = RunId {
            login: login.to_owned(),
            space,
            number: first_kept,
        };
        self.delete_tallies_before(&first_kept).await?;
        Ok(pruned)
    }
}
