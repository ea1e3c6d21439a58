//! The two request headers that a durable endpoint reads.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;

use crate::Problem;

/// Longest key, in bytes: the four keys of an operation fit an index row of every store.
const KEY_BYTES_MAX: usize = 255;

/// The caller's `Idempotency-Key` header, bare or in quotes. A header that is missing, empty, too
/// long, no text or given twice is answered with 400 and what to do.
///
/// ```
/// use clinch_axum::IdempotencyKey;
///
/// async fn endpoint(key: IdempotencyKey) -> String {
///     format!("your key has {} bytes", key.as_str().len())
/// }
/// # let _ = endpoint;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The name of the header.
    pub const HEADER: &'static str = "idempotency-key";

    /// The key without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of these headers.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut given = headers.get_all(Self::HEADER).iter();
        let Some(value) = given.next() else {
            let detail = "send an Idempotency-Key header: a fresh random value such as a UUID for a \
                          new request, and the same value when you repeat that request";
            return Err(refused("idempotency_key_missing", detail));
        };
        let refuse = |problem: &str| {
            let detail = format!("the Idempotency-Key header {problem}");
            refused("idempotency_key_invalid", &detail)
        };
        if given.next().is_some() {
            return Err(refuse("is given twice; send it once"));
        }
        let text = std::str::from_utf8(value.as_bytes());
        let text = text.map_err(|_| refuse("is not text in UTF-8; send a UUID"))?;
        let key = match text.trim().strip_prefix('"') {
            Some(quoted) => unquoted(quoted).ok_or_else(|| refuse("ends within its quotes"))?,
            None => text.trim().to_owned(),
        };
        if key.trim().is_empty() {
            return Err(refuse("is empty; send a fresh random value such as a UUID"));
        }
        if key.len() > KEY_BYTES_MAX {
            let problem = format!("has {} bytes; send at most {KEY_BYTES_MAX}", key.len());
            return Err(refuse(&problem));
        }
        if key.chars().any(char::is_control) || key.trim() != key {
            let problem = "has control characters, or white space at an end; send a UUID";
            return Err(refuse(problem));
        }
        Ok(Self(key))
    }
}

fn refused(code: &str, detail: &str) -> Problem {
    Problem::bad_request(code, detail).with("field", "idem_key")
}

/// The text before the closing quote, which must be the last character.
fn unquoted(text: &str) -> Option<String> {
    let mut key = String::with_capacity(text.len());
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return chars.as_str().is_empty().then_some(key),
            '\\' => key.push(chars.next()?),
            other => key.push(other),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::of(&parts.headers)
    }
}

/// How long the caller is willing to wait (`Prefer: wait=N`, RFC 7240), at most `MAX_SECS`.
/// `Prefer: respond-async` is a wait of zero. Preferences that are unknown or make no sense are
/// ignored, as the RFC requires.
///
/// ```
/// use std::time::Duration;
/// use axum::http::HeaderMap;
/// use clinch_axum::PreferWait;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("prefer", "wait=600".parse().expect("a value"));
/// let wait = PreferWait::<30>::of(&headers);
/// assert_eq!(wait.or(Duration::from_secs(3)), Duration::from_secs(30));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreferWait<const MAX_SECS: u64>(Option<Duration>);

impl<const MAX_SECS: u64> PreferWait<MAX_SECS> {
    /// The preference of these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let most = Duration::from_secs(MAX_SECS);
        Self(preferred(headers).map(|wait| wait.min(most)))
    }

    /// What the caller prefers, or else `otherwise`; never more than the maximum.
    pub fn or(self, otherwise: Duration) -> Duration {
        let most = Duration::from_secs(MAX_SECS);
        self.0.unwrap_or(otherwise).min(most)
    }
}

impl<S: Send + Sync, const MAX_SECS: u64> FromRequestParts<S> for PreferWait<MAX_SECS> {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.headers))
    }
}

/// The first `wait` counts, and more than `respond-async`.
pub(crate) fn preferred(headers: &HeaderMap) -> Option<Duration> {
    let (mut wait, mut is_async) = (None, false);
    let values = headers.get_all("prefer").iter();
    for value in values.filter_map(|value| value.to_str().ok()) {
        for preference in value.split(',') {
            let first = preference.split(';').next().unwrap_or_default();
            let (name, value) = first.split_once('=').unwrap_or((first, ""));
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "respond-async" => is_async = true,
                "wait" if wait.is_none() => wait = whole(value).map(Duration::from_secs),
                _ => {}
            }
        }
    }
    wait.or(is_async.then_some(Duration::ZERO))
}

/// Decimal digits. A number with too many of them is still a long wait.
fn whole(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::response::IntoResponse as _;

    use super::*;

    fn key(values: &[&[u8]]) -> Result<String, u16> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value).expect("a header");
            headers.append(IdempotencyKey::HEADER, value);
        }
        let key = IdempotencyKey::of(&headers).map(|key| key.0);
        key.map_err(|problem| problem.into_response().status().as_u16())
    }

    #[test]
    fn a_key_is_text_given_once() {
        assert_eq!(key(&[b"c0ffee"]).as_deref(), Ok("c0ffee"));
        assert_eq!(key(&[b"\"c0ffee\""]).as_deref(), Ok("c0ffee"));
        assert_eq!(key(&[b"\"a\\\"b\""]).as_deref(), Ok("a\"b"));
        assert_eq!(key(&["열쇠".as_bytes()]).as_deref(), Ok("열쇠"));
        assert_eq!(key(&[&[b'x'; 255]]).map(|key| key.len()), Ok(255));
        let refused: [&[&[u8]]; 9] = [
            &[],
            &[b""],
            &[b"   "],
            &[b"\"\""],
            &[b"\"open"],
            &[b"\xff\xfe"],
            &[&[b'x'; 256]],
            &[b"a", b"a"],
            &[b"a", b"b"],
        ];
        for values in refused {
            assert_eq!(key(values), Err(400), "{values:?}");
        }
        assert_eq!(key(&[b"\" a\""]), Err(400), "white space at an end");
        assert_eq!(key(&[b"a\tb"]), Err(400), "a control character");
    }

    #[test]
    fn a_wait_is_bounded_and_nonsense_is_ignored() {
        let wait = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("prefer", HeaderValue::from_str(value).expect("a header"));
            }
            let wait = PreferWait::<30>::of(&headers);
            wait.or(Duration::from_secs(3)).as_secs()
        };
        assert_eq!(wait(&[]), 3);
        assert_eq!(wait(&["wait=7"]), 7);
        assert_eq!(wait(&["Wait = \"7\"; x=1, wait=9"]), 7);
        assert_eq!(wait(&["respond-async"]), 0);
        assert_eq!(wait(&["respond-async", "wait=5"]), 5);
        assert_eq!(wait(&["wait=99999999999999999999999"]), 30);
        for nonsense in ["wait=-1", "wait=1.5", "wait=", "wait", "waiting=4", ""] {
            assert_eq!(wait(&[nonsense]), 3, "{nonsense}");
        }
        let long = PreferWait::<30>::of(&HeaderMap::new());
        assert_eq!(long.or(Duration::MAX), Duration::from_secs(30));
    }
}
