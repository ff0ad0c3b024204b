//! A simulated federation for tests: functions that the test ends as it likes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use pliant_calls::{Signature, Value};
use pliant_client::calls::{StoredData, TypedService};
use pliant_control::names::{Key, Name};

use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::{
    Call, CallOutcome, Explored, Federation, Function, OnEnd, Results, RunningCall, Waiting,
};

/// What happens to calls of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behaviour {
    /// Ends at once: an output is the successor of the first argument, or as many ones as it has elements.
    Succeed,
    /// Ends at once: the second argument, a matrix, comes back with each number doubled.
    Double,
    /// Ends at once, failed.
    Fail,
    /// Runs until the test ends or cancels it.
    Run,
    /// Is refused.
    Refuse,
    /// Ends with a result that is not what the signature says.
    Lie,
    /// Panics.
    Panic,
}

/// A federation of one server, `lyon`.
#[derive(Clone, Default)]
pub(crate) struct SimulatedFederation {
    functions: BTreeMap<&'static str, (Signature, Behaviour)>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    running: BTreeMap<u64, (Call, OnEnd)>,
    started: u64,
    data: BTreeMap<Key, Value>,
    is_closed: bool,
    is_shut_down: bool,
    cancels: Cancels,
}

/// What happens to cancellations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Cancels {
    /// The call ends as a cancelled one, and the cancellation is accepted.
    #[default]
    Succeed,
    /// No server answers.
    Refuse,
    /// The call completes before no server answers.
    CompleteAndRefuse,
    /// The call completes before the cancellation is accepted.
    CompleteAndSucceed,
    /// The cancellation is accepted, and the call does not end.
    Hang,
}

impl SimulatedFederation {
    pub(crate) fn new(functions: &[(&'static str, &str, Behaviour)]) -> SimulatedFederation {
        let function = |(name, signature, behaviour): &(&'static str, &str, Behaviour)| {
            (*name, (signature.parse().unwrap(), *behaviour))
        };
        SimulatedFederation { functions: functions.iter().map(function).collect(), ..Self::default() }
    }

    /// Ends the call that was started as the number `number`, counted from 1.
    pub(crate) fn end(&self, number: u64, outcome: Outcome) {
        assert!(self.finish(number, |call| match outcome {
            Ok(()) => CallOutcome::Completed(results(call)),
            Err(failure) => CallOutcome::Failed(failure),
        }));
    }

    /// Ends a call as another client that cancels it.
    pub(crate) fn cancel_from_elsewhere(&self, number: u64) {
        assert!(self.finish(number, |_| CallOutcome::Cancelled));
    }

    /// Ends a call, if it runs.
    fn finish(&self, number: u64, outcome: impl FnOnce(&Call) -> CallOutcome) -> bool {
        let ended = self.state.lock().running.remove(&number);
        ended.map(|(call, on_end)| on_end(outcome(&call))).is_some()
    }

    /// What a call leaves.
    fn stored(&self, call: &Call) -> BTreeMap<usize, StoredData> {
        let server: Name = "lyon".parse().unwrap();
        let data = |(at, keep): (&usize, &pliant_client::calls::Keep)| {
            (*at, StoredData { key: keep.key, server: server.clone() })
        };
        call.data.keep.iter().map(data).collect()
    }

    /// Keeps what a call leaves, of its arguments and of what it has returned, and takes away what does not come back.
    fn completed(&self, call: &Call, mut results: Results) -> CallOutcome {
        for (position, keep) in &call.data.keep {
            let value = results[*position].clone().or_else(|| call.arguments[*position].clone());
            self.state.lock().data.insert(keep.key, value.unwrap());
            if call.data.is_left(*position) {
                results[*position] = None;
            }
        }
        CallOutcome::Completed(results)
    }

    /// How many calls run.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().running.len()
    }

    /// Sets what happens to cancellations from now on.
    pub(crate) fn set_cancels(&self, cancels: Cancels) {
        self.state.lock().cancels = cancels;
    }

    /// True once its threads have ended.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.state.lock().is_shut_down
    }
}

/// Outputs of a call.
fn results(call: &Call) -> Results {
    let parameters = call.function.signature().parameters();
    let first = call.arguments.iter().flatten().next().and_then(Value::whole).unwrap_or_default();
    let output = |(position, parameter): (usize, &pliant_calls::Parameter)| {
        if !parameter.direction.is_output() {
            return None;
        }
        let sizes = call.function.signature().sizes(parameter, &call.arguments).unwrap();
        let count = sizes.iter().product::<u64>() as usize;
        use pliant_calls::{Array, ParameterType, ScalarType};
        let array = |of: ScalarType| match of {
            ScalarType::Char => Array::Char(vec![1; count]),
            ScalarType::Int => Array::Int(vec![1; count]),
            ScalarType::Long => Array::Long(vec![1; count]),
            ScalarType::Float => Array::Float(vec![1.0; count]),
            ScalarType::Double => Array::Double(vec![1.0; count]),
        };
        match &parameter.kind {
            ParameterType::Scalar(ScalarType::Char) => Some(Value::Char(first as u8 + 1)),
            ParameterType::Scalar(ScalarType::Int) => Some(Value::Int(first as i32 + 1)),
            ParameterType::Scalar(ScalarType::Long) => Some(Value::Long(first + 1)),
            ParameterType::Scalar(ScalarType::Float) => Some(Value::Float(first as f32 + 1.0)),
            ParameterType::Scalar(ScalarType::Double) => Some(Value::Double(first as f64 + 1.0)),
            ParameterType::String { .. } => match &call.arguments[position] {
                Some(Value::String(text)) => Some(Value::String(text.to_uppercase())),
                _ => Some(Value::String("ab".repeat(count / 2).chars().take(count - 1).collect())),
            },
            ParameterType::File => None,
            ParameterType::Vector { of, .. } => Some(Value::Vector(array(*of))),
            ParameterType::Matrix { of, .. } => {
                Some(Value::Matrix { rows: sizes[0], columns: sizes[1], elements: array(*of) })
            }
        }
    };
    parameters.iter().enumerate().map(output).collect()
}

/// A matrix with each number doubled.
fn doubled(value: &Value) -> Value {
    let Value::Matrix { rows, columns, elements: pliant_calls::Array::Double(elements) } = value else {
        panic!("expected a matrix of double, found {}", value.describe())
    };
    let elements = elements.iter().map(|number| 2.0 * number).collect();
    Value::Matrix { rows: *rows, columns: *columns, elements: pliant_calls::Array::Double(elements) }
}

struct SimulatedCall {
    number: u64,
    stored: BTreeMap<usize, StoredData>,
    federation: SimulatedFederation,
}

impl RunningCall for SimulatedCall {
    fn stored_data(&self) -> BTreeMap<usize, StoredData> {
        self.stored.clone()
    }

    fn cancel(&self, _until: Instant) -> Box<dyn FnOnce() -> Outcome> {
        let (number, federation) = (self.number, self.federation.clone());
        let cancels = federation.state.lock().cancels;
        let completed = |call: &Call| CallOutcome::Completed(results(call));
        Box::new(move || {
            // A call that has ended by itself is not there any more.
            let _has_ended = match cancels {
                Cancels::Succeed => federation.finish(number, |_| CallOutcome::Cancelled),
                Cancels::CompleteAndRefuse | Cancels::CompleteAndSucceed => {
                    federation.finish(number, completed)
                }
                Cancels::Refuse | Cancels::Hang => false,
            };
            match cancels {
                Cancels::Refuse | Cancels::CompleteAndRefuse => {
                    Err(Failure::new(Code::CommunicationFailed, "server lyon does not answer"))
                }
                _ => Ok(()),
            }
        })
    }
}

impl Federation for SimulatedFederation {
    fn function(&self, name: &str, server: Option<&str>) -> Outcome<Function> {
        if server.is_some_and(|server| server != "lyon") {
            return Err(Failure::new(Code::ServerNotFound, "the federation has no such server"));
        }
        let (signature, _) = self
            .functions
            .get(name)
            .ok_or_else(|| Failure::new(Code::FunctionNotFound, format!("no server offers {name}")))?;
        let lyon: Name = "lyon".parse().unwrap();
        let service =
            TypedService { name: name.to_owned(), signature: signature.clone(), servers: vec![lyon.clone()] };
        Ok(Function { service, server: server.map(|_| lyon) })
    }

    fn start(&self, mut call: Call, _waiting: Waiting, on_end: OnEnd) -> Outcome<Arc<dyn RunningCall>> {
        for (position, data) in &call.data.stored {
            let found = self.state.lock().data.get(&data.key).cloned();
            let gone =
                || Failure::new(Code::NoData, format!("expected data at this server, found none of {data}"));
            call.arguments[*position] = Some(found.ok_or_else(gone)?);
        }
        let (_, behaviour) = self.functions[call.function.service.name.as_str()];
        let number = {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(not_initialized());
            }
            state.started += 1;
            state.started
        };
        let stored = self.stored(&call);
        match behaviour {
            Behaviour::Succeed => on_end(self.completed(&call, results(&call))),
            Behaviour::Double => {
                on_end(self.completed(&call, vec![None, call.arguments[1].as_ref().map(doubled)]))
            }
            Behaviour::Fail => {
                let text = format!("exit code {number}");
                on_end(CallOutcome::Failed(Failure::new(Code::SessionFailed, text)));
            }
            Behaviour::Lie => {
                on_end(CallOutcome::Completed(vec![Some(Value::Double(0.5)); call.arguments.len()]))
            }
            Behaviour::Refuse => return Err(Failure::new(Code::RpcRefused, "no server takes the job")),
            Behaviour::Panic => panic!("as the test asked"),
            Behaviour::Run => drop(self.state.lock().running.insert(number, (call, on_end))),
        }
        Ok(Arc::new(SimulatedCall { number, stored, federation: self.clone() }))
    }

    fn delete_data(&self, data: &StoredData) -> Outcome {
        if data.server.as_str() != "lyon" {
            return Err(Failure::new(Code::CommunicationFailed, "the server does not answer"));
        }
        self.state.lock().data.remove(&data.key);
        Ok(())
    }

    fn explore(&self, options: Vec<String>, folder: &Path) -> Outcome<Explored> {
        let mandatory = options.len() as u32;
        Ok(Explored { mandatory, optional: 2, failed: 1, late_s: folder.as_os_str().len() as f64 })
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.running.clear();
    }

    fn shut_down(&self) {
        self.state.lock().is_shut_down = true;
    }
}
