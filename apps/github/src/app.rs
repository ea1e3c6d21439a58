//! A GitHub App: tokens of its installations, one for each user who has installed it.
//!
//! The app signs its requests with its private key and gets tokens that are valid for an hour. A
//! token is replaced before it ends, and when the API refuses it. All tokens of an installation are
//! known by one name: they share a budget, and what was read with one is known to the next.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use clinch::types::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::json;

use crate::collector::Inner;
use crate::model::{InvalidText, RunId};
use crate::tokens::{NO_TOKEN_PAUSE, Throttled};
use crate::{ApiAnswer, ApiRequest, ApiUrl, Token, Transport, answer, base64};

/// The API's clock may be behind this one.
const CLOCK_MARGIN_SECS: i64 = 60;
/// How long a signed request is valid; the API takes ten minutes at most.
const SIGNED_SECS: i64 = 9 * 60;
/// A token is replaced so long before its end: longer than a request and the difference of clocks.
const REPLACED_BEFORE: Duration = Duration::from_secs(5 * 60);
/// Pause after an answer that holds no token.
const NO_ANSWER_PAUSE: Duration = Duration::from_secs(30);

/// Pause before an installation that is gone is looked for again.
const GONE_PAUSE: Duration = Duration::from_secs(1);

/// Users of whom a process remembers the installation. Of one that is forgotten, the next job asks
/// again.
const KNOWN_MAX: usize = 10_000;

/// A GitHub App: its id and its private key. `Debug` shows the id only. Clones share what
/// `replace` changes.
#[derive(Clone)]
pub struct App {
    id: String,
    key: Arc<RwLock<Arc<RsaKeyPair>>>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "App({})", self.id)
    }
}

impl App {
    /// An app with the private key that GitHub made for it: a PEM file of an RSA key. The error
    /// shows no part of the key.
    pub fn new(id: &str, pem: &str) -> Result<Self, InvalidText> {
        let wrong = || {
            let message = "is not an RSA private key as GitHub makes it: a file that begins with \
                           -----BEGIN RSA PRIVATE KEY-----";
            InvalidText(message.to_owned())
        };
        let (_, rest) = pem.split_once("-----BEGIN ").ok_or_else(wrong)?;
        let (label, rest) = rest.split_once("-----").ok_or_else(wrong)?;
        let (text, _) = rest.split_once("-----END ").ok_or_else(wrong)?;
        let text: String = text.split_ascii_whitespace().collect();
        let der = base64::decoded(&text).ok_or_else(wrong)?;
        let key = match label {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&der),
            "PRIVATE KEY" => RsaKeyPair::from_pkcs8(&der),
            _ => return Err(wrong()),
        };
        Ok(Self {
            id: id.to_owned(),
            key: Arc::new(RwLock::new(Arc::new(key.map_err(|_| wrong())?))),
        })
    }

    fn key(&self) -> Arc<RsaKeyPair> {
        let key = self.key.read().unwrap_or_else(PoisonError::into_inner);
        key.clone()
    }

    /// The public key, DER as in PKCS #1.
    pub fn public_key(&self) -> Vec<u8> {
        self.key().public().as_ref().to_vec()
    }

    /// Signs with the key of the other one from now on. False: it is the same key.
    pub(crate) fn replace(&self, other: &Self) -> bool {
        let is_new = self.public_key() != other.public_key();
        if is_new {
            *self.key.write().unwrap_or_else(PoisonError::into_inner) = other.key();
        }
        is_new
    }

    /// A signed request: a JSON web token that is valid for some minutes.
    fn signed(&self, now: Timestamp) -> Option<Token> {
        let now = now.as_millis().div_euclid(1_000);
        let part = |value: serde_json::Value| base64::url_encoded(value.to_string().as_bytes());
        let header = part(json!({ "alg": "RS256", "typ": "JWT" }));
        let claims = part(json!({
            "iat": now - CLOCK_MARGIN_SECS,
            "exp": now + SIGNED_SECS,
            "iss": self.id,
        }));
        let text = format!("{header}.{claims}");
        let key = self.key();
        let mut signature = vec![0; key.public().modulus_len()];
        let random = SystemRandom::new();
        let signed = key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature);
        signed.ok()?;
        let signature = base64::url_encoded(&signature);
        Some(Token::new(format!("{text}.{signature}")))
    }

    /// Asks the API whether it knows the app, for a check of the configuration: the answer's
    /// status.
    pub async fn check(
        &self,
        api_url: &ApiUrl,
        transport: &dyn Transport,
        now: Timestamp,
    ) -> Result<u16, crate::Broken> {
        let request = request(api_url.at("/app"), self.signed(now));
        transport.get(&request).await.map(|answer| answer.status)
    }
}

/// Names an installation: all of its tokens, and its budget.
fn name(number: u64) -> String {
    format!("installation {number}")
}

fn request(url: String, token: Option<Token>) -> ApiRequest {
    ApiRequest {
        url,
        token,
        if_none_match: None,
        accept: None,
    }
}

/// What is known of the app at a user.
#[derive(Clone)]
struct Installation {
    state: InstallationState,
    run: RunId,
    token: Option<(Token, Timestamp)>,
}

#[derive(Clone, Copy)]
enum InstallationState {
    /// The user has not installed the app, as of this run.
    Absent,
    /// The number of the installation, as of this run.
    Installed(u64),
    /// The API is not asked again before then.
    Suspended(Timestamp),
}

/// The installations that this process has used.
#[derive(Default)]
pub(crate) struct Installations {
    known: Mutex<BTreeMap<String, Installation>>,
    /// One lookup of a user at a time; the others then find what it got.
    asking: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Installations {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Installation>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token, if it is not about to end, or for how long there is none. The inner `None`: the
    /// user has not installed the app.
    fn token(&self, run: &RunId, now: Timestamp) -> Option<Result<Option<Token>, Throttled>> {
        let known = self.known();
        let known = known.get(&run.login)?;
        match (&known.token, known.state) {
            (Some((token, end)), _) if *end > now + REPLACED_BEFORE => {
                Some(Ok(Some(token.clone())))
            }
            (_, InstallationState::Absent) if known.run == *run => Some(Ok(None)),
            (_, InstallationState::Suspended(until)) if until > now => {
                Some(Err(suspended(until.since(now))))
            }
            _ => None,
        }
    }

    /// The number of the user's installation, as of this run.
    fn number(&self, run: &RunId) -> Option<u64> {
        let known = self.known();
        let known = known.get(&run.login).filter(|known| known.run == *run);
        match known?.state {
            InstallationState::Installed(number) => Some(number),
            InstallationState::Absent | InstallationState::Suspended(_) => None,
        }
    }

    fn note(
        &self,
        run: &RunId,
        state: InstallationState,
        token: Option<(Token, Timestamp)>,
        now: Timestamp,
    ) {
        let installation = Installation {
            state,
            run: run.clone(),
            token,
        };
        let mut known = self.known();
        if known.len() >= KNOWN_MAX && !known.contains_key(&run.login) {
            known.retain(|_, one| one.token.as_ref().is_some_and(|(_, end)| *end > now));
        }
        if known.len() >= KNOWN_MAX && !known.contains_key(&run.login) {
            known.clear();
        }
        known.insert(run.login.clone(), installation);
    }

    fn forget(&self, run: &RunId) {
        self.known().remove(&run.login);
    }

    /// The token is not used any more.
    pub(crate) fn drop_token(&self, hash: &str) {
        for known in self.known().values_mut() {
            let is_it = |(token, _): &(Token, Timestamp)| token.hash() == hash;
            if known.token.as_ref().is_some_and(is_it) {
                known.token = None;
            }
        }
    }

    fn asking(&self, login: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.retain(|_, lock| Arc::strong_count(lock) > 1);
        asking.entry(login.to_owned()).or_default().clone()
    }
}

/// What the API said to the app.
enum Told<T> {
    Yes(T),
    /// There is no such installation.
    No,
    /// The installation is suspended.
    Suspended,
    Wait(Throttled),
}

/// The server's tokens would show less, and what they do not show would count as gone.
fn suspended(wait: Duration) -> Throttled {
    Throttled {
        wait,
        reason: "the user's installation of the app is suspended: unsuspend it, or remove it, at \
                 GitHub"
            .to_owned(),
    }
}

impl Inner {
    /// The token of the user's installation of the app; the inner `None`: there is none.
    pub(crate) async fn installation_token(&self, run: &RunId) -> Result<Option<Token>, Throttled> {
        let Some(app) = &self.settings.app else {
            return Ok(None);
        };
        if let Some(known) = self.installations.token(run, self.clock.now()) {
            return known;
        }
        let asking = self.installations.asking(&run.login);
        let _asking = asking.lock().await;
        if let Some(known) = self.installations.token(run, self.clock.now()) {
            return known;
        }
        let note = |state, token| {
            let now = self.clock.now();
            self.installations.note(run, state, token, now);
        };
        let wait_suspended = || {
            let until = self.clock.now() + NO_TOKEN_PAUSE;
            note(InstallationState::Suspended(until), None);
            Err(suspended(NO_TOKEN_PAUSE))
        };
        let number = match self.installations.number(run) {
            Some(number) => number,
            None => match self.installation(app, &run.login).await {
                Told::Yes(number) => number,
                Told::No => {
                    note(InstallationState::Absent, None);
                    return Ok(None);
                }
                Told::Suspended => return wait_suspended(),
                Told::Wait(throttled) => return Err(throttled),
            },
        };
        // Noted at once: an attempt on a slow API may end before it has a token.
        note(InstallationState::Installed(number), None);
        match self.new_token(app, number).await {
            Told::Yes((token, end)) => {
                self.tokens.know_account(&token, &name(number));
                let known = Some((token.clone(), end));
                note(InstallationState::Installed(number), known);
                Ok(Some(token))
            }
            // It was removed, and may have been made again.
            Told::No => {
                self.installations.forget(run);
                Err(Throttled {
                    wait: GONE_PAUSE,
                    reason: "the installation of the app is gone".to_owned(),
                })
            }
            Told::Suspended => wait_suspended(),
            Told::Wait(throttled) => Err(throttled),
        }
    }

    /// The number of the user's installation.
    async fn installation(&self, app: &App, login: &str) -> Told<u64> {
        #[derive(Deserialize)]
        struct Found {
            id: u64,
            suspended_at: Option<String>,
        }
        let url = self
            .settings
            .api_url
            .at(&format!("/users/{login}/installation"));
        let request = request(url, app.signed(self.clock.now()));
        let answer = self.transport.get(&request).await;
        let found = |answer: &ApiAnswer| serde_json::from_slice::<Found>(&answer.body).ok();
        match told(answer, found) {
            Told::Yes(found) if found.suspended_at.is_some() => Told::Suspended,
            Told::Yes(found) => Told::Yes(found.id),
            Told::No => Told::No,
            Told::Suspended => Told::Suspended,
            Told::Wait(throttled) => Told::Wait(throttled),
        }
    }

    /// A new token of an installation, and when it ends.
    async fn new_token(&self, app: &App, number: u64) -> Told<(Token, Timestamp)> {
        #[derive(Deserialize)]
        struct Made {
            token: String,
            expires_at: String,
        }
        let path = format!("/app/installations/{number}/access_tokens");
        let url = self.settings.api_url.at(&path);
        let request = request(url, app.signed(self.clock.now()));
        let answer = self.transport.post(&request).await;
        let made = |answer: &ApiAnswer| {
            let made: Made = serde_json::from_slice(&answer.body).ok()?;
            let end: jiff::Timestamp = made.expires_at.parse().ok()?;
            let end = Timestamp::from_millis(end.as_millisecond());
            Some((Token::named(made.token, &name(number)), end))
        };
        told(answer, made)
    }
}

fn told<T>(
    answer: Result<ApiAnswer, crate::Broken>,
    read: impl FnOnce(&ApiAnswer) -> Option<T>,
) -> Told<T> {
    let wait = |wait, reason: &str| {
        Told::Wait(Throttled {
            wait,
            reason: reason.to_owned(),
        })
    };
    let Ok(answer) = answer else {
        return wait(NO_ANSWER_PAUSE, "the API does not answer the app");
    };
    match answer.status {
        200 | 201 => match read(&answer) {
            Some(value) => Told::Yes(value),
            None => wait(NO_ANSWER_PAUSE, "the API's answer to the app is not valid"),
        },
        404 => Told::No,
        403 if !answer::is_limit(&answer) => Told::Suspended,
        401 => {
            let reason = "the API refuses the app: check github.app_id, github.app_private_key and \
                          this machine's clock";
            tracing::error!(target: "clinch::github", reason);
            wait(NO_TOKEN_PAUSE, reason)
        }
        status => wait(
            NO_ANSWER_PAUSE,
            &format!("the API answers {status} to the app"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_remembers_a_bounded_number_of_installations() {
        let installations = Installations::default();
        let (past, now) = (Timestamp::from_millis(1), Timestamp::from_millis(2));
        let later = Timestamp::from_millis(3);
        let installed = InstallationState::Installed(1);
        let run = |n: usize| format!("u{n}.1").parse::<RunId>().expect("a run");
        let token = |end| Some((Token::new("t"), end));
        for n in 0..KNOWN_MAX {
            let end = if n == 7 { later } else { past };
            installations.note(&run(n), installed, token(end), now);
        }
        installations.note(&run(7), installed, token(later), now);
        assert_eq!(installations.known().len(), KNOWN_MAX);
        installations.note(&run(KNOWN_MAX), installed, None, now);
        let known = installations.known();
        assert_eq!(known.len(), 2);
        assert!(known.contains_key("u7"), "its token is valid");
    }
}
