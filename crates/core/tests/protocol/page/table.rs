//! The printed parts: from where to where, the overview, the transitions, the refusals.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use clinch_core::protocol::{Event, Phase, State, Status, Verdict, WriteAhead};
use clinch_core::{Effect, Failure};

use super::words;
use crate::cases::{Case, Scene};
use crate::rows::{Route, Row, attempt_id, refusal};

/// The columns of the overview, in the order of an operation's life.
const POSITIONS: [&str; 7] = [
    "PENDING",
    "live",
    "recorded",
    "waiting",
    "held",
    "COMPLETED",
    "FAILED",
];

/// Stands in the place of the code with which an operation came to be held.
const HOLD_CODE: &str = "hold_code";

pub(super) fn position(state: &State) -> &'static str {
    if matches!(state.write_ahead, WriteAhead::Pending { .. }) {
        return "recorded";
    }
    match (state.status, state.phase) {
        (Status::Pending, _) => "PENDING",
        (Status::Completed, _) => "COMPLETED",
        (Status::Failed, _) => "FAILED",
        (Status::InProgress, Some(Phase::Live)) => "live",
        (Status::InProgress, Some(Phase::Held)) => "held",
        (Status::InProgress, _) => "waiting",
    }
}

fn order(position: &str) -> usize {
    let at = POSITIONS.iter().position(|one| *one == position);
    at.expect("a position")
}

/// One application of an event.
struct Step {
    row: Row,
    case: Case,
    route: Route,
    before: State,
    event: Event,
    after: Result<(State, Vec<String>), (String, String, bool)>,
}

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for case in Case::ALL {
        for row in Row::ALL {
            steps.extend(Route::ALL.iter().map(|route| step(*case, *row, *route)));
        }
    }
    steps
}

fn step(case: Case, row: Row, route: Route) -> Step {
    let (scene, event) = case.scene(row, route);
    let Scene {
        state: mut before,
        rules,
        now,
    } = scene;
    if let Some(hold) = before.hold.as_mut() {
        hold.failure = Failure::own(HOLD_CODE, "", Effect::Unknown);
    }
    let after = match before.apply(&event, now, &rules) {
        Ok((next, actions)) => {
            let actions = actions.iter().map(|action| format!("{action:?}"));
            Ok((next, actions.collect()))
        }
        Err(no) => Err((format!("{:?}", no.why), no.why.to_string(), no.ledger)),
    };
    Step {
        row,
        case,
        route,
        before,
        event,
        after,
    }
}

pub(super) fn blocks() -> Vec<(&'static str, String)> {
    let steps = steps();
    vec![
        ("ways", ways(&steps)),
        ("overview", overview(&steps)),
        ("transitions", transitions(&steps)),
        ("refusals", refusals(&steps)),
    ]
}

/// Each word once, in the order of arrival.
fn add(words: &mut Vec<String>, word: impl Into<String>) {
    let word = word.into();
    if !words.contains(&word) {
        words.push(word);
    }
}

fn ways(steps: &[Step]) -> String {
    let mut edges: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for step in steps {
        let Ok((next, _)) = &step.after else { continue };
        let (from, to) = (order(position(&step.before)), order(position(next)));
        if from != to {
            add(edges.entry((from, to)).or_default(), step.event.name());
        }
    }
    let mut text = format!("| from \\ to | {} |\n", POSITIONS.join(" | "));
    text.push_str(&"| --- ".repeat(POSITIONS.len() + 1));
    text.push_str("|\n| (new) | Accept | Accept with begin | | | | | |\n");
    let last = order("held");
    for (from, name) in POSITIONS.iter().enumerate().take(last + 1) {
        let _ = write!(text, "| `{name}` ");
        for to in 0..POSITIONS.len() {
            match edges.get(&(from, to)) {
                Some(events) => {
                    let _ = write!(text, "| {} ", events.join(", "));
                }
                None => text.push_str("| "),
            }
        }
        text.push_str("|\n");
    }
    let is_final = |(from, _): &(usize, usize)| *from > last;
    assert!(
        !edges.keys().any(is_final),
        "COMPLETED and FAILED never change"
    );
    text
}

fn overview(steps: &[Step]) -> String {
    let mut events: Vec<String> = Vec::new();
    let mut ledger: BTreeMap<String, bool> = BTreeMap::new();
    let mut cells: BTreeMap<(String, usize), (Vec<String>, Vec<String>)> = BTreeMap::new();
    for step in steps {
        let event = words::event(&step.event);
        add(&mut events, &*event);
        let at = (event.clone(), order(position(&step.before)));
        let (next, refused) = cells.entry(at).or_default();
        match &step.after {
            Ok((state, _)) => add(next, position(state)),
            Err((why, _, line)) => {
                add(refused, why);
                ledger.insert(event, *line);
            }
        }
    }
    let mut text = format!("| event | {} | ledger |\n", POSITIONS.join(" | "));
    text.push_str(&"| --- ".repeat(POSITIONS.len() + 2));
    text.push_str("|\n");
    for event in events {
        let _ = write!(text, "| {event} ");
        for column in 0..POSITIONS.len() {
            let (next, refused) = &cells[&(event.clone(), column)];
            let mut next = next.clone();
            next.sort_by_key(|one| order(one));
            let mut cell = Vec::new();
            if !next.is_empty() {
                cell.push(format!("**{}**", next.join(", ")));
            }
            if !refused.is_empty() {
                cell.push(refused.join(", "));
            }
            let _ = write!(text, "| {} ", cell.join("<br>"));
        }
        let line = if ledger[&event] { "yes" } else { "no" };
        let _ = writeln!(text, "| {line} |");
    }
    text
}

/// What a line of the transitions says of the row after the event. The effect is named where the
/// event is one that changes it.
fn becomes(step: &Step, next: &State, changes_effect: bool) -> String {
    let code = |failure: &Failure| match failure.code.as_str() {
        HOLD_CODE => "the hold's code".to_owned(),
        code if code == refusal().code => "the Fail's code".to_owned(),
        code => format!("`{code}`"),
    };
    let effect = |effect| match effect {
        Effect::None => "effect none",
        Effect::Unknown => "effect unknown",
    };
    let (before, after) = (position(&step.before), position(next));
    match (&next.hold, &next.failure) {
        _ if before == after && matches!(after, "recorded" | "held" | "FAILED") => after.to_owned(),
        (Some(hold), _) => format!("held, {}", code(&hold.failure)),
        (_, Some(failure)) if after == "FAILED" => {
            format!("FAILED, {}, {}", code(failure), effect(failure.effect))
        }
        _ if after == "recorded" => recorded(next).to_owned(),
        _ if changes_effect && !next.is_terminal() => format!("{after}, {}", effect(next.effect)),
        _ => after.to_owned(),
    }
}

fn recorded(state: &State) -> &'static str {
    match state.write_ahead {
        WriteAhead::Pending { verdict, .. } => match verdict {
            Verdict::Ok => "recorded Ok",
            Verdict::Fail => "recorded Fail",
        },
        WriteAhead::Empty | WriteAhead::Done => "",
    }
}

/// The fields that change beside state, phase, effect, times and hold.
fn changes(before: &State, next: &State) -> String {
    let number = |name: &str, before: u64, next: u64| match next.checked_sub(before) {
        Some(0) => None,
        Some(1_048_576) => Some(format!("`{name}` +1,048,576")),
        Some(more) => Some(format!("`{name}` +{more}")),
        None if next == 0 && name == "deliveries" => Some(format!("`{name}` = 0")),
        None => Some(format!("`{name}` -{}", before - next)),
    };
    let flag = |name: &str, before: bool, next: bool| match (before, next) {
        (false, true) => Some(format!("`{name}` set")),
        (true, false) => Some(format!("`{name}` cleared")),
        _ => None,
    };
    let moved = |name: &str, moved: bool| moved.then(|| format!("`{name}` moved"));
    let small = |count: u32| u64::from(count);
    let ended = next.is_terminal();
    [
        number("fence", before.fence, next.fence),
        number("attempts", small(before.attempts), small(next.attempts)),
        number(
            "maybe_calls",
            small(before.maybe_calls),
            small(next.maybe_calls),
        ),
        number(
            "deliveries",
            small(before.deliveries),
            small(next.deliveries),
        ),
        moved("call_deadline", before.call_deadline != next.call_deadline),
        moved(
            "lease_until",
            next.phase == Some(Phase::Live)
                && before.lease_until.is_some()
                && before.lease_until != next.lease_until,
        ),
        moved("deadline", before.deadline != next.deadline),
        moved(
            "next_attempt_at",
            before.next_attempt_at.is_some()
                && next.next_attempt_at.is_some()
                && before.next_attempt_at != next.next_attempt_at,
        ),
        flag(
            "cancel_requested",
            before.cancel_requested,
            next.cancel_requested,
        ),
        flag("repeat_permit", before.repeat_permit, next.repeat_permit).filter(|_| !ended),
        flag("late_ok", before.late_ok, next.late_ok),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

/// One outcome of an event at one kind of row.
#[derive(Clone, PartialEq, Eq)]
struct Line {
    event: String,
    /// A recorded Ok and a recorded Fail are told apart.
    from: String,
    effect: &'static str,
    routes: &'static str,
    becomes: String,
    actions: String,
    changes: String,
}

/// The outcomes of one case at one kind of row: by the effect before, then by the routes.
fn lines(steps: &[&Step], changes_effect: bool) -> Vec<Line> {
    let mut outcomes: Vec<(Line, BTreeMap<Row, Vec<&'static str>>)> = Vec::new();
    for step in steps {
        let Ok((next, actions)) = &step.after else {
            continue;
        };
        let from = match position(&step.before) {
            "recorded" => recorded(&step.before),
            from => from,
        };
        let line = Line {
            event: words::event(&step.event),
            from: from.to_owned(),
            effect: "",
            routes: "",
            becomes: becomes(step, next, changes_effect),
            actions: actions.join(", "),
            changes: changes(&step.before, next),
        };
        let known = outcomes.iter().position(|(one, _)| *one == line);
        let at = known.unwrap_or_else(|| {
            outcomes.push((line, BTreeMap::new()));
            outcomes.len() - 1
        });
        let routes = outcomes[at].1.entry(step.row).or_default();
        routes.push(step.route.name());
    }
    let lines = outcomes.into_iter().flat_map(|(line, rows)| {
        let effects = effects(&rows).into_iter();
        effects.map(move |(effect, routes)| Line {
            effect,
            routes,
            ..line.clone()
        })
    });
    lines.collect()
}

/// The effects of these rows with the routes of each; "any" where it makes no difference.
fn effects(rows: &BTreeMap<Row, Vec<&'static str>>) -> Vec<(&'static str, &'static str)> {
    let routes: BTreeSet<_> = rows.values().collect();
    let is_held = |row: &Row| position(&row.state(Route::Natural)) == "held";
    if let (1, true) = (routes.len(), rows.len() > 1 || rows.keys().all(is_held)) {
        return routes
            .into_iter()
            .map(|all| ("any", words::routes(all)))
            .collect();
    }
    let effect = |row: &Row| match row.effect() {
        Effect::None => "none",
        Effect::Unknown => "unknown",
    };
    let each = rows
        .iter()
        .map(|(row, all)| (effect(row), words::routes(all)));
    each.collect()
}

/// Lines with the names of the cases in which they hold.
fn by_case(steps: &[Step]) -> Vec<(Line, Vec<&'static str>)> {
    let event = |step: &Step| words::event(&step.event);
    let mut merged: Vec<(Line, Vec<&'static str>)> = Vec::new();
    for case in Case::ALL {
        let of_case: Vec<&Step> = steps.iter().filter(|step| step.case == *case).collect();
        let label = event(of_case[0]);
        let changes_effect = steps.iter().any(|step| {
            let changed = matches!(&step.after, Ok((next, _))
                if !next.is_terminal() && next.effect != step.before.effect);
            changed && event(step) == label
        });
        for row in Row::ALL {
            // Each kind of row by itself, its effects together.
            let kind = kind(*row);
            let first = Row::ALL.iter().find(|one| self::kind(**one) == kind);
            if first != Some(row) {
                continue;
            }
            let same = |step: &&&Step| self::kind(step.row) == kind;
            let of_kind: Vec<&Step> = of_case.iter().filter(same).copied().collect();
            for line in lines(&of_kind, changes_effect) {
                match merged.iter_mut().find(|(one, _)| *one == line) {
                    Some((_, cases)) => cases.push(case.name()),
                    None => merged.push((line, vec![case.name()])),
                }
            }
        }
    }
    merged
}

/// `live` of `live.unknown`, `recorded.ok` of `recorded.ok.none`.
fn kind(row: Row) -> &'static str {
    let name = row.name();
    let without = name.strip_suffix(".none").or(name.strip_suffix(".unknown"));
    without.unwrap_or(name)
}

fn transitions(steps: &[Step]) -> String {
    let mut joined: Vec<(Line, Vec<&'static str>, Vec<String>)> = Vec::new();
    for (line, cases) in by_case(steps) {
        let from = line.from.clone();
        let line = Line {
            from: String::new(),
            ..line
        };
        let same = |(one, its, _): &&mut (Line, Vec<&str>, _)| *one == line && *its == cases;
        match joined.iter_mut().find(same) {
            Some((_, _, positions)) => positions.push(from),
            None => joined.push((line, cases, vec![from])),
        }
    }
    let mut text = "| event | when | from | effect | route | becomes | actions | also |\n\
        | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for (line, cases, positions) in joined {
        let when = circumstances(steps, &line.event, &cases);
        let from = positions.join(", ");
        let from = from.replace("recorded Ok, recorded Fail", "recorded");
        let effect = line.effect.to_owned();
        let routes = line.routes.to_owned();
        let outcome = [line.becomes, line.actions, line.changes];
        let cells = [line.event, when, from, effect, routes].into_iter();
        let cells = cells.chain(outcome).map(|cell| match cell.as_str() {
            "" => "–".to_owned(),
            _ => cell,
        });
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// What the cases say, or "any" where they are all cases of the event.
fn circumstances(steps: &[Step], event: &str, cases: &[&str]) -> String {
    let of_event = steps
        .iter()
        .filter(|step| words::event(&step.event) == event);
    let all: BTreeSet<&str> = of_event.map(|step| step.case.name()).collect();
    if all.len() == cases.len() {
        return "any".to_owned();
    }
    let mut when = Vec::new();
    for case in cases {
        add(&mut when, words::when(case));
    }
    when.join("; ")
}

fn refusals(steps: &[Step]) -> String {
    let mut reasons: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for step in steps {
        if let Err((why, text, _)) = &step.after {
            let (_, events) = reasons.entry(why.clone()).or_insert((text.clone(), vec![]));
            add(events, step.event.name());
        }
        let stranger = Some(attempt_id(u128::MAX));
        let (scene, event) = step.case.scene(step.row, step.route);
        if event.fence().is_some()
            && let Err(no) = scene
                .state
                .apply_as(stranger, &event, scene.now, &scene.rules)
        {
            let reason = reasons.entry(format!("{:?}", no.why));
            let (_, events) = reason.or_insert((no.why.to_string(), vec![]));
            add(events, "a report with another attempt id");
        }
    }
    let mut text = "| reason | message | given to |\n| --- | --- | --- |\n".to_owned();
    for (why, (message, events)) in reasons {
        let _ = writeln!(text, "| `{why}` | {message} | {} |", events.join(", "));
    }
    text
}
