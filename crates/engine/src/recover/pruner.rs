//! Deletes data that is older than its retention, in bounded steps.
//!
//! Deleted data is gone for good, including the memory of keys. So the pruner does not trust a
//! clock that jumped ahead: it counts ages by the store's seen time. This process vouches for the
//! time that passed on its monotonic clock since it last looked.

use clinch_core::policy::SeenTime;
use clinch_core::ports::{Level, Prune, Pruned, Tags};
use clinch_core::{Result, Timestamp};

use super::Recoverer;
use crate::Scanned;

/// By how many seconds the store's clock is ahead, while pruning waits for an operator or for real
/// time to catch up.
const AHEAD: &str = "orchestrator.clock.ahead";

impl Recoverer {
    pub(crate) async fn prune_old(&self) -> Result<Scanned> {
        let pruned = self.prune(&self.config.retention).await?;
        let full = self.config.retention.max;
        // A full step means that there may be more.
        let counts = [pruned.operations, pruned.keys, pruned.batches];
        let more = counts.into_iter().any(|count| count >= full);
        Ok(Scanned {
            found: if more { self.config.batch } else { 0 },
            next: None,
        })
    }

    pub(crate) async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        let prune = Prune {
            reckoned: self.reckoned_time(),
            ..prune.clone()
        };
        let pruned = self.ports.recovery.prune(&prune).await?;
        self.note_time(pruned.time).await;
        let kinds = [
            ("operations", pruned.operations),
            ("keys", pruned.keys),
            ("batches", pruned.batches),
        ];
        for (kind, count) in kinds {
            if count > 0 {
                let labels = [("kind", kind)];
                let meter = &self.ports.meter;
                meter.add("orchestrator.prune.count", &labels, count as u64);
                let tags = Tags {
                    code: Some(kind),
                    count: Some(count),
                    ..Tags::default()
                };
                self.log(Level::Info, "pruned by retention", &tags);
            }
        }
        Ok(pruned)
    }

    /// The seen time that this process read last, plus the time since on its monotonic clock.
    fn reckoned_time(&self) -> Option<Timestamp> {
        let (time, looked_at) = (*self.concerns.time_seen())?;
        let since = self.ports.clock.monotonic().saturating_sub(looked_at);
        Some(time.seen_at + since)
    }

    /// Remembers the seen time. Alerts an operator once if the clock has jumped.
    async fn note_time(&self, time: SeenTime) {
        let looked_at = self.ports.clock.monotonic();
        *self.concerns.time_seen() = Some((time, looked_at));
        let ahead = time.ahead();
        self.ports.meter.set(AHEAD, &[], ahead.as_secs_f64());
        if !time.is_held_back() {
            self.set_clock_ahead(false);
            return;
        }
        let tags = Tags {
            code: Some("clock_ahead"),
            ..Tags::default()
        };
        let message = "the store's clock is ahead of its seen time: pruning waits";
        self.log(Level::Warn, message, &tags);
        if self.set_clock_ahead(true) {
            let message = format!(
                "the store's clock shows {} ms since the epoch, {} s after the last time that was \
                 seen ({} ms); nothing is pruned by it. If the clock is right, run `clinch \
                 retention confirm`",
                time.now.as_millis(),
                ahead.as_secs(),
                time.seen_at.as_millis()
            );
            self.alert("clock_ahead", &message, None).await;
        }
    }
}
