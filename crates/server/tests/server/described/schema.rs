//! Whether a JSON value fits a schema of the OpenAPI document.

use serde_json::Value;

/// Whether a value fits a schema, by the keywords that the document uses. The error says where it
/// does not.
pub(crate) fn fits(
    document: &Value,
    schema: &Value,
    value: &Value,
    place: &str,
) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let named = document.pointer(name.trim_start_matches('#'));
        let named = named.ok_or_else(|| format!("there is no {name}"))?;
        return fits(document, named, value, place);
    }
    if let Some(kinds) = schema["oneOf"].as_array() {
        let tried = kinds.iter().map(|kind| fits(document, kind, value, place));
        let tried: Vec<Result<(), String>> = tried.collect();
        if tried.iter().any(Result::is_ok) {
            return Ok(());
        }
        let wrong: Vec<String> = tried.into_iter().filter_map(Result::err).collect();
        return Err(wrong.join(", or "));
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fits_loosely(document, part, value, place)?;
    }
    has_type(&schema["type"], value, place)?;
    within_bounds(schema, value, place)?;
    match value {
        Value::Object(members) => {
            let known = properties(document, schema);
            for name in required(schema) {
                if !members.contains_key(name) {
                    return Err(format!("{place}.{name} is missing"));
                }
            }
            for (name, value) in members {
                let place = format!("{place}.{name}");
                let of = known.iter().find(|(known, _)| *known == name);
                match (of, &schema["additionalProperties"]) {
                    (Some((_, of)), _) => fits(document, of, value, &place)?,
                    (None, of @ Value::Object(_)) => fits(document, of, value, &place)?,
                    (None, _) if is_any_object(schema) => {}
                    (None, _) => return Err(format!("{place} is not in the schema")),
                }
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                fits(
                    document,
                    &schema["items"],
                    item,
                    &format!("{place}[{number}]"),
                )?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// An object, or any value, of which nothing is said.
fn is_any_object(schema: &Value) -> bool {
    let says = |name: &str| schema.get(name).is_some();
    !says("properties") && !says("allOf") && schema["additionalProperties"] != false
}

/// Whether an object has what one part of its schema requires; the other parts have the rest.
fn fits_loosely(document: &Value, part: &Value, value: &Value, place: &str) -> Result<(), String> {
    let mut part = part;
    if let Some(name) = part["$ref"].as_str() {
        let named = document.pointer(name.trim_start_matches('#'));
        part = named.ok_or_else(|| format!("there is no {name}"))?;
    }
    for name in required(part) {
        if value.get(name).is_none() {
            return Err(format!("{place}.{name} is missing"));
        }
    }
    Ok(())
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema["required"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str)
}

/// The members that a schema names, those of its parts included.
fn properties<'a>(document: &'a Value, schema: &'a Value) -> Vec<(&'a String, &'a Value)> {
    let named = schema["$ref"].as_str();
    let named = named.and_then(|name| document.pointer(name.trim_start_matches('#')));
    let schema = named.unwrap_or(schema);
    let own = schema["properties"].as_object().into_iter().flatten();
    let parts = schema["allOf"].as_array().into_iter().flatten();
    own.chain(parts.flat_map(|part| properties(document, part)))
        .collect()
}

fn has_type(kinds: &Value, value: &Value, place: &str) -> Result<(), String> {
    let is = |kind: &str| match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{place}: the test does not know the type {other}"),
    };
    let fits = match kinds {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    match fits {
        true => Ok(()),
        false => Err(format!("{place} is {value}, not {kinds}")),
    }
}

fn within_bounds(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let number = |name: &str| schema[name].as_f64();
    let length = value.as_str().map(|text| text.chars().count() as f64);
    let size = value.as_array().map(|items| items.len() as f64);
    let above = |of: Option<f64>, max: &str| of.zip(number(max)).is_some_and(|(of, max)| of > max);
    let below = |of: Option<f64>, min: &str| of.zip(number(min)).is_some_and(|(of, min)| of < min);
    let listed = schema["enum"].as_array();
    let is_wrong = above(value.as_f64(), "maximum")
        || below(value.as_f64(), "minimum")
        || above(length, "maxLength")
        || below(length, "minLength")
        || above(size, "maxItems")
        || listed.is_some_and(|listed| !listed.contains(value));
    match is_wrong {
        true => Err(format!("{place} is {value}: out of bounds")),
        false => Ok(()),
    }
}
