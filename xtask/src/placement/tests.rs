//! Placements that cannot be, placements that were not taken, and real ones.

use super::*;

const FLAGS: Flags = Flags { cpus: "--server-cpus", numa_node: "--numa-node" };

fn list(text: &str) -> CpuList {
    text.parse().unwrap()
}

fn placement(cpus: Option<&str>, numa_node: Option<u32>) -> Placement {
    Placement { cpus: cpus.map(list), numa_node }
}

/// Sixteen CPUs on two nodes and a third of memory only; 15 is not for us.
fn machine() -> Allowed {
    let node =
        |node, cpus: &str| NumaNode { node, cpus: CpuList::of_kernel(cpus).unwrap(), memory_bytes: None };
    Allowed::of(&Facts {
        allowed_cpus: Some(list("0-14")),
        allowed_numa_nodes: Some(list("0,8,252")),
        numa_nodes: Some(vec![node(0, "0-7"), node(4, "16-23"), node(8, "8-15"), node(252, "")]),
        ..Facts::default()
    })
}

fn refused(placement: Placement, allowed: &Allowed) -> String {
    let error = placement.on("ssh:power", FLAGS, allowed).unwrap_err();
    assert_eq!(crate::failure::kind_of(&error), Some(Kind::Usage));
    error.to_string()
}

#[test]
fn a_node_without_cpus_asked_for_means_the_cpus_of_the_node() {
    let found = placement(None, Some(8)).on("local", FLAGS, &machine()).unwrap();
    assert_eq!(found, placement(Some("8-14"), Some(8)));
    // Memory of another node than the CPUs': to be asked for in full.
    let far = placement(Some("0-3"), Some(252));
    assert_eq!(far.on("local", FLAGS, &machine()).unwrap(), far);
    assert_eq!(Placement::default().on("local", FLAGS, &Allowed::default()).unwrap(), Placement::default());
}

#[test]
fn what_a_machine_does_not_allow_is_refused_with_what_it_does() {
    let message = refused(placement(Some("12-16"), None), &machine());
    assert_eq!(
        message,
        "--server-cpus 12-16: ssh:power does not allow CPU 15-16\n  \
         next: choose among the CPUs that it allows: 0-14"
    );
    let message = refused(placement(None, Some(4)), &machine());
    assert!(
        message.contains("--numa-node 4: ssh:power has no such node") && message.contains(": 0,8,252"),
        "{message}"
    );
    assert!(refused(placement(None, Some(252)), &machine()).contains("allows no CPU of that node"));
    let flat = Allowed::of(&Facts { cpus_online: Some(list("0-1")), ..Facts::default() });
    assert!(
        refused(placement(Some("0"), Some(0)), &flat)
            .contains("has no NUMA nodes\n  next: leave --numa-node out")
    );
    assert!(placement(Some("1"), None).on("qemu-system", FLAGS, &flat).is_ok());
}

#[test]
fn a_placement_that_was_not_taken_is_found() {
    let status = "Name:\tmariadbd\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n";
    let bound = "10000000 bind:8 file=/bin/x mapped=48 N8=48 kernelpagesize_kB=64\n7fff0000 interleave:0-8\n";
    assert!(placement(Some("0-7"), Some(8)).differences(status, Some(bound)).is_empty());
    assert!(placement(None, Some(8)).differences(status, Some("1000 bind=static:8 x=1\n")).is_empty());
    assert!(Placement::default().differences("", None).is_empty());
    let wrong = placement(Some("0-3"), Some(0));
    assert_eq!(
        wrong.differences(status, Some(bound)),
        ["CPUs: asked for 0-3, may run on 0-7", "memory: asked for node 0, the policy is bind:8"]
    );
    assert_eq!(
        wrong.differences(status, Some("10000000 default\n"))[1],
        "memory: asked for node 0, the policy is default"
    );
    assert!(wrong.differences("", None).iter().all(|line| line.ends_with("cannot be read")));
}

#[test]
fn a_placed_command_keeps_its_arguments_folder_and_environment() {
    let mut plain = Command::new("/bin/x");
    plain.args(["--a", "b c"]).env("SECRET", "s").env_remove("GONE").current_dir("/tmp");
    let placed = command(&placement(Some("0,2-3"), Some(8)), plain);
    let words: Vec<_> = placed.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    assert_eq!(words, ["place", "--cpus", "0,2-3", "--numa-node", "8", "--", "/bin/x", "--a", "b c"]);
    assert_eq!(placed.get_current_dir(), Some(std::path::Path::new("/tmp")));
    let environment: Vec<_> =
        placed.get_envs().map(|(name, value)| (name.to_owned(), value.is_some())).collect();
    assert_eq!(environment, [("GONE".into(), false), ("SECRET".into(), true)]);
    let untouched = command(&Placement::default(), Command::new("/bin/x"));
    assert_eq!(untouched.get_program(), "/bin/x");
}
