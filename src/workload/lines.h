// Splits bytes into lines: from a file or from memory, plain or gzip.
#ifndef TAKT_SRC_WORKLOAD_LINES_H_
#define TAKT_SRC_WORKLOAD_LINES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace takt {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Writes bytes to the front of `into` and returns their number; 0 at the end.
  virtual absl::StatusOr<std::size_t> Read(std::span<char> into) = 0;
};

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);
std::unique_ptr<ByteSource> OpenMemory(std::string_view text);

// Unpacks data with gzip's magic number and passes on other data. Fails beyond max_bytes. Gzip data also fails beyond 1
// MiB plus 100 bytes per compressed byte.
std::unique_ptr<ByteSource> Unpacked(std::unique_ptr<ByteSource> packed, std::int64_t max_bytes);

class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteSource> source);

  // Moves to the next line that is not blank. Returns false at the end. Removes a byte order mark and carriage returns.
  absl::StatusOr<bool> Next();

  // Reads the current line and all later lines as records of CSV (RFC 4180), whose quoted fields may contain line
  // breaks. After a misplaced quote this call and every Next fail, because the record's end is unknown.
  absl::StatusOr<bool> AsCsv();

  std::string_view line() const { return line_; }  // valid until Next()
  std::int64_t number() const { return number_; }  // from 1; for a record, its first line

 private:
  // State of a scan over a record.
  enum class In : std::uint8_t { kFieldStart, kPlain, kQuoted, kAfterQuote };
  struct Scan {
    std::size_t at = 0;
    In in = In::kFieldStart;
  };

  absl::StatusOr<bool> NextRaw();
  absl::StatusOr<std::size_t> RecordEnd(std::string_view text, Scan& scan) const;
  absl::Status Begin();
  absl::Status Fill();

  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // range of bytes not consumed yet
  bool begun_ = false, at_end_ = false, csv_ = false;
  std::string_view line_;
  std::size_t taken_ = 0;  // bytes of the buffer that line_ uses
  std::int64_t number_ = 0, next_number_ = 1;
};

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_LINES_H_
