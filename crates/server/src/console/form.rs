//! Forms that a visitor sent.

use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest, Request};
use axum::http::StatusCode;

use super::gate::{Visitor, is_own_form};
use crate::api::Problem;
use crate::auth;

/// The field that every form has.
pub(super) const CSRF: &str = "csrf";

/// A form that came from one of the visitor's own pages.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) visitor: Visitor,
    fields: Vec<(String, String)>,
}

impl Sent {
    /// The first value of a field, without spaces around it; `None` if it is empty or missing.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field == name);
        let text = found.map(|(_, value)| value.trim());
        text.filter(|text| !text.is_empty())
    }

    /// A field that must be filled in.
    pub(crate) fn required(&self, name: &'static str, what: &str) -> Result<&str, Problem> {
        let missing = || Problem::request(format!("{what} is missing: fill it in and try again"));
        self.text(name).ok_or_else(|| missing().field(name))
    }

    /// Fields of a filter: all but the form's own.
    pub(crate) fn others(&self, own: &[&str]) -> Vec<(String, String)> {
        let fields = self.fields.iter();
        let others = fields.filter(|(name, _)| name != CSRF && !own.contains(&name.as_str()));
        others.cloned().collect()
    }
}

impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let visitor = request.extensions().get::<Visitor>().cloned();
        let visitor = visitor.ok_or_else(Problem::internal)?;
        if !is_own_form(request.headers()) {
            return Err(Problem::forbidden(
                "this form did not come from a page of this server",
            ));
        }
        let read: Result<Form<Vec<(String, String)>>, FormRejection> =
            Form::from_request(request, state).await;
        let Form(fields) = read.map_err(|rejection| match rejection.into_response_status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large("the form is too long"),
            _ => Problem::request("the form cannot be read"),
        })?;
        let sent = Self { visitor, fields };
        let csrf = sent.text(CSRF).unwrap_or_default();
        match auth::same(csrf.as_bytes(), sent.visitor.csrf.as_bytes()) {
            true => Ok(sent),
            false => Err(Problem::forbidden(
                "this form is too old; load the page again and repeat what you did",
            )),
        }
    }
}

/// The status that axum would answer with.
trait RejectionStatus {
    fn into_response_status(self) -> StatusCode;
}

impl RejectionStatus for FormRejection {
    fn into_response_status(self) -> StatusCode {
        axum::response::IntoResponse::into_response(self).status()
    }
}
