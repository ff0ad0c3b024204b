//! Prints a database of this version as SQL text, as `tests/journal/fixtures/sqlite-v4.sql` has it:
//! `cargo run -q -p pliant-journal --example recorded`
#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a command for developers")]

#[path = "../tests/journal/recorded/records.rs"]
mod records;

use std::error::Error;

use rusqlite::Connection;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut journal = pliant_journal::open_sqlite(folder.path())?;
    records::write(&mut *journal)?;
    drop(journal);
    let connection = Connection::open(folder.path().join("journal.db"))?;
    connection.execute("UPDATE metadata SET id = ?", [records::ID as i64])?;
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    println!("PRAGMA auto_vacuum = {};", number("auto_vacuum")?);
    println!("BEGIN;");
    let mut objects = connection
        .prepare("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")?;
    let objects = objects.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let objects = objects.collect::<Result<Vec<(String, String, String)>, _>>()?;
    for (_, _, sql) in &objects {
        println!("{sql};");
    }
    for (_, table, _) in objects.iter().filter(|(kind, ..)| kind == "table") {
        print_rows(&connection, table)?;
    }
    for name in ["application_id", "user_version"] {
        println!("PRAGMA {name} = {};", number(name)?);
    }
    println!("COMMIT;");
    Ok(())
}

fn print_rows(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    let mut columns = connection.prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
    let columns = columns.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let quoted: Vec<String> = columns.iter().map(|column| format!("quote({column})")).collect();
    let query = format!("SELECT {} FROM {table} ORDER BY rowid", quoted.join(" || ', ' || "));
    let mut rows = connection.prepare(&query)?;
    for row in rows.query_map([], |row| row.get::<_, String>(0))? {
        println!("INSERT INTO {table} ({}) VALUES ({});", columns.join(", "), row?);
    }
    Ok(())
}
