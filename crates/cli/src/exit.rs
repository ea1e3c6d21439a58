//! The exit codes that scripts see.

use std::process::ExitCode;

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: success.
    Ok,
    /// 1: failed: the operation or the server failed, or a person declined.
    Failed,
    /// 2: invalid usage; nothing was done.
    Usage,
    /// 3: not found.
    NotFound,
    /// 4: conflict with existing data.
    Conflict,
    /// 5: not settled in time; the work goes on.
    Unsettled,
    /// 130: a second SIGINT ended it at once.
    Interrupted,
    /// 143: a second SIGTERM ended it at once.
    Terminated,
    /// 141: the reader of our output has closed it. Like any Unix tool, so that a partial listing
    /// is not taken for a complete one.
    BrokenPipe,
}

impl Exit {
    /// The number of the code.
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

    /// The code of several failures together: their common code, or 1 if they differ.
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
