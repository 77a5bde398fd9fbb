//! Compares the bindings with the header by a C compiler: every size, offset, number and function.
use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

const BINDINGS: &str = include_str!("../src/bindings.rs");
const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../include/takt/c/takt.h");

/// Returns the text between `start` and `end`, for each occurrence.
fn between<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(move |rest| rest.split(end).next())
}

/// Returns the number before "usize];" in an assertion.
fn number(line: &str) -> &str {
    line.rsplit(" - ").next().and_then(|rest| rest.strip_suffix("usize];")).expect("an assertion")
}

fn assertions() -> (String, usize) {
    let (mut c, mut n) = (String::from("#include <stddef.h>\n#include \"takt/c/takt.h\"\n"), 0);
    // The union of an event has no name in C.
    for line in BINDINGS.lines().map(str::trim).filter(|line| line.starts_with("[\"") && !line.contains("takt_event_u"))
    {
        let told = between(line, "[\"", "\"]").next().expect("a text");
        let (what, of) = told.split_once(" of ").expect("what of which");
        match what {
            "Size" => writeln!(c, "_Static_assert(sizeof({of}) == {}, \"{told}\");", number(line)),
            "Alignment" => writeln!(c, "_Static_assert(_Alignof({of}) == {}, \"{told}\");", number(line)),
            _ => {
                let (of, field) = of.strip_prefix("field: ").and_then(|of| of.split_once("::")).expect("a field");
                writeln!(c, "_Static_assert(offsetof({of}, {field}) == {}, \"{told}\");", number(line))
            }
        }
        .unwrap();
        n += 1;
    }
    for line in BINDINGS.lines().filter(|line| line.starts_with("pub const TAKT_")) {
        let (name, rest) = line["pub const ".len()..].split_once(": ").expect("a type");
        let value = rest.split(" = ").nth(1).and_then(|value| value.strip_suffix(';')).expect("a value");
        writeln!(c, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
        n += 1;
    }
    (c, n)
}

fn compiles(c: &str) -> Result<(), String> {
    let folder = env::temp_dir().join(format!("takt_sys_{}_{}", std::process::id(), c.len()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("agree.c"), c).unwrap();
    let include = Path::new(HEADER).ancestors().nth(3).unwrap();
    let told = Command::new(env::var_os("CC").unwrap_or("cc".into()))
        .args(["-std=c11", "-fsyntax-only", "-I"])
        .args([include, &folder.join("agree.c")])
        .output();
    let _ = std::fs::remove_dir_all(&folder);
    let told = told.expect("a C compiler (cc, or CC)");
    if told.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&told.stderr).into_owned())
    }
}

#[test]
fn sizes_offsets_and_numbers_equal_the_header() {
    let (c, n) = assertions();
    assert!(n > 500, "{n} assertions");
    compiles(&c).unwrap();
    // A wrong size must fail.
    let other = c.replacen("sizeof(takt_error) == 512", "sizeof(takt_error) == 520", 1);
    assert!(other != c && compiles(&other).unwrap_err().contains("Size of takt_error"));
}

#[test]
fn functions_equal_the_header() {
    let header: String = std::fs::read_to_string(HEADER)
        .expect("the header next to the crate")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join(" ");
    let names = |text: &str, start: &str| -> BTreeSet<String> {
        between(text, start, ";")
            .filter_map(|declared| declared.split('(').next()?.split([' ', '*']).next_back().map(str::to_string))
            .collect()
    };
    let (mine, theirs) = (names(BINDINGS, "pub fn "), names(&header, "TAKT_API "));
    assert!(theirs.len() > 60, "{} functions", theirs.len());
    assert_eq!(mine, theirs);
    // Each function has as many arguments as in the header, with pointers at the same positions.
    let shape = |arguments: &str| -> Vec<bool> {
        arguments.split(',').filter(|one| !["", "void"].contains(&one.trim())).map(|one| one.contains('*')).collect()
    };
    for declared in between(&header, "TAKT_API ", ";").filter(|declared| declared.contains('(')) {
        let (before, rest) = declared.split_once('(').unwrap();
        let name = before.split([' ', '*']).next_back().unwrap();
        let (arguments, _) = rest.rsplit_once(')').unwrap();
        let start = format!("pub fn {name}(");
        let bound = between(BINDINGS, &start, ";").next().unwrap();
        let (bound, _) = bound.rsplit_once(')').unwrap();
        assert_eq!(shape(arguments), shape(bound), "{name}");
    }
}

#[test]
fn the_library_has_this_version() {
    // SAFETY: a function without a handle is always safe to call.
    assert_eq!(unsafe { takt_sys::takt_abi_version() }, takt_sys::TAKT_ABI_VERSION);
}
