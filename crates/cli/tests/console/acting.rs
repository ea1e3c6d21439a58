//! What an operator does in the console, and what the ledger says of it.

use clinch_testbed::{Browser, Look, wait_until};
use serde_json::Value;

use crate::desk::{Desk, LIMIT, shows};

/// The ledger line of this event.
fn line(desk: &Desk, id: &str, event: &str) -> Value {
    let ledger = desk.get(&format!("/v1/operations/{id}/attempts"));
    let lines = ledger["ledger"].as_array().expect("lines");
    let found = lines.iter().rev().find(|line| line["event"] == event);
    found
        .unwrap_or_else(|| panic!("no {event} in {ledger}"))
        .clone()
}

/// Opens a form that is folded away, gives a reason and sends it.
pub(crate) fn act(browser: &Browser, form: &str, reason: &str) {
    let field = format!("form[action$='{form}'] input[name=reason]");
    let open = "document.querySelector(arguments[0]).closest('details')?.setAttribute('open', '')";
    let is_open = || browser.run(open, &[field.as_str().into()]).is_ok();
    assert!(wait_until(LIMIT, is_open), "no {field}");
    browser.fill(&field, reason).expect("a field");
    browser
        .click(&format!("form[action$='{form}'] button"))
        .expect("a button");
}

pub(crate) fn a_held_operation_is_settled_by_keyboard_alone() {
    let desk = Desk::locked();
    let held = desk.submit("sms", "send", "phone-1");
    desk.until(&held, |one| one["phase"] == "held");
    let browser = desk.browser(Look::default());
    browser
        .open(&desk.url(&format!("/operations/{held}")))
        .expect("a page");
    // The first stop skips the navigation.
    browser.press("\u{e004}").expect("Tab");
    assert_eq!(focus(&browser), "a.skip");
    browser.press("\u{e007}").expect("Enter");
    tab_to(&browser, "as-completed");
    browser.press("\u{e00d}").expect("Space");
    tab_to(&browser, "txn");
    browser.press("tx_77").expect("text");
    tab_to(&browser, "why-resolve");
    browser.press("provider says yes").expect("text");
    browser.press("\u{e007}").expect("Enter");
    shows(&browser, "Settled as you said.");
    let row = desk.until(&held, |one| one["state"] == "COMPLETED");
    assert_eq!(row["result"]["provider_txn_id"], "tx_77");
    let by = line(&desk, &held, "Resolve");
    assert_eq!(by["note"], "provider says yes");
    assert!(
        by["by"].as_str().expect("a name").contains("night-shift"),
        "{by}"
    );
}

/// The element that has the focus: its tag with its class, or its id.
fn focus(browser: &Browser) -> String {
    let script = "const one = document.activeElement;\
        return one.id || one.tagName.toLowerCase() + (one.className ? '.' + one.className : '')";
    let focus = browser.run(script, &[]).expect("a value");
    focus.as_str().unwrap_or_default().to_owned()
}

/// Presses Tab until this element has the focus; every stop must be visible.
fn tab_to(browser: &Browser, id: &str) {
    for _ in 0..60 {
        browser.press("\u{e004}").expect("Tab");
        if focus(browser) == id {
            let outline = "return getComputedStyle(document.activeElement).outlineStyle";
            let outline = browser.run(outline, &[]).expect("a value");
            assert_ne!(outline, "none", "{id} shows that it has the focus");
            return;
        }
    }
    let page = browser.source().unwrap_or_default();
    panic!("Tab does not reach {id} in {page}");
}

pub(crate) fn operations_are_canceled_retried_and_revealed() {
    let desk = Desk::new();
    let waiting = desk.submit("partners", "sync", "account-1");
    desk.until(&waiting, |one| one["phase"] == "waiting");
    let browser = desk.browser(Look::default());
    let open = |id: &str| {
        browser
            .open(&desk.url(&format!("/operations/{id}")))
            .expect("a page")
    };

    open(&waiting);
    shows(&browser, "http_500");
    act(&browser, "/retry-now", "the partner is back");
    shows(&browser, "The next attempt is due now.");
    desk.until(&waiting, |one| one["attempts"] == 2);
    assert_eq!(
        line(&desk, &waiting, "RetryNow")["note"],
        "the partner is back"
    );

    assert!(!browser.source().expect("a page").contains("DE02 secret"));
    act(&browser, "/reveal", "complaint 4711");
    shows(&browser, "DE02 secret");
    let noted = line(&desk, &waiting, "Revealed");
    assert_eq!(
        (&noted["note"], &noted["by"]),
        (&"complaint 4711".into(), &"local".into())
    );

    open(&waiting);
    act(&browser, "/cancel", "order withdrawn");
    shows(&browser, "Cancel requested");
    let row = desk.get(&format!("/v1/operations/{waiting}"));
    assert_eq!(
        row["cancel_requested"], true,
        "its effect is unknown: it is held"
    );

    // Many at once: a plan, a confirmation, the progress.
    for i in 0..5 {
        desk.submit("mail", "send", &format!("user-{i}"));
    }
    browser
        .open(&desk.url("/operations?domain=mail"))
        .expect("a page");
    browser
        .click("a[href^='/bulk?domain=mail&do=cancel']")
        .expect("a link");
    shows(&browser, "Cancel 5 open operations");
    browser
        .fill("#reason", "campaign stopped")
        .expect("a field");
    browser.click("form.card button").expect("a button");
    shows(&browser, "5 canceled or told to, 0 refused");
    let left = desk.get("/v1/operations?domain=mail&state=PENDING");
    assert_eq!(
        left["operations"].as_array().map(Vec::len),
        Some(0),
        "{left}"
    );
}

pub(crate) fn dead_letters_are_redriven_dismissed_and_opened_again() {
    let desk = Desk::new();
    let ids: Vec<String> = (0..4)
        .map(|i| desk.submit("payments", "refund", &format!("order-{i}")))
        .collect();
    for id in &ids {
        desk.until(id, |one| one["state"] == "FAILED");
    }
    let browser = desk.browser(Look::default());
    browser
        .open(&desk.url(&format!("/operations/{}", ids[0])))
        .expect("a page");
    act(&browser, "/dismiss", "paid by hand");
    shows(&browser, "no longer open");
    assert_eq!(line(&desk, &ids[0], "Dismissed")["note"], "paid by hand");

    browser.open(&desk.url("/dead-letters")).expect("a page");
    assert!(browser.text("tbody tr").expect("a group").starts_with('3'));
    browser
        .click("a[href^='/bulk?do=redrive']")
        .expect("a link");
    shows(&browser, "Redrive 3 dead letters");
    browser
        .fill("#reason", "the account is open again")
        .expect("a field");
    browser.click("form.card button").expect("a button");
    shows(&browser, "3 redriven, 0 refused");

    browser
        .open(&desk.url("/dead-letters?status=dismissed&view=list"))
        .expect("a page");
    shows(&browser, "paid by hand");
    browser.click("a[href^='/bulk?do=reopen']").expect("a link");
    browser.fill("#reason", "it was not").expect("a field");
    browser.click("form.card button").expect("a button");
    shows(&browser, "1 opened again, 0 refused");
    let letter = desk.get(&format!("/v1/dead-letters/{}", ids[0]));
    assert_eq!(letter["status"], "open", "{letter}");
}

pub(crate) fn domains_and_destinations_are_stopped_and_started() {
    let desk = Desk::new();
    let browser = desk.browser(Look::default());
    browser.open(&desk.url("/domains")).expect("a page");
    act(&browser, "/domains/payments/pause", "bank holiday");
    shows(&browser, "bank holiday");
    let waiting = desk.submit("payments", "charge", "order-1");
    browser
        .open(&desk.url(&format!("/operations/{waiting}")))
        .expect("a page");
    shows(&browser, "is paused");
    browser.open(&desk.url("/domains")).expect("a page");
    act(&browser, "/domains/payments/resume", "over");
    desk.until(&waiting, |one| one["state"] == "COMPLETED");

    browser.open(&desk.url("/destinations")).expect("a page");
    act(
        &browser,
        "/destinations/psp/open",
        "maintenance at the bank",
    );
    shows(&browser, "opened by local");
    shows(&browser, "maintenance at the bank");
    let waiting = desk.submit("payments", "charge", "order-2");
    browser.open(&desk.url("/")).expect("a page");
    shows(&browser, "psp");
    browser.open(&desk.url("/destinations")).expect("a page");
    act(&browser, "/destinations/psp/reset", "done");
    desk.until(&waiting, |one| one["state"] == "COMPLETED");
}
