//! Every code that an operation, an alert or an endpoint of `clinch-axum` can show stands on the page
//! of the guide where a reader looks for it.
//!
//! The codes are read from the sources: from the calls that take one ([`MAKERS`]) and from the few
//! functions that return one ([`RETURNED`]). A call whose code is no literal must be listed in
//! [`PASSED_ON`], so that a new way to make codes fails the test until this file can read it.

use std::collections::BTreeSet;
use std::path::Path;

use super::names::guide;
use super::root;

/// Sources whose codes stand on one page.
struct Origin {
    /// Files and folders.
    sources: &'static [&'static str],
    page: &'static str,
    /// One of the codes: the sources are where this test expects them.
    example: &'static str,
}

const ORIGINS: [Origin; 4] = [
    Origin {
        sources: &[
            "crates/core/src",
            "crates/engine/src",
            "crates/protect/src",
            "crates/clinch/src",
            "crates/server/src",
        ],
        page: "http-api.md",
        example: "invalid_input",
    },
    Origin {
        sources: &["crates/adapters/http/src"],
        page: "http-executor.md",
        example: "probe_failed",
    },
    Origin {
        sources: &["apps/github/src"],
        page: "github.md",
        example: "token_gone",
    },
    Origin {
        sources: &["crates/axum/src"],
        page: "axum.md",
        example: "body_incomplete",
    },
];

/// Files of other codes: the made-up GitHub, the collector's API (`tests/api` compares it), and tests
/// in files of their own.
const LEFT_OUT: [&str; 3] = [
    "apps/github/src/fake/",
    "apps/github/src/api/",
    "crates/adapters/http/src/template_tests.rs",
];

/// A call with a code among its arguments.
struct Maker {
    /// Where it is called; empty: everywhere.
    file: &'static str,
    call: &'static str,
    /// Which argument it is, from 0.
    argument: usize,
}

const fn maker(file: &'static str, call: &'static str, argument: usize) -> Maker {
    Maker {
        file,
        call,
        argument,
    }
}

const MAKERS: [Maker; 11] = [
    maker("", "Fail::new(", 0),
    maker("", "Failure::own(", 0),
    maker("", ".end_or_hold(", 0),
    maker("", ".erred(", 0),
    maker("crates/axum/", "Problem::new(", 1),
    maker("crates/axum/", "Problem::bad_request(", 0),
    maker("crates/axum/", "Problem::gone(", 2),
    maker("crates/axum/src/problem.rs", "Self::new(", 1),
    maker("crates/axum/src/problem.rs", "Self::bad_request(", 0),
    maker("crates/axum/src/headers.rs", "refused(", 0),
    maker("crates/axum/src/idempotent/exchange.rs", "broken(", 0),
];

/// Calls with a reason, which shows its first word as a code if it is one: `connection_lost: …`.
const REASONS: [&str; 3] = [
    "Retry::unknown(",
    "Retry::not_applied(",
    "Retry::not_called(",
];

/// Alerts, which one page lists.
const ALERTS: [Maker; 4] = [
    maker("crates/engine/", ".alert(", 0),
    maker("apps/github/", ".alert(", 0),
    maker("crates/engine/", "AlertNote::new(", 1),
    maker("crates/server/", "AlertNote::new(", 1),
];

const OF_ALERTS: Origin = Origin {
    sources: &["crates/engine/src", "crates/server/src", "apps/github/src"],
    page: "operating.md",
    example: "dead_letter",
};

/// Arguments that are no literals, and where their codes come from: a caller that is read here, a
/// remote worker, an operator, or the status of an answer.
const PASSED_ON: [(&str, &str); 14] = [
    (
        "apps/github/src/execute.rs",
        "format!(\"http_{}\", answer.status)",
    ),
    (
        "crates/adapters/http/src/executor.rs",
        "format!(\"http_{code}\")",
    ),
    ("crates/axum/src/headers.rs", "code"),
    ("crates/axum/src/idempotent/exchange.rs", "code"),
    ("crates/axum/src/problem.rs", "&failure.code"),
    ("crates/axum/src/problem.rs", "code"),
    ("crates/core/src/outcome.rs", "code"),
    ("crates/core/src/protocol/answer.rs", "&fail.code"),
    ("crates/core/src/protocol/attempt.rs", "code"),
    ("crates/core/src/protocol/wait.rs", "code"),
    ("crates/engine/src/accept/mod.rs", "code"),
    ("crates/engine/src/telemetry.rs", "code"),
    ("crates/server/src/api/operations.rs", "code"),
    ("crates/server/src/api/outcomes.rs", "code"),
];

/// Codes that a part of a file holds as constants or returns: the file, the beginning of the part,
/// what stands before the quote, and the page.
const RETURNED: [(&str, &str, &str, &str); 9] = [
    (
        "crates/core/src/outcome.rs",
        "pub mod code {",
        ": &str = ",
        "http-api.md",
    ),
    (
        "crates/core/src/ports/guard.rs",
        "impl Reason {",
        "=> ",
        "http-api.md",
    ),
    (
        "crates/core/src/ports/executor.rs",
        "fn refusal(",
        "Some(",
        "http-api.md",
    ),
    (
        "crates/protect/src/chain.rs",
        "",
        "const TIMEOUT: &str = ",
        "http-api.md",
    ),
    ("crates/server/src/api/hold.rs", "", "hold(", "http-api.md"),
    ("crates/server/src/api/hold.rs", "", "Some((", "http-api.md"),
    (
        "crates/server/src/api/operations.rs",
        "",
        "self.code.unwrap_or_else(|| ",
        "http-api.md",
    ),
    (
        "crates/adapters/http/src/executor.rs",
        "fn unsent(",
        "=> ",
        "http-executor.md",
    ),
    (
        "crates/adapters/http/src/executor.rs",
        "fn unsent(",
        "=> format!(",
        "http-executor.md",
    ),
];

/// What the sources say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// A page, or nothing for any page, and a code that it must name.
    codes: BTreeSet<(String, String)>,
    /// Files, and arguments that are no literals.
    others: BTreeSet<(String, String)>,
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The code of a file: without comments and tests.
fn code_of(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next();
    let lines = code.unwrap_or_default().lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The Rust files of these files and folders, from the root of the repository.
fn files(sources: &[&str]) -> Vec<String> {
    let mut open: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
    let mut found = Vec::new();
    while let Some(name) = open.pop() {
        let path = root().join(&name);
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            let names = entries.map(|entry| entry.expect("an entry").file_name());
            open.extend(names.map(|entry| format!("{name}/{}", entry.to_string_lossy())));
        } else if Path::new(&name).extension().is_some_and(|end| end == "rs") {
            found.push(name);
        }
    }
    found.retain(|name| !LEFT_OUT.iter().any(|left_out| name.starts_with(left_out)));
    found.sort();
    found
}

/// The arguments of a call; the text begins behind its bracket.
fn arguments(call: &str) -> Vec<String> {
    let (mut found, mut depth, mut is_text) = (vec![String::new()], 0_u32, false);
    let mut is_escaped = false;
    for letter in call.chars() {
        match letter {
            _ if is_escaped => {}
            '"' => is_text = !is_text,
            _ if is_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        is_escaped = is_text && letter == '\\' && !is_escaped;
        found.last_mut().expect("an argument").push(letter);
    }
    found.iter().map(|one| one.trim().to_owned()).collect()
}

/// The arguments of each call; definitions of a function of that name are none.
fn calls<'a>(code: &'a str, call: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    let places = code.match_indices(call);
    let places = places.filter(move |(at, _)| !code[..*at].ends_with("fn "));
    places.map(move |(at, _)| arguments(&code[at + call.len()..]))
}

/// The text of a literal, also of one that `format!` fills in.
fn literal(expression: &str) -> Option<&str> {
    let text = expression.strip_prefix("format!(").unwrap_or(expression);
    text.trim_start().strip_prefix('"')?.split('"').next()
}

fn is_code(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// The first word of a text, up to a colon, if it is a code.
fn leading(text: &str) -> Option<&str> {
    text.split(':').next().filter(|word| is_code(word))
}

impl Found {
    /// The codes of these calls in a file, which `page` must name.
    fn read(&mut self, file: &str, code: &str, makers: &[Maker], page: &str) {
        for maker in makers.iter().filter(|one| file.starts_with(one.file)) {
            for given in calls(code, maker.call) {
                let given = given.get(maker.argument).map_or("", String::as_str);
                match literal(given).filter(|text| is_code(text)) {
                    Some(text) => self.add(page, text),
                    // One of the constants, which `RETURNED` reads.
                    None if given.starts_with("code::") => {}
                    None => {
                        self.others.insert((file.to_owned(), given.to_owned()));
                    }
                }
            }
        }
    }

    fn add(&mut self, page: &str, code: &str) {
        self.codes.insert((page.to_owned(), code.to_owned()));
    }

    fn of_origin(&mut self, origin: &Origin, makers: &[Maker]) {
        for file in files(origin.sources) {
            let code = code_of(&read(&file));
            self.read(&file, &code, makers, origin.page);
            for reason in REASONS.iter().flat_map(|call| calls(&code, call)) {
                if let Some(code) = reason.first().and_then(|one| leading(literal(one)?)) {
                    self.add("", code);
                }
            }
        }
        let example = (origin.page.to_owned(), origin.example.to_owned());
        assert!(self.codes.contains(&example), "{example:?}: {self:#?}");
    }

    fn returned(&mut self) {
        for (file, part, before, page) in RETURNED {
            let code = code_of(&read(file));
            let begin = format!("{before}\"");
            let (_, rest) = code
                .split_once(part)
                .unwrap_or_else(|| panic!("{file}: {part}"));
            let rest = match part {
                "" => rest,
                _ => rest.split("\n}\n").next().unwrap_or_default(),
            };
            let quoted = rest.split(begin.as_str()).skip(1);
            let words = quoted.filter_map(|text| leading(text.split('"').next()?));
            let words: BTreeSet<&str> = words.collect();
            assert!(!words.is_empty(), "{file} has no code behind {before}");
            for word in words {
                self.add(page, word);
            }
        }
    }
}

fn found() -> Found {
    let mut found = Found::default();
    for origin in &ORIGINS {
        found.of_origin(origin, &MAKERS);
    }
    found.of_origin(&OF_ALERTS, &ALERTS);
    found.returned();
    found
}

#[test]
fn core_18_every_code_of_an_operation_is_in_the_guide() {
    let Found { codes, others } = found();
    let known = PASSED_ON.map(|(file, given)| (file.to_owned(), given.to_owned()));
    assert_eq!(
        others,
        BTreeSet::from(known),
        "a code that is no literal: name in this file where it comes from"
    );
    assert!(codes.len() > 70, "{codes:#?}");
    let whole = guide();
    let is_missing = |(page, code): &&(String, String)| {
        let named = format!("`{code}`");
        match page.as_str() {
            "" => !whole.contains(&named),
            page => !read(&format!("docs/guide/{page}")).contains(&named),
        }
    };
    let missing: Vec<_> = codes.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/guide does not name {missing:#?}");
}

#[test]
fn codes_are_read_as_they_are_written() {
    let text = "/// Fail::new(\"comment\", x)\nFail::new(\n    \"one\",\n    \"a (b, \\\"c\",\n);\n\
                fn f() { x(Fail::new(two, [a, b])) }\nFail::new(format!(\"x_{n}\"), \"\");\n\
                Fail::new(code::THREE, y)\n#[cfg(test)]\nmod tests {\nFail::new(\"test\", x)\n";
    let mut found = Found::default();
    found.read(
        "a.rs",
        &code_of(text),
        &[maker("", "Fail::new(", 0)],
        "p.md",
    );
    let pair = |one: &str, two: &str| (one.to_owned(), two.to_owned());
    assert_eq!(found.codes, BTreeSet::from([pair("p.md", "one")]));
    let others = [pair("a.rs", "format!(\"x_{n}\")"), pair("a.rs", "two")];
    assert_eq!(found.others, BTreeSet::from(others));
    let defined = "fn refused(code: &str) {}\nrefused(\"is_it\", detail)";
    let given: Vec<_> = calls(defined, "refused(").collect();
    assert_eq!(given, [["\"is_it\"", "detail"]]);
    assert_eq!(leading("short_read: after 5 bytes"), Some("short_read"));
    assert_eq!(leading("the worker is shutting down"), None);
}
