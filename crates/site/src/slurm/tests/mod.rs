//! What real clusters printed (Slurm 22.05.8, `captured/`) is read as it was meant, and what is asked of them is
//! asked in words.

mod captured;
mod commands;
mod configuration;
mod forgotten;
mod hidden;
mod preemption;
mod requests;
mod states;
