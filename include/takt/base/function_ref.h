// A reference to any callable, for function parameters.
#ifndef TAKT_BASE_FUNCTION_REF_H_
#define TAKT_BASE_FUNCTION_REF_H_

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace takt {

// Owns nothing and allocates nothing. A FunctionRef argument is valid only during the call that receives it.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::invocable<F&, Args...>)
  FunctionRef(F&& f)  // NOLINT: implicit conversion from any callable
      : of_(std::addressof(const_cast<std::remove_cvref_t<F>&>(f))), call_([](void* of, Args... args) -> R {
          return std::invoke(*static_cast<std::remove_cvref_t<F>*>(of), std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(of_, std::forward<Args>(args)...); }

 private:
  void* of_;
  R (*call_)(void*, Args...);
};

}  // namespace takt

#endif  // TAKT_BASE_FUNCTION_REF_H_
