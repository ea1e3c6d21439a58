//! Taking operations in.

use clinch_core::policy::{Order, Routes};
use clinch_core::ports::{Accepted, Known, NewOperation, Operation};
use clinch_core::protocol::State;
use clinch_core::{LaneKey, OpId, Status};

use crate::{Key, QueueRow, Row, Tx};

/// Who may join a sealed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Nobody: it came from outside.
    Outside,
    /// It was spawned by a member, or is a completion event.
    Spawned,
}

impl Tx<'_> {
    pub(crate) fn accept(&mut self, new: &NewOperation, entry: Entry, routes: &Routes) -> Accepted {
        if let Some(key) = self.tables.keys.get(&new.keys.hash()) {
            let known = self.known(key);
            return if new.fingerprints.contains(&key.fingerprint) {
                Accepted::Known(known)
            } else {
                Accepted::Mismatch(known)
            };
        }
        let predecessor = new.redrive_of.and_then(|op| self.tables.rows.get(&op));
        if predecessor.is_some_and(|row| row.operation.state.late_ok) {
            return Accepted::PredecessorApplied;
        }
        if !self.join_batch(new, entry) {
            return Accepted::BatchClosed;
        }
        let operation = self.insert(new, routes);
        if let Some(begin) = &new.begin {
            let begin = clinch_core::ports::BeginRequest {
                op_id: operation.op_id,
                ..begin.clone()
            };
            self.begin_if_called(&begin, routes);
        }
        let row = self.tables.rows.get(&operation.op_id);
        let state = row.map_or(operation.state, |row| row.operation.state.clone());
        Accepted::New {
            seq: operation.seq,
            state: Box::new(state),
        }
    }

    /// What is known by the four keys, also after the row is gone.
    pub(crate) fn known(&self, key: &Key) -> Known {
        known(self.tables, key)
    }

    fn join_batch(&mut self, new: &NewOperation, entry: Entry) -> bool {
        let Some(batch_id) = new.batch_id else {
            return true;
        };
        let Some(mut row) = self.tables.batches.get(&batch_id).cloned() else {
            return false;
        };
        if row.batch.sealed && entry == Entry::Outside {
            return false;
        }
        row.batch.total += 1;
        self.tables.batches.insert(batch_id, row);
        true
    }

    fn insert(&mut self, new: &NewOperation, routes: &Routes) -> Operation {
        let rules = routes.rules(&new.keys.domain, &new.keys.event_type);
        let seq = self.tables.next_seq();
        let lane = match rules.order {
            Order::Key => Some(LaneKey::of(&new.keys.domain, &new.keys.biz_key)),
            Order::None => None,
        };
        if let Some(lane) = lane {
            let mut row = self.tables.lanes.get(&lane).cloned().unwrap_or_default();
            row.lane.join(seq);
            row.members.insert(seq, new.op_id);
            self.tables.lanes.insert(lane, row);
        }
        let deadline = new.deadline(self.now, rules);
        let operation = Operation {
            op_id: new.op_id,
            keys: new.keys.clone(),
            payload: new.payload.clone(),
            content_hash: new.content_hash,
            outbound_key: new.outbound_key.clone(),
            options: new.options.clone(),
            seq,
            lane,
            state: State::accepted(new.run_at(self.now), deadline, new.inherited),
            dispatch_no: 0,
            result: None,
            checkpoint: None,
            batch_id: new.batch_id,
            redrive_of: new.redrive_of,
            redriven_by: None,
            trace: new.trace.clone(),
            accepted_at: self.now,
            started_at: None,
            finished_at: None,
        };
        self.mark_redriven(new);
        let key = Key {
            op_id: new.op_id,
            fingerprint: new.fingerprints[0],
            settled: None,
        };
        self.tables.keys.insert(new.keys.hash(), key);
        self.note(&operation, "Accept", None, None, "");
        self.put(Row {
            operation: operation.clone(),
            spawn: Vec::new(),
            queue: Some(QueueRow {
                since: self.now,
                ..QueueRow::default()
            }),
        });
        operation
    }

    fn mark_redriven(&mut self, new: &NewOperation) {
        let predecessor = new.redrive_of.and_then(|op| self.tables.rows.get(&op));
        if let Some(mut row) = predecessor.cloned() {
            row.operation.redriven_by = Some(new.op_id);
            self.tables.put(row);
        }
    }
}

/// What is known by the four keys, also after the row is gone.
pub(crate) fn known(tables: &crate::Tables, key: &Key) -> Known {
    let row = tables.rows.get(&key.op_id);
    let final_status = key.settled.map(|(status, _)| status);
    Known {
        op_id: key.op_id,
        status: row
            .map(|row| row.operation.state.status)
            .or(final_status)
            .unwrap_or(Status::Pending),
        pruned: row.is_none(),
    }
}

/// Two requests for one id: the caller's mistake, not a conflict of keys.
pub(crate) fn id_is_taken(tables: &crate::Tables, op_id: OpId) -> bool {
    tables.rows.contains(&op_id)
}
