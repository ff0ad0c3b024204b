//! The example that the help of each verb ends with.

use clap::Command;

/// Each verb, the words after `pliant`, and its example.
const EXAMPLES: [(&str, &str); 63] = [
    ("submit", "pliant submit --script job.sh --time 10m --speedup amdahl:0.9,16 --out results"),
    ("call", "pliant call product n=2 a=1,2,3,4 b=@matrix.txt"),
    ("sweep", "pliant sweep pi samples=2000000 --vary seed=1..20 --out results"),
    ("explore", "pliant explore pi --min 3 --deadline 8h --vary seed=1..500 --out results"),
    ("launch", "pliant launch app.toml --time 2h --out results"),
    ("launch list", "pliant launch list --last 5"),
    ("launch spawn", "pliant launch spawn master/8f871341dd2655c0fa73cf81cdc3e725 --tasks more.toml"),
    ("launch subjobs", "pliant launch subjobs"),
    ("queue", "pliant queue --ended --last 20"),
    ("status", "pliant status lyon.17"),
    ("explain", "pliant explain lyon.17"),
    ("logs", "pliant logs lyon.17"),
    ("wait", "pliant wait lyon.17 nancy.4"),
    ("fetch", "pliant fetch lyon.17 --out results"),
    ("cancel", "pliant cancel lyon.17"),
    ("resubmit", "pliant resubmit lyon.17"),
    ("web", "pliant web"),
    ("token", "pliant token create --read --for 7d"),
    ("token create", "pliant token create --read --for 7d"),
    ("token revoke", "pliant token revoke"),
    ("servers", "pliant servers --services"),
    ("users", "pliant users"),
    ("reallocate", "pliant reallocate --dry-run --set threshold=5m"),
    ("admin", "pliant admin drain lyon --why maintenance"),
    ("admin drain", "pliant admin drain lyon --why maintenance"),
    ("admin hold", "pliant admin hold lyon.17 --why maintenance"),
    ("admin release", "pliant admin release lyon.17 --why done"),
    ("admin priority", "pliant admin priority lyon.17 highest --why deadline"),
    ("admin ban", "pliant admin ban alice --why stolen-key"),
    ("admin unban", "pliant admin unban alice --why new-key"),
    ("admin limit", "pliant admin limit alice running-jobs=4 processors=none --why exam-week"),
    ("admin backup", "pliant admin backup --state /var/lib/pliant/lyon /mnt/backup/lyon-monday"),
    ("admin forget", "pliant admin forget lyon --why broken-disk"),
    ("admin log", "pliant admin log lyon --lines"),
    ("admin resume", "pliant admin resume lyon --why done"),
    ("what-if", "pliant what-if --since 7d --policy now --policy now,tuner=exact"),
    ("demo", "pliant demo"),
    ("simulate", "pliant simulate --workload site.swf.gz --procs 1024 --batch cbf --out results"),
    ("campaign", "pliant campaign run campaign.toml --out results"),
    ("campaign run", "pliant campaign run campaign.toml --out results"),
    ("campaign merge", "pliant campaign merge shard-1 shard-2 --out results"),
    ("campaign show", "pliant campaign show results"),
    ("trace", "pliant trace info site.swf.gz"),
    ("trace info", "pliant trace info site.swf.gz"),
    ("trace convert", "pliant trace convert site.gwf site.swf.gz"),
    ("trace generate", "pliant trace generate uniform --jobs 1000 --out generated.swf"),
    ("map", "pliant map app.toml --platform grid.toml"),
    ("report", "pliant report results --out report.html"),
    ("policies", "pliant policies"),
    ("up", "pliant up"),
    ("down", "pliant down"),
    ("agent", "pliant agent --config agent.toml"),
    ("server", "pliant server --config server.toml"),
    ("ca", "pliant ca init authority"),
    ("ca init", "pliant ca init authority"),
    ("ca issue", "pliant ca issue --ca authority --out alice user alice"),
    ("ca request", "pliant ca request user alice --out alice"),
    ("ca sign", "pliant ca sign alice-request.pem user alice --ca authority"),
    ("ca install", "pliant ca install user-alice.pem --dir alice --authority ca.pem"),
    ("ca revoke", "pliant ca revoke --ca authority user/alice"),
    ("ca list", "pliant ca list --ca authority"),
    ("ca rollover", "pliant ca rollover begin --ca authority"),
    ("completions", "pliant completions bash"),
];

/// The example of a verb.
pub(crate) fn of(verb: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(name, _)| *name == verb).map(|(_, example)| *example)
}

/// The command with the example of each verb below its help.
pub(crate) fn added(command: Command) -> Command {
    with_example(command, "")
}

/// A command whose verbs have their examples. `path` is empty for `pliant` itself, which shows those of groups.
fn with_example(command: Command, path: &str) -> Command {
    let (header, literal) = (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    let command = match of(path) {
        Some(example) => {
            command.after_help(format!("{header}Example:{header:#}\n  {literal}{example}{literal:#}"))
        }
        None => command,
    };
    names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}").trim_start().to_owned();
        command.mut_subcommand(name, |verb| with_example(verb, &path))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::command_line::command;

    /// The paths of a command's visible verbs, with those of their own verbs.
    fn paths(command: &Command, path: &str, found: &mut BTreeSet<String>) {
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let path = format!("{path} {}", verb.get_name()).trim_start().to_owned();
            paths(verb, &path, found);
            found.insert(path);
        }
    }

    #[test]
    fn every_verb_has_one_example() {
        let mut verbs = BTreeSet::new();
        paths(&command(), "", &mut verbs);
        let listed: BTreeSet<String> = EXAMPLES.iter().map(|(verb, _)| (*verb).to_owned()).collect();
        assert_eq!(listed, verbs);
        assert_eq!(EXAMPLES.len(), verbs.len(), "a verb has two examples");
    }

    #[test]
    fn every_example_is_understood_and_shown_by_its_verb() {
        for (verb, example) in EXAMPLES {
            let words: Vec<&str> = example.split(' ').collect();
            let parsed = command().try_get_matches_from(&words);
            assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            assert!(example.starts_with(&format!("pliant {verb}")), "{example} is no example of {verb}");
            let help = ["pliant"].into_iter().chain(verb.split(' ')).chain(["--help"]);
            let shown = command().try_get_matches_from(help).unwrap_err().to_string();
            assert!(shown.contains(&format!("Example:\n  {example}")), "{verb}:\n{shown}");
        }
    }
}
