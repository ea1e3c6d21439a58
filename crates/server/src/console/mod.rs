//! The web console: pages for operators, rendered by the server.
//!
//! Every page is plain HTML that works without JavaScript; a small script keeps it up to date. Pages
//! read what the API reads, and forms call the handlers of the API ([`call`]), with the caller that
//! the visitor's key makes ([`gate`]). Nothing is loaded from another host.

mod assets;
mod bulk;
mod call;
mod chart;
mod dead_letters;
mod destinations;
mod domains;
mod form;
mod gate;
mod jobs;
mod keys;
mod live;
mod operation;
mod operation_forms;
mod operations;
mod overview;
mod page;
mod panels;
mod reads;
mod session;
mod sign_in;
mod timeline;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use clinch::Result;
use clinch_core::ports::{Clock, Records};

use self::jobs::Jobs;
use self::session::Sessions;
use crate::api::Shared;
use crate::application::Application;
use crate::panel::Panel;

/// What the console keeps between two requests.
pub(crate) struct Console {
    /// People who signed in.
    sessions: Sessions,
    /// Work on many operations that people began.
    jobs: Jobs,
    /// Pages of applications, by domain.
    pages: Vec<(&'static str, Arc<dyn Panel>)>,
}

impl Console {
    /// Without `records` sessions end with the process.
    pub(crate) fn new(
        records: Option<Arc<dyn Records>>,
        clock: &Arc<dyn Clock>,
        applications: &[Application],
    ) -> Result<Self> {
        let pages = applications.iter();
        let pages = pages.filter_map(|one| Some((one.domain, one.panel.clone()?)));
        Ok(Self {
            sessions: Sessions::new(records, clock.clone())?,
            jobs: Jobs::default(),
            pages: pages.collect(),
        })
    }
}

/// The longest form: a filter and a reason.
const FORM_BYTES_MAX: usize = 64 * 1024;

/// The pages and their forms.
pub(crate) fn router(app: Shared) -> Router {
    let pages = Router::new()
        .route("/", get(overview::show))
        .route("/operations", get(operations::list))
        .route("/operations/{op_id}", get(operation::get))
        .route("/operations/{op_id}/cancel", post(operation_forms::cancel))
        .route(
            "/operations/{op_id}/resolve",
            post(operation_forms::resolve),
        )
        .route(
            "/operations/{op_id}/retry-now",
            post(operation_forms::retry_now),
        )
        .route(
            "/operations/{op_id}/redrive",
            post(operation_forms::redrive),
        )
        .route(
            "/operations/{op_id}/dismiss",
            post(operation_forms::dismiss),
        )
        .route("/operations/{op_id}/reveal", post(operation_forms::reveal))
        .route("/dead-letters", get(dead_letters::list))
        .route("/bulk", get(bulk::plan).post(bulk::begin))
        .route("/jobs/{id}", get(bulk::progress))
        .route("/jobs/{id}/stop", post(bulk::stop))
        .route("/destinations", get(destinations::list))
        .route("/destinations/{name}/reset", post(destinations::reset))
        .route("/destinations/{name}/open", post(destinations::open))
        .route("/domains", get(domains::list))
        .route("/domains/{domain}/pause", post(domains::pause))
        .route("/domains/{domain}/resume", post(domains::resume))
        .route("/keys", get(keys::list))
        .route("/apps/{domain}", get(panels::first).post(panels::act))
        .route("/apps/{domain}/{*path}", get(panels::get))
        .route("/find", get(operations::find))
        .route("/live", get(live::events))
        .route("/sign-out", post(sign_in::sign_out))
        .layer(from_fn_with_state(app.clone(), gate::check));
    let open = Router::new()
        .route("/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/assets/{file}", get(assets::get));
    pages
        .merge(open)
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(from_fn(gate::with_headers))
        .with_state(app)
}

/// Characters that stand for themselves in a query.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// A path with a query.
pub(crate) fn link(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut text = path.to_owned();
    for (i, (name, value)) in pairs.iter().enumerate() {
        text.push(if i == 0 { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        text.extend(utf8_percent_encode(value, PLAIN));
    }
    text
}
