//! Tokens of users (COL-17): only the runs of their user use them, and the store cannot read them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clinch::Route;
use clinch::ports::{Expected, RecordList, RecordWrite, Records as _};
use clinch::testing::advance;
use clinch::types::{ErrorKind, Settled};
use clinch_github::fake::{BASE, Faults, Setup, Size, World};
use clinch_github::{
    FirstPage, JobKind, PageDone, PageEnd, PageJob, Pass, Repository, RunStatus, Secrets, Settings,
    Space, Start, Token, TokenKeys, TokenReader, UserTokenState,
};

use crate::lab::{Lab, assert_whole};

const SERVER: &str = "fake-server-1";
pub(crate) const OWN: &str = "fake-octocat-1";

pub(crate) fn world() -> World {
    let size = Size {
        users: 2,
        repositories: 6,
        documents: 300,
    };
    World::generate(3, &size)
}

/// Keys of one digit each; the first seals.
pub(crate) fn keys(digits: &str) -> TokenKeys {
    let key = |digit: char| {
        let text: String = std::iter::repeat_n(digit, 64).collect();
        text.parse().expect("a key")
    };
    digits.chars().map(key).collect::<Vec<_>>().into()
}

pub(crate) fn settings(digits: &str) -> Settings {
    Settings {
        api_url: BASE.parse().expect("an address"),
        tokens: vec![Token::new(SERVER)],
        token_keys: keys(digits),
        ..Settings::default()
    }
}

pub(crate) async fn lab(world: World) -> Lab {
    let set = |given: &mut Settings| *given = settings("1");
    Lab::with(world, Setup::default(), set).await
}

pub(crate) async fn add(lab: &Lab, login: &str, token: &str) -> String {
    let added = lab.collector.add_token(login, &Token::new(token)).await;
    added.expect("stored").token
}

pub(crate) fn sent(lab: &Lab) -> BTreeMap<String, u64> {
    lab.fake.tally().by_account
}

async fn shadow(lab: &Lab, login: &str) {
    let start = Start {
        space: Space::Shadow,
        ..Start::default()
    };
    let run = lab.collector.start_with(login, &start).await;
    assert_whole(&lab.end(&run.expect("it begins").run_id).await);
}

/// How a job ends that somebody submitted.
async fn forged(lab: &Lab, job: &PageJob) -> Result<PageDone, String> {
    let route: Route<PageJob, PageDone> = Route::new("github", job.kind.as_str());
    // One key for each path and run.
    let key = format!("{}:{}", job.run_id, job.url.clone().unwrap_or_default());
    let request = route.request("forged", key, job);
    let accepted = lab.clinch.submit(vec![request]).await.expect("accepted");
    let op_id = accepted.into_iter().next().expect("one").expect("accepted");
    advance(&lab.clock, Duration::from_secs(3_600)).await;
    let handle = lab.clinch.look(&route, op_id).await.expect("there");
    match handle.settled() {
        Some(Settled::Completed(done)) => Ok(done.value.clone()),
        Some(Settled::Failed(failure)) => Err(failure.code.clone()),
        other => panic!("it does not end: {other:?}"),
    }
}

fn job(run: &str, kind: JobKind) -> PageJob {
    PageJob {
        run_id: run.parse().expect("a run"),
        kind,
        repository: None,
        page: 1,
        hops: 0,
        url: None,
        since: None,
        seen: FirstPage::default(),
        is_full: false,
        is_owed: false,
        item: None,
        history: None,
        pass: Pass::default(),
        reading: clinch_github::Reading::default(),
        bounds: clinch_github::Bounds::default(),
        search: None,
    }
}

/// The first repository of a user.
pub(crate) fn repository_of(world: &World, login: &str) -> String {
    let names = world.full_names().into_iter();
    let mut own = names.filter(|name| name.starts_with(&format!("{login}/")));
    own.next().expect("a repository")
}

#[tokio::test]
async fn col_17_a_run_uses_the_tokens_of_its_user_and_no_other_run_does() {
    let lab = lab(world()).await;
    add(&lab, "OctoCat", OWN).await;
    assert_whole(&lab.run("octocat").await);
    assert_eq!(sent(&lab).keys().collect::<Vec<_>>(), ["octocat"]);
    shadow(&lab, "octocat").await;
    let own = sent(&lab);
    assert_eq!(
        own.keys().collect::<Vec<_>>(),
        ["octocat"],
        "in a trial too"
    );

    assert_whole(&lab.run("hubot").await);
    shadow(&lab, "hubot").await;
    let all = sent(&lab);
    assert_eq!(all["octocat"], own["octocat"], "not one request more");
    assert!(all["server"] > 0);
    lab.assert_equal(&["octocat", "hubot"]).await;
}

#[tokio::test]
async fn col_17_a_private_repository_is_collected_for_the_user_whose_token_sees_it() {
    let mut private = world();
    let name = repository_of(&private, "octocat");
    private.make_private(&name);
    let lab = lab(private).await;
    let place = format!("repo:{name}");
    let holds = async |lab: &Lab| {
        let documents = lab.documents(Space::Main).await;
        let about = |one: &&(String, String, String, String)| {
            one.2 == place || (one.0 == "repository" && one.3.contains(&format!("\"{name}\"")))
        };
        documents.iter().filter(about).count()
    };
    assert_whole(&lab.run("octocat").await);
    assert_eq!(holds(&lab).await, 0, "the server's token does not see it");

    let token = add(&lab, "octocat", OWN).await;
    assert_whole(&lab.run("octocat").await);
    assert_whole(&lab.run("hubot").await);
    lab.assert_equal(&["octocat", "hubot"]).await;
    assert!(holds(&lab).await > 1);
    let documents = lab.documents(Space::Main).await;
    let mut inside = documents.iter().filter(|one| one.2 == place);
    assert!(inside.all(|one| one.1 == "octocat"));

    // Without the token it is not seen any more, so it is put aside with everything in it.
    let removed = lab.collector.remove_token("octocat", &token).await;
    removed.expect("removed");
    assert_whole(&lab.run("octocat").await);
    assert_eq!(holds(&lab).await, 0);
}

#[tokio::test]
async fn col_17_a_forged_job_does_not_borrow_the_token_of_another_user() {
    let mut private = world();
    let name = repository_of(&private, "octocat");
    private.make_private(&name);
    let lab = lab(private).await;
    add(&lab, "octocat", OWN).await;
    assert_whole(&lab.run("hubot").await);
    crate::trouble::note_run(&lab.memory, "monalisa", "RUNNING").await;
    let before = sent(&lab);
    let repository = Some(Repository {
        default_branch: None,
        id: 1,
        full_name: name,
    });
    for run in ["hubot.1", "monalisa.1"] {
        let stolen = PageJob {
            repository: repository.clone(),
            ..job(run, JobKind::REPO_ISSUES)
        };
        let ended = forged(&lab, &stolen).await.map(|done| done.end);
        assert_eq!(ended, Ok(PageEnd::Unavailable), "{run}");
    }
    assert_eq!(sent(&lab).get("octocat"), before.get("octocat"));

    // There is no run of the user: nothing is sent for one.
    let of_octocat = PageJob {
        repository,
        ..job("octocat.1", JobKind::REPO_ISSUES)
    };
    assert_eq!(forged(&lab, &of_octocat).await, Err("canceled".to_owned()));
    assert_eq!(sent(&lab).get("octocat"), before.get("octocat"));
}

#[tokio::test]
async fn col_17_lists_of_a_tokens_own_account_are_asked_for_with_tokens_of_the_user_only() {
    let lab = lab(world()).await;
    assert_whole(&lab.run("hubot").await);
    let requests = lab.fake.tally().requests;
    for path in ["/user/repos", "/installation/repositories", "/%75ser/repos"] {
        let list = PageJob {
            url: Some(format!("{BASE}{path}?per_page=100")),
            page: 2,
            ..job("hubot.1", JobKind::USER_REPOS)
        };
        assert_eq!(
            forged(&lab, &list).await,
            Err("token_gone".to_owned()),
            "{path}"
        );
    }
    for path in ["/user", "/user/", "/user/emails", "/user/repos", "/app"] {
        let list = PageJob {
            url: Some(format!("{BASE}{path}")),
            ..job("hubot.1", JobKind::USER_BASIC)
        };
        let refused = Err("address_refused".to_owned());
        assert_eq!(forged(&lab, &list).await, refused, "{path}");
    }
    assert_eq!(lab.fake.tally().requests, requests, "nothing was sent");
}

#[tokio::test]
async fn col_17_a_copied_record_opens_for_no_other_user() {
    let lab = lab(world()).await;
    add(&lab, "octocat", OWN).await;
    let key = |login: &str| format!("github/tokens/{login}");
    let read = lab.memory.read_records(&[key("octocat")]).await;
    let record = read.expect("read").remove(0).expect("a record");
    assert!(!record.body.contains(OWN), "{}", record.body);
    let copy = RecordWrite {
        key: key("hubot"),
        expected: Expected::Absent,
        body: Some(record.body),
    };
    assert!(lab.memory.write_records(&[copy]).await.expect("written"));

    let listed = lab.collector.user_tokens("hubot").await.expect("listed");
    assert_eq!(listed[0].state, UserTokenState::Unreadable);
    let run = lab.collector.start_with("hubot", &Start::default()).await;
    let run = run.expect("it begins").run_id;
    advance(&lab.clock, Duration::from_secs(600)).await;
    let reason = lab.waits_for(&run).await;
    assert!(reason.contains("github.token_keys"), "{reason}");
    assert_eq!(sent(&lab), BTreeMap::new(), "nothing was sent for either");

    // Once the record is gone, the run goes on with the server's tokens.
    let token = &listed[0].token;
    lab.collector
        .remove_token("hubot", token)
        .await
        .expect("removed");
    assert_whole(&lab.end(&run).await);
}

#[tokio::test]
async fn col_17_a_new_token_lets_waiting_jobs_go_on_at_once() {
    let setup = Setup {
        faults: Faults::none().token(OWN),
        ..Setup::default()
    };
    let lab = Lab::with(world(), setup, |given| *given = settings("1")).await;
    let refused = add(&lab, "octocat", OWN).await;
    let run = lab.collector.start_with("octocat", &Start::default()).await;
    let run = run.expect("it begins").run_id;
    advance(&lab.clock, Duration::from_secs(200)).await;
    let listed = lab.collector.user_tokens("octocat").await.expect("listed");
    assert_eq!(listed[0].state, UserTokenState::Refused);
    assert_eq!(
        sent(&lab),
        BTreeMap::new(),
        "the server's token is no substitute"
    );

    add(&lab, "octocat", "fake-octocat-2").await;
    let removed = lab.collector.remove_token("octocat", &refused).await;
    removed.expect("removed");
    let run = lab.end(&run).await;
    assert_whole(&run);
    assert_eq!(sent(&lab).keys().collect::<Vec<_>>(), ["octocat"]);
    let listed = lab.collector.user_tokens("octocat").await.expect("listed");
    assert_eq!(listed[0].account.as_deref(), Some("octocat"));
    assert_eq!(listed[0].state, UserTokenState::Usable);
}

#[tokio::test]
async fn col_17_another_process_uses_a_changed_token_with_its_next_job() {
    let lab = lab(world()).await;
    // Another process of the same store stores the token: this one has read nothing of it before.
    let token = add(&lab, "octocat", OWN).await;
    let other = lab.restarted_with(settings("1")).await;
    assert_whole(&other.run("octocat").await);
    assert_eq!(sent(&lab).keys().collect::<Vec<_>>(), ["octocat"]);
    let own = sent(&lab)["octocat"];
    lab.collector
        .remove_token("octocat", &token)
        .await
        .expect("removed");
    assert_whole(&other.run("octocat").await);
    assert_eq!(sent(&lab)["octocat"], own, "it is not used any more");
}

#[tokio::test]
async fn col_17_keys_are_replaced_one_after_the_other() {
    let lab = lab(world()).await;
    add(&lab, "octocat", OWN).await;
    let record = async || {
        let read = lab
            .memory
            .read_records(&["github/tokens/octocat".into()])
            .await;
        read.expect("read").remove(0).expect("a record").body
    };
    let first = record().await;
    let both = lab.restarted_with(settings("21")).await;
    let second = record().await;
    assert_ne!(first, second, "the new key has sealed it again");
    let state = async |lab: &Lab| {
        let listed = lab.collector.user_tokens("octocat").await;
        listed.expect("listed")[0].state
    };
    assert_eq!(state(&both).await, UserTokenState::Usable);
    let new = both.restarted_with(settings("2")).await;
    assert_eq!(record().await, second, "there is nothing to do");
    assert_eq!(state(&new).await, UserTokenState::Usable);
    assert_whole(&new.run("octocat").await);
    let wrong = new.restarted_with(settings("3")).await;
    assert_eq!(state(&wrong).await, UserTokenState::Unreadable);
    assert_eq!(record().await, second, "what cannot be opened stays");
}

#[tokio::test]
async fn col_17_forgetting_a_user_deletes_the_tokens() {
    let lab = lab(world()).await;
    add(&lab, "octocat", OWN).await;
    add(&lab, "hubot", "fake-hubot-1").await;
    assert_whole(&lab.run("octocat").await);
    lab.collector.forget("octocat").await.expect("forgotten");
    // A user without any run has tokens to forget too.
    lab.collector.forget("hubot").await.expect("forgotten");
    for login in ["octocat", "hubot"] {
        let left = lab.collector.user_tokens(login).await.expect("listed");
        assert_eq!(left, [], "{login}");
    }
    let list = RecordList {
        prefix: String::new(),
        descending: false,
        after: None,
        limit: 1_000,
    };
    let all = lab.memory.list_records(&list).await.expect("listed");
    let about = |key: &str| key.starts_with("github/tokens/") || key.starts_with("github-token/");
    let left: Vec<_> = all.iter().filter(|one| about(&one.key)).collect();
    assert!(left.is_empty(), "{left:?}");
    let unknown = lab.collector.forget("monalisa").await.expect_err("nobody");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn col_17_tokens_are_bounded_checked_and_need_a_key() {
    let lab = lab(world()).await;
    let long = "x".repeat(501);
    for wrong in ["", " ", "a b", "tö", "line\nbreak", &long] {
        let refused = lab.collector.add_token("octocat", &Token::new(wrong)).await;
        let refused = refused.expect_err(wrong);
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(wrong.len() < 2 || !refused.to_string().contains(wrong));
    }
    for n in 0..20 {
        add(&lab, "octocat", &format!("token-{n}")).await;
    }
    add(&lab, "octocat", "token-0").await;
    let more = Token::new("one-more");
    let refused = lab.collector.add_token("octocat", &more).await;
    assert_eq!(
        refused.map_err(|error| error.kind()),
        Err(ErrorKind::Invalid)
    );
    let gone = lab.collector.remove_token("octocat", "0123").await;
    assert_eq!(gone.map_err(|error| error.kind()), Err(ErrorKind::NotFound));
    let keyless = lab.restarted(&[SERVER]).await;
    let refused = keyless.collector.add_token("hubot", &Token::new("t")).await;
    let refused = refused.expect_err("no key");
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("github.token_keys"), "{refused}");
}

#[tokio::test]
async fn col_17_a_refused_token_is_read_again_from_where_it_came() {
    let setup = Setup {
        faults: Faults::none().token(SERVER),
        ..Setup::default()
    };
    let file = Arc::new(Mutex::new(SERVER.to_owned()));
    let reads = file.clone();
    let reader = TokenReader::new(move || {
        let token = reads.lock().expect("no panic").clone();
        match token.as_str() {
            "" => Err("needs the file tokens, which is empty".to_owned()),
            token => Ok(Secrets {
                tokens: vec![Token::new(token)],
                ..Secrets::default()
            }),
        }
    });
    let set = |given: &mut Settings| {
        given.tokens = vec![Token::new(SERVER)];
        given.token_reader = reader;
    };
    let lab = Lab::with(world(), setup, set).await;
    let run = lab.collector.start_with("octocat", &Start::default()).await;
    let run = run.expect("it begins").run_id;
    advance(&lab.clock, Duration::from_secs(200)).await;
    assert_eq!(sent(&lab), BTreeMap::new());
    // A file that is being replaced may be empty: the known tokens stay.
    file.lock().expect("no panic").clear();
    let failed = lab.collector.reload_tokens().await.expect_err("empty");
    assert!(failed.message().contains("which is empty"), "{failed}");
    assert_eq!(lab.collector.tokens().await.expect("read").len(), 1);

    *file.lock().expect("no panic") = "fake-new-1".to_owned();
    let ended = lab.end(&run).await;
    assert_whole(&ended);
    assert_eq!(ended.status, RunStatus::Completed);
    assert_eq!(sent(&lab).keys().collect::<Vec<_>>(), ["new"]);
    assert!(
        !lab.collector.reload_tokens().await.expect("read"),
        "the same"
    );
}

#[tokio::test]
async fn col_17_tokens_that_are_read_again_wake_the_jobs_that_wait_for_them() {
    let file = Arc::new(Mutex::new(Vec::<&str>::new()));
    let reads = file.clone();
    let reader = TokenReader::new(move || {
        let tokens = reads.lock().expect("no panic");
        Ok(Secrets {
            tokens: tokens.iter().map(|token| Token::new(*token)).collect(),
            ..Secrets::default()
        })
    });
    let setup = Setup {
        limits: clinch_github::fake::Limits {
            anonymous: 0,
            ..Default::default()
        },
        ..Setup::default()
    };
    let set = |given: &mut Settings| given.token_reader = reader;
    let lab = Lab::with(world(), setup, set).await;
    let run = lab.collector.start_with("octocat", &Start::default()).await;
    let run = run.expect("it begins").run_id;
    advance(&lab.clock, Duration::from_secs(60)).await;
    let waits = lab.collector.progress(&run).await.expect("progress");
    assert!(waits.next_at.is_some(), "{waits:?}");
    *file.lock().expect("no panic") = vec!["fake-new-1"];
    assert!(lab.collector.reload_tokens().await.expect("read"));
    // The jobs are due now, long before the anonymous window ends.
    advance(&lab.clock, Duration::from_secs(60)).await;
    let run = lab.collector.run(&run).await.expect("a run");
    assert_whole(&run);
}
