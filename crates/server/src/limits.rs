//! Rate limits and pauses that several nodes share.

use std::collections::BTreeSet;
use std::sync::Arc;

use clinch::Result;
use clinch::backend::Limits;
use clinch::types::Builder;
use clinch_core::ports::Clock;
use clinch_protect::{Destination, DestinationConfig};

use crate::config::RouteConfig;
use crate::{Config, Role};

/// Sets the guards of every destination, if this process makes calls, probes, or leases to remote
/// workers.
pub(crate) async fn guard(
    mut builder: Builder,
    config: &Config,
    limits: Option<Arc<dyn Limits>>,
    clock: &Arc<dyn Clock>,
    roles: &[Role],
) -> Result<Builder> {
    let (works, recovers) = (
        roles.contains(&Role::Worker),
        roles.contains(&Role::Recovery),
    );
    let uses = |route: &&RouteConfig| route.remote || works || (recovers && route.probe.is_some());
    let used = config.route.iter().filter(uses);
    let used: BTreeSet<String> = used.map(RouteConfig::destination_name).collect();
    for (name, guards) in config.destinations()? {
        if !used.contains(&name) {
            continue;
        }
        builder = match &limits {
            Some(limits) => {
                let limiter = limits.limiter(&name, guards.rate.as_ref()).await?;
                let own = local(&name, guards, clock)?;
                builder.guarded_by(Arc::new(own.limited_by(limiter)))
            }
            None => builder.destination(name, guards),
        };
    }
    Ok(builder)
}

fn local(name: &str, guards: DestinationConfig, clock: &Arc<dyn Clock>) -> Result<Destination> {
    Ok(Destination::new(name, clock.clone(), guards)?)
}
