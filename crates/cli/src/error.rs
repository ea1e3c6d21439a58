//! What can go wrong, in one line that says what to do.

use std::io::{self, Write as _};

use clinch_core::ErrorKind;

use crate::client::Problem;
use crate::exit::Exit;
use crate::output::text;

/// Why a command did not do what was asked. Never carries a key or a payload.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Refused before anything was sent.
    #[error("{0}")]
    Usage(String),
    /// Nothing was sent: nobody answers there.
    #[error(
        "cannot reach the server at {origin} ({why}): is `clinch serve` running there? \
         Another address goes in --url or CLINCH_URL"
    )]
    Unreachable {
        /// Scheme, host and port.
        origin: String,
        /// The system's word for it.
        why: String,
    },
    /// It was sent, and what became of it is not known.
    #[error("the answer of {origin} was lost ({why}): {advice}")]
    Lost {
        /// Scheme, host and port.
        origin: String,
        /// What happened to the connection.
        why: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// As above, for a submission: repeating under the same key is safe.
    #[error("{source}; repeat it with `--idem-key {idem_key}`: it is accepted only once")]
    LostSubmission {
        /// What was said about the connection or by the server.
        source: Box<CliError>,
        /// The key that it was sent under.
        idem_key: String,
    },
    /// The server refused, with a problem document.
    #[error("{0}")]
    Problem(Problem),
    /// Somebody answered, but not as this API does.
    #[error("{origin} does not answer like a Clinch server ({why}): check --url")]
    NotClinch {
        /// Scheme, host and port.
        origin: String,
        /// What was wrong with the answer.
        why: String,
    },
    /// The engine, the store or the configuration said no.
    #[error("{0}")]
    Engine(#[from] clinch::Error),
    /// It did not work out.
    #[error("{0}")]
    Failed(String),
    /// What was named is not there.
    #[error("{0}")]
    NotThere(String),
    /// A person was asked and did not say yes.
    #[error("nothing was changed")]
    Declined,
    /// Our own output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The reader of our output went away; not worth a word.
    #[error("the reader of the output went away")]
    BrokenPipe,
}

impl CliError {
    /// A usage error.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::Usage(what.into())
    }

    /// Something of our own did not work out.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }

    /// The exit code it comes to.
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
            Self::Failed(_)
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::NotClinch { .. }
            | Self::Declined
            | Self::Output(_) => Exit::Failed,
        }
    }

    /// Whether the same request may well succeed a little later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Problem(problem) => matches!(problem.status, 429 | 502..=504),
            _ => false,
        }
    }

    /// Says it on standard error, in one line.
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

/// One line on standard error, beside the answer. Whoever closed it does not want to know.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", text::plain(line));
}
