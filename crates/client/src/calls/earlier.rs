//! Calls that another process has begun, found by their jobs.

use pliant_calls::{Value, decode};
use pliant_control::names::Handle;
use pliant_wire::{CALL_ARGUMENTS, SubmittedWork};

use super::{CallError, StartedCall, TypedService, large};
use crate::{Client, ClientError};

/// A call that was begun before, with what its server keeps of it.
#[derive(Clone, PartialEq, Debug)]
pub struct EarlierCall {
    /// Its service, with the signature that its server declares now.
    pub service: TypedService,
    /// The call, which can be probed and waited for. Its files are not fetched.
    pub call: StartedCall,
    /// Its arguments, one for each parameter; none if they are in a file of the job, or in data of the server.
    pub arguments: Option<Vec<Option<Value>>>,
    /// Whether its user chose the server.
    pub pinned: bool,
}

impl Client {
    /// The call that is this job, whichever process began it.
    ///
    /// # Errors
    ///
    /// The job is no call, its server does not keep what was submitted, or the service is not offered any more.
    pub async fn call_of_job(&self, job: &Handle) -> Result<EarlierCall, CallError> {
        let record = self.job(job).await?;
        let submitted = self.submitted(job).await?;
        let SubmittedWork::Call(call) = submitted.what else {
            let problem = format!("job {job}: expected a call of a typed service, found another job");
            return Err(ClientError::usage(problem).into());
        };
        let service = self.typed_service(&call.service, Some(record.server())).await?;
        let parameters = service.signature.parameters().len();
        let is_elsewhere = !call.stored.is_empty()
            || submitted.inputs.iter().any(|file| file.name.as_str() == CALL_ARGUMENTS);
        let encoded = call.values.as_bytes();
        let arguments = match is_elsewhere || encoded.is_empty() {
            true => None,
            false => {
                let values = large::blocking(encoded.len(), || decode(encoded));
                // Another number of them: the service has got another signature.
                Some(values.map_err(ClientError::protocol)?).filter(|values| values.len() == parameters)
            }
        };
        let call = StartedCall::of_job(record.handle.clone(), service.signature.clone());
        Ok(EarlierCall { service, call, arguments, pinned: submitted.pinned })
    }
}
