//! What surrounds a call.
#![forbid(unsafe_code)]
