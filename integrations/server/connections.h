// Reads requests from many sockets: one thread reads them all, and others answer complete ones.
//
// A slow client costs a socket and a buffer, but no thread. The HTTP library's own loop is not used: it gives each
// client a thread from the first byte, so a few slow clients block it.
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
  std::size_t connections = 256;  // requests answered at once, waiting, or in transfer: limit of each
  std::size_t max_head = 1 << 14, max_body = 1 << 20;  // maximum of a request [bytes]
  std::chrono::nanoseconds patience = std::chrono::seconds(10);
};

// Fields of a head that matter before the request is complete.
struct Head {
  std::size_t bytes = 0;  // including the empty line; 0: incomplete
  std::size_t body = 0;  // bytes that follow
  bool quick = false;  // a request that never waits: /health or /v1/models
  bool post = false;  // a request to the engine
  bool expects_continue = false;
  ApiError refusal = {.status = 0, .message = ""};  // 0: none
};
Head ParseHead(std::string_view text, const ConnectionLimits& limits);

// A complete request, and the socket for its answer. A client that does not read is dropped after `patience` in total.
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
  // The library only checks this number against the limit of select().
  int socket() const override { return 0; }

 private:
  const int socket_;
  std::string_view rest_;
  std::chrono::nanoseconds patience_;  // below zero: expired
};

class Connections {
 public:
  // Answers a request; false: the connection ends with it. Many threads call it at once.
  using Answer = std::function<bool(Exchange& exchange, bool last)>;
  // Called for each refusal without an Answer.
  using Refused = std::function<void(int status)>;

  Connections(ConnectionLimits limits, Answer answer, Refused refused);
  ~Connections();  // calls Stop

  // Unavailable: the process may not open enough sockets.
  absl::Status Start();

  // Takes a newly connected client. Any thread may call it.
  void Take(int socket);

  // Drops incomplete requests, and returns after all others are answered.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    ~Connection();
    int socket = -1;
    std::string in = {};  // not answered yet
    std::size_t searched = 0;  // bytes of `in` searched for the end of its head
    Head head = {};  // head at the start of `in`
    Clock::time_point deadline = {};
    bool continued = false;  // the client was asked to send the body
    bool closing = false;  // the client has its answer; further data is discarded
    bool over = false;
  };
  using Owned = std::unique_ptr<Connection>;

  // Threads and their work.
  struct Lane {
    std::unique_ptr<httplib::ThreadPool> threads = {};
    std::size_t most = 0;  // maximum requests that run or wait
    std::chrono::nanoseconds patience = {};  // patience with a client that does not read
    std::size_t at_work = 0;  // running requests; guarded by mutex_
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
  Lane workers_,
      aside_;  // for POST, and for other requests, so that /metrics takes no thread from requests
  int wake_ = -1;  // an eventfd
  bool again_ = false;  // the reader's: a connection has sent more than one request
  std::vector<Owned> open_;  // the reader's: sending or answered connections, in order of arrival

  std::mutex mutex_;
  std::vector<Owned> arrived_;  // guarded by mutex_: new connections, or returned by a worker
  bool stopping_ = false;  // guarded by mutex_
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_CONNECTIONS_H_
