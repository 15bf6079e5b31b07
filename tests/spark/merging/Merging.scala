// A catalog whose tables know MERGE, as those of Delta Lake and Iceberg do, without their jars: rows are in memory, and a
// statement replaces all of them at once. Tables and properties are lost with the process.
package sempre.merging

import java.util
import java.util.concurrent.ConcurrentHashMap
import scala.collection.mutable.ArrayBuffer
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

object Kept {
  val tables = new ConcurrentHashMap[String, MergeTable]()
}

class Rows(val rows: Array[InternalRow]) extends InputPartition with WriterCommitMessage

object Reading extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new PartitionReader[InternalRow] {
      private val rows = partition.asInstanceOf[Rows].rows.iterator
      private var row: InternalRow = _
      override def next(): Boolean = { val more = rows.hasNext; if (more) row = rows.next(); more }
      override def get(): InternalRow = row
      override def close(): Unit = ()
    }
}

object Writing extends DataWriterFactory {
  override def createWriter(partition: Int, task: Long): DataWriter[InternalRow] =
    new DataWriter[InternalRow] {
      private val rows = new ArrayBuffer[InternalRow]()
      override def write(row: InternalRow): Unit = rows += row.copy()
      override def commit(): WriterCommitMessage = new Rows(rows.toArray)
      override def abort(): Unit = ()
      override def close(): Unit = ()
    }
}

class MergeTable(named: String, columns: StructType, val told: util.Map[String, String])
    extends Table with SupportsRead with SupportsWrite with SupportsRowLevelOperations {
  @volatile var rows: Array[InternalRow] = Array.empty
  @volatile var commits = 0

  override def name(): String = named
  override def schema(): StructType = columns
  override def properties(): util.Map[String, String] = told
  override def capabilities(): util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new Scan {
    override def readSchema(): StructType = columns
    override def toBatch(): Batch = new Batch {
      override def planInputPartitions(): Array[InputPartition] = Array(new Rows(rows))
      override def createReaderFactory(): PartitionReaderFactory = Reading
    }
  }

  private def batch(keeps: Boolean): Write = new Write {
    override def toBatch(): BatchWrite = new BatchWrite {
      override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = Writing
      override def commit(messages: Array[WriterCommitMessage]): Unit = {
        val written = messages.filter(_ != null).flatMap(_.asInstanceOf[Rows].rows)
        rows = if (keeps) rows ++ written else written
        commits += 1
      }
      override def abort(messages: Array[WriterCommitMessage]): Unit = ()
    }
  }

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = new WriteBuilder with SupportsTruncate {
    private var keeps = true
    override def truncate(): WriteBuilder = { keeps = false; this }
    override def build(): Write = batch(keeps)
  }

  override def newRowLevelOperationBuilder(info: RowLevelOperationInfo): RowLevelOperationBuilder = () =>
    new RowLevelOperation {
      override def command(): RowLevelOperation.Command = info.command()
      override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = MergeTable.this.newScanBuilder(options)
      override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = new WriteBuilder {
        override def build(): Write = batch(false)
      }
    }
}

class MergeCatalog extends TableCatalog {
  private var named: String = _
  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = named = name
  override def name(): String = named
  override def listTables(namespace: Array[String]): Array[Identifier] = Array.empty

  override def loadTable(which: Identifier): Table = {
    val found = Kept.tables.get(which.toString)
    if (found == null) throw new org.apache.spark.sql.catalyst.analysis.NoSuchTableException(which)
    found
  }

  override def createTable(
      which: Identifier, columns: StructType, parts: Array[Transform], told: util.Map[String, String]): Table = {
    Kept.tables.put(which.toString, new MergeTable(which.toString, columns, new ConcurrentHashMap(told)))
    loadTable(which)
  }

  override def alterTable(which: Identifier, changes: TableChange*): Table = {
    val table = loadTable(which).asInstanceOf[MergeTable]
    changes.foreach {
      case set: TableChange.SetProperty => table.told.put(set.property, set.value)
      case _ => throw new UnsupportedOperationException("only properties change here")
    }
    table
  }

  override def dropTable(which: Identifier): Boolean = Kept.tables.remove(which.toString) != null
  override def renameTable(old: Identifier, which: Identifier): Unit = throw new UnsupportedOperationException("no")
}
