//! Columns and values, as text rows and binary rows carry them.

use super::ProtocolError;
use super::wire::{Reader, lossy};

/// A column's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// How its values are written in binary rows.
    pub kind: ColumnType,
    /// Whether integers are unsigned.
    pub unsigned: bool,
}

/// How a column's values are written in binary rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Always NULL.
    Null,
    /// 1 byte.
    Tiny,
    /// 2 bytes.
    Short,
    /// 4 bytes, also for 3-byte integers.
    Long,
    /// 8 bytes.
    LongLong,
    /// 4 bytes of IEEE 754.
    Float,
    /// 8 bytes of IEEE 754.
    Double,
    /// Date, or date and time of day.
    DateTime,
    /// A duration.
    Time,
    /// Length and bytes: strings, decimals, everything else.
    Bytes,
}

const UNSIGNED: u16 = 0x20;

impl Column {
    /// Reads a column definition.
    pub fn parse(payload: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(payload);
        for _ in 0..4 {
            reader.lenenc_bytes()?; // catalogue, database, alias of the table, table
        }
        let name = lossy(reader.lenenc_bytes()?);
        reader.lenenc_bytes()?; // the column's own name
        reader.lenenc()?; // length of what follows
        reader.u16()?; // character set
        reader.u32()?; // display width
        let kind = match reader.u8()? {
            0x01 => ColumnType::Tiny,
            0x02 | 0x0d => ColumnType::Short,
            0x03 | 0x09 => ColumnType::Long,
            0x04 => ColumnType::Float,
            0x05 => ColumnType::Double,
            0x06 => ColumnType::Null,
            0x07 | 0x0a | 0x0c => ColumnType::DateTime,
            0x08 => ColumnType::LongLong,
            0x0b => ColumnType::Time,
            _ => ColumnType::Bytes,
        };
        let unsigned = reader.u16()? & UNSIGNED != 0;
        Ok(Column { name, kind, unsigned })
    }
}

/// A row's values.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a>(pub Vec<Value<'a>>);

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A single-precision number.
    Float(f32),
    /// A double-precision number.
    Double(f64),
    /// A string, or any value of a text row.
    Bytes(&'a [u8]),
    /// A date or duration as the server would print it.
    Temporal(String),
}

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Int(value) => value.fmt(f),
            Value::UInt(value) => value.fmt(f),
            Value::Float(value) => value.fmt(f),
            Value::Double(value) => value.fmt(f),
            Value::Bytes(value) => f.write_str(&String::from_utf8_lossy(value)),
            Value::Temporal(value) => f.write_str(value),
        }
    }
}

impl<'a> Row<'a> {
    /// Reads a row of text.
    pub fn parse_text(payload: &'a [u8], columns: &[Column]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(payload);
        let mut values = Vec::with_capacity(columns.len());
        for _ in columns {
            values.push(match reader.rest().first() {
                Some(0xfb) => {
                    reader.u8()?;
                    Value::Null
                }
                _ => Value::Bytes(reader.lenenc_bytes()?),
            });
        }
        finish(&reader, values)
    }

    /// Reads a row of an executed statement: a zero byte, a bit for each NULL, the values.
    pub fn parse_binary(payload: &'a [u8], columns: &[Column]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != 0 {
            return Err(ProtocolError::Malformed("a binary row"));
        }
        // The first two bits belong to nobody.
        let nulls = reader.bytes((columns.len() + 2).div_ceil(8))?;
        let mut values = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let bit = index + 2;
            let null = nulls[bit / 8] & (1 << (bit % 8)) != 0;
            values.push(if null { Value::Null } else { binary_value(&mut reader, column)? });
        }
        finish(&reader, values)
    }
}

fn finish<'a>(reader: &Reader<'_>, values: Vec<Value<'a>>) -> Result<Row<'a>, ProtocolError> {
    match reader.is_empty() {
        true => Ok(Row(values)),
        false => Err(ProtocolError::Malformed("a row with bytes behind its values")),
    }
}

fn binary_value<'a>(reader: &mut Reader<'a>, column: &Column) -> Result<Value<'a>, ProtocolError> {
    let unsigned = column.unsigned;
    Ok(match column.kind {
        ColumnType::Null => Value::Null,
        ColumnType::Tiny if unsigned => Value::UInt(reader.u8()?.into()),
        ColumnType::Tiny => Value::Int((reader.u8()? as i8).into()),
        ColumnType::Short if unsigned => Value::UInt(reader.u16()?.into()),
        ColumnType::Short => Value::Int((reader.u16()? as i16).into()),
        ColumnType::Long if unsigned => Value::UInt(reader.u32()?.into()),
        ColumnType::Long => Value::Int((reader.u32()? as i32).into()),
        ColumnType::LongLong if unsigned => Value::UInt(reader.u64()?),
        ColumnType::LongLong => Value::Int(reader.u64()? as i64),
        ColumnType::Float => Value::Float(reader.f32()?),
        ColumnType::Double => Value::Double(reader.f64()?),
        ColumnType::DateTime => Value::Temporal(date_time(reader)?),
        ColumnType::Time => Value::Temporal(duration(reader)?),
        ColumnType::Bytes => Value::Bytes(reader.lenenc_bytes()?),
    })
}

/// 0, 4, 7 or 11 bytes: what is zero at the end is left out.
fn date_time(reader: &mut Reader<'_>) -> Result<String, ProtocolError> {
    let length = reader.u8()?;
    let (mut text, mut time) = (String::from("0000-00-00"), String::new());
    if !matches!(length, 0 | 4 | 7 | 11) {
        return Err(ProtocolError::Malformed("a date"));
    }
    if length >= 4 {
        text = format!("{:04}-{:02}-{:02}", reader.u16()?, reader.u8()?, reader.u8()?);
    }
    if length >= 7 {
        time = format!(" {:02}:{:02}:{:02}", reader.u8()?, reader.u8()?, reader.u8()?);
    }
    if length == 11 {
        time += &format!(".{:06}", reader.u32()?);
    }
    Ok(text + &time)
}

/// 0, 8 or 12 bytes: sign, days, hours, minutes, seconds, and perhaps microseconds.
fn duration(reader: &mut Reader<'_>) -> Result<String, ProtocolError> {
    let length = reader.u8()?;
    match length {
        0 => return Ok("00:00:00".into()),
        8 | 12 => {}
        _ => return Err(ProtocolError::Malformed("a duration")),
    }
    let sign = if reader.u8()? == 0 { "" } else { "-" };
    let hours = u64::from(reader.u32()?) * 24 + u64::from(reader.u8()?);
    let mut text = format!("{sign}{hours:02}:{:02}:{:02}", reader.u8()?, reader.u8()?);
    if length == 12 {
        text += &format!(".{:06}", reader.u32()?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: ColumnType, unsigned: bool) -> Column {
        Column { name: "c".into(), kind, unsigned }
    }

    fn one(kind: ColumnType, unsigned: bool, bytes: &[u8]) -> String {
        let payload = [&[0, 0], bytes].concat();
        let columns = [column(kind, unsigned)];
        for cut in 0..payload.len() {
            assert!(Row::parse_binary(&payload[..cut], &columns).is_err());
        }
        assert!(Row::parse_binary(&[&payload[..], b"x"].concat(), &columns).is_err());
        Row::parse_binary(&payload, &columns).unwrap().0[0].to_string()
    }

    #[test]
    fn binary_values_are_little_endian_on_every_machine() {
        use ColumnType::*;
        assert_eq!(one(Tiny, false, &[0xfe]), "-2");
        assert_eq!(one(Tiny, true, &[0xfe]), "254");
        assert_eq!(one(Short, false, &[0xfe, 0xff]), "-2");
        assert_eq!(one(Short, true, &[0x02, 0x01]), "258");
        assert_eq!(one(Long, false, &[0xfe, 0xff, 0xff, 0xff]), "-2");
        assert_eq!(one(Long, true, &[1, 2, 3, 4]), "67305985");
        assert_eq!(one(LongLong, true, &[1, 0, 0, 0, 0, 0, 0, 0x80]), "9223372036854775809");
        assert_eq!(one(LongLong, false, &[0xff; 8]), "-1");
        assert_eq!(one(Float, false, &[0, 0, 0xc0, 0x3f]), "1.5");
        assert_eq!(one(Double, false, &[0, 0, 0, 0, 0, 0, 0x02, 0xc0]), "-2.25");
        assert_eq!(one(Bytes, false, b"\x03abc"), "abc");
    }

    #[test]
    fn dates_are_little_endian_on_every_machine() {
        use ColumnType::*;
        assert_eq!(one(DateTime, false, &[4, 0xea, 0x07, 2, 3]), "2026-02-03");
        let with_time = [11, 0xea, 0x07, 2, 3, 4, 5, 6, 0x40, 0xe2, 0x01, 0];
        assert_eq!(one(DateTime, false, &with_time), "2026-02-03 04:05:06.123456");
        assert_eq!(one(DateTime, false, &[0]), "0000-00-00");
        let negative = [12, 1, 2, 0, 0, 0, 3, 4, 5, 1, 0, 0, 0];
        assert_eq!(one(Time, false, &negative), "-51:04:05.000001");
    }

    #[test]
    fn nulls_are_bits_in_binary_and_a_byte_in_text() {
        let columns = vec![column(ColumnType::Tiny, false); 7];
        let row = Row::parse_binary(&[0, 0b0000_0100, 0b1, 1, 2, 3, 4, 5], &columns).unwrap();
        let text: Vec<String> = row.0.iter().map(Value::to_string).collect();
        assert_eq!(text, ["NULL", "1", "2", "3", "4", "5", "NULL"]);
        let row = Row::parse_text(b"\xfb\x01a", &columns[..2]).unwrap();
        assert_eq!(row.0, [Value::Null, Value::Bytes(b"a")]);
    }

    #[test]
    fn column_definitions_are_little_endian_on_every_machine() {
        let mut payload = b"\x03def\x01d\x01t\x01t\x04name\x01c\x0c".to_vec();
        payload.extend_from_slice(&[45, 0, 20, 0, 0, 0, 0x08, 0x21, 0x00, 0, 0, 0]);
        let parsed = Column::parse(&payload).unwrap();
        assert_eq!(parsed.name, "name");
        assert_eq!(parsed.kind, ColumnType::LongLong);
        assert!(parsed.unsigned);
    }
}
