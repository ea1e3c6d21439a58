//! The API keys: which callers may use the API.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Domain, EventType, Result, Timestamp};

/// The keys of the API. Only a hash is stored: the key itself is shown once, to its creator.
#[async_trait]
pub trait ApiKeys: Send + Sync {
    /// Stores new keys. True where the id was new.
    ///
    /// - Several keys may have the same name: that is how a key is rotated.
    /// - An id that exists is left as it is.
    async fn create(&self, keys: &[ApiKey]) -> Result<Vec<bool>>;

    /// Every key, oldest first, including revoked and expired keys.
    async fn list(&self) -> Result<Vec<ApiKey>>;

    /// Revokes keys by id. True where the key was active until then.
    ///
    /// - Revoking twice changes nothing: the first time stays.
    async fn revoke(&self, ids: &[String], at: Timestamp) -> Result<Vec<bool>>;

    /// Keys by the hash of their secret, in order; `None` where no key has this hash.
    ///
    /// - Revoked and expired keys are found too: the caller judges.
    async fn find(&self, hashes: &[[u8; 32]]) -> Result<Vec<Option<ApiKey>>>;
}

/// One key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Names this key for good.
    pub id: String,
    /// The owner's name; several keys may share it.
    pub name: String,
    /// SHA-256 of the whole secret, prefix included.
    pub hash: [u8; 32],
    /// The scopes: what the key may be used for.
    pub scopes: Vec<Scope>,
    /// The domains that the key is restricted to. Empty: every domain.
    pub domains: Vec<Domain>,
    /// The event types, within those domains, that the key is restricted to. Empty: every event
    /// type.
    pub event_types: Vec<EventType>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The key is invalid from this moment on.
    pub expires_at: Option<Timestamp>,
    /// When an operator revoked it.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Neither revoked nor expired.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// The operations that the key may access.
    pub fn restriction(&self) -> Restriction {
        Restriction {
            domains: self.domains.clone(),
            event_types: self.event_types.clone(),
        }
    }
}

/// The operations that a key may access, by domain and event type. The default is every operation.
///
/// ```
/// use clinch_core::ports::Restriction;
/// use clinch_core::{Domain, EventType};
///
/// let (pay, charge) = (Domain::new("pay")?, EventType::new("charge")?);
/// let restricted = Restriction { domains: vec![pay], event_types: vec![charge] };
/// assert!(restricted.allows("pay", "charge"));
/// assert!(!restricted.allows("pay", "refund") && !restricted.allows("mail", "charge"));
/// assert!(Restriction::default().allows("mail", "send"));
/// # Ok::<(), clinch_core::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restriction {
    /// These domains. Empty: every domain.
    pub domains: Vec<Domain>,
    /// These event types. Empty: every event type.
    pub event_types: Vec<EventType>,
}

impl Restriction {
    /// Whether every operation is allowed.
    pub fn is_none(&self) -> bool {
        self.domains.is_empty() && self.event_types.is_empty()
    }

    /// Whether some operations of the domain may be accessed.
    pub fn allows_domain(&self, domain: &str) -> bool {
        self.domains.is_empty() || self.domains.iter().any(|one| one.as_str() == domain)
    }

    /// Whether every operation of the domain may be accessed, whatever its event type.
    pub fn allows_all_of(&self, domain: &str) -> bool {
        self.allows_domain(domain) && self.event_types.is_empty()
    }

    /// Whether operations of the domain and event type may be accessed.
    pub fn allows(&self, domain: &str, event_type: &str) -> bool {
        let mut types = self.event_types.iter();
        let is_named = types.any(|one| one.as_str() == event_type);
        self.allows_domain(domain) && (self.event_types.is_empty() || is_named)
    }

    /// Whether everything that `other` allows is allowed.
    pub fn covers(&self, other: &Self) -> bool {
        fn holds<T: PartialEq>(all: &[T], some: &[T]) -> bool {
            let are_some = !some.is_empty() && some.iter().all(|one| all.contains(one));
            all.is_empty() || are_some
        }
        holds(&self.domains, &other.domains) && holds(&self.event_types, &other.event_types)
    }
}

/// What a key may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Submits operations, and reads an operation by its id.
    Submit,
    /// Reads everything.
    Read,
    /// Leases operations as a remote worker, and reports on them.
    Work,
    /// Reads, cancels, resolves, redrives and pauses.
    Operate,
    /// Everything.
    Admin,
}

impl Scope {
    /// Every scope, the least first.
    pub const ALL: [Self; 5] = [
        Self::Submit,
        Self::Read,
        Self::Work,
        Self::Operate,
        Self::Admin,
    ];

    /// The name in JSON, SQL and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Work => "work",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// Whether `self` allows everything that `wanted` allows.
    pub fn covers(self, wanted: Self) -> bool {
        self == wanted || self == Self::Admin || (self == Self::Operate && wanted == Self::Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_scopes_cover_no_more_than_they_say() {
        use Scope::{Admin, Operate, Read, Submit, Work};
        let covered = |one: Scope| Scope::ALL.into_iter().filter(move |w| one.covers(*w));
        assert_eq!(covered(Submit).collect::<Vec<_>>(), [Submit]);
        assert_eq!(covered(Read).collect::<Vec<_>>(), [Read]);
        assert_eq!(covered(Work).collect::<Vec<_>>(), [Work]);
        assert_eq!(covered(Operate).collect::<Vec<_>>(), [Read, Operate]);
        assert_eq!(covered(Admin).count(), 5);
    }

    fn restriction(domains: &[&str], event_types: &[&str]) -> Restriction {
        let domain = |name: &&str| Domain::new(*name).expect("a name");
        let event_type = |name: &&str| EventType::new(*name).expect("a name");
        Restriction {
            domains: domains.iter().map(domain).collect(),
            event_types: event_types.iter().map(event_type).collect(),
        }
    }

    #[test]
    fn core_16_a_restriction_covers_what_it_allows_in_full() {
        let all = Restriction::default();
        let (pay, both) = (
            restriction(&["pay"], &[]),
            restriction(&["pay", "mail"], &[]),
        );
        let charge = restriction(&["pay"], &["charge"]);
        for (one, other, covers) in [
            (&all, &all, true),
            (&all, &charge, true),
            (&pay, &all, false),
            (&both, &pay, true),
            (&pay, &both, false),
            (&pay, &charge, true),
            (&charge, &pay, false),
            (&charge, &charge, true),
        ] {
            assert_eq!(one.covers(other), covers, "{one:?} {other:?}");
        }
        assert!(pay.allows_all_of("pay") && !charge.allows_all_of("pay"));
        assert!(charge.allows_domain("pay") && !charge.allows_domain("mail"));
    }
}
