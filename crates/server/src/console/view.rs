//! Small pieces that pages are made of.

use std::time::Duration;

use clinch_core::protocol::Phase;
use clinch_core::{OpId, Status, Timestamp};
use maud::{Markup, html};

use crate::api::HoldDocument;

/// A link to an operation, with a short form of its id: its start says when, its end tells ids of
/// one moment apart.
pub(crate) fn id_link(op_id: OpId) -> Markup {
    let whole = op_id.to_string();
    let (start, end) = (whole.get(..8), whole.get(28..));
    let short = start.zip(end).map(|(start, end)| format!("{start}…{end}"));
    let short = short.as_deref().unwrap_or(&whole);
    html! { a class="id" href={ "/operations/" (whole) } title=(whole) { (short) } }
}

/// The state in words, with a sign that does not depend on colour.
pub(crate) fn state(status: Status, phase: Option<Phase>) -> Markup {
    let (class, sign, text) = match (status, phase) {
        (Status::Pending, _) => ("pending", "○", "PENDING"),
        (Status::InProgress, Some(Phase::Live)) => ("running", "▶", "running"),
        (Status::InProgress, Some(Phase::Held)) => ("held", "‖", "held"),
        (Status::InProgress, _) => ("waiting", "◔", "waiting"),
        (Status::Completed, _) => ("ok", "✓", "COMPLETED"),
        (Status::Failed, _) => ("bad", "✕", "FAILED"),
    };
    badge(class, sign, text)
}

/// A code and what happened. A message that begins with its code is not shown twice.
pub(crate) fn error(code: &str, message: &str) -> Markup {
    let rest = message.strip_prefix(code).unwrap_or(message);
    let rest = rest.trim_start_matches([':', ' ']);
    html! { code { (code) } " " span class="muted" { (rest) } }
}

/// A word with a sign.
pub(crate) fn badge(class: &str, sign: &str, text: &str) -> Markup {
    html! {
        span class={ "badge " (class) } { span aria-hidden="true" { (sign) } (text) }
    }
}

/// `2026-11-18T03:04:05.678Z`
pub(crate) fn iso(at: Timestamp) -> String {
    crate::api::write_time(at)
}

/// A moment: the time of today, or the date with the time. The whole moment is in its title.
pub(crate) fn time(at: Timestamp, now: Timestamp) -> Markup {
    let whole = iso(at);
    let (day, clock) = whole.split_once('T').unwrap_or((&whole, ""));
    let clock = clock.get(..8).unwrap_or(clock);
    let today = iso(now);
    let text = match today.starts_with(day) {
        true => clock.to_owned(),
        false => format!("{day} {}", clock.get(..5).unwrap_or(clock)),
    };
    html! { time datetime=(whole) title={ (whole) " (UTC)" } { (text) } }
}

/// A moment with its distance from now.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> Markup {
    html! {
        (time(at, now)) " "
        span class="muted" { "(" (distance(at, now)) ")" }
    }
}

/// `3 min ago`, `in 12 s`.
pub(crate) fn distance(at: Timestamp, now: Timestamp) -> String {
    let (ahead, behind) = (at.since(now), now.since(at));
    match ahead > Duration::ZERO {
        true => format!("in {}", length(ahead)),
        false => format!("{} ago", length(behind)),
    }
}

/// `850 ms`, `12 s`, `3 min`, `5 h`, `2 d`: two digits are enough to judge.
pub(crate) fn length(length: Duration) -> String {
    let millis = length.as_millis();
    let secs = length.as_secs();
    match secs {
        0 => format!("{millis} ms"),
        1..=9 => format!("{:.1} s", length.as_secs_f64()),
        10..=119 => format!("{secs} s"),
        120..=7_199 => format!("{} min", secs / 60),
        7_200..=172_799 => format!("{} h", secs / 3_600),
        _ => format!("{} d", secs / 86_400),
    }
}

/// A number with thin groups of three digits.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A page or table without content: what that means, and what to do.
pub(crate) fn empty(what: &str, to_do: &Markup) -> Markup {
    html! { div class="empty" { p class="lead" { (what) } p { (to_do) } } }
}

/// A row of facts. Facts without a value are left out.
pub(crate) fn facts(facts: &[(&str, Option<Markup>)]) -> Markup {
    html! {
        dl class="facts" {
            @for (name, value) in facts {
                @if let Some(value) = value {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}

/// The reason why an operation is not running, in a few words for a table.
pub(crate) fn why(hold: &HoldDocument) -> String {
    let reason = match hold.reason {
        "effect_unknown" => "effect unknown",
        "paused" => "domain paused",
        "breaker_open" => "destination down",
        "rate_limited" => "rate limited",
        "bulkhead_full" => "all calls in use",
        "key_order" => "behind an earlier one",
        "no_executor" => "no worker",
        "backoff" => "retry",
        "delayed" => "scheduled",
        other => other,
    };
    match hold.until.as_deref().and_then(|until| until.get(11..19)) {
        Some(until) => format!("{reason} until {until}"),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers_are_short() {
        let of = |millis| length(Duration::from_millis(millis));
        assert_eq!(of(850), "850 ms");
        assert_eq!(of(1_500), "1.5 s");
        assert_eq!(of(61_000), "61 s");
        assert_eq!(of(600_000), "10 min");
        assert_eq!(of(10_800_000), "3 h");
        assert_eq!(of(864_000_000), "10 d");
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(5_000_000), "5,000,000");
    }

    #[test]
    fn a_moment_of_today_shows_its_time_only() {
        let now = Timestamp::from_millis(1_794_729_600_120);
        let text = time(now, now).into_string();
        assert!(text.contains(">08:00:00<"), "{text}");
        let day = Duration::from_secs(86_400);
        let text = time(now - day, now).into_string();
        assert!(text.contains(">2026-11-14 08:00<"), "{text}");
        assert_eq!(distance(now - day, now), "24 h ago");
        assert_eq!(distance(now + Duration::from_secs(30), now), "in 30 s");
    }
}
