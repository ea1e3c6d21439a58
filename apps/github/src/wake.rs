//! Jobs that wait for a budget or a token are due again when the tokens have changed.

use clinch::Result;
use clinch::ports::Filter;
use clinch::types::{BatchId, Phase};

use crate::collector::Inner;
use crate::queries::domain;

/// The code of the last error of a job whose request was not sent.
const NOT_CALLED: &str = "not_called";
/// Rows that are read at once.
const PAGE: usize = 500;

impl Inner {
    /// Makes every job due, of this batch or of all, that waits because its request could not be
    /// sent. A job whose request failed keeps its own pause.
    pub(crate) async fn wake_waiting(&self, batch_id: Option<BatchId>) -> Result<()> {
        let filter = Filter {
            batch_id,
            domains: vec![domain()?],
            phase: Some(Phase::Waiting),
            code: Some(NOT_CALLED.to_owned()),
            ..Filter::default()
        };
        let orchestrator = self.clinch()?.orchestrator();
        let by = orchestrator.actor();
        let (mut cursor, mut woken) = (None::<String>, 0);
        loop {
            let page = self.inspect.list(&filter, cursor.as_deref(), PAGE);
            let page = page.await?;
            for row in page.items {
                // A job that another process has begun meanwhile needs no waking.
                let changed = orchestrator.retry_now(row.op_id, &by, "the tokens changed");
                woken += usize::from(changed.await?.is_ok());
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        tracing::info!(target: "clinch::github", jobs = woken, "the tokens changed; waiting jobs go on");
        Ok(())
    }
}
