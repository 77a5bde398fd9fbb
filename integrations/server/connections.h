// Requests off many sockets: one thread reads them all, and others answer those that are whole.
//
// A client that is slow costs a socket and a buffer, never a thread. That is why the HTTP library's own loop, which
// gives each client a thread from its first byte on, is not used: as many slow clients as it has threads stop it.
#ifndef TAKT_INTEGRATIONS_SERVER_CONNECTIONS_H_
#define TAKT_INTEGRATIONS_SERVER_CONNECTIONS_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "httplib.h"
#include "protocol.h"

namespace serving {

struct ConnectionLimits {
  std::size_t connections = 256;  // requests that are answered at once; as many may wait, and as many be sent
  std::size_t max_head = 1 << 14, max_body = 1 << 20;  // of a request [bytes]
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
};

// What a head says that matters before all of the request is there.
struct Head {
  std::size_t bytes = 0;  // with the empty line; 0: it has not come to its end
  std::size_t body = 0;   // bytes that follow
  bool quick = false;     // a question that waits for nothing, /health or /v1/models
  bool post = false;      // what the engine is asked
  bool expects_continue = false;
  ApiError refusal = {.status = 0, .message = ""};  // 0: none
};
Head ParseHead(std::string_view text, const ConnectionLimits& limits);

// A whole request, and the socket for its answer. A client that does not read is waited for as long as the patience
// lasts, in all; then it is given up.
class Exchange : public httplib::Stream {
 public:
  Exchange(int socket, std::string_view request, std::chrono::nanoseconds patience)
      : socket_(socket), rest_(request), patience_(patience) {}

  int client() const { return socket_; }

  bool is_readable() const override { return !rest_.empty(); }
  bool is_writable() const override { return patience_ >= patience_.zero(); }
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  // The library refuses numbers beyond what select() takes, and does nothing else with them.
  int socket() const override { return 0; }

 private:
  const int socket_;
  std::string_view rest_;
  std::chrono::nanoseconds patience_;  // below zero: given up
};

class Connections {
 public:
  // Answers a request; false: the connection ends with it. Called by many threads at a time.
  using Answer = std::function<bool(Exchange& exchange, bool last)>;
  // Told of each refusal that no Answer was asked for.
  using Refused = std::function<void(int status)>;

  Connections(ConnectionLimits limits, Answer answer, Refused refused);
  ~Connections();  // as Stop

  // Unavailable: the process may not have so many sockets.
  absl::Status Start();

  // From any thread: a client that has connected.
  void Take(int socket);

  // Ends those that have not sent a whole request, and returns when all others are answered.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    ~Connection();
    int socket = -1;
    std::string in = {};  // not answered yet
    std::size_t searched = 0;  // of `in`, for the end of its head
    Head head = {};            // of what `in` begins with
    Clock::time_point deadline = {};
    bool continued = false;  // it was told to send its body
    bool closing = false;    // it has its answer; what it still sends is thrown away
    bool over = false;
  };
  using Owned = std::unique_ptr<Connection>;

  // Threads, and what they are given.
  struct Lane {
    std::unique_ptr<httplib::ThreadPool> threads = {};
    std::size_t most = 0;                 // requests that have one, or wait for one
    std::chrono::nanoseconds patience = {};  // with a client that does not read
    std::size_t at_work = 0;              // requests; guarded by mutex_
  };

  void Run();
  void Receive(Connection& connection);
  void Look(Owned& connection);
  bool AnswerOne(Connection& connection, std::chrono::nanoseconds patience);
  void Refuse(Connection& connection, const ApiError& error);
  void Close(Connection& connection);
  void GiveBack(Lane& lane, Owned connection);
  void Wake();

  const ConnectionLimits limits_;
  const Answer answer_;
  const Refused refused_;
  std::thread reader_;
  Lane workers_, aside_;  // for POST, for all else: to look at the engine's figures takes no place from requests
  int wake_ = -1;  // an eventfd
  bool again_ = false;       // the reader's: a connection has sent more than it was asked for
  std::vector<Owned> open_;  // the reader's: they send, or have been answered; in the order in which they came here

  std::mutex mutex_;
  std::vector<Owned> arrived_;  // guarded by mutex_: new, or with a worker until now
  bool stopping_ = false;       // guarded by mutex_
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_CONNECTIONS_H_
