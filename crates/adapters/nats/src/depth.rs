//! How many hints the stream holds.

use clinch_core::Result;
use clinch_core::ports::Depth;
use serde_json::{Value, json};

use crate::shared::Shared;

/// Maximum consumers that are counted, one for each topic: four pages of the server's list.
const CONSUMERS_MAX: usize = 1_024;

impl Shared {
    /// Counts by the server's own figures of its stream and consumers. A hint with a delay counts
    /// as on loan once a process has handed it back.
    pub(crate) async fn depth(&self) -> Result<Depth> {
        let prefix = &self.settings.prefix;
        let call = format!("STREAM.INFO.{prefix}");
        let held = match self.api(&call, String::new()).await? {
            // Nothing was ever published, or the server lost its data.
            Err(refusal) if refusal.code == 404 => 0,
            told => told?["state"]["messages"].as_u64().unwrap_or(0),
        };
        let on_loan = self.on_loan().await?;
        Ok(Depth {
            waiting: held.saturating_sub(on_loan),
            on_loan,
            delayed: 0,
            // The server delivers delayed hints again by itself.
            has_scheduler: true,
        })
    }

    /// Sums up the consumers of all topics.
    async fn on_loan(&self) -> Result<u64> {
        let call = format!("CONSUMER.LIST.{}", self.settings.prefix);
        let (mut seen, mut on_loan) = (0, 0);
        while seen < CONSUMERS_MAX {
            let page = json!({ "offset": seen }).to_string();
            let page = match self.api(&call, page).await? {
                Err(refusal) if refusal.code == 404 => break,
                told => told?,
            };
            let consumers = page["consumers"].as_array().map_or(&[][..], Vec::as_slice);
            let count = |consumer: &Value| consumer["num_ack_pending"].as_u64().unwrap_or(0);
            on_loan += consumers.iter().map(count).sum::<u64>();
            seen += consumers.len();
            let total = page["total"].as_u64().unwrap_or(0);
            if consumers.is_empty() || seen as u64 >= total {
                break;
            }
        }
        Ok(on_loan)
    }
}
