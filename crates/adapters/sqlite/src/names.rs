//! Domains, event types and workers as small numbers: rows and indexes hold the number.

use std::collections::HashMap;

use clinch_core::{Domain, EventType, Result, WorkerId};

use crate::column::Column;
use crate::db::Db;
use crate::error;
use crate::query::Query;

/// Names that a connection has seen.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ids: HashMap<Box<str>, i64>,
    domains: HashMap<i64, Domain>,
    event_types: HashMap<i64, EventType>,
    workers: HashMap<i64, WorkerId>,
    /// Names that the open transaction has added; they are dropped on rollback.
    fresh: Vec<Box<str>>,
}

/// Names cached per connection: a process must not grow for ever when worker names change at every
/// start.
const KEPT_MAX: usize = 10_000;

impl Names {
    pub(crate) fn committed(&mut self) {
        self.fresh.clear();
        if self.ids.len() > KEPT_MAX {
            *self = Self::default();
        }
    }

    pub(crate) fn rolled_back(&mut self) {
        for name in self.fresh.drain(..) {
            if let Some(id) = self.ids.remove(&name) {
                self.domains.remove(&id);
                self.event_types.remove(&id);
                self.workers.remove(&id);
            }
        }
    }
}

impl Db<'_> {
    /// The number of a name, if it has one.
    pub(crate) fn find_name(&mut self, text: &str) -> Result<Option<i64>> {
        if let Some(id) = self.names.ids.get(text) {
            return Ok(Some(*id));
        }
        let found = self.first(Query::NameByText, [text], |row| row.int(0))?;
        if let Some(id) = found {
            self.names.ids.insert(text.into(), id);
        }
        Ok(found)
    }

    /// The number of a name; a new name gets one.
    pub(crate) fn name(&mut self, text: &str) -> Result<i64> {
        if let Some(id) = self.find_name(text)? {
            return Ok(id);
        }
        self.run(Query::InsertName, [text])?;
        let id = self.conn().last_insert_rowid();
        self.names.ids.insert(text.into(), id);
        self.names.fresh.push(text.into());
        Ok(id)
    }

    fn text(&mut self, id: i64) -> Result<String> {
        let text = self.first(Query::NameById, [id], |row| row.text(0))?;
        text.ok_or_else(|| error::corrupt("name"))
    }

    pub(crate) fn domain(&mut self, id: i64) -> Result<Domain> {
        if let Some(known) = self.names.domains.get(&id) {
            return Ok(known.clone());
        }
        let domain = Domain::new(self.text(id)?).map_err(error::unreadable)?;
        self.names.domains.insert(id, domain.clone());
        Ok(domain)
    }

    pub(crate) fn event_type(&mut self, id: i64) -> Result<EventType> {
        if let Some(known) = self.names.event_types.get(&id) {
            return Ok(known.clone());
        }
        let event_type = EventType::new(self.text(id)?).map_err(error::unreadable)?;
        self.names.event_types.insert(id, event_type.clone());
        Ok(event_type)
    }

    pub(crate) fn worker(&mut self, id: i64) -> Result<WorkerId> {
        if let Some(known) = self.names.workers.get(&id) {
            return Ok(known.clone());
        }
        let worker = WorkerId::new(self.text(id)?).map_err(error::unreadable)?;
        self.names.workers.insert(id, worker.clone());
        Ok(worker)
    }
}
