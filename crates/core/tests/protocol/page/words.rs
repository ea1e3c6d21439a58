//! How the page says what the test's names mean.

use clinch_core::Effect;
use clinch_core::protocol::{Event, ProbeAnswer, Resolution};

/// The event with the part of it that the table tells apart.
pub(super) fn event(event: &Event) -> String {
    let detail = match event {
        Event::Retry { effect, .. } if *effect == Effect::Unknown => ", applied unknown",
        Event::Retry { .. } => ", applied no",
        Event::Probed { answer, .. } => match answer {
            ProbeAnswer::Succeeded => " Succeeded",
            ProbeAnswer::Failed(_) => " Failed",
            ProbeAnswer::NotFound => " NotFound",
            ProbeAnswer::Unknown => " Unknown",
        },
        Event::Resolve(resolution) => match resolution {
            Resolution::Completed => " completed",
            Resolution::Failed { .. } => " failed",
            Resolution::Retry => " retry",
        },
        _ => "",
    };
    format!("{}{detail}", event.name())
}

/// The circumstances of a case.
pub(super) fn when(case: &str) -> &'static str {
    let (event, circumstance) = case.split_once('.').unwrap_or((case, ""));
    match (event, circumstance) {
        ("begin", "ready") => "due",
        ("begin", "permit") => "due, with a repeat permit",
        ("begin", "broken") => "the payload does not match its content hash",
        ("begin", "poison") => "`deliveries` is at its cap",
        ("not_called", "permit") => "the begin used a repeat permit",
        ("finalize", "current") => "recorded under the row's fence",
        ("probed_succeeded", "same") => "the fence is unchanged since the probe was sent",
        ("probed_succeeded", "stale") => "the fence was raised since the probe was sent",
        ("resolve_failed", "one_call") => "no effect stated, one call",
        ("resolve_failed", "two_calls") => "no effect stated, several calls",
        ("resolve_failed", "says_none") => "the operator states effect none",
        ("resolve_failed", "says_unknown") => "the operator states effect unknown",
        ("not_found", "final") => "final",
        ("not_found", "used_up") => "final, attempts used up",
        ("not_found", "overdue") => "final, the deadline has passed",
        ("not_found", "canceled") => "final, cancel requested",
        ("not_found", "early") => "sent too early to be final",
        ("not_found", "never_final") => "the route sets no `not_found_final_after`",
        ("not_found", "early_last") => "not final, the `inconclusive_max`-th probe",
        ("probed_unknown", "more") => "before the `inconclusive_max`-th probe",
        ("probed_unknown", "last") => "the `inconclusive_max`-th probe",
        ("probed_unknown", "last_canceled") => "the `inconclusive_max`-th probe, cancel requested",
        ("probed_unknown", "no_probe") => "the route has no probe",
        ("lost" | "died", "auto") => "strategy `auto`",
        ("lost" | "died", "retry") => "strategy `retry`",
        ("lost" | "died", "probe") => "strategy `probe`",
        ("lost" | "died", "fail") => "strategy `fail`",
        ("lost" | "died", "poison") => "`deliveries` reaches its cap",
        ("died", "other_process") => "another process runs the attempt",
        ("cancel", "first") => "first Cancel",
        ("retry_now", "early") => "not due yet",
        ("retry_now", "overdue") => "not due yet, the deadline has passed",
        ("retry_now", "due") => "due",
        (_, "current") => "current fence",
        (_, "expired") => "current fence, lease expired",
        (_, "stale") => "stale fence",
        (_, "spilled") => "from the spill file",
        (_, "canceled") => "cancel requested",
        (_, "used_up") => "attempts used up",
        (_, "overdue" | "passed") => "the deadline has passed",
        (_, "one_call") => "`maybe_calls` at most 1",
        (_, "two_calls") => "`maybe_calls` above 1",
        ("resolve_retry", "wanted") => "cancel not requested",
        (_, "") => "any",
        _ => panic!("say on the page what {case:?} means"),
    }
}

/// A set of routes, by what their rules allow.
pub(super) fn routes(routes: &[&str]) -> &'static str {
    match routes {
        [_, _, _, _, _, _] => "any",
        ["natural", "keyed.fresh", "keyed.remembers"] => "may repeat",
        ["unsafe", "keyed.closing", "keyed.past"] => "may not repeat",
        ["keyed.remembers", "keyed.closing"] => "keyed, within `key_ttl`, `remembers_refusals`",
        ["unsafe", "natural", "keyed.fresh", "keyed.past"] => "any other",
        _ => panic!("say on the page what {routes:?} have in common"),
    }
}
