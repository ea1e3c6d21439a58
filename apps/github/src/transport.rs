//! The port that sends requests to the API.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

/// Sends requests. Follows no redirect, adds no token of its own, and applies no rate limit.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends one GET.
    ///
    /// - An answer of any status is `Ok`.
    /// - Gives up after the transport's own timeout; a partial answer is discarded.
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken>;

    /// Sends one POST without a body, as [`get`](Transport::get) does. Only a GitHub App needs it.
    async fn post(&self, _request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        Err(Broken::NotSent("this transport sends GET only".to_owned()))
    }
}

/// A GET request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequest {
    /// The complete address.
    pub url: String,
    /// The token, whose budget is used.
    pub token: Option<Token>,
    /// ETag of the answer that is known already.
    pub if_none_match: Option<String>,
    /// The form of the answer; `None`: GitHub's usual one.
    pub accept: Option<&'static str>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiAnswer {
    /// HTTP status.
    pub status: u16,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body as it was sent, decompressed.
    pub body: Vec<u8>,
}

impl ApiAnswer {
    /// An answer as it was received: repeated headers are one list (RFC 9110, 5.3). Names are in
    /// lower case.
    pub fn received(status: u16, lines: Vec<(String, String)>, body: Vec<u8>) -> Self {
        let mut headers: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in lines {
            match headers.get_mut(&name) {
                Some(list) => {
                    list.push_str(", ");
                    list.push_str(&value);
                }
                None => {
                    headers.insert(name, value);
                }
            }
        }
        Self {
            status,
            headers,
            body,
        }
    }

    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// There is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// No byte was sent.
    #[error("not sent: {0}")]
    NotSent(String),
    /// This machine has no descriptor, port or socket buffer left: no connection was opened.
    #[error("not sent: {0}")]
    Exhausted(String),
    /// The request may have arrived.
    #[error("no answer: {0}")]
    Lost(String),
}

/// A secret token. `Debug` shows the first eight digits of its hash.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    secret: String,
    hash: String,
}

impl Token {
    /// A token as GitHub issued it.
    pub fn new(secret: impl Into<String>) -> Self {
        let secret = secret.into();
        let hash = hash(&secret);
        Self { secret, hash }
    }

    /// A token that is replaced by another one every hour; all of them are known by one name.
    pub(crate) fn named(secret: String, name: &str) -> Self {
        let hash = hash(name);
        Self { secret, hash }
    }

    /// The token itself, for the `Authorization` header and nothing else.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Identifies the token in keys, logs and views: 16 hex digits of its SHA-256; for a token of
    /// an installation, of the installation's name.
    pub fn hash(&self) -> String {
        self.hash.clone()
    }
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let digits = digest.iter().take(8).map(|byte| format!("{byte:02x}"));
    digits.collect()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.hash.get(..8).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines_of_one_header_are_one_list() {
        let line = |value: &str| ("link".to_owned(), value.to_owned());
        let lines = vec![line("<a>; rel=\"prev\""), line("<b>; rel=\"next\"")];
        let answer = ApiAnswer::received(200, lines, Vec::new());
        let both = "<a>; rel=\"prev\", <b>; rel=\"next\"";
        assert_eq!(answer.header("link"), Some(both));
    }
}
