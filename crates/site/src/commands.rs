//! Runs a command of a batch system's, within a deadline and with an output that is bounded.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Where commands are looked for unless a folder is configured.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin";
/// What is taken in of its standard output: a job takes a few hundred bytes to two kilobytes in a listing.
pub(crate) const OUTPUT_LIMIT: usize = 256 << 20;
const COMPLAINT_LIMIT: usize = 64 << 10;
/// How many commands run at once: after a restart, or behind a controller that hangs, there is one to do for every job.
pub(crate) const AT_ONCE: usize = 8;

/// A command that has come to its end. Bytes that are no text are replaced.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Why a command did not come to its end.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// It cannot be started, or read from.
    Failed(io::Error),
    /// It took too long, and was killed.
    Silent,
    /// It printed more than is taken in.
    TooLong,
}

/// Runs a command to its end. One that takes too long, or whose caller has gone, is killed.
pub(crate) async fn run(
    mut command: Command,
    input: &[u8],
    deadline: Duration,
) -> Result<Finished, Unfinished> {
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(Unfinished::Failed)?;
    let outcome = tokio::time::timeout(deadline, finish(&mut child, input)).await;
    match outcome {
        Ok(result) => result,
        Err(_) => {
            // Waited for, too: it leaves nothing behind.
            let _ = child.kill().await;
            Err(Unfinished::Silent)
        }
    }
}

async fn finish(child: &mut Child, input: &[u8]) -> Result<Finished, Unfinished> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read it says on its standard error why.
            let _ = stdin.write_all(input).await;
        }
        Ok(())
    };
    let (_, stdout, stderr) =
        tokio::try_join!(write, read(stdout, OUTPUT_LIMIT), read(stderr, COMPLAINT_LIMIT))
            .map_err(Unfinished::Failed)?;
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        let _ = child.kill().await;
        return Err(Unfinished::TooLong);
    };
    let status = child.wait().await.map_err(Unfinished::Failed)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) })
}

/// All that comes; none if that is more than `limit`.
async fn read(from: Option<impl AsyncRead + Unpin>, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
    }
    Ok((bytes.len() <= limit).then_some(bytes))
}
