//! Decides the answer to a request: credentials, limits, faults, answer, cost.

use std::time::Duration;

use clinch::testing::SplitMix;
use clinch::types::Timestamp;
use sha2::{Digest, Sha256};

use super::answer::{Ask, ok, refusal};
use super::app;
use super::faults::Fault;
use super::limits::{Budget, Budgets, ExceededLimit, Secondary, refuse_primary};
use super::tally::Tally;
use super::world::World;
use super::{Caller, Get, Reply, Restless, Setup};
use crate::{ApiAnswer, Token};

const BAD_CREDENTIALS: &str = "Bad credentials";

/// State that all requests share.
pub(super) struct State {
    pub(super) world: World,
    pub(super) setup: Setup,
    budgets: Budgets,
    pub(super) tally: Tally,
    in_flight: u32,
}

impl State {
    pub(super) fn new(world: World, setup: Setup) -> Self {
        Self {
            world,
            setup,
            budgets: Budgets::default(),
            tally: Tally::default(),
            in_flight: 0,
        }
    }

    /// Counts a request in; returns whether a secondary limit refuses it.
    pub(super) fn arrive(&mut self, caller: Caller<'_>, now: Timestamp) -> bool {
        self.in_flight += 1;
        self.tally.concurrent_max = self.tally.concurrent_max.max(self.in_flight);
        let limits = &self.setup.limits;
        match caller {
            Caller::BadToken => false,
            Caller::Anonymous => self.budgets.of(None, limits).arrive(now, limits),
            Caller::Account(name) => self.budgets.of(Some(name), limits).arrive(now, limits),
        }
    }

    pub(super) fn leave(&mut self, caller: Caller<'_>) {
        self.in_flight -= 1;
        match caller {
            Caller::BadToken => {}
            Caller::Anonymous => self.budget(None).leave(),
            Caller::Account(name) => self.budget(Some(name)).leave(),
        }
    }

    fn budget(&mut self, account: Option<&str>) -> &mut Budget {
        self.budgets.of(account, &self.setup.limits)
    }

    /// The budget that a request is counted in.
    fn spent(&mut self, get: &Get<'_>, account: Option<&str>) -> &mut Budget {
        match is_search(get) {
            true => self.budgets.of_searches(account, &self.setup.limits),
            false => self.budget(account),
        }
    }

    /// The answer, and how long it takes.
    pub(super) fn decide(
        &mut self,
        get: &Get<'_>,
        caller: Caller<'_>,
        now: Timestamp,
        is_throttled: bool,
    ) -> (Reply, Duration) {
        self.tally.requests += 1;
        *self.tally.by_url.entry(get.target.to_owned()).or_default() += 1;
        let revoked = get
            .token
            .is_some_and(|token| self.setup.faults.revokes(token.secret()));
        if let Some(answer) = self.for_app(get, now) {
            return self.reply(answer);
        }
        if let Some(answer) = self.for_suspended(get.token) {
            return self.reply(answer);
        }
        let revoked = revoked || get.is_post || self.has_ended(get.token, now);
        let account = match caller {
            Caller::Account(name) if !revoked => Some(name),
            Caller::Anonymous => None,
            _ => return self.reply(refusal(401, BAD_CREDENTIALS)),
        };
        let name = account.unwrap_or("anonymous").to_owned();
        *self.tally.by_account.entry(name.clone()).or_default() += 1;
        let limits = self.setup.limits.clone();
        let path = get.target.split('?').next();
        if path == Some("/rate_limit") {
            let answer = ok(&self.budget(account).overview(now));
            return self.reply_labelled(answer, account, now);
        }
        if let Some(over) = self.spent(get, account).admit(now, is_throttled) {
            let mut answer = self.refuse(over, account, now, limits.secondary);
            self.spent(get, account).label(&mut answer, now);
            return self.reply(answer);
        }
        let fault = self.setup.faults.draw(get.target);
        match fault {
            Some(Fault::LostBefore) => return self.lose(),
            Some(Fault::Status(401)) => return self.reply(refusal(401, BAD_CREDENTIALS)),
            _ => {}
        }
        if let Some(Fault::Secondary(how, pause)) = fault {
            self.budget(account).block(now, pause);
            let answer = self.refuse(ExceededLimit::Secondary, account, now, how);
            return self.reply_labelled(answer, account, now);
        }
        let mut answer = self.ask(get, account, fault.as_ref());
        if answer.status == 200 {
            tag(&mut answer, get);
        }
        if answer.status == 304 && self.setup.hides_links_on_304 {
            answer.headers.remove("link");
        }
        // Without a token even a 304 costs a request, as at GitHub.
        if answer.status != 304 || account.is_none() {
            let used = self.spent(get, account).spend();
            let most = match is_search(get) {
                true => self.tally.searches_max.entry(name),
                false => self.tally.window_max.entry(name),
            };
            let most = most.or_default();
            *most = used.max(*most);
        }
        self.spent(get, account).label(&mut answer, now);
        self.apply_fault(answer, fault, get.timeout)
    }

    /// Changes a restless world, after an answer.
    pub(super) fn stir(&mut self, now: Timestamp) {
        self.world.bustle(self.tally.requests, now);
        let Some(Restless { seed, share }) = self.setup.restless else {
            return;
        };
        let mut rng = SplitMix::new(seed ^ self.tally.requests.rotate_left(32));
        if rng.next_f64() < share {
            self.world.follow(now);
            self.world.upset(rng.next_u64(), 1);
        }
    }

    fn refuse(
        &mut self,
        over: ExceededLimit,
        account: Option<&str>,
        now: Timestamp,
        how: Secondary,
    ) -> ApiAnswer {
        match over {
            ExceededLimit::Primary => {
                self.tally.primary_refusals += 1;
                let user = account.and_then(|login| self.world.user(login));
                let id = user.map(|user| self.world.users[user].id);
                refuse_primary(account.map(|_| id.unwrap_or(1)))
            }
            ExceededLimit::Secondary => {
                self.tally.secondary_refusals += 1;
                self.budget(account).refuse_secondary(now, how)
            }
        }
    }

    fn ask(&self, get: &Get<'_>, account: Option<&str>, fault: Option<&Fault>) -> ApiAnswer {
        match fault {
            Some(Fault::Status(status)) => refusal(*status, "Server Error"),
            Some(Fault::Accepted) => ApiAnswer {
                status: 202,
                ..ApiAnswer::default()
            },
            _ => {
                let ask = Ask {
                    world: &self.world,
                    base: get.base,
                    paging: self.setup.paging,
                    links: self.setup.links,
                    account,
                    unlisted: self.setup.unlisted,
                    installed_at: self.installed_at(account),
                    refused: &self.setup.faults.repositories,
                };
                ask.answer(get.target)
            }
        }
    }

    /// The login where the app of this account is installed.
    fn installed_at(&self, account: Option<&str>) -> Option<&str> {
        let number = app::number(account?)?;
        self.setup.app.as_ref()?.login(number)
    }

    fn apply_fault(
        &mut self,
        mut answer: ApiAnswer,
        fault: Option<Fault>,
        timeout: Option<Duration>,
    ) -> (Reply, Duration) {
        let left = timeout.map(|timeout| timeout.saturating_sub(self.setup.latency));
        match fault {
            Some(Fault::LostAfter) => self.lose(),
            // There is no body to cut.
            Some(Fault::Cut) if answer.body.is_empty() => self.lose(),
            Some(Fault::Cut) => {
                self.tally.lost += 1;
                (Reply::Cut(answer), Duration::ZERO)
            }
            Some(Fault::Malformed) => {
                answer.body.truncate(answer.body.len() / 2);
                self.reply(answer)
            }
            Some(Fault::Slow(delay)) => match left.filter(|left| delay > *left) {
                Some(left) => (self.lose().0, left),
                None => (self.reply(answer).0, delay),
            },
            _ => self.reply(answer),
        }
    }

    fn lose(&mut self) -> (Reply, Duration) {
        self.tally.lost += 1;
        (Reply::Lost, Duration::ZERO)
    }

    fn reply_labelled(
        &mut self,
        mut answer: ApiAnswer,
        account: Option<&str>,
        now: Timestamp,
    ) -> (Reply, Duration) {
        let limits = &self.setup.limits;
        let budget = self.budgets.of(account, limits);
        budget.label(&mut answer, now);
        self.reply(answer)
    }

    fn reply(&mut self, answer: ApiAnswer) -> (Reply, Duration) {
        *self.tally.by_status.entry(answer.status).or_default() += 1;
        self.tally.not_modified += u64::from(answer.status == 304);
        (Reply::Answer(answer), Duration::ZERO)
    }
}

fn is_search(get: &Get<'_>) -> bool {
    get.target.starts_with("/search/")
}

/// Adds the ETag; turns the answer into a 304 if the client has this ETag.
fn tag(answer: &mut ApiAnswer, get: &Get<'_>) {
    let mut hash = Sha256::new();
    hash.update(get.token.map_or("", Token::secret).as_bytes());
    hash.update([0]);
    hash.update(&answer.body);
    let digits: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let etag = format!("W/\"{digits}\"");
    if get
        .if_none_match
        .is_some_and(|known| matches(known, &digits))
    {
        answer.status = 304;
        answer.body.clear();
        answer.headers.remove("content-type");
    }
    answer.headers.insert("etag".into(), etag);
}

/// Weak and strong ETags are treated alike.
fn matches(known: &str, digits: &str) -> bool {
    known.split(',').any(|one| {
        let one = one.trim();
        one.strip_prefix("W/").unwrap_or(one).trim_matches('"') == digits
    })
}
