//! A GitHub App: its installations give tokens (COL-17).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::ports::{Clock as _, Records as _};
use clinch::testing::advance;
use clinch_github::fake::{self, BASE, Setup, Size, World};
use clinch_github::{
    App, JobFilter, JobState, RunId, Secrets, Settings, Space, Start, Token, TokenKey, TokenKeys,
    TokenReader, Trigger, UserTokenState,
};

use crate::lab::{Lab, assert_whole};

/// Keys that were made for these tests and open nothing.
const KEY: &str = include_str!("keys/app.pem");
const SAME_KEY: &str = include_str!("keys/app.pkcs8.pem");
const OTHER_KEY: &str = include_str!("keys/other.pem");

const HOUR: Duration = Duration::from_secs(3_600);

fn world() -> World {
    let size = Size {
        users: 2,
        repositories: 6,
        documents: 300,
    };
    let mut world = World::generate(3, &size);
    let names = world.full_names();
    for name in names.iter().filter(|name| name.starts_with("octocat/")) {
        world.make_private(name);
    }
    world
}

fn installed(numbers: &[(&str, u64)], lifetime: Duration) -> fake::App {
    let at = |(login, number): &(&str, u64)| ((*login).to_owned(), *number);
    fake::App {
        id: "1234".to_owned(),
        public_key: app(KEY).public_key(),
        installations: numbers.iter().map(at).collect(),
        suspended: BTreeSet::new(),
        lifetime,
    }
}

/// The same; the installation of octocat is suspended.
fn suspended(numbers: &[(&str, u64)]) -> fake::App {
    fake::App {
        suspended: BTreeSet::from(["octocat".to_owned()]),
        ..installed(numbers, HOUR)
    }
}

fn app(pem: &str) -> App {
    App::new("1234", pem).expect("a key")
}

fn settings(pem: &str) -> Settings {
    Settings {
        api_url: BASE.parse().expect("an address"),
        tokens: vec![Token::new("fake-server-1")],
        app: Some(app(pem)),
        ..Settings::default()
    }
}

async fn lab(pem: &str, app: fake::App, latency: Duration) -> Lab {
    let setup = Setup {
        app: Some(app),
        latency,
        ..Setup::default()
    };
    Lab::with(world(), setup, |given| *given = settings(pem)).await
}

fn sent(lab: &Lab) -> BTreeMap<String, u64> {
    lab.fake.tally().by_account
}

fn asked(lab: &Lab, path: &str) -> u64 {
    let tally = lab.fake.tally();
    tally.by_url.get(path).copied().unwrap_or_default()
}

async fn begun(lab: &Lab, login: &str) -> RunId {
    let run = lab.collector.start_with(login, &Start::default()).await;
    run.expect("it begins").run_id
}

#[tokio::test]
async fn col_17_an_installation_collects_what_its_user_has_opened_to_the_app() {
    let lab = lab(KEY, installed(&[("octocat", 42)], HOUR), Duration::ZERO).await;
    assert_whole(&lab.run("octocat").await);
    assert_eq!(sent(&lab).keys().collect::<Vec<_>>(), ["ghs-42"]);
    let new_token = "/app/installations/42/access_tokens";
    assert_eq!(asked(&lab, new_token), 1, "one token for the whole run");

    // The other user has not installed it.
    assert_whole(&lab.run("hubot").await);
    assert_eq!(asked(&lab, "/users/hubot/installation"), 1, "once a run");
    assert!(sent(&lab)["server"] > 0);
    lab.assert_equal(&["octocat", "hubot"]).await;
}

#[tokio::test]
async fn col_17_a_later_token_of_an_installation_knows_what_the_first_one_read() {
    let lab = lab(KEY, installed(&[("octocat", 42)], HOUR), Duration::ZERO).await;
    assert_whole(&lab.run("octocat").await);
    advance(&lab.clock, 2 * HOUR).await;
    let again = lab.run("octocat").await;
    assert_whole(&again);
    assert_eq!(asked(&lab, "/app/installations/42/access_tokens"), 2);
    assert_eq!(sent(&lab).keys().collect::<Vec<_>>(), ["ghs-42"]);
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_17_a_run_that_outlasts_its_tokens_goes_on_without_a_failed_job() {
    // Every request takes four seconds, and a token is replaced after six.
    let lifetime = Duration::from_secs(5 * 60 + 6);
    let app = installed(&[("octocat", 42)], lifetime);
    let lab = lab(KEY, app, Duration::from_secs(4)).await;
    let run = lab.run("octocat").await;
    assert_whole(&run);
    let tokens = asked(&lab, "/app/installations/42/access_tokens");
    assert!(tokens > 1, "{tokens}");
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_17_a_token_that_ends_early_is_replaced_without_a_failed_job() {
    let app = installed(&[("octocat", 42)], HOUR);
    let lab = lab(KEY, app, Duration::from_secs(5)).await;
    let run = begun(&lab, "octocat").await;
    advance(&lab.clock, Duration::from_secs(30)).await;
    assert!(sent(&lab)["ghs-42"] > 0);
    // The user has removed the app and installed it again.
    lab.fake.set_app(Some(installed(&[("octocat", 43)], HOUR)));
    let run = lab.end(&run).await;
    assert_whole(&run);
    assert!(sent(&lab)["ghs-43"] > 0);
    assert!(!sent(&lab).contains_key("server"));
    lab.assert_equal(&["octocat"]).await;
}

/// What the jobs wait for that are not done.
async fn waits(lab: &Lab, run: &RunId) -> BTreeSet<String> {
    let filter = JobFilter {
        state: Some(JobState::Ready),
        ..JobFilter::default()
    };
    let jobs = lab.collector.jobs(run, &filter, None, 500).await;
    let (jobs, _) = jobs.expect("jobs");
    jobs.into_iter().filter_map(|job| job.error).collect()
}

#[tokio::test]
async fn col_17_a_suspended_installation_is_waited_for_and_nothing_is_put_aside() {
    let lab = lab(KEY, installed(&[("octocat", 42)], HOUR), Duration::ZERO).await;
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
    advance(&lab.clock, 2 * HOUR).await;
    lab.fake.set_app(Some(suspended(&[("octocat", 42)])));
    let before = asked(&lab, "/users/octocat/installation");
    let run = begun(&lab, "octocat").await;
    advance(&lab.clock, Duration::from_secs(600)).await;
    let reasons = waits(&lab, &run).await;
    let is_clear = |reason: &String| reason.contains("is suspended");
    assert!(
        !reasons.is_empty() && reasons.iter().all(is_clear),
        "{reasons:?}"
    );
    let lookups = asked(&lab, "/users/octocat/installation") - before;
    assert!(lookups <= 11, "{lookups}");
    assert!(!sent(&lab).contains_key("server"));
    lab.assert_equal(&["octocat"]).await;

    let back = installed(&[("octocat", 42)], HOUR);
    lab.fake.set_app(Some(back));
    let run = lab.end(&run).await;
    assert_whole(&run);
    assert_eq!(run.pages.removed, 0, "{run:?}");
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_17_an_installation_that_is_suspended_during_a_run_is_waited_for() {
    let app = installed(&[("octocat", 42)], HOUR);
    let lab = lab(KEY, app, Duration::from_secs(5)).await;
    let run = begun(&lab, "octocat").await;
    // The user and the lists of events and repositories come first; those of repositories have begun.
    for _ in 0..60 {
        if sent(&lab).get("ghs-42").is_some_and(|sent| *sent > 3) {
            break;
        }
        advance(&lab.clock, Duration::from_secs(1)).await;
    }
    assert!(sent(&lab)["ghs-42"] > 3);
    lab.fake.set_app(Some(suspended(&[("octocat", 42)])));
    advance(&lab.clock, Duration::from_secs(600)).await;
    let reasons = waits(&lab, &run).await;
    assert!(
        reasons.iter().any(|reason| reason.contains("is suspended")),
        "{reasons:?}"
    );
    let new_tokens = asked(&lab, "/app/installations/42/access_tokens");
    assert!(new_tokens <= 3, "it is looked up again: {new_tokens}");
    lab.fake.set_app(Some(installed(&[("octocat", 42)], HOUR)));
    assert_whole(&lab.end(&run).await);
    assert!(!sent(&lab).contains_key("server"));
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_17_the_wrong_key_is_named_and_nothing_is_collected_with_less() {
    let app = installed(&[("octocat", 42)], HOUR);
    let lab = lab(OTHER_KEY, app, Duration::ZERO).await;
    let run = begun(&lab, "octocat").await;
    advance(&lab.clock, Duration::from_secs(120)).await;
    let reason = lab.waits_for(&run).await;
    assert!(reason.contains("github.app_private_key"), "{reason}");
    assert_eq!(sent(&lab), BTreeMap::new());

    let fixed = lab.restarted_with(settings(SAME_KEY)).await;
    assert_whole(&fixed.end(&run).await);
    fixed.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_17_a_private_key_is_shown_nowhere_and_nonsense_is_refused() {
    let shown = format!("{:?} {:?}", app(KEY), settings(KEY));
    let inside = KEY.lines().nth(1).expect("a line");
    assert!(
        !shown.contains(inside.get(..16).expect("digits")),
        "{shown}"
    );
    assert!(shown.contains("App(1234)"), "{shown}");
    let torn = KEY.replace(inside, "");
    let certificate = KEY.replace("RSA PRIVATE KEY", "CERTIFICATE");
    for wrong in ["", "-----BEGIN ", "ghp_secret", &torn, &certificate] {
        let error = App::new("1", wrong).expect_err("no key").to_string();
        assert!(error.contains("BEGIN RSA PRIVATE KEY"), "{error}");
        assert!(!error.contains("ghp_secret"), "{error}");
    }
}

#[tokio::test]
async fn col_17_a_trial_uses_the_installation_of_its_user_too() {
    let lab = lab(KEY, installed(&[("octocat", 42)], HOUR), Duration::ZERO).await;
    let start = Start {
        space: Space::Shadow,
        ..Start::default()
    };
    let run = lab.collector.start_with("octocat", &start).await;
    assert_whole(&lab.end(&run.expect("it begins").run_id).await);
    assert_eq!(sent(&lab).keys().collect::<Vec<_>>(), ["ghs-42"]);
}

/// Files that are read again.
#[derive(Clone, Default)]
struct Files(Arc<Mutex<Secrets>>);

impl Files {
    fn reader(&self) -> TokenReader {
        let files = self.0.clone();
        TokenReader::new(move || Ok(files.lock().expect("no panic").clone()))
    }

    fn write(&self, change: impl FnOnce(&mut Secrets)) {
        change(&mut self.0.lock().expect("no panic"));
    }
}

#[tokio::test]
async fn col_17_a_new_key_of_the_app_is_read_without_a_restart() {
    let files = Files::default();
    files.write(|secrets| {
        *secrets = Secrets {
            tokens: vec![Token::new("fake-server-1")],
            app: Some(app(OTHER_KEY)),
            ..Secrets::default()
        };
    });
    let setup = Setup {
        app: Some(installed(&[("octocat", 7)], HOUR)),
        ..Setup::default()
    };
    let reader = files.reader();
    let lab = Lab::with(world(), setup, |given| {
        *given = Settings {
            token_reader: reader,
            ..settings(OTHER_KEY)
        };
    })
    .await;
    let run = lab
        .collector
        .start("octocat", Trigger::Manual, Space::Main)
        .await;
    let run = run.expect("it begins").run_id;
    advance(&lab.clock, Duration::from_secs(5)).await;
    assert!(lab.waits_for(&run).await.contains("refuses the app"));
    assert!(
        !lab.collector.reload_tokens().await.expect("read"),
        "the same"
    );
    files.write(|secrets| secrets.app = Some(app(KEY)));
    assert!(lab.collector.reload_tokens().await.expect("read"));
    let before = lab.clock.now();
    assert_whole(&lab.end(&run).await);
    let took = lab.clock.now().since(before);
    assert!(
        took < Duration::from_secs(30),
        "waiting jobs go on: {took:?}"
    );
    lab.assert_equal(&["octocat"]).await;
}

#[tokio::test]
async fn col_17_new_keys_of_tokens_are_read_without_a_restart() {
    let key = |digit: char| -> TokenKey {
        let text: String = std::iter::repeat_n(digit, 64).collect();
        text.parse().expect("a key")
    };
    let files = Files::default();
    let old = || TokenKeys::from(vec![key('1')]);
    files.write(|secrets| secrets.token_keys = old());
    let reader = files.reader();
    let lab = Lab::with(world(), Setup::default(), |given| {
        given.token_keys = old();
        given.token_reader = reader;
    })
    .await;
    let token = Token::new("fake-octocat-1");
    lab.collector
        .add_token("octocat", &token)
        .await
        .expect("stored");
    let sealed = || async {
        let keys = ["github/tokens/octocat".to_owned()];
        let found = lab.memory.read_records(&keys).await.expect("read");
        found[0].as_ref().expect("a record").body.clone()
    };
    let before = sealed().await;
    // The new key seals every token again; then the old one may go.
    for (keys, is_usable) in [
        (vec![key('2'), key('1')], true),
        (vec![key('2')], true),
        (vec![key('3')], false),
    ] {
        files.write(|secrets| secrets.token_keys = keys.into());
        assert!(lab.collector.reload_tokens().await.expect("read"));
        assert_ne!(sealed().await, before);
        let tokens = lab.collector.user_tokens("octocat").await.expect("tokens");
        assert_eq!(tokens[0].state == UserTokenState::Usable, is_usable);
    }
    files.write(|secrets| secrets.token_keys = vec![key('2')].into());
    assert!(lab.collector.reload_tokens().await.expect("read"));
    assert_whole(&lab.run("octocat").await);
    lab.assert_equal(&["octocat"]).await;
}
