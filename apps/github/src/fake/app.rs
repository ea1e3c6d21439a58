//! A GitHub App: signed requests, installations and their tokens.
//!
//! A token of an installation is `ghs-NUMBER-SECOND` and is refused from that second on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clinch::types::Timestamp;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::json;

use super::Get;
use super::answer::{created, not_found, ok, refusal};
use super::render::date;
use super::state::State;
use crate::{ApiAnswer, Token, base64};

/// A signed request may be valid for so long.
const SIGNED_MAX_SECS: i64 = 10 * 60;

/// A GitHub App that the fake knows.
#[derive(Debug, Clone)]
pub struct App {
    /// Its id, which signs requests.
    pub id: String,
    /// Its RSA public key, DER as in PKCS #1.
    pub public_key: Vec<u8>,
    /// Where it is installed: the number of the installation by login, in lower case.
    pub installations: BTreeMap<String, u64>,
    /// Whose installation is suspended: the logins, in lower case.
    pub suspended: BTreeSet<String>,
    /// How long a token of an installation is valid.
    pub lifetime: Duration,
}

impl App {
    /// Whether the token is a request signed by the app.
    fn has_signed(&self, token: &Token, now: Timestamp) -> bool {
        #[derive(Deserialize)]
        struct Claims {
            iss: String,
            iat: i64,
            exp: i64,
        }
        #[derive(Deserialize)]
        struct Header {
            alg: String,
        }
        let part = |text: &str| base64::decoded(text);
        let claims = || {
            let (signed, signature) = token.secret().rsplit_once('.')?;
            let (header, claims) = signed.split_once('.')?;
            let header: Header = serde_json::from_slice(&part(header)?).ok()?;
            let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key);
            key.verify(signed.as_bytes(), &part(signature)?).ok()?;
            let claims: Claims = serde_json::from_slice(&part(claims)?).ok()?;
            (header.alg == "RS256").then_some(claims)
        };
        let now = now.as_millis().div_euclid(1_000);
        claims().is_some_and(|claims| {
            claims.iss == self.id
                && claims.iat <= now
                && claims.exp > now
                && claims.exp - now <= SIGNED_MAX_SECS
        })
    }

    /// The login of an installation.
    pub(super) fn login(&self, number: u64) -> Option<&str> {
        let mut all = self.installations.iter();
        all.find(|(_, known)| **known == number)
            .map(|(login, _)| login.as_str())
    }

    fn is_suspended(&self, number: u64) -> bool {
        let login = self.login(number);
        login.is_some_and(|login| self.suspended.contains(login))
    }
}

/// What GitHub says to a suspended installation.
const SUSPENDED: &str = "This installation has been suspended";

/// Number and last second of an installation's token.
fn parts(secret: &str) -> Option<(u64, i64)> {
    let (number, end) = secret.strip_prefix("ghs-")?.split_once('-')?;
    Some((number.parse().ok()?, end.parse().ok()?))
}

/// The account of an installation's token: its budget is that of the installation.
pub(super) fn account(secret: &str) -> Option<&str> {
    parts(secret)?;
    secret.rsplit_once('-').map(|(account, _)| account)
}

/// The number of the installation that an account is.
pub(super) fn number(account: &str) -> Option<u64> {
    account.strip_prefix("ghs-")?.parse().ok()
}

impl State {
    /// Whether the token is one of an installation that has ended, or is no longer there.
    pub(super) fn has_ended(&self, token: Option<&Token>, now: Timestamp) -> bool {
        let Some((number, end)) = token.and_then(|token| parts(token.secret())) else {
            return false;
        };
        let app = self.setup.app.as_ref();
        let is_there = app.is_some_and(|app| app.login(number).is_some());
        !is_there || now.as_millis() >= end.saturating_mul(1_000)
    }

    /// The answer to a token of an installation that is suspended.
    pub(super) fn for_suspended(&self, token: Option<&Token>) -> Option<ApiAnswer> {
        let (number, _) = parts(token?.secret())?;
        let is_suspended = self.setup.app.as_ref()?.is_suspended(number);
        is_suspended.then(|| refusal(403, SUSPENDED))
    }

    /// The answer to a request that the app itself sends; `None`: it is none of those.
    pub(super) fn for_app(&self, get: &Get<'_>, now: Timestamp) -> Option<ApiAnswer> {
        let path = get.target.split('?').next().unwrap_or_default();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let is_for_app = matches!(
            segments.as_slice(),
            ["app", ..] | ["users", _, "installation"]
        );
        if !is_for_app {
            return None;
        }
        let app = self.setup.app.as_ref();
        let signed = |app: &&App| get.token.is_some_and(|token| app.has_signed(token, now));
        let Some(app) = app.filter(signed) else {
            return Some(refusal(401, "A JSON web token could not be decoded"));
        };
        let installation = |login: &str| {
            let number = *app.installations.get(&login.to_lowercase())?;
            let suspended_at = app.is_suspended(number).then(|| date(0));
            Some(ok(&json!({
                "id": number,
                "account": { "login": login },
                "suspended_at": suspended_at,
            })))
        };
        let token = |number: &str| {
            let number: u64 = number.parse().ok()?;
            app.login(number)?;
            if app.is_suspended(number) {
                return Some(refusal(403, SUSPENDED));
            }
            let end = (now + app.lifetime).as_millis().div_euclid(1_000);
            let token = format!("ghs-{number}-{end}");
            Some(created(&json!({ "token": token, "expires_at": date(end) })))
        };
        let answer = match (segments.as_slice(), get.is_post) {
            (["app"], false) => Some(ok(&json!({ "id": 1, "slug": "collector" }))),
            (["users", login, "installation"], false) => installation(login),
            (["app", "installations", number, "access_tokens"], true) => token(number),
            _ => None,
        };
        Some(answer.unwrap_or_else(not_found))
    }
}
