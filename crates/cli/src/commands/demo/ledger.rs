//! Compares three accounts of the same payments.

use std::time::Duration;

use serde::Deserialize;

use crate::client::{Base, Client, Request};
use crate::error::CliError;

use super::clients::Acknowledged;
use super::provider::Provider;

pub(crate) struct Ledger {
    url: String,
    domain: String,
}

#[derive(Deserialize)]
struct Operation {
    op_id: String,
    biz_key: String,
    state: String,
}

#[derive(Deserialize)]
struct Page {
    operations: Vec<Operation>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct History {
    ledger: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    state: String,
    refused: Option<String>,
}

impl History {
    /// Whether the operation changed to a terminal state exactly once, and that was its last
    /// change.
    fn ended_once(&self) -> bool {
        let changes = self.ledger.iter().filter(|line| line.refused.is_none());
        let mut ends = changes.map(|line| is_terminal(&line.state));
        let ended = ends.by_ref().any(|is_end| is_end);
        ended && ends.next().is_none()
    }
}

/// The result of the comparison.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Books {
    accepted: usize,
    completed: usize,
    failed: usize,
    /// Acknowledged, but missing or not settled.
    lost: usize,
    charged: usize,
    charged_twice: usize,
    /// Called while an earlier call of the same payment was still running.
    overlapped: usize,
    /// Did not become terminal exactly once.
    not_once: usize,
    /// COMPLETED but not charged, or FAILED but charged.
    wrong: usize,
    /// Transactions that were run again after a deadlock, by the metric of every process; `None` if
    /// the store has no such metric.
    pub(crate) run_again: Option<f64>,
}

impl Ledger {
    pub(crate) fn new(url: String, domain: &str) -> Self {
        let domain = domain.to_owned();
        Self { url, domain }
    }

    fn client(&self) -> Result<Client, CliError> {
        let base = Base::parse(&self.url).map_err(CliError::usage)?;
        Ok(Client::new(base, None))
    }

    /// Waits until every payment is settled, or the time is up.
    pub(crate) async fn settle(
        &mut self,
        told: &Acknowledged,
        timeout: Duration,
        mut view: impl FnMut(),
    ) -> Result<(), CliError> {
        let mut client = self.client()?;
        let waiting = async {
            for op_id in told.values() {
                let path = format!("/v1/operations/{op_id}");
                loop {
                    view();
                    let request = Request::get(&path).wait(Duration::from_secs(2));
                    match client.send(request).await {
                        Ok(answer) => {
                            let operation: Operation = read(answer.document.get())?;
                            if is_terminal(&operation.state) {
                                break;
                            }
                        }
                        Err(error) if error.is_transient() => {
                            crate::clock::pause(Duration::from_millis(100)).await;
                        }
                        // The operation is missing: the comparison will show it.
                        Err(_) => break,
                    }
                }
            }
            Ok(())
        };
        // Payments that are not settled by then count as lost.
        tokio::time::timeout(timeout, waiting)
            .await
            .unwrap_or(Ok(()))
    }

    /// Compares the three accounts.
    pub(crate) async fn close(
        &self,
        told: &Acknowledged,
        provider: &Provider,
    ) -> Result<Books, CliError> {
        let mut books = Books {
            accepted: told.len(),
            charged: provider.charged(),
            charged_twice: provider.charged_twice(),
            overlapped: provider.overlapped(),
            ..Books::default()
        };
        let mut settled = 0;
        let mut client = self.client()?;
        let mut cursor: Option<String> = None;
        loop {
            let mut path = format!("/v1/operations?domain={}&limit=1000", self.domain);
            if let Some(cursor) = &cursor {
                path.push_str("&cursor=");
                path.push_str(&crate::client::segment(cursor));
            }
            let answer = client.send(Request::get(path)).await?;
            let page: Page = read(answer.document.get())?;
            for operation in page.operations {
                let ours = told.get(&operation.biz_key) == Some(&operation.op_id);
                settled += usize::from(ours && is_terminal(&operation.state));
                let completed = operation.state == "COMPLETED";
                books.completed += usize::from(completed);
                books.failed += usize::from(operation.state == "FAILED");
                let payment = operation.biz_key.strip_prefix("order-");
                let payment = payment.and_then(|number| number.parse().ok());
                let charges = payment.map_or(0, |payment| provider.charges(payment));
                books.wrong += usize::from(charges != usize::from(completed));
                let path = format!("/v1/operations/{}/attempts", operation.op_id);
                let answer = client.send(Request::get(path)).await?;
                let history: History = read(answer.document.get())?;
                books.not_once += usize::from(!history.ended_once());
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        books.lost = told.len().saturating_sub(settled);
        Ok(books)
    }
}

fn read<'a, T: Deserialize<'a>>(document: &'a str) -> Result<T, CliError> {
    serde_json::from_str(document)
        .map_err(|error| CliError::failed(format!("unexpected answer: {error}")))
}

fn is_terminal(state: &str) -> bool {
    matches!(state, "COMPLETED" | "FAILED")
}

impl Books {
    pub(crate) fn is_balanced(&self) -> bool {
        self.accepted == self.completed + self.failed
            && self.lost == 0
            && self.charged_twice == 0
            && self.overlapped == 0
            && self.not_once == 0
            && self.wrong == 0
    }

    /// For programs.
    pub(crate) fn document(&self) -> serde_json::Value {
        serde_json::json!({
            "accepted": self.accepted,
            "completed": self.completed,
            "failed": self.failed,
            "charged": self.charged,
            "charged_twice": self.charged_twice,
            "overlapped": self.overlapped,
            "not_once": self.not_once,
            "lost": self.lost,
            "wrong": self.wrong,
            "run_again": self.run_again,
            "accounts_agree": self.is_balanced(),
        })
    }

    pub(crate) fn text(&self) -> String {
        let verdict = if self.is_balanced() {
            "The three accounts agree."
        } else {
            "The accounts do NOT agree."
        };
        let run_again = self.run_again.map_or_else(String::new, |count| {
            format!("ended for a deadlock     run again      {count:>6}\n")
        });
        format!(
            "\nwhat clients were told   accepted       {:>6}\n\
             what the store holds     completed      {:>6}\n\
             \u{20}                        failed         {:>6}\n\
             what the provider did    charged        {:>6}\n\
             \u{20}                        charged twice  {:>6}\n\
             two calls at once        overlapped     {:>6}\n\
             not final just once      not once       {:>6}\n\
             accepted and not settled lost           {:>6}\n\
             completed, not charged   wrong          {:>6}\n{run_again}\n{verdict}",
            self.accepted,
            self.completed,
            self.failed,
            self.charged,
            self.charged_twice,
            self.overlapped,
            self.not_once,
            self.lost,
            self.wrong,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Books, History, Line};

    #[test]
    fn books_that_differ_are_not_balanced() {
        let right = || Books {
            accepted: 10,
            completed: 9,
            failed: 1,
            charged: 9,
            ..Books::default()
        };
        assert!(right().is_balanced());
        let faults: [fn(&mut Books); 6] = [
            |books| books.lost = 1,
            |books| books.charged_twice = 1,
            |books| books.overlapped = 1,
            |books| books.not_once = 1,
            |books| books.wrong = 1,
            |books| books.completed = 8,
        ];
        for fault in faults {
            let mut books = right();
            fault(&mut books);
            assert!(!books.is_balanced(), "{books:?}");
        }
    }

    #[test]
    fn an_end_is_one_and_the_last() {
        let history = |states: &[(&str, bool)]| {
            let line = |(state, taken): &(&str, bool)| Line {
                state: (*state).to_owned(),
                refused: (!taken).then(|| "stale".to_owned()),
            };
            let ledger = states.iter().map(line).collect();
            History { ledger }.ended_once()
        };
        assert!(history(&[("PENDING", true), ("COMPLETED", true)]));
        assert!(history(&[("COMPLETED", true), ("COMPLETED", false)]));
        assert!(!history(&[("PENDING", true)]));
        assert!(!history(&[("FAILED", true), ("COMPLETED", true)]));
        assert!(!history(&[("COMPLETED", true), ("IN_PROGRESS", true)]));
    }
}
