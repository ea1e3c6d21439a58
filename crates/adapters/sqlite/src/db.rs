//! One connection with its prepared statements.

use clinch_core::Result;
use clinch_stored::Needs;
use rusqlite::{CachedStatement, Connection, Params, Row};

use crate::error;
use crate::names::Names;
use crate::query::Query;

/// A connection, its prepared statements by number, and the names that it has seen.
pub(crate) struct Db<'c> {
    conn: &'c Connection,
    statements: Vec<Option<CachedStatement<'c>>>,
    writes: u64,
    pub names: Names,
    /// Recovery that the commits of this connection have announced.
    pub needs: Needs,
}

impl<'c> Db<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self {
            conn,
            statements: Query::ALL.iter().map(|_| None).collect(),
            writes: 0,
            names: Names::default(),
            needs: Needs::default(),
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

    /// Begins or ends a transaction.
    pub(crate) fn control(&mut self, query: Query) -> rusqlite::Result<()> {
        let mut statement = self.conn.prepare_cached(query.text())?;
        statement.execute([]).map(|_| ())
    }

    /// Runs a statement that returns no rows; returns how many rows it changed.
    pub(crate) fn run(&mut self, query: Query, params: impl Params) -> Result<usize> {
        self.writes += 1;
        let statement = self.statement(query)?;
        statement.execute(params).map_err(error::sql)
    }

    /// The first row, if there is one. The statement is reset afterwards.
    pub(crate) fn first<T>(
        &mut self,
        query: Query,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut rows = self.statement(query)?.query(params).map_err(error::sql)?;
        match rows.next().map_err(error::sql)? {
            Some(row) => read(row).map(Some),
            None => Ok(None),
        }
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
        Ok(())
    }
}
