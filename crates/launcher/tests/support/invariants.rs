//! What holds for any bytes that are read as a request or as a launcher's file.

use std::fmt::Write as _;
use std::path::PathBuf;

use pliant_launcher::{Config, Request};

/// Nothing panics; what is understood is written and understood again as it was; an error is one line.
pub(crate) fn hold(bytes: &[u8]) {
    request(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        config(text);
    }
}

fn request(bytes: &[u8]) {
    match Request::decode(bytes) {
        Ok(request) => {
            let encoded = request.encode();
            let mut rest = encoded.as_slice();
            assert_eq!(Request::read(&mut rest).expect("a request that was encoded"), request);
            assert!(rest.is_empty());
        }
        Err(error) => one_line(&error),
    }
    // With the length before it, which is any number here.
    if let Err(error) = Request::read(bytes) {
        one_line(&error.to_string());
    }
}

fn config(text: &str) {
    match Config::parse(text) {
        Ok(config) => {
            assert!(config.uid_min > 0 && config.caller != "root");
            assert!(config.folders.iter().chain(&config.programs).all(|path| path.is_absolute()));
            assert_eq!(Config::parse(&written(&config)), Ok(config));
        }
        Err(error) => {
            assert!((1..=text.split('\n').count()).contains(&error.line), "{error}");
            one_line(&error.to_string());
        }
    }
}

fn one_line(message: &str) {
    assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
}

/// The text of a file with that content.
fn written(config: &Config) -> String {
    let list = |items: &mut dyn Iterator<Item = &str>| {
        items.fold(String::new(), |mut list, item| {
            let quote = if item.contains('\'') { '"' } else { '\'' };
            let _ = write!(list, "{quote}{item}{quote}, ");
            list
        })
    };
    let names = |names: &[String]| list(&mut names.iter().map(String::as_str));
    let paths = |paths: &[PathBuf]| list(&mut paths.iter().filter_map(|path| path.to_str()));
    let Config { caller, uid_min, uid_max, no_new_privs, .. } = config;
    let mut text = format!(
        "caller = '{caller}'\nuid_min = {uid_min}\nuid_max = {uid_max}\nno_new_privs = {no_new_privs}\n"
    );
    if let Some(allow) = &config.allow {
        let _ = writeln!(text, "allow = [{}]", names(allow));
    }
    let _ = writeln!(text, "deny = [{}]\nend_only = [{}]", names(&config.deny), names(&config.end_only));
    let _ =
        writeln!(text, "folders = [{}]\nprograms = [{}]", paths(&config.folders), paths(&config.programs));
    text
}
