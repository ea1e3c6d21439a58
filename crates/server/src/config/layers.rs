//! Values from the environment and from flags, which override those of the file.

use clinch::Result;
use toml::{Table, Value};

use super::known::{self, Keys, Kind};
use super::wrong;

const PREFIX: &str = "CLINCH__";

/// `CLINCH__SECTION__KEY` and `CLINCH__ROUTE__<name>__KEY`.
pub(super) fn environment(
    table: &mut Table,
    keys: Keys<'_>,
    environment: &[(String, String)],
) -> Result<()> {
    for (name, value) in environment {
        let Some(path) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let path: Vec<&str> = path.split("__").collect();
        let path = lower(&path);
        let set = set(table, keys, &path, value);
        set.map_err(|error| wrong(format!("{name}: {}", error.message())))?;
    }
    Ok(())
}

/// Names in the environment are case-insensitive, except names that the user chose.
fn lower(path: &[&str]) -> Vec<String> {
    let headers = path
        .iter()
        .position(|part| part.eq_ignore_ascii_case("headers"));
    let own = |at: usize| headers.is_some_and(|headers| at > headers);
    let lower = |(at, part): (usize, &&str)| match own(at) {
        true => (*part).to_owned(),
        false => part.to_ascii_lowercase(),
    };
    path.iter().enumerate().map(lower).collect()
}

/// Flags are dotted keys.
pub(super) fn flags(table: &mut Table, keys: Keys<'_>, flags: &[(String, String)]) -> Result<()> {
    for (name, value) in flags {
        let path: Vec<String> = name.split('.').map(str::to_owned).collect();
        set(table, keys, &path, value)?;
    }
    Ok(())
}

fn set(table: &mut Table, root: Keys<'_>, path: &[String], value: &str) -> Result<()> {
    let Some((section, rest)) = path.split_first() else {
        return Err(wrong("names no key".to_owned()));
    };
    match known::find(root, section, "")? {
        Kind::Each(keys) => {
            let Some((name, rest)) = rest.split_first().filter(|(_, rest)| !rest.is_empty()) else {
                return Err(wrong("write CLINCH__ROUTE__<name>__<KEY>".to_owned()));
            };
            let route = route(table, name)?;
            set_in(route, keys, rest, value, &format!("route.{name}"))
        }
        _ => set_in(table, root, path, value, ""),
    }
}

/// The route of this name; a new route if there is none yet.
fn route<'a>(table: &'a mut Table, name: &str) -> Result<&'a mut Table> {
    let routes = table
        .entry("route")
        .or_insert_with(|| Value::Array(Vec::new()));
    let not_a_list = || wrong("route must be a list of tables: [[route]]".to_owned());
    let routes = routes.as_array_mut().ok_or_else(not_a_list)?;
    let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '.'], "_");
    let is_it = |route: &Value| {
        let its = route
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        plain(its) == plain(name)
    };
    let at = match routes.iter().position(is_it) {
        Some(at) => at,
        None => {
            let named = [("name".to_owned(), Value::from(name))];
            routes.push(Value::Table(named.into_iter().collect()));
            routes.len() - 1
        }
    };
    routes
        .get_mut(at)
        .and_then(Value::as_table_mut)
        .ok_or_else(not_a_list)
}

fn set_in(
    table: &mut Table,
    keys: Keys<'_>,
    path: &[String],
    value: &str,
    place: &str,
) -> Result<()> {
    let Some((key, rest)) = path.split_first() else {
        return Err(wrong(format!("{place} is a section; name a key in it")));
    };
    let kind = known::find(keys, key, place)?;
    let dot = if place.is_empty() { "" } else { "." };
    let place = format!("{place}{dot}{key}");
    match kind {
        Kind::Text if rest.is_empty() => {
            table.insert(key.clone(), Value::from(value));
            Ok(())
        }
        Kind::Keys(keys) if !rest.is_empty() => {
            let inner = table
                .entry(key)
                .or_insert_with(|| Value::Table(Table::new()));
            let not_a_table = || wrong(format!("{place} must be a table"));
            let inner = inner.as_table_mut().ok_or_else(not_a_table)?;
            set_in(inner, keys, rest, value, &place)
        }
        Kind::Free if !rest.is_empty() => {
            let inner = table
                .entry(key)
                .or_insert_with(|| Value::Table(Table::new()));
            if let Some(inner) = inner.as_table_mut() {
                inner.insert(rest.join("__"), Value::from(value));
            }
            Ok(())
        }
        Kind::Other | Kind::Keys(_) | Kind::Free if rest.is_empty() => {
            table.insert(key.clone(), typed(value, &place)?);
            Ok(())
        }
        _ => Err(wrong(format!("{place} has no keys of its own"))),
    }
}

/// Parses numbers, booleans, lists and tables in the syntax of the file.
fn typed(value: &str, place: &str) -> Result<Value> {
    let mut table: Table = toml::from_str(&format!("v = {value}")).map_err(|_| {
        wrong(format!(
            "{place} is written as in the file: 5, true, [200, 201] or {{ a = 1 }}"
        ))
    })?;
    table
        .remove("v")
        .ok_or_else(|| wrong(format!("{place} has no value")))
}
