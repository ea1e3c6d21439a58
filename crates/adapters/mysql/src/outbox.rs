//! Claims of queue rows that are to be announced on the bus.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::{Covered, Routes};
use clinch_core::ports::{Among, Claim, Claimed, Hint, Outbox, Silence};
use clinch_core::{Domain, EventType, Result, Timestamp};
use clinch_stored::commit::Row;

use crate::Mysql;
use crate::column::Column;
use crate::link::Script;
use crate::query::Query;
use crate::row::{self, ROW_COLUMNS, stream_of};
use crate::streams::{Columns, Stream};
use crate::text;
use crate::tx::Tx;

/// Maximum doublings of the pause between two announcements of a silent row; the caller caps the
/// pause itself.
const ROUNDS_MAX: u32 = 16;
/// Longer than any real pause; a longer one could overflow a time in SQL.
const PAUSE_MAX: Duration = Duration::from_secs(1_000_000_000);

/// A row to claim, its trace, and the time since which it needs the claim.
pub(crate) type Claimable = (Row, Option<String>, Timestamp);

/// The SQL condition for the routes of a claim.
pub(crate) fn routes_of(claim: &Claim) -> String {
    match &claim.among {
        Among::All => String::new(),
        Among::Routes(routes) => format!(" AND ({})", among(routes)),
        Among::Others(routes) => format!(" AND NOT ({})", among(routes)),
    }
}

/// The SQL condition for rows that have one of these routes.
fn among(routes: &Routes) -> String {
    let names = |types: &[&EventType]| text::list(types.iter().map(|name| name.as_str()));
    let domains: BTreeSet<&Domain> = routes.iter().map(|(domain, ..)| domain).collect();
    let mut conditions = vec!["FALSE".to_owned()];
    for domain in domains {
        let types = match routes.covered(domain) {
            Covered::Only(types) if types.is_empty() => continue,
            Covered::Only(types) => format!(" AND r.event_type IN ({})", names(&types)),
            Covered::AllBut(types) if types.is_empty() => String::new(),
            Covered::AllBut(types) => format!(" AND r.event_type NOT IN ({})", names(&types)),
        };
        let domain = text::literal(domain.as_str());
        conditions.push(format!("(r.domain = {domain}{types})"));
    }
    conditions.join(" OR ")
}

fn read_claimable(row: &mysql_async::Row) -> Result<Claimable> {
    let trace = row.maybe_text(ROW_COLUMNS)?;
    Ok((row::read(row)?, trace, row.moment(ROW_COLUMNS + 1)?))
}

impl Tx<'_> {
    /// Runs a statement that finds rows to claim.
    pub(crate) async fn find(&mut self, sql: &str) -> Result<Vec<Claimable>> {
        let rows = self.query(sql).await?;
        rows.iter().map(read_claimable).collect()
    }

    /// Claims rows that are locked.
    pub(crate) fn claim(&mut self, found: Vec<Claimable>, claim: &Claim) -> Vec<Claimed> {
        let now = self.now;
        if !found.is_empty() {
            let until = now + claim.lasting;
            self.later.add(&Query::Claim.with(&[
                ("by", &text::literal(claim.by.as_str())),
                ("until", &until.as_millis().to_string()),
                (
                    "seqs",
                    &text::numbers(found.iter().map(|(row, ..)| row.seq)),
                ),
            ]));
        }
        let claimed = |(row, trace, since): Claimable| Claimed {
            hint: Hint {
                op_id: row.op_id,
                domain: row.domain,
                event_type: row.event_type,
                lane: row.lane,
                dispatch_no: row.dispatch_no + 1,
                trace,
            },
            version: row.state.version,
            fence: row.state.fence,
            since,
            now,
        };
        found.into_iter().map(claimed).collect()
    }

    async fn claim_due(&mut self, claim: &Claim) -> Result<Vec<Claimed>> {
        let streams = self
            .open_streams(|domain, event_type| claim.covers(domain, event_type))
            .await?;
        let rows = self.lock_due(&streams, Columns::Claim, &[], claim.max);
        let mut found = Vec::new();
        for (row, columns) in rows.await? {
            let trace = columns.maybe_text(ROW_COLUMNS)?;
            found.push((row, trace, columns.moment(ROW_COLUMNS + 1)?));
        }
        Ok(self.claim(found, claim))
    }

    /// Claims silent rows, those that were announced first at the front.
    ///
    /// The pause of a row depends on how often it was announced. So for each stream and each number
    /// of announcements, the silent rows are the beginning of one range of the index.
    async fn claim_quiet(&mut self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>> {
        let mut streams = self
            .open_streams(|domain, event_type| claim.covers(domain, event_type))
            .await?;
        // Announced rows have no priority any more.
        streams.dedup_by(|one, other| {
            one.domain == other.domain && one.event_type == other.event_type
        });
        let mut script = Script::default();
        for stream in &streams {
            script.add(&stream.oldest_announced());
        }
        let announced = self.run(script).await?;
        let mut script = Script::default();
        for (stream, first) in streams.iter().zip(announced) {
            if !first.rows.is_empty() {
                self.add_silent(stream, claim, silence, &mut script);
            }
        }
        let mut found = Vec::new();
        for answer in self.run(script).await? {
            for row in &answer.rows {
                found.push(read_claimable(row)?);
            }
        }
        found.sort_by_key(|(row, _, announced_at)| (*announced_at, row.seq));
        found.truncate(claim.max);
        Ok(self.claim(found, claim))
    }

    /// Adds the statements that find the silent rows of a stream.
    fn add_silent(&self, stream: &Stream, claim: &Claim, silence: &Silence, script: &mut Script) {
        let name = text::literal(stream_of(&stream.domain, &stream.event_type));
        let limit = claim.max.to_string();
        for doublings in 0..=ROUNDS_MAX {
            let pause = silence.grace.saturating_mul(1 << doublings);
            let by = self.now - pause.min(silence.pause_max).min(PAUSE_MAX);
            script.add(&Query::Silent.of_rows(
                false,
                &[
                    ("stream", &name),
                    ("rounds", &(doublings + 1).to_string()),
                    ("by", &by.as_millis().to_string()),
                    ("limit", &limit),
                ],
            ));
        }
    }

    /// Runs a statement for each claim that still holds; tells for each whether it changed a row.
    async fn of_claims(&mut self, query: Query, claimed: &[Claimed]) -> Result<Vec<bool>> {
        let mut script = Script::default();
        for claim in claimed {
            script.add(&query.with(&[
                ("id", &text::literal(claim.op_id().0.as_bytes())),
                ("version", &claim.version.to_string()),
                ("at", &claim.now.as_millis().to_string()),
                ("dispatch_no", &claim.hint.dispatch_no.to_string()),
            ]));
        }
        let answers = self.run(script).await?;
        Ok(answers.iter().map(|answer| answer.affected > 0).collect())
    }
}

#[async_trait]
impl Outbox for Mysql {
    async fn claim(&self, claim: &Claim) -> Result<Vec<Claimed>> {
        self.write(claim.clone(), |tx, claim| Box::pin(tx.claim_due(claim)))
            .await
    }

    async fn claim_silent(&self, claim: &Claim, silence: &Silence) -> Result<Vec<Claimed>> {
        let asked = (claim.clone(), silence.clone());
        self.write(asked, |tx, (claim, silence)| {
            Box::pin(tx.claim_quiet(claim, silence))
        })
        .await
    }

    async fn published(&self, claimed: &[Claimed]) -> Result<()> {
        self.write(claimed.to_vec(), |tx, claimed| {
            Box::pin(async move { tx.of_claims(Query::Published, claimed).await.map(|_| ()) })
        })
        .await
    }

    async fn release(&self, claimed: &[Claimed]) -> Result<()> {
        self.write(claimed.to_vec(), |tx, claimed| {
            Box::pin(async move {
                let freed = tx.of_claims(Query::Release, claimed).await?;
                let freed = claimed.iter().zip(freed).filter(|(_, freed)| *freed);
                let domains = freed.map(|(claim, _)| claim.hint.domain.clone());
                tx.wakes.due.extend(domains);
                Ok(())
            })
        })
        .await
    }

    async fn next_due(&self, routes: Option<&Routes>) -> Result<Option<Duration>> {
        self.read(routes.cloned(), |tx, routes| {
            Box::pin(async move {
                let wanted = |domain: &_, event_type: &_| {
                    let asked = |routes: &Routes| routes.find(domain, event_type).is_some();
                    routes.as_ref().is_none_or(asked)
                };
                let streams = tx.open_streams(wanted).await?;
                let first = tx.first_due(&streams).await?;
                Ok(first.map(|due| due.since(tx.now)))
            })
        })
        .await
    }
}
