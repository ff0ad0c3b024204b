//! A library that is compiled here, called with values of each type.

use std::fs;
use std::process::Command;

use super::*;
use pliant_calls::Array;

const LIBRARY: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Numbers of both kinds, in any order, more than there are registers for. */
int mixed(int32_t n, double x, const double *v, float y, int64_t big, unsigned char c, double *sum, int32_t *count,
          int64_t *many, char *text, float *half, int32_t last) {
    *sum = x + y + big + c + last;
    for (int i = 0; i < n; i++) *sum += v[i];
    *count += n;
    for (int i = 0; i < 2 * n; i++) many[i] = i;
    strcat(text, "!");
    *half = y / 2;
    printf("this is no frame\n");
    return 0;
}

int fails(int32_t code) { return code; }

int unterminated(char *text) { memset(text, 'x', 8); return 0; }
"#;

fn library() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("l.c"), folder.path().join("libl.so"));
    fs::write(&source, LIBRARY).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=c99", "-w", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .output();
    let compiled = compiled.unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    (folder, library)
}

#[test]
fn a_function_gets_numbers_of_both_kinds_in_any_order() {
    let (_folder, library) = library();
    let signature: Signature =
        "in int n, in double x, in double v[n], in float y, in long big, in char c, out double sum, \
         inout int count, out long many[2*n], inout string text[16], out float half, in int last"
            .parse()
            .unwrap();
    check(&signature).unwrap();
    let function = Function::load(&library, "mixed").unwrap();
    let arguments = [
        Some(Value::Int(2)),
        Some(Value::Double(0.5)),
        Some(Value::Vector(Array::Double(vec![10.0, 20.0]))),
        Some(Value::Float(0.25)),
        Some(Value::Long(1 << 40)),
        Some(Value::Char(200)),
        None,
        Some(Value::Int(-7)),
        None,
        Some(Value::String("ready".to_owned())),
        None,
        Some(Value::Int(-3)),
    ];
    let answered = answer(&signature, &function, &encode(&arguments).unwrap()).unwrap();
    let results = decode(&answered).unwrap();
    signature.check_results(&arguments, &results).unwrap();
    assert_eq!(results[6], Some(Value::Double(0.5 + 0.25 + (1u64 << 40) as f64 + 200.0 - 3.0 + 30.0)));
    assert_eq!(results[7], Some(Value::Int(-5)));
    assert_eq!(results[8], Some(Value::Vector(Array::Long(vec![0, 1, 2, 3]))));
    assert_eq!(results[10], Some(Value::Float(0.125)));
    assert_eq!(results[9], Some(Value::String("ready!".to_owned())));
}

#[test]
fn failures_are_reported_and_wrong_libraries_refused() {
    let (_folder, library) = library();
    let call = |function: &str, signature: &str, arguments: &[Option<Value>]| {
        let signature: Signature = signature.parse().unwrap();
        let function = Function::load(&library, function).unwrap();
        answer(&signature, &function, &encode(arguments).unwrap())
    };
    assert_eq!(call("fails", "in int code", &[Some(Value::Int(3))]).unwrap_err(), "the function returned 3");
    assert_eq!(
        call("fails", "in int code", &[Some(Value::Long(3))]).unwrap_err(),
        "`code`: expected int, found long"
    );
    let found = call("unterminated", "out string text[8]", &[None]).unwrap_err();
    assert_eq!(found, "`text`: expected a text with a NUL at its end, found another");
    let error = Function::load(&library, "absent").err().unwrap();
    assert!(error.contains(".so: `absent`: "), "{error}");
    assert!(Function::load(Path::new("/nonexistent.so"), "f").is_err());
    let many: Vec<String> = (0..9).map(|number| format!("in double x{number}")).collect();
    let error = check(&many.join(",").parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("8 floating-point numbers by value, found 0 and 9"), "{error}");
}
