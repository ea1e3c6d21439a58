//! The HTTP API, its keys and its configuration around one Clinch process.
//!
//! - [`Config`] is `clinch.toml`: file, then environment, then flags.
//! - [`Server::bind`] puts a [`clinch::Clinch`] together from it and listens; [`Server::run`]
//!   answers until it is told to stop, and loses nothing then.
//! - [`Executors`] is the seam to whoever makes the calls of a `[[route]]` with a `url`.
//! - [`Limits`] is the seam to rates and pauses that several nodes share.
//! - [`auth`] makes and judges API keys.
//!
//! What is answered is in `docs/guide/http-api.md`, and as OpenAPI at `/openapi.json`.
#![forbid(unsafe_code)]

mod alerts;
mod api;
pub mod auth;
mod chores;
pub mod config;
mod connections;
mod descriptors;
mod gauges;
mod housekeeping;
mod identity;
mod limits;
mod otlp;
mod outbound;
mod routes;
mod serve;
pub mod telemetry;
mod tls;

pub use api::openapi;
pub use clinch::engine::Role;
pub use config::Config;
pub use gauges::Gauges;
pub use identity::StoreIdentity;
pub use limits::Limits;
pub use outbound::{Outbound, Outlets};
pub use routes::{Built, Executors, Facts, declare_remote};
pub use serve::{Look, Parts, Server, roles};
