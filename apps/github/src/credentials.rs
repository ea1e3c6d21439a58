//! Which tokens a job uses, and which list of repositories they show.

use std::sync::atomic::{AtomicBool, Ordering};

use clinch::types::ErrorKind;
use clinch::{Error, Fail, Refusal, Result};

use crate::collector::Inner;
use crate::execute::not_called;
use crate::model::{PageJob, RunId};
use crate::records::Before;
use crate::streams::JobKind;
use crate::tokens::{NO_TOKEN_PAUSE, Throttled, TokenSet};
use crate::user_tokens::tokens_key;

/// The list of a user's repositories that a run reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    /// What everybody sees.
    Public,
    /// What the user sees: a token of the user's own account shows private repositories too.
    Own,
    /// What a member of the organization sees.
    Organization,
    /// What the owner has opened to the app.
    Installation,
}

/// What is to be done once, at the start and when tokens or keys have changed, until it succeeds.
pub(crate) struct Due {
    /// Seal the tokens of users with the first key.
    reseal: AtomicBool,
    /// Record which tokens of the server this process uses.
    note_tokens: AtomicBool,
    /// Make jobs due that wait for a token.
    wake: AtomicBool,
    /// One at a time does what is due: who is told that nothing is due must be able to rely on it.
    turn: tokio::sync::Mutex<()>,
}

impl Default for Due {
    fn default() -> Self {
        Self {
            reseal: AtomicBool::new(true),
            note_tokens: AtomicBool::new(true),
            wake: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
        }
    }
}

/// Something due that is being done. Unless it is done to its end, it is due again: also if the future
/// that does it is dropped, as that of a page job is when its time is over.
struct Doing<'a> {
    due: &'a AtomicBool,
    is_done: bool,
}

impl<'a> Doing<'a> {
    fn begin(due: &'a AtomicBool) -> Option<Self> {
        let is_due = due.swap(false, Ordering::SeqCst);
        // Not `then_some`: a value that is made and dropped would make it due.
        is_due.then(|| Self {
            due,
            is_done: false,
        })
    }

    fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.due.store(true, Ordering::SeqCst);
        }
    }
}

/// The address of a page, and the tokens that may ask for it.
pub(crate) type Page = (String, TokenSet);

impl Inner {
    /// The tokens of a job: those of its user; without any, the user's installation of the app;
    /// without one, the server's.
    pub(crate) async fn tokens_for(
        &self,
        run: &RunId,
        before: &Before,
    ) -> Result<Result<TokenSet, Throttled>> {
        let Some(stored) = &before.tokens else {
            return Ok(self.other_tokens(run).await);
        };
        let key = tokens_key(&run.login);
        let keys = &self.settings.token_keys;
        let opened = stored.iter().map(|one| keys.open(&key, one));
        Ok(match opened.collect::<Option<Vec<_>>>() {
            Some(opened) => Ok(TokenSet::of_user(opened)),
            // The server's tokens, and the others of the user, would show less, and what they do not
            // show would count as gone.
            None => Err(Throttled {
                wait: NO_TOKEN_PAUSE,
                reason:
                    "a token of the user was sealed with a key that github.token_keys does not \
                         have; add the key, or remove the token"
                        .to_owned(),
            }),
        })
    }

    async fn other_tokens(&self, run: &RunId) -> Result<TokenSet, Throttled> {
        Ok(match self.installation_token(run).await? {
            Some(token) => TokenSet::of_installation(token),
            None => TokenSet::of_server(self.tokens.server()),
        })
    }

    /// The address of the job's page and the tokens that may ask for it. A list that shows what a
    /// token's own account sees is asked for with the tokens of the job's user only: another token
    /// would show the repositories of another account.
    pub(crate) async fn page_of(
        &self,
        job: &PageJob,
        size: u32,
        url: String,
        tokens: TokenSet,
    ) -> Result<Result<Page, Throttled>, Refusal> {
        if job.kind != JobKind::USER_REPOS {
            return Ok(Ok((url, tokens)));
        }
        let login = &job.run_id.login;
        let own = match self.own(login, &tokens).await.map_err(not_called)? {
            Ok(own) => own,
            Err(throttled) => return Ok(Err(throttled)),
        };
        let api = &self.settings.api_url;
        if job.url.is_some() {
            return match (api.is_personal(&url), own) {
                (false, _) => Ok(Ok((url, tokens))),
                (true, Some(own)) => Ok(Ok((url, own))),
                (true, None) => {
                    let message = "the list was begun with a token of the user, which is gone; the \
                                   next run reads it again";
                    Err(Fail::new("token_gone", message).into())
                }
            };
        }
        let listing = match &own {
            Some(own) if own.is_installation() => Listing::Installation,
            Some(_) => Listing::Own,
            None if tokens.is_own() && self.is_organization(job).await.map_err(not_called)? => {
                Listing::Organization
            }
            None => Listing::Public,
        };
        let path = match listing {
            Listing::Public => return Ok(Ok((url, tokens))),
            Listing::Own => "/user/repos?affiliation=owner&sort=full_name".to_owned(),
            Listing::Organization => {
                let url = self.of_organization(login, size);
                return Ok(Ok((url, own.unwrap_or(tokens))));
            }
            Listing::Installation => "/installation/repositories?".to_owned(),
        };
        let separator = if path.ends_with('?') { "" } else { "&" };
        let url = api.at(&format!("{path}{separator}per_page={size}"));
        Ok(Ok((url, own.unwrap_or(tokens))))
    }

    /// The list of an organization's repositories that its members see.
    pub(crate) fn of_organization(&self, login: &str, size: u32) -> String {
        let path = format!("/orgs/{login}/repos?type=all&sort=full_name&per_page={size}");
        self.settings.api_url.at(&path)
    }

    /// Those of the tokens that belong to the user's own account, or to the user's installation;
    /// `None`: there are none.
    async fn own(
        &self,
        login: &str,
        tokens: &TokenSet,
    ) -> Result<Result<Option<TokenSet>, Throttled>> {
        if tokens.is_installation() {
            return Ok(Ok(Some(tokens.clone())));
        }
        if !tokens.is_own() {
            return Ok(Ok(None));
        }
        let (mut own, mut unknown) = (Vec::new(), None);
        for token in tokens.tokens() {
            match self.tokens.account(token).await? {
                Ok(account) if account.eq_ignore_ascii_case(login) => own.push(token.clone()),
                Ok(_) => {}
                Err(throttled) => unknown = Some(throttled),
            }
        }
        Ok(match (own.is_empty(), unknown) {
            (false, _) => Ok(Some(TokenSet::of_user(own))),
            // It may be the one of the user's account.
            (true, Some(throttled)) => Err(throttled),
            (true, None) => Ok(None),
        })
    }

    /// Whether the user is an organization, as this run has read it.
    async fn is_organization(&self, job: &PageJob) -> Result<bool> {
        let user = PageJob::first(&job.run_id, JobKind::USER_BASIC, None);
        let known = self.records.page(&user).await?;
        Ok(known.is_some_and(|known| known.is_organization))
    }

    /// Reads the server's secrets again, from where the configuration says. True: they have changed,
    /// and waiting jobs go on. An error says what could not be read or stored; everything else was
    /// done, and tokens that could not be sealed again are sealed later.
    pub(crate) async fn reload_tokens(&self) -> Result<bool> {
        let reader = self.settings.token_reader.clone();
        let failed = |_| Error::new(ErrorKind::Internal, "the tokens were not read");
        let read = tokio::task::spawn_blocking(move || reader.read());
        let secrets = match read.await.map_err(failed)? {
            None => return Ok(false),
            Some(Ok(secrets)) => secrets,
            Some(Err(why)) => {
                let message = format!(
                    "the tokens and keys could not be read, and the known ones stay in use: {why}"
                );
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
        };
        let has_keys = self.settings.token_keys.replace(&secrets.token_keys);
        if has_keys {
            tracing::info!(target: "clinch::github", "the keys of tokens were read again and have changed");
            self.due.reseal.store(true, Ordering::SeqCst);
        }
        let has_app = match (&self.settings.app, &secrets.app) {
            (Some(app), Some(other)) => app.replace(other),
            _ => false,
        };
        if has_app {
            tracing::info!(target: "clinch::github", "the app's private key was read again and has changed");
        }
        let has_tokens = self.tokens.replace_server(secrets.tokens);
        if has_tokens {
            let tokens = self.tokens.size();
            tracing::info!(target: "clinch::github", tokens, "the tokens were read again and have changed");
            self.due.note_tokens.store(true, Ordering::SeqCst);
        }
        let has_changed = has_keys || has_app || has_tokens;
        if has_changed {
            self.tokens.wake_waiters();
            self.due.wake.store(true, Ordering::SeqCst);
        }
        self.do_due().await?;
        Ok(has_changed)
    }

    /// Does what the start of the process, or other tokens and keys, have made due. What is not done to
    /// its end stays due.
    pub(crate) async fn do_due(&self) -> Result<()> {
        let _turn = self.due.turn.lock().await;
        let resealed = self.reseal_if_due().await;
        self.wake_if_due().await?;
        resealed
    }

    /// Notes which tokens this process uses. If they are others than before, or keys have changed,
    /// jobs that wait for a token are due.
    async fn wake_if_due(&self) -> Result<()> {
        let due = &self.due;
        if let Some(noting) = Doing::begin(&due.note_tokens) {
            let noted = self.records.note_tokens(&self.tokens.hashes()).await;
            // After an error they may have been noted all the same.
            if !matches!(noted, Ok(false)) {
                due.wake.store(true, Ordering::SeqCst);
            }
            noted?;
            noting.done();
        }
        if let Some(waking) = Doing::begin(&due.wake) {
            self.wake_waiting(None).await?;
            waking.done();
        }
        Ok(())
    }

    /// Seals the tokens of users again if another key is the first one now. Until that has succeeded
    /// once, it stays due.
    async fn reseal_if_due(&self) -> Result<()> {
        let Some(sealing) = Doing::begin(&self.due.reseal) else {
            return Ok(());
        };
        match self.reseal_tokens().await {
            Ok(tokens) => {
                sealing.done();
                if tokens > 0 {
                    tracing::info!(target: "clinch::github", tokens, "tokens of users were sealed again with the first of github.token_keys");
                }
                Ok(())
            }
            Err(error) => {
                tracing::error!(target: "clinch::github", %error, "not every token of users was sealed again with the first of github.token_keys: keep the earlier keys; will try again");
                Err(error)
            }
        }
    }

    /// After a refused token: a new one may be there already.
    pub(crate) async fn look_for_new_tokens(&self) -> bool {
        match self.reload_tokens().await {
            Ok(has_changed) => has_changed,
            Err(error) => {
                tracing::warn!(target: "clinch::github", %error, "looked for new tokens in vain");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_done_to_its_end_stays_due() {
        let due = AtomicBool::new(true);
        let doing = Doing::begin(&due).expect("it is due");
        assert!(Doing::begin(&due).is_none(), "it is being done");
        // The future that does it is dropped.
        drop(doing);
        Doing::begin(&due).expect("it is due again").done();
        assert!(Doing::begin(&due).is_none(), "it is done");
    }
}
