//! Log lines on standard error: for people, or as JSON.
//!
//! A line is one line: control characters become spaces. Each field is there once. Lines that
//! repeat are limited: the first ones of an interval are written, then one line with the number of
//! the others, so that a dead provider does not fill a disk.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clinch_core::ports::Clock;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::api::time;
use crate::telemetry::LogFormat;

/// Lines of one kind within an interval: enough to see examples.
const WARNINGS_MAX: u64 = 10;
/// The same for lines without trouble: a person follows single operations by them.
const INFORMATION_MAX: u64 = 100;
/// After this long, the lines that were left out are summed up.
const INTERVAL: Duration = Duration::from_secs(10);
/// Kinds that are counted apart; further kinds share one.
const KINDS_MAX: usize = 1_000;

/// The fields that tell one kind of line from another.
const KIND: [&str; 5] = ["outcome", "code", "destination", "domain", "event.type"];
/// The order of fields for people: the cause first, the operation last.
const ORDER: [&str; 12] = [
    "outcome",
    "code",
    "destination",
    "until",
    "failure.rate",
    "count",
    "attempt",
    "latency.ms",
    "age.ms",
    "domain",
    "event.type",
    "op.id",
];
/// Only in JSON: hashes, which a person cannot read.
const HIDDEN: [&str; 3] = ["biz.key", "idem.key", "trace.id"];

/// Writes one line.
type Out = dyn Fn(&[u8]) + Send + Sync;

/// Writes every event as a line.
pub(crate) struct LogLines {
    format: LogFormat,
    clock: Arc<dyn Clock>,
    kinds: Mutex<BTreeMap<String, Kind>>,
    out: Box<Out>,
}

/// Lines of one kind in the current interval.
struct Kind {
    since: Duration,
    seen: u64,
    /// One of the lines that were left out.
    left_out: Option<Line>,
}

#[derive(Clone)]
struct Line {
    level: Level,
    target: &'static str,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl LogLines {
    pub(crate) fn new(format: LogFormat, clock: Arc<dyn Clock>) -> Self {
        let out = |line: &[u8]| {
            // A log that cannot be written has no further place to be reported.
            let _ = std::io::stderr().lock().write_all(line);
        };
        Self {
            format,
            clock,
            kinds: Mutex::default(),
            out: Box::new(out),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, line: Line) {
        let now = self.clock.monotonic();
        let max = match line.level <= Level::WARN {
            true => WARNINGS_MAX,
            false => INFORMATION_MAX,
        };
        let mut name = line.kind();
        let mut kinds = self.lock();
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&name) {
            name.clear();
        }
        let kind = kinds.entry(name).or_insert(Kind {
            since: now,
            seen: 0,
            left_out: None,
        });
        let mut repeats = None;
        if now.saturating_sub(kind.since) >= INTERVAL {
            repeats = kind.sum_up(max);
            (kind.since, kind.seen) = (now, 0);
        }
        kind.seen += 1;
        let is_shown = kind.seen <= max;
        if !is_shown {
            kind.left_out = Some(line.clone());
        }
        drop(kinds);
        if let Some(repeats) = repeats {
            self.write(&repeats);
        }
        if is_shown {
            self.write(&line);
        }
    }

    /// Writes the sums of intervals that have ended; all sums if the process ends.
    pub(crate) fn sum_up(&self, all: bool) {
        let now = self.clock.monotonic();
        let mut sums = Vec::new();
        self.lock().retain(|_, kind| {
            let is_over = all || now.saturating_sub(kind.since) >= INTERVAL;
            if is_over {
                let level = kind
                    .left_out
                    .as_ref()
                    .map_or(Level::INFO, |line| line.level);
                let max = match level <= Level::WARN {
                    true => WARNINGS_MAX,
                    false => INFORMATION_MAX,
                };
                sums.extend(kind.sum_up(max));
            }
            !is_over
        });
        for sum in sums {
            self.write(&sum);
        }
    }

    fn write(&self, line: &Line) {
        let at = time::write(self.clock.now());
        let text = match self.format {
            LogFormat::Text => line.text(&at),
            LogFormat::Json => line.json(&at),
        };
        (self.out)(text.as_bytes());
    }
}

impl Kind {
    /// A line for those that were left out.
    fn sum_up(&mut self, max: u64) -> Option<Line> {
        let line = self.left_out.take()?;
        let count = self.seen.saturating_sub(max);
        let is_kept = |(name, _): &(&'static str, Value)| KIND.contains(name);
        let mut fields: Vec<_> = line.fields.into_iter().filter(is_kept).collect();
        fields.push(("count", json!(count)));
        Some(Line {
            message: format!("{} (repeated)", line.message),
            fields,
            ..line
        })
    }
}

impl Line {
    /// Without the part of a message after a colon, which may differ from line to line.
    fn kind(&self) -> String {
        let mut kind = self
            .message
            .split(':')
            .next()
            .unwrap_or_default()
            .to_owned();
        for name in KIND {
            let value = self.fields.iter().find(|(of, _)| *of == name);
            // Writing to a string cannot fail.
            let _ = write!(
                kind,
                "|{}",
                value.map(|(_, value)| value).unwrap_or(&Value::Null)
            );
        }
        kind
    }

    /// `2026-11-15T08:00:00Z WARN  attempt ended outcome=retry code=http_500 destination=psp …`
    fn text(&self, at: &str) -> String {
        let seconds = at.get(..19).unwrap_or(at);
        let mut text = format!(
            "{seconds}Z {:5} {}",
            self.level.as_str(),
            plain(&self.message)
        );
        let place = |name: &str| ORDER.iter().position(|one| *one == name);
        let mut fields: Vec<_> = self.fields.iter().collect();
        // Fields without a place stand before the operation's id.
        fields.sort_by_key(|(name, _)| place(name).unwrap_or(ORDER.len() - 2));
        for (name, value) in fields {
            if !HIDDEN.contains(name) {
                // Writing to a string cannot fail.
                let _ = write!(text, " {name}={}", shown(name, value));
            }
        }
        text.push('\n');
        text
    }

    fn json(&self, at: &str) -> String {
        let mut object = Map::new();
        object.insert("timestamp".to_owned(), json!(at));
        object.insert("level".to_owned(), json!(self.level.as_str()));
        object.insert("message".to_owned(), json!(self.message));
        for (name, value) in &self.fields {
            object.insert((*name).to_owned(), value.clone());
        }
        object.insert("target".to_owned(), json!(self.target));
        format!("{}\n", Value::Object(object))
    }
}

/// A value for people: milliseconds without digits that say nothing, text with spaces in quotes.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Number(number) if name.ends_with(".ms") => {
            let millis = number.as_f64().unwrap_or_default();
            match millis < 10.0 {
                true => format!("{millis:.1}"),
                false => format!("{millis:.0}"),
            }
        }
        Value::Number(number) if name == "failure.rate" => {
            format!("{:.2}", number.as_f64().unwrap_or_default())
        }
        Value::String(text) if text.contains(char::is_whitespace) => format!("{:?}", plain(text)),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

/// Without control characters: text of an error must not begin a new line.
fn plain(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(shown).collect()
}

/// A layer that shares its lines with the task that sums them up.
pub(crate) struct SharedLines(pub(crate) Arc<LogLines>);

impl<S: Subscriber> Layer<S> for SharedLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut seen = Seen::default();
        event.record(&mut seen);
        self.0.take(Line {
            level: *metadata.level(),
            target: metadata.target(),
            message: seen.message,
            fields: seen.fields,
        });
    }
}

#[derive(Default)]
struct Seen {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Seen {
    fn put(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => self.message = value.as_str().unwrap_or_default().to_owned(),
            // Added by the bridge from the `log` crate.
            name if name.starts_with("log.") => {}
            name if self.fields.iter().any(|(of, _)| *of == name) => {}
            name => self.fields.push((name, value)),
        }
    }
}

impl Visit for Seen {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, json!(value));
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, json!(value));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, json!(value));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, json!(value));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, json!(value));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, json!(format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use clinch_system::SystemClock;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    type Written = Arc<Mutex<Vec<String>>>;

    fn lines(format: LogFormat) -> (Arc<LogLines>, Written) {
        let written = Written::default();
        let out = written.clone();
        let mut lines = LogLines::new(format, Arc::new(SystemClock::new()));
        lines.out = Box::new(move |line| {
            let text = String::from_utf8_lossy(line).into_owned();
            out.lock().expect("lines").push(text);
        });
        (Arc::new(lines), written)
    }

    fn attempt_ended(count: usize) -> Line {
        Line {
            level: Level::WARN,
            target: "clinch",
            message: "attempt ended".to_owned(),
            fields: vec![
                ("op.id", json!(format!("op-{count}"))),
                ("biz.key", json!("0a1b2c3d")),
                ("latency.ms", json!(31.25)),
                ("code", json!("http_500")),
                ("outcome", json!("retry")),
                ("destination", json!("psp")),
            ],
        }
    }

    #[test]
    fn core_14_ten_thousand_failures_are_ten_lines_and_one_with_their_count() {
        let (lines, written) = lines(LogFormat::Text);
        (0..10_000).for_each(|count| lines.take(attempt_ended(count)));
        lines.sum_up(true);
        let written = written.lock().expect("lines").clone();
        assert_eq!(written.len(), 11, "{written:#?}");
        let first = &written[0];
        let cause = "attempt ended outcome=retry code=http_500 destination=psp";
        assert!(first.contains(cause), "{first}");
        assert!(first.ends_with("latency.ms=31 op.id=op-0\n"), "{first}");
        assert!(!first.contains("biz.key") && first.len() < 120, "{first}");
        let last = written[10].trim_end();
        let sum = "attempt ended (repeated) outcome=retry code=http_500 destination=psp count=9990";
        assert!(last.ends_with(sum), "{last}");
    }

    #[test]
    fn core_14_other_kinds_are_written_while_one_is_left_out() {
        let (lines, written) = lines(LogFormat::Text);
        (0..100).for_each(|count| lines.take(attempt_ended(count)));
        let mut other = attempt_ended(0);
        other.fields.retain(|(name, _)| *name != "destination");
        lines.take(other);
        assert_eq!(written.lock().expect("lines").len(), 11);
        for kind in 0..2 * KINDS_MAX {
            let mut other = attempt_ended(0);
            other.message = format!("line {kind}");
            lines.take(other);
        }
        assert!(lines.lock().len() <= KINDS_MAX + 1, "bounded");
    }

    #[test]
    fn core_14_a_line_of_json_is_one_object_with_each_field_once() {
        let (lines, written) = lines(LogFormat::Json);
        let layer = SharedLines(lines);
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "clinch", { op.id = "a", count = 3 }, "two\nlines");
        });
        let written = written.lock().expect("lines").clone();
        let [line] = written.as_slice() else {
            panic!("{written:?}")
        };
        assert_eq!(line.lines().count(), 1, "{line}");
        let line: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(line["message"], "two\nlines");
        assert_eq!((&line["op.id"], &line["count"]), (&json!("a"), &json!(3)));
        assert_eq!(
            (&line["level"], &line["target"]),
            (&json!("WARN"), &json!("clinch"))
        );
        assert!(time::read(line["timestamp"].as_str().expect("a time")).is_some());
    }

    #[test]
    fn core_14_text_of_an_error_begins_no_new_line() {
        let line = Line {
            message: "failed: one\ntwo".to_owned(),
            fields: vec![("why", json!("a\nb c"))],
            ..attempt_ended(0)
        };
        let text = line.text("2026-11-15T08:00:00.123Z");
        assert_eq!(
            text,
            "2026-11-15T08:00:00Z WARN  failed: one two why=\"a b c\"\n"
        );
    }
}
