//! Metrics, log lines, spans and alerts of the stages. Log messages are constants, so that no
//! payload and no text of a provider gets into a log.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch_core::policy::EventTypes;
use clinch_core::ports::{AlertNote, Hint, Level, Operation, Severity, StageEnd, Tags, Work};
use clinch_core::{Applied, Domain, Envelope, Failure, Keys, OpId, Outcome, safe_code};

use crate::Handlers;
use crate::base::Base;

/// Domains with a label of their own. Each has about a hundred time series, so that this many make
/// a scrape of a few megabytes; further domains share the label [`OTHER`].
const LABELLED_DOMAINS_MAX: usize = 200;
/// The label of domains past [`LABELLED_DOMAINS_MAX`].
const OTHER: &str = "other";

/// The declared domains that have no label of their own.
pub(crate) fn without_label(handlers: &Handlers) -> BTreeSet<Domain> {
    let domains: BTreeSet<&Domain> = handlers.by_domain().map(|(domain, _)| domain).collect();
    let rest = domains.into_iter().skip(LABELLED_DOMAINS_MAX);
    rest.cloned().collect()
}

impl Base {
    fn label<'a>(&self, domain: &'a Domain) -> &'a str {
        match self.without_label.contains(domain) {
            true => OTHER,
            false => domain.as_str(),
        }
    }

    pub(crate) fn count(&self, counter: &'static str, domain: Option<&Domain>, count: usize) {
        let domain = domain.map(|domain| [("domain", self.label(domain))]);
        let labels = domain.as_ref().map_or(&[][..], |domain| domain);
        self.ports.meter.add(counter, labels, count as u64);
    }

    /// Registers the counters that alert rules use. The rate of a counter that appears with its
    /// first event misses that event.
    pub(crate) fn begin_at_zero(&self) {
        for counter in [
            "orchestrator.alert.count",
            "orchestrator.alert.failed.count",
            "orchestrator.finalizer.late.count",
            "orchestrator.finalizer.recovered.count",
            "orchestrator.process.lost.count",
            "orchestrator.runner.failed.count",
            "orchestrator.spill.count",
        ] {
            self.count(counter, None, 0);
        }
        for ((domain, types), _) in &self.handlers.by_route {
            let domain_label = ("domain", self.label(domain));
            for counter in [
                "orchestrator.dlq.count",
                "orchestrator.reaper.reconciled.count",
                "orchestrator.shed.count",
            ] {
                self.ports.meter.add(counter, &[domain_label], 0);
            }
            let event_type = match types {
                EventTypes::One(one) => one.as_str(),
                EventTypes::Any => "*",
            };
            let labels = [domain_label, ("event_type", event_type)];
            for counter in [
                "orchestrator.accept.count",
                "orchestrator.pump.outcome.ok.count",
                "orchestrator.pump.outcome.retry.count",
                "orchestrator.pump.outcome.fail.count",
            ] {
                self.ports.meter.add(counter, &labels, 0);
            }
        }
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
        [
            ("domain", self.label(&keys.domain)),
            ("event_type", event_type),
        ]
    }

    /// The destination of an operation; `None`: its route names none here.
    pub(crate) fn destination_name(&self, keys: &Keys) -> Option<&str> {
        let handler = self.handlers.find(&keys.domain, &keys.event_type)?;
        Some(handler.gate.destination()).filter(|name| !name.is_empty())
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
        let note = AlertNote::new(Severity::Critical, code, message).about(op_id);
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

    /// Counts, logs and reports a dead letter.
    pub(crate) async fn tell_dead_letter(&self, failure: Option<&Failure>, tags: &Tags<'_>) {
        let domain = tags.domain.or(tags.keys.map(|keys| &keys.domain));
        self.count("orchestrator.dlq.count", domain, 1);
        let code = failure.map(|failure| safe_code(&failure.code).unwrap_or(UNSAFE));
        let tags = Tags { code, ..*tags };
        self.log(Level::Error, "dead letter", &tags);
        let note = AlertNote {
            domain: domain.map(ToString::to_string),
            failure_code: code.map(str::to_owned),
            ..AlertNote::new(
                Severity::Warning,
                "dead_letter",
                "an operation FAILED; `clinch dlq ls` lists the dead letters",
            )
        };
        // A port that coalesces takes it at once; one that does not ignores it.
        if self
            .ports
            .alert
            .dead_letter(&note.about(tags.op_id))
            .await
            .is_err()
        {
            self.count("orchestrator.alert.failed.count", None, 1);
        }
    }
}

/// Shown instead of a code that may be text of a provider.
const UNSAFE: &str = "other";

/// Reasons of one word that Clinch itself gives.
const OWN_REASONS: [&str; 4] = ["timeout", "exhausted", "paused", "canceled"];

/// The value of the tag `code`: why the attempt was not Ok.
pub(crate) fn code_of(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Ok(_) => None,
        Outcome::Fail(fail) => Some(safe_code(&fail.code).unwrap_or(UNSAFE)),
        // A reason is text for people, so a single word may be a provider's.
        Outcome::Retry(retry) => {
            let is_ours = |word: &&str| word.contains('_') || OWN_REASONS.contains(word);
            Some(safe_code(&retry.reason).filter(is_ours).unwrap_or(UNSAFE))
        }
    }
}

/// Sets how a stage ended.
pub(crate) fn ends_as(end: &StageEnd, outcome: &Outcome) {
    end.set(name_of(outcome), code_of(outcome));
}

/// Tags of an operation that a recovery runner claimed.
pub(crate) fn tags_of_hint(hint: &Hint) -> Tags<'_> {
    Tags {
        op_id: Some(hint.op_id),
        domain: Some(&hint.domain),
        event_type: Some(&hint.event_type),
        trace: hint.trace.as_deref(),
        ..Tags::default()
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
