//! Every configuration key, and the nearest key to an unknown one.

use clinch::Result;
use toml::{Table, Value};

use super::wrong;

/// What kind of value a key has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Text, including durations.
    Text,
    /// A number, a boolean or a list.
    Other,
    /// A table with known keys.
    Keys(Keys),
    /// A table with arbitrary keys.
    Free,
    /// A list of tables with known keys.
    Each(Keys),
}

pub(super) type Keys = &'static [(&'static str, Kind)];

use Kind::{Each, Free, Other, Text};

pub(super) const ROOT: Keys = &[
    (
        "store",
        Kind::Keys(&[
            ("url", Text),
            ("listen_url", Text),
            ("fallback_poll", Text),
            ("timeout", Text),
        ]),
    ),
    ("bus", Kind::Keys(&[("url", Text), ("prefix", Text)])),
    ("server", Kind::Keys(SERVER)),
    ("worker", Kind::Keys(WORKER)),
    ("sweeper", Kind::Keys(&[("grace", Text), ("stalled", Text)])),
    (
        "finalizer",
        Kind::Keys(&[
            ("interval", Text),
            ("batch", Other),
            ("pending_age_max", Text),
        ]),
    ),
    (
        "reaper",
        Kind::Keys(&[
            ("interval", Text),
            ("strategy", Text),
            ("in_progress_warn", Text),
            ("undeclared_after", Text),
        ]),
    ),
    ("telemetry", Kind::Keys(&[("otlp", Text)])),
    (
        "retention",
        Kind::Keys(&[
            ("completed", Text),
            ("failed", Text),
            ("keys", Text),
            ("clock_jump_max", Text),
        ]),
    ),
    (
        "dead_letter",
        Kind::Keys(&[("file", Text), ("alert_url", Text), ("retention", Text)]),
    ),
    ("github", Kind::Keys(GITHUB)),
    ("route", Each(ROUTE)),
];

const SERVER: Keys = &[
    ("listen", Text),
    ("tls_cert", Text),
    ("tls_key", Text),
    ("tls_client_ca", Text),
    ("payload_max", Text),
    ("bulk_max", Text),
    ("response_max", Text),
    ("shed_queue_age", Text),
    ("header_timeout", Text),
    ("body_timeout", Text),
    ("write_timeout", Text),
    ("in_flight_max", Text),
    ("connections_max", Other),
    ("shutdown_deadline", Text),
];

const WORKER: Keys = &[
    ("concurrency", Other),
    ("batch", Other),
    ("lease", Text),
    ("deliveries_max", Other),
    ("checkpoint_max", Text),
    ("spill_file", Text),
];

const GITHUB: Keys = &[
    ("api_url", Text),
    ("allow_private", Other),
    ("tokens", Other),
    ("sink", Text),
    ("threshold", Other),
    ("page_size", Other),
    ("concurrency", Other),
    ("schedule", Other),
];

const ROUTE: Keys = &[
    ("name", Text),
    ("domain", Text),
    ("event_type", Text),
    ("destination", Text),
    ("url", Text),
    ("remote", Other),
    ("method", Text),
    ("headers", Free),
    ("idempotency_header", Text),
    ("raw_idem_key", Other),
    ("safety", Text),
    ("key_ttl", Text),
    ("remembers_refusals", Other),
    ("duplicate_status", Other),
    ("unavailable_is_clean", Other),
    ("probe", Kind::Keys(PROBE)),
    ("txn_id", Text),
    ("timeout", Text),
    ("retry", Kind::Keys(RETRY)),
    ("deadline", Text),
    ("breaker", Kind::Keys(BREAKER)),
    ("concurrency", Other),
    ("rate", Kind::Keys(&[("permits", Other), ("per", Text)])),
    ("hedge", Kind::Keys(&[("after", Text)])),
    ("fallback", Text),
    ("order", Text),
    ("allow_private", Other),
];

const PROBE: Keys = &[
    ("url", Text),
    ("match", Text),
    ("succeeded", Other),
    ("failed", Other),
    ("not_found", Other),
    ("not_found_final_after", Text),
    ("inconclusive_max", Other),
];

const RETRY: Keys = &[
    ("preset", Text),
    ("max_attempts", Other),
    ("base", Text),
    ("cap", Text),
    ("jitter", Other),
    ("retry_after_max", Text),
    ("budget", Other),
];

const BREAKER: Keys = &[
    ("failure_rate", Other),
    ("slow_rate", Other),
    ("slow", Text),
    ("window", Other),
    ("min_calls", Other),
    ("open", Text),
    ("half_open", Other),
];

/// The kind of a key, or an error that names the nearest known one.
pub(super) fn find(keys: Keys, key: &str, place: &str) -> Result<Kind> {
    if let Some((_, kind)) = keys.iter().find(|(known, _)| *known == key) {
        return Ok(*kind);
    }
    let nearest = keys.iter().min_by_key(|(known, _)| distance(known, key));
    let nearest = nearest.map_or("", |(known, _)| known);
    let dot = if place.is_empty() { "" } else { "." };
    Err(wrong(format!(
        "unknown key {place}{dot}{key}; did you mean {place}{dot}{nearest}?"
    )))
}

/// Refuses every key that is not known.
pub(super) fn check(table: &Table) -> Result<()> {
    check_in(table, ROOT, "")
}

fn check_in(table: &Table, keys: Keys, place: &str) -> Result<()> {
    for (key, value) in table {
        let kind = find(keys, key, place)?;
        let place = match place {
            "" => key.clone(),
            place => format!("{place}.{key}"),
        };
        match (kind, value) {
            (Kind::Keys(keys), Value::Table(inner)) => check_in(inner, keys, &place)?,
            (Each(keys), Value::Array(items)) => {
                for item in items.iter().filter_map(Value::as_table) {
                    check_in(item, keys, &place)?;
                }
            }
            (Kind::Keys(_), _) => return Err(wrong(format!("{place} must be a table: [{place}]"))),
            (Each(_), _) => {
                return Err(wrong(format!(
                    "{place} must be a list of tables: [[{place}]]"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Edits that turn one word into the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut above_left = i;
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = above_left + usize::from(a != *b);
            above_left = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(above_left + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_19_distances() {
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("listen", "lisen"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
