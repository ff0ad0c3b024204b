//! Applications whose tasks communicate over TCP, and what is left of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pliant_control::coallocation::{Application, Mapping, TaskEdge, TaskSpec};
use pliant_model::Span;
use pliant_wire::{LaunchRequest, Program};
use rustix::process::Pid;

use crate::harness::fresh_key;

/// A task: it listens at its address, sends its name to all of its neighbours, receives as many names, records them, waits
/// for its gate, and ends with a code.
const TALKER: &str = r#"#!/usr/bin/perl
use strict;
use warnings;
use IO::Socket::INET;
my ($folder, $gate, $expects, $code) = @ARGV;
my ($task, %peers) = ($ENV{PLIANT_TASK}, map { split /=/, $_, 2 } split ' ', $ENV{PLIANT_PEERS});
sub note { my ($name, $text) = @_; open(my $file, '>>', "$folder/$name") or die; syswrite($file, "$text\n"); }
note('began', $task);
my $own = IO::Socket::INET->new(LocalAddr => $ENV{PLIANT_ADDRESS}, Listen => 64, ReuseAddr => 1)
    or die "cannot listen at $ENV{PLIANT_ADDRESS}: $!";
for my $name (sort keys %peers) {
    my $there;
    select(undef, undef, undef, 0.05) until $there = IO::Socket::INET->new(PeerAddr => $peers{$name});
    print {$there} "$task\n";
}
my @received;
$expects = keys %peers if $expects eq 'all';
while (@received < $expects) {
    my $from = $own->accept or next;
    my $name = <$from>;
    chomp $name;
    push @received, $name;
}
note("$task.received", join(' ', sort @received));
select(undef, undef, undef, 0.05) until -e $gate;
note('ended', $task);
exit $code;
"#;

/// The edges of a ring of so many tasks, each once.
fn in_a_ring(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).map(move |at| (at, (at + 1) % count)).take(if count > 2 { count } else { count - 1 })
}

/// Two tasks with an edge, in a file for the command.
fn edge_table(between: [&str; 2]) -> String {
    format!("[[edge]]\nbetween = {between:?}\nrqoc = 1.0\n")
}

/// The folder that the tasks of one launch share.
pub(super) struct Talkers {
    pub(super) folder: PathBuf,
}

impl Talkers {
    pub(super) fn new(folder: PathBuf) -> Talkers {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("talk.pl"), TALKER).unwrap();
        Talkers { folder }
    }

    fn gate(&self, task: &str) -> PathBuf {
        self.folder.join(format!("gate-{task}"))
    }

    /// The words of a task: it hears so many, and ends with that code.
    pub(super) fn words(&self, task: &str, hears: &str, code: i32) -> Vec<String> {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        vec![path(&self.folder), path(&self.gate(task)), hears.to_owned(), code.to_string()]
    }

    /// A task that ends with that code.
    pub(super) fn task(&self, name: &str, hears: &str, code: i32) -> TaskSpec {
        let program = Program::Script {
            name: "talk.pl".to_owned(),
            text: TALKER.into(),
            arguments: self.words(name, hears, code),
        };
        TaskSpec { name: name.to_owned(), rcr: 1.0, payload: program.payload() }
    }

    /// Tasks in a ring, that end with these codes.
    pub(super) fn ring(&self, mcr_mflops: f64, codes: &[(&str, i32)]) -> LaunchRequest {
        let tasks: Vec<TaskSpec> = codes.iter().map(|(name, code)| self.task(name, "all", *code)).collect();
        let edge = |(at, next): (usize, usize)| TaskEdge { between: [at as u32, next as u32], rqoc: 1.0 };
        let edges = in_a_ring(tasks.len()).map(edge).collect();
        LaunchRequest {
            key: fresh_key(),
            name: "ring".to_owned(),
            application: Application { mcr_mflops, bandwidth_mbps: None, tasks, edges },
            walltime: Span(600),
            timeout: Span(45),
            user_lan: None,
            threshold: None,
            mapping: Mapping::Wase,
            dry_run: false,
            signed: None,
        }
    }

    /// The same as a file, for the command.
    pub(super) fn ring_file(&self, mcr_mflops: f64, codes: &[(&str, i32)]) -> PathBuf {
        let mut text = format!("mcr_mflops = {mcr_mflops:?}\n");
        codes.iter().for_each(|(name, code)| text += &self.task_table(name, "all", *code));
        in_a_ring(codes.len()).for_each(|(at, next)| text += &edge_table([codes[at].0, codes[next].0]));
        self.file("ring.toml", &text)
    }

    /// Tasks that join those that run, as a file for the command: how many messages each expects, and the edges.
    pub(super) fn joining_file(&self, hears: &[(&str, &str)], edges: &[[&str; 2]]) -> PathBuf {
        let tasks = hears.iter().map(|(name, hears)| self.task_table(name, hears, 0));
        let text: String = tasks.chain(edges.iter().copied().map(edge_table)).collect();
        self.file("joining.toml", &text)
    }

    /// A task in such a file.
    fn task_table(&self, name: &str, hears: &str, code: i32) -> String {
        let words = self.words(name, hears, code);
        format!("[[task]]\nname = \"{name}\"\nrcr = 1.0\nscript = \"talk.pl\"\narguments = {words:?}\n")
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Lets a task end.
    pub(super) fn open(&self, task: &str) {
        fs::write(self.gate(task), "").unwrap();
    }

    /// How often each task began.
    pub(super) fn began(&self) -> BTreeMap<String, u32> {
        crate::harness::runs(&self.folder.join("began"))
    }

    /// The names that a task has received, once it has all.
    pub(super) fn received(&self, task: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.join(format!("{task}.received"))).ok()?;
        text.strip_suffix('\n').map(str::to_owned)
    }

    /// The processes of tasks that run.
    pub(super) fn alive(&self) -> Vec<Pid> {
        let marks = self.folder.to_str().unwrap().to_owned();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let runs = |entry: fs::DirEntry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let words = fs::read(entry.path().join("cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).into_owned();
            let is_one = words.contains(&marks) && words.split('\0').any(|word| word.ends_with("perl"));
            Pid::from_raw(pid).filter(|_| is_one)
        };
        processes.filter_map(runs).collect()
    }
}
