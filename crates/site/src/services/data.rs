//! Data of calls that are at the server, or stay there.

use std::collections::BTreeMap;

use pliant_calls::{Parameter, ParameterType, Signature};
use pliant_control::names::Key;
use pliant_wire::{KeptParameter, StoredArgument};

use super::call::KeptValue;

/// What an encoded value has besides its elements or its text, with the head of the list in which it is.
const ENCODED_BYTES: u64 = 64;

/// The arguments that are at the server; or what is wrong with them.
pub(super) fn stored(
    signature: &Signature,
    arguments: &[StoredArgument],
) -> Result<BTreeMap<String, Key>, String> {
    let mut stored = BTreeMap::new();
    for StoredArgument { parameter: name, data } in arguments {
        let parameter = of_data(signature, name)?;
        if !parameter.direction.is_input() {
            return Err(format!(
                "`{name}`: expected data for a parameter that goes to the service, found `{parameter}`"
            ));
        }
        if stored.insert(name.clone(), *data).is_some() {
            return Err(twice(name));
        }
    }
    Ok(stored)
}

/// The values that stay at the server, with their sizes by the whole numbers of the call; or what is wrong with them.
pub(super) fn kept(
    signature: &Signature,
    parameters: &[KeptParameter],
    numbers: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, KeptValue>, String> {
    let mut kept = BTreeMap::new();
    for KeptParameter { parameter: name, data, returned } in parameters {
        let parameter = of_data(signature, name)?;
        let bytes = bytes(parameter, numbers)?;
        let value = KeptValue { data: *data, returned: *returned, bytes };
        if kept.insert(name.clone(), value).is_some() {
            return Err(twice(name));
        }
    }
    Ok(kept)
}

fn twice(name: &str) -> String {
    format!("expected each parameter once among the data of a call, found `{name}` twice")
}

/// The parameter of that name, if its value can be data.
fn of_data<'a>(signature: &'a Signature, name: &str) -> Result<&'a Parameter, String> {
    let shown = || name.chars().take(80).flat_map(char::escape_debug).collect::<String>();
    let Some(at) = signature.position(name) else {
        return Err(format!("expected a parameter of the signature, found `{}`", shown()));
    };
    let parameter = &signature.parameters()[at];
    match parameter.kind.can_stay() {
        true => Ok(parameter),
        false => Err(format!(
            "`{name}`: expected data of a vector, a matrix or a string with a capacity, found `{parameter}`"
        )),
    }
}

/// How many bytes its encoded value has at most.
fn bytes(parameter: &Parameter, numbers: &BTreeMap<String, String>) -> Result<u64, String> {
    let of = match &parameter.kind {
        ParameterType::Vector { of, .. } | ParameterType::Matrix { of, .. } => of.bytes(),
        _ => 1,
    };
    let number = |name: &str| numbers.get(name)?.parse().ok();
    let mut bytes = of;
    for size in parameter.kind.sizes() {
        let size = size.evaluate(number).map_err(|error| format!("`{}`: {error}", parameter.name))?;
        bytes = bytes.saturating_mul(size);
    }
    Ok(bytes.saturating_add(ENCODED_BYTES))
}
