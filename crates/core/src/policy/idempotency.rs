//! Which key the provider sees, and what its "already done" means.

use crate::{Keys, OutboundKey};

/// The idempotency policy of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Idempotency {
    /// Send the caller's idem_key as it is. By default a key derived from all four keys is sent, so
    /// that two business objects with the same idem_key never share a key.
    pub raw_idem_key: bool,
    /// A provider's "duplicate" answer means that an earlier call of this operation succeeded.
    pub accept_duplicate: bool,
}

impl Idempotency {
    /// The key to send: the same for every attempt, hedge and redrive.
    pub fn outbound_key(self, keys: &Keys) -> OutboundKey {
        if self.raw_idem_key {
            OutboundKey::raw(&keys.idem_key)
        } else {
            keys.outbound_key()
        }
    }
}
