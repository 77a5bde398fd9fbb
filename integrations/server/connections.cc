#include "connections.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <utility>

#include "fmt/format.h"

namespace serving {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr seconds kLinger{2};  // time for a client to read its answer before the connection closes
constexpr std::size_t kBodyBytesPerSecond = 1 << 16;  // least rate of a body

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](unsigned char c) { return std::tolower(c); }, [](unsigned char c) { return std::tolower(c); });
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool IsQuick(std::string_view request_line) {
  for (const std::string_view start : {"GET /health", "HEAD /health", "GET /v1/models", "HEAD /v1/models"}) {
    if (request_line.starts_with(start) && request_line.substr(start.size()).starts_with(' ')) return true;
  }
  return false;
}

void ReadHeader(std::string_view line, const ConnectionLimits& limits, bool& has_length, Head& head) {
  const auto refuse = [&](int status, std::string message, const char* param, const char* code) {
    if (head.refusal.status == 0) head.refusal = {status, std::move(message), param, code};
  };
  const std::size_t colon = std::min(line.find(':'), line.size());
  const std::string_view name = Trimmed(line.substr(0, colon));
  const std::string_view value = Trimmed(line.substr(std::min(colon + 1, line.size())));
  if (EqualsIgnoringCase(name, "Content-Length")) {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), head.body);
    const bool huge = error == std::errc::result_out_of_range;
    const bool whole = !value.empty() && value[0] != '-' && end == value.data() + value.size();
    if (std::exchange(has_length, true) || !whole || (error != std::errc() && !huge)) {
      refuse(400, "Content-Length is invalid; expected one whole number", "Content-Length", "bad_request");
    } else if (huge || head.body > limits.max_body) {
      refuse(413, fmt::format("the body is longer than {} bytes", limits.max_body), "", "body_too_long");
    }
  } else if (EqualsIgnoringCase(name, "Transfer-Encoding")) {
    refuse(411, "Transfer-Encoding is unsupported; send a Content-Length", "Transfer-Encoding", "length_required");
  } else if (EqualsIgnoringCase(name, "Content-Encoding") && !EqualsIgnoringCase(value, "identity")) {
    refuse(415, "Content-Encoding is unsupported; send the body unencoded", "Content-Encoding", "unsupported_encoding");
  } else if (EqualsIgnoringCase(name, "Expect")) {
    head.expects_continue = EqualsIgnoringCase(value, "100-continue");
  }
}

const char* ReasonOf(int status) {
  switch (status) {
    case 400: return "Bad Request";
    case 408: return "Request Timeout";
    case 411: return "Length Required";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 431: return "Request Header Fields Too Large";
    default: return "Service Unavailable";
  }
}

}  // namespace

Head ParseHead(std::string_view text, const ConnectionLimits& limits) {
  Head head;
  const std::size_t end = text.substr(0, limits.max_head).find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (text.size() >= limits.max_head) {
      head.refusal = {431, fmt::format("the head is longer than {} bytes", limits.max_head), "", "head_too_long"};
    }
    return head;
  }
  head.bytes = end + 4;
  std::string_view lines = text.substr(0, end);
  bool has_length = false;
  for (bool first = true; !lines.empty(); first = false) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (first) head.quick = IsQuick(line), head.post = line.starts_with("POST ");
    else ReadHeader(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line, limits, has_length, head);
  }
  return head;
}

// ---- one exchange --------------------------------------------------------------------------------------------------

ssize_t Exchange::read(char* to, std::size_t size) {
  const std::size_t n = std::min(size, rest_.size());
  std::copy_n(rest_.begin(), n, to);
  rest_.remove_prefix(n);
  return static_cast<ssize_t>(n);
}

ssize_t Exchange::write(const char* from, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    if (patience_ < nanoseconds::zero()) return -1;
    const ssize_t sent = send(socket_, from + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<std::size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    const auto begun = std::chrono::steady_clock::now();
    pollfd look = {socket_, POLLOUT, 0};
    poll(&look, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(patience_).count()));
    patience_ -= std::max<nanoseconds>(std::chrono::steady_clock::now() - begun, nanoseconds(1));
  }
  return static_cast<ssize_t>(size);
}

// ---- all of them ---------------------------------------------------------------------------------------------------

Connections::Connection::~Connection() { close(socket); }

Connections::Connections(ConnectionLimits limits, Answer answer, Refused refused)
    : limits_(limits), answer_(std::move(answer)), refused_(std::move(refused)) {}

Connections::~Connections() { Stop(); }

absl::Status Connections::Start() {
  const rlim_t needed = 3 * limits_.connections + 64;
  rlimit most = {};
  getrlimit(RLIMIT_NOFILE, &most);
  if (most.rlim_cur < needed) {
    most.rlim_cur = std::min(needed, most.rlim_max);
    if (most.rlim_cur < needed || setrlimit(RLIMIT_NOFILE, &most) != 0) {
      return absl::UnavailableError(fmt::format("{} connections need {} open files, but the limit is {}",
                                                limits_.connections, needed, most.rlim_cur));
    }
  }
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_ < 0) return absl::UnavailableError("too many open files: no descriptor to wake the reader");
  workers_ = {std::make_unique<httplib::ThreadPool>(limits_.connections), 2 * limits_.connections, limits_.patience};
  aside_ = {std::make_unique<httplib::ThreadPool>(1), 16};
  reader_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void Connections::Wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));  // fails only if it is awake already
}

void Connections::Take(int socket) {
  auto connection = std::make_unique<Connection>();
  connection->socket = socket;
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  arrived_.push_back(std::move(connection));
  Wake();
}

void Connections::GiveBack(Lane& lane, Owned connection) {
  const std::lock_guard lock(mutex_);
  --lane.at_work;
  arrived_.push_back(std::move(connection));
  Wake();
}

void Connections::Stop() {
  if (!reader_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    Wake();
  }
  reader_.join();
  workers_.threads->shutdown();
  aside_.threads->shutdown();
  close(wake_);
}

void Connections::Run() {
  for (std::vector<pollfd> looks; true;) {
    auto soonest = Clock::now() + seconds(10);
    looks.assign(1, {wake_, POLLIN, 0});
    for (const Owned& connection : open_) {
      looks.push_back({connection->socket, POLLIN, 0});
      soonest = std::min(soonest, connection->deadline);
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(soonest - Clock::now()).count();
    poll(looks.data(), looks.size(),
         std::exchange(again_, false) ? 0 : static_cast<int>(std::max<std::int64_t>(wait, 0)));

    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (looks[i + 1].revents != 0) Receive(*open_[i]);
    }
    std::uint64_t woken = 0;
    [[maybe_unused]] const ssize_t got = read(wake_, &woken, sizeof(woken));
    bool stop = false;
    {
      const std::lock_guard lock(mutex_);
      for (Owned& connection : arrived_) {
        if (!connection->closing) connection->deadline = Clock::now() + limits_.patience;
        open_.push_back(std::move(connection));
      }
      arrived_.clear();
      if (stopping_ && workers_.at_work + aside_.at_work == 0) return open_.clear();
      stop = stopping_;
    }
    for (Owned& connection : open_) Look(connection);
    std::erase_if(open_, [&](const Owned& c) { return c == nullptr || c->over || (stop && !c->closing); });
    // Close the oldest connections: they are slow, idle, or answered.
    const std::size_t most = std::max<std::size_t>(limits_.connections, 16);
    if (open_.size() > most) open_.erase(open_.begin(), open_.end() - static_cast<std::ptrdiff_t>(most));
  }
}

void Connections::Receive(Connection& c) {
  std::array<char, 1 << 16> buffer;
  const ssize_t got = recv(c.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) {
    c.over = true;  // the client has closed its sending side
    return;
  }
  if (c.closing) return;
  if (c.in.empty()) c.deadline = Clock::now() + limits_.patience;
  c.in.append(buffer.data(), static_cast<std::size_t>(got));
}

// Decides what to do with the data that a connection has sent so far.
void Connections::Look(Owned& connection) {
  Connection& c = *connection;
  if (c.over) return;
  if (c.head.bytes == 0 && c.in.size() != std::exchange(c.searched, c.in.size())) {
    c.head = ParseHead(c.in, limits_);
    if (c.head.refusal.status != 0) return Refuse(c, c.head.refusal);
    c.deadline += seconds(c.head.body / kBodyBytesPerSecond);
  }
  const bool whole = c.head.bytes > 0 && c.in.size() >= c.head.bytes + c.head.body;
  if (c.closing || !whole) {
    if (c.head.bytes > 0 && c.head.expects_continue && !whole && !std::exchange(c.continued, true)) {
      constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      send(c.socket, kContinue.data(), kContinue.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (Clock::now() < c.deadline) return;
    if (c.closing || c.in.empty()) c.over = true;
    else Refuse(c, {408, "the request did not arrive in time", "", "timeout"});
    return;
  }
  if (c.head.quick) {
    if (!AnswerOne(c, nanoseconds::zero())) return Close(c);
    c.deadline = Clock::now() + limits_.patience;
    again_ |= !c.in.empty();
    return;
  }
  Lane& lane = c.head.post ? workers_ : aside_;
  {
    const std::lock_guard lock(mutex_);
    if (lane.at_work < lane.most && !stopping_) {
      ++lane.at_work;
      lane.threads->enqueue([this, &lane, raw = connection.release()] {
        Owned own(raw);
        if (!AnswerOne(*own, lane.patience)) Close(*own);
        GiveBack(lane, std::move(own));
      });
      return;
    }
  }
  Refuse(c, {503, "the server is busy: too many requests", "", "busy"});
}

// Returns false if the connection must end.
bool Connections::AnswerOne(Connection& c, nanoseconds patience) {
  const std::size_t bytes = c.head.bytes + c.head.body;
  Exchange exchange(c.socket, std::string_view(c.in).substr(0, bytes), patience);
  const bool last = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }();
  bool goes_on = false;
  try {
    goes_on = answer_(exchange, last) && !last;
  } catch (...) {  // an answer that fails midway is cut
  }
  c.in.erase(0, bytes);
  c.searched = 0;
  c.head = {};
  c.continued = false;
  return goes_on;
}

void Connections::Refuse(Connection& c, const ApiError& error) {
  refused_(error.status);
  const std::string body = ErrorBody(error) + "\n";
  const std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n{}",
      error.status, ReasonOf(error.status), body.size(), error.status == 503 ? "Retry-After: 1\r\n" : "", body);
  send(c.socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  Close(c);
}

// Closing a socket with unread data could destroy the answer on its way to the client.
void Connections::Close(Connection& c) {
  shutdown(c.socket, SHUT_WR);
  c.in.clear();
  c.searched = 0;
  c.head = {};
  c.closing = true;
  c.deadline = Clock::now() + kLinger;
}

}  // namespace serving
