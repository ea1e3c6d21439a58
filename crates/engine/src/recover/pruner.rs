//! Deletes what is older than its retention, a bounded step at a time.

use clinch_core::Result;

use super::Scanned;
use crate::node::Node;

impl Node {
    pub(crate) async fn prune_old(&self) -> Result<Scanned> {
        let pruned = self.ports.recovery.prune(&self.config.retention).await?;
        let full = self.config.retention.max;
        // A full step means that there is more.
        let more = pruned.operations >= full || pruned.keys >= full;
        Ok(Scanned {
            found: if more { self.config.batch } else { 0 },
            next: None,
        })
    }
}
