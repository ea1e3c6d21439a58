//! Every port of a store, and the queue, on PostgreSQL.
#![forbid(unsafe_code)]
