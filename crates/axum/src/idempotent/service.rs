//! The wrapped service.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use clinch::Clinch;
use tower_service::Service;

use super::Idempotent;
use super::exchange::{StoredRequest, StoredResponse};
use super::inner::answer;
use crate::answer::Form;
use crate::headers::preferred;
use crate::{IdempotencyKey, Problem};

/// The service that an [`IdempotentLayer`](crate::IdempotentLayer) makes of another.
#[derive(Clone)]
pub struct IdempotentService<S> {
    service: S,
    clinch: Clinch,
    idempotent: Idempotent,
    form: Form,
}

impl<S> IdempotentService<S> {
    pub(super) fn new(service: S, clinch: Clinch, idempotent: Idempotent, form: Form) -> Self {
        Self {
            service,
            clinch,
            idempotent,
            form,
        }
    }

    fn passes(&self, request: &Request<Body>) -> bool {
        let has_key = request.headers().contains_key(IdempotencyKey::HEADER);
        match *request.method() {
            Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::CONNECT => true,
            Method::POST | Method::PATCH => !has_key && self.idempotent.settings.is_optional,
            _ => !has_key,
        }
    }

    /// The answer to a request with a key.
    async fn start(&self, request: Request<Body>) -> Result<Response, Problem> {
        let settings = &self.idempotent.settings;
        let key = IdempotencyKey::of(request.headers())?;
        let (parts, body) = request.into_parts();
        let whose = (settings.whose)(&parts)?;
        let names = &settings.request_headers;
        let stored = StoredRequest::read(&parts, body, names, settings.body_max).await?;
        let route = &self.idempotent.route;
        let mut request = route.request(whose, key.as_str(), &stored);
        let trace = parts.headers.get("traceparent");
        if let Some(trace) = trace.and_then(|trace| trace.to_str().ok()) {
            request = request.trace(trace);
        }
        let wait = preferred(&parts.headers).unwrap_or(settings.budget);
        let result = self
            .clinch
            .start(request, wait.min(settings.wait_max))
            .await;
        Ok(self.form.shown(result, StoredResponse::rebuilt))
    }
}

impl<S> Service<Request<Body>> for IdempotentService<S>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    /// Always ready: each call waits for a clone of the service.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            if this.passes(&request) {
                return Ok(answer(this.service, request).await);
            }
            let answered = this.start(request).await;
            Ok(answered.unwrap_or_else(IntoResponse::into_response))
        })
    }
}
