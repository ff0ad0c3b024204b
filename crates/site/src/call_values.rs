//! The values of a call of a typed service: its arguments and its results, checked.
//!
//! A name of a file comes from a user or from a service. In these types it is a [`FileName`], which leads nowhere but into the work
//! folder of the job, and the file is there, a regular one behind no symbolic link. There is no other way to the values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use pliant_calls::{Parameter, ParameterType, Signature, Value, encode};
use pliant_staging::{FileName, open_file};

/// Arguments of a call that are what its signature says.
pub(crate) struct CallArguments {
    signature: Signature,
    values: Vec<Option<Value>>,
    /// The files among them, by the position of their parameter.
    files: BTreeMap<usize, FileName>,
}

/// What a parameter carries to a service.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    /// Nothing: it comes back only.
    Nothing,
    /// An input file of the job.
    File(&'a FileName),
    /// Anything else.
    Value(&'a Value),
}

/// What a parameter carries back.
pub(crate) enum Returned {
    /// A file in the work folder of the job.
    File(FileName),
    /// Anything else.
    Value(Value),
}

/// Results of a call that are what its signature says, and whose files are there.
#[derive(Debug)]
pub(crate) struct CallResults(Vec<Option<Value>>);

impl CallArguments {
    /// The arguments of a call.
    ///
    /// # Errors
    /// They are not what the signature says, or a file has no valid name.
    pub(crate) fn new(signature: Signature, values: Vec<Option<Value>>) -> Result<CallArguments, String> {
        CallArguments::new_but(signature, values, |_| false)
    }

    /// The same, where the values of some parameters are elsewhere: they are not looked for.
    ///
    /// # Errors
    /// As of [`CallArguments::new`].
    pub(crate) fn new_but(
        signature: Signature,
        values: Vec<Option<Value>>,
        is_elsewhere: impl Fn(&Parameter) -> bool,
    ) -> Result<CallArguments, String> {
        signature.check_arguments_but(&values, is_elsewhere).map_err(|error| error.to_string())?;
        let mut files = BTreeMap::new();
        for (at, (parameter, value)) in signature.parameters().iter().zip(&values).enumerate() {
            if let Some(Value::File(name)) = value {
                let name = name.parse().map_err(|error| format!("`{}`: {error}", parameter.name))?;
                files.insert(at, name);
            }
        }
        Ok(CallArguments { signature, values, files })
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The argument at the position of a parameter.
    pub(crate) fn value(&self, at: usize) -> Option<&Value> {
        self.values.get(at)?.as_ref()
    }

    /// The input files that they name.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FileName> {
        self.files.values()
    }

    /// Checks that each file that they name is in the work folder of the job, which has its input files alone before the call begins.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn check_files(&self, work: &Path) -> Result<(), String> {
        for (at, name) in &self.files {
            if !is_file_in(work, name) {
                let parameter = &self.signature.parameters()[*at].name;
                return Err(format!("`{parameter}`: expected an input file of the job, found `{name}`"));
            }
        }
        Ok(())
    }

    /// Each parameter with what it carries, in the order of the signature.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&Parameter, Given<'_>)> {
        let given = |(at, value): (usize, _)| match (self.files.get(&at), value) {
            (Some(name), _) => Given::File(name),
            (None, Some(value)) => Given::Value(value),
            (None, None) => Given::Nothing,
        };
        self.signature.parameters().iter().zip(self.values.iter().map(Option::as_ref).enumerate().map(given))
    }

    /// The numbers by which the job is planned, as text.
    pub(crate) fn numbers(&self) -> BTreeMap<String, String> {
        let number = |(parameter, given): (&Parameter, Given<'_>)| match given {
            Given::Value(value) => Some((parameter.name.clone(), value.finite_number()?)),
            Given::Nothing | Given::File(_) => None,
        };
        self.named().filter_map(number).collect()
    }

    /// The sizes of a parameter in this call.
    ///
    /// # Errors
    /// One cannot be calculated, or is too large.
    pub(crate) fn sizes(&self, parameter: &Parameter) -> Result<Vec<u64>, String> {
        self.signature.sizes(parameter, &self.values).map_err(|error| error.to_string())
    }

    /// The list that a resident process gets: the path of each file, also of those that it is to write.
    ///
    /// # Errors
    /// The list is too long.
    pub(crate) fn encode_with_paths(&self, work: &Path) -> Result<Vec<u8>, String> {
        let path = |name: &str| Some(Cow::Owned(Value::File(work.join(name).to_string_lossy().into_owned())));
        let sent = self.named().map(|(parameter, given)| match given {
            Given::File(name) => path(name.as_str()),
            // The name of a parameter is an identifier.
            Given::Nothing if parameter.kind == ParameterType::File => path(&parameter.name),
            Given::Nothing => None,
            Given::Value(value) => Some(Cow::Borrowed(value)),
        });
        encode(&sent.collect::<Vec<_>>()).map_err(|error| error.to_string())
    }

    /// What the service has returned, one for each parameter, with its files in the work folder of the job.
    ///
    /// # Errors
    /// It is not what the signature says, or a file is not there.
    pub(crate) fn results(
        &self,
        work: &Path,
        returned: Vec<Option<Returned>>,
    ) -> Result<CallResults, String> {
        let mut results = Vec::with_capacity(returned.len());
        for (at, returned) in returned.into_iter().enumerate() {
            let parameter = self.signature.parameters().get(at).map_or("", |parameter| &parameter.name);
            results.push(match returned {
                None => None,
                Some(Returned::File(name)) if is_file_in(work, &name) => {
                    Some(Value::File(name.as_str().to_owned()))
                }
                Some(Returned::File(name)) => {
                    return Err(format!("`{parameter}`: expected the file {name}, found none"));
                }
                Some(Returned::Value(Value::File(_))) => {
                    return Err(format!("`{parameter}`: expected no file, found one"));
                }
                Some(Returned::Value(value)) => Some(value),
            });
        }
        self.signature.check_results(&self.values, &results).map_err(|error| error.to_string())?;
        Ok(CallResults(results))
    }
}

impl CallResults {
    /// The result at the position of a parameter.
    pub(crate) fn value(&self, at: usize) -> Option<&Value> {
        self.0.get(at)?.as_ref()
    }

    /// The same, which does not come back then.
    pub(crate) fn take(&mut self, at: usize) -> Option<Value> {
        self.0.get_mut(at)?.take()
    }

    /// Their bytes.
    ///
    /// # Errors
    /// The list is too long.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, String> {
        encode(&self.0).map_err(|error| error.to_string())
    }
}

fn is_file_in(folder: &Path, name: &FileName) -> bool {
    matches!(open_file(folder, name), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const HOSTILE: [&str; 10] = [
        "..",
        ".",
        "../key.pem",
        "../../../key.pem",
        "/etc/passwd",
        "a/../../key.pem",
        "//etc",
        "a/",
        "a\nb",
        "",
    ];

    fn arguments(name: &str) -> Result<CallArguments, String> {
        let values = vec![Some(Value::File(name.to_owned())), None];
        CallArguments::new("inout file data, out file copy".parse().unwrap(), values)
    }

    #[test]
    fn no_name_leads_out_of_the_work_folder() {
        for name in HOSTILE {
            let found = arguments(name).err().unwrap();
            assert!(found.starts_with("`data`: expected a file"), "{name:?}: {found}");
        }
        let found = arguments("../key.pem").err().unwrap();
        assert_eq!(found, "`data`: expected a file name without `.` and `..`, found `../key.pem`");
    }

    #[test]
    fn files_are_inputs_of_the_job_behind_no_link() {
        let root = tempfile::tempdir().unwrap();
        let work = root.path().join("work");
        fs::create_dir_all(work.join("in")).unwrap();
        fs::write(root.path().join("key.pem"), "secret").unwrap();
        fs::write(work.join("in/data"), "content").unwrap();
        symlink(root.path().join("key.pem"), work.join("link")).unwrap();
        symlink(root.path(), work.join("up")).unwrap();
        let check = |name: &str, expected: Result<(), String>| {
            assert_eq!(arguments(name).unwrap().check_files(&work), expected, "{name}");
        };
        let wrong = |name: &str| Err(format!("`data`: expected an input file of the job, found `{name}`"));
        check("in/data", Ok(()));
        for name in ["absent", "in", "in/absent", "link", "up/key.pem", "absent/data"] {
            check(name, wrong(name));
        }
        // Results, alike.
        let given = arguments("in/data").unwrap();
        let results = |data: Returned, copy: Returned| {
            let results = given.results(&work, vec![Some(data), Some(copy)]);
            results.map(|CallResults(values)| values)
        };
        let file = |name: &str| Returned::File(name.parse().unwrap());
        let named = |name: &str| Some(Value::File(name.to_owned()));
        assert_eq!(results(file("in/data"), file("in/data")), Ok(vec![named("in/data"), named("in/data")]));
        for name in ["link", "up/key.pem", "in"] {
            let expected = Err(format!("`copy`: expected the file {name}, found none"));
            assert_eq!(results(file("in/data"), file(name)), expected);
        }
        let raw = Returned::Value(Value::File("../key.pem".to_owned()));
        assert_eq!(results(file("in/data"), raw), Err("`copy`: expected no file, found one".to_owned()));
    }
}
