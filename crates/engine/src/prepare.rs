//! Converts a command into a new operation, and a row into the envelope that an executor sees.

use clinch_core::ports::{NewOperation, Operation, is_traceparent};
use clinch_core::protocol::{Inherited, Phase, State};
use clinch_core::{
    Command, ContentHash, Domain, Envelope, Error, ErrorKind, EventType, Fingerprint, Payload,
    Result, Timestamp,
};

use crate::base::Base;

/// The envelope of a row, for an executor or a probe.
pub(crate) fn envelope_of(
    row: &Operation,
    payload: Payload,
    checkpoint: Option<Vec<u8>>,
) -> Envelope {
    Envelope {
        op_id: row.op_id,
        command: Command {
            keys: row.keys.clone(),
            payload,
            options: row.options.clone(),
        },
        seq: row.seq,
        attempt: row.state.attempts,
        fence: row.state.fence,
        // From the row, so that every attempt sends the same key.
        outbound_key: row.outbound_key.clone(),
        deadline: row.state.deadline,
        checkpoint,
        trace: row.trace.clone(),
    }
}

impl Base {
    /// The new operation of a command, ready to be accepted.
    pub(crate) fn prepare(&self, command: Command, trace: Option<String>) -> Result<NewOperation> {
        let Command {
            keys,
            payload,
            mut options,
        } = command;
        options.validate()?;
        let trace = options.trace.take().or(trace);
        let trace = trace.filter(|trace| is_traceparent(trace));
        let handler = self.handlers.find(&keys.domain, &keys.event_type);
        let handler = handler.ok_or_else(|| unknown_route(&keys.domain, &keys.event_type))?;
        let op_id = self.ports.ids.op_id();
        let stored = self.ports.sealer.seal(op_id, payload.as_bytes())?;
        let mut fingerprints = vec![Fingerprint::plain(&payload)];
        if let Some(key) = self.ports.sealer.fingerprint_key() {
            fingerprints.insert(0, Fingerprint::keyed(key, &payload));
        }
        Ok(NewOperation {
            op_id,
            fingerprints,
            content_hash: ContentHash::of(&op_id, &keys.event_type, stored.as_bytes()),
            outbound_key: handler.idempotency.outbound_key(&keys),
            payload: stored,
            keys,
            options,
            batch_id: None,
            redrive_of: None,
            inherited: Inherited::default(),
            by: None,
            trace,
            begin: None,
        })
    }

    /// The envelope of a row, for an executor or a probe.
    pub(crate) fn envelope(&self, row: &Operation) -> Result<Envelope> {
        let sealer = &self.ports.sealer;
        let checkpoint = row.checkpoint.as_ref();
        let checkpoint = checkpoint.map(|sealed| sealer.open(row.op_id, sealed));
        let payload = sealer.open_payload(row.op_id, &row.payload)?;
        Ok(envelope_of(row, payload, checkpoint.transpose()?))
    }

    /// The row of an operation that was just accepted.
    pub(crate) fn row_of_new(
        &self,
        new: &NewOperation,
        seq: u64,
        state: State,
        accepted_at: Timestamp,
    ) -> Operation {
        let rules = self.routes.rules(&new.keys.domain, &new.keys.event_type);
        let begun = state.phase == Some(Phase::Live);
        Operation {
            op_id: new.op_id,
            keys: new.keys.clone(),
            payload: new.payload.clone(),
            content_hash: new.content_hash,
            outbound_key: new.outbound_key.clone(),
            options: new.options.clone(),
            seq,
            lane: new.lane(rules),
            state,
            dispatch_no: 0,
            result: None,
            checkpoint: None,
            batch_id: new.batch_id,
            redrive_of: new.redrive_of,
            redriven_by: None,
            trace: new.trace.clone(),
            accepted_at,
            started_at: begun.then_some(accepted_at),
            finished_at: None,
        }
    }
}

pub(crate) fn unknown_route(domain: &Domain, event_type: &EventType) -> Error {
    let message = format!(
        "no route is declared for the domain \"{domain}\" and the event type \"{event_type}\""
    );
    Error::new(ErrorKind::Invalid, message)
        .with("code", "unknown_route")
        .with("domain", domain)
        .with("event_type", event_type)
}
