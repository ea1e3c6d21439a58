//! Jobs that the collector did not create, and answers that lead away from the API: no token is
//! sent, nothing is stored, and the job fails with the reason.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch::ports::{
    Alert, AlertNote, DocumentFilter, DocumentSink as _, Expected, RecordWrite, Records as _,
};
use clinch::testing::{ManualClock, advance};
use clinch::types::Settled;
use clinch::{Clinch, Route};
use clinch_github::{
    ApiAnswer, ApiRequest, Broken, Collector, FirstPage, JobKind, PageDone, PageJob, Repository,
    Settings, Token, Transport,
};
use clinch_memory::Memory;

use crate::lab::collector_with;
use crate::trouble::note_run;

const API: &str = "https://api.example/v3";
const SECRET: &str = "ghp_canary";

type Script = dyn Fn(&str) -> Option<ApiAnswer> + Send + Sync;

/// A scripted API, and all other servers, which answer every request.
struct World {
    script: Box<Script>,
    asked: Mutex<Vec<ApiRequest>>,
}

impl World {
    /// The requests for pages, in order.
    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_page = |url: &&String| !url.ends_with("/rate_limit") && !url.ends_with("/v3/user");
        let urls = asked.iter().map(|request| &request.url);
        urls.filter(is_page).cloned().collect()
    }
}

#[async_trait]
impl Transport for World {
    async fn get(&self, request: &ApiRequest) -> Result<ApiAnswer, Broken> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(request.clone());
        let path = request.url.strip_prefix(API);
        let scripted = path.and_then(|path| (self.script)(path));
        Ok(scripted.unwrap_or_else(|| page(r#"{"id":1,"login":"stolen"}"#, &[])))
    }
}

#[derive(Clone, Default)]
struct Alerts(Arc<Mutex<Vec<AlertNote>>>);

impl Alerts {
    fn raised(&self) -> Vec<AlertNote> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[async_trait]
impl Alert for Alerts {
    async fn raise(&self, note: &AlertNote) -> clinch::Result<()> {
        let mut raised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.push(note.clone());
        Ok(())
    }
}

fn answer(status: u16, body: &str, headers: &[(&str, &str)]) -> ApiAnswer {
    let header = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    ApiAnswer {
        status,
        headers: headers.iter().map(header).collect(),
        body: body.as_bytes().to_vec(),
    }
}

fn page(body: &str, headers: &[(&str, &str)]) -> ApiAnswer {
    answer(200, body, headers)
}

struct Scene {
    world: Arc<World>,
    memory: Memory,
    clock: Arc<ManualClock>,
    clinch: Clinch,
    _collector: Collector,
    alerts: Alerts,
}

impl Scene {
    /// A collector with one token and one run of octocat.
    async fn new(script: impl Fn(&str) -> Option<ApiAnswer> + Send + Sync + 'static) -> Self {
        let clock = Arc::new(ManualClock::default());
        let memory = Memory::new(clock.clone());
        note_run(&memory, "octocat", "RUNNING").await;
        let script = move |path: &str| match path {
            "/rate_limit" => Some(page(
                r#"{"resources":{"core":{"remaining":10,"reset":1}}}"#,
                &[],
            )),
            "/user" => Some(page(r#"{"login":"robot"}"#, &[])),
            path => script(path),
        };
        let world = Arc::new(World {
            script: Box::new(script),
            asked: Mutex::default(),
        });
        let settings = Settings {
            api_url: API.parse().expect("an address"),
            tokens: vec![Token::new(SECRET)],
            ..Settings::default()
        };
        let alerts = Alerts::default();
        let documents = Arc::new(memory.clone());
        let heard = alerts.clone();
        let tune = |builder: clinch::types::Builder| builder.alert(heard);
        let transport = world.clone();
        let (collector, clinch) =
            collector_with(settings, &memory, documents, transport, &clock, tune).await;
        Self {
            world,
            memory,
            clock,
            clinch,
            _collector: collector,
            alerts,
        }
    }

    /// The result of this job; its code, if it failed.
    async fn run(&self, event_type: JobKind, key: &str, job: &PageJob) -> Result<PageDone, String> {
        let route: Route<PageJob, PageDone> = Route::new("github", event_type.as_str());
        let request = route.request("user:octocat", key, job);
        let accepted = self.clinch.submit(vec![request]).await.expect("accepted");
        let op_id = accepted.into_iter().next().expect("one").expect("accepted");
        advance(&self.clock, Duration::from_secs(3_600)).await;
        let handle = self.clinch.look(&route, op_id).await.expect("there");
        match handle.settled() {
            Some(Settled::Completed(done)) => Ok(done.value.clone()),
            Some(Settled::Failed(failure)) => Err(failure.code.clone()),
            other => panic!("{key} does not end: {other:?}"),
        }
    }

    async fn documents(&self) -> usize {
        let filter = DocumentFilter::default();
        let found = self.memory.scan("github", &filter, None, 100).await;
        found.expect("read").len()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.clinch.stop();
    }
}

fn job(kind: JobKind, url: Option<&str>) -> PageJob {
    PageJob {
        run_id: "octocat.1".parse().expect("a run"),
        kind,
        repository: None,
        page: 1,
        hops: 0,
        url: url.map(str::to_owned),
        since: None,
        seen: FirstPage::default(),
        is_full: false,
        is_owed: false,
        item: None,
        search: None,
        bounds: clinch_github::Bounds::default(),
        history: None,
        pass: clinch_github::Pass::default(),
        reading: clinch_github::Reading::default(),
    }
}

#[tokio::test]
async fn col_17_a_job_with_an_address_of_its_own_choice_is_failed_and_never_sent() {
    let scene = Scene::new(|_| None).await;
    let forged = [
        "http://127.0.0.1:9/",
        "http://169.254.169.254/latest/meta-data/",
        "http://api.example/v3/users/octocat",
        "https://evil.example/v3/users/octocat",
        "//evil.example/v3/users/octocat",
        "https://api.example@evil.example/v3/users/octocat",
        "https://api.example:pw@evil.example/v3/users/octocat",
        "https://api.example.evil.example/v3/users/octocat",
        "https://api.example:8443/v3/users/octocat",
        "https://api.example:/v3/users/octocat",
        "https://api.example:99999/v3/users/octocat",
        "https://api.example./v3/users/octocat",
        "https://evil.example\\@api.example/v3/users/octocat",
        "https://evil.example#@api.example/v3/users/octocat",
        "https:\\\\api.example\\v3\\users\\octocat",
        "https://api.ex\u{e0}mple/v3/users/octocat",
        "https://api\u{3002}example/v3/users/octocat",
        "https://api.example/v3/users/octocat\r\nHost: evil.example",
        "https://api.example/v3/../admin",
        "https://api.example/v3/%2e%2E/admin",
        "https://api.example/v3/..%2fadmin",
        "https://api.example/v3/users/..\\..\\admin",
        "https://api.example/v30/users/octocat",
        "https://api.example/login",
        "https://api.example",
        "/login",
        "/v3/../login",
        "users/octocat",
        "ftp://api.example/v3/users/octocat",
        "",
    ];
    for (number, url) in forged.iter().enumerate() {
        let job = job(JobKind::USER_BASIC, Some(url));
        let ended = scene
            .run(JobKind::USER_BASIC, &number.to_string(), &job)
            .await;
        assert_eq!(ended, Err("address_refused".to_owned()), "{url}");
        assert_eq!(scene.world.asked(), Vec::<String>::new(), "{url}");
        let raised = scene.alerts.raised();
        assert_eq!(raised.len(), number + 1, "{url}");
        let last = raised.last().expect("one");
        assert_eq!(last.code, "github_job_refused");
        assert!(!last.message.contains("example"), "{}", last.message);
    }
    assert_eq!(scene.documents().await, 0);
}

#[tokio::test]
async fn col_17_a_job_whose_names_leave_their_place_is_failed_and_never_sent() {
    let scene = Scene::new(|_| None).await;
    let names = [
        "octocat",
        "octocat/",
        "/hello",
        "octocat/..",
        "octocat/.",
        "../octocat",
        "octocat/a/b",
        "octocat/a?b",
        "octocat/a%2fb",
        "octocat/a b",
        "octocat/\u{e9}",
        "octo.cat/hello",
    ];
    for name in names {
        let forged = PageJob {
            repository: Some(Repository {
                default_branch: None,
                id: 1,
                full_name: name.to_owned(),
            }),
            ..job(JobKind::REPO_ISSUES, None)
        };
        let ended = scene.run(JobKind::REPO_ISSUES, name, &forged).await;
        assert_eq!(ended, Err("invalid_job".to_owned()), "{name}");
    }
    let without = job(JobKind::REPO_ISSUES, None);
    let ended = scene.run(JobKind::REPO_ISSUES, "without", &without).await;
    assert_eq!(ended, Err("invalid_job".to_owned()));
    let other = job(JobKind::USER_BASIC, None);
    let ended = scene.run(JobKind::USER_EVENTS, "other kind", &other).await;
    assert_eq!(ended, Err("invalid_job".to_owned()));
    assert_eq!(scene.world.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn col_17_no_redirect_takes_a_token_away() {
    for status in [301, 302, 307, 308] {
        for to in [
            "https://evil.example/v3/users/octocat",
            "//evil.example/v3/users/octocat",
            "http://api.example/v3/users/octocat",
            "/login",
        ] {
            let moved = move |_: &str| Some(answer(status, "", &[("location", to)]));
            let scene = Scene::new(moved).await;
            let ended = scene
                .run(JobKind::USER_BASIC, "1", &job(JobKind::USER_BASIC, None))
                .await;
            assert_eq!(ended, Err("redirect_refused".to_owned()), "{status} {to}");
            let asked = scene.world.asked();
            assert_eq!(asked, [format!("{API}/users/octocat")], "{status} {to}");
        }
    }
}

const EVENT: &str = r#"[{"id":"1","created_at":"2026-01-01T00:00:00Z"}]"#;

#[tokio::test]
async fn col_3_a_next_page_elsewhere_is_a_failed_job_and_not_a_short_list() {
    for next in [
        "https://evil.example/v3/users/octocat/events?page=2",
        "http://api.example/v3/users/octocat/events?page=2",
        "https://api.example@evil.example/v3?page=2",
    ] {
        let link = format!("<{next}>; rel=\"next\"");
        let scene = Scene::new(move |_| Some(page(EVENT, &[("link", &link)]))).await;
        let ended = scene
            .run(JobKind::USER_EVENTS, "1", &job(JobKind::USER_EVENTS, None))
            .await;
        assert_eq!(ended, Err("link_refused".to_owned()), "{next}");
        assert_eq!(scene.world.asked().len(), 1, "{next}");
    }
}

#[tokio::test]
async fn col_3_a_next_page_is_followed_however_its_origin_is_spelled() {
    for next in [
        "HTTPS://API.Example/v3/users/octocat/events?page=2",
        "https://api.example:443/v3/users/octocat/events?page=2",
        "/v3/users/octocat/events?page=2",
    ] {
        let link = format!("<{next}>; rel=\"next\"");
        let script = move |path: &str| match path.contains("page=2") {
            true => Some(page("[]", &[])),
            false => Some(page(EVENT, &[("link", &link)])),
        };
        let scene = Scene::new(script).await;
        let done = scene
            .run(JobKind::USER_EVENTS, "1", &job(JobKind::USER_EVENTS, None))
            .await;
        assert!(done.is_ok(), "{next}: {done:?}");
        let second = format!("{API}/users/octocat/events?page=2");
        assert_eq!(scene.world.asked().get(1), Some(&second), "{next}");
    }
}

#[tokio::test]
async fn col_17_an_address_that_an_older_version_stored_is_checked_too() {
    let scene = Scene::new(|path| {
        path.contains("/events")
            .then(|| answer(304, "", &[("etag", "\"a\"")]))
    })
    .await;
    let token = Token::new(SECRET).hash();
    let url = format!("{API}/users/octocat/events?per_page=100");
    let known = format!(
        r#"{{"url":"{url}","resource":"user:octocat","ids":"","etags":{{"{token}":"\"a\""}},"next":"https://evil.example/next","repositories":[],"seen":{{}},"oldest":null,"run":0}}"#
    );
    let write = RecordWrite {
        key: "github/page/octocat/user_events/user:octocat/000001".to_owned(),
        expected: Expected::Absent,
        body: Some(known),
    };
    assert!(scene.memory.write_records(&[write]).await.expect("written"));
    let ended = scene
        .run(JobKind::USER_EVENTS, "1", &job(JobKind::USER_EVENTS, None))
        .await;
    assert_eq!(ended, Err("link_refused".to_owned()));
    assert_eq!(scene.world.asked(), [url]);
}
