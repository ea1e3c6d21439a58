//! API keys: created once, shown once, stored as a hash.
//!
//! A key is `clk_`, 64 hexadecimal digits (256 random bits) and 8 more digits that are a checksum.
//! The checksum distinguishes a mistyped key from an unknown one, and prefix and checksum let
//! scanners find leaked keys. The store holds the SHA-256 of a key. A fast hash is enough: 256
//! random bits cannot be guessed.

use std::fmt;
use std::hint::black_box;

use clinch::{Error, Result};
use clinch_core::ports::{ApiKey, ApiKeys};
use clinch_core::{ErrorKind, Timestamp};
use sha2::{Digest, Sha256};

pub use clinch_core::ports::{Restriction, Scope};

/// The prefix of every key.
pub const PREFIX: &str = "clk_";
const SECRET_DIGITS: usize = 64;
const CHECKSUM_DIGITS: usize = 8;

/// A new key in clear text. `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The clear text, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The most domains, and the most event types, that one key may be restricted to: the list fits
/// into a column of every store.
const NAMES_MAX: usize = 50;

/// Creates a key for every domain and stores its hash. Only the return value holds the secret.
///
/// Several active keys may have the same name: create the new key, move the callers, revoke the old
/// key.
pub async fn create(
    keys: &dyn ApiKeys,
    name: &str,
    scopes: &[Scope],
    now: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<(ApiKey, Secret)> {
    let restriction = Restriction::default();
    create_restricted(keys, name, scopes, restriction, now, expires_at).await
}

/// Creates a key that is restricted to some domains or event types.
pub async fn create_restricted(
    keys: &dyn ApiKeys,
    name: &str,
    scopes: &[Scope],
    restriction: Restriction,
    now: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<(ApiKey, Secret)> {
    let invalid = |message: &str| Error::new(ErrorKind::Invalid, message);
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return Err(invalid(
            "a key's name holds 1 to 128 bytes and no control characters",
        ));
    }
    if scopes.is_empty() {
        return Err(invalid(
            "name at least one scope: submit, read, work, operate or admin",
        ));
    }
    let Restriction {
        mut domains,
        mut event_types,
    } = restriction;
    domains.sort();
    domains.dedup();
    event_types.sort();
    event_types.dedup();
    if domains.len() > NAMES_MAX || event_types.len() > NAMES_MAX {
        return Err(invalid(
            "a key names at most 50 domains and 50 event types; make several keys",
        ));
    }
    if expires_at.is_some_and(|end| end <= now) {
        return Err(invalid("the key would have expired already"));
    }
    let secret = mint()?;
    let hash = hash(secret.reveal());
    let mut scopes = scopes.to_vec();
    scopes.sort();
    scopes.dedup();
    let key = ApiKey {
        // Distinguishes keys and reveals nothing of the secret.
        id: hex(&Sha256::digest(hash)[..8]),
        name: name.to_owned(),
        hash,
        scopes,
        domains,
        event_types,
        created_at: now,
        expires_at,
        revoked_at: None,
    };
    keys.create(std::slice::from_ref(&key)).await?;
    Ok((key, secret))
}

/// Revokes a key by its id; false: the key was not active.
pub async fn revoke(keys: &dyn ApiKeys, id: &str, now: Timestamp) -> Result<bool> {
    let revoked = keys.revoke(&[id.to_owned()], now).await?;
    Ok(revoked.first() == Some(&true))
}

/// Parses a comma-separated list of scopes: `submit,read`.
pub fn parse_scopes(text: &str) -> Result<Vec<Scope>> {
    let scope = |name: &str| {
        let known = Scope::ALL
            .into_iter()
            .find(|scope| scope.as_str() == name.trim());
        known.ok_or_else(|| {
            let message =
                format!("{name:?} is not a scope; use submit, read, work, operate or admin");
            Error::new(ErrorKind::Invalid, message)
        })
    };
    text.split(',').map(scope).collect()
}

fn mint() -> Result<Secret> {
    let mut bytes = [0; SECRET_DIGITS / 2];
    getrandom::fill(&mut bytes).map_err(|_| {
        Error::new(
            ErrorKind::Unavailable,
            "the operating system provided no random bytes",
        )
    })?;
    let digits = hex(&bytes);
    let checksum = checksum(&digits);
    Ok(Secret(format!("{PREFIX}{digits}{checksum}")))
}

fn checksum(digits: &str) -> String {
    let hash = Sha256::digest(format!("{PREFIX}{digits}").as_bytes());
    hex(&hash[..CHECKSUM_DIGITS / 2])
}

/// Whether the text has the form of a key.
pub(crate) fn is_well_formed(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(PREFIX) else {
        return false;
    };
    if rest.len() != SECRET_DIGITS + CHECKSUM_DIGITS || !rest.is_ascii() {
        return false;
    }
    let (digits, sum) = rest.split_at(SECRET_DIGITS);
    same(checksum(digits).as_bytes(), sum.as_bytes())
}

pub(crate) fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Compares in constant time.
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    let differs = one
        .iter()
        .zip(other)
        .fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    one.len() == other.len() && differs == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_keys_carry_a_prefix_and_a_checksum_and_hide() {
        let secret = mint().expect("randomness");
        assert!(is_well_formed(secret.reveal()));
        assert_eq!(secret.reveal().len(), 4 + 64 + 8);
        assert_ne!(secret.reveal(), mint().expect("randomness").reveal());
        assert_eq!(format!("{secret:?}"), "Secret(***)");
        let mut mistyped = secret.reveal().to_owned();
        let last = if mistyped.ends_with('0') { '1' } else { '0' };
        mistyped.pop();
        mistyped.push(last);
        for wrong in [
            mistyped.as_str(),
            "",
            "clk_",
            "clk_zz",
            &secret.reveal()[4..],
        ] {
            assert!(!is_well_formed(wrong), "{wrong}");
        }
        assert!(same(b"abc", b"abc") && !same(b"abc", b"abd") && !same(b"abc", b"ab"));
    }

    #[test]
    fn scopes_are_read_as_people_write_them() {
        let scopes = parse_scopes("submit, read").expect("known");
        assert_eq!(scopes, [Scope::Submit, Scope::Read]);
        assert!(parse_scopes("root").is_err());
    }
}
