//! `clinch.toml`.

use std::time::Duration;

use clinch_core::policy::{Order, ReaperStrategy, Safety};
use clinch_server::Config;
use clinch_server::config::Sources;

/// The configuration page of the documentation.
const WHOLE: &str = include_str!("clinch.toml");

pub(crate) fn sources(environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    Sources {
        environment: own(environment),
        flags: own(flags),
    }
}

fn load(
    text: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<Config, String> {
    let sources = sources(environment, flags);
    Config::parse(text, &sources, &[]).map_err(|error| error.to_string())
}

#[test]
fn core_19_the_whole_page_is_understood() {
    let config = load(WHOLE, &[], &[]).expect("valid");
    let route = &config.route[0];
    let rules = route.rules(&config).expect("rules");
    let keyed = Safety::Keyed {
        ttl: Duration::from_secs(86_400),
        remembers_refusals: false,
    };
    assert_eq!(rules.safety, keyed);
    assert_eq!((rules.retry.max_attempts, rules.order), (5, Order::None));
    assert_eq!(rules.deadline, Some(Duration::from_secs(86_400)));
    assert_eq!(
        rules.probe.as_ref().map(|probe| probe.inconclusive_max),
        Some(10)
    );
    assert_eq!(rules.copies, 2);
    assert_eq!(route.destination_name(), "psp");
    let guards = config
        .destinations()
        .expect("guards")
        .remove("psp")
        .expect("psp");
    assert_eq!(guards.rate.map(|rate| rate.permits), Some(50));
    assert_eq!(
        guards.concurrency.map(|slots| slots.max_concurrent),
        Some(16)
    );
    let worker = clinch_core::WorkerId::new("w").expect("a name");
    let engine = config.engine(worker.clone());
    let mut defaults = clinch_engine::Config::new(worker);
    defaults.shutdown_grace = engine.shutdown_grace;
    assert_eq!(engine, defaults, "the page's values are the defaults");
}

#[test]
fn core_19_an_empty_file_is_the_defaults() {
    let config = load("", &[], &[]).expect("valid");
    assert_eq!(config, Config::default());
    assert_eq!(config.store.url, "sqlite://clinch.db");
    assert_eq!(
        config.listen().expect("an address").to_string(),
        "127.0.0.1:7070"
    );
}

#[test]
fn core_19_flags_beat_the_environment_which_beats_the_file() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n[worker]\nconcurrency = 1\nbatch = 1";
    let environment = [
        ("CLINCH__SERVER__LISTEN", "127.0.0.1:2"),
        ("CLINCH__WORKER__CONCURRENCY", "2"),
        ("PATH", "/bin"),
        ("CLINCH_URL", "http://x"),
    ];
    let flags = [("server.listen", "127.0.0.1:3")];
    let config = load(file, &environment, &flags).expect("valid");
    assert_eq!(config.server.listen, "127.0.0.1:3");
    assert_eq!((config.worker.concurrency, config.worker.batch), (2, 1));
    let environment = [
        ("CLINCH__ROUTE__CHARGE__TIMEOUT", "9s"),
        ("CLINCH__ROUTE__charge__RETRY__MAX_ATTEMPTS", "2"),
        (
            "CLINCH__ROUTE__charge__RATE",
            "{ permits = 1, per = \"1m\" }",
        ),
        ("CLINCH__ROUTE__CHARGE__HEADERS__X-Key", "abc"),
        ("CLINCH__ROUTE__CHARGE__DUPLICATE_STATUS", "[409]"),
        ("CLINCH__ROUTE__fresh__DOMAIN", "d"),
        ("CLINCH__ROUTE__fresh__REMOTE", "true"),
        ("CLINCH__REAPER__STRATEGY", "probe"),
    ];
    let config = load(WHOLE, &environment, &[("route.charge.method", "PUT")]).expect("valid");
    let route = &config.route[0];
    assert_eq!(
        (route.call_timeout(), route.method.as_str()),
        (Duration::from_secs(9), "PUT")
    );
    assert_eq!(
        (route.retry.max_attempts, &route.duplicate_status),
        (Some(2), &vec![409])
    );
    assert_eq!(route.headers["X-Key"], "abc");
    assert_eq!(route.rate.as_ref().map(|rate| rate.permits), Some(1));
    assert_eq!(
        (config.route[1].name.as_str(), config.route[1].remote),
        ("fresh", true)
    );
    assert_eq!(
        config.route[1].rules(&config).expect("rules").reaper,
        ReaperStrategy::Probe
    );
}

#[test]
fn core_19_unknown_keys_name_the_nearest() {
    for (text, nearest) in [
        ("[server]\nlisen = \"x\"", "server.listen"),
        ("[sever]\nlisten = \"x\"", "server"),
        // A section of an application that this program does not have.
        ("[reports]\nurl = \"x\"", "reaper"),
        ("[[route]]\nevent_typ = \"x\"", "route.event_type"),
        (
            "[[route]]\nretry = { max_attempt = 1 }",
            "route.retry.max_attempts",
        ),
        // A first word beats a word with fewer different letters.
        ("[[route]]\nretry = { max = 1 }", "route.retry.max_attempts"),
        (
            "[[route]]\nprobe = { matches = \"x\" }",
            "route.probe.match",
        ),
    ] {
        let error = load(text, &[], &[]).expect_err("unknown");
        assert!(
            error.ends_with(&format!("did you mean {nearest}?")),
            "{error}"
        );
    }
    let error = load("", &[("CLINCH__WORKER__LEESE", "5s")], &[]).expect_err("unknown");
    assert!(
        error.starts_with("CLINCH__WORKER__LEESE: ") && error.ends_with("worker.lease?"),
        "{error}"
    );
}

#[test]
fn core_19_contradictions_are_one_line_that_says_what_to_do() {
    let route = |more: &str| {
        format!("[[route]]\nname = \"r\"\ndomain = \"d\"\nurl = \"https://h/x\"\n{more}")
    };
    let cases = [
        (
            "[server]\nlisten = \"nowhere\"".to_owned(),
            "127.0.0.1:7070",
        ),
        (
            "[server]\ntls_cert = \"c.pem\"".to_owned(),
            "set both or none",
        ),
        ("[server]\npayload_max = \"big\"".to_owned(), "256KiB"),
        ("[worker]\nlease = \"5\"".to_owned(), "5s"),
        ("[worker]\nconcurrency = 0".to_owned(), "more than 0"),
        (
            "[[route]]\nname = \"r\"\ndomain = \"d\"".to_owned(),
            "remote = true",
        ),
        (
            "[[route]]\nname = \"r\"\nremote = true".to_owned(),
            "domain is missing",
        ),
        (route("remote = true"), "contradict"),
        (route("timeout = \"0s\""), "timeout"),
        (route("probe = { match = \"json:/key\" }"), "probe.url"),
        (
            route("hedge = { after = \"1s\" }"),
            "safety keyed or natural",
        ),
        (
            route("safety = \"natural\"\norder = \"key\"\nhedge = { after = \"1s\" }"),
            "order of a key",
        ),
        (route("safety = \"keyed\"\nkey_ttl = \"10s\""), "key_ttl"),
        (route("fallback = \"{}\""), "natural"),
        (
            route("retry = { preset = \"fast\" }"),
            "worker, outbox, sdk",
        ),
        (route("safety = \"maybe\""), "unknown variant"),
        (
            format!(
                "{}\n{}",
                route("concurrency = 1"),
                route("")
                    .replace("\"r\"", "\"s\"")
                    .replace("\"d\"", "\"e\"")
                    + "\nconcurrency = 2"
            ),
            "set it once",
        ),
        (
            format!("{}\n{}", route(""), route("").replace("\"r\"", "\"s\"")),
            "covers the same",
        ),
        ("x = [".to_owned(), "line 1 is not TOML"),
        (
            "[worker]\nconcurrency = \"many\"".to_owned(),
            "worker.concurrency",
        ),
        (route("headers = \"hunter2\""), "route.headers"),
    ];
    for (text, expected) in cases {
        let error = load(&text, &[], &[]).expect_err(&text);
        assert!(!error.contains("hunter2"), "{error}");
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn core_19_a_value_of_the_wrong_type_is_explained_in_words_of_the_file() {
    for (text, expected) in [
        (
            "[worker]\nconcurrency = \"many\"",
            "expected a whole number, 0 or more; in `worker.concurrency`",
        ),
        (
            "[[route]]\nretry = { max_attempts = -3 }",
            "expected a whole number from 0 to 4294967295; in `route.retry.max_attempts`",
        ),
        (
            "[[route]]\nduplicate_status = 409",
            "expected a list: [ … ]; in `route.duplicate_status`",
        ),
    ] {
        let error = load(text, &[], &[]).expect_err(text);
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn core_16_what_is_printed_holds_no_secret_and_reads_back() {
    let secrets = WHOLE
        .replace("sqlite://clinch.db", "postgres://me:hunter2@db/x")
        .replace("${env:PSP_KEY}", "hunter2")
        .replace(
            "alert_url = \"\"",
            "alert_url = \"https://hooks.example/hunter2\"",
        );
    let config = load(&secrets, &[], &[]).expect("valid");
    let printed = config.print();
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(
        printed.contains("postgres://me:***@db/x")
            && printed.contains("listen = \"127.0.0.1:7070\""),
        "{printed}"
    );
    load(&printed, &[], &[]).expect("what is printed is a configuration");
}

#[test]
fn presets_are_a_start() {
    let text = "[[route]]\nname = \"r\"\ndomain = \"d\"\nremote = true\nretry = { preset = \"outbox\", cap = \"1m\" }";
    let config = load(text, &[], &[]).expect("valid");
    let retry = config.route[0].rules(&config).expect("rules").retry;
    assert_eq!(
        (retry.max_attempts, retry.backoff.base, retry.backoff.cap),
        (4, Duration::from_secs(30), Duration::from_secs(60))
    );
}

#[test]
fn out_5_the_preset_of_the_outbox_retries_after_30_60_and_120_seconds() {
    let text = "[[route]]\nname = \"r\"\ndomain = \"d\"\nremote = true\nretry = { preset = \"outbox\", jitter = 0.0 }";
    let config = load(text, &[], &[]).expect("valid");
    let retry = config.route[0].rules(&config).expect("rules").retry;
    assert_eq!(retry.max_attempts, 4, "three retries");
    let mut rng = clinch_core::policy::SplitMix::new(1);
    let delays = [1, 2, 3].map(|call| retry.delay(call, None, &mut rng).as_secs());
    assert_eq!(delays, [30, 60, 120]);
}

/// A remote route refuses every key that would be ignored, by its name.
#[test]
fn core_19_a_remote_route_names_nothing_that_would_be_ignored() {
    let remote = |more: &str| {
        let text = format!("[[route]]\nname = \"r\"\ndomain = \"d\"\nremote = true\n{more}");
        load(&text, &[], &[])
    };
    for (more, key) in [
        ("safety = \"natural\"\nhedge = { after = \"1s\" }", "hedge"),
        ("safety = \"natural\"\nfallback = \"{}\"", "fallback"),
        ("method = \"PUT\"", "method"),
        ("duplicate_status = [409]", "duplicate_status"),
        ("unavailable_is_clean = true", "unavailable_is_clean"),
        ("idempotency_header = \"X-Key\"", "idempotency_header"),
        ("headers = { x = \"y\" }", "headers"),
        ("txn_id = \"json:/id\"", "txn_id"),
        ("allow_private = true", "allow_private"),
        ("probe = { match = \"json:/key\" }", "probe.url"),
    ] {
        let error = remote(more).expect_err(key);
        assert!(error.contains(key), "{error}");
    }
    let guards = "rate = { permits = 5, per = \"1s\" }\nconcurrency = 2\nbreaker = {}\n\
        retry = { budget = 0.1 }\ntimeout = \"5m\"";
    let config = remote(guards).expect("these hold for leases");
    let destinations = config.destinations().expect("valid");
    let guards = &destinations["r"];
    assert!(guards.rate.is_some() && guards.concurrency.is_some());
    assert!(guards.breaker.is_some() && guards.budget.is_some());
    let plain = remote("").expect("valid").destinations().expect("valid");
    let plain = &plain["r"];
    assert!(
        plain.concurrency.is_none() && plain.breaker.is_none(),
        "no defaults"
    );
    let probed = "headers = { x = \"y\" }\nallow_private = true\n\
        probe = { url = \"http://h/x\", match = \"json:/key\" }";
    remote(probed).expect("the server asks");
}
