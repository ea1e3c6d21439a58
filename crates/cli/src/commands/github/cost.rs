//! What a run would cost, for people.

use serde_json::Value;

use super::follow::{number, text};
use super::summary::grouped;
use crate::output::text::plain;

/// The text of a cost: one line for each stream, and one for each token.
pub(crate) fn lines(cost: &Value) -> Vec<String> {
    let repositories = grouped(number(cost, "/repositories"));
    let mut lines = vec![
        format!("a run of {} would make", plain(text(cost, "/login"))),
        format!("  {:<22}{:>12}{:>12}", "requests", "at least", "at most"),
    ];
    let streams = cost.pointer("/streams").and_then(Value::as_array);
    let row = |name: &str, cost: &Value| {
        let least = grouped(number(cost, "/at_least"));
        format!("  {:<22}{least:>12}{:>12}", plain(name), most(cost))
    };
    let streams = streams.into_iter().flatten();
    lines.extend(streams.map(|stream| row(text(stream, "/kind"), stream)));
    lines.push(row("all", cost));
    lines.push(format!(
        "of {repositories} repositories; an unchanged list costs a request and no budget"
    ));
    let tokens = cost.pointer("/tokens").and_then(Value::as_array);
    let tokens = tokens.map(Vec::as_slice).unwrap_or_default();
    if tokens.is_empty() {
        lines.push("without a token GitHub grants 60 requests an hour".to_owned());
    }
    lines.extend(tokens.iter().map(|token| {
        let name = plain(text(token, "/token")).into_owned();
        match token.pointer("/budget/remaining").and_then(Value::as_u64) {
            Some(left) => format!(
                "token {name}: {} of {} left until {}",
                grouped(left),
                grouped(number(token, "/budget/limit")),
                plain(text(token, "/budget/reset_at"))
            ),
            None => format!("token {name}: its budget is not known"),
        }
    }));
    if let Some(problem) = cost.pointer("/problem").and_then(Value::as_str) {
        lines.push(plain(problem).into_owned());
    }
    let looked = number(cost, "/looked");
    if looked > 0 {
        lines.push(format!(
            "{} requests were made to learn this",
            grouped(looked)
        ));
    }
    lines
}

fn most(cost: &Value) -> String {
    match cost.pointer("/at_most").and_then(Value::as_u64) {
        Some(most) => grouped(most),
        None => "unknown".to_owned(),
    }
}
