//! The ledger of an operation, told line by line.

use std::time::Duration;

use clinch_core::Timestamp;
use clinch_core::ports::LedgerLine;
use maud::{Markup, html};

use super::view;

/// Lines of one page; an operation that was extended for days has more.
const LINES_MAX: usize = 500;

/// A line in plain words: the sign, its colour, and the sentence.
fn told(line: &LedgerLine) -> (&'static str, &'static str, &'static str) {
    match line.event.as_str() {
        "Accept" => ("neutral", "●", "Accepted"),
        "Begin" => ("running", "▶", "Attempt began: the call may leave"),
        "Extend" => ("neutral", "·", "Lease extended"),
        "Checkpoint" => ("neutral", "·", "Checkpoint kept"),
        "NotCalled" => ("waiting", "↺", "Not called: the attempt does not count"),
        "Ok" => ("ok", "✓", "The provider applied the call"),
        "Fail" => ("bad", "✕", "The provider refused for good"),
        "Retry" => ("waiting", "↻", "The attempt settled nothing"),
        "AttemptLost" => ("held", "?", "The lease ended without an answer"),
        "ProcessDied" => ("held", "?", "The process that made the call died"),
        "DeadlinePassed" => ("bad", "!", "The deadline passed"),
        "Finalize" => ("ok", "■", "Made final"),
        "Probed" => (
            "held",
            "?",
            "The provider was asked what became of the call",
        ),
        "Resolve" => ("held", "⚑", "A person settled it"),
        "Cancel" => ("waiting", "⊘", "Cancel requested"),
        "RetryNow" => (
            "waiting",
            "↻",
            "A person asked for the next attempt at once",
        ),
        "Restored" => ("held", "?", "Restored from a backup"),
        "Spawn" => ("neutral", "+", "Spawned another operation"),
        "Dismissed" => ("neutral", "⚑", "The dead letter was dismissed"),
        "Reopened" => ("neutral", "⚑", "The dead letter was opened again"),
        "Revealed" => ("neutral", "◉", "Payload and result were revealed"),
        _ => ("neutral", "·", ""),
    }
}

/// The ledger, oldest first.
pub(super) fn show(lines: &[LedgerLine], accepted_at: Timestamp, now: Timestamp) -> Markup {
    let hidden = lines.len().saturating_sub(LINES_MAX);
    let mut before = accepted_at;
    let mut entries = Vec::with_capacity(lines.len().min(LINES_MAX));
    for line in lines.iter().skip(hidden) {
        entries.push(entry(line, line.at.since(before), now));
        before = line.at;
    }
    html! {
        @if hidden > 0 {
            p class="muted" { (hidden) " earlier lines: " code { "clinch ops get ID --path" } " shows them all." }
        }
        ol class="timeline" { @for entry in entries { (entry) } }
    }
}

fn entry(line: &LedgerLine, later: Duration, now: Timestamp) -> Markup {
    let (class, sign, text) = told(line);
    let text = if text.is_empty() { &line.event } else { text };
    html! {
        li class=(class) {
            span class="sign" aria-hidden="true" { (sign) }
            div {
                p {
                    strong { (text) }
                    @if let Some(refused) = &line.refused {
                        span class="muted" { " — nothing changed: " (refused) }
                    }
                }
                @if !line.note.is_empty() { p class="said" { (line.note) } }
                @if let Some(late) = &line.late {
                    p class="said" {
                        "Late answer"
                        @if let Some(txn) = &late.provider_txn_id { " " code { (txn) } }
                    }
                }
                p class="muted" {
                    (view::time(line.at, now))
                    @if !later.is_zero() { " · +" (view::length(later)) }
                    @if let Some(by) = &line.by { " · by " code { (by) } }
                    " · " (line.status.as_str()) ", version " (line.version)
                }
            }
        }
    }
}
