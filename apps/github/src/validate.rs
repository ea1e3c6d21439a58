//! Validates a job before a request is sent for it.
//!
//! A job is an operation, and anyone who may submit operations can forge one. So no field of a job
//! is trusted: its address is compared with `api_url` every time the job runs.

use clinch::{Call, Fail, Refusal};

use crate::collector::Inner;
use crate::execute::SavedAnswer;
use crate::model::PageJob;
use crate::streams::JobKind;

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
        let first = api.first_page(job, self.settings.page_size);
        let first = first.map_err(|unknown| Fail::new("invalid_job", unknown.to_string()))?;
        if let Some(kept) = kept {
            api.own(&kept.url).map_err(elsewhere)?;
        }
        let Some(url) = &job.url else {
            return Ok(first);
        };
        let url = api.own(url).map_err(elsewhere)?;
        // Such a list belongs to the token's account, which need not be the user's.
        if api.is_personal(&url) && kind != JobKind::USER_REPOS {
            let message = "the job's address shows what the token's own account sees";
            return Err(Fail::new("address_refused", message));
        }
        Ok(url)
    }
}
