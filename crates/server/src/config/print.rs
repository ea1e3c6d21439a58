//! The effective configuration with its secrets masked.

use toml::{Table, Value};

use super::Config;

const MASK: &str = "***";

pub(super) fn masked(config: &Config) -> Table {
    let Ok(mut table) = Table::try_from(config.effective()) else {
        return Table::new();
    };
    mask_table(&mut table);
    for (name, values) in &config.applications {
        let mut section = values.table.clone();
        mask_table(&mut section);
        for key in values.secrets {
            section.get_mut(*key).into_iter().for_each(mask_all);
        }
        table.insert((*name).to_owned(), Value::Table(section));
    }
    table
}

fn mask_table(table: &mut Table) {
    for (key, value) in table.iter_mut() {
        match key.as_str() {
            "headers" => mask_all(value),
            // The path of a webhook is often its secret.
            "alert_url" => mask_past_host(value),
            _ => mask_value(value),
        }
    }
}

fn mask_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = mask_url(text),
        Value::Array(items) => items.iter_mut().for_each(mask_value),
        Value::Table(table) => mask_table(table),
        _ => {}
    }
}

fn mask_all(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mask_all),
        Value::Table(table) => table.iter_mut().for_each(|(_, value)| mask_all(value)),
        // A secret that is not set is shown as it is, so that what is printed reads back.
        Value::String(text) if text.is_empty() => {}
        other => *other = Value::from(MASK),
    }
}

fn mask_past_host(value: &mut Value) {
    if let Value::String(text) = value
        && let Some((scheme, rest)) = text.split_once("://")
    {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        *text = format!("{scheme}://{host}/{MASK}");
    }
}

/// Masks passwords, and query values that are not placeholders.
fn mask_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:{MASK}@{host}"),
            None => format!("{MASK}@{host}"),
        },
        None => authority.to_owned(),
    };
    let path = match path.split_once('?') {
        Some((path, query)) => {
            let pairs = query.split('&').map(|pair| match pair.split_once('=') {
                Some((name, value)) if !(value.starts_with('{') && value.ends_with('}')) => {
                    format!("{name}={MASK}")
                }
                _ => pair.to_owned(),
            });
            format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
        }
        None => path.to_owned(),
    };
    format!("{scheme}://{authority}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_16_urls_lose_their_secrets_and_nothing_else() {
        let cases = [
            (
                "postgres://me:hunter2@db/clinch",
                "postgres://me:***@db/clinch",
            ),
            ("https://hunter2@host/x", "https://***@host/x"),
            (
                "https://h/c?key={outbound_key}&token=hunter2",
                "https://h/c?key={outbound_key}&token=***",
            ),
            ("sqlite://clinch.db", "sqlite://clinch.db"),
            ("store", "store"),
        ];
        for (text, masked) in cases {
            assert_eq!(mask_url(text), masked);
        }
    }
}
