//! Primitives of the products' own sources, as released and as patched: checked on any CPU, timed on a real one.

use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use product_sys::{Variant, variants, zlib_crc32};

use crate::output;

/// Check and time functions of the products' own sources, as released and as patched
#[derive(clap::Args)]
pub struct Args {
    /// Only check that they do what they must; an emulator's times say nothing
    #[arg(long)]
    check: bool,
    /// Seconds for each figure
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// Lengths of checksummed data in bytes: the least that is summed, a redo block, pages.
const LENGTHS: [usize; 6] = [64, 512, 1024, 4096, 16_384, 65_536];
/// Turns of a loop that is timed whole.
const TURNS: u64 = 1000;
/// Longest checksum that is checked at each length and alignment, in bytes.
const CHECKED: usize = 4096;

/// Checks them, then times them.
pub fn run(args: &Args) -> ExitCode {
    let all = variants();
    let [released, patched] = all.as_slice() else {
        output::for_people("bench-suite: this program was built without the products' sources");
        return ExitCode::from(3);
    };
    let wrong = check(released, patched);
    for line in &wrong {
        output::for_people(&format!("bench-suite: {line}"));
    }
    if !wrong.is_empty() {
        return ExitCode::from(4);
    }
    if args.check {
        return print("check\tgood");
    }
    match time(&all, args.seconds).and_then(|folder| rows(folder.path())) {
        Ok(rows) => print(&rows.join("\n")),
        Err(error) => {
            output::for_people(&format!("bench-suite: {error}"));
            ExitCode::from(3)
        }
    }
}

fn print(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{text}");
    ExitCode::SUCCESS
}

/// Bytes of which no two stretches are alike.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(next).collect()
}

/// CRC-32C bit by bit, as its polynomial says.
fn crc32c(data: &[u8]) -> u32 {
    let bit = |crc: u32, _| if crc & 1 == 1 { 0x82f6_3b78 ^ (crc >> 1) } else { crc >> 1 };
    !data.iter().fold(!0_u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

/// What is wrong.
fn check(released: &Variant, patched: &Variant) -> Vec<String> {
    let data = bytes(CHECKED + 16);
    let mut wrong = Vec::new();
    for variant in [released, patched] {
        let name = variant.name;
        if (variant.crc32c)(b"123456789") != 0xe306_9283 {
            wrong.push(format!("{name}: CRC-32C of 123456789 is {:08x}", (variant.crc32c)(b"123456789")));
        }
        let differs = |start: usize, length: usize| {
            let part = &data[start..start + length];
            (variant.crc32c)(part) != (variant.crc32c_table)(part)
        };
        let places = (0..16).flat_map(|start| (0..=CHECKED).map(move |length| (start, length)));
        if let Some((start, length)) = places.into_iter().find(|(start, length)| differs(*start, *length)) {
            wrong.push(format!("{name}: CRC-32C of {length} bytes at alignment {start} is not the table's"));
        }
        let slow = (0..=CHECKED)
            .step_by(97)
            .find(|length| (variant.crc32c)(&data[..*length]) != crc32c(&data[..*length]));
        wrong.extend(slow.map(|length| format!("{name}: CRC-32C of {length} bytes is not the polynomial's")));
        if !(variant.keeps_vector_registers)() {
            wrong.push(format!("{name}: CRC-32C does not keep the vector registers that are its caller's"));
        }
        let sum: u64 = data
            .chunks_exact(4)
            .map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
            .sum();
        if (variant.uint4korr)(&data) != sum {
            wrong.push(format!("{name}: uint4korr does not read little-endian words"));
        }
        let (first, second) = ((variant.timer_nanoseconds)(1), (variant.timer_nanoseconds)(TURNS));
        if first == 0 || second < first {
            wrong.push(format!("{name}: the clock went from {first} to {second} ns"));
        }
    }
    // What is not patched may miss; that is what the patch is for.
    let missed = (patched.store_buffering)(20_000);
    if missed > 0 {
        wrong.push(format!(
            "patched: behind mb(), both threads missed what the other stored, {missed} of 20000 times"
        ));
    }
    wrong
}

/// A loop that is timed whole.
type Loop = fn(&Variant, u64);
/// Something that reads bytes.
type Reader = fn(&Variant, &[u8]);

const LOOPS: [(&str, Loop); 7] = [
    ("mb", |variant, n| (variant.mb)(n)),
    ("rmb", |variant, n| (variant.rmb)(n)),
    ("wmb", |variant, n| (variant.wmb)(n)),
    ("ndb_pause", |variant, n| {
        black_box((variant.ndb_pause)(n));
    }),
    ("innodb_relax", |variant, n| (variant.innodb_relax)(n)),
    ("timer_cycles", |variant, n| {
        black_box((variant.timer_cycles)(n));
    }),
    ("timer_nanoseconds", |variant, n| {
        black_box((variant.timer_nanoseconds)(n));
    }),
];

const READERS: [(&str, Reader); 2] = [
    ("uint4korr", |variant, data| {
        black_box((variant.uint4korr)(data));
    }),
    ("uint8korr", |variant, data| {
        black_box((variant.uint8korr)(data));
    }),
];

/// Times everything; where criterion left its estimates.
fn time(all: &[Variant], seconds: f64) -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let mut criterion = Criterion::default()
        .without_plots()
        .output_directory(folder.path())
        .warm_up_time(Duration::from_secs_f64(seconds / 4.0))
        .measurement_time(Duration::from_secs_f64(seconds));
    let data = bytes(LENGTHS[LENGTHS.len() - 1]);
    checksums(&mut criterion, all, &data);
    for (name, turn) in LOOPS {
        // Where a CPU has no pause there is nothing to time.
        each(
            &mut criterion,
            name,
            TURNS,
            all.iter().filter(|v| name != "ndb_pause" || (v.ndb_pause)(1)),
            |variant| {
                turn(variant, black_box(TURNS));
            },
        );
    }
    for (name, read) in READERS {
        each(&mut criterion, name, CHECKED as u64, all.iter(), |variant| {
            read(variant, black_box(&data[..CHECKED]));
        });
    }
    Ok(folder)
}

fn each<'a>(
    criterion: &mut Criterion,
    name: &str,
    size: u64,
    variants: impl Iterator<Item = &'a Variant>,
    work: impl Fn(&Variant),
) {
    let mut group = criterion.benchmark_group(name);
    for variant in variants {
        group.bench_function(BenchmarkId::new(variant.name, size), |b| b.iter(|| work(variant)));
    }
    group.finish();
}

fn checksums(criterion: &mut Criterion, all: &[Variant], data: &[u8]) {
    let mut group = criterion.benchmark_group("crc32c");
    for length in LENGTHS {
        group.throughput(Throughput::Bytes(length as u64));
        let part = &data[..length];
        for variant in all {
            group.bench_function(BenchmarkId::new(variant.name, length), |b| {
                b.iter(|| (variant.crc32c)(black_box(part)));
            });
        }
        group.bench_function(BenchmarkId::new("zlib", length), |b| b.iter(|| zlib_crc32(black_box(part))));
    }
    group.finish();
}

/// A row a figure: name, size, nanoseconds as released and as patched.
fn rows(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut all = Vec::new();
    let sorted = |path: &Path| -> std::io::Result<Vec<std::path::PathBuf>> {
        let mut all: Vec<_> =
            std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        all.retain(|path| path.is_dir());
        all.sort();
        Ok(all)
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for group in sorted(folder)? {
        for variant in sorted(&group)? {
            for size in sorted(&variant)? {
                let Ok(text) = std::fs::read_to_string(size.join("new/estimates.json")) else { continue };
                let estimates: serde_json::Value = serde_json::from_str(&text)?;
                if let Some(median_ns) = estimates["median"]["point_estimate"].as_f64() {
                    all.push(format!(
                        "{}\t{}\t{}\t{median_ns:.3}",
                        name(&group),
                        name(&size),
                        name(&variant)
                    ));
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_polynomial_gives_the_known_checksum() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
