//! What each task of the pipeline does.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use serde_json::json;

use crate::film::Film;
use crate::link::{Incoming, Message, Outgoing, accept};
use crate::place::Place;
use crate::{Failure, farm};

/// Is that task, until the film is made.
pub(crate) fn run(place: &Place, film: &Film) -> Result<(), Failure> {
    // All that are upstream come by themselves.
    let mut from = accept(&place.address, place.upstream())?;
    let connect = |(name, address): (&str, &str)| Outgoing::connect(name, &place.address, address);
    let mut to = place.downstream()?.into_iter().map(connect).collect::<Result<Vec<_>, _>>()?;
    let mut only_from = || from.pop().ok_or("expected a task upstream");
    let mut only_to = || to.pop().ok_or("expected a task downstream");
    match place.task.as_str() {
        "source" => source(film, only_to()?),
        "render-emitter" | "encode-emitter" => farm::emit(only_from()?, to),
        "render-collector" | "encode-collector" => {
            let mut to = only_to()?;
            farm::collect(from, |message| to.send(&message))
        }
        "gop" => group(film, only_from()?, only_to()?),
        "sink" => sink(film, only_from()?),
        worker if worker.starts_with("render") => {
            let scratch = Scratch::new(worker)?;
            farm::work(only_from()?, only_to()?, |scene| film.render(&scene.body, &scratch.0))
        }
        _ => farm::work(only_from()?, only_to()?, |group| film.encode(group.number, &group.body)),
    }
}

/// A folder of one task, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(task: &str) -> Result<Scratch, Failure> {
        let path = std::env::temp_dir().join(format!("render-encode-{}-{task}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left lies in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn source(film: &Film, mut to: Outgoing) -> Result<(), Failure> {
    (0..film.frames)
        .try_for_each(|number| to.send(&Message { number, body: film.scene(number).into_bytes() }))
}

/// Makes groups of pictures of what comes in order.
fn group(film: &Film, mut from: Incoming, mut to: Outgoing) -> Result<(), Failure> {
    let mut pictures = Vec::new();
    while let Some(Message { number, body }) = from.receive()? {
        pictures.extend_from_slice(&body);
        let is_last = number + 1 == film.frames;
        if is_last || (number + 1).is_multiple_of(film.gop) {
            to.send(&Message { number: number / film.gop, body: std::mem::take(&mut pictures) })?;
        }
    }
    Ok(())
}

/// Writes the film, and prints the outcome as JSON, which is in a file beside the film as well. The time is from the first scene, or nearly: all tasks are started
/// together.
fn sink(film: &Film, mut from: Incoming) -> Result<(), Failure> {
    let begun = Instant::now();
    let shown = film.out.display();
    let file = File::create(&film.out).map_err(|error| format!("cannot write {shown}: {error}"))?;
    let mut file = BufWriter::new(file);
    let (mut groups, mut bytes) = (0, 0);
    while let Some(Message { body, .. }) = from.receive()? {
        file.write_all(&body).map_err(|error| format!("cannot write {shown}: {error}"))?;
        (groups, bytes) = (groups + 1, bytes + body.len());
    }
    file.flush().map_err(|error| format!("cannot write {shown}: {error}"))?;
    if groups != film.groups() {
        return Err(format!("expected {} groups of pictures, found {groups}", film.groups()).into());
    }
    let seconds = begun.elapsed().as_secs_f64();
    let per_s = f64::from(film.frames) / seconds;
    let summary = json!({ "frames": film.frames, "bytes": bytes, "seconds": seconds, "frames_per_s": per_s });
    let report = film.report();
    std::fs::write(&report, format!("{summary}\n"))
        .map_err(|error| format!("cannot write {}: {error}", report.display()))?;
    println!("{summary}");
    Ok(())
}
