//! What the record of a destination says, and what this process knows of it.

use clinch_core::Timestamp;
use clinch_core::ports::Opened;
use clinch_protect::Opener;
use serde::{Deserialize, Serialize};

/// What all processes know of a destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Word {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) down: Option<Down>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paused_until: Option<Timestamp>,
}

/// An open breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Down {
    pub(super) since: Timestamp,
    /// `None`: until an operator resets it.
    pub(super) until: Option<Timestamp>,
    /// Who opened it, if an operator did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<String>,
    /// The operator's reason, or the last error of the process whose breaker opened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
}

impl Down {
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    pub(super) fn opened(&self, now: Timestamp) -> Opened {
        Opened {
            since: now.since(self.since),
            open_for: self.until.map(|until| until.since(now)),
            is_forced: self.by.is_some(),
        }
    }

    pub(super) fn opener(&self) -> Opener {
        Opener {
            by: self.by.clone(),
            reason: self.reason.clone(),
        }
    }
}

/// What this process knows of a record, and what it has to say itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) version: Option<u64>,
    pub(super) word: Word,
    /// The breaker changed by calls of this process.
    pub(super) has_breaker_news: bool,
    /// The provider asked this process for a pause.
    pub(super) has_pause_news: bool,
}

impl Known {
    pub(super) fn has_news(&self) -> bool {
        self.has_breaker_news || self.has_pause_news
    }
}
