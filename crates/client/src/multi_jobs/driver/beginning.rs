//! Where a multi-job begins, or goes on: with what its folder has.

use std::collections::BTreeMap;
use std::time::Duration;

use pliant_control::multi_job::MultiJob;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::sync::mpsc;

use super::super::folder::{Header, numbers};
use super::super::lookout::PollSchedule;
use super::super::wanted::plan;
use super::super::{Entry, MultiJobWanted, SweepFolder};
use super::{Open, Sweeper, event};
use crate::{Client, FolderError};

impl Sweeper {
    /// A multi-job; one that goes on where it was if the folder has it.
    ///
    /// # Errors
    ///
    /// If the folder is of another one, or cannot be used.
    pub fn new(
        client: &Client,
        wanted: &MultiJobWanted,
        folder: SweepFolder,
    ) -> Result<Sweeper, FolderError> {
        match folder.header()? {
            Some(header) => {
                folder.expect_sweep(&header, wanted)?;
                Sweeper::with(client, header, folder, wanted.patience)
            }
            None => {
                let header = Header::new(&client.user(), wanted, plan(wanted));
                folder.begin(&header)?;
                Sweeper::with(client, header, folder, wanted.patience)
            }
        }
    }

    /// The multi-job of a folder, whatever it is.
    ///
    /// # Errors
    ///
    /// If there is none, or the folder cannot be used.
    pub fn resume(client: &Client, folder: SweepFolder, patience: Duration) -> Result<Sweeper, FolderError> {
        let nothing = || FolderError::Nothing { dir: folder.dir().to_owned() };
        let header = folder.header()?.ok_or_else(nothing)?;
        Sweeper::with(client, header, folder, patience)
    }

    fn with(
        client: &Client,
        header: Header,
        mut folder: SweepFolder,
        patience: Duration,
    ) -> Result<Sweeper, FolderError> {
        folder.expect_user(&header, &client.user())?;
        let mut machine = MultiJob::new(header.plan.clone());
        let mut packs: BTreeMap<u32, Open> = BTreeMap::new();
        let mut rng = ChaCha8Rng::seed_from_u64(header.seed);
        // What follows from the past was carried out in the past.
        let mut carried_out = Vec::new();
        let mut accepted = false;
        folder.replay(&header, |_, entry| {
            match &entry {
                Entry::Submitted { pack, server, instances } => {
                    let open = Open {
                        server: server.clone(),
                        instances: numbers(instances),
                        job: None,
                        since: None,
                    };
                    packs.insert(*pack, open);
                }
                Entry::Accepted { pack, job } => {
                    accepted = true;
                    if let Some(open) = packs.get_mut(pack) {
                        open.job = Some(job.clone());
                    }
                }
                Entry::Refused { pack, .. } | Entry::Over { pack, .. } => drop(packs.remove(pack)),
                Entry::Kept { .. } | Entry::Ended { .. } | Entry::Unplaced { .. } | Entry::Cancelled {} => {}
            }
            if let Some(event) = event(entry) {
                machine.on(event, &mut rng, &mut carried_out);
            }
        })?;
        // Drawn anew, and not what an earlier client drew.
        rng.set_stream(u64::from(machine.progress().packs));
        let (heard, hears) = mpsc::channel(64);
        Ok(Sweeper {
            client: client.clone(),
            resumed: machine.progress().packs > 0,
            header,
            machine,
            rng,
            folder,
            patience,
            packs,
            permits: BTreeMap::new(),
            heard,
            hears,
            lookout: PollSchedule::new(),
            accepted,
            attempts: 0,
            refused: BTreeMap::new(),
        })
    }
}
