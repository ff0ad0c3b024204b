//! Hints for verbs of other systems, and for words that people try.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Failure;

/// Words that are no verbs of Pliant, and the command that does what they mean.
const EQUIVALENTS: [(&str, &str); 57] = [
    // Slurm
    ("sbatch", "pliant submit --script FILE --time TIME"),
    ("srun", "pliant submit --script FILE --time TIME --wait"),
    ("squeue", "pliant queue"),
    ("scancel", "pliant cancel JOB"),
    ("sinfo", "pliant servers"),
    ("sacct", "pliant queue --ended"),
    ("scontrol", "pliant status JOB"),
    ("sprio", "pliant explain JOB"),
    ("sreport", "pliant users"),
    ("sshare", "pliant users"),
    // PBS
    ("qsub", "pliant submit --script FILE --time TIME"),
    ("qstat", "pliant queue"),
    ("qdel", "pliant cancel JOB"),
    ("pbsnodes", "pliant servers"),
    // OAR
    ("oarsub", "pliant submit --script FILE --time TIME"),
    ("oarstat", "pliant queue"),
    ("oardel", "pliant cancel JOB"),
    ("oarnodes", "pliant servers"),
    // LSF
    ("bsub", "pliant submit --script FILE --time TIME"),
    ("bjobs", "pliant queue"),
    ("bkill", "pliant cancel JOB"),
    ("bhosts", "pliant servers"),
    // HTCondor
    ("condor_submit", "pliant submit --script FILE --time TIME"),
    ("condor_q", "pliant queue"),
    ("condor_rm", "pliant cancel JOB"),
    ("condor_status", "pliant servers"),
    ("condor_history", "pliant queue --ended"),
    // HyperQueue and Kubernetes
    ("hq", "pliant submit --script FILE --time TIME"),
    ("kubectl", "pliant queue"),
    ("get", "pliant fetch JOB --out DIR"),
    ("describe", "pliant status JOB"),
    // words for work
    ("run", "pliant submit --script FILE --time TIME --wait"),
    ("list", "pliant queue"),
    ("job", "pliant queue"),
    ("top", "pliant queue"),
    ("history", "pliant queue --ended"),
    ("show", "pliant status JOB"),
    ("info", "pliant status JOB"),
    ("why", "pliant explain JOB"),
    ("cat", "pliant logs JOB"),
    ("output", "pliant logs JOB"),
    ("kill", "pliant cancel JOB"),
    ("delete", "pliant cancel JOB"),
    ("launches", "pliant launch list"),
    ("spawn", "pliant launch spawn LAUNCH --tasks FILE.toml"),
    ("subjobs", "pliant launch subjobs"),
    ("parts", "pliant launch subjobs"),
    // words for the federation
    ("nodes", "pliant servers"),
    ("clusters", "pliant servers"),
    ("services", "pliant servers --services"),
    ("moves", "pliant queue --moves"),
    ("twin", "pliant what-if"),
    ("worth-it", "pliant what-if"),
    ("benefit", "pliant what-if"),
    ("start", "pliant up"),
    ("stop", "pliant down"),
    ("version", "pliant --version"),
];

/// The failure for a word that is no verb, with the command that does what it means as a hint.
pub(crate) fn equivalent(error: &clap::Error) -> Option<Failure> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let (_, command) = EQUIVALENTS.iter().find(|(name, _)| name == given)?;
    let failure = Failure::input(format!("expected a verb of pliant, found `{given}`"));
    Some(failure.hint(format!("`{command}` does that; `pliant --help` lists the verbs")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::command;
    use pliant_request::usage_error::{EQUIVALENT_OPTIONS, equivalent_option};

    #[test]
    fn each_equivalent_is_understood() {
        let valued = |word: &str| match word {
            "TIME" => "10m".to_owned(),
            "JOB" => "lyon.1".to_owned(),
            "LAUNCH" => "master/8f871341dd2655c0fa73cf81cdc3e725".to_owned(),
            word => word.to_owned(),
        };
        for (given, instead) in EQUIVALENTS {
            let parsed = command().try_get_matches_from(instead.split(' ').map(valued));
            let shown = parsed.as_ref().is_err_and(|error| error.kind() == ErrorKind::DisplayVersion);
            assert!(parsed.is_ok() || shown, "{instead}: {}", parsed.unwrap_err());
            let error = command().try_get_matches_from(["pliant", given]).unwrap_err();
            assert!(equivalent(&error).is_some_and(|failure| failure.code == 2), "{given}");
        }
        let unknown = command().try_get_matches_from(["pliant", "sumbit"]).unwrap_err();
        assert!(equivalent(&unknown).is_none());
    }

    #[test]
    fn each_option_is_of_some_verb() {
        let command = command();
        for (given, option) in EQUIVALENT_OPTIONS {
            let mut verbs =
                command.get_subcommands().flat_map(|verb| [verb].into_iter().chain(verb.get_subcommands()));
            assert!(verbs.any(|verb| equivalent_option(verb, given) == Some(option)), "{given}");
        }
    }
}
