//! The model check of the protocol: every reachable state, up to the bounds below, of one
//! operation among failing workers and providers (model A), and of three operations in one
//! lane (model B). The table itself is not modelled: every change of a row is made by the
//! real `State::apply`, every change of a lane by the real `Lane`.
//!
//! # Model A: one operation
//!
//! - **Hints** are lost and doubled: anybody may try to begin at any time. So may the
//!   Reaper, the sweeper and the Finalizer look at the row whenever they like; a write-ahead
//!   and its finalize are two steps, with anything in between.
//! - **Workers**: two attempts can act at once, the current one and one that was given up.
//!   A worker sends at once, or late (a pause has no end), finds that it sent nothing, stops
//!   waiting while its request is on the wire, or dies, before or after sending. What it has
//!   to say is said at any later time, twice (`talkative`), from a spill file, or never.
//! - **Providers** apply, refuse for good, or turn away, and their answer may be lost. Keyed
//!   ones remember the key for its ttl from the call that made them know it; with
//!   `remembers_refusals` they remember a no as well. They show an effect to a probe at the
//!   latest after `not_found_final_after`, and at any time or never if the route declares
//!   nothing. They do not lie.
//! - **Probes** are asked whenever the row is held and answered later; the answer is what
//!   was true when it was asked.
//! - **People** cancel, and settle what is held. They do not lie but need not know: "it was
//!   not applied" is said only when a probe could know it, "give up" without a word on the
//!   effect at any time. "Call again" is what it says.
//! - **Time** has no horizon (see `clock`): leases, backoffs, deadlines and keys end whenever
//!   the world likes to let them.
//!
//! # What is excused
//!
//! Two races that no protocol can win are marked when they happen, and excused from "at
//! most one effect" and "FAILED with effect none: nothing was applied" only:
//!
//! - a call takes effect after the row's `call_deadline` for it, the row having given it up,
//!   and a final "not found" or a person has declared that it had none;
//! - a keyed call takes effect after its own lease and after `first_call_at + key_ttl`.
//!
//! And a person who has a call repeated accepts a second effect. `named_races_are_real`
//! shows that the excuses are needed.
//!
//! # Bounds
//!
//! Two or three attempts as the route says, and on top of that at most one refund, one
//! repeat by a person, one cancel and one extended lease, in the combinations that `safety`
//! lists. Everything is one tick long but the key's memory (four) and the deadline (three).
//!
//! # What is checked
//!
//! - `safety`: with all guards on no property of `properties` breaks, in stateright.
//! - `liveness`: from every state some path ends the operation; and a path of machinery
//!   alone, all workers dead and all providers mute, ends it or brings it to a person. The
//!   graph has cycles, which stateright's `eventually` cannot judge: see `explore`.
//! - `mutations`: without any one of the guards a property breaks.
//!
//! # What is not modelled
//!
//! Several copies of one attempt (hedges), restores from backup, redrives in model A (model
//! B has followers that inherit a doubt), pause, damaged payloads, batches, changes of rules
//! while an operation is open, clocks that differ (the margin is zero), and stores that lose
//! a commit: one `apply` is one commit.

mod clock;
mod explore;
mod guards;
mod history;
mod lane;
mod liveness;
mod mutations;
mod operation;
mod properties;
mod provider;
mod routes;
mod safety;
mod steps;
mod world;
