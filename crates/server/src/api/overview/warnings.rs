//! Conditions that need an operator, each with the next command.

use std::time::Duration;

use clinch_core::Timestamp;
use clinch_core::ports::DomainView;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::app::App;
use super::super::caller::Caller;
use super::super::destinations::DestinationDocument;
use super::super::time;
use super::{OverviewDocument, StoreFacts};

/// A store that takes longer to read and write one row is slow.
const SLOW: Duration = Duration::from_secs(1);
/// The bound for due work if `server.shed_queue_age` is off.
const QUEUE_AGE: Duration = Duration::from_secs(30);

/// A condition that needs an operator.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Warning {
    /// store_unavailable, store_slow, shedding, destination_down, destination_probing,
    /// destination_forced_open, destination_throttled, work_overdue, operations_held,
    /// dead_letters_open, domain_paused, undeclared_routes, answers_not_final, clock_ahead or
    /// node_lost.
    pub(crate) code: &'static str,
    /// critical or warning.
    pub(crate) severity: Severity,
    /// One sentence with figures.
    pub(crate) message: String,
    /// Null: not known.
    pub(crate) since: Option<String>,
    /// The next command.
    pub(crate) command: String,
    /// Where the console shows it.
    pub(crate) link: String,
}

/// How urgent a warning is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// Work is not being done.
    Critical,
    /// Work is being done, and something waits for an operator.
    Warning,
}

fn warning(
    severity: Severity,
    code: &'static str,
    message: String,
    command: impl Into<String>,
    link: impl Into<String>,
) -> Warning {
    Warning {
        code,
        severity,
        message,
        since: None,
        command: command.into(),
        link: link.into(),
    }
}

impl Warning {
    fn since(mut self, since: Option<Timestamp>) -> Self {
        self.since = since.map(time::write);
        self
    }

    fn since_text(mut self, since: Option<&String>) -> Self {
        self.since = since.cloned();
        self
    }
}

impl App {
    pub(super) fn warnings(
        &self,
        caller: &Caller,
        facts: &StoreFacts,
        overview: &OverviewDocument,
        views: &[DomainView],
    ) -> Vec<Warning> {
        let mut all = of_store(facts);
        all.extend(self.of_shedding(caller));
        all.extend(overview.destinations.iter().filter_map(of_destination));
        all.extend(views.iter().filter_map(|view| self.of_overdue(view)));
        all.extend(of_operations(facts, overview));
        all.extend(views.iter().filter_map(of_pause));
        all.extend(self.of_concerns(caller));
        all.extend(of_nodes(overview));
        // Stable: warnings of the same severity stay in this order.
        all.sort_by_key(|warning| warning.severity);
        all
    }

    fn of_shedding(&self, caller: &Caller) -> Vec<Warning> {
        let shedding = self.orchestrator().shedding().into_iter();
        let its =
            shedding.filter(|(domain, ..)| caller.restriction().allows_domain(domain.as_str()));
        its.map(|(domain, destination, age)| {
            let message = format!(
                "new requests of {domain} are turned away: due work for {destination} has waited {}",
                text(age)
            );
            let command = format!("clinch ops ls --domain {domain} --state PENDING");
            let link = format!("/operations?domain={domain}&state=PENDING");
            let now = self.clock.now();
            warning(Severity::Critical, "shedding", message, command, link).since(Some(now - age))
        })
        .collect()
    }

    fn of_overdue(&self, view: &DomainView) -> Option<Warning> {
        let configured = self.config.server.shed_queue_age.0;
        let limit = if configured.is_zero() {
            QUEUE_AGE
        } else {
            configured
        };
        let age = view.oldest_due.filter(|age| *age > limit && !view.paused)?;
        let domain = &view.domain;
        let depth = view.counts.pending + view.counts.waiting;
        let message = format!(
            "{} of {domain} waited: the oldest is due for {}, the limit is {}",
            count(depth, "operation"),
            text(age),
            text(limit)
        );
        let command = format!("clinch ops ls --domain {domain} --state PENDING");
        let link = format!("/operations?domain={domain}&state=PENDING");
        let found = warning(Severity::Critical, "work_overdue", message, command, link);
        Some(found.since(Some(self.clock.now() - age)))
    }

    fn of_concerns(&self, caller: &Caller) -> Vec<Warning> {
        let (time, undeclared) = self.orchestrator().concerns();
        let mut found = Vec::new();
        let its = undeclared.iter();
        let its = its.filter(|(domain, open)| {
            **open > 0 && caller.restriction().allows_domain(domain.as_str())
        });
        for (domain, open) in its {
            let message = format!(
                "{} of {domain} cannot run: no route in this configuration handles them",
                count(*open, "open operation")
            );
            let link = format!("/operations?domain={domain}");
            let code = "undeclared_routes";
            found.push(warning(
                Severity::Warning,
                code,
                message,
                "clinch doctor",
                link,
            ));
        }
        if let Some(jumped) = time.filter(|time| time.is_held_back()) {
            let message = format!(
                "the store's clock jumped ahead by {}: nothing is pruned until it is confirmed",
                text(jumped.ahead())
            );
            let (command, link) = ("clinch retention confirm", "/system");
            let jump = warning(Severity::Warning, "clock_ahead", message, command, link);
            found.push(jump.since(Some(jumped.seen_at)));
        }
        found
    }
}

fn of_store(facts: &StoreFacts) -> Vec<Warning> {
    let (severity, code, message) = match &facts.ready {
        Err(problem) => (Severity::Critical, "store_unavailable", problem.clone()),
        Ok(took) if *took >= SLOW => {
            let message = format!(
                "the store is slow: one read and one write took {}",
                text(*took)
            );
            (Severity::Warning, "store_slow", message)
        }
        Ok(_) => return Vec::new(),
    };
    vec![warning(severity, code, message, "clinch doctor", "/system")]
}

fn of_destination(document: &DestinationDocument) -> Option<Warning> {
    let name = &document.destination;
    let recent = document.recent;
    let calls = format!(
        "{} of {} calls failed in the last 5 minutes",
        recent.failed, recent.calls
    );
    let error = document.last_error.as_ref();
    let error = error.map_or(String::new(), |error| {
        format!(", last error: {}", error.message)
    });
    let reset = format!("clinch destinations reset {name}");
    let by = document.opened_by.as_deref().unwrap_or("an operator");
    let why = document.reason.as_ref();
    let why = why.map_or(String::new(), |reason| format!(", {reason}"));
    let (severity, code, message, command) = match document.state {
        "down" if document.forced => (
            Severity::Warning,
            "destination_forced_open",
            format!("destination {name} gets no calls: opened by {by}{why}"),
            reset,
        ),
        "down" => (
            Severity::Critical,
            "destination_down",
            format!("destination {name} is down: {calls}{error}{why}"),
            reset,
        ),
        "probing" => (
            Severity::Warning,
            "destination_probing",
            format!("destination {name} was down and is being tested: {calls}{error}"),
            reset,
        ),
        "throttled" => (
            Severity::Warning,
            "destination_throttled",
            format!(
                "the provider of {name} asked every caller to pause until {}",
                clock(document.paused_until.as_ref())
            ),
            "clinch destinations ls".to_owned(),
        ),
        _ => return None,
    };
    let message = match document.open_until.as_ref() {
        Some(until) => format!("{message}; next call at {}", clock(Some(until))),
        None => message,
    };
    let since = document
        .breaker_since
        .as_ref()
        .or(document.paused_since.as_ref());
    Some(warning(severity, code, message, command, "/destinations").since_text(since))
}

fn of_operations(facts: &StoreFacts, overview: &OverviewDocument) -> Vec<Warning> {
    let mut found = Vec::new();
    let held = overview.operations.held;
    if held > 0 {
        let message = format!(
            "{} held: it is unknown whether the call was applied",
            are(held, "operation")
        );
        let (command, link) = ("clinch ops ls --phase held", "/operations?phase=held");
        found.push(warning(
            Severity::Warning,
            "operations_held",
            message,
            command,
            link,
        ));
    }
    let dead = overview.dead_letters_open;
    if dead > 0 {
        let message = format!("{} open", are(dead, "dead letter"));
        let (command, link) = ("clinch dlq ls", "/dead-letters");
        found.push(warning(
            Severity::Warning,
            "dead_letters_open",
            message,
            command,
            link,
        ));
    }
    let recorded = overview.operations.recorded;
    if facts.is_unfinalized && recorded > 0 {
        let message = format!("{} recorded and not final yet", are(recorded, "answer"));
        let link = "/operations?phase=live";
        found.push(warning(
            Severity::Warning,
            "answers_not_final",
            message,
            "clinch doctor",
            link,
        ));
    }
    found
}

fn of_pause(view: &DomainView) -> Option<Warning> {
    if !view.paused {
        return None;
    }
    let domain = &view.domain;
    let pause = view.pause.as_ref();
    let by = pause.map_or(String::new(), |pause| format!(" by {}", pause.by));
    let depth = view.counts.pending + view.counts.waiting;
    let message = format!(
        "domain {domain} was paused{by}: {} waiting",
        are(depth, "operation")
    );
    let command = format!("clinch domains resume {domain}");
    let found = warning(
        Severity::Warning,
        "domain_paused",
        message,
        command,
        "/domains",
    );
    Some(found.since(pause.map(|pause| pause.at)))
}

fn of_nodes(overview: &OverviewDocument) -> Vec<Warning> {
    let lost = overview.nodes.iter().filter(|node| !node.alive);
    lost.map(|node| {
        let roles = node.roles.join(", ");
        let message = format!(
            "process {} ({roles}) is lost: it stopped without saying so",
            node.name
        );
        let found = warning(
            Severity::Warning,
            "node_lost",
            message,
            "clinch serve",
            "/system",
        );
        found.since_text(Some(&node.seen_at))
    })
    .collect()
}

/// `14:03:09 UTC` of `2026-11-17T14:03:09.120Z`.
fn clock(at: Option<&String>) -> String {
    let time = at.and_then(|at| at.get(11..19));
    time.map_or("an unknown time".to_owned(), |time| format!("{time} UTC"))
}

fn count(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{end}")
}

fn are(number: u64, noun: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", count(number, noun))
}

/// A duration in its largest unit: `27 s`, `3 min`, `2 h`, `4 d`.
fn text(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        secs @ 1..120 => format!("{secs} s"),
        secs @ 120..7_200 => format!("{} min", secs / 60),
        secs @ 7_200..172_800 => format!("{} h", secs / 3_600),
        secs => format!("{} d", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_counts_read_as_text() {
        let secs = Duration::from_secs;
        assert_eq!(text(Duration::from_millis(250)), "250 ms");
        assert_eq!(text(secs(119)), "119 s");
        assert_eq!(text(secs(180)), "3 min");
        assert_eq!(text(secs(7_200)), "2 h");
        assert_eq!(text(secs(400_000)), "4 d");
        assert_eq!(are(1, "operation"), "1 operation is");
        assert_eq!(are(2, "answer"), "2 answers are");
        let at = "2026-11-17T14:03:09.120Z".to_owned();
        assert_eq!(clock(Some(&at)), "14:03:09 UTC");
    }
}
