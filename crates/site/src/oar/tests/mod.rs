//! What a real cluster printed (OAR 2.5.9, `captured/`; the commands of jobs and their folders were taken out, and two
//! jobs that were listed a second time, later, got other ids) is read as it was meant, and what is asked of it is asked
//! in words.

mod captured;
mod commands;
