//! Every configuration key, and the nearest key to an unknown one.

use clinch::Result;
use toml::{Table, Value};

use super::{Section, wrong};

/// What kind of value a key has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'a> {
    /// Text, including durations.
    Text,
    /// A number, a boolean or a list.
    Other,
    /// A table with known keys.
    Keys(Keys<'a>),
    /// A table with arbitrary keys.
    Free,
    /// A list of tables with known keys.
    Each(Keys<'a>),
}

pub(super) type Keys<'a> = &'a [(&'a str, Kind<'a>)];

use Kind::{Each, Free, Other, Text};

const ROOT: Keys<'static> = &[
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
    ("route", Each(ROUTE)),
];

const SERVER: Keys<'static> = &[
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

const WORKER: Keys<'static> = &[
    ("concurrency", Other),
    ("batch", Other),
    ("lease", Text),
    ("deliveries_max", Other),
    ("checkpoint_max", Text),
    ("spill_file", Text),
];

const ROUTE: Keys<'static> = &[
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

const PROBE: Keys<'static> = &[
    ("url", Text),
    ("match", Text),
    ("succeeded", Other),
    ("failed", Other),
    ("not_found", Other),
    ("not_found_final_after", Text),
    ("inconclusive_max", Other),
];

const RETRY: Keys<'static> = &[
    ("preset", Text),
    ("max_attempts", Other),
    ("base", Text),
    ("cap", Text),
    ("jitter", Other),
    ("retry_after_max", Text),
    ("budget", Other),
];

const BREAKER: Keys<'static> = &[
    ("failure_rate", Other),
    ("slow_rate", Other),
    ("slow", Text),
    ("window", Other),
    ("min_calls", Other),
    ("open", Text),
    ("half_open", Other),
];

/// Calls `use_keys` with the keys of the server's own sections and of these.
pub(super) fn with_keys<T>(sections: &[Section], use_keys: impl FnOnce(Keys<'_>) -> T) -> T {
    let of_applications: Vec<_> = sections.iter().map(Section::keys).collect();
    let of_applications = sections.iter().zip(&of_applications);
    let of_applications = of_applications.map(|(section, keys)| (section.name, Kind::Keys(keys)));
    let keys: Vec<_> = ROOT.iter().copied().chain(of_applications).collect();
    use_keys(&keys)
}

/// The kind of a key, or an error that names the nearest known one.
pub(super) fn find<'a>(keys: Keys<'a>, key: &str, place: &str) -> Result<Kind<'a>> {
    if let Some((_, kind)) = keys.iter().find(|(known, _)| *known == key) {
        return Ok(*kind);
    }
    // `max` means `max_attempts` rather than `cap`, which has fewer different letters; `token` is
    // `tokens` without a letter rather than the beginning of `token_keys`.
    let far = |known: &str| {
        let edits = distance(known, key);
        (edits > 1 && !is_beginning(key, known), edits)
    };
    let nearest = keys.iter().min_by_key(|(known, _)| far(known));
    let nearest = nearest.map_or("", |(known, _)| known);
    let dot = if place.is_empty() { "" } else { "." };
    Err(wrong(format!(
        "unknown key {place}{dot}{key}; did you mean {place}{dot}{nearest}?"
    )))
}

/// Refuses every key that is not known; `place` is where the table is.
pub(super) fn check(table: &Table, keys: Keys<'_>, place: &str) -> Result<()> {
    for (key, value) in table {
        let kind = find(keys, key, place)?;
        let place = match place {
            "" => key.clone(),
            place => format!("{place}.{key}"),
        };
        match (kind, value) {
            (Kind::Keys(keys), Value::Table(inner)) => check(inner, keys, &place)?,
            (Each(keys), Value::Array(items)) => {
                for item in items.iter().filter_map(Value::as_table) {
                    check(item, keys, &place)?;
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

/// Every key with its section, without the tables around them.
pub(super) fn list(keys: Keys<'_>, place: &str) -> Vec<String> {
    let listed = keys.iter().flat_map(|(key, kind)| {
        let place = match place {
            "" => (*key).to_owned(),
            place => format!("{place}.{key}"),
        };
        match kind {
            Kind::Keys(keys) | Each(keys) => list(keys, &place),
            Text | Other | Free => vec![place],
        }
    });
    listed.collect()
}

/// Whether `key` is the first word or words of `known`.
fn is_beginning(key: &str, known: &str) -> bool {
    let rest = known.strip_prefix(key);
    !key.is_empty() && rest.is_some_and(|rest| rest.starts_with('_'))
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
