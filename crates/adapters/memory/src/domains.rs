//! Pausing and counters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clinch_core::ports::{DomainView, Domains, NewPause, OpenRoute, Pause};
use clinch_core::{Domain, EventType, Result};

use crate::{Memory, Tx};

impl Tx<'_> {
    fn set_paused(&mut self, domain: &Domain, paused: bool) {
        let mut row = self.tables.domain(domain);
        row.paused = paused;
        self.tables.domains.insert(domain.clone(), row);
    }
}

#[async_trait]
impl Domains for Memory {
    async fn pause(&self, domain: &Domain, pause: &NewPause) -> Result<()> {
        self.write(|tx| {
            tx.set_paused(domain, true);
            if tx.tables.pauses.get(domain).is_none() {
                let pause = Pause {
                    at: tx.now,
                    by: pause.by.clone(),
                    reason: pause.reason.clone(),
                };
                tx.tables.pauses.insert(domain.clone(), pause);
            }
            Ok(())
        })
    }

    async fn resume(&self, domain: &Domain) -> Result<()> {
        self.write(|tx| {
            tx.set_paused(domain, false);
            tx.tables.pauses.remove(domain);
            tx.news.due.insert(domain.clone());
            Ok(())
        })
    }

    async fn domains(&self) -> Result<Vec<DomainView>> {
        Ok(self.read(|tables, now| {
            let view = |(domain, row): (&Domain, &crate::DomainRow)| {
                let view = DomainView {
                    domain: domain.clone(),
                    paused: row.paused,
                    pause: tables.pauses.get(domain).cloned(),
                    counts: row.counts,
                    oldest_due: None,
                    oldest_due_by_type: BTreeMap::new(),
                };
                view.with_oldest_due(tables.due_ages(domain, now))
            };
            tables.domains.iter().map(view).collect()
        }))
    }

    async fn open_routes(&self) -> Result<Vec<OpenRoute>> {
        Ok(self.read(|tables, _| {
            let mut open: BTreeMap<(Domain, EventType), u64> = BTreeMap::new();
            for (_, row) in tables.rows.iter().filter(|(_, row)| row.queue.is_some()) {
                let keys = &row.operation.keys;
                let route = (keys.domain.clone(), keys.event_type.clone());
                *open.entry(route).or_default() += 1;
            }
            let routes = open
                .into_iter()
                .map(|((domain, event_type), open)| OpenRoute {
                    domain,
                    event_type,
                    open,
                });
            routes.collect()
        }))
    }
}
