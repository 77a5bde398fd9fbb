// Weights in a file: magic, version, config, checksum, then all weights as the model holds them (matrices packed as in
// matrix.h). Numbers are little-endian.
#include <array>
#include <bit>
#include <cstring>
#include <fstream>

#include "model.h"
#include "takt/base/random.h"

namespace tiny {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Header {
  std::array<char, 8> magic = {'t', 'i', 'n', 'y', 'l', 'l', 'm', '\n'};
  std::uint32_t version = 1;
  std::uint32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0, max_context = 0, tied = 0;
  float rope_theta = 0;
  std::uint64_t checksum = 0;  // of the rest of the header and all weights
};
static_assert(sizeof(Header) == 56);

std::uint64_t Checksum(const void* data, std::size_t bytes, std::uint64_t sum) {
  const char* at = static_cast<const char*>(data);
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    sum = takt::Mix64(sum ^ word);
  }
  return sum;
}

std::uint64_t Checksum(const Header& header, const std::vector<Lanes>& weights) {
  const std::uint64_t sum = Checksum(&header, offsetof(Header, checksum), 0);
  return Checksum(weights.data(), weights.size() * sizeof(Lanes), sum);
}

Header HeaderOf(const ModelConfig& c) {
  const auto u32 = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  Header h;
  h.layers = u32(c.layers), h.hidden = u32(c.hidden), h.heads = u32(c.heads), h.kv_heads = u32(c.kv_heads);
  h.ffn = u32(c.ffn), h.vocab = u32(c.vocab), h.max_context = u32(c.max_context);
  h.tied = c.tied ? 1 : 0, h.rope_theta = c.rope_theta;
  return h;
}

ModelConfig ConfigOf(const Header& h) {
  return {.layers = h.layers,
          .hidden = h.hidden,
          .heads = h.heads,
          .kv_heads = h.kv_heads,
          .ffn = h.ffn,
          .vocab = h.vocab,
          .max_context = h.max_context,
          .tied = h.tied != 0,
          .rope_theta = h.rope_theta};
}

}  // namespace

absl::Status Model::Save(const std::string& path) const {
  Header header = HeaderOf(config_);
  header.checksum = Checksum(header, weights_);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&header), sizeof(header));
  file.write(reinterpret_cast<const char*>(weights_.data()),
             static_cast<std::streamsize>(weights_.size() * sizeof(Lanes)));
  file.close();
  if (!file) return absl::UnavailableError("cannot write " + path);
  return absl::OkStatus();
}

absl::StatusOr<Model> Model::Load(const std::string& path) {
  const auto wrong = [&path](const std::string& what) { return absl::InvalidArgumentError(path + ": " + what); };
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError("cannot open " + path);
  const auto size = static_cast<std::uint64_t>(file.tellg());
  file.seekg(0);

  Header header;
  const Header expected;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return wrong("is too short for a weights file");
  if (header.magic != expected.magic) return wrong("is not a weights file");
  if (header.version != expected.version) {
    return wrong("has version " + std::to_string(header.version) + "; this reads " + std::to_string(expected.version));
  }
  const ModelConfig config = ConfigOf(header);
  if (absl::Status status = config.Validate(); !status.ok()) return wrong(std::string(status.message()));
  const std::uint64_t want = sizeof(header) + config.parameters() * sizeof(float);
  if (size != want) return wrong("has " + std::to_string(size) + " bytes; its config needs " + std::to_string(want));

  Model model(config);
  file.read(reinterpret_cast<char*>(model.weights_.data()), static_cast<std::streamsize>(size - sizeof(header)));
  if (!file) return wrong("is truncated or unreadable");
  if (Checksum(header, model.weights_) != header.checksum) return wrong("is damaged: its checksum differs");
  return model;
}

}  // namespace tiny
