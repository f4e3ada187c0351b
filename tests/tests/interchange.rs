//! A data folder written on one byte order opens on the other: rows and checksums are compared, both ways.

use std::path::Path;

use portbench_tests::record::bench;
use portbench_tests::{Ended, call};

const LITTLE: (&str, &str) = ("x86_64", "local");
const BIG: (&str, &str) = ("ppc64", "qemu-user");

/// Every kind of value that is stored in bytes of its own order, in engines that have files of their own.
const CREATE: &str = "CREATE DATABASE portbench_interchange; USE portbench_interchange;
CREATE TABLE t_innodb (id INT PRIMARY KEY, i1 TINYINT, i2 SMALLINT UNSIGNED, i3 MEDIUMINT, i8 BIGINT, f FLOAT, d DOUBLE,
  n DECIMAL(30,10), b BIT(33), y YEAR, da DATE, ti TIME(6), dt DATETIME(6), ts TIMESTAMP(3), v VARCHAR(90), bl BLOB,
  e ENUM('a','bb'), s SET('x','y','z'), g POINT, KEY (i2), KEY (d), KEY (v), FULLTEXT (v)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE t_aria LIKE t_innodb; ALTER TABLE t_aria ENGINE=Aria TRANSACTIONAL=1;
CREATE TABLE t_myisam LIKE t_innodb; ALTER TABLE t_myisam ENGINE=MyISAM;
CREATE TABLE t_compressed LIKE t_innodb; ALTER TABLE t_compressed DROP INDEX v_2, ROW_FORMAT=COMPRESSED;";

const TABLES: [&str; 4] = ["t_innodb", "t_aria", "t_myisam", "t_compressed"];

/// Rows of which every byte matters; `first` keeps the keys of several writers apart.
fn insert(first: u32) -> String {
    let mut sql = String::from("SET time_zone='+00:00'; USE portbench_interchange;");
    for table in TABLES {
        sql += &format!(
            "INSERT INTO {table} SELECT {first}+seq, seq-60, seq*521, -seq*70001, seq*72057594037927-1, seq/7,
             -seq*1.1e-200, seq*12345678901.2345678901, seq*16777619, 1901+seq, DATE'1999-12-31'+INTERVAL seq DAY,
             MAKETIME(seq,1,2.345678), TIMESTAMP'2001-02-03 04:05:06.789012'+INTERVAL seq HOUR,
             TIMESTAMP'2011-02-03 04:05:06.789'+INTERVAL seq DAY, CONCAT('\u{df}\u{20ac}\u{1f600} word',seq),
             UNHEX(MD5(seq)), 1+seq%2, 1+seq%7, ST_PointFromText(CONCAT('POINT(',seq,' -1.5)')) FROM (SELECT CAST(seq AS SIGNED) AS seq FROM seq_1_to_100) numbers;"
        );
    }
    sql
}

/// What must be the same wherever it is read.
fn questions() -> String {
    let mut sql = String::from("SET time_zone='+00:00'; USE portbench_interchange;");
    for table in TABLES {
        sql += &format!(
            "SELECT '{table}', id, i1, i2, i3, i8, HEX(f), HEX(d), n, HEX(b), y, da, ti, dt, ts, HEX(v), HEX(bl), e, s, ST_AsText(g)
             FROM {table} ORDER BY id;
             SELECT '{table}', COUNT(*), SUM(CRC32(CONCAT_WS('|',id,i1,i2,i3,i8,n,b+0,y,da,ti,dt,ts,v,HEX(bl),e,s,ST_AsText(g)))) FROM {table};
             SELECT '{table} by index', id FROM {table} WHERE i2 BETWEEN 5210 AND 10420 ORDER BY i2 DESC, id;
             SELECT '{table} by float', id FROM {table} FORCE INDEX (d) WHERE d < -5e-199 ORDER BY d, id;
             SELECT '{table} by text', id FROM {table} FORCE INDEX (v) WHERE v LIKE '\u{df}\u{20ac}\u{1f600} word9%' ORDER BY id;
             CHECKSUM TABLE {table} EXTENDED; CHECK TABLE {table} EXTENDED;"
        );
    }
    sql
}

fn sql(target: &str, machine: &str, data: &Path, text: &str) -> Ended {
    let data = data.display().to_string();
    // What the distribution has is not compiled.
    let from = if target == BIG.0 { "source" } else { "distro" };
    let words = [
        "shell",
        "--target",
        target,
        "--on",
        machine,
        "--from",
        from,
        "--data",
        &data,
        "--sql",
        "--",
        "--batch",
        "--default-character-set=utf8mb4",
        "-e",
        text,
    ];
    call(&words).run().expect_code(0)
}

/// Writes on one, reads on the other; then the other way round, in the same folder.
#[test]
fn what_one_byte_order_wrote_the_other_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    let (little, big) = (LITTLE, BIG);
    sql(little.0, little.1, data, &(CREATE.to_string() + &insert(0)));
    let written = sql(little.0, little.1, data, &questions());
    assert_eq!(written.stdout.matches("\tstatus\tOK").count(), TABLES.len(), "{}", written.stdout);
    let read = sql(big.0, big.1, data, &questions());
    assert_eq!(written.stdout, read.stdout, "big endian reads otherwise what little endian wrote");
    // And back: the big-endian server writes, updates and deletes.
    let mut more = insert(1000);
    for table in TABLES {
        more += &format!(
            "UPDATE {table} SET i8=-i8, v=REVERSE(v) WHERE id%10=3; DELETE FROM {table} WHERE id%10=7;"
        );
    }
    sql(big.0, big.1, data, &more);
    let written = sql(big.0, big.1, data, &questions());
    let read = sql(little.0, little.1, data, &questions());
    assert_eq!(written.stdout, read.stdout, "little endian reads otherwise what big endian wrote");
    assert_eq!(read.stdout.matches("\tstatus\tOK").count(), TABLES.len(), "{}", read.stdout);
}

/// The workload's own table: loaded on one, verified row by row and benched on the other without being loaded again.
#[test]
fn a_bench_reuses_the_other_byte_orders_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().display().to_string();
    let run = |(target, machine), from| {
        let words = [
            "--target",
            target,
            "--on",
            machine,
            "--from",
            from,
            "--data",
            &data,
            "--workload",
            "point-select/prepared",
            "--connections",
            "2",
            "--duration-s",
            "1",
        ];
        let (_, records) = bench(&words);
        records[0].expect_sound(1);
        records[0].server().data_written_by.clone()
    };
    assert_eq!(run(BIG, "source"), None);
    assert_eq!(run(LITTLE, "distro").as_deref(), Some("ppc64"));
    assert_eq!(run(BIG, "source").as_deref(), Some("ppc64"), "who made it, not who used it last");
}
