//! A simulated federation for tests: functions that the test ends as it likes.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pliant_calls::{Signature, Value};
use pliant_client::calls::TypedService;
use pliant_control::names::Name;

use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::{Call, Federation, Function, OnEnd, Results, RunningCall};

/// What happens to calls of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behaviour {
    /// Ends at once: an output is the successor of the first argument, or as many ones as it has elements.
    Succeed,
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
    is_closed: bool,
    refuses_cancels: bool,
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
        let ended = self.state.lock().running.remove(&number);
        let (call, on_end) = ended.unwrap();
        on_end(outcome.map(|()| results(&call)));
    }

    /// How many calls run.
    pub(crate) fn running(&self) -> usize {
        self.state.lock().running.len()
    }

    /// From now on no call can be cancelled, or again.
    pub(crate) fn refuse_cancels(&self, refuse: bool) {
        self.state.lock().refuses_cancels = refuse;
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

struct SimulatedCall {
    number: u64,
    federation: SimulatedFederation,
}

impl RunningCall for SimulatedCall {
    fn cancel(&self) -> Box<dyn FnOnce() -> Outcome> {
        if self.federation.state.lock().refuses_cancels {
            return Box::new(|| Err(Failure::new(Code::CommunicationFailed, "server lyon does not answer")));
        }
        let ended = self.federation.state.lock().running.remove(&self.number);
        Box::new(move || {
            if let Some((_, on_end)) = ended {
                on_end(Err(Failure::new(Code::SessionFailed, "cancelled")));
            }
            Ok(())
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

    fn start(&self, call: Call, on_end: OnEnd) -> Outcome<Arc<dyn RunningCall>> {
        let (_, behaviour) = self.functions[call.function.service.name.as_str()];
        let number = {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(not_initialized());
            }
            state.started += 1;
            state.started
        };
        match behaviour {
            Behaviour::Succeed => on_end(Ok(results(&call))),
            Behaviour::Fail => on_end(Err(Failure::new(Code::SessionFailed, format!("exit code {number}")))),
            Behaviour::Lie => on_end(Ok(vec![Some(Value::Double(0.5)); call.arguments.len()])),
            Behaviour::Refuse => return Err(Failure::new(Code::RpcRefused, "no server takes the job")),
            Behaviour::Panic => panic!("as the test asked"),
            Behaviour::Run => drop(self.state.lock().running.insert(number, (call, on_end))),
        }
        Ok(Arc::new(SimulatedCall { number, federation: self.clone() }))
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.running.clear();
    }
}
