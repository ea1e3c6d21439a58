//! Digests of payloads and keys. All are SHA-256.
//!
//! Digests are stored and compared across releases, so no recipe may change: a new recipe gets a
//! new version and a new tag. A digest covers a list of fields. The first field is a tag that says
//! what the digest is for. Each field is preceded by its length (u64, big-endian), so that no two
//! lists give the same bytes, and no digest of one kind can be mistaken for, or computed from, a
//! digest of another kind.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hmac::digest::{KeyInit, Update};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::names::{AttemptId, BizKey, Domain, EventType, IdemKey, Invalid, OpId};
use crate::payload::Payload;

/// Bytes of a SHA-256 digest.
const DIGEST_BYTES: usize = 32;
/// Block size of SHA-256, in bytes. HMAC pads its key to this size.
const BLOCK_BYTES: usize = 64;

fn feed(hasher: &mut impl Update, tag: &str, fields: &[&[u8]]) {
    for field in std::iter::once(&tag.as_bytes()).chain(fields) {
        hasher.update(&(field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
}

fn sha256(tag: &str, fields: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut hasher = Sha256::new();
    feed(&mut hasher, tag, fields);
    hasher.finalize().into()
}

fn hmac_sha256(key: &[u8], tag: &str, fields: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    // HMAC's own first step. It is done here because the library's constructor for keys of any
    // length returns an error that cannot happen.
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..DIGEST_BYTES].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    feed(&mut mac, tag, fields);
    mac.finalize().into_bytes().into()
}

/// The attempt id that is derived from a lease token: a UUIDv8. The id reveals nothing about the
/// token.
pub(crate) fn leased_attempt(token: &[u8; 16]) -> AttemptId {
    let digest = sha256("clinch/lease/1", &[token]);
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    AttemptId(uuid::Builder::from_custom_bytes(id).into_uuid())
}

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The inverse of [`to_hex`]. `None` for any other text, upper-case digits included, so that a
/// digest has one spelling.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

/// Lower-case base32 (RFC 4648 alphabet, no padding).
fn base32(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let mut block = [0; 8];
        block[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(block);
        for index in 0..(chunk.len() * 8).div_ceil(5) {
            let five = (bits >> (35 - 5 * index)) & 31;
            out.push(char::from(
                b"abcdefghijklmnopqrstuvwxyz234567"[five as usize],
            ));
        }
    }
    out
}

macro_rules! text_serde {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    };
}

macro_rules! versioned_digest {
    ($(#[$doc:meta])* $name:ident, $field:literal, $versions:pat) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name {
            version: u8,
            digest: [u8; DIGEST_BYTES],
        }

        impl $name {
            /// Which recipe made the digest.
            pub fn version(&self) -> u8 {
                self.version
            }

            /// The stored form: the version, then the digest.
            pub fn to_bytes(&self) -> [u8; 1 + DIGEST_BYTES] {
                let mut bytes = [self.version; 1 + DIGEST_BYTES];
                bytes[1..].copy_from_slice(&self.digest);
                bytes
            }

            /// Reads the stored form. Refuses other lengths, and versions that this release does
            /// not know.
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, Invalid> {
                match bytes.split_first() {
                    Some((&version @ $versions, rest)) => Ok(Self {
                        version,
                        digest: digest($field, rest)?,
                    }),
                    Some((version, _)) => Err(Invalid::new(
                        $field,
                        format!("has version {version}, which this release does not know"),
                    )),
                    None => Err(Invalid::new($field, "must not be empty")),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "v{}:{}", self.version, to_hex(&self.digest))
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                let read = |text: &str| {
                    let (version, hex) = text.strip_prefix('v')?.split_once(':')?;
                    let mut bytes = vec![version.parse().ok()?];
                    bytes.append(&mut from_hex(hex)?);
                    Some(bytes)
                };
                let bytes = read(text).ok_or_else(|| {
                    Invalid::new($field, "must be 'v', a version, ':' and lower-case hex")
                })?;
                let value = Self::from_bytes(&bytes)?;
                // `v01:` would be a second spelling.
                if value.to_string() != text {
                    return Err(Invalid::new($field, "has a version with needless digits"));
                }
                Ok(value)
            }
        }

        text_serde!($name);
    };
}

fn digest(field: &'static str, bytes: &[u8]) -> Result<[u8; DIGEST_BYTES], Invalid> {
    bytes.try_into().map_err(|_| {
        let got = bytes.len();
        Invalid::new(field, format!("has a digest of {got} bytes; 32 are needed"))
    })
}

versioned_digest!(
    /// Answers "is this the same request?": fingerprints of one version and key are equal
    /// exactly if the payloads are equal as JSON values, whatever the order of members and
    /// the spelling of numbers.
    ///
    /// Version 1 is plain: a reader who guesses a payload can confirm the guess. Version 2 is
    /// keyed: without the key it reveals nothing. Fingerprints of different versions or keys never
    /// compare equal; that says nothing about the payloads.
    Fingerprint, "fingerprint", 1..=2
);

impl Fingerprint {
    /// Version 1: SHA-256.
    pub fn plain(payload: &Payload) -> Self {
        Self {
            version: 1,
            digest: sha256("clinch/fingerprint/1", &[payload.as_bytes()]),
        }
    }

    /// Version 2: HMAC-SHA-256. Any key length works, but a key below 32 random bytes protects less
    /// than the digest could. The code that reads the configuration has to refuse such a key.
    pub fn keyed(key: &[u8], payload: &Payload) -> Self {
        Self {
            version: 2,
            digest: hmac_sha256(key, "clinch/fingerprint/2", &[payload.as_bytes()]),
        }
    }
}

versioned_digest!(
    /// Binds stored bytes to the operation that they were stored for (OUT-3).
    ///
    /// Detects corruption, careless edits and swapped rows. Does not detect a determined attacker
    /// who computes the hash again; a sealer does.
    ContentHash, "content_hash", 1
);

impl ContentHash {
    /// The hash of bytes that are about to be stored.
    pub fn of(op_id: &OpId, event_type: &EventType, stored: &[u8]) -> Self {
        let fields = [
            op_id.0.as_bytes().as_slice(),
            event_type.as_str().as_bytes(),
            stored,
        ];
        Self {
            version: 1,
            digest: sha256("clinch/content/1", &fields),
        }
    }

    /// Whether the bytes that were read are the bytes that were stored.
    pub fn verifies(&self, op_id: &OpId, event_type: &EventType, stored: &[u8]) -> bool {
        *self == Self::of(op_id, event_type, stored)
    }
}

fn of_keys(
    tag: &str,
    domain: &Domain,
    event_type: &EventType,
    biz_key: &BizKey,
    idem_key: &IdemKey,
) -> [u8; DIGEST_BYTES] {
    let fields = [
        domain.as_str().as_bytes(),
        event_type.as_str().as_bytes(),
        biz_key.as_str().as_bytes(),
        idem_key.as_str().as_bytes(),
    ];
    sha256(tag, &fields)
}

macro_rules! key_digest {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; DIGEST_BYTES]);

        impl $name {
            /// The stored form: the 32 bytes of the digest.
            pub fn as_bytes(&self) -> &[u8; DIGEST_BYTES] {
                &self.0
            }

            /// Reads the stored form. Refuses other lengths.
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, Invalid> {
                digest($field, bytes).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&to_hex(&self.0))
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                let bytes = from_hex(text)
                    .ok_or_else(|| Invalid::new($field, "must be lower-case hexadecimal"))?;
                Self::from_bytes(&bytes)
            }
        }

        text_serde!($name);
    };
}

key_digest!(
    /// The four keys of an operation as one index entry of fixed size. Two hashes are equal exactly
    /// if all four keys are equal, byte for byte.
    KeyHash, "key_hash"
);

impl KeyHash {
    /// The hash of the four keys.
    pub fn of(
        domain: &Domain,
        event_type: &EventType,
        biz_key: &BizKey,
        idem_key: &IdemKey,
    ) -> Self {
        let tag = "clinch/keys/1";
        Self(of_keys(tag, domain, event_type, biz_key, idem_key))
    }
}

key_digest!(
    /// The lane of a business object: the partition of its hints on a bus. It is a hash, so that no
    /// business key leaves the store.
    LaneKey, "lane"
);

impl LaneKey {
    /// The lane of (domain, biz_key).
    pub fn of(domain: &Domain, biz_key: &BizKey) -> Self {
        let fields = [domain.as_str().as_bytes(), biz_key.as_str().as_bytes()];
        Self(sha256("clinch/lane/1", &fields))
    }
}

/// The idempotency key that the provider sees. It depends only on the four keys, so every attempt
/// and hedge of an operation sends the same key. A redrive has four keys of its own, but it must
/// send the outbound key of the operation that it redrives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OutboundKey(Arc<str>);

/// Bytes of the digest that a derived key shows. 192 bits do not collide in practice. In base32
/// they make a key of 43 characters, which fits the lowest known limit (Square's 45); 256 bits
/// would not. Lower-case base32 survives headers, URLs and providers that fold case.
const OUTBOUND_DIGEST_BYTES: usize = 24;

impl OutboundKey {
    /// `ck1_` and 39 characters of `a`–`z` and `2`–`7`, derived from all four keys. Safe in a
    /// header. Reveals the keys only to a reader who can guess them.
    pub fn derive(
        domain: &Domain,
        event_type: &EventType,
        biz_key: &BizKey,
        idem_key: &IdemKey,
    ) -> Self {
        let tag = "clinch/outbound/1";
        let digest = of_keys(tag, domain, event_type, biz_key, idem_key);
        let text = base32(&digest[..OUTBOUND_DIGEST_BYTES]);
        Self(format!("ck1_{text}").into())
    }

    /// The caller's own key, for a route that is configured to send it. It is any valid
    /// [`IdemKey`]: up to 255 bytes and not necessarily ASCII, so the route has to check that its
    /// header can carry it. Operations that differ only in another of the four keys send the same
    /// key.
    pub fn raw(idem_key: &IdemKey) -> Self {
        Self(idem_key.as_str().into())
    }

    /// The text to send.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OutboundKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for OutboundKey {
    type Err = Invalid;

    /// Parses the text. A derived key satisfies the rules of a raw key, so only those are checked.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        IdemKey::new(text)
            .map(|idem_key| Self::raw(&idem_key))
            .map_err(|error| Invalid::new("outbound_key", error.problem))
    }
}

text_serde!(OutboundKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_reads_only_what_it_writes() {
        let fingerprint = Fingerprint::keyed(b"key", &Payload::null());
        assert_eq!(fingerprint.version(), 2);
        let bytes = fingerprint.to_bytes();
        assert_eq!(Fingerprint::from_bytes(&bytes).expect("reads"), fingerprint);
        let text = serde_json::to_string(&fingerprint).expect("serialises");
        assert_eq!(text, format!("\"{fingerprint}\""));
        assert_eq!(
            serde_json::from_str::<Fingerprint>(&text).expect("reads"),
            fingerprint
        );

        let mut unknown = bytes;
        unknown[0] = 3;
        let wrong: [&[u8]; 4] = [&[], &bytes[..32], &[&bytes[..], &[0]].concat(), &unknown];
        for bytes in wrong {
            let error = Fingerprint::from_bytes(bytes).expect_err("refused");
            assert_eq!(error.field, "fingerprint");
        }
        let text = fingerprint.to_string();
        for bad in [
            text.replace("v2", "v02"),
            text.replace("v2", "v+2"),
            text.replace("v2", "v3"),
            text.to_uppercase(),
            text[3..].to_owned(),
            format!("{text}00"),
            String::new(),
        ] {
            let error = bad.parse::<Fingerprint>().expect_err(&bad);
            assert_eq!(error.field, "fingerprint");
        }
    }
}
