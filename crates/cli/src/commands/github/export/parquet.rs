//! Tables as Parquet files (docs/adr/0034-parquet.md).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clinch_github::schema::{Cell, Column, Type};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type as SchemaType;

use super::part_file::{PartFile, wrong};
use crate::error::CliError;
use crate::output::json::compact;

/// Rows of a row group. Readers read and skip whole groups.
const GROUP_ROWS_MAX: usize = 10_000;

/// What a value takes beside its own bytes.
const CELL_BYTES: usize = 32;

/// This program can write Parquet.
pub(super) fn check() -> std::result::Result<(), CliError> {
    Ok(())
}

/// A file whose next row group is in memory.
pub(super) struct ParquetFile {
    writer: SerializedFileWriter<PartFile>,
    columns: Vec<Buffer>,
    rows: usize,
    bytes: usize,
    path: PathBuf,
}

/// The values of one column, without nulls, and for each row whether there is one.
struct Buffer {
    has_value: Vec<i16>,
    values: Values,
}

enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Booleans(Vec<bool>),
    Texts(Vec<ByteArray>),
}

impl Values {
    fn of(kind: Type) -> Self {
        match kind {
            Type::Integer | Type::Timestamp => Self::Integers(Vec::new()),
            Type::Number => Self::Numbers(Vec::new()),
            Type::Boolean => Self::Booleans(Vec::new()),
            Type::String | Type::Array | Type::Object => Self::Texts(Vec::new()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Booleans(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// Adds a value of fixed size, if it fits.
    fn add_fixed(&mut self, cell: &Cell) {
        match (self, cell) {
            (Self::Integers(values), Cell::Integer(value)) => values.push(*value),
            (Self::Integers(values), Cell::Time(at)) => values.push(at.as_microsecond()),
            (Self::Numbers(values), Cell::Number(value)) => values.push(*value),
            (Self::Booleans(values), Cell::Boolean(value)) => values.push(*value),
            _ => {}
        }
    }
}

fn add_text(values: &mut Vec<ByteArray>, text: String) -> usize {
    let bytes = text.len();
    values.push(text.into_bytes().into());
    bytes
}

impl Buffer {
    fn of(column: Column) -> Self {
        Self {
            has_value: Vec::new(),
            values: Values::of(column.of),
        }
    }

    /// Takes the value of the next row; returns its size. A value of another type is null.
    fn push(&mut self, cell: Cell) -> usize {
        let before = self.values.len();
        let bytes = match (&mut self.values, cell) {
            (Values::Texts(values), Cell::Text(text)) => add_text(values, text),
            (Values::Texts(values), Cell::Json(json)) => add_text(values, compact(&json)),
            (values, cell) => {
                values.add_fixed(&cell);
                0
            }
        };
        self.has_value.push(i16::from(self.values.len() > before));
        CELL_BYTES + bytes
    }

    fn clear(&mut self) {
        self.has_value.clear();
        match &mut self.values {
            Values::Integers(values) => values.clear(),
            Values::Numbers(values) => values.clear(),
            Values::Booleans(values) => values.clear(),
            Values::Texts(values) => values.clear(),
        }
    }

    fn write(&self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        let levels = Some(self.has_value.as_slice());
        let written = match (&self.values, writer) {
            (Values::Integers(values), ColumnWriter::Int64ColumnWriter(to)) => {
                to.write_batch(values, levels, None)
            }
            (Values::Numbers(values), ColumnWriter::DoubleColumnWriter(to)) => {
                to.write_batch(values, levels, None)
            }
            (Values::Booleans(values), ColumnWriter::BoolColumnWriter(to)) => {
                to.write_batch(values, levels, None)
            }
            (Values::Texts(values), ColumnWriter::ByteArrayColumnWriter(to)) => {
                to.write_batch(values, levels, None)
            }
            _ => Err(ParquetError::General("a column has another type".into())),
        };
        written.map(|_| ())
    }
}

impl ParquetFile {
    pub(super) fn create(
        path: &Path,
        kind: &str,
        columns: impl Iterator<Item = Column>,
    ) -> std::result::Result<Self, CliError> {
        let columns: Vec<Column> = columns.collect();
        let file = PartFile::create(path)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("clinch ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = schema(kind, &columns)
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties)));
        Ok(Self {
            writer: writer.map_err(|error| wrong(path, &error))?,
            columns: columns.into_iter().map(Buffer::of).collect(),
            rows: 0,
            bytes: 0,
            path: path.to_owned(),
        })
    }

    pub(super) fn push(&mut self, row: Vec<Cell>) -> std::result::Result<(), CliError> {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            self.bytes += column.push(cell);
        }
        self.rows += 1;
        match self.rows >= GROUP_ROWS_MAX {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// The size of the rows in memory.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the rows in memory as a row group.
    pub(super) fn flush(&mut self) -> std::result::Result<(), CliError> {
        let written = self.write_group();
        written.map_err(|error| wrong(&self.path, &error))
    }

    fn write_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for buffer in &mut self.columns {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            buffer.write(column.untyped())?;
            column.close()?;
            buffer.clear();
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    pub(super) fn finish(mut self) -> std::result::Result<PathBuf, CliError> {
        self.flush()?;
        let file = self.writer.into_inner();
        file.map_err(|error| wrong(&self.path, &error))?.finish()
    }
}

fn schema(kind: &str, columns: &[Column]) -> Result<Arc<SchemaType>> {
    let fields = columns.iter().map(|column| field(*column).map(Arc::new));
    let fields: Result<Vec<_>> = fields.collect();
    let schema = SchemaType::group_type_builder(kind).with_fields(fields?);
    schema.build().map(Arc::new)
}

fn field(column: Column) -> Result<SchemaType> {
    let (physical, logical) = match column.of {
        Type::Integer => (PhysicalType::INT64, None),
        Type::Number => (PhysicalType::DOUBLE, None),
        Type::Boolean => (PhysicalType::BOOLEAN, None),
        Type::Timestamp => {
            let utc = LogicalType::timestamp(true, TimeUnit::MICROS);
            (PhysicalType::INT64, Some(utc))
        }
        // JSON as plain text: some readers give bytes for the logical type JSON.
        Type::String | Type::Array | Type::Object => {
            (PhysicalType::BYTE_ARRAY, Some(LogicalType::String))
        }
    };
    SchemaType::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
}

#[cfg(test)]
mod tests {
    use clinch_github::schema::Stream;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;

    use super::*;

    #[test]
    fn rows_are_written_in_groups_of_a_bounded_number() {
        let stream = Stream::of("languages").unwrap();
        let folder = std::env::temp_dir().join(format!("clinch-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("languages.parquet");
        let mut file = ParquetFile::create(&path, stream.kind, stream.columns(false)).unwrap();
        let row = |n: usize| {
            let text = |text: String| Cell::Text(text);
            let languages = match n.is_multiple_of(3) {
                true => Cell::Null,
                false => Cell::Json(format!("{{ \"Rust\": {n} }}")),
            };
            let own = [format!("languages:{n}"), "ann".into(), "repo:ann/x".into()];
            own.map(text).into_iter().chain([languages]).collect()
        };
        let number = 2 * GROUP_ROWS_MAX + 1;
        (0..number).for_each(|n| file.push(row(n)).unwrap());
        assert!(!path.exists(), "it has no name before its end");
        assert_eq!(file.finish().unwrap(), path);

        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let groups = reader.metadata().row_groups().iter();
        let rows: Vec<i64> = groups.map(|group| group.num_rows()).collect();
        let most = i64::try_from(GROUP_ROWS_MAX).unwrap();
        assert_eq!(rows, [most, most, 1]);
        for (n, read) in reader.get_row_iter(None).unwrap().enumerate() {
            let read = read.unwrap();
            assert_eq!(*read.get_string(0).unwrap(), format!("languages:{n}"));
            match n.is_multiple_of(3) {
                true => assert!(read.get_string(3).is_err(), "null is no text"),
                false => assert_eq!(*read.get_string(3).unwrap(), format!("{{\"Rust\":{n}}}")),
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
