//! A call as the job that is submitted for it.

use std::collections::BTreeMap;

use pliant_calls::{Parameter, ParameterType, Signature, Value, encode};
use pliant_control::names::Key;
use pliant_wire::bounds::CALL_BYTES_MAX;
use pliant_wire::{CALL_ARGUMENTS, SubmittedWork, TypedCall};
use tempfile::TempDir;

use super::{CallError, CallOrder, files, large, stored};
use crate::SubmitOrder;

/// The submission of a call whose values are checked. Arguments of more than 256 KiB are in a local file, which exists as long as this does.
#[derive(Debug)]
pub struct CallSubmission {
    /// What is submitted: [`Client::submit`](crate::Client::submit) takes it, and [`Client::estimates`](crate::Client::estimates).
    pub order: SubmitOrder,
    arguments: Option<TempDir>,
}

impl CallSubmission {
    /// What is submitted, and the folder of the local file, if there is one: it has to exist until the submission is over.
    pub fn into_parts(self) -> (SubmitOrder, Option<TempDir>) {
        (self.order, self.arguments)
    }
}

impl CallOrder {
    /// The submission of the call, with this key.
    ///
    /// # Errors
    ///
    /// The values are not what the signature says, or a file cannot be read.
    pub async fn submission(&self, key: Key) -> Result<CallSubmission, CallError> {
        let CallOrder { service, files, timeout, .. } = self;
        let signature = &service.signature;
        let only = stored::server_of(self)?;
        let values = with_file_names(self);
        let is_stored = |parameter: &Parameter| {
            signature.position(&parameter.name).is_some_and(|at| self.stored.contains_key(&at))
        };
        signature.check_arguments_but(&values, is_stored)?;
        let arguments = numbers(signature, &values);
        let encoded = large::blocking(large::bytes_of(&values), || encode(&values))?;
        let mut inputs = files::staged(signature, files).await?;
        let (stored, kept) = (stored::arguments(self)?, stored::kept(self)?);
        let mut call =
            TypedCall { service: service.name.clone(), arguments, values: Default::default(), stored, kept };
        let mut in_file = None;
        if encoded.len() <= CALL_BYTES_MAX {
            call.values = encoded.into();
        } else {
            let (file, input) = files::arguments_file(CALL_ARGUMENTS, encoded).await?;
            inputs.push(input);
            in_file = Some(file);
        }
        let what = SubmittedWork::Call(call);
        let order = SubmitOrder { inputs, only, timeout: *timeout, ..SubmitOrder::new(key, what) };
        Ok(CallSubmission { order, arguments: in_file })
    }
}

/// The values with the names that files have in the work folder of the job: those of their parameters.
fn with_file_names(order: &CallOrder) -> Vec<Option<Value>> {
    let mut values = order.values.clone();
    for (at, parameter) in order.service.signature.parameters().iter().enumerate() {
        if parameter.kind == ParameterType::File
            && parameter.direction.is_input()
            && order.files.contains_key(&at)
            && let Some(value) = values.get_mut(at)
        {
            *value = Some(Value::File(parameter.name.clone()));
        }
    }
    values
}

/// The numbers among the arguments by which servers plan the job.
fn numbers(signature: &Signature, values: &[Option<Value>]) -> BTreeMap<String, String> {
    let named = signature.parameters().iter().zip(values);
    named
        .filter_map(|(parameter, value)| Some((parameter.name.clone(), value.as_ref()?.finite_number()?)))
        .collect()
}
