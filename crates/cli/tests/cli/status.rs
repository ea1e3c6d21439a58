//! `clinch status` on a terminal of 80 columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::pty::{interrupted, on_terminal};
use crate::run::{command, command_at, ended, run};
use crate::server::{Answer, Server};

fn minute(completed: u64) -> Value {
    let durations = json!({"count": 0, "p50_ms": null, "p95_ms": null, "p99_ms": null});
    json!({"accepted": completed, "completed": completed, "failed": 0, "retried": 0, "end_to_end": durations, "calls": durations})
}

fn overview(warnings: &Value) -> Value {
    let durations = json!({"count": 9, "p50_ms": 40, "p95_ms": 230, "p99_ms": 900});
    let minutes: Vec<Value> = (0..60).map(minute).collect();
    json!({
        "now": "2026-11-17T14:05:00.000Z", "version": "0.1.0", "store": "postgres", "uptime_ms": 11_000_000,
        "warnings": warnings,
        "operations": {"pending": 3, "in_progress": 14, "completed": 1034, "failed": 4, "live": 1, "recorded": 0,
            "waiting": 12, "held": 1, "oldest_due_ms": 130_000, "oldest_due_domain": "payments"},
        "dead_letters_open": 4,
        "domains": [
            {"domain": "payments", "paused": false, "depth": 15, "oldest_age_ms": 130_000,
             "counts": {"PENDING": 3, "IN_PROGRESS": 14, "COMPLETED": 1034, "FAILED": 4, "live": 1, "waiting": 12, "held": 1}},
            {"domain": "idle", "paused": false, "depth": 0, "oldest_age_ms": null,
             "counts": {"PENDING": 0, "IN_PROGRESS": 0, "COMPLETED": 7, "FAILED": 0, "live": 0, "waiting": 0, "held": 0}},
        ],
        "destinations": [
            {"destination": "psp", "state": "down", "breaker_since": "2026-11-17T14:03:09.120Z", "open_until": "2026-11-17T14:05:40.000Z",
             "backlog": 12, "last_error": {"code": "effect_unknown", "message": "http 503", "at": "2026-11-17T14:04:59.000Z"}},
            {"destination": "mail", "state": "ok", "backlog": 0, "last_error": null},
        ],
        "history": {"from": "2026-11-17T13:06:00.000Z", "minutes": minutes, "end_to_end": durations, "calls": durations},
        "nodes": [
            {"name": "clinch-17-0a1b", "roles": ["api", "worker"], "version": "0.1.0", "started_at": "T", "seen_at": "T", "alive": true},
            {"name": "clinch-18-2c3d", "roles": ["recovery"], "version": "0.1.0", "started_at": "T", "seen_at": "T", "alive": false},
        ],
    })
}

fn down() -> Value {
    json!([
        {"code": "destination_down", "severity": "critical",
         "message": "destination psp is down: 10 of 12 calls failed in the last 5 minutes, last error: http 503; next call at 14:05:40 UTC",
         "since": "2026-11-17T14:03:09.120Z", "command": "clinch destinations reset psp", "link": "/destinations"},
        {"code": "operations_held", "severity": "warning", "message": "1 operation is held: it is unknown whether the call was applied",
         "since": null, "command": "clinch ops ls --phase held", "link": "/operations?phase=held"},
    ])
}

/// Fits 80 columns and 24 lines.
fn fits(screen: &str) {
    for line in screen.lines() {
        assert!(
            line.chars().count() <= 80,
            "{} columns: {line}",
            line.chars().count()
        );
    }
    // The line that names the server is not part of the overview.
    assert!(screen.lines().count() <= 25, "{screen}");
}

#[test]
fn run_10_all_is_well_in_the_first_line_and_exit_0() {
    let mut calm = overview(&json!([]));
    calm["destinations"] = json!([]);
    let server = Server::always(200, &calm.to_string());
    let session = on_terminal(command_at(&server, &["status", "--no-color"]), 80, "");
    assert_eq!(session.code, 0, "{}", session.screen);
    fits(&session.screen);
    for text in [
        "all is well\n",
        "clinch 0.1.0 on postgres, up 3 h",
        "pending 3  live 1  waiting 12  held 1  completed 1034  failed 4",
        "oldest due 2 min (payments)",
        "processes   1 alive, 1 lost: clinch-17-0a1b (api+worker)",
        "1770 completed, 0 failed, 0 retried; p95 230 ms, calls 230 ms",
    ] {
        assert!(session.screen.contains(text), "{text}\n{}", session.screen);
    }
    assert!(
        !session.screen.contains("idle"),
        "a domain without work: {}",
        session.screen
    );
    assert!(session.screen.contains('█'), "{}", session.screen);
}

#[test]
fn run_10_a_critical_warning_comes_first_with_since_and_the_next_command_and_exit_1() {
    let server = Server::always(200, &overview(&down()).to_string());
    let session = on_terminal(command_at(&server, &["status", "--no-color"]), 80, "");
    assert_eq!(session.code, 1, "{}", session.screen);
    fits(&session.screen);
    for text in [
        "1 critical, 1 warning: destination psp is down",
        "next: clinch destinations reset psp",
        "next: clinch ops ls --phase held",
        "since ",
        "http 503",
        "psp          down",
    ] {
        assert!(session.screen.contains(text), "{text}\n{}", session.screen);
    }
    let ran = run(&server, &["status", "-o", "json"]);
    assert_eq!(ran.code, 1);
    let read: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(read["warnings"][0]["code"], "destination_down");
    assert_eq!(server.lines()[0], "GET /v1/overview");
}

#[test]
fn run_10_many_warnings_still_fit_the_screen() {
    let many: Vec<Value> = (0..9)
        .map(|n| {
            let mut one = down()[1].clone();
            one["message"] = json!(format!("{n} {}", "operations are held ".repeat(20)));
            one
        })
        .collect();
    let server = Server::always(200, &overview(&json!(many)).to_string());
    let session = on_terminal(command_at(&server, &["status", "--no-color"]), 80, "");
    for line in session.screen.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(
        session.screen.contains("5 more warnings"),
        "{}",
        session.screen
    );
    assert_eq!(session.code, 0, "no warning is critical");
}

#[test]
fn a_server_that_does_not_answer_is_one_line_that_says_what_to_do() {
    let mut status = command(&["status", "--url", "http://127.0.0.1:9"]);
    let ran = ended(status.output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(
        ran.err.contains("is `clinch serve` running there?"),
        "{}",
        ran.err
    );
}

#[test]
fn watch_draws_again_after_an_event_and_restores_the_terminal() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let server = Server::new(move |seen| match seen.target.as_str() {
        "/v1/events" => Answer::events("event: counters\ndata: {\"domains\":[]}\n\n", false),
        _ => match counted.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::new(200, overview(&json!([])).to_string()),
            _ => Answer::new(200, overview(&down()).to_string()),
        },
    });
    let watch = command_at(&server, &["status", "--watch", "--no-color"]);
    let session = interrupted(watch, 80, "1 critical");
    assert_eq!(session.code, 1, "{}", session.screen);
    let (enter, leave) = ("\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l");
    let entered = session.screen.find(enter).expect("the second screen");
    assert!(entered < session.screen.find("all is well").unwrap());
    assert!(session.screen.ends_with(leave), "{:?}", session.screen);
    assert!(asked.load(Ordering::SeqCst) >= 2);
}

#[test]
fn watch_in_a_pipe_says_what_to_use() {
    let server = Server::always(200, &overview(&json!([])).to_string());
    let ran = run(&server, &["status", "--watch"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("-o jsonl"), "{}", ran.err);
}
