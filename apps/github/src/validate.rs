//! Validates a job before a request is sent for it, and the addresses in its answers.
//!
//! A job is an operation, and anyone who may submit operations can forge one. So no field of a job
//! is trusted: its address is compared with `api_url` every time the job runs.

use clinch::types::Request;
use clinch::{Call, Fail, Refusal};

use crate::collector::Inner;
use crate::execute::{SavedAnswer, request};
use crate::model::{JobKind, PageDone, PageJob};
use crate::traversal::{Next, PAGES_MAX, Traversal};

impl Inner {
    /// The address of a job's page. A job that the collector cannot have created fails before a
    /// request is sent, and raises an alert.
    pub(crate) async fn address(
        &self,
        kind: JobKind,
        call: &Call<PageJob>,
        kept: Option<&SavedAnswer>,
    ) -> Result<String, Refusal> {
        let checked = self.checked(kind, &call.input, kept);
        if let Err(fail) = &checked {
            let message = format!(
                "a job of the collector was refused before a request was sent ({}): unless \
                 github.api_url was changed during its run, it was forged; check who may \
                 submit to the domain github",
                fail.message
            );
            if let Ok(clinch) = self.clinch() {
                let op_id = Some(call.op_id());
                clinch.alert("github_job_refused", &message, op_id).await;
            }
        }
        Ok(checked?)
    }

    fn checked(
        &self,
        kind: JobKind,
        job: &PageJob,
        kept: Option<&SavedAnswer>,
    ) -> Result<String, Fail> {
        if job.kind != kind {
            let message = "the job is of another kind than its operation";
            return Err(Fail::new("invalid_job", message));
        }
        let api = &self.settings.api_url;
        let elsewhere = |_| Fail::new("address_refused", "the job's address is not one of the API");
        // Validated even if it is not used: it names the resource of the documents.
        let since = job.since.as_deref();
        let first = api.first_page(job, since, self.settings.page_size);
        let first = first.map_err(|unknown| Fail::new("invalid_job", unknown.to_string()))?;
        if let Some(kept) = kept {
            api.own(&kept.url).map_err(elsewhere)?;
        }
        match &job.url {
            Some(url) => api.own(url).map_err(elsewhere),
            None => Ok(first),
        }
    }

    /// The job for the next page; `None`: this page was the last. If there is a next page that
    /// cannot be read, the job fails: an incomplete list would look complete.
    pub(crate) fn following(
        &self,
        traversal: &Traversal<'_>,
        next: &Next,
    ) -> Result<Option<Request<PageDone>>, Refusal> {
        let job = match next {
            Next::End => return Ok(None),
            Next::Page(_) if traversal.job.page >= PAGES_MAX => {
                let message = "the resource has more pages than the collector reads";
                return Err(Fail::new("too_many_pages", message).into());
            }
            Next::Page(url) => {
                let url = self.settings.api_url.own(url).map_err(|_| {
                    let message = "the next page that the API names is not at github.api_url, and \
                                   no token is sent there; set api_url as the API writes it";
                    Fail::new("link_refused", message)
                })?;
                traversal.following(url)
            }
            Next::Since(since) => PageJob {
                since: Some(since.clone()),
                seen: traversal.seen.clone(),
                ..PageJob::first(
                    &traversal.job.run_id,
                    traversal.job.kind,
                    traversal.job.repository.clone(),
                )
            },
        };
        Ok(Some(request(&job)))
    }
}
