//! Filters for operations: the query parameters of the list endpoints as flags.

use clap::ValueEnum;

use crate::duration::Moment;

/// Filter by keys.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct KeyFilter {
    /// Only this domain
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// Only this event type
    #[arg(long, value_name = "NAME")]
    event_type: Option<String>,
    /// Only this business object
    #[arg(long, value_name = "KEY")]
    biz_key: Option<String>,
    /// Only this idempotency key
    #[arg(long, value_name = "KEY")]
    idem_key: Option<String>,
}

impl KeyFilter {
    /// The domain, if one is given.
    pub(crate) fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }

    /// Names and values of the query.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let pairs = [
            ("domain", &self.domain),
            ("event_type", &self.event_type),
            ("biz_key", &self.biz_key),
            ("idem_key", &self.idem_key),
        ];
        let set = pairs.into_iter();
        set.filter_map(|(name, value)| Some((name, value.clone()?)))
            .collect()
    }
}

/// Filter by keys, label, batch and time of accept.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filter {
    #[command(flatten)]
    names: KeyFilter,
    /// Only operations with this label
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    label: Option<Label>,
    /// Only operations of this batch
    #[arg(long, value_name = "ID", value_parser = super::operation::op_id)]
    batch_id: Option<String>,
    /// Only operations whose routes call this destination
    #[arg(long, value_name = "NAME")]
    destination: Option<String>,
    /// Only operations whose failure, hold or last error has this code
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Accepted at or after: RFC 3339, or a time ago (1h)
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    from: Option<Moment>,
    /// Accepted before: RFC 3339, or a time ago
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    to: Option<Moment>,
}

impl Filter {
    /// Names and values of the query.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = self.names.pairs();
        let label = self.label.as_ref();
        let label = label.map(|label| ("label", format!("{}={}", label.name, label.value)));
        let batch = self.batch_id.clone().map(|id| ("batch_id", id));
        let from = self.from.map(|moment| ("from", moment.ago().to_string()));
        let to = self.to.map(|moment| ("to", moment.ago().to_string()));
        let destination = self.destination.clone().map(|name| ("destination", name));
        let code = self.error_code.clone().map(|code| ("code", code));
        let all = [label, batch, destination, code, from, to];
        pairs.extend(all.into_iter().flatten());
        pairs
    }

    /// Whether the filter matches every operation.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }
}

/// Filter by state and phase.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct StateFilter {
    /// Only this state
    #[arg(long, value_enum, ignore_case = true, value_name = "STATE")]
    pub(crate) state: Option<State>,
    /// Only this phase of IN_PROGRESS
    #[arg(long, value_enum, ignore_case = true, value_name = "PHASE")]
    pub(crate) phase: Option<Phase>,
}

impl StateFilter {
    /// Names and values of the query.
    pub(crate) fn pairs(self) -> Vec<(&'static str, String)> {
        let state = self.state.map(|state| ("state", state.name().to_owned()));
        let phase = self.phase.map(|phase| ("phase", phase.name().to_owned()));
        state.into_iter().chain(phase).collect()
    }
}

/// The states of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum State {
    /// Accepted, not begun
    Pending,
    /// Begun, not settled
    InProgress,
    /// Settled: succeeded
    Completed,
    /// Settled: failed
    Failed,
}

impl State {
    /// The name in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }

    /// Whether the state never changes again.
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// The phases of IN_PROGRESS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// An attempt holds a lease
    Live,
    /// No attempt before its next_attempt_at
    Waiting,
    /// The effect is unknown: waits for a probe, a late answer or an operator
    Held,
}

impl Phase {
    /// The name in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Waiting => "waiting",
            Self::Held => "held",
        }
    }
}

/// A label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    /// The text before the first `=`.
    pub(crate) name: String,
    /// The text after it.
    pub(crate) value: String,
}

/// Parses `name=value`.
pub(crate) fn label(text: &str) -> Result<Label, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(Label {
            name: name.to_owned(),
            value: value.to_owned(),
        }),
        _ => Err("a label is NAME=VALUE".to_owned()),
    }
}
