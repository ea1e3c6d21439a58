//! Names of streams, subjects and consumers.

use clinch_core::ports::Hint;
use clinch_core::{Domain, Error, ErrorKind, Result};

/// Longest name of a consumer: the server makes it a folder.
const TOKEN_BYTES_MAX: usize = 200;

/// A domain as one token of a subject, and as the name of its consumer. Different domains have
/// different tokens: `-` only ever begins an escape.
pub(crate) fn token(domain: &Domain) -> Result<String> {
    let mut token = String::with_capacity(domain.as_str().len());
    for c in domain.as_str().chars() {
        match c {
            '-' => token.push_str("--"),
            '.' => token.push_str("-d"),
            ':' => token.push_str("-c"),
            other => token.push(other),
        }
    }
    if token.len() > TOKEN_BYTES_MAX {
        let problem = "the domain's name is too long for NATS; use fewer of '.', ':' and '-'";
        return Err(Error::new(ErrorKind::Invalid, problem).with("domain", domain));
    }
    Ok(token)
}

/// Where a hint is published: hints of one lane share a subject.
pub(crate) fn subject(prefix: &str, hint: &Hint) -> Result<String> {
    let domain = token(&hint.domain)?;
    Ok(match &hint.lane {
        Some(lane) => format!("{prefix}.{domain}.{lane}"),
        None => format!("{prefix}.{domain}._"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_that_differ_have_tokens_that_differ() {
        let names = ["a.b", "a-db", "a:b", "a-b", "a_b", "a--b", "a-.b", "a.-b"];
        let tokens = names.map(|name| {
            let domain = Domain::new(name).expect("a domain");
            token(&domain).expect("a token")
        });
        let distinct: std::collections::BTreeSet<_> = tokens.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(tokens.iter().all(|token| !token.contains(['.', ':', ' '])));
    }

    #[test]
    fn a_name_too_long_for_a_folder_is_refused() {
        let longest = Domain::new("x".repeat(128)).expect("a domain");
        assert!(token(&longest).is_ok());
        let dotted = Domain::new(".".repeat(128)).expect("a domain");
        assert!(token(&dotted).is_err());
    }
}
