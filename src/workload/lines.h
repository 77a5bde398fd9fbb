// Bytes in, lines out: from a file or from memory, plain or gzip.
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
  // Bytes written to the front of `into`; 0 at the end.
  virtual absl::StatusOr<std::size_t> Read(std::span<char> into) = 0;
};

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path);
std::unique_ptr<ByteSource> OpenMemory(std::string_view text);

// Unpacks what begins with gzip's magic number and passes on the rest; refuses to yield more than max_bytes,
// or of gzip more than 100 bytes, and a MiB, for each that was packed.
std::unique_ptr<ByteSource> Unpacked(std::unique_ptr<ByteSource> packed, std::int64_t max_bytes);

class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteSource> source);

  // Steps to the next line that is not blank; false at the end. A byte order mark and carriage returns are taken off.
  absl::StatusOr<bool> Next();

  // Reads the line that Next has just found, and all that follow, as records of CSV (RFC 4180): a quoted field may have
  // line breaks. Fails, as Next does from there on, if a quote is out of place: nobody knows where such a record ends.
  absl::StatusOr<bool> AsCsv();

  std::string_view line() const { return line_; }  // valid until Next()
  std::int64_t number() const { return number_; }  // counts from 1; of a record its first line

 private:
  // Where a scan of a record stands.
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
  std::size_t begin_ = 0, end_ = 0;  // what is not consumed yet
  bool begun_ = false, at_end_ = false, csv_ = false;
  std::string_view line_;
  std::size_t taken_ = 0;  // bytes of the buffer that line_ took
  std::int64_t number_ = 0, next_number_ = 1;
};

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_LINES_H_
