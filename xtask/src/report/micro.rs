//! What primitives cost, as released and as patched.

use anyhow::Result;
use serde::Serialize;

use crate::ui::{self, Table};

/// One primitive at one size.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Figure {
    primitive: String,
    /// Bytes, or turns of a loop.
    size: u64,
    /// Medians in ns.
    released_ns: Option<f64>,
    patched_ns: Option<f64>,
    zlib_ns: Option<f64>,
}

/// All of them, in order.
pub struct Figures(Vec<Figure>);

impl Figures {
    /// Reads lines of primitive, size, variant and ns.
    pub fn read(said: &str) -> Self {
        let mut all: Vec<Figure> = Vec::new();
        for line in said.lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            let [primitive, size, variant, ns] = cells.as_slice() else { continue };
            let (Ok(size), Ok(ns)) = (size.parse::<u64>(), ns.parse::<f64>()) else { continue };
            let at = all.iter().position(|known| known.primitive == *primitive && known.size == size);
            let at = at.unwrap_or_else(|| {
                all.push(Figure { primitive: primitive.to_string(), size, ..Figure::default() });
                all.len() - 1
            });
            match *variant {
                "released" => all[at].released_ns = Some(ns),
                "patched" => all[at].patched_ns = Some(ns),
                "zlib" => all[at].zlib_ns = Some(ns),
                _ => {}
            }
        }
        all.sort_by(|a, b| (&a.primitive, a.size).cmp(&(&b.primitive, b.size)));
        Figures(all)
    }

    /// Prints them as a table, or as JSON.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            ui::print(&serde_json::to_string_pretty(&self.0)?);
            return Ok(());
        }
        let mut table = Table::new(&["primitive", "size", "released ns", "patched ns", "ratio", "zlib ns"]);
        let ns = |value: Option<f64>| value.map_or("-".into(), |ns| format!("{ns:.1}"));
        for figure in &self.0 {
            let ratio =
                figure.patched_ns.zip(figure.released_ns).map(|(patched, released)| patched / released);
            table.row([
                figure.primitive.clone(),
                figure.size.to_string(),
                ns(figure.released_ns),
                ns(figure.patched_ns),
                ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
                ns(figure.zlib_ns),
            ]);
        }
        table.print();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_variants_of_a_primitive_are_one_row() {
        let said = "crc32c\t64\treleased\t20.5\nnoise\ncrc32c\t64\tpatched\t10.0\ncrc32c\t64\tzlib\t15.0\nmb\t1000\tpatched\t9.0\n";
        let all = Figures::read(said).0;
        assert_eq!(all.len(), 2);
        assert_eq!(
            (all[0].released_ns, all[0].patched_ns, all[0].zlib_ns),
            (Some(20.5), Some(10.0), Some(15.0))
        );
        assert_eq!((all[1].released_ns, all[1].size), (None, 1000));
    }
}
