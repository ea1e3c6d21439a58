//! Dead letters: their lists, their status, and letters of earlier releases.

use clinch_core::ports::{
    DeadLetter, LetterFilter, LetterOrder, LetterState, LetterStatus, LetterView, Page,
};
use clinch_core::{Keys, OpId, Result};
use clinch_stored::commit::{LetterWrite, SeenLetter};
use clinch_stored::json;
use clinch_stored::letters::{Place, Search, Summary, imported, mark_of, read_mark};
use rusqlite::params;

use crate::column::{Column, maybe_millis, millis, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::tx::Tx;

/// The column that says whether the filter selects a letter, after those of the letter.
const SELECTED: usize = 11;

/// Letters of an earlier release that are read at once.
const COMPLETED_AT_ONCE: i64 = 1_000;

fn code(state: LetterState) -> i64 {
    i64::from(state.code())
}

fn read_letter(row: &rusqlite::Row<'_>, db: &mut Db<'_>) -> Result<LetterView> {
    let summary: Summary = json::read(row.text(10)?.as_bytes())?;
    Ok(LetterView {
        op_id: row.op_id(0)?,
        failed_at: row.moment(1)?,
        seq: row.count(2)?,
        keys: Keys {
            domain: db.domain(row.int(3)?)?,
            event_type: db.event_type(row.int(4)?)?,
            biz_key: row.text(5)?.parse().map_err(error::unreadable)?,
            idem_key: row.text(6)?.parse().map_err(error::unreadable)?,
        },
        fingerprint: row.text(7)?,
        status: read_mark(row.maybe_text(8)?.as_deref().map(str::as_bytes))?,
        late_ok: row.int(9)? != 0,
        failure: summary.failure,
        attempts: summary.attempts,
    })
}

impl Db<'_> {
    pub(crate) fn dead_letters(
        &mut self,
        filter: &LetterFilter,
        order: LetterOrder,
        mut search: Search,
    ) -> Result<Page<LetterView>> {
        let query = match (order, filter.state) {
            (LetterOrder::NewestFirst, Some(_)) => Query::LettersNewest,
            (LetterOrder::NewestFirst, None) => Query::AllLettersNewest,
            (LetterOrder::OldestFirst, Some(_)) => Query::LettersOldest,
            (LetterOrder::OldestFirst, None) => Query::AllLettersOldest,
            (LetterOrder::Accepted, _) => Query::LettersAccepted,
        };
        let domains = self.find_names(filter.domains.iter().map(|name| name.as_str()))?;
        let types = self.find_names(filter.event_types.iter().map(|name| name.as_str()))?;
        let (after, until) = (search.after, search.until);
        let params = params![
            filter.state.map(code),
            after.key,
            after.op_id.0.into_bytes(),
            until,
            stored(search.rows() as u64),
            domains,
            types,
            filter.biz_key.as_ref().map(|key| key.as_str()),
            filter.idem_key.as_ref().map(|key| key.as_str()),
            filter.code,
            filter.fingerprint,
            maybe_millis(filter.from),
            maybe_millis(filter.to),
            filter.seq_max.map(stored),
        ];
        self.each_with(query, params, |row, db| {
            let key = match order {
                LetterOrder::NewestFirst | LetterOrder::OldestFirst => row.int(1)?,
                LetterOrder::Accepted => row.int(2)?,
            };
            let op_id = row.op_id(0)?;
            let is_selected = row.int(SELECTED)? != 0;
            let letter = is_selected.then(|| read_letter(row, db)).transpose()?;
            Ok(search.look(Place { key, op_id }, letter))
        })?;
        Ok(search.page())
    }

    pub(crate) fn letter(&mut self, op_id: OpId) -> Result<Option<LetterView>> {
        self.first_with(Query::LetterById, [op_id.0.as_bytes()], read_letter)
    }

    /// What decides about a change of a letter.
    pub(crate) fn seen_letter(&mut self, op_id: OpId) -> Result<Option<SeenLetter>> {
        self.first_with(Query::LetterStatus, [op_id.0.as_bytes()], |row, db| {
            Ok(SeenLetter {
                domain: db.domain(row.int(0)?)?,
                status: read_mark(row.maybe_text(1)?.as_deref().map(str::as_bytes))?,
            })
        })
    }
}

impl Tx<'_, '_> {
    /// Inserts an open letter. False: the operation has one already.
    pub(crate) fn insert_letter(&mut self, letter: &LetterView, text: &str) -> Result<bool> {
        let keys = &letter.keys;
        let params = params![
            letter.op_id.0.as_bytes(),
            millis(letter.failed_at),
            text,
            stored(letter.seq),
            self.db.name(keys.domain.as_str())?,
            self.db.name(keys.event_type.as_str())?,
            keys.biz_key.as_str(),
            keys.idem_key.as_str(),
            letter.failure.code,
            letter.fingerprint,
            letter.late_ok,
        ];
        Ok(self.db.run(Query::InsertDeadLetter, params)? == 1)
    }

    /// Imports a letter from the backup file. True if it was new.
    pub(crate) fn import_letter(&mut self, letter: &DeadLetter) -> Result<bool> {
        let row = self.db.row(letter.op_id)?;
        let view = imported(letter, row.map_or(0, |row| row.seq));
        let is_new = self.insert_letter(&view, &json::to_text(letter)?)?;
        if is_new {
            let domain = self.db.name(letter.keys.domain.as_str())?;
            self.count_letter(domain)?;
        }
        Ok(is_new)
    }

    fn count_letter(&mut self, domain: i64) -> Result<()> {
        self.domain_row(domain)?.counts.dead_letters_open += 1;
        self.touch(domain)
    }

    /// Sets the status of a letter. The counter moves with the plan.
    pub(crate) fn write_letter(&mut self, write: &LetterWrite) -> Result<()> {
        let params = params![
            write.op_id.0.as_bytes(),
            code(write.status.state()),
            mark_of(&write.status)?,
            code(write.before),
        ];
        match self.db.run(Query::SetLetterStatus, params)? {
            1 => Ok(()),
            _ => Err(error::corrupt("a dead letter that vanished")),
        }
    }

    /// Completes letters that an earlier release has written.
    pub(crate) fn complete_letters(&mut self) -> Result<()> {
        loop {
            let max = [COMPLETED_AT_ONCE];
            let found = self.db.all(Query::IncompleteLetters, max, |row| {
                let letter: DeadLetter = json::read(row.text(0)?.as_bytes())?;
                let seq = row.maybe_int(1)?.and_then(|seq| u64::try_from(seq).ok());
                Ok((letter, seq, row.maybe_op_id(2)?))
            })?;
            if found.is_empty() {
                return Ok(());
            }
            for (letter, seq, redriven_by) in found {
                let mut view = imported(&letter, seq.unwrap_or(0));
                if let Some(by) = redriven_by {
                    view.status = LetterStatus::Redriven { by };
                }
                self.complete_letter(&view)?;
            }
        }
    }

    fn complete_letter(&mut self, letter: &LetterView) -> Result<()> {
        let keys = &letter.keys;
        let domain = self.db.name(keys.domain.as_str())?;
        let params = params![
            letter.op_id.0.as_bytes(),
            code(letter.status.state()),
            mark_of(&letter.status)?,
            stored(letter.seq),
            domain,
            self.db.name(keys.event_type.as_str())?,
            keys.biz_key.as_str(),
            keys.idem_key.as_str(),
            letter.failure.code,
            letter.fingerprint,
            letter.late_ok,
        ];
        self.db.run(Query::CompleteLetter, params)?;
        match letter.status {
            LetterStatus::Open => self.count_letter(domain),
            LetterStatus::Redriven { .. } | LetterStatus::Dismissed { .. } => Ok(()),
        }
    }
}
