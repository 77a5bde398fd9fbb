#include "llama_model.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine.h"
#include "fmt/format.h"
#include "llama.h"
#include "sequence_book.h"
#include "takt/base/random.h"

namespace llama_host {
namespace {

using serving::Computed;
using serving::Sample;
using takt::KvAction;
using takt::RequestId;

// Prints warnings and errors of the library, and nothing else.
void Log(ggml_log_level level, const char* text, void*) {
  if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

class LlamaText final : public serving::Vocabulary {
 public:
  explicit LlamaText(const llama_model* model) : model_(model), vocab_(llama_model_get_vocab(model)) {}

  std::size_t size() const override { return static_cast<std::size_t>(llama_vocab_n_tokens(vocab_)); }
  void Encode(std::string_view text, std::vector<std::int32_t>& tokens) const override {
    const auto length = static_cast<std::int32_t>(text.size());
    const std::size_t before = tokens.size();
    tokens.resize(before + text.size() + 8);
    for (;;) {
      const auto room = static_cast<std::int32_t>(tokens.size() - before);
      const std::int32_t n = llama_tokenize(vocab_, text.data(), length, tokens.data() + before, room, true, true);
      tokens.resize(before + static_cast<std::size_t>(std::abs(n)));
      if (n >= 0) return;
    }
  }
  bool EncodeChat(std::span<const serving::Message> messages, std::vector<std::int32_t>& tokens) const override {
    const char* form = llama_model_chat_template(model_, nullptr);
    if (form == nullptr) return false;
    std::vector<std::string> texts;
    for (const serving::Message& m : messages) texts.emplace_back(m.role), texts.emplace_back(m.content);
    std::vector<llama_chat_message> chat;
    for (std::size_t i = 0; i < texts.size(); i += 2) chat.push_back({texts[i].c_str(), texts[i + 1].c_str()});
    std::string text(256, 0);
    for (;;) {
      const auto room = static_cast<std::int32_t>(text.size());
      const std::int32_t n = llama_chat_apply_template(form, chat.data(), chat.size(), true, text.data(), room);
      if (n < 0) return false;  // the library does not know this template
      text.resize(static_cast<std::size_t>(n));
      if (n <= room) break;
    }
    Encode(text, tokens);
    return true;
  }
  void Decode(std::int32_t token, std::string& bytes) const override {
    char piece[256];
    const std::int32_t n = llama_token_to_piece(vocab_, token, piece, sizeof(piece), 0, false);
    if (n > 0) bytes.append(piece, static_cast<std::size_t>(n));
  }
  std::int32_t end_of_text() const override { return llama_vocab_eos(vocab_); }
  std::int32_t end_of_turn() const override {
    const std::int32_t turn = llama_vocab_eot(vocab_);
    return turn >= 0 ? turn : end_of_text();
  }

 private:
  const llama_model* model_;
  const llama_vocab* vocab_;
};

// ---- a context ------------------------------------------------------------------------------------------------------

struct FreeContext {
  void operator()(llama_context* context) const { llama_free(context); }
};

class LlamaCompute final : public serving::ComputedKv, private Sequences {
 public:
  LlamaCompute(const LlamaOptions& options, llama_context* context, std::int32_t vocab, const BookOptions& book)
      : options_(options),
        context_(context),
        memory_(llama_get_memory(context)),
        vocab_(vocab),
        random_(options.faults.seed),
        book_(*this, book) {
    llama_set_abort_callback(context, [](void* self) { return static_cast<LlamaCompute*>(self)->Aborts(); }, this);
  }

  takt::KvOracle* oracle() override { return &book_; }
  void Arrive(takt::Request& about, std::span<const std::int32_t> prompt) override { book_.Arrive(about.id, prompt); }
  void Publish(RequestId request, std::span<const std::int32_t> context, std::size_t computed) override {
    book_.Publish(request, context, computed);
  }
  bool CopyOut(RequestId request, takt::Blocks count) override;
  bool CopyIn(RequestId request) override;
  void Forget(RequestId request) override {
    away_.erase(request);
    book_.Forget(request);
  }

  void Begin(const takt::StepPlan&) override;
  void Add(const takt::PlanEntry& entry, std::span<const std::int32_t> context) override;
  Computed Run() override;
  std::span<const Sample> samples() const override { return samples_; }

 private:
  using State = std::vector<std::uint8_t>;  // state of a sequence in host memory
  struct Away {
    State state;
    std::vector<std::int32_t> tokens;
  };

  void Copy(std::int32_t from, std::int32_t to, std::int32_t tokens) override {
    llama_memory_seq_cp(memory_, from, to, 0, tokens);
  }
  void Remove(std::int32_t sequence, std::int32_t from) override { llama_memory_seq_rm(memory_, sequence, from, -1); }
  bool Save(std::int32_t sequence, std::uint64_t as) override {
    const bool saved = !Strikes(options_.faults.move) && StateOut(sequence, saved_[as]);
    if (!saved) saved_.erase(as);
    return saved;
  }
  bool Load(std::uint64_t saved, std::int32_t sequence) override {
    return !Strikes(options_.faults.move) && StateIn(saved_[saved], sequence);
  }
  void Drop(std::uint64_t saved) override { saved_.erase(saved); }
  bool StateOut(std::int32_t sequence, State& state);
  bool StateIn(const State& state, std::int32_t sequence);

  bool Strikes(double chance) { return chance > 0 && random_.Uniform() < chance; }
  bool Aborts() { return nodes_left_ >= 0 && nodes_left_-- == 0; }
  std::int32_t Decode();

  const LlamaOptions& options_;
  std::unique_ptr<llama_context, FreeContext> context_;
  llama_memory_t memory_;
  std::int32_t vocab_;
  takt::Random random_;
  SequenceBook book_;
  std::unordered_map<RequestId, Away> away_;
  std::unordered_map<std::uint64_t, State> saved_;
  std::int64_t nodes_left_ = -1;  // nodes of the graph until the step is aborted; -1: not aborted

  // The step, by row.
  std::vector<llama_token> token_;
  std::vector<llama_pos> position_;
  std::vector<std::int32_t> one_;
  std::vector<llama_seq_id> sequence_;
  std::vector<llama_seq_id*> sequences_;
  std::vector<std::int8_t> wanted_;
  std::vector<std::pair<llama_seq_id, llama_pos>> begins_;  // by entry
  std::vector<Sample> samples_;
};

bool LlamaCompute::StateOut(std::int32_t sequence, State& state) {
  try {
    state.resize(llama_state_seq_get_size_ext(context_.get(), sequence, 0));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return llama_state_seq_get_data_ext(context_.get(), state.data(), state.size(), sequence, 0) != 0;
}

bool LlamaCompute::StateIn(const State& state, std::int32_t sequence) {
  return llama_state_seq_set_data_ext(context_.get(), state.data(), state.size(), sequence, 0) != 0;
}

bool LlamaCompute::CopyOut(RequestId request, takt::Blocks count) {
  const std::int32_t sequence = book_.sequence(request);
  const auto tokens =
      book_.tokens(request).first(std::min(book_.tokens(request).size(), static_cast<std::size_t>(count.value)));
  if (sequence < 0 || Strikes(options_.faults.move)) return false;
  Away away;
  try {
    away.tokens.assign(tokens.begin(), tokens.end());
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!StateOut(sequence, away.state)) return false;
  away_[request] = std::move(away);
  book_.SetAway(request, true);
  return true;
}

bool LlamaCompute::CopyIn(RequestId request) {
  const auto found = away_.find(request);
  book_.SetAway(request, false);
  if (found == away_.end()) return false;
  const Away away = std::move(found->second);
  away_.erase(found);
  const std::int32_t sequence = book_.sequence(request);
  if (sequence < 0 || Strikes(options_.faults.move)) return false;
  // The saved state may have more tokens than the kept part, which alone has cells. The other tokens are dropped if
  // they do not fit.
  if (!StateIn(away.state, sequence)) return false;
  Remove(sequence, static_cast<std::int32_t>(away.tokens.size()));
  book_.Publish(request, away.tokens, away.tokens.size());
  return true;
}

void LlamaCompute::Begin(const takt::StepPlan&) {
  token_.clear(), position_.clear(), sequence_.clear(), wanted_.clear(), begins_.clear(), samples_.clear();
}

void LlamaCompute::Add(const takt::PlanEntry& entry, std::span<const std::int32_t> context) {
  const std::int32_t sequence = book_.sequence(entry.request);
  begins_.emplace_back(sequence, entry.position);
  const std::int32_t end = entry.position + entry.tokens;
  for (std::int32_t position = entry.position; position < end; ++position) {
    token_.push_back(context[static_cast<std::size_t>(position)]);
    position_.push_back(position);
    sequence_.push_back(sequence);
    wanted_.push_back(entry.samples() && position == end - 1 ? 1 : 0);
  }
}

std::int32_t LlamaCompute::Decode() {
  if (Strikes(options_.faults.no_room)) return 1;
  nodes_left_ = Strikes(options_.faults.aborted) ? static_cast<std::int64_t>(random_.Below(400)) : -1;
  one_.assign(token_.size(), 1);
  sequences_.clear();
  for (llama_seq_id& sequence : sequence_) sequences_.push_back(&sequence);
  const llama_batch batch = {.n_tokens = static_cast<std::int32_t>(token_.size()),
                             .token = token_.data(),
                             .embd = nullptr,
                             .pos = position_.data(),
                             .n_seq_id = one_.data(),
                             .seq_id = sequences_.data(),
                             .logits = wanted_.data()};
  const std::int32_t code = llama_decode(context_.get(), batch);
  nodes_left_ = -1;
  return code;
}

Computed LlamaCompute::Run() {
  if (token_.empty()) return Computed::kDone;
  if (const std::int32_t code = Decode(); code != 0) {
    // Remove the parts of the batch that were computed, which restores the previous state.
    for (const auto& [sequence, position] : begins_) Remove(sequence, position);
    if (code == 1) book_.DropIdle();  // the counts differ: drop idle sequences
    return code > 0 ? Computed::kNothing : Computed::kBroken;
  }
  for (std::size_t row = 0; row < wanted_.size(); ++row) {
    if (wanted_[row] == 0) continue;
    const float* logits = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(row));
    const float* best = std::max_element(logits, logits + vocab_);
    samples_.push_back({.token = static_cast<std::int32_t>(best - logits), .logit = *best});
  }
  return Computed::kDone;
}

}  // namespace

// ---- the model ------------------------------------------------------------------------------------------------------

absl::StatusOr<Faults> ParseFaults(const std::string& text) {
  Faults faults;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals), number = part.substr(std::min(equals + 1, part.size()));
    double value = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool whole = error == std::errc() && stop == number.data() + number.size();
    if (!whole || !(value >= 0 && value < 1e9)) {
      return absl::InvalidArgumentError(fmt::format("--fault {}: must be NAME=NUMBER", part));
    }
    const bool chance = value <= 1;
    if (name == "no_room" && chance) faults.no_room = value;
    else if (name == "aborted" && chance) faults.aborted = value;
    else if (name == "move" && chance) faults.move = value;
    else if (name == "missing_cells") faults.missing_cells = static_cast<std::int32_t>(value);
    else if (name == "seed") faults.seed = static_cast<std::uint64_t>(value);
    else
      return absl::InvalidArgumentError(
          fmt::format("--fault {}: unknown; expected no_room, aborted or move (0 to 1), missing_cells or seed", part));
  }
  return faults;
}

LlamaModel::LlamaModel(const LlamaOptions& options, llama_model* model, std::int32_t cells)
    : options_(options),
      model_(model),
      cells_(cells),
      name_(std::filesystem::path(options.path).stem().string()),
      text_(std::make_unique<LlamaText>(model)) {}

LlamaModel::~LlamaModel() { llama_model_free(model_); }

absl::StatusOr<std::unique_ptr<LlamaModel>> LlamaModel::Load(const LlamaOptions& options, std::int32_t cells) {
  llama_log_set(Log, nullptr);
  llama_backend_init();
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  llama_model* model = llama_model_load_from_file(options.path.c_str(), params);
  if (model == nullptr) return absl::InvalidArgumentError("--model " + options.path + ": is not a readable model");
  std::unique_ptr<LlamaModel> loaded(new LlamaModel(options, model, cells));
  const bool whole = !llama_model_is_recurrent(model) && !llama_model_is_hybrid(model) &&
                     llama_model_n_swa(model) == 0 && !llama_model_has_encoder(model);
  if (!whole) {
    return absl::InvalidArgumentError("--model " + options.path +
                                      ": recurrent models, encoders and sliding windows are unsupported");
  }
  return loaded;
}

double LlamaModel::parameters() const { return static_cast<double>(llama_model_n_params(model_)); }
std::size_t LlamaModel::vocab() const { return text_->size(); }
std::size_t LlamaModel::max_context() const {
  return static_cast<std::size_t>(std::min(llama_model_n_ctx_train(model_), cells_));
}

absl::StatusOr<std::unique_ptr<serving::ComputedKv>> LlamaModel::Open(const serving::EngineOptions& options) const {
  if (options.overlap) return absl::InvalidArgumentError("--option overlap: unsupported");
  if (!options.retention.empty())
    return absl::InvalidArgumentError("--retention: unsupported: this host counts its KV");
  const auto most = static_cast<std::int32_t>(llama_max_parallel_sequences());
  const std::int32_t sequences =
      options_.sequences > 0 ? options_.sequences : std::min(4 * options.scheduler.max_running, most);
  if (options.scheduler.max_running > sequences) {
    return absl::InvalidArgumentError(
        fmt::format("--max-seqs {}: must be at most --sequences {}", options.scheduler.max_running, sequences));
  }
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(std::max(1, options.gpu_blocks.value - options_.faults.missing_cells));
  params.n_batch = static_cast<std::uint32_t>(options.limits.tokens.value);
  params.n_ubatch = std::min(params.n_batch, static_cast<std::uint32_t>(options_.ubatch));
  params.n_seq_max = static_cast<std::uint32_t>(sequences);
  params.n_outputs_max = std::max(params.n_batch, params.n_seq_max);  // the library reserves outputs for all sequences
  params.n_threads = params.n_threads_batch = static_cast<std::int32_t>(options.threads);
  params.kv_unified = true;
  params.no_perf = true;
  if (options_.no_flash) params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  if (options_.kv_f32) params.type_k = params.type_v = GGML_TYPE_F32;
  llama_context* context = llama_init_from_model(model_, params);
  if (context == nullptr) return absl::ResourceExhaustedError("the library cannot create a context of this size");
  const auto vocab = static_cast<std::int32_t>(text_->size());
  const std::int32_t cells = options.gpu_blocks.value;
  const BookOptions book = {.cells = cells,
                            .sequences = static_cast<std::int32_t>(llama_n_seq_max(context)),
                            .lanes = options.scheduler.max_running,
                            .prefix_cache = options.prefix_cache,
                            .saved_tokens = options_.saved_cells >= 0 ? options_.saved_cells : 4 * cells};
  return std::make_unique<LlamaCompute>(options_, context, vocab, book);
}

}  // namespace llama_host
