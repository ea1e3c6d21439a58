//! Errors, in one line that says what to do.

use std::io::{self, Write as _};

use clinch_core::ErrorKind;

use crate::client::Problem;
use crate::exit::Exit;
use crate::output::text;
use crate::progress;

/// Why a command failed. Never contains an API key or a payload.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Refused before anything was sent.
    #[error("{0}")]
    Usage(String),
    /// Nothing was sent: no server answers at this address.
    #[error(
        "cannot reach the server at {origin} ({why}): is `clinch serve` running there? \
         Another address goes in --url or CLINCH_URL"
    )]
    Unreachable {
        /// Scheme, host and port.
        origin: String,
        /// The system's error text.
        why: String,
    },
    /// The request was sent, and its result is unknown.
    #[error("the answer of {origin} was lost ({why}): {advice}")]
    Lost {
        /// Scheme, host and port.
        origin: String,
        /// What happened to the connection.
        why: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// The same for a submission: repeating it with the same key is safe.
    #[error("{source}; repeat it with `--idem-key {idem_key}`: it is accepted only once")]
    LostSubmission {
        /// The error of the connection or the server.
        source: Box<CliError>,
        /// The idempotency key of the submission.
        idem_key: String,
    },
    /// The server could not be reached until the time of `--wait` was over.
    #[error("{source}; the server did not come back in time: {advice}")]
    OutOfTime {
        /// The last error of the connection.
        source: Box<CliError>,
        /// How to go on.
        advice: String,
    },
    /// The server refused, with a problem document.
    #[error("{0}")]
    Problem(Problem),
    /// The answer is not one of this API.
    #[error("{origin} does not answer like a Clinch server ({why}): check --url")]
    NotClinch {
        /// Scheme, host and port.
        origin: String,
        /// What was wrong with the answer.
        why: String,
    },
    /// An error of the engine, the store or the configuration.
    #[error("{0}")]
    Engine(#[from] clinch::Error),
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
    /// The named thing does not exist.
    #[error("{0}")]
    NotThere(String),
    /// The thing to create exists already.
    #[error("{0}")]
    Exists(String),
    /// A person was asked and declined.
    #[error("nothing was changed")]
    Declined,
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The reader of our output has closed it; no message is needed.
    #[error("the reader of the output has closed it")]
    BrokenPipe,
}

impl CliError {
    /// A usage error.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage(what.into())
    }

    /// A file that was named cannot be read: not found if it does not exist.
    pub(crate) fn unreadable(what: String, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotThere(what),
            _ => Self::Usage(what),
        }
    }

    /// Any other failure.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }

    /// The exit code for this error.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Problem(problem) => problem.exit(),
            Self::BrokenPipe => Exit::BrokenPipe,
            Self::LostSubmission { source, .. } => source.exit(),
            Self::Engine(error) => match error.kind() {
                ErrorKind::Invalid => Exit::Usage,
                ErrorKind::NotFound => Exit::NotFound,
                ErrorKind::Conflict => Exit::Conflict,
                _ => Exit::Failed,
            },
            Self::NotThere(_) => Exit::NotFound,
            Self::Exists(_) => Exit::Conflict,
            Self::OutOfTime { .. } => Exit::Unsettled,
            Self::Failed(_)
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::NotClinch { .. }
            | Self::Declined
            | Self::Output(_) => Exit::Failed,
        }
    }

    /// Whether the same request may succeed a little later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Problem(problem) => matches!(problem.status, 429 | 502..=504),
            _ => false,
        }
    }

    /// Whether the connection broke after the request was sent.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Prints the error on standard error, in one line.
    pub(crate) fn report(&self) -> Exit {
        if !matches!(self, Self::BrokenPipe) {
            note(&format!("error: {self}"));
        }
        self.exit()
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Output(error),
        }
    }
}

/// Prints one line on standard error, in place of a live line. A closed standard error is ignored.
pub(crate) fn note(line: &str) {
    progress::erase();
    let _ = writeln!(io::stderr(), "{}", text::plain(line));
}
