#include "workload/lines.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace takt {
namespace {

constexpr std::size_t kChunk = std::size_t{32} << 10;
constexpr std::size_t kMaxLine = std::size_t{64} << 20;
// Traces compress to a tenth of their size. Only repetition compresses to a thousandth.
constexpr std::int64_t kMaxRatio = 100, kFreeBytes = std::int64_t{1} << 20;

class FileSource : public ByteSource {
 public:
  explicit FileSource(std::FILE* file) : file_(file) {}

  absl::StatusOr<std::size_t> Read(std::span<char> into) override {
    const std::size_t got = std::fread(into.data(), 1, into.size(), file_.get());
    if (got == 0 && std::ferror(file_.get()) != 0) {
      return absl::UnavailableError("cannot be read: " + std::generic_category().message(errno));
    }
    return got;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view text) : text_(text) {}

  absl::StatusOr<std::size_t> Read(std::span<char> into) override {
    const std::size_t n = std::min(into.size(), text_.size());
    std::copy_n(text_.begin(), n, into.begin());
    text_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view text_;
};

class UnpackedSource : public ByteSource {
 public:
  UnpackedSource(std::unique_ptr<ByteSource> packed, std::int64_t max_bytes)
      : packed_(std::move(packed)), max_bytes_(max_bytes), input_(kChunk) {}
  UnpackedSource(const UnpackedSource&) = delete;
  UnpackedSource& operator=(const UnpackedSource&) = delete;
  ~UnpackedSource() override {
    if (state_ == State::kGzip) inflateEnd(&stream_);
  }

  absl::StatusOr<std::size_t> Read(std::span<char> into) override {
    if (state_ == State::kStart) {
      if (absl::Status s = Start(); !s.ok()) return s;
    }
    absl::StatusOr<std::size_t> got = state_ == State::kGzip ? Inflate(into) : Pass(into);
    if (!got.ok()) return got;
    bytes_ += static_cast<std::int64_t>(*got);
    if (state_ == State::kGzip && bytes_ > kMaxRatio * packed_bytes_ + kFreeBytes) {
      return absl::ResourceExhaustedError(fmt::format(
          "unpacks to more than {} times its size, like a decompression bomb; unpack the file first if you trust it",
          kMaxRatio));
    }
    if (bytes_ <= max_bytes_) return got;
    return absl::ResourceExhaustedError(fmt::format("is too large; expected at most {} unpacked bytes", max_bytes_));
  }

 private:
  enum class State { kStart, kPlain, kGzip };

  // Reads the next chunk of compressed bytes. Call it when the last chunk is used up.
  absl::Status Refill() {
    absl::StatusOr<std::size_t> got = packed_->Read(input_);
    if (!got.ok()) return got.status();
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(*got);
    packed_bytes_ += static_cast<std::int64_t>(*got);
    return absl::OkStatus();
  }

  absl::Status Start() {
    if (absl::Status s = Refill(); !s.ok()) return s;
    const bool gzip = stream_.avail_in >= 2 && input_[0] == '\x1f' && input_[1] == '\x8b';
    if (!gzip) {
      state_ = State::kPlain;
      return absl::OkStatus();
    }
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) return absl::ResourceExhaustedError("out of memory for unpacking");
    state_ = State::kGzip;
    return absl::OkStatus();
  }

  absl::StatusOr<std::size_t> Pass(std::span<char> into) {
    if (stream_.avail_in == 0) {
      if (absl::Status s = Refill(); !s.ok()) return s;
    }
    const std::size_t n = std::min<std::size_t>(into.size(), stream_.avail_in);
    std::memcpy(into.data(), stream_.next_in, n);
    stream_.next_in += n;
    stream_.avail_in -= static_cast<uInt>(n);
    return n;
  }

  absl::StatusOr<std::size_t> Inflate(std::span<char> into) {
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(into.size(), kChunk));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room) {
      if (stream_.avail_in == 0) {
        if (absl::Status s = Refill(); !s.ok()) return s;
        if (stream_.avail_in == 0) {
          if (member_ended_) return std::size_t{0};
          return absl::InvalidArgumentError("the gzip data is truncated");
        }
      }
      if (member_ended_) {  // gzip files may be concatenated
        inflateReset(&stream_);
        member_ended_ = false;
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      member_ended_ = code == Z_STREAM_END;
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return absl::InvalidArgumentError(
            fmt::format("the gzip data is invalid: {}", stream_.msg != nullptr ? stream_.msg : "unknown fault"));
      }
    }
    return std::size_t{room - stream_.avail_out};
  }

  std::unique_ptr<ByteSource> packed_;
  std::int64_t max_bytes_;
  std::int64_t bytes_ = 0, packed_bytes_ = 0;
  std::vector<char> input_;
  State state_ = State::kStart;
  bool member_ended_ = false;
  z_stream stream_ = {};
};

bool Blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    const int error = errno;
    const std::string why = "cannot be opened: " + std::generic_category().message(error);
    if (error == ENOENT) return absl::NotFoundError(why);
    return absl::UnavailableError(why);
  }
  return std::make_unique<FileSource>(file);
}

std::unique_ptr<ByteSource> OpenMemory(std::string_view text) { return std::make_unique<MemorySource>(text); }

std::unique_ptr<ByteSource> Unpacked(std::unique_ptr<ByteSource> packed, std::int64_t max_bytes) {
  return std::make_unique<UnpackedSource>(std::move(packed), max_bytes);
}

LineReader::LineReader(std::unique_ptr<ByteSource> source) : source_(std::move(source)), buffer_(kChunk) {}

absl::StatusOr<bool> LineReader::Next() {
  for (;;) {
    absl::StatusOr<bool> more = NextRaw();
    if (!more.ok() || !*more) return more;
    if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
    if (!Blank(line_)) return true;
  }
}

absl::StatusOr<bool> LineReader::AsCsv() {
  csv_ = true;
  begin_ -= taken_;
  next_number_ = number_;
  return Next();
}

absl::StatusOr<bool> LineReader::NextRaw() {
  if (!begun_) {
    if (absl::Status s = Begin(); !s.ok()) return s;
  }
  Scan scan;
  for (;;) {
    const std::string_view text(buffer_.data() + begin_, end_ - begin_);
    const absl::StatusOr<std::size_t> end = csv_ ? RecordEnd(text, scan) : text.find('\n', scan.at);
    if (!end.ok()) return end.status();
    if (*end != std::string_view::npos || (at_end_ && !text.empty())) {
      line_ = text.substr(0, *end);
      taken_ = std::min(line_.size() + 1, text.size());
      begin_ += taken_;
      number_ = std::exchange(next_number_, next_number_ + 1 + std::ranges::count(line_, '\n'));
      return true;
    }
    if (at_end_) return false;
    if (!csv_) scan.at = text.size();
    if (absl::Status s = Fill(); !s.ok()) return s;
  }
}

// Returns npos if the record does not end within the text.
absl::StatusOr<std::size_t> LineReader::RecordEnd(std::string_view text, Scan& scan) const {
  const auto fault = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        fmt::format("line {}: {}", next_number_ + std::ranges::count(text.substr(0, scan.at), '\n'), what));
  };
  constexpr std::size_t kNone = std::string_view::npos;
  if (scan.at == 0) {  // most records have no quotes
    const std::size_t newline = text.find('\n');
    if (newline != kNone && text.substr(0, newline).find('"') == kNone) return newline;
  }
  while (scan.at < text.size()) {
    const char c = text[scan.at];
    switch (scan.in) {
      case In::kFieldStart:
        scan.in = c == '"' ? In::kQuoted : In::kPlain;
        scan.at += c == '"' ? 1 : 0;
        break;
      case In::kPlain: {
        const std::size_t stop = text.find_first_of("\n\",", scan.at);
        scan.at = std::min(stop, text.size());
        if (stop == kNone) break;
        if (text[stop] == '"')
          return fault("a quote inside an unquoted field is invalid; expected the whole field in quotes");
        if (text[stop] == '\n') return stop;
        ++scan.at;
        scan.in = In::kFieldStart;
        break;
      }
      case In::kQuoted: {
        const std::size_t quote = text.find('"', scan.at);
        scan.at = quote == kNone ? text.size() : quote + 1;
        if (quote != kNone) scan.in = In::kAfterQuote;
        break;
      }
      case In::kAfterQuote: {
        const std::size_t end = scan.at + (c == '\r' ? 1 : 0);
        if (end == text.size() && !at_end_) return kNone;  // the next character decides
        if (end == text.size() || text[end] == '\n') return end < text.size() ? end : kNone;
        if (c != '"' && c != ',') return fault("text after a closing quote is invalid; expected a comma");
        scan.in = c == '"' ? In::kQuoted : In::kFieldStart;
        ++scan.at;
        break;
      }
    }
  }
  if (at_end_ && scan.in == In::kQuoted) return fault("a quoted field has no end; expected a closing quote");
  return kNone;
}

// Skips a byte order mark.
absl::Status LineReader::Begin() {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  while (end_ < kByteOrderMark.size() && !at_end_) {
    if (absl::Status s = Fill(); !s.ok()) return s;
  }
  if (std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
  begun_ = true;
  return absl::OkStatus();
}

absl::Status LineReader::Fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) {
    if (end_ >= kMaxLine) {
      return absl::ResourceExhaustedError(fmt::format("a {} is too long; expected at most {} bytes{}",
                                                      csv_ ? "record" : "line", kMaxLine,
                                                      csv_ ? "; check for a missing closing quote" : ""));
    }
    buffer_.resize(2 * buffer_.size());
  }
  absl::StatusOr<std::size_t> got = source_->Read(std::span(buffer_).subspan(end_));
  if (!got.ok()) return got.status();
  end_ += *got;
  at_end_ = *got == 0;
  return absl::OkStatus();
}

}  // namespace takt
