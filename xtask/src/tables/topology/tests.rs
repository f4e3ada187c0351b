//! What topologies are refused for, by line, and what becomes of those that are not.

use model::CpuList;
use model::facts::{Facts, NumaNode};

use super::*;
use crate::tables::target::ByteOrder;

fn small() -> String {
    std::fs::read_to_string(folder().join("small.toml")).unwrap()
}

/// What is said of a changed `small`, the file's path cut off.
fn said(from: &str, to: &str) -> String {
    let text = small();
    assert!(text.contains(from), "{from}");
    refusal(&text.replacen(from, to, 1), &here())
}

fn refusal(text: &str, around: &Around) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    std::fs::write(&file, text).unwrap();
    let result = Topology::load(&file.display().to_string()).and_then(|topology| topology.check(around));
    let error = result.expect_err("it is refused");
    assert_eq!(crate::failure::kind_of(&error), Some(Kind::Usage), "{error}");
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

/// A machine with 2 CPUs on the NUMA nodes 0 and 8, and 4 GiB.
fn here() -> Around {
    let cpus = |text: &str| text.parse::<CpuList>().unwrap();
    let node = |node, list| NumaNode { node, cpus: cpus(list), memory_bytes: Some(2 << 30) };
    let facts = Facts {
        allowed_cpus: Some(cpus("0-1")),
        numa_nodes: Some(vec![node(0, "0"), node(8, "1")]),
        memory_bytes: Some(4 << 30),
        ..Facts::default()
    };
    let mut around = Around { on: Some(Name::Local), ..Around::default() };
    around.facts.insert("local".into(), facts);
    around.byte_orders.insert("local".into(), (ByteOrder::Little, "ppc64le".into()));
    around.byte_orders.insert("ssh:big".into(), (ByteOrder::Big, "ppc64".into()));
    around
}

#[test]
fn those_that_ship_can_work() {
    for name in Topology::names().unwrap() {
        Topology::load(&name).unwrap().check(&here()).unwrap();
    }
}

#[test]
fn a_misspelt_key_and_a_misspelt_name_get_the_nearest() {
    let said = said("replicas = 1", "replica = 1");
    assert!(said.contains("line 2") && said.contains("did you mean `replicas`?"), "{said}");
    assert!(Topology::load("nume").unwrap_err().to_string().contains("did you mean numa?"));
}

#[test]
fn node_ids_are_legal_and_given_once() {
    assert!(said("id = 2", "id = 145").contains("t.toml:24: node id 145: a data node's id is 1 to 144"));
    assert!(
        said("id = 2", "id = 1").contains("t.toml:24: node id 1 is given twice: a data node has it already")
    );
    assert!(said("id = 145", "id = 0").contains("node id 0: a management node's id is 1 to 255"));
    assert!(said("first-id = 150", "first-id = 140").contains("node id 145 is given twice"));
    assert!(said("slots = 16", "slots = 200").contains("api slots 150 to 349: ids are 1 to 255"));
}

#[test]
fn data_nodes_are_a_multiple_of_the_replicas() {
    let said = said("replicas = 1", "replicas = 3");
    assert!(
        said.contains("t.toml:2: 2 data nodes cannot be 3 replicas") && said.contains("| replicas = 3"),
        "{said}"
    );
}

#[test]
fn an_arbitrator_on_a_data_nodes_host_must_be_meant() {
    let told = said("replicas = 1", "replicas = 2");
    assert!(told.contains("the arbitrator (node 145) is on this host, as data node 1"), "{told}");
    assert!(told.contains("arbitrator-on-data-host = true"), "{told}");
}

#[test]
fn members_have_one_byte_order() {
    let told = said("id = 2", "id = 2\nmachine = \"ssh:big\"");
    assert!(
        told.contains("t.toml:25: mixed byte order: node 2 on ssh:big is big (ppc64), node 145 is little"),
        "{told}"
    );
}

#[test]
fn emulated_programs_are_on_this_host_as_native_ones_are() {
    let apart = |id: u32, more: &str| {
        small().replace(&format!("id = {id}\n"), &format!("id = {id}\nmachine = \"qemu-user\"\n{more}"))
    };
    let told = refusal(&apart(145, "").replace("replicas = 1", "replicas = 2"), &here());
    assert!(told.contains("the arbitrator (node 145) is on this host, as data node 1"), "{told}");
    let ports = apart(145, "port = 1186\n").replace("id = 1\n", "id = 1\nport = 1186\n");
    assert!(refusal(&ports, &here()).contains("port 1186 is given twice on this host"));
    let told = refusal(&apart(2, "").replace("\"200M\"", "\"2G\""), &here());
    assert!(told.contains("data nodes 1 and 2 need 4.6 GiB on this host, which has 4.0 GiB"), "{told}");
    let file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    std::fs::write(&file, apart(2, "")).unwrap();
    Topology::load(&file.path().display().to_string()).unwrap().check(&here()).unwrap();
}

#[test]
fn nodes_reach_each_other() {
    let told = said("id = 2", "id = 2\nmachine = \"ssh:a\"");
    assert!(
        told.contains("t.toml:25: node 2 on ssh:a and node 145 on local do not reach each other"),
        "{told}"
    );
    let guest = said("id = 2", "id = 2\nmachine = \"qemu-system\"");
    assert!(guest.contains("node 2 on qemu-system and node 145 on local do not reach each other"), "{guest}");
}

#[test]
fn values_are_what_ndb_takes() {
    let told = said("fragment-log-files = 16", "fragment-log-files = 0");
    assert!(told.contains("t.toml:14: `fragment-log-files` is 0: NDB takes 3 to 4294967039"), "{told}");
    let told = said("max-no-of-execution-threads = 2", "max-no-of-execution-threads = 4294967295");
    assert!(
        told.contains("t.toml:11: `max-no-of-execution-threads` is 4294967295: NDB takes 2 to 72"),
        "{told}"
    );
    let told = said("\"200M\"", "\"0\"");
    assert!(told.contains("t.toml:5: `data-memory` is 0: NDB takes 1 MiB to 16.0 TiB"), "{told}");
    let told = said("\"SPARSE\"", "\"BOGUS\"");
    assert!(told.contains("line 16") && told.contains("expected `SPARSE` or `FULL`"), "{told}");
    let told = refusal(&(small() + "\n[limits]\nwatchdog-ms = 0\n"), &here());
    assert!(told.contains("`watchdog-ms` is 0: NDB takes 70 to"), "{told}");
    assert!(said("id = 2", "id = 2\ncpus = \"\"").contains("t.toml:25: no CPU: leave `cpus` out for any"));
}

#[test]
fn what_is_missing_is_in_no_line() {
    assert!(refusal("", &here()).starts_with("t.toml: missing field `description`\n"));
    let without = small().replace("[[data]]\nid = 1\n[[data]]\nid = 2\n", "");
    let told = refusal(&without, &here());
    assert!(told.starts_with("t.toml: missing field `data`\n"), "{told}");
    let told = refusal(&without.replace("replicas = 1", "replicas = 1\ndata = []"), &here());
    assert!(told.starts_with("t.toml: no data node: at least one [[data]] is needed"), "{told}");
}

#[test]
fn a_pipe_is_no_topology() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("t.toml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let told = Topology::load(&pipe.display().to_string()).unwrap_err().to_string();
    assert!(told.contains("t.toml: it is no regular file"), "{told}");
}

#[test]
fn cpus_and_numa_nodes_are_there() {
    let told = said("id = 2", "id = 2\ncpus = \"0-3\"");
    assert!(told.contains("t.toml:25: local has no CPU 2-3") && told.contains("it allows 0-1"), "{told}");
    let told = said("id = 2", "id = 2\nnuma-node = 1");
    assert!(told.contains("t.toml:25: local has no NUMA node 1; it has 0, 8"), "{told}");
}

#[test]
fn the_memory_is_there() {
    let told = said("\"200M\"", "\"4G\"");
    assert!(
        told.contains("t.toml:5: data nodes 1 and 2 need 8.6 GiB on this host, which has 4.0 GiB"),
        "{told}"
    );
    assert!(said("\"200M\"", "\"200 MB\"").contains("is no amount of memory; write it like 200M or 16G"));
}

#[test]
fn ports_are_given_once_on_a_machine() {
    let text =
        small().replace("id = 1\n", "id = 1\nport = 1186\n").replace("id = 145\n", "id = 145\nport = 1186\n");
    assert!(refusal(&text, &here()).contains("port 1186 is given twice on this host: node 145 has it"));
}

#[test]
fn what_follows_from_the_file_is_not_for_config() {
    let told = refusal(&(small() + "\n[config]\nnodeid = 3\n"), &here());
    assert!(told.contains("`NodeId` is not for `config`"), "{told}");
}

#[test]
fn a_parameter_is_one_line_of_config_ini() {
    let told = |line: &str| refusal(&format!("{}\n[config]\n{line}\n", small()), &here());
    let line_end = told("NoOfTables = \"5\\n[ndbd]\"");
    assert!(line_end.contains("the value of `NoOfTables` holds a line end"), "{line_end}");
    assert!(told("\"A\\nB\" = 5").contains("is no parameter's name"));
    assert!(told("NoOfTables = { x = 1 }").contains("`NoOfTables` is one value"));
    let threads = said("[threads]", "[threads]\nthread-config = \"main\\nA=1\"");
    assert!(threads.contains("the value of `ThreadConfig` holds a line end"), "{threads}");
}

#[test]
fn numa_nodes_are_counted_round() {
    let (numa, around) = (Topology::load("numa").unwrap(), here());
    let mut facts = around.facts["local"].clone();
    let of = |facts: &Facts| -> Vec<Option<u32>> {
        numa.data.iter().map(|node| numa_node(node.get_ref(), facts, "local").unwrap()).collect()
    };
    assert_eq!(of(&facts), [Some(0), Some(8)]);
    facts.numa_nodes.as_mut().unwrap().pop();
    assert_eq!(of(&facts), [Some(0), Some(0)]);
    facts.numa_nodes = None;
    let none = numa_node(numa.data[0].get_ref(), &facts, "local").unwrap_err().to_string();
    assert!(none.contains("local has no NUMA nodes"), "{none}");
}

#[test]
fn limits_grow_with_slow_machines_unless_the_file_says_them() {
    let text = small()
        + "\n[limits]\nwatchdog-ms = 7000\n[config]\ntransactiondeadlockdetectiontimeout = 5000\nNoOfTables = 5\n";
    let topology = Topology::parse(Path::new("/t.toml"), &text).unwrap();
    let slow = topology.defaults(10.0);
    let value = |name: &str| slow.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(value("HeartbeatIntervalDbDb"), Some("50000"));
    assert_eq!(value("TimeBetweenWatchDogCheck"), Some("7000"));
    assert_eq!(
        (value("TransactionDeadlockDetectionTimeout"), value("NoOfTables")),
        (Some("5000"), Some("5"))
    );
    let twice =
        small().replace("id = 1\n", "id = 1\nconfig = { nooftables = 6 }\n") + "\n[config]\nNoOfTables = 5\n";
    let topology = Topology::parse(Path::new("/t.toml"), &twice).unwrap();
    let asked: Vec<_> = topology.data.iter().map(|node| topology.asked(node.get_ref(), 1.0)).collect();
    assert_eq!((asked[0].get("nooftables"), asked[0].get("NoOfTables")), (Some(&"6".to_string()), None));
    assert_eq!(asked[1].get("NoOfTables"), Some(&"5".to_string()));
}

#[test]
fn a_slot_of_an_sql_server_places_nothing() {
    let text = small() + "\n[[sql]]\nid = 200\ncpus = \"0\"\n";
    let told = Topology::parse(Path::new("/t.toml"), &text).unwrap_err().to_string();
    assert!(told.contains("nothing is placed there"), "{told}");
    Topology::parse(Path::new("/t.toml"), &(small() + "\n[[sql]]\nid = 200\n")).unwrap();
}

#[test]
fn config_ini_has_a_section_a_node() {
    let topology = Topology::load("numa").unwrap();
    let at: Vec<At> = topology
        .nodes()
        .map(|(_, node)| At {
            id: node.id(),
            host: "127.0.0.1".parse().unwrap(),
            port: (1000 + node.id()).to_string(),
            folder: format!("/d/node-{}", node.id()),
        })
        .collect();
    let ini = topology.config_ini(&at, 1.0);
    assert!(
        ini.contains("[ndb_mgmd]\nNodeId=145\nHostName=127.0.0.1\nPortNumber=1145\nDataDir=/d/node-145\n"),
        "{ini}"
    );
    assert!(
        ini.contains("[ndbd]\nNodeId=2\nHostName=127.0.0.1\nServerPort=1002\nDataDir=/d/node-2\nNuma=0\n"),
        "{ini}"
    );
    assert_eq!(ini.matches("[api]").count(), 64);
    assert_eq!(topology.connect_string(&at), "127.0.0.1:1145");
}
