//! Tokens of users: stored, listed by their hashes, removed. No answer shows a token.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use clinch::Error;
use clinch::types::ErrorKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::documents::time;
use super::problem::{Problem, ProblemDocument};
use super::read::{Answer, Api, body, json};
use crate::model::login;
use crate::{Collector, Token, UserToken, UserTokenState};

/// A token to store.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenRequest {
    /// The token as GitHub issued it. It is sealed, and never shown again.
    #[schema(max_length = 500)]
    token: String,
}

/// A token of a user, identified by its hash.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserTokenDocument {
    /// The hash of the token; the token itself is never shown.
    token: String,
    /// The token's account, once it is known.
    account: Option<String>,
    /// When the token was stored.
    added_at: String,
    /// `usable`, `blocked`, `refused`, or `unreadable`: sealed with a key that this server does not
    /// have.
    state: &'static str,
}

impl From<UserToken> for UserTokenDocument {
    fn from(token: UserToken) -> Self {
        Self {
            token: token.token,
            account: token.account,
            added_at: time(token.added_at),
            state: match token.state {
                UserTokenState::Usable => "usable",
                UserTokenState::Blocked => "blocked",
                UserTokenState::Refused => "refused",
                UserTokenState::Unreadable => "unreadable",
            },
        }
    }
}

/// The tokens of a user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserTokensDocument {
    /// The user's login at GitHub.
    login: String,
    /// The tokens that only the runs of this user use.
    tokens: Vec<UserTokenDocument>,
}

fn user(text: &str) -> Result<String, Problem> {
    login(text).map_err(|error| Problem::field("login", error.to_string()))
}

async fn listed(collector: &Collector, login: String) -> Answer {
    let tokens = collector.user_tokens(&login).await?;
    let tokens = tokens.into_iter().map(UserTokenDocument::from).collect();
    json(StatusCode::OK, &UserTokensDocument { login, tokens })
}

/// List a user's own tokens.
///
/// Tokens that only the runs of this user use, by hash, with account and state.
#[utoipa::path(get, path = "/v1/github/users/{login}/tokens", tag = "github", operation_id = "list_user_tokens",
    params(("login" = String, Path)),
    responses(
        (status = 200, body = UserTokensDocument, description = "The tokens that only the runs of this user use, by their hashes"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
    ))]
pub(crate) async fn list(State(collector): State<Collector>, Path(name): Path<String>) -> Answer {
    listed(&collector, user(&name)?).await
}

/// Store a token of a user.
///
/// The token is sealed and never shown again. Storing the same token again changes nothing.
#[utoipa::path(put, path = "/v1/github/users/{login}/tokens", tag = "github", operation_id = "add_user_token",
    params(("login" = String, Path)),
    request_body = TokenRequest,
    responses(
        (status = 200, body = UserTokenDocument, description = "The token is stored, sealed; the same token again changes nothing"),
        (status = "4XX", body = ProblemDocument, description = "invalid_request"),
        (status = 409, body = ProblemDocument, content_type = "application/problem+json", description = "no_token_key"),
    ))]
pub(crate) async fn add(
    State(api): State<Api>,
    Path(name): Path<String>,
    request: Request,
) -> Answer {
    let given: TokenRequest = body(&api, request, "{\"token\":\"…\"}", false).await?;
    let name = user(&name)?;
    let token = Token::new(given.token);
    let added = api.collector.add_token(&name, &token).await;
    let added = added.map_err(|error: Error| match error.kind() {
        ErrorKind::Unsupported => Problem::conflict("no_token_key", error.message()),
        ErrorKind::Invalid => Problem::field("token", error.message()),
        _ => error.into(),
    })?;
    json(StatusCode::OK, &UserTokenDocument::from(added))
}

/// Remove a token of a user.
///
/// The path names the token by its hash. The answer lists the tokens that are left.
#[utoipa::path(delete, path = "/v1/github/users/{login}/tokens/{token}", tag = "github", operation_id = "remove_user_token",
    params(("login" = String, Path), ("token" = String, Path, description = "The token's hash")),
    responses(
        (status = 200, body = UserTokensDocument, description = "The token is removed; these are left"),
        (status = "4XX", body = ProblemDocument, description = "not_found, invalid_request"),
    ))]
pub(crate) async fn remove(
    State(collector): State<Collector>,
    Path((name, token)): Path<(String, String)>,
) -> Answer {
    let name = user(&name)?;
    collector.remove_token(&name, &token).await?;
    listed(&collector, name).await
}
