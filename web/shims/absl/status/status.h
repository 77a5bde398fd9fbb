// absl::Status without Abseil, which needs threads: the part of its interface that takt uses.
#ifndef TAKT_WEB_SHIMS_ABSL_STATUS_STATUS_H_
#define TAKT_WEB_SHIMS_ABSL_STATUS_STATUS_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace absl {

using string_view = std::string_view;

enum class StatusCode : int {
  kOk,
  kCancelled,
  kUnknown,
  kInvalidArgument,
  kDeadlineExceeded,
  kNotFound,
  kAlreadyExists,
  kPermissionDenied,
  kResourceExhausted,
  kFailedPrecondition,
  kAborted,
  kOutOfRange,
  kUnimplemented,
  kInternal,
  kUnavailable,
  kDataLoss,
  kUnauthenticated,
};

inline std::string_view StatusCodeToString(StatusCode code) {
  static constexpr std::string_view kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return kNames[static_cast<std::size_t>(code)];
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string_view message) : code_(code), message_(code == StatusCode::kOk ? "" : message) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  std::string_view message() const { return message_; }
  std::string ToString() const { return ok() ? "OK" : std::string(StatusCodeToString(code_)) + ": " + message_; }
  void Update(const Status& other) {
    if (ok()) *this = other;
  }
  void IgnoreError() const {}

  friend bool operator==(const Status&, const Status&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Status& status) { return out << status.ToString(); }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status OkStatus() { return {}; }
#define TAKT_WEB_ERROR(Name)                                                                     \
  inline Status Name##Error(std::string_view message) { return {StatusCode::k##Name, message}; } \
  inline bool Is##Name(const Status& status) { return status.code() == StatusCode::k##Name; }
TAKT_WEB_ERROR(Cancelled)
TAKT_WEB_ERROR(Unknown)
TAKT_WEB_ERROR(InvalidArgument)
TAKT_WEB_ERROR(DeadlineExceeded)
TAKT_WEB_ERROR(NotFound)
TAKT_WEB_ERROR(AlreadyExists)
TAKT_WEB_ERROR(PermissionDenied)
TAKT_WEB_ERROR(ResourceExhausted)
TAKT_WEB_ERROR(FailedPrecondition)
TAKT_WEB_ERROR(Aborted)
TAKT_WEB_ERROR(OutOfRange)
TAKT_WEB_ERROR(Unimplemented)
TAKT_WEB_ERROR(Internal)
TAKT_WEB_ERROR(Unavailable)
TAKT_WEB_ERROR(DataLoss)
TAKT_WEB_ERROR(Unauthenticated)
#undef TAKT_WEB_ERROR

}  // namespace absl

#endif  // TAKT_WEB_SHIMS_ABSL_STATUS_STATUS_H_
