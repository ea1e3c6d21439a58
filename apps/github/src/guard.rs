//! What a job must be before anything is sent for it, and where its answers may lead.
//!
//! A job is an operation, and whoever can hand in operations can write one. So nothing in it
//! is taken on trust: its address is compared with `api_url` each time that it runs.

use clinch::types::Request;
use clinch::{Call, Fail, Refusal};

use crate::collector::Inner;
use crate::execute::{Kept, request};
use crate::model::{JobKind, PageDone, PageJob};
use crate::reading::{Next, PAGES_MAX, Reading};

impl Inner {
    /// The address of a job's page. A job that the collector cannot have made fails before
    /// anything is sent, and someone is told.
    pub(crate) async fn address(
        &self,
        kind: JobKind,
        call: &Call<PageJob>,
        kept: Option<&Kept>,
    ) -> Result<String, Refusal> {
        let checked = self.checked(kind, &call.input, kept);
        if let Err(fail) = &checked {
            let message = format!(
                "a job of the collector was refused before anything was sent ({}): unless \
                 github.api_url was changed during its run, somebody else made it; look at who may \
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

    fn checked(&self, kind: JobKind, job: &PageJob, kept: Option<&Kept>) -> Result<String, Fail> {
        if job.kind != kind {
            let message = "the job is of another kind than its operation";
            return Err(Fail::new("invalid_job", message));
        }
        let api = &self.settings.api_url;
        let elsewhere = |_| Fail::new("address_refused", "its address leads away from the API");
        // Checked whether or not it is used: it names the resource of the documents.
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

    /// The job that goes on after a page; `None`: it was the last. A page that cannot be read
    /// is a failed job: a list that is silently short looks like a whole one.
    pub(crate) fn following(
        &self,
        reading: &Reading<'_>,
        next: &Next,
    ) -> Result<Option<Request<PageDone>>, Refusal> {
        let job = match next {
            Next::End => return Ok(None),
            Next::Page(_) if reading.job.page >= PAGES_MAX => {
                let message = "the resource has more pages than the collector reads";
                return Err(Fail::new("too_many_pages", message).into());
            }
            Next::Page(url) => {
                let url = self.settings.api_url.own(url).map_err(|_| {
                    let message = "the API names a next page that is not at github.api_url, and \
                                   no token is sent there; set api_url as the API spells it";
                    Fail::new("link_refused", message)
                })?;
                reading.following(url)
            }
            Next::Since(since) => PageJob {
                since: Some(since.clone()),
                seen: reading.seen.clone(),
                ..PageJob::first(
                    &reading.job.run_id,
                    reading.job.kind,
                    reading.job.repository.clone(),
                )
            },
        };
        Ok(Some(request(&job)))
    }
}
