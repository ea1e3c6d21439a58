//! Pages as people see them.

use std::path::{Path, PathBuf};

use clinch_testbed::{Browser, Look, npm_file};
use serde_json::{Value, json};

use crate::desk::{Desk, shows};

const AXE: &str = "axe-core@4.11.0";
/// Widths of a desk and a phone.
const WIDTHS: [u32; 2] = [1_440, 390];

/// The folder for files of a test run, beside the build.
fn target(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Serious violations of axe's rules, each in a line.
fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    browser.run(axe, &[]).expect("axe loads");
    let run = "const end = arguments[arguments.length - 1];\
        axe.run(document, { resultTypes: ['violations'] }).then((found) => end(found.violations));";
    let found = browser.run_async(run, &[]).expect("axe runs");
    let found = found.as_array().cloned().unwrap_or_default();
    let is_serious = |one: &&Value| matches!(one["impact"].as_str(), Some("serious" | "critical"));
    let line = |one: &Value| {
        let nodes = one["nodes"].as_array().cloned().unwrap_or_default();
        let first = nodes.first().map(|node| node["html"].to_string());
        format!(
            "{}: {} at {}",
            one["id"],
            one["help"],
            first.unwrap_or_default()
        )
    };
    found.iter().filter(is_serious).map(line).collect()
}

/// What is wrong with the page that is shown.
fn faults(browser: &Browser, axe: &str) -> Vec<String> {
    let mut faults = violations(browser, axe);
    faults.extend(browser.errors().expect("a log"));
    let wide = "return document.documentElement.scrollWidth > window.innerWidth + 1";
    if browser.run(wide, &[]) == Ok(json!(true)) {
        faults.push("the page is wider than the window".to_owned());
    }
    let hosts = "return performance.getEntriesByType('resource').map((one) => new URL(one.name).host)\
        .filter((host) => host !== location.host)";
    let hosts = browser.run(hosts, &[]).expect("a list");
    if hosts != json!([]) {
        faults.push(format!("requests to other hosts: {hosts}"));
    }
    faults
}

pub(crate) fn every_page_is_readable_light_and_dark_on_desk_and_phone() {
    let axe = npm_file(&target("tools"), AXE, "axe.min.js").expect("axe-core");
    let axe = std::fs::read_to_string(axe).expect("a script");
    let desk = Desk::new();
    let (held, failed) = desk.fill();
    let pages = [
        ("overview", "/".to_owned()),
        ("operations", "/operations".to_owned()),
        (
            "operations-filtered",
            "/operations?phase=held&from=1h".to_owned(),
        ),
        ("operations-empty", "/operations?biz_key=nothing".to_owned()),
        ("operation-held", format!("/operations/{held}")),
        ("operation-failed", format!("/operations/{failed}")),
        ("dead-letters", "/dead-letters".to_owned()),
        ("dead-letters-list", "/dead-letters?view=list".to_owned()),
        (
            "dead-letters-empty",
            "/dead-letters?status=dismissed".to_owned(),
        ),
        ("plan", "/bulk?do=redrive".to_owned()),
        ("destinations", "/destinations".to_owned()),
        ("domains", "/domains".to_owned()),
        ("keys", "/keys".to_owned()),
        (
            "not-found",
            "/operations/00000000-0000-7000-8000-000000000000".to_owned(),
        ),
    ];
    let pictures = target("console");
    let mut wrong = Vec::new();
    for is_dark in [false, true] {
        for width in WIDTHS {
            let look = Look {
                width,
                is_dark,
                ..Look::default()
            };
            let browser = desk.browser(look);
            let colour = if is_dark { "dark" } else { "light" };
            for (name, path) in &pages {
                browser.open(&desk.url(path)).expect("a page");
                let picture = pictures.join(format!("{name}-{width}-{colour}.png"));
                browser.picture(&picture).expect("a picture");
                let faults = faults(&browser, &axe);
                // The browser itself reports the status of a page that is not found.
                let faults = faults
                    .into_iter()
                    .filter(|one| !one.contains("status of 404"));
                wrong.extend(faults.map(|fault| format!("{name} {width} {colour}: {fault}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

pub(crate) fn pages_can_be_read_without_scripts() {
    let desk = Desk::new();
    let (held, _) = desk.fill();
    let browser = desk.browser(Look {
        has_scripts: false,
        ..Look::default()
    });
    browser.open(&desk.url("/")).expect("a page");
    shows(&browser, "reload the page to see what is new");
    browser.click("a[href='/operations']").expect("a link");
    browser.fill("#f-biz_key", "phone-1").expect("a field");
    browser.click(".filter button").expect("a button");
    let row = browser.text("tbody tr").expect("a row");
    assert!(row.contains("held") && row.contains("phone-1"), "{row}");
    browser.click("tbody a.id").expect("a link");
    assert!(browser.url().expect("an address").ends_with(&held));
    browser.click(".timeline").expect("the ledger is there");
    assert!(
        browser
            .text(".lead")
            .expect("a sentence")
            .contains("A person has to decide")
    );
}

pub(crate) fn a_page_follows_what_happens() {
    let desk = Desk::new();
    let browser = desk.browser(Look::default());
    browser.open(&desk.url("/operations")).expect("a page");
    shows(&browser, "No operation matches.");
    // The stream must be open before something happens.
    shows(&browser, ">Live<");
    desk.submit("payments", "charge", "order-live");
    shows(&browser, "order-live");
    // Somebody who types keeps what was typed.
    browser.fill("#f-biz_key", "half a wo").expect("a field");
    let other = desk.submit("payments", "charge", "order-next");
    desk.until(&other, |one| one["state"] == "COMPLETED");
    let typed = browser.run("return document.querySelector('#f-biz_key').value", &[]);
    assert_eq!(typed, Ok(json!("half a wo")));
}

pub(crate) fn a_person_signs_in_follows_a_link_and_signs_out() {
    let desk = Desk::locked();
    let key = desk.key.clone().expect("a key");
    let browser = Browser::start(Look::default()).expect("a browser");
    browser
        .open(&desk.url("/operations?state=FAILED"))
        .expect("a page");
    assert!(browser.url().expect("an address").contains("/sign-in"));
    browser.fill("#key", "clk_wrong").expect("a field");
    browser.press("\u{e007}").expect("Enter");
    shows(&browser, "This key is unknown, revoked or expired.");
    browser.fill("#key", &key).expect("a field");
    browser.press("\u{e007}").expect("Enter");
    shows(&browser, "No operation matches.");
    assert!(
        browser
            .url()
            .expect("an address")
            .ends_with("/operations?state=FAILED")
    );
    let cookie = browser.run("return document.cookie", &[]).expect("a value");
    assert_eq!(cookie, json!(""), "scripts do not see the session");
    browser.click(".account button").expect("a button");
    shows(&browser, "Sign in");
    browser.open(&desk.url("/")).expect("a page");
    assert!(browser.url().expect("an address").contains("/sign-in"));
}

pub(crate) fn runs_of_the_collector_are_shown() {
    let desk = Desk::start(
        "[github]\napi_url = \"http://127.0.0.1:9\"\ntokens = []\n",
        false,
    );
    desk.post("/v1/github/runs", &json!({ "login": "octocat" }));
    let browser = desk.browser(Look::default());
    browser.open(&desk.url("/")).expect("a page");
    browser
        .click("a[href='/apps/github']")
        .expect("an entry in the navigation");
    shows(&browser, "octocat.1");
    for part in [
        "Jobs of the last hour",
        "Attempts of these jobs",
        "Jobs that wait",
    ] {
        shows(&browser, part);
    }
    browser
        .click("a[href='/apps/github/runs/octocat.1']")
        .expect("a run");
    shows(&browser, "Jobs by kind");
    browser.click(".act summary").expect("an action");
    browser.fill("#why-cancel", "not needed").expect("a field");
    browser.click(".act button").expect("a button");
    shows(&browser, "CANCELED");
}
