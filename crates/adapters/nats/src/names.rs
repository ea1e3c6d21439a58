//! Names of streams, subjects and consumers.

use clinch_core::ports::{Hint, Topic};
use clinch_core::{Error, ErrorKind, Result};

/// Maximum length of a consumer's name: the server makes a folder of it.
const TOKEN_BYTES_MAX: usize = 200;

/// A topic as one token of a subject, and as the name of its consumer. Different topics have
/// different tokens, because `-` only begins an escape.
pub(crate) fn token(topic: &Topic) -> Result<String> {
    let mut token = String::with_capacity(topic.as_str().len());
    for c in topic.as_str().chars() {
        match c {
            '-' => token.push_str("--"),
            '.' => token.push_str("-d"),
            ':' => token.push_str("-c"),
            '/' => token.push_str("-s"),
            other => token.push(other),
        }
    }
    if token.len() > TOKEN_BYTES_MAX {
        let problem = "the names of the domain and its destination are too long for NATS; use \
                       fewer of '.', ':' and '-'";
        return Err(Error::new(ErrorKind::Invalid, problem).with("domain", topic.domain()));
    }
    Ok(token)
}

/// The subject of a hint. Hints of one topic and lane share a subject.
pub(crate) fn subject(prefix: &str, topic: &Topic, hint: &Hint) -> Result<String> {
    let topic = token(topic)?;
    Ok(match &hint.lane {
        Some(lane) => format!("{prefix}.{topic}.{lane}"),
        None => format!("{prefix}.{topic}._"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_that_differ_have_tokens_that_differ() {
        let names = [
            "a.b", "a-db", "a:b", "a-b", "a_b", "a--b", "a-.b", "a.-b", "a/b", "a-sb",
        ];
        let tokens = names.map(|name| {
            let topic = Topic::parse(name).expect("a topic");
            token(&topic).expect("a token")
        });
        let distinct: std::collections::BTreeSet<_> = tokens.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(
            tokens
                .iter()
                .all(|token| !token.contains(['.', ':', ' ', '/']))
        );
    }

    #[test]
    fn a_name_too_long_for_a_folder_is_refused() {
        let longest = format!("{}/{}", "x".repeat(128), "y".repeat(48));
        assert!(token(&Topic::parse(&longest).expect("a topic")).is_ok());
        let dotted = Topic::parse(&".".repeat(128)).expect("a topic");
        assert!(token(&dotted).is_err());
    }
}
