//! Seals the tokens of users before they are stored (ADR 37).
//!
//! A sealed token is bound to the record that it lies in, so to its user and space: copied to
//! another record it does not open.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use clinch::types::{ErrorKind, Timestamp};
use clinch::{Error, Result};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::InvalidText;
use crate::{Token, base64};

/// Length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// A key that seals tokens: 32 bytes, as 64 hexadecimal digits or as base64. `Debug` shows no part
/// of it.
///
/// ```
/// use clinch_github::TokenKey;
///
/// assert!("b2xkIG1hY2hpbmVzIHNpbmcgYXQgbmlnaHQgYWxvbmU".parse::<TokenKey>().is_ok());
/// assert!("too short".parse::<TokenKey>().is_err());
/// ```
#[derive(Clone)]
pub struct TokenKey {
    /// Says which key sealed a token.
    id: String,
    key: LessSafeKey,
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({})", self.id)
    }
}

impl FromStr for TokenKey {
    type Err = InvalidText;

    /// The message does not repeat the text.
    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let wrong = || {
            let message = "is not a key: write 32 random bytes as 64 hexadecimal digits or as \
                           base64, such as the output of `openssl rand -base64 32`";
            InvalidText(message.to_owned())
        };
        let bytes = unhexed(text).or_else(|| base64::decoded(text));
        let bytes = bytes.filter(|bytes| bytes.len() == KEY_BYTES);
        let bytes = bytes.ok_or_else(wrong)?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| wrong())?;
        let mut digest = Sha256::new();
        digest.update(b"clinch token key\n");
        digest.update(&bytes);
        Ok(Self {
            id: hex(digest.finalize().get(..4).unwrap_or_default()),
            key: LessSafeKey::new(key),
        })
    }
}

/// The keys of tokens: the first seals, each opens what it has sealed. Without any, tokens of users
/// cannot be stored.
/// Clones share what `replace` changes.
#[derive(Debug, Clone, Default)]
pub struct TokenKeys(Arc<RwLock<Arc<[TokenKey]>>>);

impl From<Vec<TokenKey>> for TokenKeys {
    fn from(keys: Vec<TokenKey>) -> Self {
        Self(Arc::new(RwLock::new(keys.into())))
    }
}

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedToken {
    /// The token's hash.
    pub(crate) token: String,
    pub(crate) added_at: Timestamp,
    /// The id of the key.
    key: String,
    nonce: String,
    sealed: String,
}

impl TokenKeys {
    fn keys(&self) -> Arc<[TokenKey]> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// Uses these keys from now on. False: they are the same.
    pub(crate) fn replace(&self, others: &Self) -> bool {
        let (before, after) = (self.keys(), others.keys());
        let ids = |keys: &[TokenKey]| keys.iter().map(|key| key.id.clone()).collect::<Vec<_>>();
        let is_new = ids(&before) != ids(&after);
        if is_new {
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = after;
        }
        is_new
    }

    /// Whether tokens can be sealed.
    pub(crate) fn can_seal(&self) -> bool {
        !self.keys().is_empty()
    }

    /// Seals a token for the record of this key.
    pub(crate) fn seal(
        &self,
        record: &str,
        token: &Token,
        added_at: Timestamp,
    ) -> Result<SealedToken> {
        let missing = || {
            let message = "tokens of users cannot be stored: set github.token_keys";
            Error::new(ErrorKind::Unsupported, message)
        };
        let keys = self.keys();
        let key = keys.first().ok_or_else(missing)?;
        let failed = |_| Error::new(ErrorKind::Internal, "a token cannot be sealed");
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(failed)?;
        let hash = token.hash();
        let bound = bound_to(record, &hash, added_at);
        let mut bytes = token.secret().as_bytes().to_vec();
        key.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(bound),
                &mut bytes,
            )
            .map_err(failed)?;
        Ok(SealedToken {
            token: hash,
            added_at,
            key: key.id.clone(),
            nonce: hex(&nonce),
            sealed: hex(&bytes),
        })
    }

    /// Opens a token that lies in the record of this key; `None`: it was sealed with another key,
    /// or for another record, or it was changed.
    pub(crate) fn open(&self, record: &str, sealed: &SealedToken) -> Option<Token> {
        let keys = self.keys();
        let key = keys.iter().find(|key| key.id == sealed.key)?;
        let nonce: [u8; NONCE_LEN] = unhexed(&sealed.nonce)?.try_into().ok()?;
        let mut bytes = unhexed(&sealed.sealed)?;
        let bound = bound_to(record, &sealed.token, sealed.added_at);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = key.key.open_in_place(nonce, Aad::from(bound), &mut bytes);
        let text = std::str::from_utf8(opened.ok()?).ok()?;
        let token = Token::new(text);
        (token.hash() == sealed.token).then_some(token)
    }

    /// Whether the first key has sealed the token.
    pub(crate) fn is_newest(&self, sealed: &SealedToken) -> bool {
        self.keys().first().is_some_and(|key| key.id == sealed.key)
    }
}

/// What a sealed token is bound to.
fn bound_to(record: &str, hash: &str, added_at: Timestamp) -> Vec<u8> {
    let text = format!(
        "clinch github token\n{record}\n{hash}\n{}",
        added_at.as_millis()
    );
    text.into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhexed(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let pairs = text.as_bytes().chunks(2).filter(|_| is_hex);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = pairs.map(byte).collect();
    bytes.filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp::from_millis(7);

    fn key(digit: char) -> TokenKey {
        let text: String = std::iter::repeat_n(digit, 64).collect();
        text.parse().expect("a key")
    }

    fn keys(digits: &str) -> TokenKeys {
        digits.chars().map(key).collect::<Vec<_>>().into()
    }

    #[test]
    fn col_17_a_sealed_token_opens_in_its_own_record_only() {
        let (keys, token) = (keys("1"), Token::new("ghp_canary"));
        let sealed = keys.seal("github/tokens/ann", &token, AT).expect("sealed");
        assert_eq!(keys.open("github/tokens/ann", &sealed), Some(token.clone()));
        for other in ["github/tokens/bob", "github-shadow/tokens/ann", ""] {
            assert_eq!(keys.open(other, &sealed), None, "{other}");
        }
        let text = serde_json::to_string(&sealed).expect("JSON");
        assert!(!text.contains("canary"), "{text}");
        let again = keys.seal("github/tokens/ann", &token, AT).expect("sealed");
        assert_ne!(again, sealed, "no nonce is used twice");
    }

    #[test]
    fn col_17_a_changed_record_does_not_open() {
        let (keys, token) = (keys("1"), Token::new("ghp_canary"));
        let sealed = keys.seal("r", &token, AT).expect("sealed");
        let mut later = sealed.clone();
        later.added_at = Timestamp::from_millis(8);
        let mut other = sealed.clone();
        other.token = Token::new("ghp_other").hash();
        let mut short = sealed.clone();
        short.sealed.truncate(8);
        let mut torn = sealed.clone();
        torn.nonce = "zz".to_owned();
        for changed in [later, other, short, torn] {
            assert_eq!(keys.open("r", &changed), None, "{changed:?}");
        }
    }

    #[test]
    fn col_17_the_first_key_seals_and_every_key_opens() {
        let token = Token::new("ghp_canary");
        let old = keys("1").seal("r", &token, AT).expect("sealed");
        let both = keys("21");
        assert_eq!(both.open("r", &old), Some(token.clone()));
        assert!(!both.is_newest(&old));
        let new = both.seal("r", &token, AT).expect("sealed");
        assert!(both.is_newest(&new));
        assert_eq!(keys("2").open("r", &new), Some(token.clone()));
        assert_eq!(keys("1").open("r", &new), None);
        assert_eq!(
            TokenKeys::default()
                .seal("r", &token, AT)
                .map_err(|e| e.kind()),
            Err(ErrorKind::Unsupported)
        );
    }

    #[test]
    fn a_key_is_32_bytes_in_either_form_and_is_never_shown() {
        let base64 = "ERERERERERERERERERERERERERERERERERERERERERE=";
        let same: TokenKey = base64.parse().expect("a key");
        assert_eq!(same.id, key('1').id);
        let shown = format!("{:?} {:?}", key('1'), keys("1"));
        assert!(!shown.contains("1111"), "{shown}");
        for wrong in ["", "11", &"1".repeat(63), &"g".repeat(64), "ERER"] {
            let error = wrong.parse::<TokenKey>().expect_err(wrong).to_string();
            assert!(error.contains("32 random bytes"), "{error}");
        }
    }
}
