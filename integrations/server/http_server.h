// The engine over HTTP: completions and chat completions as in OpenAI's API, streamed or not.
//
//   POST /v1/completions  POST /v1/chat/completions  GET /v1/models  GET /health  GET /metrics
//
// Optional request headers:
// - X-Takt-Workflow: any text; requests of a tenant with the same text form a workflow
// - X-Takt-Agent, X-Takt-Tenant: any text
// - X-Takt-Priority: a whole number; lower runs sooner
// - X-Takt-Deadline: deadline of the workflow, in seconds from now
// - X-Takt-Last: 1: last request of the workflow
// - X-Workflow-Id, X-Agent, X-Priority: other names of X-Takt-Workflow, X-Takt-Agent and X-Takt-Priority
// - X-Takt-Fault: with HttpOptions::faults, the fault of this answer (faults.h)
// - kSessionHeaders (session_headers.h): the session of a coding agent; the workflow if no other header names one
#ifndef TAKT_INTEGRATIONS_SERVER_HTTP_SERVER_H_
#define TAKT_INTEGRATIONS_SERVER_HTTP_SERVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "faults.h"
#include "protocol.h"
#include "service.h"

namespace serving {

struct HttpOptions {
  std::string program = "engine";     // prefix of the names of metrics
  std::string host = "127.0.0.1";
  int port = 0;                       // 0: any free port
  std::size_t connections = 256;      // requests answered at once; each takes a mostly sleeping thread
  std::size_t max_body = 1 << 20;     // maximum body [bytes]
  std::uint64_t hash_seed = 0;        // key for the ids of names that clients choose
  bool session_headers = true;        // a request that names no workflow belongs to the session of its coding agent
  std::optional<FaultOptions> faults = {};  // none: no faults on request
  std::chrono::seconds patience{10};  // time to receive a request (longer for long bodies), and to send its answer
};

// One thread reads all clients and answers /health. A complete request gets a thread, which passes it to the service
// and waits for its tokens. The request is cancelled if its client disconnects, or does not read its answer within the
// patience.
class HttpServer {
 public:
  // The service must outlive this.
  HttpServer(Service& service, ApiLimits limits, HttpOptions options);
  ~HttpServer();  // calls Stop

  absl::Status Start();  // Unavailable: the address is invalid or in use
  int port() const;

  // Refuses new requests with 503 from now on; present ones continue.
  void Refuse();

  // Finishes the present answers, and returns when no client is connected. The service must have ended all requests
  // (Drain), or be about to.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_HTTP_SERVER_H_
