//! Sysroots made on the spot, and what is wrong with them.

use super::*;
use crate::elf::tiny_library;
use crate::failure::kind_of;

/// A finished sysroot with one library, of `of`.
fn with_library(of: &Target, target: &Target) -> (tempfile::TempDir, Result<Receipt>) {
    let folder = tempfile::tempdir().unwrap();
    let libraries = folder.path().join("root/usr/lib/x");
    fs::create_dir_all(&libraries).unwrap();
    fs::write(libraries.join("libz.so.1"), tiny_library(of)).unwrap();
    fs::write(libraries.join("libc.so"), "GROUP ( /usr/lib/x/libc.so.6 )").unwrap();
    let finished = finish(folder.path(), target, Vec::new());
    (folder, finished)
}

#[test]
fn every_target_takes_its_own_libraries_and_no_others() {
    let all: Vec<Target> = Target::names().unwrap().iter().map(|name| Target::load(name).unwrap()).collect();
    for target in &all {
        for of in &all {
            let (folder, finished) = with_library(of, target);
            if of.name == target.name {
                finished.unwrap();
                let list = fs::read_to_string(folder.path().join("files.txt")).unwrap();
                assert_eq!(list, "usr/lib/x/libc.so\nusr/lib/x/libz.so.1\n");
                continue;
            }
            let error = finished.err().unwrap();
            assert_eq!(kind_of(&error), Some(Kind::VerificationFailed));
            assert!(error.to_string().contains("usr/lib/x/libz.so.1 is "), "{error}");
        }
    }
}

#[test]
fn a_library_that_was_replaced_by_another_byte_orders_is_found_later() {
    let target = Target::load(&Target::names().unwrap()[0]).unwrap();
    let (folder, finished) = with_library(&target, &target);
    finished.unwrap();
    let loader = folder.path().join("root").join(&target.elf.loader);
    fs::create_dir_all(loader.parent().unwrap()).unwrap();
    fs::write(&loader, "").unwrap();
    check_complete(folder.path(), &target).unwrap();
    let mut other = target.clone();
    other.byte_order = match target.byte_order {
        target::ByteOrder::Big => target::ByteOrder::Little,
        target::ByteOrder::Little => target::ByteOrder::Big,
    };
    fs::write(folder.path().join("root/usr/lib/x/libz.so.1"), tiny_library(&other)).unwrap();
    let message = check_complete(folder.path(), &target).unwrap_err().to_string();
    let expected = format!("is {} endian, must be {}", other.byte_order.name(), target.byte_order.name());
    assert!(message.contains(&expected) && message.contains("--renew"), "{message}");
    fs::remove_file(folder.path().join("root/usr/lib/x/libz.so.1")).unwrap();
    let error = check_complete(folder.path(), &target).unwrap_err();
    assert_eq!(kind_of(&error), Some(Kind::SysrootIncomplete));
}

#[test]
fn of_a_built_library_only_what_compilers_and_loaders_look_at_is_added() {
    let folder = tempfile::tempdir().unwrap();
    let (built, root) = (folder.path().join("built"), folder.path().join("root"));
    for name in ["usr/lib/x", "usr/include", "usr/bin", "usr/share/man", "etc"] {
        fs::create_dir_all(built.join(name)).unwrap();
        fs::write(built.join(name).join("file"), "").unwrap();
    }
    symlink("file", built.join("usr/lib/x/link")).unwrap();
    add(&built, &root).unwrap();
    assert_eq!(tree::settle(&root).unwrap(), ["usr/include/file", "usr/lib/x/file", "usr/lib/x/link"]);
    assert!(root.join("usr/lib/x/link").is_symlink());
}
