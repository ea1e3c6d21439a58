//! Connections that run statements: one of the pool, or the caller's transaction.

use std::time::Duration;

use async_trait::async_trait;
use clinch_stored::Filling;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Row, Transaction};

use crate::error;
use crate::query::Query;

/// Statements that are sent together: one round trip for each [`PART_MAX`] bytes.
#[derive(Debug, Default)]
pub(crate) struct Script {
    parts: Vec<(String, usize)>,
}

/// Below the smallest default `max_allowed_packet` of both servers, with room for one statement of
/// [`STATEMENT_MAX`].
const PART_MAX: usize = 2 * 1024 * 1024;

/// Bytes after which a list of rows continues in another statement.
pub(crate) const STATEMENT_MAX: usize = 1024 * 1024;

/// The answer to one statement.
#[derive(Debug)]
pub(crate) struct Answer {
    pub rows: Vec<Row>,
    pub affected: u64,
    pub first_id: Option<u64>,
}

impl Script {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Number of statements.
    pub(crate) fn count(&self) -> usize {
        self.parts.iter().map(|(_, count)| count).sum()
    }

    /// Adds a statement; returns the index of its answer.
    pub(crate) fn add(&mut self, sql: &str) -> usize {
        let place = self.count();
        let fits = |(text, _): &&mut (String, usize)| text.len() + sql.len() <= PART_MAX;
        match self.parts.last_mut().filter(|part| fits(part)) {
            Some((text, count)) => {
                text.push(';');
                text.push_str(sql);
                *count += 1;
            }
            None => self.parts.push((sql.to_owned(), 1)),
        }
        place
    }

    /// Adds a statement for `rows`, or several statements if the rows are long.
    pub(crate) fn add_rows(&mut self, query: Query, rows: &[String]) {
        let (head, tail) = query.around_rows();
        let mut sql = String::new();
        for row in rows {
            if sql.len() + row.len() > STATEMENT_MAX && !sql.is_empty() {
                sql.push_str(tail);
                self.add(&sql);
                sql.clear();
            }
            sql.push_str(if sql.is_empty() { head } else { "," });
            sql.push_str(row);
        }
        if !sql.is_empty() {
            sql.push_str(tail);
            self.add(&sql);
        }
    }

    /// These statements, followed by those of `other`.
    pub(crate) fn followed_by(mut self, other: Self) -> Self {
        if self.parts.is_empty() {
            return other;
        }
        let mut parts = other.parts.into_iter();
        if let (Some((text, count)), Some((more, added))) = (self.parts.last_mut(), parts.next()) {
            text.push(';');
            text.push_str(&more);
            *count += added;
        }
        self.parts.extend(parts);
        self
    }

    /// Splits off the last round trip; returns the earlier ones and the last.
    pub(crate) fn split_last(mut self) -> (Self, Self) {
        let last = self.parts.pop().into_iter().collect();
        (self, Self { parts: last })
    }
}

/// Where statements run: a connection of the pool, or the caller's transaction.
#[async_trait]
pub(crate) trait Link: Send {
    /// Runs every statement; returns their answers in order.
    async fn run(&mut self, script: &Script) -> Result<Vec<Answer>, Error>;
}

/// How long closing a connection may take before it is dropped.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// A connection of the pool with a timeout for every answer.
pub(crate) struct Timed {
    conn: Conn,
    timeout: Duration,
}

impl Timed {
    pub(crate) fn new(conn: Conn, timeout: Duration) -> Self {
        Self { conn, timeout }
    }

    /// Runs a statement that reads a page, one row at a time, until the page is full.
    pub(crate) async fn fill(
        &mut self,
        sql: &str,
        limit: usize,
        weigh: fn(&Row) -> usize,
    ) -> Result<Filling<Row>, Error> {
        bounded(self.timeout, fill(&mut self.conn, sql, limit, weigh)).await
    }

    /// Rolls back a failed transaction; closes the connection if its state is unknown.
    pub(crate) async fn abort(mut self, is_lost: bool) {
        let limit = self.timeout;
        let is_kept = !is_lost && (bounded(limit, self.conn.query_drop("ROLLBACK")).await).is_ok();
        if !is_kept {
            let _ = bounded(GOODBYE_MAX, self.conn.disconnect()).await;
        }
    }
}

async fn fill(
    conn: &mut Conn,
    sql: &str,
    limit: usize,
    weigh: fn(&Row) -> usize,
) -> Result<Filling<Row>, Error> {
    let mut filling = Filling::new(limit);
    let mut rows = conn.query_iter(sql).await?;
    while let Some(row) = rows.next().await? {
        let bytes = weigh(&row);
        if !filling.push(row, bytes) {
            break;
        }
    }
    // Discards the remaining rows as they arrive.
    rows.drop_result().await?;
    Ok(filling)
}

async fn bounded<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let in_time = tokio::time::timeout(limit, call).await;
    in_time.unwrap_or_else(|_| Err(error::no_answer()))
}

#[async_trait]
impl Link for Timed {
    async fn run(&mut self, script: &Script) -> Result<Vec<Answer>, Error> {
        bounded(self.timeout, run(&mut self.conn, script)).await
    }
}

#[async_trait]
impl Link for Transaction<'_> {
    async fn run(&mut self, script: &Script) -> Result<Vec<Answer>, Error> {
        run(self, script).await
    }
}

async fn run<Q: Queryable>(queryable: &mut Q, script: &Script) -> Result<Vec<Answer>, Error> {
    let mut answers = Vec::new();
    for (sql, count) in &script.parts {
        send(queryable, sql, *count, &mut answers).await?;
    }
    Ok(answers)
}

async fn send<Q: Queryable>(
    queryable: &mut Q,
    sql: &str,
    count: usize,
    answers: &mut Vec<Answer>,
) -> Result<(), Error> {
    let mut result = queryable.query_iter(sql).await?;
    for _ in 0..count {
        let (affected, first_id) = (result.affected_rows(), result.last_insert_id());
        let rows = result.collect::<Row>().await?;
        answers.push(Answer {
            rows,
            affected,
            first_id,
        });
    }
    Ok(())
}
