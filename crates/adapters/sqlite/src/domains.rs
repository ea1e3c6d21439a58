//! Pausing and counters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clinch_core::ports::{DomainView, Domains, NewPause, OpenRoute, Pause};
use clinch_core::{Domain, Result, WorkerId};
use rusqlite::params;

use crate::column::{Column, millis};
use crate::db::Db;
use crate::query::Query;
use crate::tx::{DomainRow, Tx};
use crate::{Sqlite, error};

fn read_pause(row: &rusqlite::Row<'_>) -> Result<Pause> {
    Ok(Pause {
        at: row.moment(0)?,
        by: WorkerId::new(row.text(1)?).map_err(error::unreadable)?,
        reason: row.text(2)?,
    })
}

#[async_trait]
impl Domains for Sqlite {
    async fn pause(&self, domain: &Domain, pause: &NewPause) -> Result<()> {
        let (domain, pause) = (domain.clone(), pause.clone());
        let work = move |tx: &mut Tx<'_, '_>| {
            let id = tx.db.name(domain.as_str())?;
            tx.set_paused(id, true)?;
            let (by, reason) = (pause.by.as_str(), pause.reason.as_str());
            let params = params![id, millis(tx.now), by, reason];
            tx.db.run(Query::InsertPause, params)?;
            Ok(())
        };
        self.write(work).await
    }

    async fn resume(&self, domain: &Domain) -> Result<()> {
        let domain = domain.clone();
        let work = move |tx: &mut Tx<'_, '_>| {
            let id = tx.db.name(domain.as_str())?;
            tx.set_paused(id, false)?;
            tx.db.run(Query::DeletePause, [id])?;
            tx.news.due.insert(domain.clone());
            Ok(())
        };
        self.write(work).await
    }

    async fn domains(&self) -> Result<Vec<DomainView>> {
        let now = self.clock().now();
        let read = move |db: &mut Db<'_>| {
            let rows = db.all(Query::Domains, [], |row| {
                Ok((row.int(0)?, DomainRow::read(row, 1)?))
            })?;
            let mut views = Vec::with_capacity(rows.len());
            for (id, row) in rows {
                let mut due = Vec::new();
                for event_type in db.announced_types(id)? {
                    let asked = [id, event_type];
                    let first = db.first(Query::AnnouncedDue, asked, |row| row.moment(0))?;
                    due.extend(first.map(|first| (event_type, first)));
                }
                for stream in db.streams(id, |_| true)? {
                    let first = db.oldest(&stream)?.filter(|due| *due <= now);
                    due.extend(first.map(|first| (stream.event_type, first)));
                }
                let mut ages = Vec::with_capacity(due.len());
                for (event_type, due) in due {
                    ages.push((db.event_type(event_type)?, now.since(due)));
                }
                let pause = match row.paused {
                    true => db.first(Query::Pause, [id], read_pause)?,
                    false => None,
                };
                let view = DomainView {
                    domain: db.domain(id)?,
                    paused: row.paused,
                    pause,
                    counts: row.counts,
                    oldest_due: None,
                    oldest_due_by_type: BTreeMap::new(),
                };
                views.push(view.with_oldest_due(ages));
            }
            views.sort_by(|one, other| one.domain.cmp(&other.domain));
            Ok(views)
        };
        self.read(read).await
    }

    async fn open_routes(&self) -> Result<Vec<OpenRoute>> {
        let read = |db: &mut Db<'_>| {
            let mut open: BTreeMap<(i64, i64), u64> = BTreeMap::new();
            db.each(Query::OpenRoutes, [], |row| {
                *open.entry((row.int(0)?, row.int(1)?)).or_default() += 1;
                Ok(true)
            })?;
            let mut routes = Vec::with_capacity(open.len());
            for ((domain, event_type), open) in open {
                routes.push(OpenRoute {
                    domain: db.domain(domain)?,
                    event_type: db.event_type(event_type)?,
                    open,
                });
            }
            Ok(routes)
        };
        self.read(read).await
    }
}
