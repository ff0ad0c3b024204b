use std::ffi::OsString;
use std::path::Path;

use pliant_control::listing::CoreLayout;
use pliant_model::{Procs, Resources, Span};
use pliant_policy::alternatives::Alternative;

use crate::batch_system::Submission;
use crate::batch_system::commands::Call;
use crate::oar::call;
use crate::oar::error::failed;
use crate::oar::settings::Settings;

fn words(call: &Call) -> Vec<String> {
    let arguments = call.arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    [call.command.to_owned()].into_iter().chain(arguments).collect()
}

fn size(procs: u32, walltime: i64) -> Alternative {
    Alternative { procs: Procs(procs), walltime: Span(walltime) }
}

#[test]
fn a_job_is_submitted_in_all_of_its_sizes_and_its_command_is_quoted() {
    let program: Vec<OsString> = ["/opt/pliant", "run-job", "/srv/it's; $(here)"].map(OsString::from).into();
    let one = CoreLayout { cores: 1, ..CoreLayout::default() };
    let job = Submission {
        alternatives: &[size(1, 90_061), size(4, 59)],
        held: true,
        ..Submission::new(7, Path::new("/srv/it's; $(here)"), &program, one, Span(90_061))
    };
    let settings = Settings {
        queue: Some("night".to_owned()),
        properties: Some("cluster = 'a'".to_owned()),
        extra: vec!["--type=deploy".to_owned()],
        ..Settings::default()
    };
    assert_eq!(
        words(&call::submit(&settings, "pliant:nancy:7", &job, "/resource_id=1")),
        [
            "oarsub",
            "--name",
            "pliant:nancy:7",
            "--directory",
            "/srv/it's; $(here)",
            "--stdout=batch-output",
            "--stderr=batch-output",
            "--resource",
            "/resource_id=1,walltime=25:01:01",
            "--resource",
            "/resource_id=4,walltime=0:00:59",
            "--hold",
            "--queue=night",
            "--property=cluster = 'a'",
            "--type=deploy",
            r"exec '/opt/pliant' 'run-job' '/srv/it'\''s; $(here)'",
        ]
    );
    let on_nodes = Submission { alternatives: &[], walltime: Span(60), ..job };
    let words = words(&call::submit(&settings, "pliant:nancy:7", &on_nodes, "/network_address=2"));
    assert!(words.contains(&"/network_address=2,walltime=0:01:00".to_owned()), "{words:?}");
}

#[test]
fn licences_need_not_have_the_properties_of_nodes() {
    let property = |licences: &[&str], count: u32| {
        let settings = Settings {
            properties: Some("memnode > 900 OR gpu_count = 2".to_owned()),
            licences: licences.iter().map(ToString::to_string).collect(),
            ..Settings::default()
        };
        let licences = [("matlab".to_owned(), count)].into_iter().filter(|(_, count)| *count > 0).collect();
        let resources = Resources { licences, ..Resources::default() };
        let one = CoreLayout { cores: 1, ..CoreLayout::default() };
        let job = Submission {
            resources: Some(&resources),
            ..Submission::new(7, Path::new("/srv"), &[], one, Span(60))
        };
        let submitted = words(&call::submit(&settings, "pliant:nancy:7", &job, "/resource_id=1"));
        let property = submitted.iter().find_map(|word| word.strip_prefix("--property=")).unwrap().to_owned();
        (property, words(&call::resources(&settings)).pop().unwrap())
    };
    let plain = "memnode > 900 OR gpu_count = 2".to_owned();
    let with_licences = "(memnode > 900 OR gpu_count = 2) OR type IN ('matlab', 'ansys')".to_owned();
    assert_eq!(property(&[], 0), (plain.clone(), plain.clone()));
    assert_eq!(property(&["matlab", "ansys"], 0), (plain, with_licences.clone()), "the job needs none");
    assert_eq!(property(&["matlab", "ansys"], 1), (with_licences.clone(), with_licences));
    assert_eq!(words(&call::resources(&Settings::default())), ["oarnodes", "--json"]);
}

#[test]
fn conditions_of_sql() {
    let condition = |call: &Call| words(call).pop().unwrap_or_default();
    let named = call::named(&["pliant:a:1".to_owned(), "it's".to_owned()]);
    assert_eq!(condition(&call::jobs(&named)), "job_name IN ('pliant:a:1', 'it''s')");
    assert_eq!(condition(&call::jobs(&call::with_ids(&["1", "22"]))), "job_id IN (1, 22)");
    assert_eq!(
        call::present("pliant:a:", 1000),
        "state NOT IN ('Terminated', 'Error') OR (job_name LIKE 'pliant:a:%' AND (stop_time >= 1000 OR \
         submission_time >= 1000))"
    );
}

#[test]
fn what_commands_say_when_they_fail() {
    let check = |command, code, said: &str, passes: bool, expected: &str| {
        let error = failed(&Call::new(command, &[]), code, said);
        assert_eq!((error.may_pass(), error.to_string().as_str()), (passes, expected), "{said}");
    };
    check(
        "oarsub",
        9,
        "[ERROR] Cannot connect to executor 127.0.0.1:6666. Job is killed.\n",
        true,
        "oar does not answer oarsub: [ERROR] Cannot connect to executor 127.0.0.1:6666. Job is killed.",
    );
    check(
        "oarstat",
        25,
        "DB connection error, exiting.\n",
        true,
        "oar does not answer oarstat: DB connection error, exiting.",
    );
    check("oardel", 2, "", true, "oar does not answer oardel: nothing on its standard error");
    check(
        "oarsub",
        8,
        "There are not enough resources for your request\n[ERROR] Oarsub failed, please verify your request syntax.\n",
        false,
        "oar refuses oarsub: There are not enough resources for your request",
    );
    check(
        "oarsub",
        254,
        "[ADMISSION RULE] root and oar users are not allowed to submit jobs.\n",
        false,
        "oar refuses oarsub: [ADMISSION RULE] root and oar users are not allowed to submit jobs.",
    );
    check(
        "oarhold",
        1,
        "/!\\ Cannot hold 1 : the job is not in the right state (try '-r' option).\n",
        false,
        r"oar refuses oarhold: /!\\ Cannot hold 1 : the job is not in the right state (try \'-r\' option).",
    );
}

#[test]
fn settings_that_cannot_be() {
    let check = |change: fn(&mut Settings), expected: &str| {
        let mut settings = Settings::default();
        change(&mut settings);
        let found = settings.check().map_or_else(|error| error.to_string(), |()| "good".to_owned());
        assert!(found.starts_with(expected), "{found}");
    };
    check(|_| {}, "good");
    check(|settings| settings.extra.push("--type=night".to_owned()), "good");
    check(|settings| settings.queue = Some("a b".to_owned()), "`queue`: expected a name without spaces");
    check(|settings| settings.project = Some(String::new()), "`project`");
    check(|settings| settings.properties = Some(" ".to_owned()), "`properties`");
    check(|settings| settings.extra.push("-t".to_owned()), "`extra`: expected long options");
    check(|settings| settings.extra.push("--reso=a".to_owned()), "`extra`: expected options that pliant");
    check(|settings| settings.deadline_s = 1, "`deadline_s`: expected 2 to 600, found `1`");
    check(|settings| settings.period_s = 0, "`period_s`");
    check(|settings| settings.nodes_every_s = 86_401, "`nodes_every_s`");
    check(|settings| settings.security_s = 86_401, "`security_s`");
}
