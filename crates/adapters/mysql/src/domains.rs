//! Pausing and counters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use clinch_core::ports::{Counts, DomainView, Domains, OpenRoute};
use clinch_core::{Domain, EventType, Result, Timestamp};

use crate::Mysql;
use crate::column::Column;
use crate::link::Script;
use crate::query::Query;
use crate::streams::Stream;
use crate::text;
use crate::tx::Tx;

#[derive(Debug, Default)]
struct DomainRow {
    paused: bool,
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
    })
}

impl Tx<'_> {
    async fn views(&mut self) -> Result<Vec<DomainView>> {
        let mut script = Script::default();
        for query in [Query::Domains, Query::Paused, Query::Streams] {
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
    async fn set_paused(&self, domain: &Domain, paused: bool) -> Result<()> {
        self.write(domain.clone(), move |tx, domain| {
            Box::pin(async move {
                let name = text::literal(domain.as_str());
                let paused_text = u8::from(paused).to_string();
                let values = [("domain", name.as_str()), ("paused", &paused_text)];
                tx.query(&Query::PutPaused.with(&values)).await?;
                if !paused {
                    tx.wakes.due.insert(domain.clone());
                }
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
