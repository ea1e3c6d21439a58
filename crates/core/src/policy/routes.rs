//! Which rules apply to which operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Rules;
use crate::{Domain, EventType};

/// The event types that a route covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventTypes {
    /// Every event type of the domain that has no route of its own.
    Any,
    /// This one.
    One(EventType),
}

/// The rules of every declared route, read at the moment of a transition: a route whose
/// safety is changed changes the operations that are still open.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    by_domain: BTreeMap<Domain, BTreeMap<EventTypes, Arc<Rules>>>,
    undeclared: Arc<Rules>,
}

impl Routes {
    /// No routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a route; one declared before for the same types is replaced.
    #[must_use]
    pub fn with(mut self, domain: Domain, event_types: EventTypes, rules: Rules) -> Self {
        self.by_domain
            .entry(domain)
            .or_default()
            .insert(event_types, Arc::new(rules));
        self
    }

    /// The rules of the most specific route, if one is declared.
    pub fn find(&self, domain: &Domain, event_type: &EventType) -> Option<&Rules> {
        let routes = self.by_domain.get(domain)?;
        routes
            .get(&EventTypes::One(event_type.clone()))
            .or_else(|| routes.get(&EventTypes::Any))
            .map(Arc::as_ref)
    }

    /// The rules to apply: those of the route, or the safe default ([`Safety::Unsafe`],
    /// no probe) for an operation whose route is gone.
    ///
    /// [`Safety::Unsafe`]: super::Safety::Unsafe
    pub fn rules(&self, domain: &Domain, event_type: &EventType) -> &Rules {
        self.find(domain, event_type).unwrap_or(&self.undeclared)
    }

    /// Every declared route in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Domain, &EventTypes, &Rules)> {
        self.by_domain.iter().flat_map(|(domain, routes)| {
            routes
                .iter()
                .map(move |(types, rules)| (domain, types, rules.as_ref()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Safety;

    #[test]
    fn the_most_specific_route_wins_and_none_is_unsafe() {
        let domain = Domain::new("pay").expect("valid");
        let charge = EventType::new("charge").expect("valid");
        let other = EventType::new("other").expect("valid");
        let natural = Rules {
            safety: Safety::Natural,
            ..Rules::default()
        };
        let routes = Routes::new()
            .with(domain.clone(), EventTypes::Any, Rules::default())
            .with(domain.clone(), EventTypes::One(charge.clone()), natural);
        assert_eq!(routes.rules(&domain, &charge).safety, Safety::Natural);
        assert_eq!(routes.rules(&domain, &other).safety, Safety::Unsafe);
        let gone = Domain::new("gone").expect("valid");
        assert!(routes.find(&gone, &charge).is_none());
        assert_eq!(routes.rules(&gone, &charge).safety, Safety::Unsafe);
    }
}
