//! Pausing and counters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clinch_core::ports::{Counts, DomainView, Domains, NewPause, OpenRoute, Pause};
use clinch_core::{Domain, EventType, Result, Timestamp, WorkerId};

use crate::Mysql;
use crate::column::Column;
use crate::error;
use crate::link::Script;
use crate::query::Query;
use crate::streams::Stream;
use crate::text::{self, Tuple};
use crate::tx::Tx;

#[derive(Debug, Default)]
struct DomainRow {
    paused: bool,
    pause: Option<Pause>,
    counts: Counts,
    due: Vec<(EventType, Timestamp)>,
}

fn read_counts(row: &mysql_async::Row) -> Result<Counts> {
    Ok(Counts {
        pending: row.count(1)?,
        live: row.count(2)?,
        recorded: row.count(3)?,
        waiting: row.count(4)?,
        held: row.count(5)?,
        completed: row.count(6)?,
        failed: row.count(7)?,
        dead_letters_open: row.count(8)?,
    })
}

impl Tx<'_> {
    async fn put_paused(&mut self, domain: &Domain, paused: bool) -> Result<()> {
        let name = text::literal(domain.as_str());
        let paused = u8::from(paused).to_string();
        let values = [("domain", name.as_str()), ("paused", &paused)];
        self.query(&Query::PutPaused.with(&values)).await?;
        Ok(())
    }

    async fn views(&mut self) -> Result<Vec<DomainView>> {
        let mut script = Script::default();
        for query in [Query::Domains, Query::Paused, Query::Streams, Query::Pauses] {
            script.add(query.text());
        }
        let answers = self.run(script).await?;
        let rows = |at: usize| answers.get(at).map(|answer| answer.rows.as_slice());
        let rows = |at| rows(at).unwrap_or_default();
        let mut found: BTreeMap<Domain, DomainRow> = BTreeMap::new();
        for row in rows(0) {
            found.entry(row.domain(0)?).or_default().counts = read_counts(row)?;
        }
        for row in rows(1) {
            found.entry(row.domain(0)?).or_default().paused = row.int(1)? != 0;
        }
        for row in rows(3) {
            let pause = Pause {
                at: row.moment(1)?,
                by: WorkerId::new(row.text(2)?).map_err(error::unreadable)?,
                reason: row.text(3)?,
            };
            found.entry(row.domain(0)?).or_default().pause = Some(pause);
        }
        let streams: Vec<Stream> = rows(2).iter().map(Stream::read).collect::<Result<_>>()?;
        // Announced rows have no priority any more: those of a route are one range.
        let mut script = Script::default();
        for stream in &streams {
            script.add(&stream.oldest());
            script.add(&stream.oldest_announced());
        }
        let answers = self.run(script).await?;
        let mut dues = Vec::new();
        for (stream, answers) in streams.into_iter().zip(answers.chunks(2)) {
            for answer in answers {
                let due = answer.rows.first().map(|row| row.moment(0)).transpose()?;
                let due = due.filter(|due| *due <= self.now);
                dues.extend(due.map(|due| (stream.domain.clone(), stream.event_type.clone(), due)));
            }
        }
        for (domain, event_type, due) in dues {
            found.entry(domain).or_default().due.push((event_type, due));
        }
        let now = self.now;
        let view = |(domain, row): (Domain, DomainRow)| {
            let view = DomainView {
                domain,
                paused: row.paused,
                pause: row.pause.filter(|_| row.paused),
                counts: row.counts,
                oldest_due: None,
                oldest_due_by_type: BTreeMap::new(),
            };
            let ages = row.due.into_iter();
            view.with_oldest_due(ages.map(|(event_type, due)| (event_type, now.since(due))))
        };
        Ok(found.into_iter().map(view).collect())
    }
}

#[async_trait]
impl Domains for Mysql {
    async fn pause(&self, domain: &Domain, pause: &NewPause) -> Result<()> {
        let asked = (domain.clone(), pause.clone());
        self.write(asked, move |tx, (domain, pause)| {
            Box::pin(async move {
                tx.put_paused(domain, true).await?;
                let values = Tuple::new().bytes(domain.as_str()).at(tx.now);
                let values = values.bytes(pause.by.as_str()).bytes(&pause.reason);
                let insert = Query::InsertPause.with(&[("values", &values.end())]);
                tx.query(&insert).await?;
                Ok(())
            })
        })
        .await
    }

    async fn resume(&self, domain: &Domain) -> Result<()> {
        self.write(domain.clone(), move |tx, domain| {
            Box::pin(async move {
                tx.put_paused(domain, false).await?;
                let name = text::literal(domain.as_str());
                let delete = Query::DeletePause.with(&[("domain", &name)]);
                tx.query(&delete).await?;
                tx.wakes.due.insert(domain.clone());
                Ok(())
            })
        })
        .await
    }

    async fn domains(&self) -> Result<Vec<DomainView>> {
        self.read((), |tx, ()| Box::pin(tx.views())).await
    }

    async fn open_routes(&self) -> Result<Vec<OpenRoute>> {
        let rows = self.query(Query::OpenRoutes.text().to_owned()).await?;
        let route = |row: &mysql_async::Row| {
            Ok(OpenRoute {
                domain: row.domain(0)?,
                event_type: row.event_type(1)?,
                open: row.count(2)?,
            })
        };
        rows.iter().map(route).collect()
    }
}
