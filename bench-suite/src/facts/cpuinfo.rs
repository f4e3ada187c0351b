//! `/proc/cpuinfo`, which every architecture fills in its own way.

/// The CPU, by whichever field this kernel has.
///
/// POWER says `cpu` and `revision`, x86 `model name`, others `uarch` or `cpu model`.
pub fn model(cpuinfo: &str) -> Option<String> {
    if let (Some(cpu), Some(revision)) = (field(cpuinfo, "cpu"), field(cpuinfo, "revision")) {
        return Some(format!("{cpu}, revision {revision}"));
    }
    let names = ["cpu", "model name", "uarch", "cpu model"];
    names.into_iter().find_map(|name| field(cpuinfo, name)).map(String::from)
}

/// The machine's own name, which POWER's kernels put here. x86 has a `model`, too: a number.
pub fn platform(cpuinfo: &str) -> Option<String> {
    let model = field(cpuinfo, "model")?;
    (!model.bytes().all(|b| b.is_ascii_digit())).then(|| model.to_string())
}

/// The first CPU's frequency: POWER says `clock : 3425.000000MHz`, x86 `cpu MHz : 2596.146`.
pub fn frequency_now_hz(cpuinfo: &str) -> Option<u64> {
    let text = field(cpuinfo, "clock").or_else(|| field(cpuinfo, "cpu MHz"))?;
    let mhz: f64 = text.trim_end_matches("MHz").trim().parse().ok()?;
    // Kernels that do not know it say 0.
    (mhz > 0.0).then_some((mhz * 1e6).round() as u64)
}

/// POWER's time base.
pub fn timebase_hz(cpuinfo: &str) -> Option<u64> {
    field(cpuinfo, "timebase")?.parse().ok()
}

/// The first value of a field; `None` where it is empty.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim_end() == name && !value.trim().is_empty()).then(|| value.trim())
    })
}

#[cfg(test)]
pub const X86: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
                       model name\t: AMD EPYC\nstepping\t: 1\ncpu MHz\t\t: 2596.146\ncache size\t: 1024 KB\n\
                       physical id\t: 0\nsiblings\t: 2\ncore id\t\t: 0\ncpu cores\t: 2\n";
#[cfg(test)]
pub const POWER: &str = "processor\t: 0\ncpu\t\t: POWER8 (architected), altivec supported\n\
                         clock\t\t: 3425.000000MHz\nrevision\t: 2.0 (pvr 004d 0200)\n\n\
                         timebase\t: 512000000\nplatform\t: pSeries\n\
                         model\t\t: IBM pSeries (emulated by qemu)\n\
                         machine\t\t: CHRP IBM pSeries (emulated by qemu)\nMMU\t\t: Hash\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_names_its_cpu_and_frequency() {
        assert_eq!(model(X86).unwrap(), "AMD EPYC");
        assert_eq!(frequency_now_hz(X86), Some(2_596_146_000));
        assert_eq!((timebase_hz(X86), platform(X86)), (None, None));
    }

    #[test]
    fn power_names_them_by_other_fields() {
        let power = "POWER8 (architected), altivec supported, revision 2.0 (pvr 004d 0200)";
        assert_eq!(model(POWER).unwrap(), power);
        assert_eq!(frequency_now_hz(POWER), Some(3_425_000_000));
        assert_eq!(timebase_hz(POWER), Some(512_000_000));
        assert_eq!(platform(POWER).unwrap(), "IBM pSeries (emulated by qemu)");
    }

    #[test]
    fn a_field_that_is_missing_or_empty_is_not_known() {
        assert_eq!(model("processor\t: 0\nmodel name\t:\n"), None);
        assert_eq!(frequency_now_hz("cpu MHz\t\t: 0.000\n"), None);
        assert_eq!(
            (model(""), frequency_now_hz(""), timebase_hz(""), platform("")),
            (None, None, None, None)
        );
    }
}
