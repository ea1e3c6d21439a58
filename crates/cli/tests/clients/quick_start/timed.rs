//! `cargo xtask proof quick-start`: each part of the quick start with what a user has, and how long it
//! takes until the first durable call.
//!
//! Every project has folders of its own, the versions that the registry gives, and the defaults of
//! every tool. What this machine has downloaded before is not downloaded again.

use std::time::Duration;

use super::{Supply, absent, curl, python, rust, typescript};

/// The longest time from the installed program to the first durable call.
const LONGEST: Duration = Duration::from_secs(120);

/// How the commands begin that make the call.
const CALLS: [&str; 4] = ["curl ", "cargo run", ".venv/bin/python ", "node "];

/// How the commands begin that compile the user's program.
const COMPILES: [&str; 2] = ["cargo build", "npx tsc"];

const PROGRAMS: [&str; 4] = ["curl", "cargo", "python3", "npm"];

/// `CLINCH_PROOF=1`, as `cargo xtask proof quick-start` has it.
pub(super) fn is_asked() -> bool {
    std::env::var("CLINCH_PROOF").is_ok_and(|value| value == "1")
}

pub(super) fn missing() -> Option<String> {
    PROGRAMS.into_iter().find_map(absent)
}

pub(super) fn every_language() {
    let rows = [
        Row::of("curl", &curl()),
        Row::of("Rust", &rust(Supply::User)),
        Row::of("Python", &python(Supply::User)),
        Row::of("TypeScript", &typescript(Supply::User)),
    ];
    println!();
    let titles = ["", "install", "compile", "first call", "in all"];
    println!("{}", line(titles.map(str::to_owned)));
    for row in &rows {
        println!("{}", row.line());
    }
    // Tests assert no duration. This is no test of the gate but a command that proves one figure: a
    // first durable call takes at most two minutes.
    let late = rows.iter().filter(|row| row.all() > LONGEST);
    let late: Vec<_> = late.map(|row| row.language).collect();
    assert!(late.is_empty(), "longer than {LONGEST:?}: {late:?}");
}

/// The way to the first durable call in one language.
struct Row {
    language: &'static str,
    /// Everything before the call that is not compiling: packages, files, servers that start.
    install: Duration,
    compile: Duration,
    call: Duration,
}

impl Row {
    fn of(language: &'static str, took: &[(String, Duration)]) -> Self {
        let is_one = |name: &str, of: &[&str]| of.iter().any(|begin| name.starts_with(begin));
        let is_call = |(name, _): &(String, Duration)| is_one(name, &CALLS);
        let call = took.iter().position(is_call).expect("a call");
        let sum = |compiles: bool| -> Duration {
            let before = took.iter().take(call);
            let of_kind = before.filter(|(name, _)| is_one(name, &COMPILES) == compiles);
            of_kind.map(|(_, took)| *took).sum()
        };
        Self {
            language,
            install: sum(false),
            compile: sum(true),
            call: took[call].1,
        }
    }

    fn all(&self) -> Duration {
        self.install + self.compile + self.call
    }

    fn line(&self) -> String {
        let times = [self.install, self.compile, self.call, self.all()];
        let [install, compile, call, all] = times.map(|time| match time.is_zero() {
            true => "-".to_owned(),
            false => format!("{:.1} s", time.as_secs_f64()),
        });
        line([self.language.to_owned(), install, compile, call, all])
    }
}

fn line(cells: [String; 5]) -> String {
    let [name, times @ ..] = cells;
    let times = times.map(|cell| format!("{cell:>12}")).concat();
    format!("{name:<12}{times}")
}
