// The engine over HTTP: completions and chat completions as OpenAI's clients ask for them, streamed or not.
//
//   POST /v1/completions  POST /v1/chat/completions  GET /v1/models  GET /health  GET /metrics
//
// Headers of a request tell takt more about it: X-Takt-Workflow (any text; a tenant's requests that bear the
// same belong together), X-Takt-Agent and X-Takt-Tenant (any text), X-Takt-Priority (a whole number, lower is sooner),
// X-Takt-Deadline (of the workflow, in seconds from here), X-Takt-Last (1: no request of the workflow follows).
// X-Workflow-Id, X-Agent and X-Priority are the first, second and fourth, too.
#ifndef TAKT_INTEGRATIONS_SERVER_HTTP_SERVER_H_
#define TAKT_INTEGRATIONS_SERVER_HTTP_SERVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "protocol.h"
#include "service.h"

namespace serving {

struct HttpOptions {
  std::string program = "engine";     // begins the names of metrics
  std::string host = "127.0.0.1";
  int port = 0;                       // 0: any that is free
  std::size_t connections = 256;      // requests answered at once; each takes a thread, which mostly sleeps
  std::size_t max_body = 1 << 20;     // [bytes]; more is refused
  std::uint64_t hash_seed = 0;        // keys the ids of names that clients choose
  std::chrono::seconds patience{10};  // for a whole request to come (longer bodies have longer), and to read its answer
};

// One thread reads all clients and answers /health; a request that is whole gets a thread, which hands it to the
// service and waits for its tokens. A client that leaves, or keeps its answer waiting for longer than the patience, is
// cancelled.
class HttpServer {
 public:
  // The service must outlive this.
  HttpServer(Service& service, ApiLimits limits, HttpOptions options);
  ~HttpServer();  // as Stop

  absl::Status Start();  // Unavailable: no such address, or it is taken
  int port() const;

  // Refuses new requests with 503 from now on; those that are there go on.
  void Refuse();

  // Answers what has come to its end, and returns when no client is connected any more. The service must have ended all
  // requests (Drain), or be about to.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_HTTP_SERVER_H_
