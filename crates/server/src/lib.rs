//! The HTTP API, its keys and its configuration around one Clinch process.
//!
//! - [`Config`] is `clinch.toml`: file, then environment, then flags.
//! - [`Server::bind`] assembles a [`clinch::Clinch`] from it and listens; [`Server::run`] answers
//!   until shutdown, and loses nothing then.
//! - [`Application`] and [`config::Section`] are what an application adds to both.
//! - [`Executors`] makes the executors of every `[[route]]` with a `url`.
//! - [`auth`] creates and checks API keys.
//!
//! The API is described in `docs/guide/http-api.md`, and as OpenAPI at `/openapi.json`.
#![forbid(unsafe_code)]

mod alerts;
mod api;
mod application;
pub mod auth;
mod background;
pub mod config;
mod connections;
mod console;
mod descriptors;
mod disk;
mod gauges;
mod history;
mod housekeeping;
mod identity;
mod letter_alerts;
mod limits;
mod log_lines;
mod nodes;
mod otlp;
mod outbound;
mod panel;
mod routes;
mod serve;
pub mod telemetry;
mod tls;

pub use alerts::test_alert;
pub use api::openapi;
pub use application::Application;
pub use clinch_engine::Role;
pub use config::Config;
pub use gauges::Gauges;
pub use outbound::{Outbound, Outlets};
pub use panel::{Panel, PanelAction, PanelCell, PanelMark, PanelPage, PanelSection};
pub use routes::{Built, Executors, Facts, declare_remote};
pub use serve::{Look, Parts, Server, check_address, roles};
