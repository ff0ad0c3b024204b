//! The protocol as lines of text, one per field, enum value, method and reserved number.

use std::fmt::Write;
use std::path::Path;

use protox::prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, MessageDescriptor};

/// The files whose definitions are the protocol.
const FILES: &[&str] =
    &["pliant/v1/agent.proto", "pliant/v1/server.proto", "pliant/v1/launch.proto", "pliant/v1/link.proto"];

/// The protocol in the folder `proto` of this checkout.
///
/// # Panics
///
/// If it does not compile.
pub(crate) fn current() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let files = protox::compile(FILES, [folder]).expect("the protocol compiles: the crate was built with it");
    let pool = DescriptorPool::from_file_descriptor_set(files).expect("compiled files are complete");
    text(&pool)
}

/// All definitions of the package `pliant`, in order of their names and numbers.
fn text(pool: &DescriptorPool) -> String {
    let mut messages: Vec<_> =
        pool.all_messages().filter(|found| found.package_name().starts_with("pliant")).collect();
    messages.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    let mut enums: Vec<_> =
        pool.all_enums().filter(|found| found.package_name().starts_with("pliant")).collect();
    enums.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    let mut text = String::new();
    messages.iter().for_each(|message| message_lines(message, &mut text));
    enums.iter().for_each(|found| enum_lines(found, &mut text));
    method_lines(pool, &mut text);
    text
}

fn message_lines(message: &MessageDescriptor, text: &mut String) {
    let name = message.full_name();
    for field in message.fields() {
        let label = label(&field);
        line(text, &format!("field {name} {} {} {label}{:?}", field.number(), field.name(), field.kind()));
    }
    for number in message.reserved_ranges().flatten() {
        line(text, &format!("reserved {name} {number}"));
    }
}

/// How often a field may occur. Its presence and the fields that exclude it are part of what a reader expects.
fn label(field: &FieldDescriptor) -> String {
    match field.containing_oneof() {
        Some(group) if !group.is_synthetic() => format!("oneof {} ", group.name()),
        Some(_) => "optional ".to_owned(),
        None if field.is_map() => "map ".to_owned(),
        None if field.is_list() => "repeated ".to_owned(),
        None => String::new(),
    }
}

fn enum_lines(found: &EnumDescriptor, text: &mut String) {
    let name = found.full_name();
    for value in found.values() {
        line(text, &format!("value {name} {} {}", value.number(), value.name()));
    }
    for number in found.reserved_ranges().flatten() {
        line(text, &format!("reserved {name} {number}"));
    }
}

fn method_lines(pool: &DescriptorPool, text: &mut String) {
    let mut methods: Vec<_> =
        pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
    methods.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    for method in methods {
        let stream = |is_stream| if is_stream { "stream " } else { "" };
        let (input, output) = (method.input(), method.output());
        let input = format!("{}{}", stream(method.is_client_streaming()), input.full_name());
        let output = format!("{}{}", stream(method.is_server_streaming()), output.full_name());
        line(text, &format!("rpc {} {input} -> {output}", method.full_name()));
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes any text");
}
