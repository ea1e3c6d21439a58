//! The wrapped service without its type.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use tower_service::Service;

type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Calls a clone of the service for each request.
pub(crate) struct Inner(Box<dyn Fn(Request<Body>) -> Answering + Send + Sync>);

impl Inner {
    pub(crate) fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        Self(Box::new(move |request| {
            Box::pin(answer(service.clone(), request))
        }))
    }

    pub(crate) async fn call(&self, request: Request<Body>) -> Response {
        (self.0)(request).await
    }
}

/// One call of a service that is made ready first.
pub(crate) async fn answer<S>(mut service: S, request: Request<Body>) -> Response
where
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
{
    let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
    let Ok(response) = service.call(request).await;
    response
}
