//! Finds libtakt_c in TAKT_LIB_DIR, in this crate, or by pkg-config, in this order. A packaged crate has archives that
//! include the C++ runtime. In other folders the archive is preferred, so that a program needs no shared library of takt
//! at run time.
use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=TAKT_LIB_DIR");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    let own = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default())
        .join("lib")
        .join(env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-changed=lib");
    if env::var_os("TAKT_LIB_DIR").is_none() && own.join("libtakt_c.a").exists() {
        link(&own, "static=takt_c", "libtakt_c.a");
        println!("cargo::rustc-link-lib=m");
        return;
    }
    let folders = match env::var_os("TAKT_LIB_DIR") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => pkg_config::Config::new()
            .cargo_metadata(false)
            .probe("takt_c")
            .map(|library| library.link_paths)
            .unwrap_or_default(),
    };
    let holds = |name: &str| folders.iter().find(|folder| folder.join(name).exists());
    if let Some(folder) = holds("libtakt_c.a") {
        link(folder, "static=takt_c", "libtakt_c.a");
        println!("cargo::rustc-link-lib=stdc++");
        println!("cargo::rustc-link-lib=m");
    } else if let Some(folder) = holds("libtakt_c.so").or(holds("libtakt_c.dylib")) {
        link(folder, "takt_c", "libtakt_c.so");
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.display());
    } else {
        println!(
            "cargo::error=libtakt_c was not found {}; set TAKT_LIB_DIR to the folder of libtakt_c.a (build/release/lib \
             after `cmake --preset release && cmake --build --preset release --target takt_c_archive`), or install \
             takt so that pkg-config finds takt_c",
            match env::var("TAKT_LIB_DIR") {
                Ok(folder) => format!("in TAKT_LIB_DIR={folder}"),
                Err(_) => "by pkg-config".to_string(),
            }
        );
    }
}

fn link(folder: &Path, library: &str, file: &str) {
    println!("cargo::rerun-if-changed={}", folder.join(file).display());
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib={library}");
}
