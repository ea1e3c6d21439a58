//! Dead letters: what is stored of them, the cursors of their lists, and their integrity check.

use clinch_core::ports::{
    DeadLetter, LetterFilter, LetterOrder, LetterStatus, LetterView, Page, SEARCH_MAX, fingerprint,
};
use clinch_core::{Domain, Error, ErrorKind, EventType, Failure, OpId, Result, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::commit::Row;
use crate::{Filling, json};

/// The part of a letter that no statement looks at, as JSON. A [`DeadLetter`] reads as one, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Why it failed.
    pub failure: Failure,
    /// Number of calls.
    pub attempts: u32,
}

impl Summary {
    /// Of a row that FAILED.
    pub fn of(row: &Row) -> Self {
        let unknown = || Failure::own("unknown", "", row.state.effect);
        Self {
            failure: row.state.failure.clone().unwrap_or_else(unknown),
            attempts: row.state.attempts,
        }
    }

    /// The fingerprint of its failure.
    pub fn fingerprint(&self, domain: &Domain, event_type: &EventType) -> String {
        fingerprint(domain, event_type, &self.failure)
    }
}

/// The dead letter of a row whose request was loaded. It is open.
pub fn of(row: &Row, failed_at: Timestamp) -> Result<LetterView> {
    let summary = Summary::of(row);
    Ok(LetterView {
        op_id: row.op_id,
        seq: row.seq,
        keys: row.keys()?,
        fingerprint: summary.fingerprint(&row.domain, &row.event_type),
        failure: summary.failure,
        attempts: summary.attempts,
        failed_at,
        late_ok: row.state.late_ok,
        status: LetterStatus::Open,
    })
}

/// An imported letter as lists show it. `seq` is that of its operation, if there is one.
pub fn imported(letter: &DeadLetter, seq: u64) -> LetterView {
    let keys = &letter.keys;
    LetterView {
        op_id: letter.op_id,
        seq,
        keys: keys.clone(),
        failure: letter.failure.clone(),
        attempts: letter.attempts,
        failed_at: letter.failed_at,
        late_ok: letter.late_ok,
        fingerprint: fingerprint(&keys.domain, &keys.event_type, &letter.failure),
        status: LetterStatus::Open,
    }
}

/// The details of a status for a column; `None` of an open letter.
pub fn mark_of(status: &LetterStatus) -> Result<Option<String>> {
    match status {
        LetterStatus::Open => Ok(None),
        LetterStatus::Redriven { .. } | LetterStatus::Dismissed { .. } => {
            json::to_text(status).map(Some)
        }
    }
}

/// The inverse of [`mark_of`].
pub fn read_mark(mark: Option<&[u8]>) -> Result<LetterStatus> {
    mark.map_or(Ok(LetterStatus::Open), json::read)
}

/// Refuses the letters if one of them does not match its content hash.
pub fn check(letters: &[DeadLetter]) -> Result<()> {
    for letter in letters {
        let stored = letter.payload.as_bytes();
        let hash = &letter.content_hash;
        if !hash.verifies(&letter.op_id, &letter.keys.event_type, stored) {
            let message = "the dead letter does not match its content hash";
            return Err(Error::new(ErrorKind::Corrupt, message).with("op_id", letter.op_id));
        }
    }
    Ok(())
}

/// Where a list of letters continues: after this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The time of the failure in milliseconds, or the seq, as the list is ordered.
    pub key: i64,
    /// The operation.
    pub op_id: OpId,
}

impl Place {
    /// Of a letter in a list.
    pub fn of(letter: &LetterView, order: LetterOrder) -> Self {
        let key = match order {
            LetterOrder::NewestFirst | LetterOrder::OldestFirst => letter.failed_at.as_millis(),
            LetterOrder::Accepted => i64::try_from(letter.seq).unwrap_or(i64::MAX),
        };
        let op_id = letter.op_id;
        Self { key, op_id }
    }

    /// The cursor of a page that ends here.
    pub fn cursor(self, order: LetterOrder) -> String {
        format!("{}{}-{}", sign(order), self.key, self.op_id)
    }

    /// The place that a cursor names.
    pub fn parse(cursor: &str, order: LetterOrder) -> Result<Self> {
        let parsed = cursor.strip_prefix(sign(order)).and_then(|place| {
            // The key may be negative: its sign is not the separator.
            let (at, _) = place.char_indices().skip(1).find(|(_, c)| *c == '-')?;
            Some(Self {
                key: place[..at].parse().ok()?,
                op_id: place[at + 1..].parse().ok()?,
            })
        });
        let message = "the cursor is not one of this list; start without one";
        parsed.ok_or_else(|| Error::new(ErrorKind::Invalid, message))
    }
}

/// What the cursors of an order begin with, so that each is read only as its own.
fn sign(order: LetterOrder) -> &'static str {
    match order {
        LetterOrder::NewestFirst => "",
        LetterOrder::OldestFirst => "o",
        LetterOrder::Accepted => "a",
    }
}

/// Refuses a list that no index serves.
pub fn check_order(filter: &LetterFilter, order: LetterOrder) -> Result<()> {
    if order == LetterOrder::Accepted && filter.state.is_none() {
        let message = "a list of dead letters in the order of acceptance needs a state";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

/// One page of a list of letters: which part of an index to read, and what is found there. A store
/// reads letters in order and says of each whether the filter selects it.
#[derive(Debug)]
pub struct Search {
    order: LetterOrder,
    /// Where the list begins: after this place.
    pub after: Place,
    /// The last key of the list.
    pub until: i64,
    filling: Filling<LetterView>,
    /// Letters to look at.
    left: usize,
    last: Option<Place>,
    is_cut: bool,
}

impl Search {
    /// The page of this list after the cursor.
    pub fn new(
        filter: &LetterFilter,
        order: LetterOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Self> {
        check_order(filter, order)?;
        let cursor = cursor.map(|cursor| Place::parse(cursor, order));
        let cursor = cursor.transpose()?;
        let (from, to) = (filter.from, filter.to);
        let (lowest, highest) = (OpId(Uuid::nil()), OpId(Uuid::max()));
        let (begin, until) = match order {
            LetterOrder::NewestFirst => {
                // Before the first id of this moment.
                let key = to.map_or(i64::MAX, Timestamp::as_millis);
                let op_id = to.map_or(highest, |_| lowest);
                (
                    Place { key, op_id },
                    from.map_or(i64::MIN, Timestamp::as_millis),
                )
            }
            LetterOrder::OldestFirst => {
                let key = from.map_or(i64::MIN, |from| from.as_millis().saturating_sub(1));
                let place = Place {
                    key,
                    op_id: highest,
                };
                (
                    place,
                    to.map_or(i64::MAX, |to| to.as_millis().saturating_sub(1)),
                )
            }
            LetterOrder::Accepted => {
                let (key, op_id) = (i64::MIN, lowest);
                let until = filter.seq_max.unwrap_or(u64::MAX);
                (
                    Place { key, op_id },
                    i64::try_from(until).unwrap_or(i64::MAX),
                )
            }
        };
        let after = match (cursor, order) {
            (None, _) => begin,
            (Some(cursor), LetterOrder::NewestFirst) => cursor.min(begin),
            (Some(cursor), LetterOrder::OldestFirst | LetterOrder::Accepted) => cursor.max(begin),
        };
        let filling = Filling::new(limit);
        Ok(Self {
            order,
            after,
            until,
            left: match filter.searches() {
                true => SEARCH_MAX,
                false => filling.rows(),
            },
            filling,
            last: None,
            is_cut: false,
        })
    }

    /// How many letters to read: one more than are looked at, to know whether there are more.
    pub fn rows(&self) -> usize {
        self.left + 1
    }

    /// Looks at the next letter; `None`: the filter does not select it. False: the page is complete.
    pub fn look(&mut self, place: Place, letter: Option<LetterView>) -> bool {
        if self.left == 0 {
            self.is_cut = true;
            return false;
        }
        self.left -= 1;
        self.last = Some(place);
        letter.is_none_or(|letter| self.filling.push(letter, 0))
    }

    /// The page.
    pub fn page(self) -> Page<LetterView> {
        let order = self.order;
        let rest = self.last.filter(|_| self.is_cut);
        let rest = rest.map(|place| place.cursor(order));
        let cursor = |letter: &LetterView| Place::of(letter, order).cursor(order);
        self.filling.page_of_search(cursor, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_in_its_own_order() {
        use LetterOrder::{Accepted, NewestFirst, OldestFirst};

        let op = "0190d3c0-7e4b-7000-8000-000000000001";
        let orders = [NewestFirst, OldestFirst, Accepted];
        for key in [0, 1_700_000_000_000, -5] {
            let op_id = op.parse().expect("an id");
            let place = Place { key, op_id };
            for (order, other) in orders
                .into_iter()
                .flat_map(|one| orders.map(|two| (one, two)))
            {
                let read = Place::parse(&place.cursor(order), other).ok();
                assert_eq!(
                    read,
                    (order == other).then_some(place),
                    "{order:?} {other:?}"
                );
            }
        }
        for strange in ["", "-", "5", "5-", "x-y", "é-1", op] {
            assert!(Place::parse(strange, NewestFirst).is_err(), "{strange}");
        }
    }
}
