//! The name of a run: whose it is, where its documents go, and its number.

use std::fmt;
use std::str::FromStr;

use clinch::types::BatchId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest login, in bytes: GitHub's own limit is 39; enterprise installations append a name.
const LOGIN_BYTES_MAX: usize = 64;

/// The collection and the records that a run uses.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// The real documents and cursors.
    #[default]
    Main,
    /// Those of a trial: collected from the beginning, to be compared.
    Shadow,
}

impl Space {
    /// Name of the collection of documents, and prefix of the records.
    pub fn collection(self) -> &'static str {
        match self {
            Self::Main => "github",
            Self::Shadow => "github-shadow",
        }
    }

    /// Name of the collection of documents that are gone at GitHub.
    pub fn removed(self) -> &'static str {
        match self {
            Self::Main => "github-removed",
            Self::Shadow => "github-shadow-removed",
        }
    }
}

/// Identifies a run: `octocat.7`, or `octocat.shadow.2`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RunId {
    /// Login of the user, in lower case.
    pub login: String,
    /// Where its documents go.
    pub space: Space,
    /// Number of the run for this user, from 1.
    pub number: u64,
}

/// A text that cannot be parsed, with an explanation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidText(pub(crate) String);

/// Parses a login and converts it to lower case: GitHub ignores case in logins.
pub(crate) fn login(text: &str) -> Result<String, InvalidText> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.is_empty() || text.len() > LOGIN_BYTES_MAX || !text.chars().all(fits) {
        return Err(InvalidText(
            "a login is 1 to 64 letters, digits, '-' and '_'".to_owned(),
        ));
    }
    Ok(text.to_ascii_lowercase())
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space {
            Space::Main => write!(f, "{}.{}", self.login, self.number),
            Space::Shadow => write!(f, "{}.shadow.{}", self.login, self.number),
        }
    }
}

impl FromStr for RunId {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let wrong = || InvalidText("a run is named LOGIN.NUMBER, such as octocat.7".to_owned());
        let parts: Vec<&str> = text.split('.').collect();
        let (name, space, number) = match parts.as_slice() {
            [name, number] => (*name, Space::Main, *number),
            [name, "shadow", number] => (*name, Space::Shadow, *number),
            _ => return Err(wrong()),
        };
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|number| digits && *number > 0);
        Ok(Self {
            login: login(name)?,
            space,
            number: number.ok_or_else(wrong)?,
        })
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for RunId {
    type Error = InvalidText;

    fn try_from(text: String) -> Result<Self, InvalidText> {
        text.parse()
    }
}

impl RunId {
    /// The batch of its jobs (`part` 0) or of a repair (from 1). The ids depend only on the run, so
    /// planning it twice creates one batch.
    pub fn batch(&self, what: &str, part: u32) -> BatchId {
        let digest = Sha256::digest(format!("clinch-github\n{self}\n{what}\n{part}").as_bytes());
        let mut hex: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
        // UUID version 8: an id with a format of our own.
        hex.replace_range(12..13, "8");
        hex.replace_range(16..17, "8");
        match hex.parse() {
            Ok(batch_id) => batch_id,
            Err(_) => unreachable!("32 hex digits are a UUID"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_and_found_by_its_name() {
        for text in ["octocat.7", "octo-cat.shadow.12"] {
            let id: RunId = text.parse().expect("a name");
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "octocat",
            "octocat.0",
            "octocat.x",
            "a.b.c",
            "a/b.1",
            "octocat.+1",
        ] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        let one: RunId = "OctoCat.7".parse().expect("a name");
        assert_eq!(one.login, "octocat");
    }

    #[test]
    fn batches_of_a_run_differ_and_stay() {
        let id: RunId = "octocat.7".parse().expect("a name");
        let other: RunId = "octocat.8".parse().expect("a name");
        assert_eq!(id.batch("jobs", 0), id.batch("jobs", 0));
        assert_ne!(id.batch("jobs", 0), id.batch("jobs", 1));
        assert_ne!(id.batch("jobs", 0), other.batch("jobs", 0));
    }
}
