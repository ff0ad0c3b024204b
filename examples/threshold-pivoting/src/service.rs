//! The description of the service, as a server's file takes it.

use serde_json::json;

use crate::Failure;

/// The text, for the path of this program.
pub(crate) fn run() -> Result<String, Failure> {
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("expected a path of Unicode to this program")?;
    // A text of JSON is one of TOML. Braces of a path are no placeholders.
    let program = json!(program.replace('{', "{{").replace('}', "}}"));
    Ok(format!(
        r#"[[service]]
name = "factorise"
summary = "factorises a sparse system with a pivot threshold"
command = [
    {program}, "solve", "--file={{file}}", "--kind={{kind}}", "--unknowns={{unknowns}}", "--seed={{seed}}",
    "--threshold={{threshold}}", "--point={{point}}",
]
speedup = "rigid:1"
runtime = "10m"

[service.arguments.file]
type = "file"
required = false
summary = "a matrix in Matrix Market's coordinate format, which is sent along"

[service.arguments.kind]
type = "choice"
choices = ["circuit", "convection"]
default = "convection"
summary = "of a matrix that is generated"

[service.arguments.unknowns]
type = "integer"
min = 4
max = 100_000
default = 1_000

[service.arguments.seed]
type = "integer"
min = 0
default = 1

[service.arguments.threshold]
type = "number"
min = 0
max = 1
required = false
summary = "the pivot threshold"

[service.arguments.point]
type = "integer"
min = 0
max = 4_294_967_295
required = false
summary = "its number, in place of the threshold itself""#
    ))
}
