//! One connection with its prepared statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clinch_core::Result;
use clinch_stored::Needs;
use rusqlite::{CachedStatement, Connection, Params, Row, StatementStatus};

use crate::error;
use crate::kept::Kept;
use crate::names::Names;
use crate::query::Query;

/// Steps of SQLite's virtual machine that the statements of a store have taken. A statement takes at
/// least one step for each row that it examines. Counted in debug builds only, for tests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steps(Arc<AtomicU64>);

impl Steps {
    pub(crate) fn taken(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn add(&self, statement: Option<&CachedStatement<'_>>) {
        let steps = |one: &CachedStatement<'_>| one.reset_status(StatementStatus::VmStep);
        let steps = statement.map_or(0, steps);
        let steps = u64::try_from(steps).unwrap_or_default();
        self.0.fetch_add(steps, Ordering::SeqCst);
    }
}

/// A connection, its prepared statements by number, and the names that it has seen.
pub(crate) struct Db<'c> {
    conn: &'c Connection,
    statements: Vec<Option<CachedStatement<'c>>>,
    writes: u64,
    pub names: Names,
    /// Recovery that the commits of this connection have announced.
    pub needs: Needs,
    pub steps: Steps,
    pub kept: Kept,
}

impl<'c> Db<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self {
            conn,
            statements: Query::ALL.iter().map(|_| None).collect(),
            writes: 0,
            names: Names::default(),
            needs: Needs::default(),
            steps: Steps::default(),
            kept: Kept::default(),
        }
    }

    pub(crate) fn conn(&self) -> &'c Connection {
        self.conn
    }

    /// Number of changed rows so far: tells whether a failed job has written anything.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    fn statement(&mut self, query: Query) -> Result<&mut CachedStatement<'c>> {
        let slot = &mut self.statements[query as usize];
        match slot {
            Some(prepared) => Ok(prepared),
            None => {
                let prepared = self.conn.prepare_cached(query.text());
                Ok(slot.insert(prepared.map_err(error::sql)?))
            }
        }
    }

    /// Counts the steps of the statement's last run.
    fn count_steps(&self, query: Query) {
        if cfg!(debug_assertions) {
            self.steps.add(self.statements[query as usize].as_ref());
        }
    }

    /// Begins or ends a transaction.
    pub(crate) fn control(&mut self, query: Query) -> rusqlite::Result<()> {
        let mut statement = self.conn.prepare_cached(query.text())?;
        statement.execute([]).map(|_| ())
    }

    /// Runs a statement that returns no rows; returns how many rows it changed.
    pub(crate) fn run(&mut self, query: Query, params: impl Params) -> Result<usize> {
        self.writes += 1;
        let statement = self.statement(query)?;
        let changed = statement.execute(params).map_err(error::sql);
        self.count_steps(query);
        changed
    }

    /// The first row, if there is one. The statement is reset afterwards.
    pub(crate) fn first<T>(
        &mut self,
        query: Query,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut rows = self.statement(query)?.query(params).map_err(error::sql)?;
        let first = match rows.next().map_err(error::sql)? {
            Some(row) => read(row).map(Some),
            None => Ok(None),
        };
        drop(rows);
        self.count_steps(query);
        first
    }

    /// The first row. `read` also gets the connection, for rows that refer to names by number.
    pub(crate) fn first_with<T>(
        &mut self,
        query: Query,
        params: impl Params,
        read: impl FnOnce(&Row<'_>, &mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut found = None;
        let mut read = Some(read);
        self.each_with(query, params, |row, db| {
            found = read.take().map(|read| read(row, db)).transpose()?;
            Ok(false)
        })?;
        Ok(found)
    }

    /// Rows in order, until `read` returns false. `read` also gets the connection.
    pub(crate) fn each_with(
        &mut self,
        query: Query,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>, &mut Self) -> Result<bool>,
    ) -> Result<()> {
        self.statement(query)?;
        let Some(mut statement) = self.statements[query as usize].take() else {
            return Ok(());
        };
        let outcome = (|| {
            let mut rows = statement.query(params).map_err(error::sql)?;
            while let Some(row) = rows.next().map_err(error::sql)? {
                if !read(row, self)? {
                    break;
                }
            }
            Ok(())
        })();
        self.statements[query as usize] = Some(statement);
        self.count_steps(query);
        outcome
    }

    /// The first row of a statement that writes.
    pub(crate) fn write_first<T>(
        &mut self,
        query: Query,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.writes += 1;
        let mut rows = self.statement(query)?.query(params).map_err(error::sql)?;
        let first = match rows.next().map_err(error::sql)? {
            Some(row) => Some(read(row)?),
            None => None,
        };
        // A statement's changes are complete only when it has run to its end.
        while rows.next().map_err(error::sql)?.is_some() {}
        drop(rows);
        self.count_steps(query);
        Ok(first)
    }

    /// Every row.
    pub(crate) fn all<T>(
        &mut self,
        query: Query,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.each(query, params, |row| {
            all.push(read(row)?);
            Ok(true)
        })?;
        Ok(all)
    }

    /// Rows in order, until `read` returns false.
    pub(crate) fn each(
        &mut self,
        query: Query,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut rows = self.statement(query)?.query(params).map_err(error::sql)?;
        while let Some(row) = rows.next().map_err(error::sql)? {
            if !read(row)? {
                break;
            }
        }
        drop(rows);
        self.count_steps(query);
        Ok(())
    }
}
