// See ndbapi_shim.h.

#include "ndbapi_shim.h"

#include <NdbApi.hpp>

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace {

/// Node ids are 1 to 255.
constexpr uint32_t MOST_NODES = 255;

void say(pbndb_error *error, const char *message) {
  std::snprintf(reinterpret_cast<char *>(error->message), sizeof error->message, "%s", message ? message : "");
}

void fill(pbndb_error *error, const NdbError &from) {
  error->code = from.code;
  error->status = static_cast<int32_t>(from.status);
  error->classification = static_cast<int32_t>(from.classification);
  say(error, from.message);
}

void fill(pbndb_error *error, const char *message) {
  error->code = -1;
  error->status = static_cast<int32_t>(NdbError::PermanentError);
  error->classification = static_cast<int32_t>(NdbError::InternalError);
  say(error, message);
}

/// An Ndb object that only asks for things of the dictionary.
struct Dictionary {
  explicit Dictionary(pbndb_connection *connection, const char *database)
      : ndb(reinterpret_cast<Ndb_cluster_connection *>(connection), database) {}
  bool init(pbndb_error *error) {
    if (ndb.init() == 0) return true;
    fill(error, ndb.getNdbError());
    return false;
  }
  Ndb ndb;
};

struct Slot {
  pbndb_session *session;
  uint32_t number;
};

void add_key(NdbDictionary::Table &table, const char *name, bool distributes) {
  NdbDictionary::Column column(name);
  column.setType(NdbDictionary::Column::Unsigned);
  column.setPrimaryKey(true);
  column.setDistributionKey(distributes);
  table.addColumn(column);
}

}  // namespace

struct pbndb_session {
  /// Owns the records: answers that still come in use them until `ndb` is gone.
  Ndb keeper;
  std::unique_ptr<Ndb> ndb;
  const NdbDictionary::Table *table = nullptr;
  /// The whole row; what a read or an update is about, which is all but the key.
  NdbRecord *record = nullptr;
  NdbRecord *values = nullptr;
  pbndb_how how;
  uint32_t attributes;
  uint32_t attribute_words;
  uint32_t row_words;
  uint32_t *rows;
  std::vector<Slot> slots;
  std::vector<pbndb_done> done;

  pbndb_session(Ndb_cluster_connection *connection, const char *database)
      : keeper(connection, database), ndb(new Ndb(connection, database)) {}

  ~pbndb_session() {
    ndb.reset();
    for (NdbRecord *one : {record, values})
      if (one != nullptr) keeper.getDictionary()->releaseRecord(one);
  }

  /// Whether the table has the columns that the rows in memory are made for.
  bool fits() const {
    if (table->getNoOfColumns() != static_cast<int>(attributes) + 1) return false;
    for (uint32_t at = 0; at <= attributes; at++) {
      const NdbDictionary::Column *column = table->getColumn(static_cast<int>(at));
      const int words = at < 2 ? 1 : static_cast<int>(attribute_words);
      if (column == nullptr || column->getType() != NdbDictionary::Column::Unsigned || column->getLength() != words ||
          column->getPrimaryKey() != (at < 2) || column->getNullable())
        return false;
    }
    return true;
  }

  uint32_t *row(uint32_t slot, uint32_t operation) {
    return rows + (static_cast<uint64_t>(slot) * how.operations + operation) * row_words;
  }

  bool make_record() {
    std::vector<NdbDictionary::RecordSpecification> columns(2 + attributes - 1);
    uint32_t offset = 0;
    for (size_t at = 0; at < columns.size(); at++) {
      columns[at].column = table->getColumn(static_cast<int>(at));
      columns[at].offset = offset;
      offset += 4 * (at < 2 ? 1 : attribute_words);
    }
    auto create = [&](size_t first) {
      return keeper.getDictionary()->createRecord(table, columns.data() + first, static_cast<Uint32>(columns.size() - first),
                                               sizeof columns[0]);
    };
    record = create(0);
    values = create(columns.size() > 2 ? 2 : 0);
    return record != nullptr && values != nullptr;
  }

  NdbTransaction *start(uint32_t coordinator, const uint32_t *where, uint32_t at) {
    if (coordinator == PBNDB_IN_PARTITION) return ndb->startTransaction(table, where[at]);
    if (coordinator == PBNDB_ON_NODE) return ndb->startTransaction(where[0], 0);
    return ndb->startTransaction();
  }

  const NdbError *define(NdbTransaction *transaction, uint32_t kind, uint32_t *row) {
    const NdbOperation *operation = record != nullptr ? by_record(transaction, kind, reinterpret_cast<char *>(row))
                                                      : by_attribute(transaction, kind, row);
    return operation == nullptr ? &transaction->getNdbError() : nullptr;
  }

  const NdbOperation *by_record(NdbTransaction *transaction, uint32_t kind, char *row) {
    switch (kind) {
      case PBNDB_INSERT:
        return transaction->insertTuple(record, row, record, row);
      case PBNDB_READ:
        return transaction->readTuple(record, row, values, row, NdbOperation::LM_CommittedRead);
      case PBNDB_UPDATE:
        return transaction->updateTuple(record, row, values, row);
      default:
        return transaction->deleteTuple(record, row, record);
    }
  }

  const NdbOperation *by_attribute(NdbTransaction *transaction, uint32_t kind, uint32_t *row) {
    NdbOperation *operation = transaction->getNdbOperation(table);
    if (operation == nullptr) return nullptr;
    int wrong = 0;
    switch (kind) {
      case PBNDB_INSERT:
        wrong = operation->insertTuple();
        break;
      case PBNDB_READ:
        wrong = operation->readTuple();
        break;
      case PBNDB_UPDATE:
        wrong = operation->updateTuple();
        break;
      default:
        wrong = operation->deleteTuple();
    }
    wrong |= operation->equal(0u, reinterpret_cast<const char *>(row));
    wrong |= operation->equal(1u, reinterpret_cast<const char *>(row + 1));
    if (kind == PBNDB_DELETE) return wrong != 0 ? nullptr : operation;
    for (uint32_t at = 0; at + 1 < attributes && wrong == 0; at++) {
      char *value = reinterpret_cast<char *>(row + 2 + at * attribute_words);
      if (kind == PBNDB_READ)
        wrong = operation->getValue(at + 2, value) == nullptr;
      else
        wrong = operation->setValue(at + 2, value);
    }
    return wrong != 0 ? nullptr : operation;
  }
};

namespace {

void completed(int, NdbTransaction *transaction, void *context) {
  const Slot *slot = static_cast<const Slot *>(context);
  const NdbError &error = transaction->getNdbError();
  // Room for one a slot was reserved: nothing is allocated here.
  slot->session->done.push_back({slot->number, error.code, static_cast<int32_t>(error.status),
                                 static_cast<int32_t>(error.classification)});
  transaction->close();
}

}  // namespace

extern "C" {

int32_t pbndb_init(void) noexcept { return ndb_init(); }

pbndb_connection *pbndb_connect(const char *connect_string, int32_t wait_s, pbndb_error *error) noexcept {
  auto *connection = new Ndb_cluster_connection(connect_string);
  connection->set_name("portbench");
  if (connection->connect(wait_s, 1, 0) != 0) {
    fill(error, connection->get_latest_error_msg());
    delete connection;
    return nullptr;
  }
  return reinterpret_cast<pbndb_connection *>(connection);
}

int32_t pbndb_wait_until_ready(pbndb_connection *connection, int32_t wait_s) noexcept {
  return reinterpret_cast<Ndb_cluster_connection *>(connection)->wait_until_ready(wait_s, wait_s);
}

uint32_t pbndb_node_id(pbndb_connection *connection) noexcept {
  return reinterpret_cast<Ndb_cluster_connection *>(connection)->node_id();
}

uint32_t pbndb_data_nodes(pbndb_connection *connection) noexcept {
  return reinterpret_cast<Ndb_cluster_connection *>(connection)->no_db_nodes();
}

void pbndb_disconnect(pbndb_connection *connection) noexcept {
  delete reinterpret_cast<Ndb_cluster_connection *>(connection);
}

int32_t pbndb_create_table(pbndb_connection *connection, const char *database, const pbndb_table *wanted,
                           pbndb_error *error) noexcept {
  Dictionary dictionary(connection, database);
  if (!dictionary.init(error)) return -1;
  NdbDictionary::Table table(wanted->name);
  table.setLogging(wanted->logging != 0);
  table.setMaxLoadFactor(static_cast<int>(wanted->load_factor));
  add_key(table, "DISTKEY", true);
  add_key(table, "COL0", false);
  for (uint32_t at = 1; at < wanted->attributes; at++) {
    char name[16];
    std::snprintf(name, sizeof name, "COL%u", at);
    NdbDictionary::Column column(name);
    column.setType(NdbDictionary::Column::Unsigned);
    column.setLength(static_cast<int>(wanted->attribute_words));
    column.setNullable(false);
    table.addColumn(column);
  }
  if (dictionary.ndb.getDictionary()->createTable(table) == 0) return 0;
  fill(error, dictionary.ndb.getDictionary()->getNdbError());
  return -1;
}

int32_t pbndb_drop_table(pbndb_connection *connection, const char *database, const char *name, pbndb_error *error) noexcept {
  Dictionary dictionary(connection, database);
  if (!dictionary.init(error)) return -1;
  if (dictionary.ndb.getDictionary()->dropTable(name) == 0) return 0;
  fill(error, dictionary.ndb.getDictionary()->getNdbError());
  return -1;
}

pbndb_session *pbndb_open(pbndb_connection *connection, const char *database, const pbndb_table *wanted,
                          const pbndb_how *how, uint32_t *rows, pbndb_error *error) noexcept {
  auto *session = new pbndb_session(reinterpret_cast<Ndb_cluster_connection *>(connection), database);
  session->how = *how;
  session->attributes = wanted->attributes;
  session->attribute_words = wanted->attribute_words;
  session->row_words = 2 + (wanted->attributes - 1) * wanted->attribute_words;
  session->rows = rows;
  session->done.reserve(how->slots);
  for (uint32_t number = 0; number < how->slots; number++) session->slots.push_back({session, number});
  bool good = session->keeper.init(1) == 0 && session->ndb->init(static_cast<int>(how->slots)) == 0;
  if (!good) fill(error, session->ndb->getNdbError());
  if (good) {
    session->table = session->ndb->getDictionary()->getTable(wanted->name);
    good = session->table != nullptr;
    if (!good) fill(error, session->ndb->getDictionary()->getNdbError());
  }
  if (good && !session->fits()) {
    fill(error, "the table has other columns than were asked for");
    good = false;
  }
  if (good && how->ndb_record != 0) {
    good = session->make_record();
    if (!good) fill(error, session->keeper.getDictionary()->getNdbError());
  }
  if (good) return session;
  delete session;
  return nullptr;
}

void pbndb_close(pbndb_session *session) noexcept {
  delete session;
}

void pbndb_explain(pbndb_session *session, int32_t code, pbndb_error *error) noexcept {
  fill(error, session->ndb->getNdbError(code));
}

uint32_t pbndb_nodes(pbndb_session *session, uint32_t *nodes, uint32_t most) noexcept {
  bool holds[MOST_NODES + 1] = {};
  for (Uint32 fragment = 0; fragment < session->table->getFragmentCount(); fragment++) {
    Uint32 node = 0;
    if (session->table->getFragmentNodes(fragment, &node, 1) != 0 && node <= MOST_NODES) holds[node] = true;
  }
  uint32_t count = 0;
  for (uint32_t node = 0; node <= MOST_NODES; node++) {
    if (!holds[node]) continue;
    if (count < most) nodes[count] = node;
    count++;
  }
  return count;
}

uint32_t pbndb_partition(pbndb_session *session, uint32_t key) noexcept {
  Ndb::Key_part_ptr parts[2] = {{&key, sizeof key}, {nullptr, 0}};
  Uint64 room[8];
  Uint32 hash = 0;
  if (Ndb::computeHash(&hash, session->table, parts, room, sizeof room) != 0) return PBNDB_NO_PARTITION;
  return session->table->getPartitionId(hash);
}

uint32_t pbndb_prepare(pbndb_session *session, uint32_t kind, uint32_t coordinator, const uint32_t *where,
                       const uint32_t *slots, uint32_t count, pbndb_error *error) noexcept {
  for (uint32_t at = 0; at < count; at++) {
    const uint32_t slot = slots[at];
    NdbTransaction *transaction = session->start(coordinator, where, at);
    if (transaction == nullptr) {
      fill(error, session->ndb->getNdbError());
      return at;
    }
    for (uint32_t operation = 0; operation < session->how.operations; operation++) {
      if (const NdbError *wrong = session->define(transaction, kind, session->row(slot, operation))) {
        fill(error, *wrong);
        transaction->close();
        return at;
      }
    }
    transaction->executeAsynchPrepare(NdbTransaction::Commit, completed, &session->slots[slot]);
  }
  return count;
}

uint32_t pbndb_send_poll(pbndb_session *session, int32_t timeout_ms, int32_t least, int32_t force, pbndb_done *done) noexcept {
  session->ndb->sendPollNdb(timeout_ms, least, force);
  const uint32_t count = static_cast<uint32_t>(session->done.size());
  if (count != 0) std::memcpy(done, session->done.data(), count * sizeof *done);
  session->done.clear();
  return count;
}

}  // extern "C"
