//! How a request reaches the API.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use sha2::{Digest, Sha256};

/// Sends requests. Follows no redirect, adds no token of its own, and knows of no limit.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends one GET.
    ///
    /// - An answer of any status is `Ok`.
    /// - Ends after the time that the transport was given; what it read by then is dropped.
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken>;
}

/// One GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequest {
    /// The whole address.
    pub url: String,
    /// Whose budget is spent.
    pub token: Option<Token>,
    /// The answer that is known already.
    pub if_none_match: Option<String>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiAnswer {
    /// HTTP status.
    pub status: u16,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body as it was sent, decompressed.
    pub body: Vec<u8>,
}

impl ApiAnswer {
    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// No answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// No byte left this machine.
    #[error("not sent: {0}")]
    NotSent(String),
    /// This machine has no descriptor, port or socket buffer left: nobody was dialled.
    #[error("not sent: {0}")]
    Exhausted(String),
    /// It may have arrived.
    #[error("no answer: {0}")]
    Lost(String),
}

/// A secret. Shown as the first eight digits of its hash.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(String);

impl Token {
    /// Takes a token as GitHub gave it.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The token itself, for the `Authorization` header and nothing else.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Names it in keys, logs and views: 16 hex digits of its SHA-256.
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = self.hash();
        write!(f, "Token({})", hash.get(..8).unwrap_or_default())
    }
}
