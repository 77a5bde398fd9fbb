// absl::StatusOr without Abseil: the part of its interface that takt uses.
#ifndef TAKT_WEB_SHIMS_ABSL_STATUS_STATUSOR_H_
#define TAKT_WEB_SHIMS_ABSL_STATUS_STATUSOR_H_

#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"

namespace absl {

// A value, or the status of its failure. value() of an error ends the program.
template <class T>
class [[nodiscard]] StatusOr {
 public:
  using value_type = T;

  StatusOr() : status_(StatusCode::kUnknown, "") {}
  StatusOr(const Status& status) : status_(status) {}
  StatusOr(Status&& status) : status_(std::move(status)) {}
  template <class U = T>
    requires(std::constructible_from<T, U &&> && !std::same_as<std::remove_cvref_t<U>, StatusOr> &&
             !std::same_as<std::remove_cvref_t<U>, Status> && !std::same_as<std::remove_cvref_t<U>, std::in_place_t>)
  explicit(!std::convertible_to<U&&, T>) StatusOr(U&& value) : value_(std::forward<U>(value)) {}
  template <class U>
    requires(!std::same_as<T, U> && std::constructible_from<T, const U&>)
  StatusOr(const StatusOr<U>& other) : status_(other.status()) {
    if (other.ok()) value_.emplace(*other);
  }
  template <class U>
    requires(!std::same_as<T, U> && std::constructible_from<T, U &&>)
  StatusOr(StatusOr<U>&& other) : status_(other.status()) {
    if (other.ok()) value_.emplace(*std::move(other));
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  const T& value() const& { return Checked().value_.operator*(); }
  T& value() & {
    Checked();
    return *value_;
  }
  T&& value() && {
    Checked();
    return *std::move(value_);
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  template <class U>
  T value_or(U&& other) const& {
    return ok() ? *value_ : static_cast<T>(std::forward<U>(other));
  }
  template <class U>
  T value_or(U&& other) && {
    return ok() ? *std::move(value_) : static_cast<T>(std::forward<U>(other));
  }
  void IgnoreError() const {}

 private:
  const StatusOr& Checked() const {
    if (!ok()) __builtin_trap();
    return *this;
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace absl

#endif  // TAKT_WEB_SHIMS_ABSL_STATUS_STATUSOR_H_
