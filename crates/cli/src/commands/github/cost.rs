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
        format!("  {:<20}{:>10}  {:>10}", "requests", "at least", "at most"),
    ];
    let streams = cost.pointer("/streams").and_then(Value::as_array);
    let row = |name: &str, cost: &Value| {
        let least = grouped(number(cost, "/at_least"));
        format!("  {:<20}{least:>10}  {:>10}", plain(name), most(cost))
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
            "this look made {} requests itself",
            grouped(looked)
        ));
    }
    lines
}

/// The most, or as much of it as is known.
fn most(cost: &Value) -> String {
    if let Some(most) = cost.pointer("/at_most").and_then(Value::as_u64) {
        return grouped(most);
    }
    let known = grouped(number(cost, "/at_most_known"));
    let lists = cost.pointer("/lists").and_then(Value::as_u64);
    match (number(cost, "/lists_known"), lists) {
        (0, _) if known == "0" => "unknown".to_owned(),
        (read, Some(lists)) => {
            let (read, lists) = (grouped(read), grouped(lists));
            format!("at least {known} (from {read} of {lists} lists)")
        }
        _ => format!("at least {known}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn col_8_what_is_known_of_a_cost_is_shown() {
        let known =
            json!({"at_most": 1_200, "at_most_known": 1_200, "lists": 40, "lists_known": 40});
        assert_eq!(most(&known), "1,200");
        let part = json!({"at_most": null, "at_most_known": 1_200, "lists": 40, "lists_known": 30});
        assert_eq!(most(&part), "at least 1,200 (from 30 of 40 lists)");
        let none = json!({"at_most": null, "at_most_known": 0, "lists": 40, "lists_known": 0});
        assert_eq!(most(&none), "unknown");
        let no_repositories = json!({"at_most": null, "at_most_known": 0, "lists": null});
        assert_eq!(most(&no_repositories), "unknown");
        let all = json!({"at_most": null, "at_most_known": 1_500});
        assert_eq!(most(&all), "at least 1,500");
    }
}
