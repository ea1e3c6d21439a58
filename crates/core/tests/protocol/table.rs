//! `transitions.txt` against the code: every row, every event, every route.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use clinch_core::policy::Safety;
use clinch_core::protocol::{Event, State, Why};

use crate::cases::{Case, Scene};
use crate::history::{History, ok, rules};
use crate::rows::{NOW, Route, Row, attempt_id};
use crate::seen::{Counts, Seen};

const TABLE: &str = include_str!("transitions.txt");

const NO_ANSWER: &[&str] = &[
    "begin",
    "extend",
    "checkpoint",
    "not_called",
    "fail",
    "retry_no",
    "retry_unknown",
    "lost",
    "died",
    "deadline",
    "probed_failed",
    "not_found",
    "probed_unknown",
    "resolve_completed",
    "resolve_failed",
    "resolve_retry",
    "retry_now",
    "restored",
];

const WORDS: &[(&str, &[&str])] = &[
    ("idle", &["pending", "waiting"]),
    ("open", &["pending", "waiting", "live", "held"]),
    ("terminal", &["completed", "failed"]),
    ("no_answer", NO_ANSWER),
    ("repeatable", &["natural", "keyed.fresh", "keyed.remembers"]),
    ("barred", &["unsafe", "keyed.closing", "keyed.past"]),
];

/// One line of the table, its selectors written out.
struct Line {
    number: usize,
    rows: Vec<&'static str>,
    cases: Vec<&'static str>,
    routes: Vec<&'static str>,
    becomes: &'static str,
    counts: &'static str,
}

impl Line {
    fn parse((index, text): (usize, &'static str)) -> Option<Self> {
        if text.trim().is_empty() || text.starts_with('#') {
            return None;
        }
        let number = index + 1;
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let [rows, cases, routes, becomes, counts] = cells[..] else {
            panic!("line {number} has {} cells", cells.len());
        };
        let names = |all: Vec<&'static str>, terms| select(&all, terms, number);
        Some(Self {
            number,
            rows: names(Row::ALL.iter().map(|row| row.name()).collect(), rows),
            cases: names(Case::ALL.iter().map(|case| case.name()).collect(), cases),
            routes: names(
                Route::ALL.iter().map(|route| route.name()).collect(),
                routes,
            ),
            becomes,
            counts,
        })
    }

    fn covers(&self, row: Row, case: Case, route: Route) -> bool {
        self.rows.contains(&row.name())
            && self.cases.contains(&case.name())
            && self.routes.contains(&route.name())
    }
}

/// The names that the terms of one cell select; every term must select something.
fn select(all: &[&'static str], terms: &str, line: usize) -> Vec<&'static str> {
    let mut selected = Vec::new();
    for term in terms.split_whitespace() {
        let before = selected.len();
        for wanted in written_out(term) {
            let prefix = format!("{wanted}.");
            selected.extend(
                all.iter()
                    .copied()
                    .filter(|name| wanted == "*" || *name == wanted || name.starts_with(&prefix)),
            );
        }
        assert!(
            selected.len() > before,
            "line {line}: {term} selects nothing"
        );
    }
    selected
}

/// `idle.none` means `pending.none` and `waiting.none`.
fn written_out(term: &str) -> Vec<String> {
    let (head, tail) = match term.split_once('.') {
        Some((head, tail)) => (head, format!(".{tail}")),
        None => (term, String::new()),
    };
    match WORDS.iter().find(|(word, _)| *word == head) {
        Some((_, names)) => names.iter().map(|name| format!("{name}{tail}")).collect(),
        None => vec![term.to_owned()],
    }
}

fn lines() -> Vec<Line> {
    TABLE.lines().enumerate().filter_map(Line::parse).collect()
}

fn combinations() -> impl Iterator<Item = (Row, Case, Route)> {
    Row::ALL.iter().flat_map(|row| {
        Case::ALL
            .iter()
            .flat_map(move |case| Route::ALL.iter().map(move |route| (*row, *case, *route)))
    })
}

/// Checks one combination; `Err` says what the code did instead.
fn compare(line: &Line, scene: &Scene, event: &Event, route: Route) -> Result<(), String> {
    let before = &scene.state;
    let answer = before.apply(event, scene.now, &scene.rules);
    if let Some(why) = line.becomes.strip_prefix("no ") {
        return match answer {
            Err(refused) if format!("{:?}", refused.why) == why => {
                let ledger = refused.ledger == leaves_ledger_line(event);
                ledger
                    .then_some(())
                    .ok_or(format!("ledger: {}", refused.ledger))
            }
            other => Err(format!("{other:?}")),
        };
    }
    let (next, actions) = answer.map_err(|refused| format!("refused: {:?}", refused.why))?;
    next.check()?;
    let seen = Seen::of(&next, actions);
    let expected = Seen::expected(line.becomes, scene, route);
    if seen != expected {
        return Err(format!("{seen:#?} instead of {expected:#?}"));
    }
    if line.becomes == "alert" {
        let mut marked = before.clone();
        marked.late_ok |= next.late_ok;
        return (next == marked).then_some(()).ok_or(format!("{next:#?}"));
    }
    let (counts, expected) = (Counts::of(&next), Counts::expected(line.counts, scene));
    if counts != expected {
        return Err(format!("{counts:#?} instead of {expected:#?}"));
    }
    Ok(())
}

/// A refused event that carries somebody's answer or wish is kept; the rest are mechanics.
fn leaves_ledger_line(event: &Event) -> bool {
    match event {
        Event::NotCalled { .. } | Event::Ok { .. } | Event::Fail { .. } => true,
        Event::Retry { .. } | Event::Probed { .. } | Event::Resolve(_) | Event::Cancel => true,
        Event::RetryNow => true,
        Event::Begin(_) | Event::Extend { .. } | Event::Checkpoint { .. } => false,
        Event::AttemptLost | Event::ProcessDied { .. } => false,
        Event::DeadlinePassed | Event::Finalize => false,
        Event::Restored { .. } => false,
    }
}

#[test]
fn core_5_core_7_every_row_under_every_event_becomes_what_the_table_says() {
    let lines = lines();
    let mut wrong = Vec::new();
    for (row, case, route) in combinations() {
        let (scene, event) = case.scene(row, route);
        for line in lines.iter().filter(|line| line.covers(row, case, route)) {
            if let Err(instead) = compare(line, &scene, &event, route) {
                let names = [row.name(), case.name(), route.name()].join(" | ");
                let (number, becomes) = (line.number, line.becomes);
                wrong.push(format!("{number}: {names} | {becomes}\n{instead}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{} in all", wrong[0], wrong.len());
}

#[test]
fn the_table_has_exactly_one_line_for_every_combination() {
    let lines = lines();
    for (row, case, route) in combinations() {
        let covering: Vec<usize> = lines
            .iter()
            .filter(|line| line.covers(row, case, route))
            .map(|line| line.number)
            .collect();
        let names = [row.name(), case.name(), route.name()].join(" | ");
        assert_eq!(covering.len(), 1, "{names}: lines {covering:?}");
    }
}

/// Fails to compile when a reason is added: expect it somewhere, then count it here.
fn number(why: Why) -> usize {
    match why {
        Why::Terminal => 0,
        Why::WriteAheadPending => 1,
        Why::NothingRecorded => 2,
        Why::RecordedFenceStale => 3,
        Why::StaleFence => 4,
        Why::Live => 5,
        Why::Held => 6,
        Why::NotHeld => 7,
        Why::NotDue => 8,
        Why::Paused => 9,
        Why::DeadlinePassed => 10,
        Why::BeforeDeadline => 11,
        Why::CancelRequested => 12,
        Why::LaneBusy => 13,
        Why::LeaseRunning => 14,
        Why::NotLive => 15,
        Why::OtherProcess => 16,
        Why::AlreadyDue => 17,
        Why::NeverBegun => 18,
        Why::OtherAttempt => 19,
        Why::EarlierAttempt => 20,
    }
}

#[test]
fn the_table_expects_every_reason_to_refuse() {
    let mut given = BTreeSet::new();
    for (row, case, route) in combinations() {
        let (scene, event) = case.scene(row, route);
        if let Err(refused) = scene.state.apply(&event, scene.now, &scene.rules) {
            given.insert(number(refused.why));
        }
    }
    assert!(given.into_iter().eq(0..18));
}

#[test]
fn run_7_of_reports_that_name_an_attempt_only_the_last_begin_is_heard() {
    let mut given = BTreeSet::new();
    let stranger = attempt_id(u128::MAX);
    for (row, case, route) in combinations() {
        let (scene, event) = case.scene(row, route);
        let Some(fence) = event.fence() else { continue };
        let says = |id| scene.state.apply_as(id, &event, scene.now, &scene.rules);
        let why = match fence.cmp(&scene.state.fence) {
            Ordering::Greater => Why::NeverBegun,
            Ordering::Less => Why::EarlierAttempt,
            Ordering::Equal => Why::OtherAttempt,
        };
        let refused = says(Some(stranger)).expect_err("a stranger is not heard");
        assert_eq!((refused.why, refused.ledger), (why, false));
        given.insert(number(why));
        if let (Some(id), Why::OtherAttempt) = (scene.state.attempt_id, why) {
            let unasked = scene.state.apply(&event, scene.now, &scene.rules);
            assert_eq!(says(Some(id)), unasked, "as if it had not been asked");
        }
    }
    let never = History::begun(rules(Safety::Unsafe)).state;
    let ahead = never.apply_as(never.attempt_id, &ok(2), NOW, &rules(Safety::Unsafe));
    given.insert(number(ahead.expect_err("never begun").why));
    assert!(given.into_iter().eq(18..21));
}

#[test]
fn core_5_only_the_edges_of_the_states_are_taken() {
    let mut edges = BTreeSet::new();
    for (row, case, route) in combinations() {
        let (scene, event) = case.scene(row, route);
        if let Ok((next, _)) = scene.state.apply(&event, scene.now, &scene.rules) {
            edges.insert(edge(&scene.state, &next));
        }
    }
    let allowed = [
        "FAILED FAILED", // an alert, nothing else
        "IN_PROGRESS COMPLETED",
        "IN_PROGRESS FAILED",
        "IN_PROGRESS IN_PROGRESS",
        "PENDING COMPLETED",
        "PENDING FAILED",
        "PENDING IN_PROGRESS",
        "PENDING PENDING", // Restored
    ];
    let edges: Vec<&str> = edges.iter().map(String::as_str).collect();
    assert_eq!(edges, allowed);
}

fn edge(before: &State, after: &State) -> String {
    format!("{} {}", before.status.as_str(), after.status.as_str())
}
