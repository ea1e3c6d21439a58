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

/// The rules of every declared route. They are read at the moment of a transition: if a route's
/// safety changes, open operations follow the new rules.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// Shared: a clone costs nothing.
    by_domain: Arc<BTreeMap<Domain, OfDomain>>,
    undeclared: Arc<Rules>,
}

/// The routes of one domain.
#[derive(Debug, Clone, Default)]
struct OfDomain {
    any: Option<Arc<Rules>>,
    /// `None`: the event type has a route of its own that is not among these.
    named: BTreeMap<EventType, Option<Arc<Rules>>>,
}

/// The event types of a domain that some routes cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Covered<'a> {
    /// Only these.
    Only(Vec<&'a EventType>),
    /// All except these.
    AllBut(Vec<&'a EventType>),
}

impl Routes {
    /// No routes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a route. A route that was declared before for the same event types is replaced.
    #[must_use]
    pub fn with(mut self, domain: Domain, event_types: EventTypes, rules: Rules) -> Self {
        let routes = self.of_domain(domain);
        let rules = Some(Arc::new(rules));
        match event_types {
            EventTypes::Any => routes.any = rules,
            EventTypes::One(event_type) => _ = routes.named.insert(event_type, rules),
        }
        self
    }

    fn of_domain(&mut self, domain: Domain) -> &mut OfDomain {
        let by_domain = Arc::make_mut(&mut self.by_domain);
        by_domain.entry(domain).or_default()
    }

    /// Excludes an event type from the domain's route for all event types.
    #[must_use]
    pub fn without(mut self, domain: Domain, event_type: EventType) -> Self {
        self.of_domain(domain).named.insert(event_type, None);
        self
    }

    /// Which event types of the domain have a route here.
    pub fn covered(&self, domain: &Domain) -> Covered<'_> {
        let Some(routes) = self.by_domain.get(domain) else {
            return Covered::Only(Vec::new());
        };
        let named = |here: bool| {
            let named = routes.named.iter();
            let named = named.filter(|(_, rules)| rules.is_some() == here);
            named.map(|(event_type, _)| event_type).collect()
        };
        match routes.any {
            Some(_) => Covered::AllBut(named(false)),
            None => Covered::Only(named(true)),
        }
    }

    /// The rules of the most specific route, if one is declared.
    pub fn find(&self, domain: &Domain, event_type: &EventType) -> Option<&Rules> {
        let routes = self.by_domain.get(domain)?;
        match routes.named.get(event_type) {
            Some(rules) => rules.as_deref(),
            None => routes.any.as_deref(),
        }
    }

    /// The rules to apply: those of the route, or the safe default ([`Safety::Unsafe`], no probe)
    /// for an operation whose route is not declared.
    ///
    /// [`Safety::Unsafe`]: super::Safety::Unsafe
    pub fn rules(&self, domain: &Domain, event_type: &EventType) -> &Rules {
        self.find(domain, event_type).unwrap_or(&self.undeclared)
    }

    /// Every declared route in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Domain, EventTypes, &Rules)> {
        self.by_domain.iter().flat_map(|(domain, routes)| {
            let any = routes.any.as_deref().map(|rules| (EventTypes::Any, rules));
            let named = routes.named.iter().filter_map(|(event_type, rules)| {
                Some((EventTypes::One(event_type.clone()), rules.as_deref()?))
            });
            let routes = any.into_iter().chain(named);
            routes.map(move |(types, rules)| (domain, types, rules))
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
        assert_eq!(routes.covered(&domain), Covered::AllBut(vec![]));
        let routes = routes.without(domain.clone(), charge.clone());
        assert!(routes.find(&domain, &charge).is_none());
        assert!(routes.find(&domain, &other).is_some());
        assert_eq!(routes.covered(&domain), Covered::AllBut(vec![&charge]));
        assert_eq!(routes.iter().count(), 1);
        let gone = Domain::new("gone").expect("valid");
        assert!(routes.find(&gone, &charge).is_none());
        assert_eq!(routes.rules(&gone, &charge).safety, Safety::Unsafe);
    }
}
