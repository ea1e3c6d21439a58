//! How a command ends, as scripts see it.

use std::process::ExitCode;

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done as asked.
    Ok,
    /// 1: it failed: the operation, the server, or a person said no.
    Failed,
    /// 2: wrong usage; nothing was done.
    Usage,
    /// 3: there is no such thing.
    NotFound,
    /// 4: it contradicts what is there.
    Conflict,
    /// 5: not settled in time; the work goes on.
    Unsettled,
    /// 130: a second SIGINT ended it at once.
    Interrupted,
    /// 143: a second SIGTERM ended it at once.
    Terminated,
    /// 141: the reader of our output went away. As any Unix tool, so that nobody takes half
    /// a listing for a whole one.
    BrokenPipe,
}

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Conflict => 4,
            Self::Unsettled => 5,
            Self::Interrupted => 130,
            Self::BrokenPipe => 141,
            Self::Terminated => 143,
        }
    }

    /// What several failures together come to: their common code, or 1 if they differ.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Ok, other) | (other, Self::Ok) => other,
            (one, other) if one == other => one,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn failures_that_differ_are_just_failures() {
        assert_eq!(Exit::Ok.and(Exit::Conflict), Exit::Conflict);
        assert_eq!(Exit::Conflict.and(Exit::Ok), Exit::Conflict);
        assert_eq!(Exit::Conflict.and(Exit::Conflict), Exit::Conflict);
        assert_eq!(Exit::Conflict.and(Exit::NotFound), Exit::Failed);
    }
}
