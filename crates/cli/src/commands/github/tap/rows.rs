//! The documents of a stream and those that are gone at GitHub, in one order.

use std::collections::VecDeque;

use crate::commands::github::collector_client::CollectorClient;
use crate::commands::github::documents::{Documents, Line};
use crate::error::CliError;

/// A document, or one that was put aside because it is gone at GitHub.
pub(super) struct Row {
    pub(super) line: Line,
    pub(super) is_gone: bool,
}

/// Documents that are read page by page, and the next ones of them.
struct Side {
    documents: Documents,
    lines: VecDeque<Line>,
    is_over: bool,
}

impl Side {
    fn new(documents: Documents) -> Self {
        Self {
            documents,
            lines: VecDeque::new(),
            is_over: false,
        }
    }

    async fn fill(&mut self, client: &mut CollectorClient) -> Result<(), CliError> {
        while self.lines.is_empty() && !self.is_over {
            match self.documents.lines(client).await? {
                Some(lines) => self.lines = lines.into(),
                None => self.is_over = true,
            }
        }
        Ok(())
    }
}

/// Every document of a stream once, in the order of ids. A document that came back is not gone,
/// although its old form is kept.
pub(super) struct Rows {
    there: Side,
    gone: Side,
}

impl Rows {
    pub(super) fn new(there: Documents, gone: Documents) -> Self {
        Self {
            there: Side::new(there),
            gone: Side::new(gone.removed()),
        }
    }

    pub(super) async fn next(
        &mut self,
        client: &mut CollectorClient,
    ) -> Result<Option<Row>, CliError> {
        self.there.fill(client).await?;
        self.gone.fill(client).await?;
        let id = |side: &Side| side.lines.front().map(|line| line.id.clone());
        let (there, gone) = (id(&self.there), id(&self.gone));
        let is_gone = match (&there, &gone) {
            (Some(there), Some(gone)) => gone < there,
            (there, _) => there.is_none(),
        };
        if !is_gone && there == gone {
            self.gone.lines.pop_front();
        }
        let side = if is_gone {
            &mut self.gone
        } else {
            &mut self.there
        };
        Ok(side.lines.pop_front().map(|line| Row { line, is_gone }))
    }
}
