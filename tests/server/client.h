// An HTTP client that can misbehave.
#ifndef TAKT_TESTS_SERVER_CLIENT_H_
#define TAKT_TESTS_SERVER_CLIENT_H_

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "catch.h"
#include "nlohmann/json.hpp"

namespace tiny {

class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool connected() const { return connected_; }

  // Returns false if the server has closed the connection.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Returns true if data has arrived or the other end has closed.
  bool has_news() const {
    pollfd look = {socket_, POLLIN, 0};
    return poll(&look, 1, 0) > 0;
  }

  // Reads until `text` arrives or the other end closes.
  const std::string& ReadUntil(std::string_view text) {
    char buffer[4096];
    while (text.empty() || seen_.find(text) == std::string::npos) {
      const ssize_t got = recv(socket_, buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      seen_.append(buffer, static_cast<std::size_t>(got));
    }
    return seen_;
  }
  const std::string& ReadAll() { return ReadUntil(""); }

 private:
  int socket_;
  bool connected_ = false;
  std::string seen_;
};

inline std::string PostText(const std::string& path, const std::string& body, const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

struct Answer {
  int status = 0;  // 0: no response
  std::string body = "";

  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
  std::string error(const char* field) const {
    const nlohmann::json j = json();
    const auto error = j.is_object() ? j.value("error", nlohmann::json()) : nlohmann::json();
    return error.is_object() && error[field].is_string() ? error[field].get<std::string>() : "";
  }

  // For a stream: the texts of all its events, and the last event except [DONE].
  struct Stream {
    std::string text;
    nlohmann::json last;
    bool done = false;
  };
  Stream stream() const {
    constexpr std::string_view kMark = "data: ";
    Stream s;
    for (std::size_t at = body.find(kMark); at != std::string::npos; at = body.find(kMark, at)) {
      at += kMark.size();
      const std::string data = body.substr(at, body.find("\n\n", at) - at);
      if (data == "[DONE]") {
        s.done = true;
        continue;
      }
      s.last = nlohmann::json::parse(data, nullptr, false);
      if (s.last.is_discarded() || !s.last.contains("choices")) continue;
      const nlohmann::json& choice = s.last["choices"][0];
      s.text += choice.contains("text") ? choice["text"].get<std::string>() : choice["delta"].value("content", "");
    }
    return s;
  }
};

inline Answer Parse(const std::string& response) {
  if (!response.starts_with("HTTP/1.1 ")) return {};
  const std::size_t end = response.find("\r\n\r\n");
  return {std::atoi(response.c_str() + 9), end == std::string::npos ? "" : response.substr(end + 4)};
}

inline Answer Post(int port, const std::string& path, const std::string& body, const std::string& headers = "") {
  Connection connection(port);
  if (!connection.Send(PostText(path, body, headers))) return {};
  return Parse(connection.ReadAll());
}

inline Answer Get(int port, const std::string& path) {
  Connection connection(port);
  connection.Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return Parse(connection.ReadAll());
}

// The value of a metric, summed over its labels; -1 if it is absent.
inline double Metric(int port, const std::string& name) {
  std::istringstream lines(Get(port, "/metrics").body);
  double sum = -1;
  for (std::string line; std::getline(lines, line);) {
    if (line.substr(0, line.find_first_of("{ ")) != name) continue;
    sum = std::max(sum, 0.0) + std::atof(line.c_str() + line.rfind(' '));
  }
  return sum;
}

}  // namespace tiny

#endif  // TAKT_TESTS_SERVER_CLIENT_H_
