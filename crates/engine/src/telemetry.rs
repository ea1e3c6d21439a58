//! Metrics, log lines, spans and alerts of the stages. Log messages are constants, so that no
//! payload and no text of a provider gets into a log.

use std::time::Duration;

use clinch_core::ports::{AlertNote, Level, Operation, Severity, Tags, Work};
use clinch_core::{Applied, Domain, Envelope, Keys, OpId, Outcome};

use crate::base::Base;

impl Base {
    pub(crate) fn count(&self, counter: &'static str, domain: Option<&Domain>, count: usize) {
        let domain = domain.map(|domain| [("domain", domain.as_str())]);
        let labels = domain.as_ref().map_or(&[][..], |domain| domain);
        self.ports.meter.add(counter, labels, count as u64);
    }

    pub(crate) fn count_for(&self, counter: &'static str, keys: &Keys) {
        self.ports.meter.add(counter, &self.labels(keys), 1);
    }

    pub(crate) fn measure(&self, histogram: &'static str, keys: &Keys, took: Duration) {
        self.ports.meter.record(histogram, &self.labels(keys), took);
    }

    /// An event type without a route of its own is chosen by callers, so it is not used as a label.
    fn labels<'a>(&self, keys: &'a Keys) -> [(&'static str, &'a str); 2] {
        let named = self.handlers.is_named(&keys.domain, &keys.event_type);
        let event_type = if named { keys.event_type.as_str() } else { "*" };
        [("domain", keys.domain.as_str()), ("event_type", event_type)]
    }

    pub(crate) fn log(&self, level: Level, message: &'static str, tags: &Tags<'_>) {
        self.ports.tracer.log(level, message, tags);
    }

    /// Logs a line about an operation of which only the id is known.
    pub(crate) fn log_op(&self, level: Level, message: &'static str, op_id: OpId) {
        let tags = Tags {
            op_id: Some(op_id),
            ..Tags::default()
        };
        self.log(level, message, &tags);
    }

    /// Logs a pass of a recovery runner: at info if it found something.
    pub(crate) fn log_pass(&self, message: &'static str, found: usize) {
        let level = if found > 0 { Level::Info } else { Level::Debug };
        let tags = Tags {
            count: Some(found),
            ..Tags::default()
        };
        self.log(level, message, &tags);
    }

    pub(crate) async fn within(&self, stage: &'static str, tags: &Tags<'_>, work: Work<'_>) {
        self.ports.tracer.within(stage, tags, work).await;
    }

    /// Alerts an operator. An alert that fails is only counted: there is no further level.
    pub(crate) async fn alert(&self, code: &'static str, message: &str, op_id: Option<OpId>) {
        let tags = Tags {
            op_id,
            code: Some(code),
            ..Tags::default()
        };
        self.log(Level::Error, "alert raised", &tags);
        let note = AlertNote {
            severity: Severity::Critical,
            code,
            message: message.to_owned(),
            op_id,
        };
        self.count("orchestrator.alert.count", None, 1);
        // An alert port that hangs must not delay the answer that the alert is about.
        let raised = tokio::select! {
            biased;
            raised = self.ports.alert.raise(&note) => raised.is_ok(),
            () = self.sleep(self.config.store_timeout) => false,
        };
        if !raised {
            self.count("orchestrator.alert.failed.count", None, 1);
        }
    }
}

pub(crate) fn tags_of(envelope: &Envelope) -> Tags<'_> {
    Tags {
        op_id: Some(envelope.op_id),
        keys: Some(&envelope.command.keys),
        trace: envelope.trace.as_deref(),
        attempt: Some(envelope.attempt),
        ..Tags::default()
    }
}

pub(crate) fn tags_of_row(row: &Operation) -> Tags<'_> {
    Tags {
        op_id: Some(row.op_id),
        keys: Some(&row.keys),
        trace: row.trace.as_deref(),
        attempt: Some(row.state.attempts),
        ..Tags::default()
    }
}

/// The value of the tag `outcome`.
pub(crate) fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Ok(_) => "ok",
        Outcome::Fail(_) => "fail",
        Outcome::Retry(retry) if retry.applied == Applied::NotCalled => "not_called",
        Outcome::Retry(_) => "retry",
    }
}
