//! The root of the crate is small enough to read.

/// The names that `lib.rs` makes public.
fn names() -> Vec<String> {
    let text = include_str!("../../src/lib.rs");
    let mut names = Vec::new();
    for line in text.lines() {
        if let Some(module) = line.strip_prefix("pub mod ") {
            names.push(module.trim_end_matches(';').to_owned());
        }
        if let Some(path) = line.strip_prefix("pub use ") {
            let last = path.rsplit("::").next().unwrap_or(path);
            let last = last.trim_matches(['{', '}', ';']);
            names.extend(last.split(", ").map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_root_has_at_most_fifteen_names() {
    let names = names();
    assert!(names.contains(&"Backend".to_owned()), "{names:?}");
    assert!(names.contains(&"Retry".to_owned()), "{names:?}");
    assert!(names.len() <= 15, "{} names: {names:?}", names.len());
}
