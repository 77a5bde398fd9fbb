// A bounded table of records of workflow branches, which is fair to tenants when it is full.
#ifndef TAKT_BASE_BRANCH_TABLE_H_
#define TAKT_BASE_BRANCH_TABLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/base/age_list.h"
#include "takt/base/id.h"
#include "takt/base/id_map.h"
#include "takt/base/random.h"
#include "takt/base/slot_table.h"

namespace takt {

// A branch of a workflow and its tenant.
struct BranchName {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  TenantId tenant = {};  // tenant of the workflow's requests; none: they have no tenant
};

// Base class of the records of BranchTable. Only the table changes it.
struct BranchRecord {
  BranchName name = {};
  std::size_t share = 0;  // index of the share that counts the record
  bool kept = false;  // true: the record is evicted after all other records of its share
  Slot flow = kNoSlot;  // slot of the record's workflow
  Slot alike = kNoSlot;  // next record whose name has the same hash
  AgeLink branches = {};  // links in the list of the workflow's records, newest first
  AgeLink age = {};  // links in the list of the share's records
};

struct BranchHash {
  std::uint64_t key = 0;  // secret key of the hash
  std::uint64_t operator()(WorkflowId workflow, std::uint64_t branch) const {
    return Mix64(Mix64(workflow.value ^ key) + branch);
  }
};

// Names are compared in full, so a client cannot reach another client's records by its choice of numbers. Each record
// counts in one share:
//   - Each owner that has come back has its own share. An owner is a tenant, or a workflow without a tenant.
//   - All other owners have one common share, so a client gains nothing from new names.
// If the table is full, the oldest record of the largest share is evicted (Crowded), kept records last. At most kShares
// owners have their own share. An owner keeps its share while it has more than 1 / (kShares + 1) of the returns (Misra
// and Gries, Finding repeated elements, 1982), or until kMostWeight returns of others.
//
// Operations are O(1), except Crowded, O(kShares), and the loss of a share, O(kShares + records of the owner). Nothing
// is allocated within the reserved size.
template <class T, class Hash = BranchHash>
class BranchTable {
 public:
  static constexpr std::size_t kShares = 256;
  static constexpr std::size_t kCommon = kShares;  // share of all other owners
  static constexpr std::size_t kNoShare = SIZE_MAX;

  BranchTable() : owners_(kShares) {}

  void KeyHashes(std::uint64_t seed) {
    hash_.key = Mix64(seed);
    index_.SetKey(Mix64(seed + 1)), flows_.KeyHashes(Mix64(seed + 2)), owners_.SetKey(Mix64(seed + 3));
  }
  // Reserves room for n more records; capacity grows by doubling.
  void MakeRoom(std::size_t n) {
    if (n <= records_.room()) return;
    const std::size_t all = std::max(records_.slots() + n, 2 * records_.capacity());
    index_.Reserve(all), flows_.Reserve(all), records_.Reserve(all);
  }

  std::size_t size() const { return size_; }
  std::size_t slots() const { return records_.slots(); }
  std::size_t capacity() const { return records_.capacity(); }
  bool Has(Slot i) const { return records_[i].share != kNoShare; }  // Returns true if the slot is in use.
  T& operator[](Slot i) { return records_[i]; }
  const T& operator[](Slot i) const { return records_[i]; }

  // Returns kNoSlot if there is no such record.
  Slot Find(WorkflowId workflow, std::uint64_t branch) const {
    Slot i = index_.Find(hash_(workflow, branch));
    while (i != kNoSlot && !Is(i, workflow, branch)) i = records_[i].alike;
    return i;
  }

  // Inserts a record as the newest of its share. `record.name` must be new.
  Slot Insert(T record) {
    const Slot i = records_.Take();
    T& r = records_[i] = std::move(record);
    const std::uint64_t hash = hash_(r.name.workflow, r.name.branch);
    if (const Slot first = index_.Find(hash); first == kNoSlot) index_.Insert(hash, i);
    else r.alike = std::exchange(records_[first].alike, i);
    Slot f = flows_.Find(r.name.workflow);
    if (f == kNoSlot) f = flows_.Insert(r.name.workflow, {});
    r.flow = f;
    r.branches = {kNoSlot, flows_[f].newest};
    if (flows_[f].newest != kNoSlot) records_[flows_[f].newest].branches.older = i;
    flows_[f].newest = i;
    ++flows_[f].branches;
    ++size_;
    Join(i);
    return i;
  }

  void Erase(Slot i) {
    Leave(i);
    T& r = records_[i];
    const std::uint64_t hash = hash_(r.name.workflow, r.name.branch);
    if (Slot before = index_.Find(hash); before != i) {
      while (records_[before].alike != i) before = records_[before].alike;
      records_[before].alike = r.alike;
    } else {
      index_.Erase(hash);
      if (r.alike != kNoSlot) index_.Insert(hash, r.alike);
    }
    Flow& flow = flows_[r.flow];
    (r.branches.older == kNoSlot ? flow.newest : records_[r.branches.older].branches.newer) = r.branches.newer;
    if (r.branches.newer != kNoSlot) records_[r.branches.newer].branches.older = r.branches.older;
    if (--flow.branches == 0) flows_.Erase(r.flow, r.name.workflow);
    r.alike = kNoSlot, r.share = kNoShare;
    records_.Give(i);
    --size_;
  }

  // Marks a record as used again by this tenant, which makes it the newest of its share.
  void Use(Slot i, TenantId tenant) {
    Leave(i);
    records_[i].name.tenant = tenant;
    Join(i);
  }
  // Records that the owner of this name has come back. Returns the share that it took from another owner, or kNoShare.
  std::size_t Returned(const BranchName& name) {
    const Owner owner = OwnerOf(name);
    const std::uint64_t hash = HashOf(owner);
    const Slot own = owners_.Find(hash);
    if (own != kNoSlot) {
      Share& s = shares_[own];
      if (s.owner == owner) s.weight = std::min(s.weight + 1, kMostWeight);
      return kNoShare;
    }
    const auto all = std::ranges::subrange(shares_.begin(), shares_.begin() + kShares);
    const auto free = std::ranges::find(all, 0u, &Share::weight);
    if (free == all.end()) {
      for (Share& s : all) --s.weight;
      return kNoShare;
    }
    const auto share = static_cast<std::size_t>(free - all.begin());
    if (free->taken) owners_.Erase(HashOf(free->owner));
    for (AgeList* list : {&free->kept, &free->others}) {
      while (!list->empty()) {
        const Slot i = list->oldest();
        Leave(i);
        Join(i, kCommon);
      }
    }
    free->owner = owner, free->weight = 1, free->taken = true;
    owners_.Insert(hash, static_cast<Slot>(share));
    return share;
  }

  // Sets whether the record is evicted after the other records of its share.
  void Keep(Slot i, bool kept) {
    if (records_[i].kept == kept) return;
    Leave(i);
    records_[i].kept = kept;
    Join(i, records_[i].share);
  }

  // Returns the record to evict: the oldest of the largest share. kNoSlot if the table is empty.
  Slot Crowded() const {
    const Share& most = *std::ranges::max_element(shares_, {}, [](const Share& s) { return s.size(); });
    return most.others.empty() ? most.kept.oldest() : most.others.oldest();
  }

  std::size_t BranchesOf(Slot i) const { return flows_[records_[i].flow].branches; }  // of the record's workflow
  // Returns the tenant's share that counts the record, or kCommon.
  std::size_t TenantShareOf(Slot i) const { return OfTenant(records_[i].share) ? records_[i].share : kCommon; }
  // Returns the number of records in a tenant's share; kCommon: the number of records in no tenant's share.
  std::size_t TenantShareSize(std::size_t share) const {
    return share == kCommon ? size_ - of_tenants_ : shares_[share].size();
  }

  // Calls each(slot) for each branch of the workflow, newest first. `each` may erase its record.
  template <class Each>
  void ForEachBranch(WorkflowId workflow, Each&& each) const {
    const Slot f = flows_.Find(workflow);
    if (f == kNoSlot) return;
    for (Slot next, i = flows_[f].newest; i != kNoSlot; i = next) {
      next = records_[i].branches.newer;
      each(i);
    }
  }

 private:
  static constexpr std::uint32_t kMostWeight = 1024;

  struct Flow {
    Slot newest = kNoSlot;
    std::size_t branches = 0;
  };
  struct Owner {
    TenantId tenant = {};
    WorkflowId workflow = {};  // workflow of an owner without a tenant
    friend bool operator==(const Owner&, const Owner&) = default;
  };
  struct Share {
    Owner owner = {};
    std::uint32_t weight = 0;
    bool taken = false;
    AgeList others, kept;
    std::size_t size() const { return others.size() + kept.size(); }
  };

  bool Is(Slot i, WorkflowId workflow, std::uint64_t branch) const {
    return records_[i].name.workflow == workflow && records_[i].name.branch == branch;
  }
  static Owner OwnerOf(const BranchName& name) {
    return name.tenant ? Owner{name.tenant, {}} : Owner{{}, name.workflow};
  }
  // If the hashes of two owners collide, the second owner gets no share of its own.
  std::uint64_t HashOf(const Owner& owner) const { return BranchHash{hash_.key}(owner.workflow, owner.tenant.value); }

  AgeList& ListOf(Slot i) {
    Share& s = shares_[records_[i].share];
    return records_[i].kept ? s.kept : s.others;
  }
  void Join(Slot i) {
    const Owner owner = OwnerOf(records_[i].name);
    const Slot own = owners_.Find(HashOf(owner));
    Join(i, own != kNoSlot && shares_[own].owner == owner ? own : kCommon);
  }
  void Join(Slot i, std::size_t share) {
    records_[i].share = share;
    ListOf(i).Append(records_, i);
    of_tenants_ += OfTenant(share) ? 1u : 0u;
  }
  void Leave(Slot i) {
    ListOf(i).Remove(records_, i);
    of_tenants_ -= OfTenant(records_[i].share) ? 1u : 0u;
  }
  bool OfTenant(std::size_t share) const { return bool(shares_[share].owner.tenant); }

  Hash hash_;
  IdMap index_;  // map from the hash of a name to the first record with that hash
  SlotTable<T> records_;
  IdTable<WorkflowId, Flow> flows_;
  IdMap owners_;
  std::array<Share, kShares + 1> shares_ = {};
  std::size_t size_ = 0, of_tenants_ = 0;
};

}  // namespace takt

#endif  // TAKT_BASE_BRANCH_TABLE_H_
