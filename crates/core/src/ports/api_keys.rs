//! Who may call the API.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Result, Timestamp};

/// The keys of the API. What is stored is a hash: a key itself is shown once, to whoever made
/// it.
#[async_trait]
pub trait ApiKeys: Send + Sync {
    /// Keeps new keys; true where the id was new.
    ///
    /// - Several keys may have the same name: that is how one is rotated.
    /// - An id that exists is left as it is.
    async fn create(&self, keys: &[ApiKey]) -> Result<Vec<bool>>;

    /// Every key, oldest first, revoked and expired ones included.
    async fn list(&self) -> Result<Vec<ApiKey>>;

    /// Ends keys by id; true where one was active until then.
    ///
    /// - Twice is once: the first time stays.
    async fn revoke(&self, ids: &[String], at: Timestamp) -> Result<Vec<bool>>;

    /// Keys by the hash of their secret, in order; `None` where there is none.
    ///
    /// - Revoked and expired ones are found too: whoever asks judges.
    async fn find(&self, hashes: &[[u8; 32]]) -> Result<Vec<Option<ApiKey>>>;
}

/// One key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Names this key for good.
    pub id: String,
    /// Whose it is; several keys may share it.
    pub name: String,
    /// SHA-256 of the whole secret, prefix included.
    pub hash: [u8; 32],
    /// What it may be used for.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Not from this moment on.
    pub expires_at: Option<Timestamp>,
    /// When it was ended by a person.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Neither revoked nor expired.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// What a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Hands in operations, and asks for one by its id.
    Submit,
    /// Looks at everything.
    Read,
    /// Looks, cancels, resolves, redrives, pauses, and works as a remote worker.
    Operate,
    /// Everything.
    Admin,
}

impl Scope {
    /// Every scope, the least first.
    pub const ALL: [Self; 4] = [Self::Submit, Self::Read, Self::Operate, Self::Admin];

    /// The name in JSON, SQL and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// Whoever has `self` may do what `wanted` allows.
    pub fn covers(self, wanted: Self) -> bool {
        self == wanted || self == Self::Admin || (self == Self::Operate && wanted == Self::Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_scopes_cover_no_more_than_they_say() {
        use Scope::{Admin, Operate, Read, Submit};
        let covered = |one: Scope| Scope::ALL.into_iter().filter(move |w| one.covers(*w));
        assert_eq!(covered(Submit).collect::<Vec<_>>(), [Submit]);
        assert_eq!(covered(Read).collect::<Vec<_>>(), [Read]);
        assert_eq!(covered(Operate).collect::<Vec<_>>(), [Read, Operate]);
        assert_eq!(covered(Admin).count(), 4);
    }
}
