//! Names of the topics on a bus.

use std::sync::Arc;

use crate::Domain;

/// Where hints wait: the domain-wide topic, or the topic of a domain for one destination. A reader
/// names the topics it has room for, so that hints for a closed destination are not even read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic {
    domain: Domain,
    name: Arc<str>,
}

/// Maximum bytes of a destination in a topic's name. Destinations that share this prefix share a
/// topic, which at most costs latency.
const TOPIC_DESTINATION_MAX: usize = 48;

impl Topic {
    /// The domain-wide topic.
    pub fn of(domain: &Domain) -> Self {
        Self {
            name: domain.as_str().into(),
            domain: domain.clone(),
        }
    }

    /// The topic of a domain for one destination.
    pub fn at(domain: &Domain, destination: &str) -> Self {
        // A route without a named destination is called after its domain.
        let of_domain = destination.strip_prefix(domain.as_str());
        let own = of_domain.and_then(|rest| rest.strip_prefix('/'));
        let plain = |c: char| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' | ':' => c,
            _ => '_',
        };
        let short: String = own
            .unwrap_or(destination)
            .chars()
            .map(plain)
            .take(TOPIC_DESTINATION_MAX)
            .collect();
        Self {
            name: format!("{domain}/{short}").into(),
            domain: domain.clone(),
        }
    }

    /// Parses the name that [`Topic::as_str`] returns.
    pub fn parse(name: &str) -> Option<Self> {
        let (domain, destination) = match name.split_once('/') {
            Some((domain, destination)) => (domain, Some(destination)),
            None => (name, None),
        };
        let domain = Domain::new(domain).ok()?;
        let topic = match destination {
            Some(destination) => Self::at(&domain, destination),
            None => Self::of(&domain),
        };
        (topic.as_str() == name).then_some(topic)
    }

    /// The domain of its hints.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The topic's name: the domain's name, for one destination followed by a slash and letters,
    /// digits and any of `_-.:`.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(name: &str) -> Domain {
        Domain::new(name).expect("a domain")
    }

    #[test]
    fn destinations_of_a_domain_have_topics_of_their_own() {
        let pay = domain("pay");
        let names = [
            Topic::of(&pay),
            Topic::at(&pay, "bank"),
            Topic::at(&pay, "pay/charge"),
            Topic::at(&pay, "a|b/c d"),
        ];
        let names: Vec<_> = names.iter().map(Topic::as_str).collect();
        assert_eq!(names, ["pay", "pay/bank", "pay/charge", "pay/a_b_c_d"]);
        let long = Topic::at(&pay, &"x".repeat(500));
        assert_eq!(long.as_str().len(), "pay/".len() + TOPIC_DESTINATION_MAX);
    }

    #[test]
    fn a_name_comes_back_as_it_was_given() {
        for topic in [Topic::of(&domain("a:b")), Topic::at(&domain("a.b"), "c-d")] {
            assert_eq!(Topic::parse(topic.as_str()), Some(topic));
        }
        for bad in ["", "/x", "a/b/c", "a/b c", "a b"] {
            assert_eq!(Topic::parse(bad), None, "{bad}");
        }
    }
}
