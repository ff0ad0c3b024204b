//! The options of `pliant submit`: what is submitted, and how.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_client::SubmitOrder;
use pliant_control::names::{Key, Name};
use pliant_control::shared_folder::SharedFileSystems;
use pliant_staging::Checksum;
use pliant_wire::SubmittedWork;

use crate::RequestError;
use crate::executable_options::{self, is_path};
use crate::service_arguments::{argument, once_each};
use crate::submit_options::JobOptions;

/// The options of a submission.
#[derive(Args, Clone, Debug)]
pub struct SubmitOptions {
    /// A service of the federation, which `pliant servers --services` lists; or with a slash in it the path of a script, as
    /// with --script.
    #[arg(value_name = "SERVICE", required_unless_present = "script")]
    service: Option<String>,
    /// The arguments of the service; or further scripts, each of which is a job of its own with the same options.
    #[arg(value_name = "KEY=VALUE", value_parser = word)]
    words: Vec<Word>,
    /// A script to run instead of a service; its first line names the interpreter (#!). - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "service")]
    script: Option<PathBuf>,
    /// The arguments of the script.
    #[arg(last = true, value_name = "ARGUMENT")]
    script_arguments: Vec<String>,
    /// The unique key of the submission, 32 hexadecimal digits: the same command with the same key gives the same
    /// job, never a second one.
    #[arg(long, value_name = "HEX")]
    pub key: Option<Key>,
    #[command(flatten)]
    options: JobOptions,
}

/// A word behind the service or the first script.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    Argument(String, String),
    Script(PathBuf),
}

/// An argument of a service, or a text with a slash in it as the path of a script.
fn word(text: &str) -> Result<Word, String> {
    match argument(text) {
        Ok((key, value)) if !is_path(&key) => Ok(Word::Argument(key, value)),
        _ if is_path(text) => Ok(Word::Script(text.into())),
        given => given.map(|(key, value)| Word::Argument(key, value)),
    }
}

/// What is submitted: its program, and all of its options.
pub struct SubmitRequest {
    /// The program.
    pub what: SubmittedWork,
    /// The options of the command line and of the script.
    pub options: JobOptions,
}

impl SubmitRequest {
    /// The order of the request, under this key or a random one.
    ///
    /// # Errors
    ///
    /// If a file of it cannot be read, or its folder is on no shared file system.
    pub fn order(self, key: Option<Key>, shared: &SharedFileSystems) -> Result<SubmitOrder, RequestError> {
        let SubmitRequest { mut what, options } = self;
        if let SubmittedWork::Script(script) = &mut what {
            script.folder = options.folder(shared)?;
        }
        Ok(SubmitOrder {
            inputs: options.announced()?,
            timeout: options.timeout(),
            only: options.server,
            ..SubmitOrder::new(key.unwrap_or_else(drawn), what)
        })
    }
}

impl SubmitOptions {
    /// What is submitted, with the options in its script; `note` gets what a user of Slurm may expect otherwise.
    ///
    /// # Errors
    ///
    /// If options contradict each other, or the script cannot be read.
    pub fn request(&self, note: &mut dyn FnMut(&str)) -> Result<SubmitRequest, RequestError> {
        let Some(path) = self.script_path() else {
            let name = self.service.clone().unwrap_or_default();
            self.without_script_options(&name)?;
            check_service(&name)?;
            let arguments = once_each(&self.arguments_of_service()?)?;
            return Ok(SubmitRequest {
                what: SubmittedWork::Service { name, arguments },
                options: self.options.clone(),
            });
        };
        self.without_words()?;
        let (script, options) =
            executable_options::read(path, self.options.clone(), self.script_arguments.clone(), note)?;
        Ok(SubmitRequest { what: SubmittedWork::Script(script), options })
    }

    /// The script: of `--script`, or a service that is a path.
    fn script_path(&self) -> Option<&Path> {
        let path = self.service.as_deref().filter(|service| is_path(service)).map(Path::new);
        self.script.as_deref().or(path)
    }

    /// The submission of each script with its path, if there are several: with the key of the command and the path each has a key
    /// of its own.
    ///
    /// # Errors
    ///
    /// If another word is among them, or with a key one of them twice.
    pub fn of_scripts(&self) -> Result<Vec<(PathBuf, SubmitOptions)>, RequestError> {
        let further: Vec<PathBuf> = self
            .words
            .iter()
            .filter_map(|word| match word {
                Word::Script(path) => Some(path.clone()),
                Word::Argument(..) => None,
            })
            .collect();
        let (Some(first), false) = (self.script_path(), further.is_empty()) else { return Ok(Vec::new()) };
        if further.len() < self.words.len() {
            self.without_words()?;
        }
        let mut seen = BTreeSet::new();
        let of_script = |path: PathBuf| {
            if self.key.is_some() && !seen.insert(path.clone()) {
                let problem = format!("--key: expected each script once, found `{}` twice", path.display());
                return Err(RequestError::input(problem));
            }
            let key = self.key.map(|key| key_of_script(key, &path));
            let one = SubmitOptions {
                script: Some(path.clone()),
                service: None,
                words: Vec::new(),
                key,
                ..self.clone()
            };
            Ok((path, one))
        };
        std::iter::once(first.to_owned()).chain(further).map(of_script).collect()
    }

    /// The words behind a service.
    fn arguments_of_service(&self) -> Result<Vec<(String, String)>, RequestError> {
        let given = |word: &Word| match word {
            Word::Argument(key, value) => Ok((key.clone(), value.clone())),
            Word::Script(path) => {
                let path = path.display();
                let problem = format!("expected KEY=VALUE after the service, found `{path}`");
                Err(RequestError::input(problem)
                    .hint("a service and scripts are submitted by commands of their own"))
            }
        };
        self.words.iter().map(given).collect()
    }

    /// Refuses words behind a script.
    fn without_words(&self) -> Result<(), RequestError> {
        let argument = self.words.iter().find_map(|word| match word {
            Word::Argument(key, value) => Some(format!("{key}={value}")),
            Word::Script(_) => None,
        });
        if let Some(argument) = argument {
            let problem = format!("expected arguments of a script after --, found `{argument}`");
            return Err(RequestError::input(problem).hint(format!("pliant submit ... -- {argument}")));
        }
        match self.words.is_empty() {
            true => Ok(()),
            false => Err(RequestError::input(format!(
                "expected one script, found {}: `pliant submit` submits several",
                self.words.len() + 1
            ))),
        }
    }

    /// Refuses options of scripts for a service.
    fn without_script_options(&self, service: &str) -> Result<(), RequestError> {
        let arguments = (!self.script_arguments.is_empty()).then_some("arguments after --");
        let Some(option) = self.options.of_scripts().or(arguments) else { return Ok(()) };
        let problem = format!("expected {option} with a script, found it with the service `{service}`");
        let hint = match Path::new(service).is_file() {
            true => format!("`pliant submit ./{service} ...` submits the script of that name"),
            false => {
                "the server's file describes its services; `pliant servers --services` lists what they take and need"
                    .to_owned()
            }
        };
        Err(RequestError::input(problem).hint(hint))
    }
}

/// The key of one of several scripts that share a key.
fn key_of_script(key: Key, path: &Path) -> Key {
    let text = [key.0.as_slice(), path.as_os_str().as_encoded_bytes()].concat();
    let Checksum(bytes) = Checksum::of(&text);
    let mut derived = [0; 16];
    derived.copy_from_slice(&bytes[..16]);
    Key(derived)
}

/// A random key.
pub fn drawn() -> Key {
    Key(rand::random())
}

/// Refuses a text that cannot be the name of a service.
pub fn check_service(name: &str) -> Result<(), RequestError> {
    let wrong = |_| {
        let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
        let hint = if is_file(name) {
            script_hint(name)
        } else {
            "`pliant servers --services` lists them; --script FILE --time TIME runs a script of yours"
                .to_owned()
        };
        RequestError::input(format!("expected the name of a service, found `{shown}`")).hint(hint)
    };
    name.parse::<Name>().map(drop).map_err(wrong)
}

/// True if there is a file of that name.
pub fn is_file(name: &str) -> bool {
    Path::new(name).is_file()
}

/// How a file is submitted as a script.
pub fn script_hint(name: &str) -> String {
    format!("it is a file: `pliant submit --script {} --time TIME` runs it", name.escape_debug())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pliant_control::job::Work;
    use pliant_model::{Procs, Span, Speedup};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: SubmitOptions,
    }

    fn parsed(line: &str) -> Result<SubmitOptions, String> {
        let words = std::iter::once("submit").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.arguments).map_err(|error| error.to_string())
    }

    impl SubmitOptions {
        fn order(&self) -> Result<SubmitOrder, RequestError> {
            self.request(&mut |_| {})?.order(self.key, &SharedFileSystems::default())
        }
    }

    #[test]
    fn arguments_of_services() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(argument(text).ok(), expected, "{text}");
        };
        check("size=12", Some(("size", "12")));
        check("text=a=b c", Some(("text", "a=b c")));
        check("empty=", Some(("empty", "")));
        check("=12", None);
        check("size", None);
        let twice = parsed("matrix size=1 size=2").unwrap().order().unwrap_err();
        assert!(twice.is_input());
    }

    #[test]
    fn a_service_or_a_script() {
        let check = |line: &str, problem: &str| match parsed(line) {
            Ok(_) => assert_eq!(problem, "", "{line}"),
            Err(message) => {
                assert!(!problem.is_empty() && message.contains(problem), "{line}: {message}");
            }
        };
        check("pi samples=3 --in a --in b=c --out d", "");
        check("--script a --time 30m -- x --y", "");
        check("--script a --time 30m --speedup amdahl:0.95,64", "");
        check("", "SERVICE");
        check("pi samples", "expected KEY=VALUE, found `samples`");
        check("pi --script a --time 1h", "cannot be used with");
        check("--time 1h", "SERVICE");
        check("./job.sh --time 1h", "");
        check("--script a --time 90", "with its unit");
        check("--script a --time 1h --rigid 2 --speedup folding:2", "cannot be used with");
        check("--script a --time 1h --rigid 0", "from 1 to");
        check("--script a --time 1h --speedup linear:4", "expected a speedup model");
        check("pi --key 12", "32 hexadecimal digits");
        check("pi --server-timeout 0s", "length of time");
    }

    #[test]
    fn options_of_scripts_are_refused_for_services() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.sh");
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        for (line, expected) in [
            ("pi --time 1h", "--time"),
            ("pi --rigid 2", "--rigid"),
            ("pi -- x", "arguments after --"),
            ("--script FILE", "--time"),
            ("FILE", "--time"),
            ("./none.sh x=1 --time 1h", "after --"),
        ] {
            let given = line.replace("FILE", &path.to_string_lossy());
            let failure = parsed(&given).unwrap().order().unwrap_err();
            assert!(failure.is_input(), "{line}");
            assert!(format!("{failure:?}").contains(expected), "{line}: {failure:?}");
        }
    }

    #[test]
    fn a_script_is_ordered_with_its_work() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.sh");
        let order = |text: &str, more: &str| {
            std::fs::write(&path, text).unwrap();
            let line = format!("--script {} --time 1h {more}", path.display());
            parsed(&line).unwrap().order()
        };
        let check = |more: &str, expected: Work, arguments: &[&str]| {
            let SubmittedWork::Script(script) = order("#!/bin/sh\n", more).unwrap().what else {
                panic!("{more}")
            };
            assert_eq!((script.name.as_str(), &script.work), ("job.sh", &expected), "{more}");
            assert_eq!(script.arguments, arguments);
        };
        // Its time is the same on every cluster, unless a speedup says how it depends on processors.
        let work = |procs, speedup| Work {
            fixed_time: matches!(speedup, Speedup::Rigid),
            ..Work::new(Procs(procs), Span(3600), speedup)
        };
        check("", work(1, Speedup::Rigid), &[]);
        check("--rigid 8 -- -v a=b", work(8, Speedup::Rigid), &["-v", "a=b"]);
        check("--speedup amdahl:0.5,4", work(1, Speedup::Amdahl { parallel: 0.5, limit: Procs(4) }), &[]);
        let SubmittedWork::Script(script) =
            order("#!/bin/sh\n#PLIANT --rigid 3 --time 5m\n", "--job-name fit").unwrap().what
        else {
            panic!("a script")
        };
        assert_eq!((script.name.as_str(), &script.work), ("fit", &work(3, Speedup::Rigid)), "the hour wins");
        assert!(order("echo\n", "").unwrap_err().is_input());
        assert!(order(&format!("#!{}", "x".repeat(1 << 20)), "").unwrap_err().is_input());
        std::fs::write(&path, b"#!/bin/sh\necho \xe9\n").unwrap();
        let line = format!("--script {} --time 1h", path.display());
        let SubmittedWork::Script(script) = parsed(&line).unwrap().order().unwrap().what else {
            panic!("{line}")
        };
        assert_eq!(script.text.as_bytes(), b"#!/bin/sh\necho \xe9\n", "not all scripts are UTF-8");
    }

    #[test]
    fn inputs_are_announced_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let line = format!("pi --in {0} --in other={0}", path.display());
        let order = parsed(&line).unwrap().order().unwrap();
        let announced: Vec<(&str, u64)> =
            order.inputs.iter().map(|(spec, _)| (spec.name.as_str(), spec.size)).collect();
        assert_eq!(announced, [("abc", 3), ("other", 3)]);
        assert_eq!(order.inputs[0].0.sha256, pliant_staging::Checksum::of(b"abc"));
        let refused = |more: &str| parsed(&format!("{line} {more}")).unwrap().order().unwrap_err().is_input();
        assert!(refused(&format!("--in abc={}", path.display())), "a name twice");
        assert!(refused(&format!("--in d={}", dir.path().display())), "a folder");
        assert!(!refused("--in none"), "not there");
    }

    #[test]
    fn each_of_several_scripts_is_submitted_with_the_same_options() {
        let scripts = |line: &str| {
            let each = parsed(line).unwrap().of_scripts();
            each.map(|each| {
                each.into_iter().map(|(path, one)| (path.display().to_string(), one.key)).collect()
            })
            .map_err(|error: RequestError| error.message().to_owned())
        };
        let check = |line: &str, expected: Result<&[&str], &str>| {
            let found: Result<Vec<(String, Option<Key>)>, String> = scripts(line);
            let paths = found.map(|each| each.into_iter().map(|(path, _)| path).collect::<Vec<String>>());
            let expected = expected.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect());
            assert_eq!(paths, expected.map_err(str::to_owned), "{line}");
        };
        check("./a.sh --time 1h", Ok(&[]));
        check("./a.sh ./b.sh d/c --time 1h -- -v", Ok(&["./a.sh", "./b.sh", "d/c"]));
        check("./a.sh ./x=b.sh --time 1h", Ok(&["./a.sh", "./x=b.sh"]));
        check("./a.sh ./b.sh x=1", Err("expected arguments of a script after --, found `x=1`"));
        check("pi file=a/b", Ok(&[]));
        let service = parsed("pi ./b.sh").unwrap().request(&mut |_| {}).map(|_| ()).unwrap_err();
        assert_eq!(service.message(), "expected KEY=VALUE after the service, found `./b.sh`");
        let key = "000102030405060708090a0b0c0d0e0f";
        let keys = |line: &str| -> Vec<Option<Key>> {
            scripts(line).unwrap().into_iter().map(|(_, key)| key).collect()
        };
        let (one, other) =
            (keys(&format!("./a.sh ./b.sh --key {key}")), keys(&format!("./b.sh ./a.sh --key {key}")));
        assert_eq!([one[0], one[1]], [other[1], other[0]], "a key belongs to its script");
        assert!(one[0].is_some() && one[0] != one[1]);
        check(
            &format!("./a.sh ./a.sh --key {key}"),
            Err("--key: expected each script once, found `./a.sh` twice"),
        );
        check("./a.sh ./a.sh", Ok(&["./a.sh", "./a.sh"]));
    }

    #[test]
    fn keys_are_drawn_anew() {
        assert_ne!(drawn(), drawn());
        let key = "000102030405060708090a0b0c0d0e0f";
        assert_eq!(parsed(&format!("pi --key {key}")).unwrap().order().unwrap().key.to_string(), key);
    }

    #[test]
    fn names_that_no_service_has_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("job.sh");
        std::fs::write(&file, "").unwrap();
        assert!(check_service("pi").is_ok() && check_service("matrix-2").is_ok());
        for bad in ["job.sh", "", "a\nb", "pi\u{1b}[2J", file.to_str().unwrap()] {
            assert!(check_service(bad).unwrap_err().is_input(), "{bad:?}");
        }
    }
}
