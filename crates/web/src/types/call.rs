//! Calls of typed services.

use pliant_calls::{Parameter, Value};
use pliant_client::calls::{CallEnd, EarlierCall};
use serde::Serialize;
use utoipa::ToSchema;

/// The most bytes of a value that are shown. All of it is a download.
const SHOWN_BYTES: usize = 4_000;

/// A call of a typed service.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct CallView {
    /// The name of the service.
    service: String,
    /// Its signature.
    signature: String,
    /// `completed`, `failed` or `cancelled`; none if it has not ended.
    outcome: Option<&'static str>,
    /// Why it failed.
    why: Option<String>,
    /// Its parameters with their values, in the order of the signature.
    values: Vec<CallValueView>,
}

/// A parameter of a call.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct CallValueView {
    /// Its name.
    name: String,
    /// Its declaration, as `inout double b[n]`.
    declared: String,
    /// What went to the service; none if nothing did, or it is too large to be kept with the job.
    argument: Option<ValueView>,
    /// What came back; none if nothing did.
    result: Option<ValueView>,
}

/// A value.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct ValueView {
    /// Its type, with sizes as numbers: `double[3]`.
    of: String,
    /// It as text: the elements of a vector one to a line, those of a matrix one row to a line. Of a file its name in the folder of the job.
    text: String,
    /// True if there is more of it than `text` has.
    cut: bool,
}

impl CallView {
    /// A call, and how it ended if it has.
    pub(crate) fn of(call: &EarlierCall, end: Option<&CallEnd>) -> CallView {
        let (outcome, why, results) = match end {
            None => (None, None, None),
            Some(CallEnd::Completed(results)) => (Some("completed"), None, Some(results)),
            Some(CallEnd::Failed { reason, .. }) => (Some("failed"), Some(reason.clone()), None),
            Some(CallEnd::Cancelled) => (Some("cancelled"), None, None),
        };
        let at = |values: Option<&Vec<Option<Value>>>, at: usize| {
            values.and_then(|values| values.get(at)?.as_ref().map(ValueView::from))
        };
        let parameters = call.service.signature.parameters().iter().enumerate();
        let value = |(place, parameter): (usize, &Parameter)| CallValueView {
            name: parameter.name.clone(),
            declared: parameter.to_string(),
            argument: at(call.arguments.as_ref(), place),
            result: at(results, place),
        };
        CallView {
            service: call.service.name.clone(),
            signature: call.service.signature.to_string(),
            outcome,
            why,
            values: parameters.map(value).collect(),
        }
    }
}

impl From<&Value> for ValueView {
    fn from(value: &Value) -> ValueView {
        let mut text = value.to_text();
        let cut = text.len() > SHOWN_BYTES;
        if cut {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES));
        }
        ValueView { of: value.describe(), text, cut }
    }
}

#[cfg(test)]
mod tests {
    use pliant_calls::{Array, Signature};
    use pliant_client::calls::{StartedCall, TypedService};

    use super::*;

    #[test]
    fn parameters_have_what_went_and_what_came_back() {
        let signature: Signature = "in int n, inout double v[n], out string s[9000]".parse().unwrap();
        let service =
            TypedService { name: "scale".to_owned(), signature: signature.clone(), servers: Vec::new() };
        let vector = |of: &[f64]| Some(Value::Vector(Array::Double(of.to_vec())));
        let call = EarlierCall {
            service,
            call: StartedCall::of_job("lyon.1".parse().unwrap(), signature),
            arguments: Some(vec![Some(Value::Int(2)), vector(&[1.0, 2.0]), None]),
            pinned: false,
        };
        let results = vec![None, vector(&[2.0, 4.5]), Some(Value::String("é".repeat(4_000)))];
        let view = CallView::of(&call, Some(&CallEnd::Completed(results)));
        assert_eq!(
            (view.outcome, view.values[1].declared.as_str()),
            (Some("completed"), "inout double v[n]")
        );
        let text = |value: &Option<ValueView>| value.as_ref().map(|value| value.text.clone());
        assert_eq!(text(&view.values[0].argument).as_deref(), Some("2"));
        assert_eq!(text(&view.values[0].result), None);
        assert_eq!(text(&view.values[1].argument).as_deref(), Some("1\n2\n"));
        assert_eq!(text(&view.values[1].result).as_deref(), Some("2\n4.5\n"));
        let long = view.values[2].result.clone().unwrap();
        assert_eq!((long.cut, long.text.len()), (true, SHOWN_BYTES));
        assert_eq!(CallView::of(&call, None).outcome, None);
    }
}
