//! Sessions of people who signed in with an API key.
//!
//! A session is a random token in a cookie. The store keeps the hash of the token and the hash of
//! the key, so that a session holds on every node and after a restart, and nobody who reads the
//! store can act with it. A session never outlives its key: the key is looked up again for every
//! request.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch::{Error, Result};
use clinch_core::ports::{Clock, Expected, RecordList, RecordWrite, Records};
use clinch_core::{ErrorKind, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The cookie that holds the token.
pub(crate) const COOKIE: &str = "clinch_session";
/// How long a session lasts: one working day.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 60 * 60);
/// How long a session that was read is trusted: signing out elsewhere takes effect this much later.
const GOOD_FOR: Duration = Duration::from_secs(2);
/// Sessions that are cached at once.
const CACHED_MAX: usize = 1_024;
/// Ended sessions that one sign-in deletes.
const SWEEP_MAX: usize = 100;
/// Records of sessions begin with this.
const PREFIX: &str = "clinch/session/";
/// Failed sign-ins before the first pause.
const FREE_TRIES: u32 = 5;
/// The longest pause after failed sign-ins.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Addresses whose failed sign-ins are remembered; past this number the list starts again.
const ADDRESSES_MAX: usize = 1_024;

type Hash = [u8; 32];

/// A session as the store keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The hash of the API key, in hexadecimal digits.
    key: String,
    /// When the session ends, in milliseconds since 1970.
    expires_at: i64,
}

/// Failed sign-ins of one address.
#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Duration,
}

/// All sessions, and the failed sign-ins of this process.
pub(crate) struct Sessions {
    /// Without it, sessions are those of this process and end with it.
    records: Option<Arc<dyn Records>>,
    clock: Arc<dyn Clock>,
    cached: Mutex<BTreeMap<Hash, (Session, Duration)>>,
    failures: Mutex<BTreeMap<Option<IpAddr>, Failures>>,
    /// Proves that a form of a server without keys came from one of its own pages.
    keyless: Token,
}

/// A random token of 256 bits in hexadecimal digits. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(***)")
    }
}

impl Token {
    fn new() -> Result<Self> {
        let mut bytes = [0; 32];
        let failed = |_| Error::new(ErrorKind::Unavailable, "no randomness for a session");
        getrandom::fill(&mut bytes).map_err(failed)?;
        Ok(Self(hex(&bytes)))
    }

    /// A token that a browser sent; `None`: it cannot be one.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (text.len() == 64 && is_hex).then(|| Self(text.to_ascii_lowercase()))
    }

    /// For the `Set-Cookie` header only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    fn hash(&self) -> Hash {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// Stands in every form of the session: another site cannot know it.
    pub(crate) fn csrf(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(b"csrf/");
        digest.update(self.0.as_bytes());
        hex(&digest.finalize())
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (i, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(hash)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    pub(crate) fn new(records: Option<Arc<dyn Records>>, clock: Arc<dyn Clock>) -> Result<Self> {
        Ok(Self {
            records,
            clock,
            cached: Mutex::default(),
            failures: Mutex::default(),
            keyless: Token::new()?,
        })
    }

    /// The form token while the server has no keys.
    pub(crate) fn keyless_csrf(&self) -> String {
        self.keyless.csrf()
    }

    /// Begins a session for the key with this hash.
    pub(crate) async fn begin(&self, key: Hash) -> Result<Token> {
        let token = Token::new()?;
        let session = Session {
            key: hex(&key),
            expires_at: (self.clock.now() + LASTS).as_millis(),
        };
        if let Some(records) = &self.records {
            let body = serde_json::to_string(&session);
            let body = body.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
            let write = RecordWrite {
                key: record_key(token.hash()),
                expected: Expected::Absent,
                body: Some(body),
            };
            let written = records.write_records(&[write]).await?;
            if !written {
                return Err(Error::new(ErrorKind::Conflict, "try to sign in again"));
            }
            // A sweep that fails is repeated at the next sign-in.
            let _ = self.sweep(&**records).await;
        }
        self.remember(token.hash(), session);
        Ok(token)
    }

    /// The hash of the API key that the session belongs to; `None`: the session ended or never was.
    pub(crate) async fn key_of(&self, token: &Token) -> Result<Option<Hash>> {
        let hash = token.hash();
        let now = self.clock.monotonic();
        let is_stored = self.records.is_some();
        let fresh = |(session, at): &(Session, Duration)| {
            let is_fresh = !is_stored || now.saturating_sub(*at) < GOOD_FOR;
            is_fresh.then(|| session.clone())
        };
        let cached = lock(&self.cached).get(&hash).and_then(fresh);
        let session = match (cached, &self.records) {
            (Some(session), _) => Some(session),
            (None, Some(records)) => {
                let read = records.read_records(&[record_key(hash)]).await?;
                let body = read.into_iter().next().flatten().map(|record| record.body);
                body.and_then(|body| serde_json::from_str(&body).ok())
            }
            (None, None) => None,
        };
        let Some(session) = session.filter(|session| !self.is_over(session)) else {
            lock(&self.cached).remove(&hash);
            return Ok(None);
        };
        let key = unhex(&session.key);
        self.remember(hash, session);
        Ok(key)
    }

    /// Ends a session on every node.
    pub(crate) async fn end(&self, token: &Token) -> Result<()> {
        lock(&self.cached).remove(&token.hash());
        let Some(records) = &self.records else {
            return Ok(());
        };
        let write = RecordWrite {
            key: record_key(token.hash()),
            expected: Expected::Anything,
            body: None,
        };
        records.write_records(&[write]).await.map(|_| ())
    }

    fn is_over(&self, session: &Session) -> bool {
        self.clock.now() >= Timestamp::from_millis(session.expires_at)
    }

    fn remember(&self, hash: Hash, session: Session) {
        let mut cached = lock(&self.cached);
        if cached.len() >= CACHED_MAX && !cached.contains_key(&hash) {
            match self.records {
                Some(_) => cached.clear(),
                // Sessions without a store are lost with the cache: drop the one that ends first.
                None => {
                    let first = cached.iter().min_by_key(|(_, (one, _))| one.expires_at);
                    let first = first.map(|(hash, _)| *hash);
                    first.map(|hash| cached.remove(&hash));
                }
            }
        }
        cached.insert(hash, (session, self.clock.monotonic()));
    }

    /// Deletes sessions that have ended.
    async fn sweep(&self, records: &dyn Records) -> Result<()> {
        let list = RecordList {
            prefix: PREFIX.to_owned(),
            descending: false,
            after: None,
            limit: SWEEP_MAX,
        };
        let is_over = |body: &str| {
            let session = serde_json::from_str::<Session>(body);
            session.map_or(true, |session| self.is_over(&session))
        };
        let listed = records.list_records(&list).await?;
        let ended = listed.into_iter().filter(|record| is_over(&record.body));
        let writes = ended.map(|record| RecordWrite {
            key: record.key,
            expected: Expected::Version(record.version),
            body: None,
        });
        let writes: Vec<RecordWrite> = writes.collect();
        match writes.is_empty() {
            true => Ok(()),
            false => records.write_records(&writes).await.map(|_| ()),
        }
    }

    /// How long this address has to wait before its next sign-in.
    pub(crate) fn pause(&self, address: Option<IpAddr>) -> Option<Duration> {
        let failures = lock(&self.failures).get(&address).copied()?;
        let over = failures.count.checked_sub(FREE_TRIES)?;
        let pause = Duration::from_secs(1).saturating_mul(2_u32.saturating_pow(over));
        let since = self.clock.monotonic().saturating_sub(failures.last);
        let left = pause.min(PAUSE_MAX).saturating_sub(since);
        (!left.is_zero()).then_some(left)
    }

    /// Notes a sign-in that was refused.
    pub(crate) fn failed(&self, address: Option<IpAddr>) {
        let now = self.clock.monotonic();
        let mut failures = lock(&self.failures);
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&address) {
            failures.clear();
        }
        let entry = failures.entry(address).or_insert(Failures {
            count: 0,
            last: now,
        });
        // An address that was quiet for long starts again.
        if now.saturating_sub(entry.last) > 2 * PAUSE_MAX {
            entry.count = 0;
        }
        entry.count = entry.count.saturating_add(1);
        entry.last = now;
    }

    /// Notes a sign-in that succeeded.
    pub(crate) fn succeeded(&self, address: Option<IpAddr>) {
        lock(&self.failures).remove(&address);
    }
}

fn record_key(hash: Hash) -> String {
    format!("{PREFIX}{}", hex(&hash))
}

#[cfg(test)]
mod tests {
    use clinch_memory::Memory;
    use clinch_system::SystemClock;

    use super::*;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    #[test]
    fn core_16_a_token_hides_and_only_whole_tokens_are_read() {
        let token = Token::new().expect("randomness");
        assert_eq!(format!("{token:?}"), "Token(***)");
        assert!(Token::read(token.reveal()).is_some());
        assert!(Token::read(&token.reveal()[1..]).is_none());
        assert!(Token::read(&"g".repeat(64)).is_none());
        assert_ne!(token.csrf(), Token::new().expect("randomness").csrf());
        assert_eq!(unhex(&hex(&token.hash())), Some(token.hash()));
    }

    #[tokio::test]
    async fn core_16_a_session_holds_on_another_node_and_ends_everywhere() {
        let memory = Memory::new(clock());
        let node = || {
            let records: Arc<dyn Records> = Arc::new(memory.clone());
            Sessions::new(Some(records), clock()).expect("randomness")
        };
        let (one, other) = (node(), node());
        let token = one.begin([7; 32]).await.expect("begun");
        assert_eq!(other.key_of(&token).await.expect("read"), Some([7; 32]));
        let stored = memory
            .list_records(&RecordList {
                prefix: PREFIX.to_owned(),
                descending: false,
                after: None,
                limit: 10,
            })
            .await
            .expect("listed");
        assert_eq!(stored.len(), 1);
        assert!(!stored[0].key.contains(token.reveal()));
        other.end(&token).await.expect("ended");
        let fresh = node();
        assert_eq!(fresh.key_of(&token).await.expect("read"), None);
    }

    #[test]
    fn core_16_failed_sign_ins_slow_down_their_address_only() {
        let sessions = Sessions::new(None, clock()).expect("randomness");
        let (one, other) = (Some(IpAddr::from([127, 0, 0, 1])), None);
        for _ in 0..FREE_TRIES {
            assert_eq!(sessions.pause(one), None);
            sessions.failed(one);
        }
        assert!(sessions.pause(one).is_some());
        assert_eq!(sessions.pause(other), None);
        sessions.succeeded(one);
        assert_eq!(sessions.pause(one), None);
    }
}
