//! Pausing and counters.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Counts, DomainView, Domains, NewPause, OpenRoute, Pause};
use clinch_core::{Domain, EventType, Result, Timestamp, WorkerId};

use crate::link::{Link, Params};
use crate::query::Query;
use crate::row::count;
use crate::{Postgres, error};

fn pause(row: &tokio_postgres::Row) -> Result<Option<Pause>> {
    let Some(at) = row.get::<_, Option<i64>>(12) else {
        return Ok(None);
    };
    Ok(Some(Pause {
        at: Timestamp::from_millis(at),
        by: WorkerId::new(row.get::<_, String>(13)).map_err(error::unreadable)?,
        reason: row.get(14),
    }))
}

#[async_trait]
impl Domains for Postgres {
    async fn pause(&self, domain: &Domain, pause: &NewPause) -> Result<()> {
        let asked = (domain.clone(), pause.clone());
        self.write(asked, move |tx, (domain, pause)| {
            Box::pin(async move {
                let (name, by) = (domain.as_str(), pause.by.as_str());
                tx.query(Query::SetPaused, &[&name, &true]).await?;
                let params: Params<'_> = &[&name, &by, &pause.reason];
                tx.query(Query::InsertPause, params).await?;
                Ok(())
            })
        })
        .await
    }

    async fn resume(&self, domain: &Domain) -> Result<()> {
        self.write(domain.clone(), move |tx, domain| {
            Box::pin(async move {
                let name = domain.as_str();
                tx.query(Query::SetPaused, &[&name, &false]).await?;
                tx.query(Query::DeletePause, &[&name]).await?;
                let names = &tx.shared.names;
                tx.announcements.domain_is_due(domain, names);
                Ok(())
            })
        })
        .await
    }

    async fn domains(&self) -> Result<Vec<DomainView>> {
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let rows = link.query(Query::Domains, &[]).await?;
        let Some(now) = rows.first().map(|row| row.get::<_, i64>(10)) else {
            return Ok(Vec::new());
        };
        let since = |due: i64| Timestamp::from_millis(now).since(Timestamp::from_millis(due));
        let mut ages: HashMap<i32, Vec<(EventType, Duration)>> = HashMap::new();
        let (streams, fronts) = self.shared.horizon.known();
        let params: Params<'_> = &[&now, &streams, &fronts];
        for row in link.query(Query::OldestDue, params).await? {
            let event_type = row.get::<_, String>(1);
            let event_type = EventType::new(event_type).map_err(error::unreadable)?;
            let of_domain = ages.entry(row.get(0)).or_default();
            of_domain.push((event_type, since(row.get(2))));
        }
        let view = |row: &tokio_postgres::Row| {
            let due = ages.get(&row.get::<_, i32>(0)).cloned();
            let view = DomainView {
                domain: Domain::new(row.get::<_, String>(1)).map_err(error::unreadable)?,
                paused: row.get(2),
                pause: pause(row)?,
                counts: Counts {
                    pending: count(row.get(3))?,
                    live: count(row.get(4))?,
                    recorded: count(row.get(5))?,
                    waiting: count(row.get(6))?,
                    held: count(row.get(7))?,
                    completed: count(row.get(8))?,
                    failed: count(row.get(9))?,
                    dead_letters_open: count(row.get(11))?,
                },
                oldest_due: None,
                oldest_due_by_type: BTreeMap::new(),
            };
            Ok(view.with_oldest_due(due.unwrap_or_default()))
        };
        rows.iter().map(view).collect()
    }

    async fn open_routes(&self) -> Result<Vec<OpenRoute>> {
        let rows = self.shared.query(Query::OpenRoutes, &[]).await?;
        let route = |row: &tokio_postgres::Row| {
            let event_type = EventType::new(row.get::<_, String>(1));
            Ok(OpenRoute {
                domain: Domain::new(row.get::<_, String>(0)).map_err(error::unreadable)?,
                event_type: event_type.map_err(error::unreadable)?,
                open: count(row.get(2))?,
            })
        };
        rows.iter().map(route).collect()
    }
}
