//! `schedule.swf`: the schedule in the Standard Workload Format 2.2 (Chapin et al. 1999), so that
//! tools of the field can read it. The partition is the cluster's number from 1.

use std::io::{self, Write};

use pliant_model::Run;

/// Writes it, in the order of the workload.
pub(super) fn write(out: &mut impl Write, run: &Run) -> io::Result<()> {
    header(out, run)?;
    let mut line = Vec::with_capacity(160);
    let mut digits = itoa::Buffer::new();
    for job in &run.jobs {
        let procs = i64::from(job.procs.0);
        let partition = i64::from(job.cluster.0) + 1;
        line.clear();
        line.extend_from_slice(digits.format(job.log_id).as_bytes());
        let fields =
            [job.submit.0, job.wait().0, job.runtime().0, procs, -1, -1, procs, job.walltime.0, -1, 1];
        // User, group, executable and queue are not kept by a run; then partition, preceding job, think time.
        for value in fields.into_iter().chain([-1, -1, -1, -1, partition, -1, -1]) {
            line.push(b' ');
            line.extend_from_slice(digits.format(value).as_bytes());
        }
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

fn header(out: &mut impl Write, run: &Run) -> io::Result<()> {
    let clusters = run.platform.clusters();
    let end = run.jobs.iter().map(|job| job.end.0).max().unwrap_or(0);
    writeln!(out, "; Version: 2.2")?;
    writeln!(out, "; Computer: {} clusters scheduled by Pliant", clusters.len())?;
    writeln!(out, "; Acknowledge: written by pliant, times are seconds since the first submission")?;
    writeln!(out, "; MaxJobs: {}", run.jobs.len())?;
    writeln!(out, "; MaxRecords: {}", run.jobs.len())?;
    writeln!(out, "; Preemption: No")?;
    writeln!(out, "; UnixStartTime: 0")?;
    writeln!(out, "; TimeZoneString: UTC")?;
    writeln!(out, "; MaxNodes: {}", run.platform.total_procs())?;
    writeln!(out, "; MaxProcs: {}", run.platform.total_procs())?;
    writeln!(out, "; Note: the last job ends at {end}")?;
    writeln!(out, "; MaxPartitions: {}", clusters.len())?;
    for (index, cluster) in clusters.iter().enumerate() {
        let (number, name, procs, speed) = (index + 1, &cluster.name, cluster.procs, cluster.speed.get());
        writeln!(
            out,
            "; Partition: {number} {name}, {procs} processors, speed {speed}, {}",
            one_line(&cluster.batch)
        )?;
    }
    Ok(())
}

/// A name without anything that would end the header line.
fn one_line(name: &str) -> String {
    name.replace(|letter: char| letter.is_control(), " ")
}
