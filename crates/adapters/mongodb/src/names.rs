//! Names of collections. MongoDB takes fewer than the port: none with `$`, none that begins with
//! `system.`, none that is long.

use sha2::{Digest, Sha256};

/// What the server and its tools take without quoting; with the name of the database it stays
/// below the 120 bytes that old servers allow.
const PLAIN_BYTES_MAX: usize = 60;

const HASHED: &str = "hashed_";

/// The collection of the database for one of the port: the same name where it is plain.
pub(crate) fn collection(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_short = name.len() <= PLAIN_BYTES_MAX;
    if starts_well && is_short && name.chars().all(is_plain) && !name.starts_with(HASHED) {
        return name.to_owned();
    }
    let mut hashed = HASHED.to_owned();
    for byte in Sha256::digest(name).iter().take(24) {
        hashed.push_str(&format!("{byte:02x}"));
    }
    hashed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_collection_of_its_own() {
        assert_eq!(collection("github"), "github");
        let long = "x".repeat(255);
        let names = [
            "a$b", "system.x", "\u{e4}", "1", "hashed_1", "a b", "A", "a", &long,
        ];
        let made: std::collections::BTreeSet<_> =
            names.iter().map(|name| collection(name)).collect();
        assert_eq!(made.len(), names.len());
        let is_taken = |name: &String| name.len() <= PLAIN_BYTES_MAX && !name.contains('$');
        assert!(made.iter().all(is_taken), "{made:?}");
    }
}
