//! What the film shows, and the programs that make it: POV-Ray renders a frame, FFmpeg encodes a group of pictures.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::Failure;

/// Pictures per second.
const RATE: u32 = 25;

/// The film to be made: the same for every task.
#[derive(Args, Clone)]
pub(crate) struct Film {
    /// How many frames.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) frames: u32,
    /// Of a frame, in pixels; the height is three quarters of it.
    #[arg(long, default_value_t = 320, value_parser = clap::value_parser!(u32).range(16..=3840))]
    pub(crate) width: u32,
    /// Frames of a group of pictures, which are encoded together.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=250))]
    pub(crate) gop: u32,
    /// Where the sink writes the film, as an MPEG transport stream.
    #[arg(long, default_value = "film.ts")]
    pub(crate) out: PathBuf,
}

impl Film {
    /// What the sink says of the film, as JSON beside it.
    pub(crate) fn report(&self) -> PathBuf {
        self.out.with_extension("json")
    }

    /// Of a frame, in pixels; even, as encoders want it.
    pub(crate) fn size(&self) -> (u32, u32) {
        (self.width / 2 * 2, (self.width * 3 / 4) / 2 * 2)
    }

    /// How many groups of pictures there are.
    pub(crate) fn groups(&self) -> u32 {
        self.frames.div_ceil(self.gop)
    }

    /// The scene of a frame: a ball that circles a column on a chequered floor, once in the film.
    pub(crate) fn scene(&self, frame: u32) -> String {
        let turn = f64::from(frame) / f64::from(self.frames) * std::f64::consts::TAU;
        let (x, z) = (3.0 * turn.cos(), 3.0 * turn.sin());
        let y = 1.0 + (3.0 * turn).sin().abs();
        format!(
            "#version 3.7;\n\
             global_settings {{ assumed_gamma 1 }}\n\
             camera {{ location <0, 4, -9> look_at <0, 1, 0> }}\n\
             light_source {{ <8, 12, -8> rgb 1 area_light <2, 0, 0>, <0, 2, 0>, 3, 3 }}\n\
             background {{ rgb <0.6, 0.75, 0.9> }}\n\
             plane {{ y, 0 pigment {{ checker rgb 0.9, rgb 0.3 }} finish {{ reflection 0.15 }} }}\n\
             cylinder {{ <0, 0, 0>, <0, 3, 0>, 0.7 pigment {{ rgb <0.8, 0.5, 0.2> }} finish {{ phong 0.6 }} }}\n\
             sphere {{ <{x:.4}, {y:.4}, {z:.4}>, 1 pigment {{ rgb <0.2, 0.4, 0.8> }} finish {{ phong 0.9 reflection 0.3 }} }}\n"
        )
    }

    /// Renders a scene, to a picture as PPM.
    pub(crate) fn render(&self, scene: &[u8], scratch: &Path) -> Result<Vec<u8>, Failure> {
        let file = scratch.join("scene.pov");
        std::fs::write(&file, scene)?;
        let (width, height) = self.size();
        let mut command = Command::new("povray");
        command.arg(format!("+I{}", file.display())).args(["+O-", "+FP8", "-D", "+A", "+WT1"]);
        command.args([format!("+W{width}"), format!("+H{height}")]);
        let picture = run(&mut command, &[])?;
        let expected = picture.starts_with(b"P6");
        if !expected {
            let found = String::from_utf8_lossy(&picture[..picture.len().min(16)]).into_owned();
            return Err(format!("expected a PPM picture of POV-Ray, found {found:?}").into());
        }
        Ok(picture)
    }

    /// Encodes a group of pictures, one PPM after the other, to a piece of an MPEG transport stream.
    pub(crate) fn encode(&self, group: u32, pictures: &[u8]) -> Result<Vec<u8>, Failure> {
        let begins_s = f64::from(group * self.gop) / f64::from(RATE);
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-nostdin", "-f", "image2pipe", "-c:v", "ppm"]);
        command.args(["-framerate", &RATE.to_string(), "-i", "-"]);
        command.args(["-c:v", "mpeg4", "-q:v", "4", "-g", &self.gop.to_string(), "-threads", "1"]);
        command.args(["-output_ts_offset", &format!("{begins_s:.3}"), "-f", "mpegts", "-"]);
        run(&mut command, pictures)
    }
}

/// Runs a program to its end: what it writes when it is given that.
fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| format!("expected {name} on this machine ({error}): install it"))?;
    let (mut stdin, mut stdout, mut stderr) =
        match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => (stdin, stdout, stderr),
            _ => return Err(format!("{name} has no pipes").into()),
        };
    let (mut output, mut said) = (Vec::new(), String::new());
    // All at once: a full pipe without a reader stops all processes.
    let read = std::thread::scope(|scope| {
        let write = scope.spawn(move || stdin.write_all(input));
        let listen = scope.spawn(|| stderr.read_to_string(&mut said));
        let read = stdout.read_to_end(&mut output);
        // The exit code says whether it stopped reading.
        drop((write.join(), listen.join()));
        read
    });
    let status = child.wait()?;
    read?;
    if !status.success() {
        let last = said.lines().rev().take(3).collect::<Vec<_>>().join("; ");
        return Err(format!("{name} ended with {status}: {last}").into());
    }
    Ok(output)
}
