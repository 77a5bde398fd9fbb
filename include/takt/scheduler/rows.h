// BasicScheduler, continued: the rows of a plan.
#ifndef TAKT_SCHEDULER_ROWS_H_
#define TAKT_SCHEDULER_ROWS_H_

#include "takt/basic_scheduler.h"

namespace takt {

// Whether rows may stand: no policy is to be told of each step, and no oracle to be asked for each block.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::MayStand() const {
  return kv_.oracle == nullptr && kv_.block_tokens <= kMostBlockTokens && !TellsOfSteps();
}

// What becomes of a row of the standing part that stands no more.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::WhatBecameOf(const Row& row) const -> Disturbed {
  if (row.state == RowState::kFree || row.state == RowState::kLeaving) return Disturbed::kGone;
  if (row.state == RowState::kMoving) return Disturbed::kQuiet;
  const bool at_cap = row.in_flight != 0 && !row.prefilling && row.expected >= row.cap;  // its last token is in flight
  return at_cap && row.sequences == Sequences(table_[row.slot]) ? Disturbed::kQuiet : Disturbed::kToPlan;
}

// Where among the first of the order the lanes are that are disturbed, in order. False where there are many; else the
// standing part ends before the first that is to be planned like any other.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::FindGaps() {
  std::vector<std::uint32_t>& disturbed = running_.disturbed();
  if (disturbed.size() > kMostGaps) return false;
  const std::vector<std::uint32_t>& order = running_.order();
  std::size_t end = running_.front();
  draft_.n_gaps = 0;
  for (const std::uint32_t lane : disturbed) {
    const std::size_t place = internal::PlaceOf(std::span(order).first(running_.front()), lane);
    const Disturbed what = WhatBecameOf(running_.Stored(lane));
    if (what == Disturbed::kToPlan) end = std::min(end, place);
    draft_.gaps[draft_.n_gaps++] = {place, what == Disturbed::kGone};
  }
  const auto first = draft_.gaps.begin();
  std::ranges::sort(first, first + draft_.n_gaps, {}, &Gap::place);
  if (end < running_.front()) {
    while (draft_.n_gaps > 0 && draft_.gaps[draft_.n_gaps - 1].place >= end) --draft_.n_gaps;
    running_.StandNoMoreFrom(end);
    disturbed.clear();
    for (std::size_t i = 0; i < draft_.n_gaps; ++i) disturbed.push_back(order[draft_.gaps[i].place]);
  }
  return true;
}

// The rows that stand, all at once: their entries are those of the last plan, a token further. How many places of the
// order that were; those of rows that have left drop out.
template <RankPolicy Policy, PausePolicy Pause>
std::size_t BasicScheduler<Policy, Pause>::PlanStanding() {
  const auto give_up = [this] {
    running_.StandNoMoreFrom(0);
    return std::size_t{0};
  };
  if (running_.front() == 0) return 0;
  if (!MayStand() || counts_.seqs > budget_.limits.max_seqs) return give_up();
  do {
    if (!FindGaps() || std::cmp_greater(running_.front() - draft_.n_gaps, budget_.tokens)) return give_up();
  } while (running_.StopAtCaps());
  const std::size_t front = running_.front();
  if (front == draft_.n_gaps) return give_up();
  if (const std::int32_t blocks = running_.growing(); blocks > 0) {
    if (kv_.ledger.free() < blocks) return give_up();
    kv_.ledger.Allocate(blocks);
  }

  std::vector<std::uint32_t>& order = running_.order();
  PlanEntry* to = draft_.entries;
  const PlanEntry* from = draft_.last;
  std::size_t kept = 0, at = 0;
  running_.disturbed().clear();
  for (std::size_t i = 0; i <= draft_.n_gaps; ++i) {
    const bool last = i == draft_.n_gaps;
    const std::size_t end = last ? front : draft_.gaps[i].place;
    const std::size_t n = end - at;
    TAKT_ASSERT(n == 0 || (from->lane == order[at] && (from + n - 1)->lane == order[end - 1]));
    if (to != from) std::copy(from, from + n, to);
    for (std::size_t e = 0; e < n; ++e) ++to[e].position;
    if (kept != at) std::copy(order.data() + at, order.data() + end, order.data() + kept);
    to += n, from += n, kept += n;
    if (last) break;
    if (from->lane == order[end]) ++from;  // it was planned the last time
    if (!draft_.gaps[i].gone) {
      order[kept++] = order[end];
      running_.disturbed().push_back(order[end]);
    }
    at = end + 1;
  }
  draft_.planned = static_cast<std::size_t>(to - draft_.entries);
  draft_.of->standing = draft_.planned;
  draft_.of->standing_plan = running_.PlanStanding(draft_.step);
  budget_.tokens -= static_cast<std::int32_t>(draft_.planned);
  running_.SetFront(kept);
  return front;
}

// All rows in the order of admission; those that have left drop out of the order on the way.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanRunning() {
  running_.BeginWalk();
  const std::size_t stood = PlanStanding();
  std::vector<std::uint32_t>& order = running_.order();
  std::size_t kept = running_.front();
  std::size_t planned = draft_.planned;
  const bool may_stand = MayStand();
  std::int32_t budget = budget_.tokens;
  const std::uint16_t step = draft_.step;
  const bool crowded = counts_.seqs > budget_.limits.max_seqs;  // the limit has fallen: not all may run
  for (std::size_t i = stood; i < order.size(); ++i) {
    const std::uint32_t lane = order[i];
    Row& row = running_.Stored(lane);  // stands not
    const std::int32_t n = row.sequences;
    if (row.state == RowState::kSteady && n <= budget && !crowded &&
        (row.scheduled + n <= row.ceiling || (row.expected < row.cap && Grow(row)))) [[likely]] {
      order[kept++] = lane;
      draft_.entries[planned++] = {row.request, lane, n, row.scheduled, 0, PlanEntry::kSamples};
      row.scheduled += n;
      row.expected += n;
      row.in_flight |= step;
      ++row.steps;
      budget -= n;
      if (kept == running_.front() + 1 && n == 1 && may_stand) running_.Stand(lane);
    } else if (row.state != RowState::kFree && row.state != RowState::kLeaving) {
      order[kept++] = lane;
      draft_.planned = planned, budget_.tokens = budget;
      PlanRow(lane);
      planned = draft_.planned, budget = budget_.tokens;
    }
  }
  order.resize(kept);
  draft_.planned = planned, budget_.tokens = budget;
  draft_.plan->tokens = {std::max(budget_.limits.tokens.value, 0) - budget};
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanPrefills() {
  running_.StandNoMoreFrom(0);
  running_.BeginWalk();
  std::erase_if(running_.order(), [this](std::uint32_t lane) {
    const RowState state = running_[lane].state;
    return state == RowState::kFree || state == RowState::kLeaving;
  });
  for (std::size_t i = 0; i < running_.order().size(); ++i) {
    const std::uint32_t lane = running_.order()[i];
    if (running_[lane].prefilling) PlanRow(lane);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanDecodes() {
  for (std::size_t i = 0; i < running_.order().size(); ++i) {
    const std::uint32_t lane = running_.order()[i];
    const Row& row = running_[lane];
    const bool planned = (row.in_flight & draft_.step) != 0;  // in this step's first pass
    if (!row.prefilling && !planned) PlanRow(lane);
  }
}

// One row, whatever its state, with a token for each of its sequences; leaves it out if nothing can be done for it in
// this step. A prompt waits for PlanPrompts, and drafts wait for PlanDrafts: all rows get their own tokens first.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanRow(std::uint32_t lane) {
  Row& row = running_[lane];
  if (!Runs(row)) return;
  Record& record = table_[row.slot];
  if (row.sequences != Sequences(record)) {
    if (row.in_flight > 0) return;
    Shrink(row, record);
  }
  Refresh(row, record);
  if (row.known >= row.cap) {
    if (row.in_flight > 0) return;  // a step before its last one, committed late; its KV may be lost meanwhile
    draft_.displaced = true;
    return EndAtCap(row.slot);
  }
  if (row.left_out) return;
  if (row.prefilling) {
    draft_.prompts.push_back({lane, 0});
    return;
  }
  const std::int32_t n = row.expected - row.scheduled;
  if (n <= 0 || n > budget_.tokens || Crowds(row)) return;
  if (row.expected >= row.cap) return;  // its last token is in flight
  if (row.scheduled + n > row.capacity && !Room(lane, row.scheduled + n)) return;
  const std::int32_t drafts = row.sequences == 1 ? +row.drafts : 0;
  Emit(lane, n, 0);
  if (drafts > 0) draft_.offers.push_back({draft_.planned - 1, lane, drafts, drafts});
}

// The next chunk of a prompt that has started, as large as what is left allows. False: too little is left for any.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::PlanPrompt(std::uint32_t lane) {
  const Row& row = running_.Stored(lane);  // it does not stand
  if (!Runs(row) || Crowds(row)) return true;
  const Request& r = table_[row.slot].state.request;
  const std::int32_t left = row.expected - row.scheduled, n = budget_.Chunk(r, row.scheduled, left);
  draft_.crowded |= n == 0 && left > 0 && budget_.HasRoom() && budget_.Fits(r, row.scheduled, left);
  if (n <= 0) return false;
  if (row.scheduled + n <= row.capacity || Room(lane, row.scheduled + n)) Emit(lane, n, PlanEntry::kPrefill);
  return true;
}

// Prompts that have started, once the rows that decode have their tokens. Prompts that must be computed whole come
// first. A prompt that cannot end in this step leaves room to other prompts, running or waiting: its chunk comes after
// admissions, from its share and all that the others have left (PlanLongPrompts).
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanPrompts() {
  std::vector<Prompt>& prompts = draft_.prompts;
  bool whole_waits = false;
  std::erase_if(prompts, [&](const Prompt& prompt) {
    const Row& row = running_.Stored(prompt.lane);
    if (!Runs(row)) return true;  // it gave way to a row that decodes
    const Request& r = table_[row.slot].state.request;
    const std::int32_t whole = r.prompt_tokens.value - row.scheduled;
    if (r.chunkable || whole <= 0) return false;
    if (!PlanPrompt(prompt.lane)) whole_waits |= budget_.WouldFit(whole);
    return true;
  });
  const bool others_wait = !queue_.empty() && !whole_waits;
  const bool crowded = counts_.seqs > budget_.limits.max_seqs;  // the limit has fallen: those that came first run
  const std::int32_t share = budget_.ShareOfPrompt(crowded ? 1 : prompts.size() + (others_wait ? 1 : 0));
  std::size_t kept = 0;
  for (const Prompt& prompt : prompts) {
    const Row& row = running_.Stored(prompt.lane);
    const std::int32_t rest = row.expected - row.scheduled, left = budget_.ForPrompts();
    std::int32_t aside = 0;
    if (rest <= left || share >= left) {
      if (PlanPrompt(prompt.lane) || kept == 0) continue;  // PlanLongPrompts tries it again
    } else {
      aside = budget_.LeastChunk(table_[row.slot].state.request, row.scheduled, rest, share);
      budget_.SetAside(aside, true);
      if (aside > 0) budget_.shortest_rest = std::min(budget_.shortest_rest, rest);
    }
    prompts[kept++] = {prompt.lane, aside};
  }
  prompts.resize(kept);
  // No request starts before a prompt that must be computed whole, if it fits an empty step.
  if (whole_waits) budget_.prefill = 0;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanLongPrompts() {
  std::erase_if(draft_.prompts, [this](const Prompt& prompt) {
    budget_.GiveBack(prompt.aside, true);
    return PlanPrompt(prompt.lane);
  });
  if (draft_.short_of_kv) {  // other prompts, earlier ones too, get the part of a prompt that lacks memory
    for (const Prompt& prompt : draft_.prompts) PlanPrompt(prompt.lane);
  }
  draft_.prompts.clear();
}

// Drafts take what budget and memory is left at the plan's end. If the tokens do not suffice for all, rows get equal
// parts; the remainder, and blocks, go first to the rows that have waited longest for their turn. O(rows that offer
// drafts), and a sort if they do not all get what they offer.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanDrafts() {
  std::vector<Offer>& offers = draft_.offers;
  const bool short_of_kv = draft_.short_of_kv || draft_.top_waits_for == WaitsFor::kKv;
  std::int32_t spare = short_of_kv ? 0 : std::max(FreeBlocks() - kv_.watermark, 0);
  const auto blocks_for = [this](const Offer& offer) {
    const Row& row = running_.Stored(offer.lane);
    const std::int32_t lacks = offer.tokens - (row.capacity - row.scheduled);
    return lacks > 0 ? (lacks - 1) / kv_.block_tokens + 1 : 0;
  };
  std::int64_t tokens = 0, blocks = 0;
  std::erase_if(offers, [&](Offer& offer) {
    if (draft_.entries[offer.entry].lane == kNoLane) return true;  // its row gave way
    const Row& row = running_.Stored(offer.lane);
    offer.tokens = offer.all = std::min(offer.all, row.cap - row.expected);
    tokens += offer.tokens, blocks += blocks_for(offer);
    return offer.tokens <= 0;
  });
  const bool in_turn = tokens > budget_.tokens || blocks > spare;
  if (in_turn) std::ranges::sort(offers, {}, [this](const Offer& offer) { return draft_.served[offer.lane]; });
  std::array<std::int32_t, 256> rows = {};  // by drafts for which they have memory
  tokens = 0;
  for (Offer& offer : offers) {
    const Row& row = running_.Stored(offer.lane);
    const std::int32_t lacks = blocks_for(offer), gets = round_.Asks(offer.lane) ? 0 : std::min(lacks, spare);
    if (gets < lacks) offer.tokens = row.capacity - row.scheduled + gets * kv_.block_tokens;
    spare -= gets, tokens += offer.tokens;
    ++rows[static_cast<std::size_t>(offer.tokens)];
  }
  std::int32_t part = std::numeric_limits<std::int32_t>::max(), more = 0;  // each; so many rows get one more
  if (tokens > budget_.tokens) {
    part = 0, more = std::max(budget_.tokens, 0);
    for (auto wanting = static_cast<std::int32_t>(offers.size()) - rows[0]; more >= wanting;
         wanting -= rows[static_cast<std::size_t>(part)])
      more -= wanting, ++part;
  }
  for (const Offer& offer : offers) {
    const Row& row = running_.Stored(offer.lane);
    std::int32_t n = std::min(offer.tokens, part);
    if (offer.tokens > part && more > 0) ++n, --more;
    if (row.scheduled + n > row.capacity) SpareRoom(offer.lane, row.scheduled + n);
    if (in_turn && (n == offer.all || n > part)) draft_.served[offer.lane] = ++draft_.turn;
    AddDrafts(draft_.entries[offer.entry], n);
  }
  offers.clear();
}

// Verifies so many more drafts of a row that is planned; fewer if negative.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AddDrafts(PlanEntry& entry, std::int32_t n) {
  Row& row = running_[entry.lane];
  entry.speculative = static_cast<std::uint16_t>(entry.speculative + n);
  row.scheduled += n;
  row.expected += n;
  budget_.tokens -= n;
  draft_.plan->tokens += {n};
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Emit(std::uint32_t lane, std::int32_t tokens, std::uint16_t flags) {
  Row& row = running_[lane];
  const bool samples = row.scheduled + tokens == row.expected;
  if (samples) flags |= PlanEntry::kSamples;
  if (row.steps == 0) {
    flags |= PlanEntry::kAdmitted;
    if (std::exchange(table_[row.slot].gated, false)) flags |= PlanEntry::kGated;
  }
  draft_.entries[draft_.planned++] = {row.request, lane, tokens, row.scheduled, 0, flags};
  row.scheduled += tokens;
  budget_.tokens -= tokens;
  budget_.seqs -= row.sequences;
  draft_.plan->tokens += {tokens};
  if (row.prefilling) budget_.prefill -= tokens;
  if (samples) {
    row.expected += row.sequences;
    row.prefilling = false;
    if (row.sequences == Sequences(table_[row.slot])) row.state = RowState::kSteady;
  }
  row.drafts = 0;
  row.in_flight |= draft_.step;
  ++row.steps;
}

// The entry of a row in the plan being built; null if it has none.
template <RankPolicy Policy, PausePolicy Pause>
PlanEntry* BasicScheduler<Policy, Pause>::EntryOf(std::uint32_t lane) {
  for (; draft_.indexed < draft_.planned; ++draft_.indexed)
    draft_.entry_of_lane[draft_.entries[draft_.indexed].lane] = static_cast<std::uint32_t>(draft_.indexed + 1);
  const std::uint32_t at = draft_.entry_of_lane[lane];
  return at == 0 ? nullptr : &draft_.entries[at - 1];
}

// Takes a row's entry, and what was wished for it, out of the plan being built; false where there is none. Both leave
// gaps, so that taking out many costs no more than a look at each.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Unplan(std::uint32_t lane) {
  PlanEntry* const found = EntryOf(lane);
  if (found == nullptr) return false;
  draft_.entry_of_lane[lane] = 0;
  PlanEntry& entry = *found;
  Row& row = running_[lane];
  if (kv_.oracle != nullptr) {
    if (const auto wish = round_.Withdraw(lane)) WithdrawBlocks(row, *wish);
  }
  const std::int32_t tokens = entry.tokens + entry.speculative;
  row.scheduled -= tokens;
  if (entry.samples()) row.expected -= row.sequences + entry.speculative;
  row.prefilling = entry.prefill();
  if (entry.prefill()) row.state = RowState::kUnsteady, budget_.prefill += entry.tokens;
  --row.steps;
  row.in_flight &= static_cast<std::uint16_t>(~draft_.step);
  budget_.tokens += tokens;
  budget_.seqs += row.sequences;
  draft_.plan->tokens -= {tokens};
  entry.lane = kNoLane;
  return true;
}

// Where entries were taken out of the plan, the others move up.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::CloseGaps() {
  if (draft_.indexed == 0) return;
  std::size_t kept = 0;
  const std::size_t stood = draft_.of->standing;
  for (std::size_t i = 0; i < draft_.planned; ++i) {
    if (draft_.entries[i].lane == kNoLane) {
      draft_.of->standing -= i < stood ? 1u : 0u;
      continue;
    }
    draft_.entry_of_lane[draft_.entries[i].lane] = 0;
    draft_.entries[kept++] = draft_.entries[i];
  }
  draft_.planned = kept;
  draft_.indexed = 0;
}

template <RankPolicy Policy, PausePolicy Pause>
std::uint32_t BasicScheduler<Policy, Pause>::AddRow(Slot slot, std::int32_t start, RowState state) {
  LeaveQueue(slot);
  Record& record = table_[slot];
  record.state.taken = true;
  const Request& r = record.state.request;
  Row row;
  row.request = r.id;
  row.slot = slot;
  row.known = row.expected = record.known;
  row.computed = row.scheduled = start;
  row.blocks = record.blocks;
  row.generated = record.state.generated.value;
  row.sequences = static_cast<std::uint16_t>(r.sequences);
  row.state = state;
  row.capacity = CapacityOf(record, record.blocks);
  Refresh(row, record);
  const std::uint32_t lane = running_.Add(row);
  if (lane >= victims_.keys.size()) {
    victims_.keys.resize(lane + 1), draft_.entry_of_lane.resize(lane + 1), draft_.served.resize(lane + 1);
    round_.ResizeLanes(lane + 1);
  }
  victims_.keys[lane] = queue_.VictimKeyOf(record.state, now_);
  draft_.served[lane] = ++draft_.turn;
  if (victims_.gathered && Runs(row)) victims_.heap.Push(lane, RankOfRow(lane));
  record.lane = lane;
  record.status = RequestStatus::kRunning;
  record.overtaken = record.passed = record.arrived = 0;
  if (Holds()) TurnNotAwaited(record);
  ++counts_.rows;
  counts_.seqs += r.sequences;
  adapters_.Add(r.adapter);
  queue_.Admitted(record.state, now_);
  ++stats_.admitted;
  return lane;
}

// Brings up to date what is derived from a row's other fields.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Refresh(Row& row, const Record& record) {
  if (row.in_flight == 0) row.prefilling = row.generated == 0 || row.known - row.computed != row.sequences;
  row.cap = OutputCap(record);
  row.ceiling = std::min(row.capacity, row.cap - 1);
}

// Known tokens after which nothing more is computed: the host's own cap on output, or what can be counted.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::OutputCap(const Record& record) const {
  const Request& r = record.state.request;
  if (r.max_output_tokens.value == 0) return internal::kMostContext;
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(internal::kMostContext, std::int64_t{r.prompt_tokens.value} + record.state.returned.value +
                                                         std::int64_t{r.sequences} * r.max_output_tokens.value));
}

// What is in flight for this row does not count.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Void(Row& row) {
  stats_.tokens_void += static_cast<std::uint64_t>(row.scheduled - row.computed);
  row.in_flight &= static_cast<std::uint16_t>(~Row::kCounting);
  // A request that ended without a token may have done so before the result of the step that computes what was known.
  row.computed = std::min(row.computed, row.known);
  row.scheduled = row.computed;
  row.expected = row.known;
}

// Takes sequences that have ended out of a row; no step in flight may name it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Shrink(Row& row, Record& record) {
  const std::int32_t left = Sequences(record);
  const std::int32_t base = row.known - row.sequences * row.generated;
  const std::int32_t behind = row.known - row.computed;
  counts_.seqs -= row.sequences - left;
  row.known = base + left * row.generated;
  // Decoding, each sequence lacks its last token; recomputing, the share that is there is kept.
  row.computed = behind == row.sequences ? row.known - left
                 : row.computed <= base  ? row.computed
                                         : base + (row.computed - base) / row.sequences * left;
  row.sequences = static_cast<std::uint16_t>(left);
  row.scheduled = row.computed;
  row.expected = row.known;
  record.known = row.known;
  record.state.generated = {row.generated};
  if (Counts()) {
    const std::int32_t blocks = std::min(row.blocks, BlocksFor(record));
    kv_.ledger.Free(row.blocks - blocks);
    row.blocks = blocks;
  }
  row.capacity = CapacityOf(record, row.blocks);
  Refresh(row, record);
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_ROWS_H_
