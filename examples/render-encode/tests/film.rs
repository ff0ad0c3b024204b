//! The whole pipeline on this machine, with the real tools.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::process::{Command, Stdio};

use pliant_testing::{Needed, skip};

const PROGRAM: &str = env!("CARGO_BIN_EXE_render-encode");

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        skip(Needed::Program, &format!("no `{program}`: apt-get install povray ffmpeg"));
    }
    found.is_ok()
}

#[test]
fn a_film_has_its_frames_in_order() {
    if !is_there("povray") || !is_there("ffmpeg") || !is_there("ffprobe") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let film = dir.path().join("film.ts");
    let made = Command::new(PROGRAM)
        .args(["local", "--frames", "23", "--width", "64", "--gop", "5", "--out"])
        .arg(&film)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let output: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(output["frames"], 23);
    let words = "-v error -select_streams v -show_entries frame=pts_time,width,height -of csv=p=0";
    let probed = Command::new("ffprobe").args(words.split(' ')).arg(&film).output().unwrap();
    let probed = String::from_utf8(probed.stdout).unwrap();
    let frames: Vec<&str> = probed.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(frames.len(), 23, "{probed}");
    let time = |line: &&str| {
        line.split(',').find_map(|word| word.parse::<f64>().ok().filter(|at| at.fract() != 0.0))
    };
    let times: Vec<f64> = frames.iter().filter_map(time).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{probed}");
}

#[test]
fn a_task_that_fails_ends_all() {
    if !is_there("povray") || !is_there("ffmpeg") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere/film.ts");
    let mut command = Command::new(PROGRAM);
    command.args(["local", "--frames", "5", "--width", "64", "--out"]).arg(nowhere);
    let made = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&made.stderr);
    assert_eq!(made.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("sink: cannot write") && stderr.contains("task sink ended with"), "{stderr}");
}

#[test]
fn a_task_says_what_it_lacks() {
    let output = Command::new(PROGRAM).arg("task").env_remove("PLIANT_TASK").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("expected PLIANT_TASK in the environment"), "{stderr}");
}
