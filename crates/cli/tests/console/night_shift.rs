//! The night shift: a provider fails in five ways, and an operator finds out and puts it right: by
//! `clinch status` and the commands that it names, or by the console alone.

use std::time::Duration;

use clinch_testbed::{Browser, Look, wait_until};
use serde_json::{Value, json};

use crate::acting::act;
use crate::desk::{Desk, shows};

const LIMIT: Duration = Duration::from_secs(120);

fn status(desk: &Desk) -> (Value, i32) {
    let (text, code) = desk.run(&["status", "-o", "json"]);
    (serde_json::from_str(&text).expect("JSON"), code)
}

fn codes(status: &Value) -> Vec<String> {
    let warnings = status["warnings"].as_array().expect("warnings").iter();
    let code = |one: &Value| one["code"].as_str().expect("a code").to_owned();
    warnings.map(code).collect()
}

pub(crate) fn a_bad_night_is_worked_off_to_zero() {
    let desk = Desk::new();
    desk.fill();
    // What is wrong, where, and what to do next.
    let wanted = [
        "destination_down",
        "destination_throttled",
        "operations_held",
        "dead_letters_open",
    ];
    let mut seen = Value::Null;
    let found = wait_until(LIMIT, || {
        seen = status(&desk).0;
        let codes = codes(&seen);
        wanted
            .iter()
            .all(|code| codes.iter().any(|one| one == code))
    });
    assert!(found, "{seen:#}");
    assert_eq!(status(&desk).1, 1, "a critical warning");
    let (text, _) = desk.run(&["status"]);
    for part in ["partner-api", "mailer", "clinch dlq ls", "http_500"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    // The provider is mended; the operator works off what the night left.
    desk.provider.heal();
    for destination in ["partner-api", "mailer", "sms-gateway"] {
        let (text, code) = desk.run(&["destinations", "reset", destination, "--reason", "mended"]);
        assert_eq!(code, 0, "{text}");
    }
    for domain in ["mail", "partners"] {
        let retry = [
            "ops",
            "retry-now",
            "--domain",
            domain,
            "-y",
            "--reason",
            "mended",
        ];
        // An operation that a worker has taken meanwhile is refused, alone.
        let (text, code) = desk.run(&retry);
        assert!(matches!(code, 0 | 4), "{code}: {text}");
    }
    let held = desk.get("/v1/operations?phase=held");
    for one in held["operations"].as_array().expect("a list") {
        let id = one["op_id"].as_str().expect("an id");
        let settle = [
            "ops", "resolve", id, "--as", "failed", "--effect", "none", "--reason", "asked",
        ];
        let (text, code) = desk.run(&settle);
        assert_eq!(code, 0, "{text}");
    }
    for domain in ["payments", "sms"] {
        let (text, code) = desk.run(&["dlq", "redrive", "--domain", domain, "-y"]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("redriven"), "{text}");
    }
    let mut left = Value::Null;
    let is_well = wait_until(LIMIT, || {
        left = status(&desk).0;
        let open = &left["operations"];
        left["warnings"] == json!([]) && open["pending"] == 0 && open["in_progress"] == 0
    });
    assert!(is_well, "{left:#}");
    assert_eq!(left["dead_letters_open"], 0);
    let (text, code) = desk.run(&["status"]);
    assert_eq!(code, 0, "{text}");
}

pub(crate) fn a_bad_night_is_worked_off_by_the_console_alone() {
    let desk = Desk::new();
    desk.fill();
    let browser = desk.browser(Look::default());
    let open = |path: &str| browser.open(&desk.url(path)).expect("a page");
    // What is wrong and where; the page follows until everything has shown.
    open("/");
    for part in ["partner-api", "mailer", "http_500", "held", "dead letter"] {
        shows(&browser, part);
    }
    desk.provider.heal();
    // A warning leads to the page where something can be done.
    browser
        .click(".warnings a[href^='/destinations']")
        .expect("a link");
    for destination in ["partner-api", "mailer", "sms-gateway"] {
        let form = format!("/destinations/{destination}/reset");
        let is_well = || is_well(&desk, destination);
        while !is_well() {
            open("/destinations");
            if browser.has(&format!("form[action$='{form}']")) {
                act(&browser, &form, "mended");
                // Another page before the answer would end the request.
                assert!(wait_until(LIMIT, is_well), "{destination}");
            }
        }
    }
    for domain in ["mail", "partners"] {
        open(&format!("/operations?domain={domain}"));
        let link = format!("a[href^='/bulk?domain={domain}&do=retry-now']");
        browser.click(&link).expect("a link");
        confirm(&browser, "mended", " due now, ");
    }
    while desk.get("/v1/overview")["operations"]["held"] != 0 {
        open("/operations?phase=held");
        browser.click("tbody a.id").expect("a held operation");
        browser.click("#as-failed-none").expect("a choice");
        browser.fill("#why-resolve", "asked").expect("a field");
        browser
            .click("form[action$='/resolve'] button")
            .expect("a button");
        shows(&browser, "Settled as you said.");
    }
    // One group after the other.
    while desk.get("/v1/overview")["dead_letters_open"] != 0 {
        open("/dead-letters");
        browser
            .click("tbody a[href^='/bulk?do=redrive']")
            .expect("a link");
        confirm(&browser, "mended", " redriven, ");
    }
    open("/");
    shows(&browser, "All is well");
    let left = desk.get("/v1/overview");
    assert_eq!(left["dead_letters_open"], 0, "{left:#}");
    let is_done = || desk.get("/v1/overview")["operations"]["in_progress"] == 0;
    assert!(wait_until(LIMIT, is_done));
}

fn is_well(desk: &Desk, destination: &str) -> bool {
    let all = desk.get("/v1/destinations");
    let mut all = all["destinations"].as_array().expect("a list").iter();
    let found = all.find(|one| one["destination"] == destination);
    found.expect("a destination")["state"] == "ok"
}

/// Confirms a plan, and waits until it is carried out.
fn confirm(browser: &Browser, reason: &str, done: &str) {
    browser.fill("#reason", reason).expect("a field");
    browser.click("form.card button").expect("a button");
    shows(browser, done);
}

/// Lanes of this many letters each.
const LANE: usize = 50;

/// 25,000 with `CLINCH_PROOF=1`, as `cargo xtask proof letters` has it.
fn letters() -> usize {
    let is_proof = std::env::var("CLINCH_PROOF").is_ok_and(|value| value == "1");
    if is_proof { 25_000 } else { 600 }
}

pub(crate) fn every_dead_letter_is_redriven_in_the_order_of_its_lane() {
    let desk = Desk::new();
    let count = letters();
    let operation = |number: usize| {
        json!({ "domain": "lanes", "event_type": "step", "biz_key": format!("lane-{}", number / LANE),
                "idem_key": format!("k{number}"), "payload": { "number": number } })
    };
    let all: Vec<Value> = (0..count).map(operation).collect();
    for part in all.chunks(5_000) {
        desk.post("/v1/operations/bulk", &json!({ "operations": part }));
    }
    let open = || desk.get("/v1/overview")["dead_letters_open"].clone();
    assert!(
        wait_until(10 * LIMIT, || open() == count),
        "{} failed",
        open()
    );
    desk.provider.heal();
    let (text, code) = desk.run(&["dlq", "redrive", "--domain", "lanes", "-y"]);
    assert_eq!(code, 0, "{text}");
    let summary = format!("{count} redriven, 0 already, 0 refused");
    assert!(text.contains(&summary), "{text}");
    assert!(wait_until(10 * LIMIT, || desk.provider.calls() >= count));
    assert_eq!(open(), 0);
    // The provider saw every letter once, each lane in its order.
    let number = |body: &String| -> usize {
        let body: Value = serde_json::from_str(body).expect("JSON");
        let number = body["number"].as_u64().expect("a number");
        usize::try_from(number).expect("small")
    };
    let called: Vec<usize> = desk.provider.book().iter().map(number).collect();
    assert_eq!(called.len(), count, "each once");
    let mut next = vec![0; count / LANE];
    for number in called {
        let expected = &mut next[number / LANE];
        assert_eq!(number % LANE, *expected, "lane {}", number / LANE);
        *expected += 1;
    }
}
