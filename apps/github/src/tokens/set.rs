//! The tokens that a job may use.

use std::sync::Arc;

use crate::Token;

/// The tokens that a job may use: those of its user if there are any, otherwise the server's.
/// Tokens of another user are in no set.
#[derive(Debug, Clone)]
pub(crate) struct TokenSet {
    tokens: Arc<[Token]>,
    of: Owner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    User,
    Installation,
    Server,
}

impl TokenSet {
    /// The tokens of a user.
    pub(crate) fn of_user(tokens: Vec<Token>) -> Self {
        Self {
            tokens: tokens.into(),
            of: Owner::User,
        }
    }

    /// The token of the user's installation of the app.
    pub(crate) fn of_installation(token: Token) -> Self {
        Self {
            tokens: [token].into(),
            of: Owner::Installation,
        }
    }

    /// The server's tokens; without any, requests are anonymous.
    pub(crate) fn of_server(tokens: Arc<[Token]>) -> Self {
        Self {
            tokens,
            of: Owner::Server,
        }
    }

    /// Whether the tokens belong to the user whose data is collected.
    pub(crate) fn is_own(&self) -> bool {
        self.of != Owner::Server
    }

    /// Whether the token is that of an installation of the app.
    pub(crate) fn is_installation(&self) -> bool {
        self.of == Owner::Installation
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Whether requests are sent without a token.
    pub(super) fn is_anonymous(&self) -> bool {
        self.tokens.is_empty() && !self.is_own()
    }

    /// Every token once, beginning with the one at this turn.
    pub(super) fn from(&self, turn: usize) -> Vec<&Token> {
        let count = self.tokens.len();
        let at = |n| self.tokens.get((turn % count + n) % count);
        (0..count).filter_map(at).collect()
    }
}
